/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/pool/stock.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/fail.h"
#include "base/thread.h"
#include "driver/meter.h"
#include "engine/pool/pool_key.h"
#include "engine/pool/pool_limits.h"
#include "engine/pool/prestart.h"

#define LACKING      3 /* as many, and another thread helps */
#define HELPERS_MAX  3
#define PATIENT_MS   5
#define TICK_MS      100
#define REST_MS      1000
#define FADE         0.97 /* of the peak, each tick: half of it after 2.3 s */
#define FADED        0.5
#define PRESTART_MS  5000 /* after an interpreter that could not be started ahead */
#define SLOWER       1.01 /* of the quickest refill, with each that is not */
#define SLACK        2    /* more than wanted before any is given up */
#define WEIGH_EACH   64
#define ZYGOTE_TRIES 2
#define MS_NS        INT64_C(1000000)

static bool is_forgotten(const struct stock *s, int64_t now_ns)
{
    return s->pinned == 0 &&
           now_ns - s->used_ns > (int64_t)s->pool->idle_s * 1000 * MS_NS;
}

unsigned stock_wanted(const struct stock *s)
{
    unsigned usual = s->template > s->pool->target ? s->template : s->pool->target;
    unsigned least = s->pinned ? s->pinned : usual;
    unsigned want = (unsigned)(2 * s->peak + 0.5);

    if (is_forgotten(s, clock_now_ns()))
        return 0;
    /* Once is no pattern. */
    if (!s->pinned && s->taken + s->missed < 2)
        return 0;
    want = want > least ? want : least;
    return want < s->pool->ceiling ? want : s->pool->ceiling;
}

void stock_count_taken(struct stock *s)
{
    (void)atomic_fetch_add(&s->users, 1);
    s->taken++;
    s->in_use++;
}

/* By the reaper: the one who used it is on its way to whoever asked. */
void stock_count_over(struct stock *s)
{
    (void)pthread_mutex_lock(&s->pool->lock);
    if (--s->in_use == 0)
        (void)pthread_cond_signal(&s->changed);
    (void)pthread_mutex_unlock(&s->pool->lock);
}

/* Lets go of the lock meanwhile. */
static void give_up(struct stock *s, unsigned at)
{
    struct ready r = s->idle[at];

    s->idle[at] = s->idle[--s->idle_count];
    (void)pthread_mutex_unlock(&s->pool->lock);
    ready_close(&r);
    (void)pthread_mutex_lock(&s->pool->lock);
}

/* What is left of its stay would be too little for a run. */
static bool is_old(const struct vessel *v, int64_t now_ns)
{
    return v->until_ns && v->until_ns - now_ns < POOL_STAY_MS / 2 * MS_NS;
}

static void bury_dead(struct stock *s)
{
    int64_t now_ns = clock_now_ns();

    for (unsigned i = s->idle_count; i-- > 0;) {
        bool quiet;

        if (i >= s->idle_count)
            continue;
        quiet = conversation_is_quiet(s->idle[i].vessel);
        if (quiet && !is_old(s->idle[i].vessel, now_ns))
            continue;
        s->lost += !quiet;
        give_up(s, i);
    }
}

static struct zygote_holder_needs needs_of(const struct stock *s)
{
    const struct vial_engine *e = s->pool->engine;

    return (struct zygote_holder_needs){
        .driver = s->driver,
        .plan = s->plan,
        .options = { .guest_fd = e->guest_fd,
                     .share_dir = e->settings->share_dir,
                     .imports = (const char *const *)s->pool->imports.items },
    };
}

/* A caller that waits for a zygote's next child need not wait for the next zygote. */
static void dismiss(struct stock *s)
{
    (void)pthread_mutex_lock(&s->pool->lock);
    queue_dismiss(&s->queue);
    (void)pthread_mutex_unlock(&s->pool->lock);
}

/* HELD is what the last one that rehearsed has said. */
static void copy_held(struct stock *s, char *to, const char *from)
{
    (void)pthread_mutex_lock(&s->pool->lock);
    memcpy(to, from, PRESTART_SAID);
    (void)pthread_mutex_unlock(&s->pool->lock);
}

static void put_off_prestart(struct stock *s)
{
    (void)pthread_mutex_lock(&s->pool->lock);
    s->prestart_retry_ns = clock_now_ns() + PRESTART_MS * MS_NS;
    (void)pthread_mutex_unlock(&s->pool->lock);
}

static int open_vessel(const struct stock *s, bool forks, struct ready *out,
                       struct vial_error *err)
{
    const struct ready_order order = { .engine = s->pool->engine,
                                       .driver = s->driver,
                                       .shared = s->shared,
                                       .plan = s->plan,
                                       .forks = forks };

    return ready_open(&order, out, err);
}

/* Started for S. The first of all finds out what the others need not, and is not kept:
 * it has had processes before its program. */
static int start_ahead(struct stock *s, struct ready *out, struct vial_error *err)
{
    char held[PRESTART_SAID];
    char said[PRESTART_SAID];
    auto_strv struct strv imports = { 0 };
    struct prestart_order order = {
        .plan = s->plan,
        .share_dir = s->pool->engine->settings->share_dir,
        .held = held,
    };

    strv_copy(&imports, &s->pool->imports);
    strv_copy(&imports, &out->vessel->imports);
    order.imports = (const char *const *)imports.items;
    copy_held(s, held, s->held);
    if (imports.failed)
        return fail_memory(err);
    if (prestart_make(out, &order, said, err) < 0)
        return -1;
    if (strcmp(said, held) == 0)
        return 0;
    copy_held(s, s->held, said);
    memcpy(held, said, sizeof held);
    ready_close(out);
    return open_vessel(s, false, out, err) < 0 ? -1
                                               : prestart_make(out, &order, said, err);
}

/* Without, it is the vessel that waits, as for any other language. */
static int make_prestarted(struct stock *s, struct ready *out, struct vial_error *err)
{
    if (open_vessel(s, false, out, err) < 0)
        return -1;
    if (start_ahead(s, out, err) == 0)
        return 0;
    put_off_prestart(s);
    ready_close(out);
    return open_vessel(s, false, out, err);
}

/* A zygote that fails is replaced; whatever it was, a new one knows nothing of it.
 * Without an interpreter that waits, a vessel still does. */
static int make(struct stock *s, bool ahead, struct ready *out, double *ms,
                struct vial_error *err)
{
    int64_t start_ns = clock_now_ns();
    struct zygote_holder_needs needs = needs_of(s);

    if (ahead) {
        int rc = make_prestarted(s, out, err);

        *ms = clock_ms_between(start_ns, clock_now_ns());
        return rc;
    }
    for (int tries = 0; tries < ZYGOTE_TRIES; tries++) {
        /* Before the vessel: a keeper's vessels know the zygotes that were there
         * before them. */
        if (s->forks)
            zygote_holder_have(&s->holder, &needs, err);
        start_ns = clock_now_ns();
        if (open_vessel(s, s->forks, out, err) < 0)
            return -1;
        if (!s->forks || zygote_holder_fork_into(&s->holder, &needs, out, err) == 0) {
            *ms = clock_ms_between(start_ns, clock_now_ns());
            return 0;
        }
        dismiss(s);
        ready_close(out);
    }
    zygote_holder_put_off(&s->holder);
    return open_vessel(s, false, out, err);
}

static void note_failure(struct stock *s, const struct vial_error *err)
{
    s->failures++;
    s->why = *err;
    backoff_begin(&s->pause);
}

static void note_refill(struct stock *s, double ms, uint64_t pss)
{
    s->refills++;
    backoff_forget(&s->pause);
    if (ms > 0) {
        s->refill_ms = s->refill_ms > 0 ? s->refill_ms * 0.9 + ms * 0.1 : ms;
        s->quick_ms = s->quick_ms > 0 && s->quick_ms < ms ? s->quick_ms * SLOWER : ms;
    }
    if (pss)
        s->pss_bytes = pss;
}

/* Now and then, and when those at rest are together: what they share weighs less for
 * each, the more there are. */
static bool is_worth_weighing(struct stock *s)
{
    int64_t now_ns = clock_now_ns();
    bool rests = s->idle_count + 1 >= s->pool->target &&
                 now_ns - s->weighed_ns > REST_MS * MS_NS;

    if (rests)
        s->weighed_ns = now_ns;
    return rests || s->refills % WEIGH_EACH == 0;
}

static void refill(struct stock *s)
{
    struct pool *p = s->pool;
    struct vial_error err = { 0 };
    struct ready r = { 0 };
    bool weigh = is_worth_weighing(s);
    bool ahead = s->prestarts && clock_now_ns() >= s->prestart_retry_ns;
    double ms = 0;
    uint64_t pss = 0;
    int rc = 0;

    s->making++;
    (void)pthread_mutex_unlock(&p->lock);
    rc = make(s, ahead, &r, &ms, &err);
    if (rc == 0)
        ready_settle(&r);
    if (rc == 0 && weigh)
        pss = weigh_vessel(r.vessel);
    (void)pthread_mutex_lock(&p->lock);
    s->making--;
    if (rc < 0) {
        note_failure(s, &err);
        queue_dismiss(&s->queue);
        return;
    }
    note_refill(s, ms, pss);
    s->template = r.vessel->pool;
    if (err.code[0])
        s->why = err;
    if (queue_serve(&s->queue, &r)) {
        stock_count_taken(s);
        return;
    }
    s->idle[s->idle_count++] = r;
    (void)pthread_cond_broadcast(&p->changed);
}

static bool can_refill(const struct stock *s, unsigned want)
{
    return s->idle_count + s->making < want + s->queue.count &&
           backoff_is_over(&s->pause) && !stock_lacks(s);
}

static void *help(void *context)
{
    struct stock *s = context;
    struct pool *p = s->pool;

    (void)pthread_mutex_lock(&p->lock);
    while (!p->closing && can_refill(s, stock_wanted(s)))
        refill(s);
    s->helpers--;
    p->threads--;
    (void)pthread_cond_signal(&s->changed);
    (void)pthread_cond_broadcast(&p->changed);
    (void)pthread_mutex_unlock(&p->lock);
    return NULL;
}

/* One thread fills as fast as a core goes; with many lacking, others join it: one more
 * than cores, as each waits for its child now and then. */
static void call_help(struct stock *s, unsigned want)
{
    /* The weight of one must be known before there are many. */
    if (s->refills == 0 || s->idle_count + s->making + LACKING > want ||
        s->helpers >= HELPERS_MAX || s->helpers >= s->pool->cores ||
        thread_start_alone(THREAD_STACK, help, s) != 0)
        return;
    s->helpers++;
    s->pool->threads++;
}

static void tick(struct stock *s, int64_t *next_ns)
{
    int64_t now_ns = clock_now_ns();

    if (now_ns < *next_ns)
        return;
    *next_ns = now_ns + TICK_MS * MS_NS;
    s->peak *= FADE;
    if (s->burst > s->peak)
        s->peak = s->burst;
    s->burst = 0;
    if (s->peak < FADED)
        s->peak = 0;
    bury_dead(s);
}

/* Making a vessel takes as much of a core as running in one: runs come first, while
 * there is enough for those that may follow. */
static bool can_wait(const struct stock *s, unsigned want)
{
    return s->in_use > 0 && s->idle_count * 2 >= want && clock_now_ns() < s->hurry_ns;
}

static void be_patient(struct stock *s)
{
    thread_wait(&s->changed, &s->pool->lock, PATIENT_MS);
}

static void rest(struct stock *s)
{
    if (s->queue.first && s->making == 0 && stock_lacks(s))
        queue_dismiss(&s->queue); /* they would wait in vain */
    thread_wait(&s->changed, &s->pool->lock, s->peak > 0 ? TICK_MS : REST_MS);
}

static bool is_over(const struct stock *s)
{
    return s->pool->closing || (s->idle_count == 0 && is_forgotten(s, clock_now_ns()));
}

static void empty(struct stock *s)
{
    while (s->idle_count > 0)
        give_up(s, s->idle_count - 1);
}

void *stock_work(void *context)
{
    struct stock *s = context;
    struct pool *p = s->pool;
    struct shared_zygote *last = NULL;
    int64_t next_tick_ns = 0;

    (void)pthread_mutex_lock(&p->lock);
    while (!is_over(s)) {
        unsigned want = 0;

        tick(s, &next_tick_ns);
        want = stock_wanted(s);
        if (s->idle_count >= want)
            s->hurry_ns = 0;
        if (s->idle_count < want && can_wait(s, want)) {
            be_patient(s);
        } else if (can_refill(s, want)) {
            call_help(s, want);
            refill(s);
        } else if (s->idle_count > want + (want ? SLACK : 0) || stock_is_too_large(s)) {
            give_up(s, 0);
        } else {
            rest(s);
        }
    }
    while (s->helpers > 0)
        (void)pthread_cond_wait(&s->changed, &p->lock);
    empty(s);
    last = atomic_exchange(&s->holder.shared, NULL);
    s->ended = true;
    queue_dismiss(&s->queue);
    (void)pthread_mutex_unlock(&p->lock);
    /* From here on the next who adds a stock may free this one. */
    zygote_holder_close(last);
    (void)pthread_mutex_lock(&p->lock);
    p->threads--;
    (void)pthread_cond_broadcast(&p->changed);
    (void)pthread_mutex_unlock(&p->lock);
    return NULL;
}

void stock_free(struct stock *s)
{
    plan_free(s->plan);
    free(s->key);
    free(s->asker);
    free(s->idle);
    (void)pthread_cond_destroy(&s->changed);
    zygote_holder_done(&s->holder);
    free(s);
}

/* Who waits for one of its vessels. */

static void join(struct queue *q, struct waiter *w)
{
    if (q->last)
        q->last->next = w;
    else
        q->first = w;
    q->last = w;
    q->count++;
}

static void leave(struct queue *q, const struct waiter *w)
{
    struct waiter *before = NULL;
    struct waiter *at = q->first;

    while (at != w) {
        before = at;
        at = at->next;
    }
    if (before)
        before->next = w->next;
    else
        q->first = w->next;
    if (q->last == w)
        q->last = before;
    q->count--;
}

bool queue_wait(struct queue *q, pthread_mutex_t *lock, int64_t ms, struct ready *out)
{
    struct waiter w = { .out = out };
    int64_t until_ns = clock_now_ns() + ms * MS_NS;
    int64_t left_ms = ms;

    thread_cond_init(&w.called);
    join(q, &w);
    while (!w.served && !w.dismissed && left_ms > 0) {
        thread_wait(&w.called, lock, left_ms);
        left_ms = (until_ns - clock_now_ns()) / MS_NS;
    }
    if (!w.served && !w.dismissed)
        leave(q, &w);
    (void)pthread_cond_destroy(&w.called);
    return w.served;
}

bool queue_serve(struct queue *q, const struct ready *r)
{
    struct waiter *w = q->first;

    if (!w)
        return false;
    leave(q, w);
    *w->out = *r;
    w->served = true;
    (void)pthread_cond_signal(&w->called);
    return true;
}

void queue_dismiss(struct queue *q)
{
    while (q->first) {
        struct waiter *w = q->first;

        leave(q, w);
        w->dismissed = true;
        (void)pthread_cond_signal(&w->called);
    }
}
