/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_BASE_TEXT_H
#define VIAL_BASE_TEXT_H

/* Makes text fit to be shown: UTF-8 repair, terminal neutralising, suggestions. */

#include <stdbool.h>
#include <stddef.h>

#include "base/str.h"

bool text_is_utf8(const char *data,
                  size_t len); /* strict: no surrogates, no overlongs */

/* How many bytes at the end of DATA begin a character that is not whole. */
size_t text_unfinished(const char *data, size_t len);

/* Appends DATA with each maximal invalid part replaced by U+FFFD. */
void text_repair(struct str *out, const char *data, size_t len);

/*
 * Makes bytes harmless for a terminal, across chunk borders: C0 but \t and \n
 * (and \r directly before \n), DEL, ESC, C1, bidi controls, line separators, tag
 * characters and invalid UTF-8 come out as visible text ("\x1b" as the four
 * characters \x1b, U+202E as \u202e). Zero-initialise; call text_safe_end after the
 * last chunk.
 */
struct text_safe {
    char held[4];
    size_t held_len;
};

void text_safe(struct text_safe *state, struct str *out, const char *data, size_t len);
void text_safe_end(struct text_safe *state, struct str *out);

/*
 * A name as one part of one line, as git writes it: as it is, or between double quotes
 * if it holds control characters, a double quote or a backslash, which then stand as in
 * a C string. PREFIX goes inside the quotes.
 */
void text_quote(struct str *out, const char *prefix, const char *name);

/* Appends TEXT as one word of a shell. */
void text_shell(struct str *out, const char *text);

void text_base64(struct str *out, const void *data, size_t len);
int text_unbase64(const char *text, size_t len, struct blob *out); /* 0 or -1 */

/* What a hexadecimal digit of either case stands for; -1: it is none. */
int text_unhex(char c);

/* The nearest of NAMES (NULL-terminated) if it is near enough to be meant,
 * else NULL. */
const char *text_suggest(const char *word, const char *const *names);

#endif
