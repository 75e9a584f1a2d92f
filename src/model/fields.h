/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_MODEL_FIELDS_H
#define VIAL_MODEL_FIELDS_H

/*
 * The one table of request fields (fields.def). A row yields the member of
 * struct request, its JSON decoder, its command-line flag and help, its
 * settings key and environment variable, and its JSON schema.
 */

#include <stdint.h>
#include <stdio.h>

/* musl makes a macro of the name, which a field has, too. */
#undef stdin

enum field_type {
    FIELD_TEXT,   /* struct blob: any bytes (code, stdin) */
    FIELD_NAME,   /* char *: text without control characters */
    FIELD_CHOICE, /* int: index into a list of names */
    FIELD_BOOL,   /* bool */
    FIELD_COUNT_, /* int64_t */
    FIELD_MS,     /* int64_t: a duration */
    FIELD_BYTES,  /* int64_t: a size */
    FIELD_MILLI,  /* int64_t: thousandths (cpus) */
    FIELD_LIST,   /* struct strv, gathers */
    FIELD_MAP,    /* struct strv of "K=V", gathers; a JSON object */
    FIELD_FILES,  /* struct file_list, gathers */
    FIELD_MOUNTS, /* struct mount_list, gathers */
};

/* Where a field may be set, besides a request: */
enum field_scope {
    FIELD_IN_REQUEST = 0,       /* nowhere else */
    FIELD_IN_SETTINGS = 1 << 0, /* settings files, presets and VIAL_* variables */
    FIELD_IN_PROJECT = 1 << 1,  /* also ./vial.yaml, which untrusted code may have
                                   written: only what cannot weaken isolation */
};

struct field {
    const char *name; /* JSON key; the flag is "--" and this with '-' for '_' */
    enum field_type type;
    unsigned scope;
    const char *metavar; /* for help: "DURATION" */
    const char *choices; /* "none|bridge", or NULL */
    int64_t min, max; /* numbers: inclusive; names and texts: bytes; lists: entries */
    const char *def;  /* built-in default as text, or NULL */
    const char *help; /* one sentence */
};

enum field_id {
#define FIELD(name, ...) FIELD_ID_##name,
#include "model/fields.def"
#undef FIELD
    FIELD_ID__COUNT
};

/* A bit for each field; there are more than 64. */
__extension__ typedef unsigned __int128 field_set;
#define FIELD_BIT(id) ((field_set)1 << (id))

/* FIELD_ID__COUNT rows, in the order of fields.def. */
extern const struct field fields[];

/* Their names in the same order, NULL-terminated. */
extern const char *const field_names[];

const struct field *field_find(const char *name); /* NULL: unknown */
enum field_id field_id_of(const struct field *f); /* F is a row of the table */

#endif
