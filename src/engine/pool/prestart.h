/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_ENGINE_POOL_PRESTART_H
#define VIAL_ENGINE_POOL_PRESTART_H

/*
 * An interpreter that is started in its vessel ahead of its program: Node, which cannot
 * be forked into one, and an image's own python, which must not be let out of one. To
 * the guest it is a program like any other, confined as any other; it has loaded
 * runtimes/waiting.cjs, or vial-zygote.so, and waits on its stdin. What the request
 * would have started it with comes as the first bytes of that stdin; the program's own
 * follow. Nothing that it says is believed but that it waits.
 */

#include "engine/pool/ready.h"

struct prestart_order {
    const struct plan *plan;
    const char *share_dir;
    const char *const *imports; /* modules for python, NULL-terminated or NULL */
    const char *held;           /* what one of the same stock said, or "" */
};

#define PRESTART_SAID 32

/* Starts one in R's vessel, and waits until it waits. SAID is "", or what it would have
 * the next one told as `held`: that is then up sooner, and has started no process
 * before its program. After a failure the vessel must be closed. */
int prestart_make(struct ready *r, const struct prestart_order *order,
                  char said[PRESTART_SAID], struct vial_error *err);
/* It goes on as if it had been started with PLAN, by the channel it waits at. INPUT:
 * the program has a stdin. */
int prestart_go(struct link *link, uint32_t channel, const struct plan *plan,
                const struct vessel *vessel, bool input, struct vial_error *err);

#endif
