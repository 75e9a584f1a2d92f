/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_MCP_REMEDIES_H
#define VIAL_MCP_REMEDIES_H

/* Errors for a model, which has tools and their arguments, and no command line. */

#include "base/str.h"

#include "vial/error.h"

#define TOOL_ALONE "leave out 'sandbox_id': it then runs in a place of its own"

/* What a model can do about ERR; "" if that is nothing. Borrowed from ERR or static. */
const char *mcp_remedy(const struct vial_error *err);

/* TEXT, in which outside of quotes a session or vessel is called a sandbox. */
void mcp_say_sandbox(struct str *out, const char *text);

#endif
