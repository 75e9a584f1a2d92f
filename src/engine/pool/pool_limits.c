/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/pool/pool_limits.h"

#include <dirent.h>
#include <limits.h>
#include <stddef.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "engine/pool/stock.h"

#define LISTED  "/proc/self/fd"
#define WEIGHED (UINT64_C(4) << 20) /* taken for a vessel's size until it is known */

static unsigned limit_now(void)
{
    struct rlimit files;

    if (getrlimit(RLIMIT_NOFILE, &files) < 0 || files.rlim_cur > INT_MAX)
        return INT_MAX;
    return (unsigned)files.rlim_cur;
}

/* The list's own descriptor is counted as well, and so are its two dots. */
static unsigned count_listed(unsigned limit)
{
    DIR *list = opendir(LISTED);
    unsigned count = 0;

    if (!list)
        return limit;
    while (readdir(list)) /* NOLINT(concurrency-mt-unsafe): a list of our own */
        count++;
    (void)closedir(list);
    return count;
}

struct descriptors descriptors_now(void)
{
    struct descriptors d = { .limit = limit_now() };
    struct stat list;

    /* Since Linux 6.2 the list's size is how many there are. */
    if (stat(LISTED, &list) == 0 && list.st_size > 0)
        d.open = (unsigned)list.st_size;
    else
        d.open = count_listed(d.limit);
    return d;
}

/* Counting takes a while where there are many: not while it cannot matter. */
static bool is_within_a_quarter(unsigned held)
{
    return held <= limit_now() / 4 / DESCRIPTORS_EACH;
}

bool descriptors_allow(unsigned held, unsigned making)
{
    struct descriptors d;

    if (is_within_a_quarter(held + 1))
        return true;
    d = descriptors_now();
    return d.open + (making + 1) * DESCRIPTORS_EACH <= d.limit / 2;
}

bool descriptors_are_short(unsigned held)
{
    struct descriptors d;

    if (is_within_a_quarter(held))
        return false;
    d = descriptors_now();
    return d.open > d.limit - d.limit / 4;
}

static uint64_t weight(const struct stock *s)
{
    return s->pss_bytes ? s->pss_bytes : WEIGHED;
}

/* All vessels of a pool that exist: those that are in use, or not yet destroyed, hold
 * descriptors as well. */
static unsigned count_held(const struct pool *p, unsigned *making)
{
    unsigned held = 0;

    *making = 0;
    for (unsigned i = 0; i < p->stock_count; i++) {
        held += p->stocks[i]->idle_count + p->stocks[i]->making +
                atomic_load(&p->stocks[i]->users);
        *making += p->stocks[i]->making;
    }
    return held;
}

const char *stock_lacks(const struct stock *s)
{
    const struct pool *p = s->pool;
    uint64_t total = weight(s);
    unsigned making = 0;
    unsigned held = count_held(p, &making);

    for (unsigned i = 0; i < p->stock_count; i++)
        total +=
            (p->stocks[i]->idle_count + p->stocks[i]->making) * weight(p->stocks[i]);
    if (total > p->memory_bytes)
        return "memory";
    return descriptors_allow(held, making) ? NULL : "descriptors";
}

bool stock_is_too_large(const struct stock *s)
{
    unsigned making = 0;

    return s->idle_count > 0 && descriptors_are_short(count_held(s->pool, &making));
}

static json_t *stock_json(const struct stock *s)
{
    const struct limits *l = &s->plan->limits;

    return json_pack(
        "{s:s, s:s?, s:s?, s:I, s:i, s:b, s:b, s:b, s:b, s:i, s:i, s:I, s:I, s:I, s:I, s:I, s:f, s:I, s:i, "
        "s:s?, s:s?}",
        "driver", s->driver->name, "language", s->plan->language, "image",
        s->plan->image, "memory_bytes", (json_int_t)l->memory_bytes, "pids",
        (int)l->pids, "hatches", s->forks, "prestarts", s->prestarts, "zygote",
        zygote_holder_is_alive(&s->holder), "claimed", s->apart && s->asker, "wanted",
        (int)stock_wanted(s), "idle", (int)s->idle_count, "taken", (json_int_t)s->taken,
        "missed", (json_int_t)s->missed, "lost", (json_int_t)s->lost, "refills",
        (json_int_t)s->refills, "failures", (json_int_t)s->failures, "refill_ms",
        s->refill_ms, "pss_bytes", (json_int_t)s->pss_bytes, "zygotes",
        (int)s->holder.zygotes, "error", s->why.code[0] ? s->why.message : NULL,
        "lacks", s->idle_count < stock_wanted(s) ? stock_lacks(s) : NULL);
}

unsigned pool_waiting(struct pool *p)
{
    unsigned waiting = 0;

    (void)pthread_mutex_lock(&p->lock);
    for (unsigned i = 0; i < p->stock_count; i++)
        if (!p->stocks[i]->ended)
            waiting += (unsigned)p->stocks[i]->idle_count;
    (void)pthread_mutex_unlock(&p->lock);
    return waiting;
}

json_t *pool_json(struct pool *p)
{
    json_t *list = json_array();
    json_t *all = NULL;
    struct descriptors d = descriptors_now();
    uint64_t bytes = 0;

    (void)pthread_mutex_lock(&p->lock);
    for (unsigned i = 0; i < p->stock_count; i++) {
        const struct stock *s = p->stocks[i];

        bytes += s->idle_count * s->pss_bytes;
        if (!s->ended)
            (void)json_array_append_new(list, stock_json(s));
    }
    all = json_pack("{s:I, s:I, s:I, s:I, s:I, s:o}", "idle_bytes", (json_int_t)bytes,
                    "memory_bytes", (json_int_t)p->memory_bytes, "descriptors",
                    (json_int_t)d.open, "descriptors_limit", (json_int_t)d.limit,
                    "unfit", (json_int_t)p->unfit, "shapes", list);
    (void)pthread_mutex_unlock(&p->lock);
    return all;
}
