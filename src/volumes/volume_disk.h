/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_VOLUMES_VOLUME_DISK_H
#define VIAL_VOLUMES_VOLUME_DISK_H

/*
 * A volume with a size has a file system of its own, in a file of that size beside its
 * record. Who has the volume has a loop device on that file; the kernel takes the
 * device back when nobody has it any more. For root alone: nobody else may mount it.
 */

#include <stdbool.h>
#include <stdint.h>
#include <sys/statvfs.h>

#include "vial/error.h"

#define VOLUME_DISK       "disk"
#define VOLUME_SIZE_LEAST (INT64_C(16) << 20)
#define VOLUME_SIZE_MOST  (INT64_C(1) << 44)

/* Makes the file in DIR_FD, takes its whole size from the disk, and has its top ready
 * for UID. VIAL-UNSUPPORTED: this host, or this user, has no such volumes. */
int volume_disk_make(int dir_fd, uint64_t size, unsigned uid, struct vial_error *err);

/* A loop device on it, by its name; the same for all who have one now. Only one may ask
 * at a time. */
#define VOLUME_DEVICE 24
int volume_disk_attach(int dir_fd, char device[VOLUME_DEVICE], struct vial_error *err);

/* 0: nobody has a device on it, with or without a lock (a descriptor that one vessel
 * gave another is enough), or the volume has no disk. VIAL-BUSY: somebody has one;
 * VIAL-UNSUPPORTED: nobody here can say, which counts as busy. */
int volume_disk_check_unused(int dir_fd, const char *name, struct vial_error *err);

/* Whether SIZE bytes leave a twentieth of the file system that has ROOM to others. */
bool volume_disk_fits(const struct statvfs *room, uint64_t size);

/* A mount of DEVICE that stands nowhere yet. */
int volume_disk_mount(const char *device, struct vial_error *err);

#endif
