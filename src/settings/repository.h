/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_SETTINGS_REPOSITORY_H
#define VIAL_SETTINGS_REPOSITORY_H

/*
 * The repository around a directory: the nearest directory above it that holds
 * ".git", if that is the caller's to work with. Whoever may write in a directory above
 * could put a ".git" there, and so have more of it shown to a program than the caller
 * meant. As git has it (safe.directory), a repository above is taken when
 *
 *   - it and its ".git" belong to the caller, to root, or to who called sudo;
 *   - or they, and every directory down to the caller's, belong to one user: who works
 *     in somebody's tree (root in a mounted checkout) means that tree;
 *   - or the caller trusts it by name (`vial trust DIR`).
 *
 * A ".git" in the directory itself adds nothing to what is shown, whose ever it is.
 */

#include <stddef.h>

#include "vial/error.h"

/* *LEN: how many bytes of the absolute HERE, free of links, name the repository; 0: it
 * lies in none. -1: it is somebody else's (VIAL-TRUST). STATE is trust.h's. */
int repository_find(const char *here, const char *state, size_t *len,
                    struct vial_error *err);

#endif
