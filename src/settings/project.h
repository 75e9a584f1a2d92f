/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_SETTINGS_PROJECT_H
#define VIAL_SETTINGS_PROJECT_H

/*
 * Settings files that lie in a project: vial.yaml, and the preset's own. Whoever wrote
 * the project wrote them, perhaps the very code that is to be run. A stranger's may
 * tighten the policy, lower limits, and say what holds anyhow. One that the caller
 * trusts (settings/trust.h), byte by byte as it is, may set whatever the policy allows.
 */

#include <stddef.h>

#include "settings/sources.h"

#include "vial/error.h"

/* Where the project's file NAME lies: in DIR (NULL: here) or, if that is in a
 * repository of the caller's, in the nearest directory above it that has one, up to the
 * repository's root. If there is none: where it would lie in DIR. Absolute, the
 * directory free of links, where DIR can be read at all. malloc'ed; NULL without
 * memory. */
char *project_find(const char *dir, const char *name, const char *state);

/* Judges layer OF, which was read from a project's file, by those outside it, and
 * remembers it among S's projects. FROM has the state directory. */
int project_judge(struct settings *s, const struct settings_sources *from,
                  struct source *layers, size_t of, struct vial_error *err);

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

/* *LEN: how many bytes of the absolute HERE, free of links, name the repository; 0: it
 * lies in none. -1: it is somebody else's (VIAL-TRUST). STATE is trust.h's. */
int repository_find(const char *here, const char *state, size_t *len,
                    struct vial_error *err);

#endif
