/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_API_INSIDE_H
#define VIAL_API_INSIDE_H

/*
 * What vial's own front ends have beyond include/vial: the settings as they are. They
 * are linked with the library, so that no value has to become text and be read again.
 */

#include "settings/settings.h"

#include "vial/engine.h"

/* The settings in force. They live as long as the engine, and do not change. */
const struct settings *inside_settings(const struct vial_engine *engine);

/* Opens an engine with settings that were read before, and outlive it; of OPTIONS those
 * count that do not say where settings come from. */
int inside_open(const struct vial_engine_options *options, struct settings *settings,
                struct vial_engine **out, struct vial_error *err);

#endif
