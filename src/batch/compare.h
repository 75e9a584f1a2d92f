/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_BATCH_COMPARE_H
#define VIAL_BATCH_COMPARE_H

/* Whether what a program printed is what was expected of it. */

#include <stdbool.h>
#include <stddef.h>

#include "vial/error.h"

enum compare_mode {
    COMPARE_EXACT,  /* the same bytes */
    COMPARE_LINES,  /* space at the end of lines, and empty last lines, do not count */
    COMPARE_TOKENS, /* the same words, whatever space is between them */
    COMPARE_FLOAT,  /* as tokens; numbers may differ by the tolerance */
    COMPARE_LOWER   /* as lines, and letters of A to Z are as those of a to z */
};

struct compare {
    enum compare_mode mode;
    double tolerance; /* of COMPARE_FLOAT: relative or absolute */
};

/* "exact", "lines", "tokens", "float", "float:1e-6" or "lower". */
int compare_parse(const char *text, struct compare *out, struct vial_error *err);

bool compare_equal(const struct compare *c, const char *got, size_t got_len,
                   const char *want, size_t want_len);

#endif
