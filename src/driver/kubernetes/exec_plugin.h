/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_DRIVER_KUBERNETES_EXEC_PLUGIN_H
#define VIAL_DRIVER_KUBERNETES_EXEC_PLUGIN_H

/* The program that a kubeconfig names for credentials, as kubectl starts it: the
 * caller's own, with the caller's rights and environment. */

#include "driver/kubernetes/kubeconfig.h"

/* Starts it, and puts what it gives into C. */
int exec_plugin_ask(struct cluster *c, struct vial_error *err);

#endif
