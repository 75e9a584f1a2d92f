/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_DRIVER_KEPT_NEST_H
#define VIAL_DRIVER_KEPT_NEST_H

/*
 * Zygotes of a keeper. The front knows one by a number; the zygote itself, and what
 * it is told, stay on the keeper's side. It lives until the front lets go of its
 * leash.
 */

#include "driver/driver.h"

#define NEST_ENV     64 /* entries of a zygote's environment */
#define NEST_IMPORTS 64

int nest_open(const struct plan *plan, const struct zygote_options *options,
              struct zygote **out, struct vial_error *err);
int nest_hatch(struct zygote *zygote, struct vessel *vessel, int *fd, uint32_t *pid,
               struct vial_error *err);
void nest_close(struct zygote *zygote);

#endif
