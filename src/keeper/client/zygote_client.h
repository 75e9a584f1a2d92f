/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_KEEPER_CLIENT_ZYGOTE_CLIENT_H
#define VIAL_KEEPER_CLIENT_ZYGOTE_CLIENT_H

/*
 * Zygotes of a keeper. The front knows one by a number; the zygote itself, and what
 * it is told, stay on the keeper's side. It lives until the front lets go of its
 * leash.
 */

#include "driver/driver.h"

int zygote_client_open(const struct plan *plan, const struct zygote_options *options,
                       struct zygote **out, struct vial_error *err);
int zygote_client_fork_into(struct zygote *zygote, struct vessel *vessel, int *fd,
                            uint32_t *pid, struct vial_error *err);
void zygote_client_close(struct zygote *zygote);

#endif
