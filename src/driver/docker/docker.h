/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_DRIVER_DOCKER_DOCKER_H
#define VIAL_DRIVER_DOCKER_DOCKER_H

/*
 * A container of Docker's or Podman's, with the guest as its first process. The
 * guest is reached by a socket of ours (guest_entry.h) or, where it cannot come by
 * that, over the attached standard streams; the engine's exec is used only where the
 * guest cannot be placed otherwise (guest_entry.h).
 *
 *   create -> (copy) -> attach -> start -> (bring) -> look (where it is on this host)
 *   -> meet (by which way the guest comes)
 *
 * The container removes itself once the guest is gone, and the guest goes when
 * the stream ends, so a caller that is killed leaves nothing running.
 */

#include "driver/docker/engine_api.h"
#include "driver/docker/foreign_guest.h"
#include "driver/docker/guest_entry.h"
#include "driver/docker/mux.h"
#include "driver/docker/usage.h"
#include "driver/driver.h"
#include "model/plan.h"

struct docker {
    struct vessel vessel;
    struct api api;
    enum guest_entry place;
    struct foreign foreign;
    int hold_fd;    /* ENTRY_EXEC: while it is open, the container lives; else -1 */
    int seccomp_fd; /* the profile, where the engine takes a file; else -1 */
    struct guest_socket
        *line;        /* until the guest has come, one way or the other; or NULL */
    int attached_fd;  /* the engine's stream, until there is a pump; or -1 */
    struct str early; /* what came over it */
    struct mux mux;
    struct pump *pump;
    int gate_pidfd; /* its gate, or -1 */
    int pidfd;      /* of the guest, or -1 where it cannot be seen */
    struct container_usage count;
    bool started, stopped, killed, paused;
    struct vessel_usage last; /* as of just before the kill */
};

/* start.c: fills D from PLAN. What was made so far is the caller's to remove. */
int start_container(struct docker *d, const struct plan *plan, int guest_fd,
                    struct vial_error *err);

/* probe.c */
int docker_probe(struct caps *out, struct vial_error *err);

/* Fills D's jail, which tells the guest how to confine each program. */
int docker_jail(struct docker *d, const struct plan *plan, int guest_fd, unsigned uid,
                struct vial_error *err);

/* Asks the engine whether the network that PLAN names is what its name says, and no way
 * to the host's own. 0 as well when PLAN joins none by name. */
int docker_check_network(const struct api *api, const struct plan *plan,
                         struct vial_error *err);

#endif
