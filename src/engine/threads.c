/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/threads.h"

#include <signal.h>
#include <time.h>

#include "base/clock.h"

int threads_start(pthread_t *out, thread_fn *work, void *context)
{
    sigset_t all, before;
    int rc = 0;

    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    rc = pthread_create(out, NULL, work, context);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    return rc;
}

void threads_cond_init(pthread_cond_t *cond)
{
    pthread_condattr_t attr;

    (void)pthread_condattr_init(&attr);
    (void)pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    (void)pthread_cond_init(cond, &attr);
    (void)pthread_condattr_destroy(&attr);
}

void threads_wait(pthread_cond_t *cond, pthread_mutex_t *lock, int64_t ms)
{
    int64_t until_ns = clock_now_ns() + ms * 1000000;
    struct timespec t = { .tv_sec = (time_t)(until_ns / 1000000000),
                          .tv_nsec = (long)(until_ns % 1000000000) };

    (void)pthread_cond_timedwait(cond, lock, &t);
}
