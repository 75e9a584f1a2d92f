/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_DRIVER_NATIVE_HOST_TREE_H
#define VIAL_DRIVER_NATIVE_HOST_TREE_H

/* The parts of this host's tree of which a vessel's root is made. Read once per open,
 * so that building the script is pure. */

#include "base/str.h"

#include "vial/error.h"

/* A directory beside /usr: a link into it on a merged system. */
struct host_link {
    const char *name; /* "lib64" */
    char to[64];      /* "usr/lib64", or "" when it is a directory itself */
};

#define HOST_LINKS 6

struct host {
    struct host_link links[HOST_LINKS]; /* those that exist */
    size_t link_count;
    struct strv etc_files; /* names below /etc to copy */
    struct strv etc_dirs;  /* names below /etc to show */
    char localtime[128];   /* where /etc/localtime points, or "" */
};

/* Whether PATH exists and anyone may read it. */
bool host_shows(const char *path);

int host_read(struct host *out, struct vial_error *err);
void host_done(struct host *h);
#define auto_host __attribute__((cleanup(host_done)))

#endif
