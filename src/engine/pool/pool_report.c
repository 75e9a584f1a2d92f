/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/pool/descriptors.h"
#include "engine/pool/stock.h"

static json_t *stock_json(const struct stock *s)
{
    const struct limits *l = &s->plan->limits;

    return json_pack(
        "{s:s, s:s?, s:s?, s:I, s:i, s:b, s:b, s:b, s:b, s:i, s:i, s:I, s:I, s:I, s:I, s:I, s:f, s:I, s:i, "
        "s:s?, s:s?}",
        "driver", s->driver->name, "language", s->plan->language, "image",
        s->plan->image, "memory_bytes", (json_int_t)l->memory_bytes, "pids",
        (int)l->pids, "hatches", s->hatches, "prestarts", s->prestarts, "zygote",
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
