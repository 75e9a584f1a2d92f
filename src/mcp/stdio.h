/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_MCP_STDIO_H
#define VIAL_MCP_STDIO_H

/* One client at the other end of two pipes; one message per line. */

#include "mcp/mcp.h"

/* Serves until IN ends or OUT breaks; then ends everything that runs, and returns.
 * Nothing but messages is ever written to OUT. */
int mcp_stdio_serve(struct mcp *mcp, int in, int out, struct vial_error *err);

#endif
