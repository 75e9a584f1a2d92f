/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/fail.h"
#include "base/sys.h"
#include "base/thread.h"
#include "engine/pool/pool.h"
#include "engine/record/audit_events.h"

#include "vial/vessels.h"

#define SOON_MS     5000 /* the first time is within this */
#define STACK_SIZE  (256u << 10)
#define DRIVERS_MAX 8

struct vial_sweeper {
    struct vial_engine *engine; /* borrowed */
    int64_t interval_ms;
    vial_swept *told; /* or NULL */
    void *context;
    int stop_fd; /* readable: it is time to end */
    pthread_t thread;
    bool running;
    char last[DRIVERS_MAX][sizeof(((struct vial_error *)0)->code)];
};

/* Evenly among 0 … LIMIT. */
static int64_t some_of(int64_t limit)
{
    uint32_t dice = 0;

    if (sys_random(&dice, sizeof(dice)) < 0)
        dice = (uint32_t)clock_now_ns();
    return (int64_t)((double)dice / UINT32_MAX * (double)limit);
}

/* True when it is time to end. */
static bool wait_for_stop(const struct vial_sweeper *s, int64_t wait_ms)
{
    int64_t until_ns = clock_now_ns() + wait_ms * 1000000;
    struct pollfd stop = { .fd = s->stop_fd, .events = POLLIN };
    int rc;

    do {
        int64_t left_ms = (until_ns - clock_now_ns()) / 1000000;

        rc = poll(&stop, 1, left_ms > 0 ? (int)left_ms : 0);
    } while (rc < 0 && errno == EINTR);
    return rc != 0;
}

/* A user who may not use the engine has left nothing there either. */
static bool is_quiet(const struct vial_error *err)
{
    return fail_is(err, VIAL_E_ENGINE_ACCESS) || fail_is(err, VIAL_E_ENGINE_DOWN);
}

static void tell(struct vial_sweeper *s, size_t index, unsigned removed,
                 const struct vial_error *err)
{
    const char *name = s->engine->drivers[index]->name;
    char *last = s->last[index];

    bool news = err && !is_quiet(err) && strcmp(err->code, last) != 0;

    if (removed > 0 || news)
        record_cleanup(s->engine, name, removed, news ? err : NULL);
    if (removed > 0 && s->told)
        s->told(s->context, name, removed, NULL);
    if (news && s->told)
        s->told(s->context, name, 0, err);
    (void)memcpy(last, err ? err->code : "", err ? sizeof(s->last[0]) : 1);
}

static void sweep_all(struct vial_sweeper *s)
{
    for (size_t i = 0; i < DRIVERS_MAX && s->engine->drivers[i]; i++) {
        const struct driver *d = s->engine->drivers[i];
        struct vial_error err = { 0 };
        unsigned removed = 0;
        int rc = d->sweep && engine_minds(s->engine, d)
                     ? d->sweep(s->stop_fd, &removed, &err)
                     : 0;

        removed += pool_orphans(s->engine->pool, d);
        if (wait_for_stop(s, 0) && removed == 0)
            return; /* given up, which is no error */
        tell(s, i, removed, rc < 0 ? &err : NULL);
    }
}

/* Between three and five quarters of the interval. */
static void *work(void *argument)
{
    struct vial_sweeper *s = argument;
    int64_t wait_ms = some_of(s->interval_ms < SOON_MS ? s->interval_ms : SOON_MS);

    while (!wait_for_stop(s, wait_ms)) {
        sweep_all(s);
        wait_ms = s->interval_ms * 3 / 4 + some_of(s->interval_ms / 2);
    }
    return NULL;
}

static int start(struct vial_sweeper *s, struct vial_error *err)
{
    int rc = thread_start(&s->thread, STACK_SIZE, work, s);

    if (rc != 0)
        return fail_sys_rc(err, -rc, "start the sweeper's thread");
    s->running = true;
    return 0;
}

int vial_sweeper_open(struct vial_engine *engine, long long interval_ms,
                      vial_swept *told, void *context, struct vial_sweeper **out,
                      struct vial_error *err)
{
    struct vial_sweeper *s = calloc(1, sizeof(*s));

    if (!s)
        return fail_memory(err);
    s->engine = engine;
    s->interval_ms = interval_ms ? interval_ms : engine->settings->cleanup.interval_ms;
    s->told = told;
    s->context = context;
    s->stop_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (s->stop_fd < 0) {
        (void)fail_sys(err, "make an eventfd");
        vial_sweeper_close(s);
        return -1;
    }
    if (s->interval_ms > 0 && start(s, err) < 0) {
        vial_sweeper_close(s);
        return -1;
    }
    *out = s;
    return 0;
}

void vial_sweeper_close(struct vial_sweeper *sweeper)
{
    if (!sweeper)
        return;
    if (sweeper->running) {
        (void)eventfd_write(sweeper->stop_fd, 1);
        (void)pthread_join(sweeper->thread, NULL);
    }
    auto_fd_(&sweeper->stop_fd);
    free(sweeper);
}
