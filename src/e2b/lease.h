/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_E2B_LEASE_H
#define VIAL_E2B_LEASE_H

/*
 * How long a sandbox runs, and what its lease ends in: its session ends by itself, or
 * a thread pauses it, which is started with the first that is to be paused. One that
 * cannot be paused is killed: nothing runs beyond its time.
 */

#include "e2b/box.h"

/* Its lease ends SECONDS from now; only later than it would with LENGTHEN. */
int lease_renew(struct box *box, int64_t seconds, bool lengthen,
                struct vial_error *err);

/* Goes on where it was paused, with a lease of SECONDS (0: the usual). */
int lease_wake(struct box *box, int64_t seconds, struct vial_error *err);
int lease_pause(struct box *box, struct vial_error *err);

/* From now on boxes of the table are paused when their leases end, and builds that nobody
 * goes on with are forgotten, a minute later at most. */
int leases_watch(struct e2b *e2b, struct vial_error *err);
void leases_done(struct e2b *e2b);

#endif
