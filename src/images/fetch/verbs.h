/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_IMAGES_FETCH_VERBS_H
#define VIAL_IMAGES_FETCH_VERBS_H

/* What vial-image does. *OUT, where it is set, is the result; a failure names the
 * image. */

#include "images/fetch/image_work.h"

int verb_pull(const struct job *job, json_t **out, struct vial_error *err);
int verb_import(const struct job *job, json_t **out, struct vial_error *err);
int verb_export(const struct job *job, json_t **out, struct vial_error *err);
int verb_snapshot(const struct job *job, json_t **out, struct vial_error *err);
int verb_configure(const struct job *job, json_t **out, struct vial_error *err);
int verb_verify(const struct job *job, json_t **out, struct vial_error *err);
int verb_sweep(const struct job *job, json_t **out, struct vial_error *err);

#endif
