/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_WORKSPACE_H
#define VIAL_WORKSPACE_H

/*
 * A session whose request has `workspace` and `workspace_mode: overlay` works on
 * the host's tree without touching it: what programs write goes to a layer above
 * it, which `disk` bounds.
 *
 *   vial_session_open -> { programs run }* -> diff -> commit or discard
 *                         checkpoint, rollback at any point
 *
 * diff and commit work after the session has ended, too, until it is freed. All
 * that lies in the layer is hostile: no link in it is ever followed, and only
 * files, directories and links are taken, as the caller's own and without setuid
 * and the like.
 *
 * Errors: VIAL-WORKSPACE when there is no overlay, or something in it cannot be
 * taken; VIAL-CONFLICT when the host's tree has changed meanwhile; VIAL-BUSY while
 * another commit to the same tree is under way.
 */

#include "vial/session.h"

#ifdef __cplusplus
extern "C" {
#endif

enum vial_change_kind {
    VIAL_CHANGE_ADDED,
    VIAL_CHANGE_MODIFIED, /* a file's bytes, or where a link points; maybe its mode */
    VIAL_CHANGE_DELETED,
    VIAL_CHANGE_MODE, /* only the mode */
    VIAL_CHANGE_TYPE  /* a file became a directory, say */
};

struct vial_change {
    char *path; /* relative to the workspace */
    enum vial_change_kind kind;
    char type, type_before; /* 'f' file, 'd' directory, 'l' link, 'o' other, or 0 */
    unsigned mode, mode_before;
    uint64_t size, size_before;
    char *diff;    /* unified, where both sides are text of moderate size; or NULL */
    bool conflict; /* the host's own has changed since the session began */
    char
        *obstacle; /* why commit refuses it: a device, a link that leads out; or NULL */
};

struct vial_changes {
    struct vial_change *items; /* sorted by path */
    size_t count;
};

/* Zero-initialise. */
struct vial_diff_options {
    bool names_only;          /* no unified diffs */
    uint64_t text_bytes;      /* of the largest file that is diffed; usual: 1 MiB */
    const char *const *paths; /* NULL-terminated: only these and what is below them;
                                 NULL: everything */
};

struct vial_commit_options {
    const char *const *paths; /* as above; the rest stays in the layer */
    bool links_out; /* links that are absolute or lead out of the tree are welcome */
};

struct vial_commit_report {
    size_t added, modified, deleted; /* files, links and directories */
};

/* Tells what differs from the host's tree. OPTIONS may be NULL. */
VIAL_API VIAL_MUST_CHECK int vial_session_diff(struct vial_session *session,
                                               const struct vial_diff_options *options,
                                               struct vial_changes *out,
                                               struct vial_error *err);

/* malloc'ed JSON: a list of objects with "path", "kind" ("added" …), "type", "mode",
 * "size", "before" (null, or type, mode, size), "diff", "conflict", "obstacle".
 * NULL when out of memory. */
VIAL_API char *vial_changes_json(const struct vial_changes *changes);

/* The unified diffs one after the other, and a line for each change that has none,
 * as git prints them. malloc'ed; NULL when out of memory. */
VIAL_API char *vial_changes_text(const struct vial_changes *changes);

/* "added", "modified" and so on. Static storage. */
VIAL_API const char *vial_change_name(enum vial_change_kind kind);

/* Zero-initialised changes are allowed. */
VIAL_API void vial_changes_free(struct vial_changes *changes);

/* Applies the changes to the host's tree: all of them or, when one is refused,
 * none. If this process or the host dies meanwhile, the next session on the same
 * tree, or vial_cleanup, finishes it or takes it back, as a whole. OPTIONS and OUT
 * may be NULL. */
VIAL_API VIAL_MUST_CHECK int vial_session_commit(
    struct vial_session *session, const struct vial_commit_options *options,
    struct vial_commit_report *out, struct vial_error *err);

/* The workspace is as the host's tree again. No program may run. */
VIAL_API VIAL_MUST_CHECK int vial_session_discard(struct vial_session *session,
                                                  struct vial_error *err);

/* Remembers the workspace as it is now under NAME (letters, digits, '-', '_', '.'),
 * in place of what had that name. It is kept inside the layer's bounds, up to 64 of
 * them, until a commit. No program may run. */
VIAL_API VIAL_MUST_CHECK int vial_session_checkpoint(struct vial_session *session,
                                                     const char *name,
                                                     struct vial_error *err);

/* The workspace is as it was at checkpoint NAME, which stays. No program may run. */
VIAL_API VIAL_MUST_CHECK int vial_session_rollback(struct vial_session *session,
                                                   const char *name,
                                                   struct vial_error *err);

/* Names of the checkpoints, oldest first, as a malloc'ed JSON list of strings. */
VIAL_API VIAL_MUST_CHECK int vial_session_checkpoints(struct vial_session *session,
                                                      char **json,
                                                      struct vial_error *err);

#ifdef __cplusplus
}
#endif
#endif
