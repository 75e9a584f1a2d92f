/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_ENGINE_SESSION_SAVE_FILES_H
#define VIAL_ENGINE_SESSION_SAVE_FILES_H

/* vial_session_snapshot for our own front ends: its report as JSON. */

#include <jansson.h>

#include "vial/session.h"

int save_files(struct vial_session *s, const struct vial_snapshot_options *options,
               json_t **out, struct vial_error *err);

#endif
