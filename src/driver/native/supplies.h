/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_DRIVER_NATIVE_SUPPLIES_H
#define VIAL_DRIVER_NATIVE_SUPPLIES_H

/*
 * What is made once for many vessels, instead of once for each. Nothing of it was
 * ever inside one, or can be reached from there:
 *
 *   guest     the guest program, in memory that nobody can write
 *   groups    cgroups, empty and clean
 *   scripts   what their children do until they are the guest
 *   janitor   who removes the groups of all vessels if their owner dies
 *
 *   supplies_open -> { native_open_supplied -> close }* -> supplies_close
 */

#include "driver/native/groups.h"
#include "driver/native/janitor.h"
#include "driver/native/scripts.h"

struct supplies {
    int guest_fd; /* sealed, or -1 */
    struct groups groups;
    struct scripts scripts;
    struct janitor janitor;
};

struct supplies *supplies_open(int guest_fd); /* NULL: do without */
void supplies_rest(struct supplies *s);       /* now and then, from any thread */
void supplies_close(struct supplies *s);      /* after the last vessel */

/* Whether the janitor removes C, should its owner die. */
bool supplies_tend(const struct supplies *s); /* S may be NULL */

#endif
