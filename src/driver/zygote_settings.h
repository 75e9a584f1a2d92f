/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_DRIVER_ZYGOTE_SETTINGS_H
#define VIAL_DRIVER_ZYGOTE_SETTINGS_H

/* What a python with vial-zygote.so is told first (zygote/python.h): one from which
 * others are forked, and one that waits in its vessel. */

#include "base/str.h"

#include "vial/error.h"

/* Takes those out of *SHORTCUTS (zygote/shortcuts.h) that our own environment names. */
int zygote_choose_shortcuts(unsigned *shortcuts, struct vial_error *err);

/* Appends the settings, with their last NUL. IMPORTS: modules to load, NULL-terminated,
 * or NULL. SHORTCUTS: their number, in digits. */
int zygote_settings(const char *share_dir, const char *const *imports,
                    const char *shortcuts, struct str *out, struct vial_error *err);

/* The same for one that is used where it waits: nothing of it is forked, and the guest
 * hears of its end as of any program's. HELD: what one like it said when it was up, or
 * "" for one that is to find out by rehearsals which shortcuts hold. */
int zygote_settings_in_vessel(const char *share_dir, const char *const *imports,
                              const char *held, struct str *out,
                              struct vial_error *err);

#endif
