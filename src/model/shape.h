/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_MODEL_SHAPE_H
#define VIAL_MODEL_SHAPE_H

/*
 * What a data file must look like: a table of keys per object. Unknown keys are
 * refused with a suggestion, so that a misspelt one is never passed over.
 */

#include <jansson.h>
#include <stdbool.h>

#include "vial/error.h"

enum shape_type {
    SHAPE_TEXT,
    SHAPE_FLAG,
    SHAPE_COUNT,  /* an integer >= 0 */
    SHAPE_TEXTS,  /* a list of texts */
    SHAPE_WORDS,  /* an object whose values are texts */
    SHAPE_OBJECT, /* one with the keys of `inside` */
    SHAPE_LIST,   /* a list of such */
    SHAPE_MAP,    /* an object whose values are such */
    SHAPE_ANY,
};

struct shape {
    const char *key; /* a row without one ends the table */
    enum shape_type type;
    bool needed;
    const struct shape *inside; /* OBJECT, LIST and MAP */
};

/* Judges OBJECT. WHERE is for messages: "presets/klaw.yaml: preset". */
int shape_check(json_t *object, const struct shape *shapes, const char *where,
                struct vial_error *err);

#endif
