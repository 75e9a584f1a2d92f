/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_BATCH_ROW_H
#define VIAL_BATCH_ROW_H

/*
 * One line of a batch's input: a request's fields, and besides
 *
 *   id        what the row is called; else task_id, else the number of its line
 *   tests     [{stdin, args, files, expected, checker}]: one program on many inputs
 *   expected  what it should print, for a row without tests
 *   expected_base64, stdin_base64: the same as bytes that are no text
 *   compare   how that is judged (compare.h)
 *   checker   a program that judges instead: a request's fields
 *
 * Whatever else stands there comes back untouched. Rows are often written by whoever
 * wrote the programs. So a row sets what concerns its program, and limits, which the
 * policy bounds; what it may see of the host (driver, mounts, network, image …) it does
 * not set, unless the caller trusts it.
 */

#include <jansson.h>
#include <stddef.h>

#include "base/str.h"
#include "batch/compare.h"

#include "vial/error.h"

struct row {
    size_t index;   /* from 0, blank lines not counted */
    size_t line;    /* from 1 */
    char hash[17];  /* of the line's bytes */
    json_t *id;     /* text or number */
    json_t *fields; /* the request's */
    json_t *tests;  /* a list; one without `expected` for a row that has none */
    bool is_single; /* it had no `tests` */
    json_t *rest;   /* what is not ours */
    const char *slip, *meant; /* a member of REST that looks like a field; or NULL */
    struct compare compare;
    struct vial_error error; /* code "": it can be run */
};

/* Nothing but space. */
bool row_is_blank(const char *text, size_t len);

struct row_rules {
    struct compare compare; /* where the row does not say how */
    bool trusts;            /* it may set any field */
};

/* TEXT is one line. What is wrong with it is in OUT->error. */
void row_read(const char *text, size_t len, const struct row_rules *rules,
              struct row *out);
void row_done(struct row *row);

/* TEST's MEMBER as bytes, however it is written. 1, 0: there is none, -1: no memory. */
int row_bytes(const json_t *test, const char *member, struct blob *out);

#endif
