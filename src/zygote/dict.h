/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_ZYGOTE_DICT_H
#define VIAL_ZYGOTE_DICT_H

/*
 * The inside of python's dicts, as far as it must be known: two can change places
 * without a word to what they hold, so that none of it is written to.
 */

#include <stdbool.h>
#include <stdint.h>

#include "zygote/python_api.h"

/* Tries it on two of its own. Before anything else. */
bool dict_can_swap(const struct api *api);
void dict_swap(void *one, void *other);

/* Each change to any dict gives it a number that none had before; or none, in some
 * versions. */
bool dict_has_versions(const struct api *api);
uint64_t dict_version(const void *dict);

#endif
