/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/callers/gate.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fail.h"

#define MINUTE_MS     60000.0
#define RUNS_PER_CORE 4u
#define UNKNOWN_PART  16u

/* A caller may have so many times of it what is left free. With 1, one who takes all it
 * can gets a half, two get a third each, ten an eleventh, and as much is left for the
 * next; with 8 one gets eight ninths. */
static const unsigned weights[GATE_KINDS] = {
    [GATE_CONNECTIONS] = 8,
    [GATE_REQUESTS] = 2,
    [GATE_BODIES] = 1,
    [GATE_VOLUMES] = 1,
};

unsigned gate_most(int64_t concurrency)
{
    long cores = sysconf(_SC_NPROCESSORS_ONLN);

    return concurrency ? (unsigned)concurrency
                       : RUNS_PER_CORE * (unsigned)(cores > 0 ? cores : 1);
}

int gate_init(struct gate *g, struct vial_error *err)
{
    *g = (struct gate){ .most = 1 };
    return pthread_mutex_init(&g->lock, NULL) == 0 ? 0 : fail_memory(err);
}

void gate_done(struct gate *g)
{
    while (g->callers) {
        struct caller *next = g->callers->next;

        network_share_free(g->callers->share);
        if (g->callers->share)
            (void)close(g->callers->share_fd);
        free(g->callers);
        g->callers = next;
    }
    (void)pthread_mutex_destroy(&g->lock);
}

static struct caller *find(struct gate *g, const char *name)
{
    struct caller *c = g->callers;

    while (c && strcmp(c->name, name) != 0)
        c = c->next;
    return c;
}

static struct caller *add(struct gate *g, const char *name, const struct quota *quota)
{
    struct caller *c = calloc(1, sizeof(*c));

    if (!c)
        return NULL;
    (void)snprintf(c->name, sizeof(c->name), "%s", name);
    c->gate = g;
    c->runs_left = (double)quota->runs_per_minute;
    c->cpu_left_ms = (double)quota->cpu_per_minute_ms;
    c->filled_ns = clock_now_ns();
    c->next = g->callers;
    g->callers = c;
    return c;
}

struct caller *gate_caller(struct gate *g, const char *name, const struct quota *quota)
{
    struct caller *c;

    (void)pthread_mutex_lock(&g->lock);
    c = find(g, name);
    if (!c)
        c = add(g, name, quota);
    if (c)
        c->quota = *quota;
    if (c && c->share)
        network_share_set(c->share, &quota->network);
    (void)pthread_mutex_unlock(&g->lock);
    return c;
}

struct caller *gate_unknown(struct gate *g, const char *name, const struct quota *quota)
{
    struct caller *c = gate_caller(g, name, quota);

    (void)pthread_mutex_lock(&g->lock);
    if (c)
        c->unknown = true;
    (void)pthread_mutex_unlock(&g->lock);
    return c;
}

struct caller *gate_known(struct gate *g, const char *name)
{
    struct caller *c;

    (void)pthread_mutex_lock(&g->lock);
    c = find(g, name);
    (void)pthread_mutex_unlock(&g->lock);
    return c;
}

static double least(double a, double b)
{
    return a < b ? a : b;
}

static void refill(struct caller *c)
{
    int64_t now_ns = clock_now_ns();
    double part = clock_ms_between(c->filled_ns, now_ns) / MINUTE_MS;
    double runs = (double)c->quota.runs_per_minute;
    double cpu_ms = (double)c->quota.cpu_per_minute_ms;

    c->runs_left = least(runs, c->runs_left + part * runs);
    c->cpu_left_ms = least(cpu_ms, c->cpu_left_ms + part * cpu_ms);
    c->filled_ns = now_ns;
}

static bool is_limited(const struct network_quota *q)
{
    return q->open || q->per_minute || q->in_per_hour || q->out_per_hour;
}

/* With the lock held. */
static int enter_network(struct caller *c, struct network_place *out,
                         struct vial_error *err)
{
    if (!c->share && is_limited(&c->quota.network)) {
        c->share_fd = network_share_new(&c->share);
        if (!c->share)
            return fail(err, VIAL_E_BUSY, "there is no memory to count a network");
        network_share_set(c->share, &c->quota.network);
    }
    if (!c->share)
        return 0;
    c->takers += c->takers == UINT32_MAX ? 2 : 1; /* 0 is nobody */
    *out = (struct network_place){ .fd = c->share_fd, .taker = c->takers };
    out->place = network_share_enter(c->share, c->takers);
    if (out->place < NETWORK_PLACES)
        return 0;
    out->fd = -1;
    (void)fail(err, VIAL_E_BUSY, "'%s' has %u vessels with a gate", c->name,
               NETWORK_PLACES);
    return fail_remedy(err, "end some of them");
}

int gate_network_enter(struct gate *g, const char *caller, struct network_place *out,
                       struct vial_error *err)
{
    struct caller *c;
    int rc;

    *out = (struct network_place){ .fd = -1 };
    (void)pthread_mutex_lock(&g->lock);
    c = find(g, caller ? caller : "");
    rc = c ? enter_network(c, out, err)
           : fail(err, VIAL_E_INTERNAL, "nobody knows the caller of this vessel");
    (void)pthread_mutex_unlock(&g->lock);
    return rc;
}

void gate_network_leave(struct gate *g, const char *caller,
                        const struct network_place *place)
{
    struct caller *c;

    if (place->fd < 0)
        return;
    (void)pthread_mutex_lock(&g->lock);
    c = find(g, caller ? caller : "");
    if (c && c->share)
        network_share_leave(c->share, place->place);
    (void)pthread_mutex_unlock(&g->lock);
}

/* With the lock held. */
static void use(struct caller *c, double cpu_ms)
{
    refill(c);
    c->cpu_left_ms -= cpu_ms;
}

/* Seconds until a bucket that lacks LACK of what a minute brings has it. */
static unsigned seconds_for(double lack, int64_t per_minute)
{
    double seconds = lack / (double)per_minute * 60.0;

    return seconds < 1 ? 1 : seconds > 3600 ? 3600 : (unsigned)seconds + 1;
}

/* With the lock held: for COUNT of them. */
static int charge(struct caller *c, unsigned count, struct gate_pass *pass,
                  struct vial_error *err)
{
    refill(c);
    if (c->quota.runs_per_minute && c->runs_left < count) {
        pass->retry_s = seconds_for(count - c->runs_left, c->quota.runs_per_minute);
        return fail(err, VIAL_E_RATE, "'%s' may start %lld runs in a minute", c->name,
                    (long long)c->quota.runs_per_minute);
    }
    if (c->quota.cpu_per_minute_ms && c->cpu_left_ms <= 0) {
        pass->retry_s = seconds_for(1 - c->cpu_left_ms, c->quota.cpu_per_minute_ms);
        return fail(err, VIAL_E_RATE, "'%s' may use %lld ms of cpu time in a minute",
                    c->name, (long long)c->quota.cpu_per_minute_ms);
    }
    c->runs_left -= count;
    return 0;
}

bool gate_leaves_some(unsigned all, unsigned taken, unsigned own)
{
    return taken < all && (own + 1) / 8 <= all - taken - 1;
}

/* Without a quota one has no more runs in all than there are turns for one alone. */
static bool may_run(const struct gate *g, const struct caller *c)
{
    if (c->quota.concurrency)
        return g->running < g->most && c->running + c->programs < c->quota.concurrency;
    return gate_leaves_some(g->most, g->running, c->running - c->lasting) &&
           gate_leaves_some(g->most, c->running, c->running);
}

static void start(struct gate *g, struct caller *c, struct gate_pass *pass)
{
    pass->caller = c;
    pass->began_ns = clock_now_ns();
    pass->next = g->turns;
    g->turns = pass;
    g->running++;
    c->running++;
    c->runs++;
    g->turn = c;
}

static bool may_last(const struct gate *g, const struct caller *c)
{
    return g->lasting < g->lasting_most &&
           c->lasting + 1 <= g->lasting_most - g->lasting - 1;
}

/* With the lock held: who has had a turn for long gives it on. */
static void give_on(struct gate *g)
{
    int64_t now_ns = clock_now_ns();
    struct gate_pass **at = &g->turns;

    while (*at) {
        struct gate_pass *pass = *at;

        if (now_ns - pass->began_ns < g->lasts_ns || !may_last(g, pass->caller)) {
            at = &pass->next;
            continue;
        }
        *at = pass->next;
        pass->lasts = true;
        pass->caller->lasting++;
        g->lasting++;
        g->running--;
    }
}

/* With the lock held: in how many ms the next can give its turn on, at most MOST. */
static int64_t until_next(const struct gate *g, int64_t most)
{
    int64_t now_ns = clock_now_ns();

    for (const struct gate_pass *p = g->turns; p; p = p->next) {
        int64_t left_ns = p->began_ns + g->lasts_ns - now_ns;

        if (g->lasting_most && left_ns > 0 && left_ns / 1000000 + 1 < most)
            most = left_ns / 1000000 + 1;
    }
    return most;
}

static void wake(struct gate_waiter *w, int state)
{
    w->state = state;
    (void)eventfd_write(w->wake_fd, 1);
}

static void leave_line(struct gate *g, struct caller *c, struct gate_waiter *w)
{
    struct gate_waiter **at = &c->first;

    while (*at && *at != w)
        at = &(*at)->next;
    if (!*at)
        return;
    *at = w->next;
    c->last = NULL;
    for (struct gate_waiter *left = c->first; left; left = left->next)
        c->last = left;
    c->waiting--;
    g->waiting--;
}

/* The next caller behind the one whose turn it was, who has someone waiting. */
static struct caller *next_turn(const struct gate *g)
{
    struct caller *begin = g->turn && g->turn->next ? g->turn->next : g->callers;
    struct caller *c = begin;

    do {
        if (c->first && may_run(g, c))
            return c;
        c = c->next ? c->next : g->callers;
    } while (c != begin);
    return NULL;
}

/* With the lock held: lets in as many as there is room for. */
static void let_in(struct gate *g)
{
    struct caller *c;

    give_on(g);
    while (g->waiting && (c = next_turn(g))) {
        struct gate_waiter *w = c->first;

        leave_line(g, c, w);
        start(g, c, w->pass);
        wake(w, WAITER_GOES);
    }
}

/* With the lock held: true when a place was made for one of C's. */
static bool push_out(struct gate *g, const struct caller *c)
{
    struct caller *longest = g->callers;
    struct gate_waiter *last;

    for (struct caller *at = longest; at; at = at->next)
        if (at->waiting > longest->waiting)
            longest = at;
    if (!longest || longest->waiting <= c->waiting + 1)
        return false;
    last = longest->last;
    leave_line(g, longest, last);
    wake(last, WAITER_PUSHED_OUT);
    return true;
}

static int refuse_busy(struct gate_pass *pass, const char *why, struct vial_error *err)
{
    pass->retry_s = 1;
    (void)fail(err, VIAL_E_BUSY, "%s", why);
    return fail_remedy(err, "try again later");
}

static void join_line(struct gate *g, struct caller *c, struct gate_waiter *w)
{
    if (c->last)
        c->last->next = w;
    else
        c->first = w;
    c->last = w;
    c->waiting++;
    g->waiting++;
}

/* With the lock held: 1 when it may go at once, 0 when it stands in line. */
static int line_up(struct gate *g, struct caller *c, struct gate_waiter *w,
                   struct gate_pass *pass, struct vial_error *err)
{
    if (g->shut || g->no_runs)
        return refuse_busy(pass, "the daemon is going down", err);
    if (charge(c, 1, pass, err) < 0)
        return -1;
    let_in(g);
    if (!c->first && may_run(g, c)) {
        start(g, c, pass);
        return 1;
    }
    if (g->waiting >= g->places && !push_out(g, c))
        return refuse_busy(pass, "too many runs are waiting", err);
    w->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (w->wake_fd < 0)
        return refuse_busy(pass, "no descriptor is left to wait with", err);
    join_line(g, c, w);
    return 0;
}

/* With the lock held, after the wait. */
static int outcome(struct gate *g, struct caller *c, struct gate_waiter *w, int ready,
                   struct gate_pass *pass, struct vial_error *err)
{
    if (w->state == WAITER_GOES)
        return 0;
    if (w->state == WAITER_PUSHED_OUT)
        return refuse_busy(
            pass, g->shut ? "the daemon is going down" : "others are waiting as well",
            err);
    leave_line(g, c, w);
    if (ready > 0)
        return fail(err, VIAL_E_CANCELLED, "the caller went away");
    return refuse_busy(pass, "it waited too long for its turn", err);
}

/* With the lock held, which is let go of meanwhile: until W's turn, its time is over or
 * its caller has gone. What poll says of it. */
static int await_turn(struct gate *g, struct gate_waiter *w, int gone_fd,
                      int64_t most_ms)
{
    struct pollfd fds[] = { { w->wake_fd, POLLIN, 0 }, { gone_fd, POLLIN, 0 } };
    int64_t left_ms = most_ms < g->wait_ms ? most_ms : g->wait_ms;
    int64_t end_ms = clock_now_ns() / 1000000 + left_ms;
    int rc = 0;

    while (rc == 0 && w->state == WAITER_WAITS && left_ms > 0) {
        int64_t ms = until_next(g, left_ms);

        (void)pthread_mutex_unlock(&g->lock);
        rc = poll(fds, 2, ms > INT32_MAX ? INT32_MAX : (int)ms);
        (void)pthread_mutex_lock(&g->lock);
        if (rc < 0 && errno == EINTR)
            rc = 0;
        if (rc == 0)
            let_in(g);
        left_ms = end_ms - clock_now_ns() / 1000000;
    }
    return rc;
}

int gate_enter_within(struct gate *g, struct caller *caller, int gone_fd,
                      int64_t most_ms, struct gate_pass *pass, struct vial_error *err)
{
    struct gate_waiter w = { .wake_fd = -1, .pass = pass };
    int64_t began_ns = clock_now_ns();
    int rc;

    *pass = (struct gate_pass){ 0 };
    (void)pthread_mutex_lock(&g->lock);
    rc = line_up(g, caller, &w, pass, err);
    if (rc == 0) {
        rc = await_turn(g, &w, gone_fd, most_ms);
        rc = outcome(g, caller, &w, rc, pass, err);
        (void)close(w.wake_fd);
    }
    if (rc < 0)
        caller->refused++;
    (void)pthread_mutex_unlock(&g->lock);
    pass->queue_ms = clock_ms_between(began_ns, clock_now_ns());
    return rc < 0 ? -1 : 0;
}

int gate_enter(struct gate *g, struct caller *caller, int gone_fd,
               struct gate_pass *pass, struct vial_error *err)
{
    return gate_enter_within(g, caller, gone_fd, INT64_MAX, pass, err);
}

/* With the lock held. */
static void give_back(struct gate *g, const struct gate_pass *pass)
{
    struct gate_pass **at = &g->turns;

    if (pass->lasts) {
        pass->caller->lasting--;
        g->lasting--;
        return;
    }
    while (*at != pass)
        at = &(*at)->next;
    *at = pass->next;
    g->running--;
}

void gate_leave(struct gate *g, struct gate_pass *pass, double cpu_ms)
{
    (void)pthread_mutex_lock(&g->lock);
    give_back(g, pass);
    pass->caller->running--;
    use(pass->caller, cpu_ms);
    let_in(g);
    (void)pthread_mutex_unlock(&g->lock);
}

static int admit_programs(const struct gate *g, struct caller *c, unsigned count,
                          struct gate_pass *pass, struct vial_error *err)
{
    if (g->shut)
        return refuse_busy(pass, "the daemon is going down", err);
    if (c->quota.concurrency &&
        c->running + c->programs + count > c->quota.concurrency) {
        pass->retry_s = 1;
        (void)fail(err, VIAL_E_BUSY, "'%s' may have %lld runs and programs at once",
                   c->name, (long long)c->quota.concurrency);
        return fail_remedy(err, "wait until one has ended, or end one");
    }
    return charge(c, count, pass, err);
}

int gate_start(struct gate *g, struct caller *caller, struct gate_pass *pass,
               struct vial_error *err)
{
    return gate_start_several(g, caller, 1, pass, err);
}

int gate_start_several(struct gate *g, struct caller *caller, unsigned count,
                       struct gate_pass *pass, struct vial_error *err)
{
    int rc;

    *pass = (struct gate_pass){ 0 };
    (void)pthread_mutex_lock(&g->lock);
    rc = admit_programs(g, caller, count, pass, err);
    if (rc == 0)
        caller->programs += count;
    else
        caller->refused++;
    (void)pthread_mutex_unlock(&g->lock);
    return rc;
}

void gate_end(struct gate *g, struct caller *caller)
{
    (void)pthread_mutex_lock(&g->lock);
    caller->programs--;
    let_in(g);
    (void)pthread_mutex_unlock(&g->lock);
}

void gate_used(struct gate *g, struct caller *caller, double cpu_ms)
{
    (void)pthread_mutex_lock(&g->lock);
    use(caller, cpu_ms);
    (void)pthread_mutex_unlock(&g->lock);
}

void gate_share(struct gate *g, enum gate_kind kind, uint64_t all)
{
    (void)pthread_mutex_lock(&g->lock);
    g->all[kind] = all;
    (void)pthread_mutex_unlock(&g->lock);
}

/* With the lock held. */
static bool has_room(const struct gate *g, const struct caller *c, enum gate_kind kind,
                     uint64_t amount)
{
    uint64_t all = g->all[kind];
    uint64_t taken = g->taken[kind] + amount;

    if (!all)
        return true;
    if (c->unknown && c->has[kind] + amount > all / UNKNOWN_PART)
        return false;
    return amount <= all && taken <= all &&
           c->has[kind] + amount <= weights[kind] * (all - taken);
}

bool gate_take(struct gate *g, struct caller *caller, enum gate_kind kind,
               uint64_t amount)
{
    bool room;

    (void)pthread_mutex_lock(&g->lock);
    room = has_room(g, caller, kind, amount);
    if (room) {
        caller->has[kind] += amount;
        g->taken[kind] += amount;
    }
    (void)pthread_mutex_unlock(&g->lock);
    return room;
}

void gate_give(struct gate *g, struct caller *caller, enum gate_kind kind,
               uint64_t amount)
{
    (void)pthread_mutex_lock(&g->lock);
    caller->has[kind] -= amount;
    g->taken[kind] -= amount;
    (void)pthread_mutex_unlock(&g->lock);
}

int gate_take_volumes(struct gate *g, struct caller *caller, struct vial_error *err)
{
    if (gate_take(g, caller, GATE_VOLUMES, 1))
        return 0;
    (void)fail(err, VIAL_E_RATE, "'%s' asks for too many volumes at once",
               caller->name);
    return fail_remedy(err, "wait for an answer before you ask again");
}

void gate_set(struct gate *g, unsigned most, unsigned places, int64_t wait_ms)
{
    (void)pthread_mutex_lock(&g->lock);
    g->most = most;
    g->places = places;
    g->wait_ms = wait_ms;
    let_in(g);
    (void)pthread_mutex_unlock(&g->lock);
}

void gate_last(struct gate *g, unsigned most, int64_t after_ms)
{
    (void)pthread_mutex_lock(&g->lock);
    g->lasting_most = most;
    g->lasts_ns = after_ms * 1000000;
    let_in(g);
    (void)pthread_mutex_unlock(&g->lock);
}

void gate_end_runs(struct gate *g)
{
    (void)pthread_mutex_lock(&g->lock);
    g->no_runs = true;
    (void)pthread_mutex_unlock(&g->lock);
}

void gate_shut(struct gate *g)
{
    (void)pthread_mutex_lock(&g->lock);
    g->shut = true;
    for (struct caller *c = g->callers; c; c = c->next)
        while (c->first) {
            struct gate_waiter *w = c->first;

            leave_line(g, c, w);
            wake(w, WAITER_PUSHED_OUT);
        }
    (void)pthread_mutex_unlock(&g->lock);
}

void gate_count(struct gate *g, unsigned *running, unsigned *waiting)
{
    (void)pthread_mutex_lock(&g->lock);
    *running = g->running + g->lasting;
    *waiting = g->waiting;
    (void)pthread_mutex_unlock(&g->lock);
}
