/* SPDX-License-Identifier: Apache-2.0 */
#include "mcp/tool.h"

int mcp_preset_tools(struct vial_engine *engine, const char *name,
                     struct mcp_tools *out, struct vial_error *err)
{
    (void)name;
    return mcp_own_tools(engine, out, err);
}
