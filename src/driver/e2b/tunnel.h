/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_DRIVER_E2B_TUNNEL_H
#define VIAL_DRIVER_E2B_TUNNEL_H

/*
 * The guest's byte stream through a sandbox's process service: what the guest writes
 * comes as events of one long answer, what we write goes as calls, one after the other.
 * Two threads move the bytes between these and a socket pair; one of them renews the
 * sandbox's lease as well. When either side is cut, so is the socket: a guest that
 * cannot be heard is as good as dead.
 */

#include "driver/e2b/answers.h"
#include "driver/e2b/endpoint.h"

struct tunnel;

struct tunnel_options {
    const struct e2b_endpoint *endpoint; /* borrowed, like all others */
    const struct e2b_server *box_server;
    const struct e2b_box *box;
    const char *const *argv; /* the guest; NULL-terminated */
    int64_t lease_s;
    int64_t wait_ms; /* for the guest's first word */
};

/* Starts the guest. *STREAM_FD is the caller's, non-blocking. */
int tunnel_open(const struct tunnel_options *o, struct tunnel **out, int *stream_fd,
                struct vial_error *err);

/* Why the stream ended, as the cause of ERR, where that is known. */
void tunnel_why(struct tunnel *t, struct vial_error *err);

/* Ends the threads; the guest lives on as long as its sandbox. NULL is allowed. */
void tunnel_close(struct tunnel *t);

#endif
