/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_DRIVER_KUBERNETES_LOGIN_H
#define VIAL_DRIVER_KUBERNETES_LOGIN_H

/* Credentials that end before the vessel does: where they came from, there are others
 * by then. */

#include "driver/kubernetes/kubeconfig.h"

/* Whether what a plugin gave ends within seconds, as it said itself. */
bool login_ends(const struct cluster *c);

/* Reads the files of token and certificate again, or asks the plugin again. 1: there
 * are other credentials now; 0: there are none besides those that are known. */
int login_renew(struct cluster *c, struct vial_error *err);

#endif
