/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_CLI_PRINT_H
#define VIAL_CLI_PRINT_H

/*
 * These functions print what vial itself says. Data goes to stdout, everything else to
 * stderr as lines that begin with "vial: ". Names and messages can come from hostile
 * input, so nothing reaches a terminal with control characters in it.
 */

#include <jansson.h>
#include <stddef.h>

#include "base/str.h"
#include "base/text.h"

#include "vial/error.h"

__attribute__((format(printf, 1, 2))) void say(const char *format, ...);

/* One line: message, cause, code and remedy. With OTHER, the code is that and ours. */
void say_error(const struct vial_error *err);
void say_error_as(const struct vial_error *err, const char *kind, const char *other);

/* A program's bytes to FD, a piece at a time: as they are, or harmless where that is a
 * terminal. DATA NULL ends them. 0 or -errno. */
int print_bytes(int fd, struct text_safe *state, const char *data, size_t len);

/* These write to stdout and return an exit status: 0 unless it cannot be written to.
 * print_part: a piece of a longer text. Zero-initialise STATE; the last ends a line. */
int print_part(struct text_safe *state, const char *data, size_t len);
int print_text(const struct str *text);
int print_line(const char *text);
int print_json(json_t *value);        /* takes VALUE; NULL counts as no memory */
int print_compact(json_t *value);     /* the same, as one line */
int print_indented(const char *json); /* what a daemon said */

/* Rows of a table for people: every column as wide as its widest cell. */
struct table {
    size_t columns;
    struct strv cells;
};

void table_add(struct table *t, const char *cell);
/* Prints and releases T. */
int table_print(struct table *t);

#endif
