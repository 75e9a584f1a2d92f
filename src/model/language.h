/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_MODEL_LANGUAGE_H
#define VIAL_MODEL_LANGUAGE_H

/*
 * The language table: data, not code. runtimes/languages.yaml is the built-in
 * one; a user's file adds languages or replaces them by name. An entry with
 * `like: NAME` starts as a copy of a language that is already there.
 *
 *   language_table_load* -> language_find -> … -> language_table_done
 */

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/str.h"
#include "model/custom_profile.h"
#include "model/limits.h"

#include "vial/error.h"

/* A file in a language's cache that says that it is whole. */
#define LANGUAGE_CACHE_WHOLE ".vial-whole"

struct language {
    char *name;
    struct strv aliases;
    char *file;               /* "main.py": where the code goes, below the workdir */
    struct strv compile_argv; /* "{file}" and "{dir}" are replaced; may be empty */
    struct strv run_argv;
    struct strv inline_argv; /* used instead for code short enough for one argument,
                                which then stands for "{code}"; may be empty */
    struct strv version_argv;
    struct strv env;    /* "K=V" added for this language */
    char *image;        /* default image, or NULL */
    char *seccomp;      /* profile, or NULL: "default" */
    char *seccomp_file; /* a profile beside that one, which only takes away; or NULL */
    struct custom_profile custom; /* that file, once it is read */
    char *network;                /* default network, or NULL: the settings' */
    char *expects;                /* how its version begins, or NULL */
    char *cache_env;        /* where its compiler looks for what it kept, or NULL */
    struct strv cache_argv; /* makes that, for the standard library */
    struct strv commands;   /* programs whose presence in a command means its image */
    struct limits limits;   /* 0: not given */
    bool firm;              /* its limits win over the settings' defaults … */
    uint32_t firm_limits; /* … a bit for each that an entry which is firm has named */
    bool hidden;          /* not to be found; others may be `like` it */
};

struct language_table {
    struct language *items;
    size_t count;
};

/* Adds FILE's languages (YAML or JSON) over those already there. */
int language_table_load(struct language_table *t, const char *path,
                        struct vial_error *err);
int language_table_read(struct language_table *t, const char *text, size_t len,
                        const char *name, struct vial_error *err);

/* The same from an object of languages. */
int language_table_merge(struct language_table *t, json_t *object, const char *where,
                         struct vial_error *err);

/* Hides all that are there now, so that only what comes after is found; or shows
 * them again. */
void language_table_hide(struct language_table *t);
void language_table_show(struct language_table *t);

/* By name or alias, any case. Unknown: an error that names the known ones and,
 * if one is near, suggests it. Borrowed from T. */
int language_find(const struct language_table *t, const char *name,
                  const struct language **out, struct vial_error *err);

void language_table_done(struct language_table *t);

#endif
