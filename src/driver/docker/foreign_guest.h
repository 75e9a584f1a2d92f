/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_DRIVER_DOCKER_FOREIGN_GUEST_H
#define VIAL_DRIVER_DOCKER_FOREIGN_GUEST_H

/*
 * A guest for engines of another architecture than this host's. Beside the own guest
 * lies vial-init-ARCH, and beside the seccomp filter NAME.bpf NAME-ARCH.bpf, where the
 * build had a cross compiler (docs/adr/0062).
 */

#include "driver/docker/engine_api.h"

struct foreign {
    int fd;           /* the guest, owned; -1: the own one will do */
    const char *arch; /* NULL with it */
};

#define FOREIGN_NONE ((struct foreign){ .fd = -1 })

/* The guest for the engine behind API, whose image IMAGE is for IMAGE_ARCH. GUEST_FD,
 * the own one, does for every image of its own architecture, and for others on an
 * engine of its own: there the kernel has an emulator, which is a program of that
 * architecture. */
int foreign_guest(const struct api *api, int guest_fd, const char *image,
                  const char *image_arch, struct foreign *out, struct vial_error *err);

#endif
