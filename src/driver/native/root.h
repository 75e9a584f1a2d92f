/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_DRIVER_NATIVE_ROOT_H
#define VIAL_DRIVER_NATIVE_ROOT_H

/*
 * The vessel's tree, compiled into steps: a small tmpfs as root, the host's
 * system directories through a private overlay (or a directory given as
 * rootfs), our own /etc, /dev, /proc, /tmp and working directory. The layout is
 * tables in root.c. Pure.
 */

#include "driver/native/host_tree.h"
#include "driver/native/image_layers.h"
#include "driver/native/script.h"
#include "model/plan.h"

struct root_options {
    uint32_t uid, gid;                /* of the programs, inside */
    uint64_t rootfs_dev, rootfs_ino;  /* the judged plan->rootfs */
    const struct image_layers *image; /* that is the root, or NULL */
    unsigned image_slot;              /* where the mount of its store is */
    bool image_mounted;               /* it comes from the parent */
    bool writable;                    /* the whole root */
    bool no_usr_overlay;              /* this host has none: binds */
    bool no_etc_overlay;              /* binds, and copies */
    const char *authority, *bundle;   /* certificates (launch.h), or NULL */
    bool gate;        /* the guest listens on low ports, without a right to */
    bool own_devices; /* a mount from devices_open comes behind those of the plan */
    bool weak_ro, weak_procmask, weak_pid, weak_root, weak_dev, weak_disk, weak_net,
        weak_user, weak_nosuid, weak_work, weak_shm; /* test builds only */
};

/* Slots used by user mounts begin here; OP_WAIT fills them for a root caller. */
#define ROOT_MOUNT_SLOT  16
#define ROOT_ROOTFS_SLOT 15

/* What OP_GIVE gives of a root that is writable: the layer that is written to. */
#define ROOT_UPPER "upper"

/* Up to the pivot, and directories for mounts. Mount sources must already be in
 * slots. */
void root_build(struct script *s, const struct host *host, const struct plan *plan,
                const struct root_options *options);

/* After the pivot: the old root goes, and the user namespace's knobs are set. Once
 * nobody makes namespaces any more. The current directory must not change meanwhile. */
void root_detach(struct script *s, const struct root_options *options);

/* /proc is masked. What only the host's root may read needs no mask: he is nobody in
 * there. */
void root_mask(struct script *s, const struct host *host);

/* After all of these, and in the vessel's network namespace: its knobs are set, all
 * knobs sealed, and the root read-only. */
void root_seal(struct script *s, const struct root_options *options);

/* Steps that attach plan->mounts from their slots, after the seal. */
void root_attach_mounts(struct script *s, const struct plan *plan,
                        const struct root_options *options);

#endif
