/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_API_LANGUAGES_H
#define VIAL_API_LANGUAGES_H

/* The language table with what is usable here. A version is asked from the
 * program itself, which the table's author names: so it is run in a vessel. */

#include <jansson.h>

#include "engine/engine.h"

json_t *languages_json(struct vial_engine *e); /* NULL without memory */

/* The names alone of those that can run now: where an engine makes the vessels, those
 * that have an image; else those whose program this host has. */
json_t *languages_offered(struct vial_engine *e);

#endif
