/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_PLAN_MOUNT_SOURCE_H
#define VIAL_PLAN_MOUNT_SOURCE_H

#include "model/plan.h"
#include "settings/settings.h"

#include "vial/error.h"

/* The terms on which a source is judged. Of SETTINGS only policy, home and state are
 * used. */
struct mount_terms {
    const struct settings *settings;
    bool writable;
    bool lower; /* an overlay's: no mounts below it, nor sockets, get through */
    /* Where it must lie if the policy names no roots: a real path, or "": nowhere;
     * NULL: anywhere. */
    const char *within;
    /* A repository that is worked on: its sockets are hidden, not a reason to refuse
     * it, and a home's start files in it are no sign of a home. */
    bool workspace;
    bool
        packages; /* of the caller's own interpreter: looked through at its top alone */
};

/* Whether the host's object SOURCE may be shown. Fills OUT's source, which is
 * malloc'ed, writable, dev, ino, is_dir and hidden. */
int mount_source_judge(const struct mount_terms *terms, const char *source,
                       struct plan_mount *out, struct vial_error *err);

#endif
