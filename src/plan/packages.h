/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_PLAN_PACKAGES_H
#define VIAL_PLAN_PACKAGES_H

/*
 * The caller's own Python packages, for presets that promise them: those of the active
 * virtual environment, or of pyenv's version, or else the user's own. Nothing of the
 * home directory but such a directory itself, `…/lib/python3.N/site-packages`, is ever
 * shown, read-only, and below a place that Python looks at after its own library
 * (PYTHONUSERBASE), so that no package takes the place of a module of that.
 */

#include "plan/draft.h"

/* Adds to a native plan for Python what S found; a directory that the policy or the
 * judgement of mounts forbids stays hidden. */
int packages_build(struct draft *d, struct vial_error *err);

#endif
