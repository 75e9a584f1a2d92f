/* SPDX-License-Identifier: Apache-2.0 */
#include "base/thread.h"

#include <signal.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"

/* Some machines' threads need more to begin with. */
static size_t at_least(size_t bytes)
{
    long least = sysconf(_SC_THREAD_STACK_MIN);

    return least > 0 && (size_t)least > bytes ? (size_t)least : bytes;
}

int thread_start(pthread_t *out, size_t stack_bytes, thread_fn *work, void *context)
{
    pthread_attr_t attr;
    sigset_t all, before;
    int rc = pthread_attr_init(&attr);

    if (rc != 0)
        return rc;
    rc = pthread_attr_setstacksize(&attr, at_least(stack_bytes));
    if (rc == 0) {
        (void)sigfillset(&all);
        (void)pthread_sigmask(SIG_SETMASK, &all, &before);
        rc = pthread_create(out, &attr, work, context);
        (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    }
    (void)pthread_attr_destroy(&attr);
    return rc;
}

int thread_start_alone(size_t stack_bytes, thread_fn *work, void *context)
{
    pthread_t thread;
    int rc = thread_start(&thread, stack_bytes, work, context);

    if (rc == 0)
        (void)pthread_detach(thread);
    return rc;
}

void thread_cond_init(pthread_cond_t *cond)
{
    pthread_condattr_t attr;

    (void)pthread_condattr_init(&attr);
    (void)pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    (void)pthread_cond_init(cond, &attr);
    (void)pthread_condattr_destroy(&attr);
}

void thread_wait(pthread_cond_t *cond, pthread_mutex_t *lock, int64_t ms)
{
    int64_t until_ns = clock_now_ns() + ms * 1000000;
    struct timespec t = { .tv_sec = (time_t)(until_ns / 1000000000),
                          .tv_nsec = (long)(until_ns % 1000000000) };

    (void)pthread_cond_timedwait(cond, lock, &t);
}
