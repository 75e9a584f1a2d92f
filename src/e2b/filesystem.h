/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_E2B_FILESYSTEM_H
#define VIAL_E2B_FILESYSTEM_H

/* What the files of a sandbox look like to E2B's clients. */

#include "e2b/connect.h"

#include "vial/files.h"

/* EntryInfo of the name PATH, which is absolute; a link is told by what it leads to.
 * -1: it is not there. */
int entry_stat(const struct ask *a, const char *path, json_t **out,
               struct connect_error *e);
/* How ENTRY of a list, at PATH, is told. */
typedef json_t *entry_form(const struct ask *a, const char *path,
                           const struct vial_entry *entry);
/* As EntryInfo. */
json_t *entry_json(const struct ask *a, const char *path,
                   const struct vial_entry *entry);
/* ALL of the directory PATH, which is sorted for that, so many levels deep: children
 * behind their directory. NULL: no memory. */
json_t *entries_json(const struct ask *a, const char *path, struct vial_entries *all,
                     size_t depth, entry_form *form);

/* Whether PATH leads to a directory: 1, 0, or -1: there is nothing, or an error. */
int entry_is_dir(const struct ask *a, const char *path, struct connect_error *e);

/* files_metadata.c: a file's metadata are its attributes "user.e2b.KEY". Those that the
 * headers "X-Metadata-KEY" of a request give it, as vial_put_options has them.
 * 0, or -1. */
struct str;
int metadata_read(const struct ask *a, struct str *out, struct connect_error *e);
/* {KEY: VALUE}, or NULL if there is none. */
json_t *metadata_json(const char *attributes);

/* watch.c: watching, as a stream, and as events that are fetched. */
void watch_stream(struct ask *a);
int watch_create(struct ask *a, const json_t *message, json_t **out,
                 struct connect_error *e);
int watch_events(struct ask *a, const json_t *message, json_t **out,
                 struct connect_error *e);
int watch_remove(struct ask *a, const json_t *message, json_t **out,
                 struct connect_error *e);

/* The member NAME of MESSAGE as a path that is absolute and plain. */
int message_path(const struct ask *a, const json_t *message, const char *name,
                 struct str *out, struct connect_error *e);

#endif
