/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_MCP_TOOL_H
#define VIAL_MCP_TOOL_H

/*
 * A tool as the protocol core sees it: what it is called, what it takes, and a
 * function. The core checks the arguments against `input` before it calls, runs
 * each call in a thread of its own, and turns the answer into either era's form.
 */

#include <jansson.h>
#include <stdbool.h>

#include "base/str.h"
#include "registry/registry.h"

#include "vial/engine.h"

/* What a call has to work with. */
struct mcp_call {
    const json_t *arguments; /* an object that fits the tool's input schema */
    struct vial_engine *engine;
    struct registry *registry;
    const char *owner; /* for the registry */
    int cancel_fd;     /* readable: the caller gave up */

    /* Tells the caller how it gets on; TEXT may be NULL. Does nothing when the
     * caller did not ask. May be called from the call's thread only. */
    void (*progress)(struct mcp_call *call, const char *text, size_t len);
    void *core; /* the core's own */
};

/* What came of it. `content` and `structured` are the core's afterwards. */
struct mcp_answer {
    bool is_error;      /* the tool failed: the model should read why */
    json_t *content;    /* array of content blocks; NULL: one text block of `text` */
    struct str text;    /* for the model */
    json_t *structured; /* fits the output schema; NULL: none */
};

struct mcp_tool {
    const char *name, *title, *description;
    json_t *input;       /* JSON schema, an object; owned by the table */
    json_t *output;      /* or NULL */
    json_t *annotations; /* or NULL */
    void (*call)(const struct mcp_tool *tool, struct mcp_call *call,
                 struct mcp_answer *answer);
    const void *data; /* the tool's own */
};

/* A table of tools, built once. */
struct mcp_tools {
    struct mcp_tool *items;
    size_t count;
};

#endif
