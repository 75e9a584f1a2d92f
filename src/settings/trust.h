/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_SETTINGS_TRUST_H
#define VIAL_SETTINGS_TRUST_H

/*
 * A trust record names what the caller trusts: a file of a project's settings, by its
 * path and the hash of its bytes; or a repository, by its path alone. Each has a record
 * in the caller's own state directory (base/state.h), a file that only the caller can
 * have written. The form of a record, as JSON:
 *
 *   path    absolute, free of symbolic links
 *   sha256  of the file's bytes; a repository has none
 *   sets    what the file then set that a stranger's may not: name -> value
 *   since   "2026-11-16T10:00:00Z"
 *
 * STATE is the state directory; NULL: nothing is trusted.
 */

#include <jansson.h>
#include <stdbool.h>

#include "vial/error.h"

/* The record of PATH; NULL: there is none that can be believed. */
json_t *trust_find(const char *state, const char *path);

/* Whether PATH, a repository, is trusted by name. */
bool trust_has_repository(const char *state, const char *path);

/* Writes the record of PATH over one that is there. HASH is NULL for a repository;
 * SETS is borrowed, or NULL. */
int trust_write(const char *state, const char *path, const char *hash, json_t *sets,
                struct vial_error *err);

/* 1: removed, 0: there was none, -1. */
int trust_remove(const char *state, const char *path, struct vial_error *err);

/* All records, as an array sorted by path. */
int trust_list(const char *state, json_t **out, struct vial_error *err);

#endif
