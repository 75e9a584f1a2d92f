/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_DRIVER_NATIVE_DEVICES_H
#define VIAL_DRIVER_NATIVE_DEVICES_H

/*
 * The host's /dev with inodes of its own, for one vessel: locks on a node of the
 * host's, and inotify, reach all who use it. The kernel opens no device of a file
 * system that was mounted in a user namespace, so only root can have this, and makes it
 * outside.
 */

#include <stdbool.h>

#include "vial/error.h"

/* The devices that a vessel is shown: names below /dev. */
#define DEVICES 5
extern const char *const devices_shown[DEVICES];

/* Whether they lie in /dev itself. In some containers and chroots each is a mount of
 * its own, of which an overlay of /dev shows nothing: those are shared with the host.
 */
bool devices_can_be_own(void);

/* A detached mount, or -1. */
int devices_open(struct vial_error *err);

#endif
