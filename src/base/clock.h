/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_BASE_CLOCK_H
#define VIAL_BASE_CLOCK_H

/* CLOCK_MONOTONIC only: a changed wall clock changes no deadline. */

#include <stdint.h>

int64_t clock_now_ns(void);
double clock_ms_between(int64_t from_ns, int64_t to_ns);

#endif
