/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_WIRE_FAREWELL_H
#define VIAL_WIRE_FAREWELL_H

/*
 * A process's parent hears of its end only when the kernel has taken down its memory,
 * which takes longer than most programs. An adopted one (WIRE_ADOPT) that has nothing
 * left to do but exit can say so before: it takes a name that holds its exit code, and
 * stops. A stop is told at once; whoever finds such a name takes it for the end, and
 * kills what is left. That is all that a program could win by doing the same itself.
 */

#include <stddef.h>

#define FAREWELL_SIZE 16 /* of a process's name, with its NUL */

void farewell_write(char name[FAREWELL_SIZE], int code);
/* The exit code, or -1: LEN bytes at TEXT (of /proc/PID/comm) are no farewell. */
int farewell_read(const char *text, size_t len);

#endif
