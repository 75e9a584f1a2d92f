/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_BASE_UNIT_H
#define VIAL_BASE_UNIT_H

/*
 * Numbers with units, parsed strictly: the whole text, no sign, no space, no
 * hex, no exponent. 0, or -1 when TEXT is not one (ERANGE-like cases included).
 * Fractions of the smallest unit are cut off, unless that would leave zero.
 */

#include <stdint.h>

#include "base/str.h"

int unit_parse_count(const char *text, int64_t *out);
/* "5", "5s", "0.5", "500ms", "2m", "1h" -> ms. A bare number is seconds. */
int unit_parse_ms(const char *text, int64_t *out);
/* "256m", "1g", "64k", "1.5g", "1024", "256mb", "256mib" -> bytes (powers of 1024). */
int unit_parse_bytes(const char *text, int64_t *out);
/* "0.5", "2" -> thousandths. */
int unit_parse_milli(const char *text, int64_t *out);

/* The shortest text that parses back to the same value; times always carry
 * their unit. A negative value, which cannot be parsed, comes as a plain number. */
void unit_write_ms(struct str *s, int64_t ms);
void unit_write_bytes(struct str *s, int64_t bytes);
void unit_write_milli(struct str *s, int64_t milli);

#endif
