/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_SETTINGS_BLOCKS_H
#define VIAL_SETTINGS_BLOCKS_H

/*
 * Blocks of a settings file that are tables of fields. An inner file's value replaces
 * an outer one's; a project file may not have them.
 *
 *   serve     the daemon (serve_settings.def)
 *   cleanup   how often a process that stays removes what dead ones left behind
 *   journal   how many of the caller's own runs are remembered without a daemon, and
 *             how much of their output, for 'vial logs' and 'vial metrics'
 *   images    where images without a container engine are kept, where they come from,
 *             and how large they may be
 *   kubernetes  what holds for all pods of that driver (model/pod_settings.h)
 *   volumes   where volumes are kept, and how many a daemon's callers may make
 */

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

#include "model/request.h"

#include "vial/error.h"

struct serve_settings {
#define SERVE(name, type, ...) field_c_##type name;
#include "settings/serve_settings.def"
#undef SERVE
};

/* Whether vessels shall wait: for LANGUAGES, which come from `warm`, and for what is
 * asked for often. */
bool serve_settings_warm(const struct serve_settings *s, struct strv *languages);

/* The part of `node` that is in ids; "" without one. */
const char *serve_settings_node(const struct serve_settings *s);

/* Scopes say what callers may do (serve/auth.h). */
#define SERVE_SCOPES(ROW)                                                              \
    ROW("read", SCOPE_READ)                                                            \
    ROW("run", SCOPE_RUN)                                                              \
    ROW("session", SCOPE_SESSION)                                                      \
    ROW("image", SCOPE_IMAGE)                                                          \
    ROW("admin", SCOPE_ADMIN)                                                          \
    ROW("all", SCOPE_ALL)

struct cleaning {
    int64_t interval_ms; /* 0: never */
};

struct journaling {
    int64_t runs, output; /* how many; bytes of each stream */
};

struct image_settings {
    char *store;                  /* or NULL: the usual place (images/store.h) */
    char *registry;               /* of names that do not begin with one, or NULL */
    struct strv mirrors;          /* "HOST=URL" */
    struct strv plain;            /* registries that are asked by plain HTTP */
    int64_t max_bytes, max_files; /* of one image, unpacked */
};

struct volume_settings {
    char *store;          /* or NULL: the usual place (volumes/volume_store.h) */
    int64_t caller, most; /* how many of one caller; how many in all */
    int64_t size;         /* of one that is made without; 0: none */
    int64_t caller_size;  /* of one caller's together; 0: any */
};

struct block_row {
    struct field field;
    size_t offset; /* of the value in the block's struct */
    bool pairs;    /* a list of KEY=VALUE, which may be written as {KEY: VALUE} */
};

struct block {
    const char *name;
    const struct block_row *rows;
    size_t count;
};

extern const struct block block_serve, block_cleanup, block_journal, block_images,
    block_kubernetes, block_volumes;

/* VALUES is the block's struct: the built-in values; those that OBJECT has; all of
 * them (NULL: no memory). */
int block_init(const struct block *b, void *values, struct vial_error *err);
int block_read(const struct block *b, void *values, json_t *object, const char *where,
               struct vial_error *err);
json_t *block_json(const struct block *b, const void *values);
void block_done(const struct block *b, void *values);

/* The row NAME, or NULL. */
const struct block_row *block_find(const struct block *b, const char *name);

#endif
