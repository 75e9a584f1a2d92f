/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_WORKSPACE_ORIGIN_H
#define VIAL_WORKSPACE_ORIGIN_H

/*
 * The origin is the host's tree as it was when the session began, name by name, without
 * contents: enough to tell what a layer changed, and whether the host has changed it
 * too.
 */

#include "workspace/tree.h"

#include "vial/error.h"

struct origin_entry {
    char *path;
    struct node node;
};

/* Sorted by path, so that what lies below a directory lies together. */
struct origin {
    struct origin_entry *items;
    size_t count, cap;
};

/* Names that begin so are vial's own, in the root of a tree. */
#define ORIGIN_STAGE ".vial-commit-"

int origin_read(int root_fd, struct origin *out, struct vial_error *err);
/* NULL: it was not there. */
const struct origin_entry *origin_find(const struct origin *o, const char *path);
/* The first entry below DIR; the others follow it while tree_holds says so. */
size_t origin_below(const struct origin *o, const char *dir);
/* True if the host's PATH is still what it was; for a directory, that it is one. */
bool origin_same(const struct node *was, const struct node *is);
/* After a commit: PATHS, which are sorted, are as they are now. */
int origin_renew(struct origin *o, int root_fd, const struct strv *paths,
                 struct vial_error *err);
void origin_done(struct origin *o);

#endif
