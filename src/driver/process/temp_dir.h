/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_DRIVER_PROCESS_TEMP_DIR_H
#define VIAL_DRIVER_PROCESS_TEMP_DIR_H

/*
 * A vessel's temporary directory, with "work" and "tmp" in it. All of a user's
 * lie in one directory, each locked by the process that made it: one that is
 * there and not locked was left by a process that was killed, and the next open
 * removes it.
 */

#include "vial/error.h"

struct place {
    char *dir; /* absolute; NULL: none */
    int lock_fd;
};

#define PLACE_NONE                                                                     \
    {                                                                                  \
        .lock_fd = -1                                                                  \
    }

int temp_dir_create(struct place *p, struct vial_error *err);
void temp_dir_remove(struct place *p); /* with all that is in it */

/* Removes what was left, as the next open would; how many there were. */
unsigned temp_dir_sweep(void);

/* Kills every process that has DIR in its environment or works below
 * it, until none is found. For when the guest could not do it. */
void sweep_processes(const char *dir);

#endif
