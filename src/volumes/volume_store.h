/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_VOLUMES_VOLUME_STORE_H
#define VIAL_VOLUMES_VOLUME_STORE_H

/* clang-format off */
/*
 * Volumes: directories that outlive vessels, each below the name that it has. The store
 * belongs to one user (root's is shared by all vessels of a daemon), whose directory
 * nobody else can enter:
 *
 *   NAME/            "/" in a name stands as "%2F"
 *     record         what it is, in lines
 *     disk           of one with a size, instead of data: volume_disk.h
 *     lock           byte 0 is locked by who has it, shared, or removes it, alone; byte 1
 *                    by the one vessel that writes to it; byte 2 while a device is looked
 *                    for. Its time is that of the last use
 *     data/          what vessels see: as numbers of theirs, where root keeps the store
 *   .new-…, .gone-…  what is being made, under a lock on the store, or removed, under
 *                  one on itself; the next maker sweeps what the dead have left
 *
 *   volume_create -> { volume_open -> volume_close }* -> volume_remove
 *
 * A volume appears and disappears by one rename. Locks are the kernel's: they end with
 * the last process that has the vessel open, however it ends. Nothing here speaks JSON,
 * for the keeper uses it.
 */
/* clang-format on */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "model/volume.h"
#include "volumes/volume_disk.h"

#include "vial/error.h"

/* VIAL_VOLUME_STORE; CHOSEN, if it is not NULL; /var/lib/vial/volumes for root;
 * vial/volumes below XDG_DATA_HOME or HOME's .local/share. malloc'ed; NULL: no place,
 * or no memory. */
char *volume_store_path(const char *chosen, const char *home);

struct volume_terms {
    bool many;     /* vessels may write to it at once */
    uint64_t size; /* in bytes; 0: the store's file system bounds it */
    /* How many there may be with it: of all, and of those whose names begin as this
     * one's, up to the "/". */
    uint32_t most, most_of_owner;
    uint64_t most_size; /* of that owner's together, which all have one then; 0: any */
};
#define VOLUME_ANY UINT32_MAX

/* VIAL-NAME-TAKEN: there is one. VIAL-CAP: there are as many as may be. */
int volume_create(const char *store_dir, const char *name,
                  const struct volume_terms *terms, struct vial_error *err);

/* What a vessel has of it. Its locks last until volume_close. */
struct volume {
    char *path; /* of what is shown */
    uint64_t dev, ino;
    int lock_fd;
    int loop_fd;                /* of one with a size: then DEVICE is shown instead */
    char device[VOLUME_DEVICE]; /* "loop0" */
};
#define VOLUME_NONE                                                                    \
    {                                                                                  \
        .lock_fd = -1, .loop_fd = -1                                                   \
    }

/* VIAL-VOLUME: there is none; VIAL-BUSY: another vessel writes to it. */
int volume_open(const char *store_dir, const char *name, bool writable,
                struct volume *out, struct vial_error *err);
void volume_close(struct volume *v);

struct volume_info {
    char name[VOLUME_NAME];
    bool broken; /* a part of it is lost, and no vessel can have it; the rest is unknown
                  */
    bool many;
    bool busy;             /* a vessel has it */
    bool written;          /* and one may write to it now */
    uint64_t size;         /* 0: it has none */
    int64_t created, used; /* seconds since the epoch */
};

/* In the order of their names; malloc'ed. */
int volume_list(const char *store_dir, struct volume_info **out, size_t *count,
                struct vial_error *err);
/* One of them. */
int volume_look(const char *store_dir, const char *name, struct volume_info *out,
                struct vial_error *err);

/* VIAL-BUSY: a vessel has it. */
int volume_remove(const char *store_dir, const char *name, struct vial_error *err);

/* Removes all that no vessel has and none had for UNUSED_FOR_S. */
int volume_prune(const char *store_dir, int64_t unused_for_s, unsigned *removed,
                 struct vial_error *err);

#endif
