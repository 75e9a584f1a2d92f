/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_MCP_STDIO_H
#define VIAL_MCP_STDIO_H

/* One client at the other end of two pipes; one message per line. */

#include "mcp/mcp.h"

/* Serves until IN ends or OUT breaks; then ends everything that runs, and returns.
 * Nothing but messages is ever written to OUT. */
int mcp_stdio_serve(struct mcp *mcp, int in, int out, struct vial_error *err);

/* For a server that cannot start: answers the first request with WHY, if one comes
 * while a client that has just started us would send it. Most clients show an answer,
 * and few what is on stderr. */
void mcp_stdio_refuse(int in, int out, const struct vial_error *why);

#endif
