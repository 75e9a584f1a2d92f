/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_SETTINGS_PROJECT_H
#define VIAL_SETTINGS_PROJECT_H

/*
 * Settings files that lie in a project: vial.yaml, and the preset's own. Whoever wrote
 * the project wrote them, perhaps the very code that is to be run. A stranger's may
 * tighten the policy, lower limits, and say what holds anyhow. One that the caller
 * trusts (settings/trust.h), byte by byte as it is, may set whatever the policy allows.
 */

#include "settings/sources.h"

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

#endif
