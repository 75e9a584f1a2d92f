/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_API_INSIDE_H
#define VIAL_API_INSIDE_H

/*
 * What vial's own front ends have beyond include/vial. They are linked with the
 * library, so that no value has to become text and be read again.
 */

#include "settings/settings.h"

#include "vial/session.h"
#include "vial/vessels.h"

/* The settings in force. They live as long as the engine, and do not change. */
const struct settings *inside_settings(const struct vial_engine *engine);

/* Opens an engine with settings that were read before, and outlive it; of OPTIONS those
 * count that do not say where settings come from. */
int inside_open(const struct vial_engine_options *options, struct settings *settings,
                struct vial_engine **out, struct vial_error *err);

/* Whether REQ has a compile step that can be done once for many runs. */
bool inside_compiles(struct vial_engine *engine, const struct vial_request *req);

/* Does it, in a vessel of its own. *OUT is like REQ, but a plain command with what the
 * compiler made as files; NULL: that did not go well, and runs of REQ will say why. */
int inside_compile(struct vial_engine *engine, const struct vial_request *req,
                   const struct vial_session_options *options,
                   struct vial_request **out, double *cpu_ms, struct vial_error *err);

/* What a container engine says of its images and volumes, as vial/vessels.h has it. */
int inside_image_pull(struct vial_engine *engine, const struct vial_pull *pull,
                      json_t **out, struct vial_error *err);
int inside_images(struct vial_engine *engine, json_t **out, struct vial_error *err);
int inside_image_prune(struct vial_engine *engine, const struct vial_prune *prune,
                       json_t **out, struct vial_error *err);
int inside_caches(json_t **out, struct vial_error *err);

/* The plan of REQ as vial_plan has it. */
int inside_plan(struct vial_engine *engine, const struct vial_request *req,
                json_t **out, struct vial_error *err);

#endif
