/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_ZYGOTE_MODULES_H
#define VIAL_ZYGOTE_MODULES_H

/*
 * The modules that were there before the fork. At its end python takes every
 * module apart, value by value; of those that the program has left as they were,
 * nobody would see it, and all their memory would have to be copied for it. They
 * are put out of its reach instead.
 */

#include <stddef.h>

#include "zygote/api.h"

struct modules {
    struct module *at;
    size_t count;
};

void modules_note(struct modules *m, const struct api *api);
/* After the program's last word: takes from sys.modules what is as it was. */
void modules_hide(const struct modules *m, const struct api *api);

#endif
