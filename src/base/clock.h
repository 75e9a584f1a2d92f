/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_BASE_CLOCK_H
#define VIAL_BASE_CLOCK_H

/* CLOCK_MONOTONIC only: a changed wall clock changes no deadline. */

#include <stdint.h>

int64_t clock_now_ns(void);
double clock_ms_between(int64_t from_ns, int64_t to_ns);

/* A one-shot timerfd that becomes readable AFTER_MS from now (0: at once; < 0:
 * never). Descriptor or -errno. */
int clock_timer_open(int64_t after_ms);
int clock_timer_set(int fd, int64_t after_ms); /* 0 or -errno */

#endif
