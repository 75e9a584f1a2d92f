/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_BASE_CLOCK_H
#define VIAL_BASE_CLOCK_H

/* CLOCK_MONOTONIC, but for stamps: a changed wall clock changes no deadline. */

#include <stdint.h>

int64_t clock_now_ns(void);
double clock_ms_between(int64_t from_ns, int64_t to_ns);

/* The time of day for people and logs, "2026-11-15T10:20:30.123Z", with DIGITS of the
 * second's fraction: 0, 3 or 6. */
#define CLOCK_STAMP_SIZE 40
void clock_stamp(char out[CLOCK_STAMP_SIZE], int digits);

#endif
