/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_DRIVER_NATIVE_SUPPLIES_H
#define VIAL_DRIVER_NATIVE_SUPPLIES_H

/*
 * What is made once for many vessels, instead of once for each. Nothing of it was
 * ever inside one, or can be reached from there:
 *
 *   guest     the guest program, in memory that nobody can write
 *   base      our own cgroups, below which each vessel gets new ones
 *   scripts   what their children do until they are the guest
 *   filters   what their programs' system calls are judged by
 *   janitor   who removes the groups of all vessels if their owner dies
 *
 *   supplies_open -> { the driver's open_supplied -> close }* -> supplies_close
 */

#include "driver/native/cgroup.h"
#include "driver/native/filters.h"
#include "driver/native/janitor.h"
#include "driver/native/scripts.h"

struct supplies {
    int guest_fd;       /* sealed, or -1 */
    struct cgroup base; /* its name begins those of all ours; kind NONE: none */
    struct scripts scripts;
    struct filters filters;
    int whole_map;          /* idmap_is_whole's answer */
    _Atomic unsigned lacks; /* LACKS_*: a trial has shown that this host has it not */
    struct janitor janitor;
};

struct supplies *supplies_open(int guest_fd); /* NULL: do without */
void supplies_close(struct supplies *s);      /* after the last vessel */

/* Whether the janitor is there for groups below BASE. S may be NULL. */
bool supplies_tend(const struct supplies *s);

/* Whether the group C (v2), found but not made yet, would be one that the janitor
 * removes. */
bool supplies_reach(const struct supplies *s, const struct cgroup *c);

/* Makes OUT a new group (v1) below BASE, and holds it. False: the vessel must look for
 * itself, for instance because its owner was moved elsewhere. */
bool supplies_group(const struct supplies *s, const char *vessel_id,
                    const struct limits *limits, struct cgroup *out);

#endif
