/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_DRIVER_NATIVE_FILTERS_H
#define VIAL_DRIVER_NATIVE_FILTERS_H

/*
 * A profile's seccomp filters, read once for many vessels. Like a script that is kept
 * (script_cache.h) they are good for a second: who changes a profile's file sees it in
 * the vessels that are made after that.
 */

#include <pthread.h>

#include "base/str.h"
#include "driver/native/seccomp.h"

struct filters {
    pthread_mutex_t lock;
    struct blob kept[PROFILE_FILTERS]; /* of profile NAME */
    char name[64];                     /* "": none are kept */
    int64_t read_ns;
};

void filters_open(struct filters *f);
void filters_close(struct filters *f);

/* Does what seccomp_fill does. GUEST_FD is the same each time. */
int filters_fill(struct filters *f, struct jail *jail, int guest_fd, const char *name,
                 struct vial_error *err);

#endif
