/* SPDX-License-Identifier: Apache-2.0 */
#include "base/clock.h"

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
