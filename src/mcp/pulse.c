/* SPDX-License-Identifier: Apache-2.0 */
#include "mcp/pulse.h"

#include <errno.h>
#include <time.h>

#include "base/thread.h"

#define STACK_BYTES ((size_t)64 << 10)
#define S_NS        1000000000L

static void add_ms(struct timespec *t, unsigned ms)
{
    t->tv_sec += ms / 1000;
    t->tv_nsec += (long)(ms % 1000) * 1000000L;
    if (t->tv_nsec >= S_NS) {
        t->tv_sec++;
        t->tv_nsec -= S_NS;
    }
}

static void *beat(void *context)
{
    struct pulse *p = context;
    struct timespec next;

    (void)clock_gettime(CLOCK_MONOTONIC, &next);
    add_ms(&next, p->every_ms);
    (void)pthread_mutex_lock(&p->lock);
    while (!p->stopped) {
        if (pthread_cond_timedwait(&p->changed, &p->lock, &next) != ETIMEDOUT)
            continue;
        /* Unlocked: a beat may take its time, and who stops us waits for the thread. */
        (void)pthread_mutex_unlock(&p->lock);
        p->beat(p->context);
        (void)clock_gettime(CLOCK_MONOTONIC, &next);
        add_ms(&next, p->every_ms);
        (void)pthread_mutex_lock(&p->lock);
    }
    (void)pthread_mutex_unlock(&p->lock);
    return NULL;
}

void pulse_start(struct pulse *p)
{
    p->stopped = false;
    (void)pthread_mutex_init(&p->lock, NULL);
    thread_cond_init(&p->changed);
    p->started = thread_start(&p->thread, STACK_BYTES, beat, p) == 0;
}

void pulse_stop(struct pulse *p)
{
    (void)pthread_mutex_lock(&p->lock);
    p->stopped = true;
    (void)pthread_cond_signal(&p->changed);
    (void)pthread_mutex_unlock(&p->lock);
    if (p->started)
        (void)pthread_join(p->thread, NULL);
    (void)pthread_cond_destroy(&p->changed);
    (void)pthread_mutex_destroy(&p->lock);
}
