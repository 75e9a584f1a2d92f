/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_ZYGOTE_DICT_H
#define VIAL_ZYGOTE_DICT_H

/*
 * The inside of python's dicts, as far as it must be known: two can change places
 * without a word to what they hold, so that none of it is written to.
 */

#include <stdbool.h>

#include "zygote/python_api.h"

/* Tries it on two of its own. Before anything else. */
bool dict_can_swap(const struct api *api);
void dict_swap(void *one, void *other);

#endif
