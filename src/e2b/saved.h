/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_E2B_SAVED_H
#define VIAL_E2B_SAVED_H

/*
 * What callers have saved: snapshots of sandboxes, and templates that were built. Both
 * are images of the store, whose names say all that has to be known of them, so that
 * they are found again when the daemon was started anew (docs/adr/0101):
 *
 *   snapshot/OWNER/s__TIME__SANDBOX__NAME:TAG
 *   snapshot/OWNER/t__TIME__CPUS__MEMORY__NAME__TAG__TAG…:TAG
 *
 * TIME is milliseconds since 1970, CPUS thousandths, both in hex as MEMORY, in MiB; 0
 * for what sandboxes usually have. The last TAG is the store's, of chance.
 */

#include <stdbool.h>
#include <stdint.h>

#include "base/str.h"
#include "e2b/e2b.h"

#define SAVED_ID   40 /* "snp", and the 32 digits of chance */
#define SAVED_NAME 48 /* letters of a name that callers give */
#define SAVED_TAGS 8u
#define SAVED_TAG  "default" /* that nobody asked for */

struct saved {
    char *image;          /* its name in the store */
    bool template;        /* else a snapshot */
    char id[SAVED_ID];    /* of a snapshot */
    char build[SAVED_ID]; /* the same chance as a UUID has it */
    int64_t made_ms;
    char *name; /* that the caller gave, or "" */
    char *sandbox;
    int64_t milli_cpus, memory_mb;
    struct strv tags;
};

struct saved_list {
    struct saved *items; /* newest first */
    size_t count;
};

void saved_done(struct saved *s);
void saved_list_done(struct saved_list *list);
#define auto_saved      __attribute__((cleanup(saved_done)))
#define auto_saved_list __attribute__((cleanup(saved_list_done)))

/* All that OWNER has. */
int saved_read(struct vial_engine *engine, const char *owner, struct saved_list *out,
               struct vial_error *err);

/* The newest that REFERENCE means: a snapshot by id or name, a template by its name, or
 * "name:tag", or a build. NULL: there is none. */
const struct saved *saved_find(const struct saved_list *list, const char *reference);

/* Whether S is a template that is called NAME, whatever its tags. */
bool saved_is_named(const struct saved *s, const char *name);
/* As saved_find; of a name without a tag the newest, whatever its tags. */
const struct saved *saved_find_any(const struct saved_list *list,
                                   const char *reference);

/* What is to be saved gets its place in the store. NAME may be NULL. */
int saved_name_snapshot(const char *owner, const char *sandbox, const char *name,
                        struct saved *out, struct vial_error *err);
/* The same for a template: of WANTED name, tags, milli_cpus and memory_mb count. */
int saved_name_template(const char *owner, const struct saved *wanted,
                        struct saved *out, struct vial_error *err);

#endif
