/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_MODEL_MOUNT_SOURCE_H
#define VIAL_MODEL_MOUNT_SOURCE_H

#include "model/plan.h"
#include "model/settings.h"

#include "vial/error.h"

/* What a source is wanted for. Of SETTINGS only policy, home and state are used. */
struct mount_terms {
    const struct settings *settings;
    bool writable;
    bool lower; /* an overlay's: no mounts below it, nor sockets, get through */
    /* Where it must lie if the policy names no roots: a real path, or "": nowhere; NULL:
     * anywhere. */
    const char *within;
};

/* Whether the host's object SOURCE may be shown. Fills OUT's source, which is
 * malloc'ed, writable, dev, ino and is_dir. */
int mount_source_judge(const struct mount_terms *terms, const char *source,
                       struct plan_mount *out, struct vial_error *err);

#endif
