/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_MCP_LONG_OUTPUTS_H
#define VIAL_MCP_LONG_OUTPUTS_H

/*
 * Long outputs are what runs have left for a later look: their streams, and files that
 * were brought back. Each piece has a URI, vial://runs/ID/NAME, and belongs to its
 * owner. The oldest pieces go when there are too many. Any thread.
 */

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

#include "base/str.h"

struct mcp_runs;

#define MCP_RUNS_URI "vial://runs/"

struct mcp_runs *mcp_runs_new(void); /* NULL without memory */
void mcp_runs_free(struct mcp_runs *runs);

/* Keeps a copy of DATA as NAME ("stdout", "files/plot.png") of run ID. Without memory
 * or place it is not kept, and false is returned. */
bool mcp_runs_keep(struct mcp_runs *runs, const char *owner, const char *id,
                   const char *name, const void *data, size_t len);

/* At most LEN bytes (0: all) from OFFSET on of what URI names. *TOTAL is how many
 * there are. False: OWNER has nothing by that name. */
bool mcp_runs_read(struct mcp_runs *runs, const char *owner, const char *uri,
                   uint64_t offset, uint64_t len, struct blob *out, uint64_t *total);

/* As entries of resources/list, newest first. */
json_t *mcp_runs_list(struct mcp_runs *runs, const char *owner);

/* The media type a name stands for. Static storage. */
const char *mcp_media(const char *name);

#endif
