/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_ENGINE_PAUSE_H
#define VIAL_ENGINE_PAUSE_H

/* How long what has failed is not tried again: a moment after the first time, twice as
 * long after each further one, up to some seconds. */

#include <stdbool.h>
#include <stdint.h>

/* Zero-initialise: nothing has failed. */
struct pause {
    int64_t until_ns;
    int64_t ms; /* the last one's; 0: it went well since */
};

void pause_begin(struct pause *p);  /* it has failed */
void pause_forget(struct pause *p); /* it went well */
bool pause_is_over(const struct pause *p);

#endif
