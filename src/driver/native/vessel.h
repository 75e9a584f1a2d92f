/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_DRIVER_NATIVE_VESSEL_H
#define VIAL_DRIVER_NATIVE_VESSEL_H

/* A vessel of this driver: native.c opens it, ending.c counts, kills and closes it. */

#include "driver/driver.h"
#include "driver/meter.h"
#include "driver/native/cgroup.h"
#include "driver/native/held_volumes.h"
#include "driver/native/janitor.h"
#include "driver/native/shared.h"
#include "driver/native/snapshot.h"

struct native {
    struct vessel vessel;
    struct cgroup cgroup;
    struct janitor janitor;
    struct native_shared *shared; /* or NULL */
    pid_t pid;                    /* 0: none, or reaped */
    struct meter meter;           /* where there is no cgroup */
    int unmount_fd;
    int image_fd; /* while it is open, nobody removes its image; or -1 */
    int ids_fd;   /* the same for its range of ids */
    struct held_volumes volumes;
    struct snapshot snapshot;
    int gate_pidfd;    /* its gate, or -1 */
    int secrets_pidfd; /* vial-secrets, or -1 */
    unsigned lacks;    /* LACKS_* */
    bool killed;
    bool paused;
    bool only_ours; /* nothing of the caller's is mounted in it */
    bool is_light;  /* little memory can be in its file systems */
};

static inline struct native *native_of(struct vessel *vessel)
{
    return (struct native *)vessel;
}

/* ending.c; of vessels of this very driver, not of the lower tier's. */
void native_kill(struct vessel *vessel);
void native_usage(struct vessel *vessel, struct vessel_usage *out);
void native_spent(struct vessel *vessel, struct vessel_usage *out);
void native_close(struct vessel *vessel);

/* ending.c: the mount namespace of the process that PIDFD names, or -1: it dies with
 * it; and leaving it to the kernel's own time, which makes *FD -1. */
int native_take_mounts(int pidfd);
void native_leave_mounts(int *fd);

#endif
