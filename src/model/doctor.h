/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_MODEL_DOCTOR_H
#define VIAL_MODEL_DOCTOR_H

/* JSON of what this host can do: of the doctor's report, and of the languages. */

#include <jansson.h>

#include "base/auto.h"

#include "vial/host.h"

AUTO(doctor, struct vial_doctor, vial_doctor_free)
#define auto_doctor    __attribute__((cleanup(auto_doctor_)))
#define auto_languages __attribute__((cleanup(vial_languages_free)))

/* All of them NULL without memory. */
json_t *doctor_json(const struct vial_doctor *d);
json_t *doctor_automatic_json(const struct vial_doctor *d); /* its member "automatic" */
json_t *doctor_needed_json(const struct vial_doctor *d);    /* its member "needed" */

json_t *languages_json(const struct vial_languages *list);
json_t *languages_names_json(const struct vial_languages *list); /* names alone */

#endif
