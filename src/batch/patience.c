/* SPDX-License-Identifier: Apache-2.0 */
#include "batch/patience.h"

#include <poll.h>

#include "base/clock.h"
#include "base/fail.h"

#define FIRST_MS INT64_C(250)
#define MOST_MS  INT64_C(5000) /* of our own: a place that is free shall not stay so */
#define DOUBLED  5u            /* times until it is more than that */

bool patience_turned_away(int rc, const struct vial_result *result,
                          const struct vial_error *err)
{
    const struct vial_error *said = rc < 0                           ? err
                                    : result->verdict == VIAL_DENIED ? &result->error
                                                                     : NULL;

    return said && (fail_is(said, VIAL_E_BUSY) || fail_is(said, VIAL_E_RATE));
}

int64_t patience_pause_ms(const struct patience *p, unsigned retry_s)
{
    int64_t own_ms = FIRST_MS << (p->times < DOUBLED ? p->times : DOUBLED);
    int64_t asked_ms =
        INT64_C(1000) *
        (retry_s < PATIENCE_RETRY_MOST_S ? retry_s : PATIENCE_RETRY_MOST_S);

    own_ms = own_ms < MOST_MS ? own_ms : MOST_MS;
    return asked_ms > own_ms ? asked_ms : own_ms;
}

/* Those that were turned away together shall not come back together. */
static int64_t spread(int64_t ms)
{
    return ms + clock_now_ns() / 1000 % (ms / 4 + 1);
}

bool patience_wait(struct patience *p, unsigned retry_s, int cancel_fd)
{
    struct pollfd cancelled = { .fd = cancel_fd, .events = POLLIN };
    bool goes_on;

    if (p->waiting)
        atomic_fetch_add(p->waiting, 1);
    goes_on = poll(&cancelled, 1, (int)spread(patience_pause_ms(p, retry_s))) <= 0;
    if (p->waiting)
        atomic_fetch_sub(p->waiting, 1);
    p->times++;
    return goes_on;
}
