/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_MCP_VIAL_SERVER_H
#define VIAL_MCP_VIAL_SERVER_H

/* vial's own MCP server: the core with vial's tools, or a preset's, and with
 * sandboxes and outputs as resources. What `vial mcp` and the daemon serve. */

#include "mcp/mcp.h"

struct mcp_vial;

/* PRESET chooses the tools; NULL: vial's own. GATE may be NULL. ENGINE and REGISTRY
 * outlive it. */
int mcp_vial_open(struct vial_engine *engine, struct registry *registry,
                  const char *preset, const struct mcp_gate *gate,
                  struct mcp_vial **out, struct vial_error *err);
struct mcp *mcp_vial_core(struct mcp_vial *server);
/* NULL is allowed. */
void mcp_vial_close(struct mcp_vial *server);

#endif
