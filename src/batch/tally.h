/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_BATCH_TALLY_H
#define VIAL_BATCH_TALLY_H

/* What a batch has come to: for the line that shows how it gets on, and for the summary
 * at its end. The caller holds its own lock. */

#include <jansson.h>
#include <stdint.h>

#include "base/str.h"
#include "batch/grade.h"
#include "batch/samples.h"

#define TALLY_TIMES     32768u /* places of a logarithmic scale */
#define TALLY_IDS       100u   /* of each kind so many are listed … */
#define TALLY_ID_BYTES  256u   /* … that are no longer than this */
#define TALLY_LANGUAGES 64u
#define TALLY_VERDICTS  12
_Static_assert(TALLY_VERDICTS == VIAL_FAILED + 1, "one for each verdict");

struct tally {
    size_t total;   /* rows in all; 0: not known */
    size_t done;    /* in this process */
    size_t resumed; /* were there before */
    size_t passed;
    size_t verdicts[TALLY_VERDICTS];
    size_t compiles[TALLY_VERDICTS]; /* of these: the compile step's */
    size_t retried;
    size_t flaky;
    size_t references, bad_references; /* rows that must pass, and those that did not */
    double cpu_ms;
    int64_t started_ns;
    uint32_t *times; /* of the rows that were run here: how many took about so long */
    size_t timed;
    struct samples tasks;
    json_t *ids; /* by verdict but for `ok`, "wrong" and "flaky": the first rows */
    json_t *languages;       /* of the rows that were run here: a set */
    struct vial_error first; /* of the rows that vial failed on */
    struct {
        size_t line; /* 0: none */
        char name[33], meant[33];
    } slip; /* the first name in a row that looks like that of a field */
};

int tally_init(struct tally *t);
void tally_done(struct tally *t);
void tally_add(struct tally *t, const struct row *row, const struct grade *g);
/* More of the rows were vial's own failures than SHARE (of 1), and not just a few. */
bool tally_fails_much(const struct tally *t, double share);
/* A line of the output that was there before. */
void tally_resume(struct tally *t, const json_t *line);
/* "120/1000 12%  340/s  2 s left  passed 99  …" */
void tally_progress(const struct tally *t, struct str *out);
/* NULL: no memory. */
json_t *tally_json(struct tally *t);

#endif
