/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_SERVE_MCP_GATE_H
#define VIAL_SERVE_MCP_GATE_H

/* Runs of the Model Context Protocol's tools go through the same gate as all other
 * runs. They are remembered, counted and logged like them. */

#include "mcp/mcp.h"
#include "serve/service.h"

struct mcp_gate protocol_gate(struct serve *s);

#endif
