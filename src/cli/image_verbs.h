/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_CLI_IMAGE_VERBS_H
#define VIAL_CLI_IMAGE_VERBS_H

/* What `vial image` does with one image. Each returns an exit status, or -1 with ERR.
 */

#include <jansson.h>

#include "cli/cli.h"

typedef int image_verb(struct cli *cli, struct vial_engine *engine,
                       struct vial_error *err);

/* Whose images are meant: the container engine's, or those of vial's own store. */
bool image_is_engines(const struct cli *cli, const struct vial_engine *engine);

/* What IMAGE is called whatever its names are: its digest, or an engine's id. Borrowed;
 * "" where it has neither. */
const char *image_handle(json_t *image);

int image_pull_engine(struct cli *cli, struct vial_engine *engine,
                      struct vial_error *err);
int image_pull_store(struct cli *cli, struct vial_engine *engine,
                     struct vial_error *err);
int image_inspect(struct cli *cli, struct vial_engine *engine, struct vial_error *err);
int image_import(struct cli *cli, struct vial_engine *engine, struct vial_error *err);
int image_export(struct cli *cli, struct vial_engine *engine, struct vial_error *err);
int image_remove(struct cli *cli, struct vial_engine *engine, struct vial_error *err);
int image_prune_store(struct cli *cli, struct vial_engine *engine,
                      struct vial_error *err);
int image_verify_store(struct cli *cli, struct vial_engine *engine,
                       struct vial_error *err);

#endif
