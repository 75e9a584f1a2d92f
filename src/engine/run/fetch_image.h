/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_ENGINE_RUN_FETCH_IMAGE_H
#define VIAL_ENGINE_RUN_FETCH_IMAGE_H

/*
 * Images, as the engine brings and removes them: within the policy, and each pull and
 * each prune with a record in the audit log ("image.pull", "image.prune"). All front
 * ends pull by this, whether asked to or since a run needs an image.
 */

#include "engine/engine.h"
#include "images/fetcher.h"

/* What PULL leaves open is filled in from the settings. *OUT as vial_image_pull. */
int fetch_pull(struct vial_engine *e, const struct driver *driver,
               const struct vial_pull *pull, json_t **out, struct vial_error *err);

/* Has vial-image do VERB with the store; nothing is recorded. ENDS may be NULL. */
int fetch_into_store(struct vial_engine *e, const char *verb,
                     const struct vial_pull *pull, const struct image_ends *ends,
                     json_t **out, struct vial_error *err);

/* DO_PRUNE does it; around that it is recorded. */
typedef int fetch_prune_do(bool all, json_t **out, struct vial_error *err);
int fetch_prune(struct vial_engine *e, const struct vial_prune *prune,
                fetch_prune_do *do_prune, json_t **out, struct vial_error *err);

/* The image of PLAN, for a run or session that WATCH follows: its pull_ms, its retries.
 */
int fetch_for(struct vial_engine *e, const struct driver *driver,
              const struct plan *plan, const struct vial_watch *watch,
              struct vial_error *err);

#endif
