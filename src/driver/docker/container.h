/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_DRIVER_DOCKER_CONTAINER_H
#define VIAL_DRIVER_DOCKER_CONTAINER_H

/*
 * A plan as what the engine is asked to create; pure. Nothing of the host is
 * shared but the plan's mounts and the guest: there is no member for it below,
 * and no branch that could set it.
 */

#include <jansson.h>

#include "model/plan.h"

#define CONTAINER_GUEST "/.vial-init" /* where the guest lies inside */
#define CONTAINER_USER  1000          /* uid and gid of the program, and the guest's */

#define LABEL_MANAGED "vial.managed"
#define LABEL_SESSION "vial.session"
#define LABEL_TASK    "vial.task"
#define LABEL_RUN     "vial.run"
#define LABEL_VESSEL  "vial.vessel"
#define LABEL_CACHE   "vial.cache" /* a volume that outlives its containers */
#define LABEL_OWNER   "vial.owner" /* tells whether whoever made it still lives */

struct container_options {
    const char *vessel_id;
    const char *owner;      /* value of LABEL_OWNER */
    const char *guest_path; /* of the guest program on the engine's host */
    const char *seccomp;    /* profile as JSON text */
    unsigned uid, gid;      /* never 0 */
};

/* NULL without memory. */
json_t *container_json(const struct plan *plan, const struct container_options *o);

/* "PREFIX-SESSION-TASK", with what a name cannot hold replaced, and the vessel's id
 * where there is no task; with UNIQUE the id is appended in any case. */
void container_name(struct str *out, const struct plan *plan, const char *vessel_id,
                    bool unique);

#endif
