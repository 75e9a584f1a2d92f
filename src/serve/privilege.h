/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_SERVE_PRIVILEGE_H
#define VIAL_SERVE_PRIVILEGE_H

/* The daemon becomes two processes: a keeper that opens vessels, and this one, which
 * speaks with clients and has no privilege from then on. */

#include "serve/front.h"
#include "serve/service.h"

/* Before the first thread. Does nothing where the setting `keeper` says so. */
int privilege_give_up(struct serve *s, const struct front *f, struct vial_error *err);

#endif
