/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_SETTINGS_YAML_KEYS_H
#define VIAL_SETTINGS_YAML_KEYS_H

/*
 * What a data file must look like: a table of keys per object. Unknown keys are
 * refused with a suggestion, so that a misspelt one is never passed over.
 */

#include <jansson.h>
#include <stdbool.h>

#include "vial/error.h"

enum yaml_type {
    YAML_TEXT,
    YAML_FLAG,
    YAML_COUNT,  /* an integer >= 0 */
    YAML_TEXTS,  /* a list of texts */
    YAML_WORDS,  /* an object whose values are texts */
    YAML_OBJECT, /* one with the keys of `inside` */
    YAML_LIST,   /* a list of such */
    YAML_MAP,    /* an object whose values are such */
    YAML_ANY,
};

struct yaml_key {
    const char *key; /* a row without one ends the table */
    enum yaml_type type;
    bool needed;
    const struct yaml_key *inside; /* OBJECT, LIST and MAP */
};

/* Judges OBJECT. WHERE is for messages: "presets/klaw.yaml: preset". */
int yaml_keys_check(json_t *object, const struct yaml_key *shapes, const char *where,
                    struct vial_error *err);

#endif
