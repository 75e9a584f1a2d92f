/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_ENGINE_POOL_PRESTART_H
#define VIAL_ENGINE_POOL_PRESTART_H

/*
 * An interpreter that cannot be forked into a vessel, but be started there ahead of
 * its program: Node. To the guest it is a program like any other, confined as any
 * other; it has loaded runtimes/waiting.cjs and waits on its stdin. What the request
 * would have started it with comes as the first bytes of that stdin; the program's
 * own follow.
 */

#include "engine/pool/ready.h"

/* Starts one for R's vessel, of PLAN, and waits until it waits. After a failure the
 * vessel must be closed. */
int prestart_make(struct ready *r, const struct plan *plan, const char *share_dir,
                  struct vial_error *err);
/* It goes on as if it had been started with PLAN, by the channel it waits at. INPUT:
 * the program has a stdin. */
int prestart_go(struct link *link, uint32_t channel, const struct plan *plan,
                const struct vessel *vessel, bool input, struct vial_error *err);

#endif
