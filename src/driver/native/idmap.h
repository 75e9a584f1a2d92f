/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_DRIVER_NATIVE_IDMAP_H
#define VIAL_DRIVER_NATIVE_IDMAP_H

/*
 * Maps a vessel's users to ids of the host. Root gives each vessel two ids of its own,
 * made from its first process's number, so that per-user quotas of the kernel are not
 * shared: inside 0 (the guest) and 1000 (programs). An ordinary user, or a root without
 * the capabilities to map others, has only himself to give: inside 1000 is both.
 *
 * A vessel whose root is an image has users of the image's. Root gives it a range of
 * ids that no other vessel has at that time: inside 0 … 65535.
 */

#include <stdbool.h>
#include <sys/types.h>

#include "vial/error.h"

#define IDMAP_PROGRAM 1000u  /* uid and gid of programs, inside */
#define IDMAP_RANGE   65536u /* ids of a vessel whose root is an image */

/* 1 when we may map ids that are not ours, 0 when not, or -errno: guessing could
 * give a vessel the host's root. */
int idmap_privileged(void);

/* The host's id for the guest of the vessel whose first process is PID; that of
 * its programs is one more. */
uid_t idmap_guest_id(pid_t pid);

/* Writes PID's maps. */
int idmap_write(pid_t pid, bool privileged, struct vial_error *err);

/* Takes a range, the host's id *FIRST being inside 0: it is the vessel's while the
 * returned descriptor is open. Or -1. */
int idmap_take_range(uid_t *first, struct vial_error *err);
int idmap_write_range(pid_t pid, uid_t first, struct vial_error *err);

/* The user namespace of process PID, as a descriptor; or -1. */
int idmap_users(pid_t pid, struct vial_error *err);

/* A user namespace, as a descriptor, in which the host's PROGRAM_ID stands for
 * the caller's UID and GID: for id-mapped mounts. Or -1. */
int idmap_open(uid_t uid, gid_t gid, uid_t program_id, struct vial_error *err);

#endif
