/* SPDX-License-Identifier: Apache-2.0 */
#include "driver/native/script_cache.h"

#include <stdio.h>

#include "base/clock.h"

#define GOOD_NS INT64_C(1000000000)

void script_cache_open(struct script_cache *s)
{
    *s = (struct script_cache){ .count = 0 };
    (void)pthread_mutex_init(&s->lock, NULL);
}

void script_cache_close(struct script_cache *s)
{
    while (s->count > 0)
        script_free(s->kept[--s->count]);
    (void)pthread_mutex_destroy(&s->lock);
}

/* Takes out the one at AT. */
static struct script *remove_at(struct script_cache *s, unsigned at)
{
    struct script *script = s->kept[at];

    s->kept[at] = s->kept[--s->count];
    return script;
}

static void forget_old(struct script_cache *s)
{
    int64_t now_ns = clock_now_ns();

    for (unsigned i = s->count; i-- > 0;)
        if (now_ns - s->kept[i]->written_ns >= GOOD_NS)
            script_free(remove_at(s, i));
}

struct script *script_cache_take(struct script_cache *s, const struct plan *plan)
{
    struct script *script = NULL;

    (void)pthread_mutex_lock(&s->lock);
    forget_old(s);
    for (unsigned i = s->count; !script && i-- > 0;)
        if (str_eq(s->kept[i]->plan_id, plan->id))
            script = remove_at(s, i);
    (void)pthread_mutex_unlock(&s->lock);
    return script;
}

void script_cache_give(struct script_cache *s, struct script *script,
                       const struct plan *plan)
{
    bool kept = false;

    if (script->plan_id[0] == '\0') {
        (void)snprintf(script->plan_id, sizeof(script->plan_id), "%s", plan->id);
        script->written_ns = clock_now_ns();
    }
    (void)pthread_mutex_lock(&s->lock);
    kept = s->count < SCRIPT_CACHE_MAX;
    if (kept)
        s->kept[s->count++] = script;
    (void)pthread_mutex_unlock(&s->lock);
    if (!kept)
        script_free(script);
}
