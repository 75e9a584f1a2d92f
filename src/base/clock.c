/* SPDX-License-Identifier: Apache-2.0 */
#include "base/clock.h"

#include <errno.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#define NS_PER_MS INT64_C(1000000)
#define MS_PER_S  INT64_C(1000)

int64_t clock_now_ns(void)
{
    struct timespec now = { 0 };

    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * MS_PER_S * NS_PER_MS + now.tv_nsec;
}

double clock_ms_between(int64_t from_ns, int64_t to_ns)
{
    return (double)(to_ns - from_ns) / (double)NS_PER_MS;
}

int clock_timer_open(int64_t after_ms)
{
    int fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    int rc;

    if (fd < 0)
        return -errno;
    rc = clock_timer_set(fd, after_ms);
    if (rc < 0) {
        (void)close(fd);
        return rc;
    }
    return fd;
}

int clock_timer_set(int fd, int64_t after_ms)
{
    struct itimerspec when = { 0 }; /* all zero means: never */

    if (after_ms == 0)
        when.it_value.tv_nsec = 1;
    if (after_ms > 0) {
        when.it_value.tv_sec = after_ms / MS_PER_S;
        when.it_value.tv_nsec = after_ms % MS_PER_S * NS_PER_MS;
    }
    return timerfd_settime(fd, 0, &when, NULL) < 0 ? -errno : 0;
}
