/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_DRIVER_NATIVE_HOST_TREE_H
#define VIAL_DRIVER_NATIVE_HOST_TREE_H

/* The parts of this host's tree of which a vessel's root is made. Read once per open,
 * or for many within a second (shared.h), so that building the script is pure. */

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/str.h"

#include "vial/error.h"

/* A directory beside /usr: a link into it on a merged system. */
struct host_link {
    const char *name; /* "lib64" */
    char to[64];      /* "usr/lib64", or "" when it is a directory itself */
};

#define HOST_LINKS 6

struct host {
    atomic_uint users;
    int64_t read_ns;
    struct host_link links[HOST_LINKS]; /* those that exist */
    size_t link_count;
    struct strv etc_files;                 /* names below /etc to copy */
    struct strv etc_dirs;                  /* names below /etc to show */
    char localtime[128];                   /* where /etc/localtime points, or "" */
    struct strv masked_files, masked_dirs; /* of /proc: there, and anyone may read it */
    bool own_devices; /* they lie in /dev itself. In some containers and chroots each is
                       * a mount of its own, of which an overlay of /dev shows nothing:
                       * those are shared with the host */
};

/* With one user, who drops it; NULL with ERR filled. */
struct host *host_read(struct vial_error *err);
struct host *host_hold(struct host *h); /* one user more */
void host_drop(struct host *h);         /* NULL is allowed */

/*
 * The host's /dev with inodes of its own, for one vessel: locks on a node of the
 * host's, and inotify, reach all who use it. The kernel opens no device of a file
 * system that was mounted in a user namespace, so only root can have this, and makes it
 * outside.
 */

/* The devices that a vessel is shown: names below /dev. */
#define DEVICES 5
extern const char *const devices_shown[DEVICES];

/* A detached mount, or -1. */
int devices_open(struct vial_error *err);

#endif
