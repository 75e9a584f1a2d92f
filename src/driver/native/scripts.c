/* SPDX-License-Identifier: Apache-2.0 */
#include "driver/native/scripts.h"

#include <stdio.h>

#include "base/clock.h"

#define GOOD_NS INT64_C(1000000000)

void scripts_open(struct scripts *s)
{
    *s = (struct scripts){ .count = 0 };
    (void)pthread_mutex_init(&s->lock, NULL);
}

void scripts_close(struct scripts *s)
{
    while (s->count > 0)
        script_free(s->kept[--s->count]);
    (void)pthread_mutex_destroy(&s->lock);
}

static bool is_good(const struct script *script, const struct plan *plan)
{
    return str_eq(script->plan_id, plan->id) &&
           clock_now_ns() - script->written_ns < GOOD_NS;
}

struct script *scripts_take(struct scripts *s, const struct plan *plan)
{
    struct script *script = NULL;

    (void)pthread_mutex_lock(&s->lock);
    if (s->count > 0)
        script = s->kept[--s->count];
    (void)pthread_mutex_unlock(&s->lock);
    if (script && !is_good(script, plan)) {
        script_free(script);
        script = NULL;
    }
    return script;
}

void scripts_give(struct scripts *s, struct script *script, const struct plan *plan)
{
    bool kept = false;

    if (script->plan_id[0] == '\0') {
        (void)snprintf(script->plan_id, sizeof(script->plan_id), "%s", plan->id);
        script->written_ns = clock_now_ns();
    }
    (void)pthread_mutex_lock(&s->lock);
    kept = s->count < SCRIPTS_MAX;
    if (kept)
        s->kept[s->count++] = script;
    (void)pthread_mutex_unlock(&s->lock);
    if (!kept)
        script_free(script);
}
