/* SPDX-License-Identifier: Apache-2.0 */
#include "base/clock.h"

#include <stdio.h>
#include <time.h>

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

void clock_stamp(char out[CLOCK_STAMP_SIZE], int digits)
{
    struct timespec now;
    struct tm utc;
    size_t len;

    (void)clock_gettime(CLOCK_REALTIME, &now);
    (void)gmtime_r(&now.tv_sec, &utc);
    len = strftime(out, CLOCK_STAMP_SIZE, "%Y-%m-%dT%H:%M:%S", &utc);
    (void)snprintf(out + len, CLOCK_STAMP_SIZE - len, ".%06u",
                   (unsigned)(now.tv_nsec / 1000) % 1000000u);
    len += digits ? (size_t)digits + 1 : 0;
    (void)snprintf(out + len, CLOCK_STAMP_SIZE - len, "Z");
}
