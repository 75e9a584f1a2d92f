/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_SETTINGS_USER_PACKAGES_H
#define VIAL_SETTINGS_USER_PACKAGES_H

/* The caller's own Python packages on this host; plan/mount.c says which are shown.
 */

#include "base/str.h"

/* Begins the name of a version's directory. */
#define USER_PACKAGES_VERSION "python3."

/* Whether PREFIX is a virtual environment. */
bool packages_is_environment(const char *prefix);

/* Where they lie, by the environment; absolute, free of links, the caller's or root's.
 */
void packages_find(char *const *environ_, struct strv *out);

#endif
