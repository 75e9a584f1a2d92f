/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_BATCH_PATIENCE_H
#define VIAL_BATCH_PATIENCE_H

/*
 * A run that is turned away has not begun: too much is under way, or a quota is used up
 * for now. That is no verdict, and nobody's failure. It waits, longer each time, until
 * it is let in.
 */

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "vial/error.h"
#include "vial/result.h"

#define PATIENCE_RETRY_MOST_S 300u /* nobody is believed who asks for more */

struct patience {
    unsigned times;         /* it has waited */
    atomic_size_t *waiting; /* how many do so now, or NULL */
};

/* Whether a run that ended so (RC, its result or ERR) was turned away. */
bool patience_turned_away(int rc, const struct vial_result *result,
                          const struct vial_error *err);

/* Without chance's part. RETRY_S: how long whoever turned it away asks to wait; or 0.
 */
int64_t patience_pause_ms(const struct patience *p, unsigned retry_s);

/* False: CANCEL_FD (or -1) became readable. */
bool patience_wait(struct patience *p, unsigned retry_s, int cancel_fd);

#endif
