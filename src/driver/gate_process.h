/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_DRIVER_GATE_PROCESS_H
#define VIAL_DRIVER_GATE_PROCESS_H

/*
 * The gate of a vessel that has one: a process that is started with it and ends with it
 * (src/gate). It is the opener's child, without any right but to connect out.
 */

#include "model/plan.h"

/* The guest's own name server (guest/gate_inside.c). */
#define GATE_DNS "127.64.0.1"

struct gate_process {
    int pidfd;         /* -1: there is none */
    int owner_fd;      /* where it is asked (wire/gate_message.h), or -1 */
    int secrets_pidfd; /* vial-secrets beside it, or -1 */
    char *authority;   /* whose certificates its clients are shown: PEM; or NULL */
};

#define GATE_PROCESS_NONE                                                              \
    (struct gate_process)                                                              \
    {                                                                                  \
        -1, -1, -1, NULL                                                               \
    }

/* Starts it as PLAN says, and tells the guest at the other end of STREAM_FD, which has
 * been told nothing before. If it fails, nothing is left. */
int gate_process_start(const struct plan *plan, int stream_fd, struct gate_process *out,
                       struct vial_error *err);

/* Ends it. OWNER_FD is closed, too. */
void gate_process_end(struct gate_process *gate);

#endif
