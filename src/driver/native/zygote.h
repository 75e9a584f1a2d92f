/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_DRIVER_NATIVE_ZYGOTE_H
#define VIAL_DRIVER_NATIVE_ZYGOTE_H

/*
 * The driver's side of a zygote: a python of this host that has started, imported
 * what it was told, and forks children into vessels (src/zygote is its inside).
 *
 * It runs as the caller, since only whoever made a vessel's user namespace may
 * enter it; as root without any capability, in the file system and network of a
 * template vessel. Nothing of a request ever reaches it: an order holds a jail and
 * descriptors of a fresh vessel, and its children keep no descriptor of it.
 *
 * It ends with its owner, whatever either of them is doing then.
 */

#include "driver/driver.h"

int zygote_open(const struct plan *plan, const struct zygote_options *options,
                struct zygote **out, struct vial_error *err);
int zygote_fork_into(struct zygote *z, struct vessel *vessel, int *fd, uint32_t *pid,
                     struct vial_error *err);
void zygote_close(struct zygote *z);

/* For processes forked from the owner's parent: a zygote can be given orders by any
 * process that has its two descriptors, which stay the owner's. What is borrowed is
 * given back with free(). NULL: no memory. */
void zygote_lend(const struct zygote *z, int fds[2]);
struct zygote *zygote_borrow(const int fds[2]);

#endif
