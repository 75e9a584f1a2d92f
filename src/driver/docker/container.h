/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_DRIVER_DOCKER_CONTAINER_H
#define VIAL_DRIVER_DOCKER_CONTAINER_H

/*
 * A plan as what the engine is asked to create; pure. Nothing of the host is
 * shared but the plan's mounts, the guest and its line: there is no member for it
 * below, and no branch that could set it.
 */

#include <jansson.h>

#include "driver/docker/guest_entry.h"
#include "model/plan.h"

/* Where the guest lies inside, as guest_entry.h has it: bound, copied, brought. */
#define CONTAINER_GUEST      "/.vial-init"
#define CONTAINER_GUEST_DIR  "/.vial"
#define CONTAINER_GUEST_FILE "vial-init"
#define CONTAINER_GUEST_TMP  "/tmp/.vial-init"
#define CONTAINER_LINE       "/.vial-line" /* where the socket is that leads to us */
/* Uid and gid of the program, and the guest's: the usual one, and the first of those
 * that are one container's alone. */
#define CONTAINER_USER      1000
#define CONTAINER_OWN_FIRST 20000u
#define CONTAINER_OWN_COUNT 40000u /* within the 65536 of an engine that maps users */

#define LABEL_MANAGED "vial.managed"
#define LABEL_SESSION "vial.session"
#define LABEL_TASK    "vial.task"
#define LABEL_RUN     "vial.run"
#define LABEL_VESSEL  "vial.vessel"
#define LABEL_CACHE   "vial.cache" /* a volume that outlives its containers */
#define LABEL_HOST    "vial.host"  /* on which boot of which host that is */
#define LABEL_OWNER   "vial.owner" /* tells whether whoever made it still lives */

struct container_options {
    const char *vessel_id;
    const char *owner; /* value of LABEL_OWNER */
    const char *host;  /* and of LABEL_HOST; NULL: not known */
    enum guest_entry place;
    const char *guest_path; /* of the guest program on this host */
    int guest_fd;           /* the same, open */
    const char
        *guest_socket_dir;  /* of the socket (guest_entry.h); ENTRY_BIND; NULL: none */
    const char *seccomp;    /* profile as JSON text */
    unsigned uid, gid;      /* never 0 */
    const struct strv *env; /* the image's own, which the guest must not see; or NULL */
    const struct strv *volumes; /* where the image wants some; or NULL */
    const struct strv *posing;  /* labels of the image that look like ours; or NULL */
};

/* The user of a container for which nobody has named one. The kernel counts much by
 * user (inotify, pipes, keys), and whoever shares one can use up what others need. */
unsigned container_user(const char *vessel_id);

/* NULL without memory. */
json_t *container_json(const struct plan *plan, const struct container_options *o);

/* The container that opens cache I of PLAN to all: see cache.h. */
json_t *container_cache_json(const struct plan *plan, size_t i,
                             const struct container_options *o);

/* "PREFIX-SESSION-TASK", with what a name cannot hold replaced, and the vessel's id
 * where there is no task; with UNIQUE the id is appended in any case. */
void container_name(struct str *out, const struct plan *plan, const char *vessel_id,
                    bool unique);

#endif
