/* SPDX-License-Identifier: Apache-2.0 */
/* Of vial-secrets' own main file, for targets that have none. */
#include <time.h>

#include "secrets/secrets.h"

uint64_t now_ns(void)
{
    struct timespec t;

    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}
