/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_PLAN_BUILD_H
#define VIAL_PLAN_BUILD_H

/*
 * Request x settings -> plan. Reads the host only to judge mount sources and to
 * read the files a request names; opens nothing that stays open.
 */

#include "model/plan.h"
#include "settings/settings.h"

/* The driver that will open the plan. */
struct plan_driver {
    const char *name; /* never "auto" */
    bool contains;    /* by containers: images, their networks, volumes, runtimes */
    bool roots;       /* an image can be the root, without a container */
    field_set unheld; /* limits that it cannot hold */
};

/* REQ has had the settings' defaults filled in and has passed policy_check. */
int plan_build(const struct vial_request *req, const struct settings *settings,
               const struct plan_driver *driver, struct plan **out,
               struct vial_error *err);

#endif
