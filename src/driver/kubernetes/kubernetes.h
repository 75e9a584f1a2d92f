/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_DRIVER_KUBERNETES_KUBERNETES_H
#define VIAL_DRIVER_KUBERNETES_KUBERNETES_H

/*
 * A pod per vessel, with the guest as its first process. The guest is brought, and
 * reached, over a WebSocket that the API server passes on to the container's standard
 * streams.
 *
 *   create -> wait (watch) until it runs -> attach -> bring the guest -> pump
 *
 * The guest goes when the stream ends, and the container with it; what a caller that is
 * killed leaves is a pod that has ended, which the next one removes. The pod's own
 * deadline ends what was never attached to.
 */

#include "driver/driver.h"
#include "driver/kubernetes/channels.h"
#include "driver/kubernetes/cluster_api.h"
#include "driver/kubernetes/pod_status.h"
#include "driver/pump.h"
#include "model/vessel_list.h"

#define POD_PATH_MAX 256
#define AWAY_MS      INT64_C(30000) /* an API server may be, while a pod needs it */
#define AGAIN_MS     200            /* before it is asked again */

struct kube {
    struct vessel vessel;
    struct cluster_api api;
    char path[POD_PATH_MAX]; /* of its pod; "" until there may be one */
    struct pod_status last;
    int attached_fd;          /* the WebSocket, until there is a pump; or -1 */
    struct str early;         /* what came over it and was not looked at */
    struct channels channels; /* the pump's, once there is one */
    struct pump *pump;
    int64_t landlock_abi; /* of the node's kernel, as the guest says */
    bool killed;
    int64_t lost_ns; /* when the stream was seen to have ended by itself; or 0 */
};

/* start.c: fills K from PLAN. What was made so far is the caller's to remove. */
int start_pod(struct kube *k, const struct plan *plan, int guest_fd,
              struct vial_error *err);

/* start.c: asks for the pod once. */
int pod_look(struct kube *k, struct vial_error *err);

/* start.c: the walls of every pod; NULL ends them. */
extern const char *const pod_layers[];

/* pods.c: of vial's in the namespace, removes those that owners who are dead have left,
 * MAX of them at most. */
int pods_sweep(struct cluster_api *api, int64_t age_s, unsigned max, unsigned *removed,
               struct vial_error *err);
/* Has the pod at PATH end, and go. UID: only if it is this one; "": whichever. 1: it is
 * gone already. */
int pods_remove(struct cluster_api *api, const char *path, const char *uid,
                struct vial_error *err);
/* The same, tried again until MS are over: an API server that is started anew answers
 * nobody for a while, then knows nobody, and allows nothing. */
int pods_remove_within(struct cluster_api *api, const char *path, const char *uid,
                       int64_t ms, struct vial_error *err);
/* For `vial ps`, with a connection of its own. */
int pods_list_all(struct vial_vessels *list, struct vial_error *err);

#endif
