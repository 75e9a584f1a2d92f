/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_DRIVER_KUBERNETES_POD_STATUS_H
#define VIAL_DRIVER_KUBERNETES_POD_STATUS_H

/* What the cluster says of a pod, understood; pure. Nothing of it is believed beyond
 * this: it becomes a state, an error, or the kernel's word that memory ran out. */

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "vial/error.h"

enum pod_phase {
    POD_WAITS, /* WHY says for what, as far as the cluster does */
    POD_RUNS,
    POD_NEVER, /* it will not run, or not soon: WHY */
    POD_ENDED, /* it ran; WHY says what ended it, if that was not itself */
};

struct pod_status {
    enum pod_phase phase;
    bool oom; /* the kernel killed something for memory */
    struct vial_error why;
    char digest[72]; /* of its image, "sha256:…", or "" */
    char uid[48];    /* of the pod */
};

/* POD, an object of the cluster's. */
void pod_status_read(json_t *pod, struct pod_status *out);

/* What to say of a pod that is there no more. */
int pod_status_gone(struct vial_error *err);

#endif
