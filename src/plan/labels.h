/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_PLAN_LABELS_H
#define VIAL_PLAN_LABELS_H

#include "base/str.h"
#include "model/plan.h"

/* Appends "PREFIX-SESSION-TASK", of the labels that PLAN has, in the letters that
 * engines take. PREFIX NULL: "vial". */
void labels_name(struct str *out, const char *prefix, const struct plan *plan);

#endif
