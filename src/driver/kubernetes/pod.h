/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_DRIVER_KUBERNETES_POD_H
#define VIAL_DRIVER_KUBERNETES_POD_H

/*
 * A plan as the pod that the cluster is asked to create; pure. It is within the Pod
 * Security Standard "restricted", whatever the plan says: there is no member for a
 * node's namespaces, directories, devices or rights below, nor a branch that could set
 * one. It has no ServiceAccount's token.
 *
 * The image's shell takes the guest from the attached stream, which nothing else can
 * bring to every image, and becomes it. A pod that nobody attaches to runs nothing.
 *
 * What the settings add (model/pod_settings.h) stands beside what vial says, never in
 * its place.
 */

#include <jansson.h>

#include "model/plan.h"

#define POD_CONTAINER "vessel"
#define POD_GUEST_DIR "/.vial"
#define POD_GUEST     "/.vial/vial-init"

/* Labels, by which they are found. */
#define POD_MANAGED "vial.managed"
#define POD_VESSEL  "vial.vessel"
/* None or bridge: for the cluster's NetworkPolicies. */
#define POD_NETWORK "vial.network"
/* Annotations. */
#define POD_OWNER   "vial.owner" /* tells whether whoever made it still lives */
#define POD_HOST    "vial.host"  /* on which boot of which host that is */
#define POD_RUN     "vial.run"
#define POD_SESSION "vial.session"
#define POD_TASK    "vial.task"

struct pod_options {
    const char *vessel_id;
    const char *owner, *host;
    const char *arch;     /* of the guest, as the cluster calls it: "amd64" */
    size_t guest_bytes;   /* its size */
    unsigned uid;         /* never 0 */
    int64_t room_seconds; /* how long it may wait for a place and for its image */
    const char *maker, *maker_uid; /* the pod of the same namespace that asks for it,
                                      with which it goes; NULL: it is none */
};

/* The user of its pod, one of 40000: a node counts processes by it, and hardly two pods
 * share one. */
unsigned pod_user(const char *vessel_id);

/* "PREFIX-0123456789abcdef", as a DNS label. */
void pod_name(struct str *out, const struct plan *plan, const char *vessel_id);

/* After which the cluster ends it, in seconds from its start on a node. */
int64_t pod_deadline_s(const struct plan *plan, const struct pod_options *o);

/* NULL without memory. */
json_t *pod_json(const struct plan *plan, const struct pod_options *o);

/* 0, or what PLAN wants and no pod can give yet. */
int pod_check(const struct plan *plan, struct vial_error *err);

#endif
