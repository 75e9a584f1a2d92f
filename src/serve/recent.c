/* SPDX-License-Identifier: Apache-2.0 */
#include "serve/recent.h"

#include <stdlib.h>
#include <string.h>

int recent_init(struct recent *r)
{
    *r = (struct recent){ .runs = calloc(RECENT_RUNS, sizeof(*r->runs)) };
    if (!r->runs)
        return -1;
    return pthread_mutex_init(&r->lock, NULL) == 0 ? 0 : -1;
}

void recent_done(struct recent *r)
{
    free(r->runs);
    (void)pthread_mutex_destroy(&r->lock);
}

void recent_add(struct recent *r, int64_t now_ms, double ms)
{
    int64_t slot = now_ms / RECENT_SLOT_MS;
    size_t at = (size_t)(slot % RECENT_SLOTS);

    (void)pthread_mutex_lock(&r->lock);
    r->runs[r->total++ % RECENT_RUNS] = (struct recent_run){ slot, (float)ms };
    if (r->counts[at].slot != slot) {
        r->counts[at].slot = slot;
        r->counts[at].ended = 0;
    }
    r->counts[at].ended++;
    (void)pthread_mutex_unlock(&r->lock);
}

static int by_slot(const void *a, const void *b)
{
    const struct recent_run *x = a;
    const struct recent_run *y = b;

    return (x->slot > y->slot) - (x->slot < y->slot);
}

static int by_time(const void *a, const void *b)
{
    const struct recent_run *x = a;
    const struct recent_run *y = b;

    return (x->ms > y->ms) - (x->ms < y->ms);
}

/* The smallest of COUNT sorted times that PERCENT of them do not exceed. */
static json_t *quantile(const struct recent_run *sorted, size_t count, size_t percent)
{
    return count ? json_real((double)sorted[(count * percent + 99) / 100 - 1].ms)
                 : json_null();
}

/* With the lock held: those that ended in slots FIRST to LAST, copied to OUT. A slot of
 * which some are no longer held is left out, so that what is told is exact. */
static size_t copy_runs(const struct recent *r, int64_t first, int64_t last,
                        struct recent_run *out)
{
    size_t held = r->total < RECENT_RUNS ? (size_t)r->total : RECENT_RUNS;
    size_t count = 0;

    if (r->total > RECENT_RUNS && r->runs[r->total % RECENT_RUNS].slot >= first)
        first = r->runs[r->total % RECENT_RUNS].slot + 1;
    for (size_t i = 0; i < held; i++)
        if (r->runs[i].slot >= first && r->runs[i].slot <= last)
            out[count++] = r->runs[i];
    return count;
}

/* Of RUNS sorted by slot, the first that SLOT tells of; it tells of those before END.
 * These are its own, and whole slots before it while they are too few. */
static size_t told_from(const struct recent_run *runs, size_t end, int64_t slot)
{
    size_t from = end;

    while (from > 0) {
        int64_t before = runs[from - 1].slot;
        bool begun = before == slot || (from < end && before == runs[from].slot);

        if (!begun && (end - from >= RECENT_FEW || before <= slot - RECENT_SPAN))
            break;
        from--;
    }
    return from;
}

/* The times that each slot tells, out of COUNT runs sorted by slot. SOME has room for
 * as many. */
static void add_times(json_t *median, json_t *tail, int64_t first,
                      const struct recent_run *runs, size_t count,
                      struct recent_run *some)
{
    size_t end = 0;

    for (int64_t slot = first; slot < first + RECENT_SLOTS; slot++) {
        size_t from, n;

        while (end < count && runs[end].slot == slot)
            end++;
        from = told_from(runs, end, slot);
        n = end - from;
        memcpy(some, runs + from, n * sizeof(*some));
        qsort(some, n, sizeof(*some), by_time);
        (void)json_array_append_new(median, quantile(some, n, 50));
        (void)json_array_append_new(tail, quantile(some, n, 95));
    }
}

/* RUNS has COUNT, and room for twice RECENT_RUNS. */
static json_t *as_json(json_t *ended, uint64_t sum, int64_t first,
                       struct recent_run *runs, size_t count)
{
    json_t *median = json_array();
    json_t *tail = json_array();

    qsort(runs, count, sizeof(*runs), by_slot);
    add_times(median, tail, first, runs, count, runs + RECENT_RUNS);
    qsort(runs, count, sizeof(*runs), by_time);
    return json_pack("{s:i, s:o, s:o, s:o, s:{s:I, s:o, s:o}}", "slot_ms",
                     RECENT_SLOT_MS, "ended", ended, "median_ms", median, "p95_ms",
                     tail, "all", "ended", (json_int_t)sum, "median_ms",
                     quantile(runs, count, 50), "p95_ms", quantile(runs, count, 95));
}

json_t *recent_json(struct recent *r, int64_t now_ms)
{
    int64_t last = now_ms / RECENT_SLOT_MS - 1;
    int64_t first = last - RECENT_SLOTS + 1;
    struct recent_run *runs = calloc(RECENT_RUNS, 2 * sizeof(*runs));
    json_t *ended = json_array();
    json_t *json;
    uint64_t sum = 0;
    size_t count;

    if (!runs || !ended) {
        free(runs);
        json_decref(ended);
        return NULL;
    }
    (void)pthread_mutex_lock(&r->lock);
    for (int64_t slot = first; slot <= last; slot++) {
        size_t at = (size_t)((slot + RECENT_SLOTS) % RECENT_SLOTS);
        uint32_t n = r->counts[at].slot == slot ? r->counts[at].ended : 0;

        (void)json_array_append_new(ended, json_integer(n));
        sum += n;
    }
    count = copy_runs(r, first, last, runs);
    (void)pthread_mutex_unlock(&r->lock);
    json = as_json(ended, sum, first, runs, count);
    free(runs);
    return json;
}
