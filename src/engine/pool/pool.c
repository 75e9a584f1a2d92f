/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/pool/pool.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/fail.h"
#include "base/thread.h"
#include "engine/pool/pool_key.h"
#include "engine/pool/pool_limits.h"
#include "engine/pool/stock.h"
#include "plan/build.h"

#define TARGET       2
#define CEILING      64
#define MEMORY_BYTES (UINT64_C(1) << 30)
#define IDLE_S       60
#define QUEUE_MS     1000 /* the most that is waited for one that is being made */
#define FAR_MS       INT64_C(3600000) /* who makes it elsewhere gives up before */
#define PATIENCE_MS  20 /* for runs to end before their stock is filled up */
#define MS_NS        INT64_C(1000000)

static void lock(struct pool *p)
{
    (void)pthread_mutex_lock(&p->lock);
}

static void unlock(struct pool *p)
{
    (void)pthread_mutex_unlock(&p->lock);
}

/* A demand: what is asked for, and by whom. */
struct demand {
    const struct driver *driver;
    const struct plan *plan;
    const char *key;
    const char *asker; /* NULL: the operator, or all callers are one */
};

static struct stock *stock_new(struct pool *p, const struct demand *d)
{
    struct stock *s = calloc(1, sizeof(*s));

    if (!s)
        return NULL;
    thread_cond_init(&s->changed);
    zygote_holder_init(&s->holder);
    s->pool = p;
    s->driver = d->driver;
    s->shared = p->supplier == d->driver ? p->shared : NULL;
    s->key = strdup(d->key);
    s->asker = d->asker ? strdup(d->asker) : NULL;
    s->idle = calloc(STOCK_MAX, sizeof(*s->idle));
    s->forks = pool_can_fork(d->driver, d->plan);
    s->prestarts = pool_can_prestart(d->driver, d->plan);
    s->apart = p->by_caller && s->forks;
    s->used_ns = clock_now_ns();
    if (!s->key || !s->idle || (d->asker && !s->asker) ||
        pool_template(d->plan, &s->plan, NULL) < 0) {
        stock_free(s);
        return NULL;
    }
    return s;
}

/* A stock that has ended and whose vessels are all gone makes room for another. */
static void forget_ended(struct pool *p)
{
    for (unsigned i = p->stock_count; i-- > 0;) {
        struct stock *s = p->stocks[i];

        if (!s->ended || s->asking > 0 || atomic_load(&s->users) > 0)
            continue;
        stock_free(s);
        p->stocks[i] = p->stocks[--p->stock_count];
    }
}

static bool is_of(const struct stock *s, const char *asker)
{
    return s->asker && asker ? strcmp(s->asker, asker) == 0 : s->asker == asker;
}

/* For one more like D: no caller may take all of it from the others. */
static bool has_room(const struct pool *p, const struct demand *d)
{
    bool apart = p->by_caller && pool_can_fork(d->driver, d->plan);
    unsigned zygotes = 0;
    unsigned asked = 0;

    for (unsigned i = 0; i < p->stock_count; i++) {
        zygotes += p->stocks[i]->apart;
        asked += is_of(p->stocks[i], d->asker);
    }
    return p->stock_count < POOL_STOCKS && (!apart || zygotes < POOL_ZYGOTES) &&
           (!d->asker || asked < POOL_ASKED);
}

static struct stock *add_stock(struct pool *p, const struct demand *d)
{
    struct stock *s = NULL;

    forget_ended(p);
    if (p->closing || !has_room(p, d))
        return NULL;
    s = stock_new(p, d);
    if (!s)
        return NULL;
    if (thread_start_alone(THREAD_STACK, stock_work, s) != 0) {
        stock_free(s);
        return NULL;
    }
    p->threads++;
    p->stocks[p->stock_count++] = s;
    return s;
}

static bool suits(const struct stock *s, const struct demand *d)
{
    return !s->ended && strcmp(s->key, d->key) == 0 &&
           (!s->apart || is_of(s, d->asker)) && pool_fits(&s->plan->limits, d->plan);
}

/* The one with vessels, and with limits of just that size, is better. */
static struct stock *find(struct pool *p, const struct demand *d, bool exact)
{
    struct stock *best = NULL;

    for (unsigned i = 0; i < p->stock_count; i++) {
        struct stock *s = p->stocks[i];
        bool same = !pool_needs_limits(&s->plan->limits, d->plan);

        if (!suits(s, d) || (!same && (exact || !s->driver->limit)))
            continue;
        if (!best || (s->idle_count > 0 && (same || best->idle_count == 0)))
            best = s;
    }
    return best;
}

/* Makes one that is nobody's yet the asker's; another takes its place. */
static struct stock *claim(struct pool *p, const struct demand *d)
{
    const struct demand spare = { .driver = d->driver, .plan = d->plan, .key = d->key };
    struct stock *s = find(p, &spare, false);
    struct stock *next = NULL;
    auto_free char *asker = NULL;

    if (!s)
        return NULL;
    asker = strdup(d->asker);
    if (asker && has_room(p, d))
        next = add_stock(p, &(struct demand){ s->driver, s->plan, s->key, NULL });
    if (!next)
        return NULL;
    next->pinned = s->pinned;
    s->pinned = 0;
    s->asker = ptr_take(&asker);
    return s;
}

static void note_demand(struct stock *s)
{
    s->burst++;
    if (s->burst > s->peak)
        s->peak = s->burst;
    s->used_ns = clock_now_ns();
    if (s->hurry_ns == 0)
        s->hurry_ns = s->used_ns + PATIENCE_MS * MS_NS;
    /* With some left, filling up waits until the run is over. */
    if (s->idle_count * 2 < stock_wanted(s))
        (void)pthread_cond_signal(&s->changed);
}

/* Gives it the limits of PLAN, if it has others. */
static bool fit(const struct stock *s, const struct ready *r, const struct plan *plan)
{
    const struct vessel *v = r->vessel;
    struct vial_error err = { 0 };

    if (driver_check_required(&plan->require, v->level, &v->layers, v->limits_by,
                              &err) < 0)
        return false;
    return !pool_needs_limits(&s->plan->limits, plan) ||
           s->driver->limit(r->vessel, &plan->limits, &err) == 0;
}

/* With a zygote at work, the next one is ready sooner than a cold one would be. What
 * starting one cold takes of a core makes several, so that the time which a refill
 * takes among cold starts is no measure: with none, it would be quick. */
static bool is_worth_waiting(const struct stock *s)
{
    double each_ms = s->quick_ms / (s->helpers + 1);

    return zygote_holder_is_alive(&s->holder) && s->quick_ms > 0 && s->pause.ms == 0 &&
           !s->ended && (s->making > 0 || !stock_lacks(s)) &&
           each_ms * (s->queue.count + 1) < QUEUE_MS;
}

/* Elsewhere others make it, in a time of their own: what was begun is there before what
 * would be begun now, which might find no place beside it. */
static bool is_on_its_way(const struct stock *s)
{
    return s->driver->far && !s->ended && s->making > s->queue.count;
}

/* How long to wait for one of S; 0: not at all. */
static int64_t waiting_ms(const struct stock *s)
{
    if (is_on_its_way(s))
        return FAR_MS;
    return is_worth_waiting(s) ? QUEUE_MS : 0;
}

/* Under the lock. The one that serves a waiter has counted it. */
static bool pop_or_wait(struct pool *p, struct stock *s, struct ready *out)
{
    if (s->idle_count == 0) {
        const int64_t ms = waiting_ms(s);

        if (ms == 0)
            return false;
        (void)pthread_cond_signal(&s->changed);
        return queue_wait(&s->queue, &p->lock, ms, out);
    }
    *out = s->idle[--s->idle_count];
    stock_count_taken(s);
    return true;
}

/* Under the lock. */
static bool pop(struct pool *p, const struct demand *d, struct ready *out,
                struct stock **from)
{
    struct stock *s = find(p, d, false);
    struct stock *own = NULL;
    bool got = false;

    s = s || !d->asker ? s : claim(p, d);
    own = s;
    if (!s || s->idle_count == 0) {
        own = find(p, d, true);
        own = own ? own : add_stock(p, d);
        s = s ? s : own;
    }
    if (own) {
        note_demand(own);
        own->asking++; /* while we wait, it could end */
    }
    got = s && pop_or_wait(p, s, out);
    if (own) {
        own->missed += !got;
        own->asking--;
    }
    *from = s;
    return got;
}

static bool count_unfit(struct pool *p)
{
    lock(p);
    p->unfit++;
    unlock(p);
    return false;
}

static void put_away(struct pool *p, struct stock *from, struct ready *r)
{
    link_free(r->link);
    r->vessel->driver->kill(r->vessel);
    lock(p);
    from->lost++;
    from->taken--;
    unlock(p);
    pool_destroy(p, from, r->vessel); /* the last that is seen of FROM */
}

static const char *asker_of(const struct pool *p, const char *caller)
{
    if (!p->by_caller)
        return NULL;
    return caller ? caller : "";
}

bool pool_take(struct pool *p, const struct pool_demand *wanted, struct ready *out,
               struct stock **from)
{
    const struct driver *driver = wanted->driver;
    const struct plan *plan = wanted->plan;
    auto_free char *key = NULL;
    struct demand d = { driver, plan, NULL, asker_of(p, wanted->caller) };
    int64_t asked_ns = clock_now_ns();
    bool got = false;
    bool alive = false;

    if (!pool_can_wait(driver, plan) ||
        ((pool_can_fork(driver, plan) || pool_can_prestart(driver, plan)) &&
         !pool_may_use_forked(plan)))
        return count_unfit(p);
    key = pool_key(driver, plan);
    if (!key)
        return false;
    d.key = key;
    do {
        lock(p);
        got = pop(p, &d, out, from);
        unlock(p);
        alive = got && conversation_is_quiet(out->vessel);
        out->queued_ms = clock_ms_between(asked_ns, clock_now_ns());
        if (alive && fit(*from, out, plan))
            return true;
        if (got)
            put_away(p, *from, out);
    } while (got && !alive);
    *from = NULL;
    return false;
}

static bool has_interpreter(const struct stock *s)
{
    return !s->ended && (zygote_holder_is_alive(&s->holder) ||
                         (s->idle_count > 0 && s->idle[0].channel));
}

bool pool_has_program(struct pool *p, const struct driver *driver,
                      const struct plan *plan)
{
    bool found = false;

    if (!pool_can_fork(driver, plan) && !pool_can_prestart(driver, plan))
        return false;
    lock(p);
    for (unsigned i = 0; i < p->stock_count && !found; i++)
        found = p->stocks[i]->driver == driver && has_interpreter(p->stocks[i]) &&
                str_eq(p->stocks[i]->plan->argv.items[0], plan->argv.items[0]);
    unlock(p);
    return found;
}

void pool_destroy(struct pool *p, struct stock *from, struct vessel *v)
{
    reaper_give(&p->reaper, v, from);
}

static bool lacks_descriptors(const struct stock *s)
{
    const char *what = stock_lacks(s);

    return what && strcmp(what, "descriptors") == 0;
}

/* Nothing of the pool's own is under way that could give some back. */
static bool is_stuck(const struct pool *p, const struct stock *s)
{
    for (unsigned i = 0; i < p->stock_count; i++)
        if (p->stocks[i]->making > 0 || atomic_load(&p->stocks[i]->users) > 0)
            return false;
    return lacks_descriptors(s);
}

static int fail_waiting(const struct stock *s, unsigned count, struct vial_error *err)
{
    struct descriptors d = descriptors_now();

    if (lacks_descriptors(s)) {
        (void)fail(err, VIAL_E_BUSY,
                   "%u of %u vessels wait: %u of this process's %u descriptors are "
                   "open, and another vessel would not leave it half of them",
                   s->idle_count, count, d.open, d.limit);
        return fail_remedy(err, "raise the soft limit of open files (ulimit -n)");
    }
    if (!s->why.code[0])
        return fail(err, VIAL_E_BUSY, "%u of %u vessels wait", s->idle_count, count);
    *err = s->why;
    return -1;
}

static int wait_for(struct pool *p, const struct stock *s, unsigned count,
                    int64_t timeout_ms, struct vial_error *err)
{
    int64_t until_ns = clock_now_ns() + timeout_ms * MS_NS;

    while (s->idle_count < count) {
        int64_t left_ms = (until_ns - clock_now_ns()) / MS_NS;

        if (left_ms <= 0 || is_stuck(p, s))
            return fail_waiting(s, count, err);
        thread_wait(&p->changed, &p->lock, left_ms);
    }
    return 0;
}

int pool_want(struct pool *p, const struct driver *driver, const struct plan *plan,
              unsigned count, int64_t timeout_ms, struct vial_error *err)
{
    auto_free char *key = pool_key(driver, plan);
    const struct demand d = { driver, plan, key, NULL };
    struct stock *s = NULL;
    int rc = 0;

    if (!pool_can_wait(driver, plan)) {
        (void)fail(err, VIAL_E_UNSUPPORTED, "no vessel can wait for such a request");
        return fail_remedy(err, "leave out mounts and network, or run it cold");
    }
    if (!key)
        return fail_memory(err);
    lock(p);
    s = find(p, &d, true);
    s = s ? s : add_stock(p, &d);
    if (s) {
        count = count < p->ceiling ? count : p->ceiling;
        s->pinned = count > s->pinned ? count : s->pinned;
        s->asking++; /* somebody may make it theirs while we wait, and it end */
        (void)pthread_cond_signal(&s->changed);
    }
    rc = !s ? fail(err, VIAL_E_BUSY, "too many kinds of vessels wait already")
            : wait_for(p, s, timeout_ms ? count : 0, timeout_ms, err);
    if (s)
        s->asking--;
    unlock(p);
    return rc;
}

/* A language that is missing here is no reason to do without the others. */
static void want_language(struct pool *p, const char *name)
{
    auto_plan struct plan *plan = NULL;
    const struct driver *driver = NULL;
    struct vial_request *req = NULL;
    struct vial_error err = { 0 };

    if (vial_request_new(&req, &err) == 0 &&
        vial_request_set(req, "language", name, &err) == 0 &&
        vial_request_set(req, "code", "", &err) == 0 &&
        engine_plan(p->engine, req, &driver, &plan, &err) == 0)
        (void)pool_want(p, driver, plan, p->target, 0, &err);
    vial_request_free(req);
}

static unsigned or_else(unsigned value, unsigned otherwise)
{
    return value ? value : otherwise;
}

/* One driver has any. Its vessels look for what dead ones left only when they share
 * nothing, so that it is done here. */
static void open_shared(struct pool *p)
{
    const struct driver *const *at = p->engine->drivers;

    while (*at && !(*at)->native_shared_open)
        at++;
    p->supplier = *at;
    if (!*at)
        return;
    p->shared = (*at)->native_shared_open(p->engine->guest_fd);
    if ((*at)->sweep)
        (void)(*at)->sweep(-1, &p->orphans, NULL);
}

unsigned pool_orphans(struct pool *p, const struct driver *driver)
{
    unsigned removed = 0;

    if (!p || p->supplier != driver)
        return 0;
    (void)pthread_mutex_lock(&p->lock);
    removed = p->orphans;
    p->orphans = 0;
    (void)pthread_mutex_unlock(&p->lock);
    return removed;
}

int pool_open(struct vial_engine *e, const struct vial_warm_options *options,
              struct pool **out, struct vial_error *err)
{
    static const struct vial_warm_options usual;
    const struct vial_warm_options *o = options ? options : &usual;
    struct pool *p = calloc(1, sizeof(*p));

    if (!p)
        return fail_memory(err);
    p->engine = e;
    p->by_caller = o->by_caller;
    p->cores = (unsigned)sysconf(_SC_NPROCESSORS_ONLN);
    p->ceiling = or_else(o->ceiling, CEILING);
    p->ceiling = p->ceiling < STOCK_MAX ? p->ceiling : STOCK_MAX;
    p->target = or_else(o->target, TARGET);
    p->target = p->target < p->ceiling ? p->target : p->ceiling;
    p->idle_s = or_else(o->idle_s, IDLE_S);
    p->memory_bytes = o->memory_bytes ? o->memory_bytes : MEMORY_BYTES;
    (void)pthread_mutex_init(&p->lock, NULL);
    thread_cond_init(&p->changed);
    for (size_t i = 0; o->imports && o->imports[i]; i++)
        strv_push(&p->imports, o->imports[i]);
    if (reaper_start(&p->reaper, err) < 0) {
        pool_close(p);
        return -1;
    }
    open_shared(p);
    for (size_t i = 0; o->languages && o->languages[i]; i++)
        want_language(p, o->languages[i]);
    *out = p;
    return 0;
}

void pool_close(struct pool *p)
{
    if (!p)
        return;
    lock(p);
    p->closing = true;
    for (unsigned i = 0; i < p->stock_count; i++)
        (void)pthread_cond_signal(&p->stocks[i]->changed);
    while (p->threads > 0)
        (void)pthread_cond_wait(&p->changed, &p->lock);
    unlock(p);
    reaper_stop(&p->reaper);
    for (unsigned i = 0; i < p->stock_count; i++)
        stock_free(p->stocks[i]);
    if (p->shared)
        p->supplier->native_shared_close(p->shared);
    strv_done(&p->imports);
    (void)pthread_mutex_destroy(&p->lock);
    (void)pthread_cond_destroy(&p->changed);
    free(p);
}
