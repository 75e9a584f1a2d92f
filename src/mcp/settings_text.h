/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_MCP_SETTINGS_TEXT_H
#define VIAL_MCP_SETTINGS_TEXT_H

/* Texts with "{name}" in them, and the settings in force as what those names stand for:
 * no description of a tool repeats a number that a setting can change. */

#include <jansson.h>

#include "base/str.h"
#include "settings/settings.h"

/* "{name}" in TEXT becomes the value of that name; nothing where there is none. */
void mcp_expand(struct str *out, const char *text, const json_t *values);

/* Of the settings: timeout ("30 seconds"), max_timeout, memory ("256 MB"), cpus, pids,
 * disk, tmp, network, networks, output, characters, workspace_at, workspace_mode, idle,
 * lease and executions; `idle` is that of a vessel that is kept, where there is one.
 * The names are judged by settings/preset.c. NULL without memory. */
json_t *mcp_words(const struct settings *settings);

/* SCHEMA without the `maximum` of its property NAME: a request above a policy's maximum
 * is refused by the policy, which says who can raise it. NULL without memory. */
json_t *mcp_without_maximum(json_t *schema, const char *name);

#endif
