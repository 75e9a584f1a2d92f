/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_KEEPER_CLIENT_CLIENT_H
#define VIAL_KEEPER_CLIENT_CLIENT_H

/*
 * Vessels that a keeper opens for a process without privilege: the drivers native
 * and docker, by their own names, over a socket. keeper/front/start_keeper.h starts the
 * keepers; talk.h is what is said.
 *
 * The sockets have fixed numbers for as long as the process lives, as a service's
 * standard descriptors have. A keeper that died is replaced behind the same socket.
 */

#include "base/str.h"
#include "driver/driver.h"
#include "driver/native/cgroup.h"

enum kept_fd {
    KEPT_FD_BEFORE = 89,
#define KEEPER(name, ...) KEPT_FD_##name,
#include "model/drivers.def"
    KEPT_FD_END
};

#define KEEPER(name, ...) extern const struct driver driver_kept_##name;
#include "model/drivers.def"

/* Instead of `drivers`, for an engine whose vessels are kept. */
extern const struct driver *const kept_drivers[];

/* A vessel of a keeper's. */
struct kept {
    struct vessel vessel;
    int leash_fd;
    char level[16], limits_by[16];
    char *path;
    struct cgroup counters; /* lent by the keeper; kind NONE: it must be asked */
};

static inline struct kept *kept_of(struct vessel *vessel)
{
    return (struct kept *)vessel;
}

struct kept_health {
    pid_t pid;
    unsigned vessels, restarts;
};
/* Has the keeper remove a snapshot of the store. */
int kept_image_forget(const char *name, struct vial_error *err);
/* The names of OWNER's. */
int kept_images_saved(const char *owner, struct strv *out, struct vial_error *err);

/* Asks the keeper at FD. */
int kept_ping(int fd, struct kept_health *out, struct vial_error *err);

#endif
