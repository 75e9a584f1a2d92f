/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_ENGINE_RUN_NETWORK_ACCOUNT_H
#define VIAL_ENGINE_RUN_NETWORK_ACCOUNT_H

/* What was reached through a vessel's gate, as the gate says: a process of ours. */

#include <stdbool.h>

#include "vial/result.h"

/* GATE_FD is a vessel's, or -1: then NULL. ASK: of a vessel that goes on; else its
 * guest is gone, or about to be, and the gate tells by itself. Waits for a moment; a
 * gate that does not answer gives an account that is not `whole`. NULL without memory,
 * too. */
struct vial_network *network_account(int gate_fd, bool ask);

/* Has the gate lead *OUT, a new socket of the caller's, to PORT of the vessel. */
int network_connect(int gate_fd, unsigned port, int *out, struct vial_error *err);

#endif
