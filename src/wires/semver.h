/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_WIRES_SEMVER_H
#define VIAL_WIRES_SEMVER_H

/* Versions of three numbers, and ranges of them as npm has them: "3.x", "^3.10". */

#include <stdbool.h>

/* < 0, 0 or > 0. What is missing counts as 0. */
int semver_compare(const char *a, const char *b);
/* Whether VERSION lies in RANGE: "*", a version whose parts may be missing or "x", and
 * "^", "~", ">=", ">", "<=", "<" or "=" before one. False for all else. */
bool semver_fits(const char *range, const char *version);

#endif
