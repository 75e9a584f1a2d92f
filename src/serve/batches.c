/* SPDX-License-Identifier: Apache-2.0 */
#include "serve/batches.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/result.h"

#define SECONDS ((int64_t)(BATCHES_RATE_MS / 1000))

int batches_init(struct batches *b)
{
    *b = (struct batches){ 0 };
    return pthread_mutex_init(&b->lock, NULL) == 0 ? 0 : -1;
}

void batches_done(struct batches *b)
{
    (void)pthread_mutex_destroy(&b->lock);
}

bool batches_is_name(const char *name)
{
    static const char known[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                "0123456789._-";
    size_t len = strlen(name);

    return len > 0 && len < BATCHES_NAME && strspn(name, known) == len;
}

/* With the lock held: that batch, or in its place a new one. */
static struct batches_one *find(struct batches *b, const char *caller, const char *name,
                                int64_t now_ms)
{
    struct batches_one *oldest = &b->all[0];
    struct batches_one *own = NULL; /* the oldest of this caller's */
    unsigned count = 0;

    for (size_t i = 0; i < BATCHES_MOST; i++) {
        struct batches_one *one = &b->all[i];
        bool is_own = one->last_ms && strcmp(one->caller, caller) == 0;

        if (is_own && strcmp(one->name, name) == 0)
            return one;
        count += is_own;
        if (is_own && (!own || one->last_ms < own->last_ms))
            own = one;
        if (one->last_ms < oldest->last_ms)
            oldest = one;
    }
    if (count >= BATCHES_OF_ONE)
        oldest = own;
    *oldest = (struct batches_one){ .first_ms = now_ms };
    (void)snprintf(oldest->caller, sizeof(oldest->caller), "%s", caller);
    (void)snprintf(oldest->name, sizeof(oldest->name), "%s", name);
    return oldest;
}

void batches_add(struct batches *b, const char *caller, const char *name,
                 int64_t now_ms, enum vial_verdict verdict)
{
    int64_t second = now_ms / 1000;
    size_t at = (size_t)(second % SECONDS);
    struct batches_one *one;

    (void)pthread_mutex_lock(&b->lock);
    one = find(b, caller, name, now_ms);
    one->last_ms = now_ms;
    one->verdicts[verdict]++;
    if (one->second[at] != second) {
        one->second[at] = second;
        one->ended[at] = 0;
    }
    one->ended[at]++;
    (void)pthread_mutex_unlock(&b->lock);
}

/* Of the last seconds; of a batch that is younger, of its life. */
static double rate(const struct batches_one *one, int64_t now_ms)
{
    double ended = 0;
    double seconds = (double)(now_ms - one->first_ms) / 1000;

    for (size_t i = 0; i < (size_t)SECONDS; i++)
        if (one->second[i] > now_ms / 1000 - SECONDS)
            ended += one->ended[i];
    if (seconds > (double)SECONDS)
        seconds = (double)SECONDS;
    return ended / (seconds < 1 ? 1 : seconds);
}

static json_t *one_json(const struct batches_one *one, int64_t now_ms)
{
    json_t *verdicts = json_object();
    uint64_t runs = 0;

    for (size_t i = 0; result_verdicts[i]; i++) {
        runs += one->verdicts[i];
        if (one->verdicts[i])
            (void)json_object_set_new(verdicts, result_verdicts[i],
                                      json_integer((json_int_t)one->verdicts[i]));
    }
    return json_pack("{s:s, s:s, s:I, s:o, s:f, s:f, s:b}", "name", one->name, "caller",
                     one->caller, "runs", (json_int_t)runs, "verdicts", verdicts,
                     "per_second", rate(one, now_ms), "seconds",
                     (double)(one->last_ms - one->first_ms) / 1000, "active",
                     now_ms - one->last_ms < BATCHES_RATE_MS);
}

static int newest_first(const void *a, const void *b)
{
    const struct batches_one *x = a;
    const struct batches_one *y = b;

    return (x->last_ms < y->last_ms) - (x->last_ms > y->last_ms);
}

json_t *batches_json(struct batches *b, const char *caller, int64_t now_ms)
{
    struct batches_one *all = calloc(BATCHES_MOST, sizeof(*all));
    json_t *list = json_array();

    if (!all || !list) {
        free(all);
        json_decref(list);
        return NULL;
    }
    (void)pthread_mutex_lock(&b->lock);
    memcpy(all, b->all, BATCHES_MOST * sizeof(*all));
    (void)pthread_mutex_unlock(&b->lock);
    qsort(all, BATCHES_MOST, sizeof(*all), newest_first);
    for (size_t i = 0; i < BATCHES_MOST && all[i].last_ms; i++)
        if (!caller || strcmp(caller, all[i].caller) == 0)
            (void)json_array_append_new(list, one_json(&all[i], now_ms));
    free(all);
    return list;
}
