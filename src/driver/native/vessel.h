/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_DRIVER_NATIVE_VESSEL_H
#define VIAL_DRIVER_NATIVE_VESSEL_H

/* A vessel of this driver: native.c opens it, ending.c counts, kills and closes it. */

#include "driver/driver.h"
#include "driver/meter.h"
#include "driver/native/cgroup.h"
#include "driver/native/janitor.h"
#include "driver/native/shared.h"

struct native {
    struct vessel vessel;
    struct cgroup cgroup;
    struct janitor janitor;
    struct native_shared *shared; /* or NULL */
    pid_t pid;                    /* 0: none, or reaped */
    struct meter meter;           /* where there is no cgroup */
    int unmount_fd;
    unsigned lacks; /* LACKS_* */
    bool killed;
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

#endif
