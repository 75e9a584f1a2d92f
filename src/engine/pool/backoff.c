/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/pool/backoff.h"

#include "base/clock.h"

#define FIRST_MS   100
#define LONGEST_MS 5000
#define MS_NS      INT64_C(1000000)

void backoff_begin(struct backoff *p)
{
    p->ms = p->ms ? p->ms * 2 : FIRST_MS;
    if (p->ms > LONGEST_MS)
        p->ms = LONGEST_MS;
    p->until_ns = clock_now_ns() + p->ms * MS_NS;
}

void backoff_forget(struct backoff *p)
{
    p->ms = 0;
}

bool backoff_is_over(const struct backoff *p)
{
    return clock_now_ns() >= p->until_ns;
}
