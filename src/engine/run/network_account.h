/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_ENGINE_RUN_NETWORK_ACCOUNT_H
#define VIAL_ENGINE_RUN_NETWORK_ACCOUNT_H

/* What was reached through a vessel's gate, as the gate says: a process of ours. */

#include <stdbool.h>

#include "engine/engine.h"
#include "plan/gate_rules.h"

#include "vial/result.h"

/* GATE_FD is a vessel's, or -1: then NULL. ASK: of a vessel that goes on; else its
 * guest is gone, or about to be, and the gate tells by itself. Waits for a moment; a
 * gate that does not answer gives an account that is not `whole`. NULL without memory,
 * too. */
struct vial_network *network_account(int gate_fd, bool ask);

/* Before the first program of VESSEL, which is CALLER's: its gate, if it has one,
 * counts for the caller's quota from now on. *OUT is given back once the vessel is
 * closed. */
int network_join(struct vial_engine *e, const struct vessel *vessel, const char *caller,
                 struct network_place *out, struct vial_error *err);
void network_leave(struct vial_engine *e, const char *caller,
                   struct network_place *place);

/* Has the gate of PLAN's vessel let out ENTRIES from now on, and end what they do not
 * have, if they are within what it began with; the gate looks at that, too. */
int network_allow(const struct settings *settings, const struct plan *plan, int gate_fd,
                  const struct strv *entries, struct vial_error *err);

/* Has the gate lead *OUT, a new socket of the caller's, to PORT of the vessel. */
int network_connect(int gate_fd, unsigned port, int *out, struct vial_error *err);

#endif
