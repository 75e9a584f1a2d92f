/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_DRIVER_SECRETS_PROCESS_H
#define VIAL_DRIVER_SECRETS_PROCESS_H

/* vial-secrets, where a plan's gate has secrets: a process beside the gate. Values are
 * read here, told to it, and forgotten. */

#include "model/plan.h"

/* Starts it with the far end of a pair, of which *LINK_FD is the gate's, and waits for
 * its authority, a certificate in *AUTHORITY (malloc'ed). Its pidfd, or -1. */
int secrets_process_start(const struct plan_gate *gate, int *link_fd, char **authority,
                          struct vial_error *err);

/* The rules of the plan's secrets: where they go. */
int secrets_process_rules(const struct plan_gate *gate, struct strv *out,
                          struct vial_error *err);

#endif
