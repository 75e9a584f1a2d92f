/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_MCP_TURNS_H
#define VIAL_MCP_TURNS_H

/*
 * Turns for a server with one client: so many calls run programs at once, others wait
 * until one of these ends or their client cancels them, and who is too many is refused
 * with VIAL-BUSY. A daemon has a gate of its own, for many callers.
 */

#include "engine/callers/gate.h"
#include "mcp/mcp.h"
#include "settings/blocks.h"

struct mcp_turns {
    struct gate gate;
    struct caller *client; /* the only one */
    /* Is told of refusals; set before the gate is made, or NULL. */
    void (*refused)(void *context, const struct mcp_call *call,
                    const struct vial_error *why);
    void *context;
};

/* `concurrency`, `queue` and `queue_timeout` of SERVE count. */
int mcp_turns_open(struct mcp_turns *t, const struct serve_settings *serve,
                   struct vial_error *err);
void mcp_turns_close(struct mcp_turns *t); /* nobody runs or waits any more */

/* T outlives it. */
struct mcp_gate mcp_turns_gate(struct mcp_turns *t);

#endif
