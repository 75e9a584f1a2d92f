/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_DRIVER_KUBERNETES_OWN_POD_H
#define VIAL_DRIVER_KUBERNETES_OWN_POD_H

/*
 * The pod that this program runs in. Pods that it makes name it as their owner, so that
 * the cluster removes them once it is gone (docs/adr/0117).
 *
 * A cluster removes at once what names an owner that it does not find, so nothing is
 * said where there is a doubt: the pod must be one of the namespace where pods are
 * made, and be seen from inside, by its node's mounts (which a container has from its
 * first moment) or by its address (which virtual machines have, too).
 */

#include "driver/kubernetes/cluster_api.h"

struct own_pod {
    char name[256]; /* "" where there is none */
    char uid[48];
};

/* What is seen from inside. */
struct own_view {
    struct strv addresses;
    struct blob mounts; /* the text of mountinfo */
};

/* Asks the cluster, if our account is that of a pod. */
void own_pod_find(struct cluster_api *api, struct own_pod *out);

/* Whether POD, an object of the cluster's, is the one of NAME that is seen from inside;
 * then it is in OUT. Pure. */
bool own_pod_read(json_t *pod, const char *name, const struct own_view *view,
                  struct own_pod *out);

#endif
