/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_SERVE_MCP_GATE_H
#define VIAL_SERVE_MCP_GATE_H

/* What tools of the Model Context Protocol run goes through the same gate as all that
 * callers run, and is remembered, counted and logged like it. */

#include "mcp/mcp.h"
#include "serve/service.h"

struct mcp_gate protocol_gate(struct serve *s);

#endif
