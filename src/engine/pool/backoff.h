/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_ENGINE_POOL_BACKOFF_H
#define VIAL_ENGINE_POOL_BACKOFF_H

/* How long what has failed is not tried again: a moment after the first time, twice as
 * long after each further one, up to some seconds. */

#include <stdbool.h>
#include <stdint.h>

/* Zero-initialise: nothing has failed. */
struct backoff {
    int64_t until_ns;
    int64_t ms; /* the last one's; 0: it went well since */
};

void backoff_begin(struct backoff *p);  /* it has failed */
void backoff_forget(struct backoff *p); /* it went well */
bool backoff_is_over(const struct backoff *p);

#endif
