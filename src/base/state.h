/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_BASE_STATE_H
#define VIAL_BASE_STATE_H

/*
 * The directory where vial keeps what must outlive it: the records of commits,
 * and of what the caller trusts. It is the caller's own and nobody else's; what lies
 * there is believed.
 */

#include <stdbool.h>
#include <sys/types.h>

#include "vial/error.h"

/* VIAL_STATE, or /var/lib/vial for root, or vial below XDG_STATE_HOME or HOME's
 * .local/state. malloc'ed; NULL: there is no place, or no memory. */
char *state_path(const char *home);

/* What is brought or made to stay: LEAF below vial below XDG_DATA_HOME or HOME's
 * .local/share; below /var/lib/vial for root, and for who has no home: a daemon's front
 * that was started by root, to which an init system gives none. NULL: no memory. */
char *state_data_path(const char *leaf, const char *home);

/* What can be made again: vial below XDG_CACHE_HOME, or /var/cache for root, or HOME's
 * .cache. The same. */
char *state_cache_path(const char *home);

/* Makes the directory PATH, for the caller alone, and those above it if need be. */
int state_make_dir(const char *path, struct vial_error *err);

/* The directory NAME in it ("commits"); with MAKE it is made. A descriptor; -1 and code
 * "" in ERR: there is none and MAKE is false. */
int state_open(const char *path, const char *name, bool make, struct vial_error *err);

/* A store, which is believed: its directory is the caller's. */
struct state_store {
    const char *name;     /* "the image store" */
    const char *variable; /* that names another */
    mode_t closed;        /* what others may not have of it: 022, or 077 */
    bool roots_too;       /* it may be root's instead */
};
/* A descriptor; -1, as state_is_absent tells: there is none. */
int state_open_store(const char *path, const struct state_store *kind,
                     struct vial_error *err);
bool state_is_absent(const struct vial_error *err);

#endif
