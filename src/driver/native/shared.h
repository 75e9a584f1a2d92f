/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_DRIVER_NATIVE_SHARED_H
#define VIAL_DRIVER_NATIVE_SHARED_H

/*
 * These things are made once for many vessels, instead of once for each. Nothing of it
 * was ever inside one, or can be reached from there:
 *
 *   guest     the guest program, in memory that nobody can write
 *   base      our own cgroups, below which each vessel gets new ones
 *   host      what the host's tree looked like less than a second ago
 *   janitor   who removes the groups of all vessels if their owner dies
 *
 *   native_shared_open -> { open_supplied -> close }* -> native_shared_close
 */

#include <pthread.h>

#include "driver/native/cgroup.h"
#include "driver/native/host_tree.h"
#include "driver/native/janitor.h"

/* A janitor for the groups of one owner that was killed, until it has ended. */
struct native_stray {
    struct native_stray *next;
    struct janitor janitor;
};

struct native_shared {
    int guest_fd;           /* sealed, or -1 */
    struct cgroup base;     /* its name begins those of all ours; kind NONE: none */
    _Atomic unsigned lacks; /* LACKS_*: a trial has shown that this host has it not */
    struct janitor janitor;
    struct native_stray *strays;
    pthread_mutex_t lock; /* for HOST */
    struct host *host;    /* or NULL */
};

struct native_shared *native_shared_open(int guest_fd); /* NULL: do without */
void native_shared_close(struct native_shared *s);      /* after the last vessel */

/* A vessel that waits was made of an older look at the host than this one. The caller
 * drops it; NULL with ERR filled. Before a fork, it is the child's as well. */
struct host *native_shared_host(struct native_shared *s, struct vial_error *err);

/* Whether the janitor is there for groups below BASE. S may be NULL. */
bool native_shared_tend(const struct native_shared *s);

/* Whether the group C (v2), found but not made yet, would be one that the janitor
 * removes. */
bool native_shared_reach(const struct native_shared *s, const struct cgroup *c);

/* Makes OUT a new group (v1) below BASE, and holds it. False: the vessel must look for
 * itself, for instance because its owner was moved elsewhere. */
bool native_shared_group(const struct native_shared *s, const char *vessel_id,
                         const struct limits *limits, struct cgroup *out);

#endif
