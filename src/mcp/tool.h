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
#include "engine/callers/registry.h"
#include "mcp/rpc.h"

#include "vial/engine.h"

struct mcp_runs;
struct mcp_gate;

/* The things that a call has to work with. */
struct mcp_call {
    const json_t *arguments; /* an object that fits the tool's input schema; no
                                string in it holds NUL, but for those
                                whose schema has a contentMediaType */
    struct vial_engine *engine;
    struct registry *registry;
    struct mcp_runs *runs;       /* keeps output that is too long for an answer */
    const char *owner;           /* for the registry */
    const char *correlation;     /* for logs, records and the programs; or NULL */
    const struct mcp_gate *gate; /* which keeps account of runs; NULL: none does */
    int cancel_fd;               /* readable: the caller gave up */

    /* Tells the caller how it gets on; TEXT may be NULL. Does nothing when the
     * caller did not ask. May be called from the call's thread only. */
    void (*progress)(struct mcp_call *call, const char *text, size_t len);
    void *core; /* the core's own */

    double queued_ms; /* how long it waited for its turn */
    double cpu_ms;    /* for the tool to fill in: what its programs used */
};

/* A call's answer. Zero-initialised is an empty success. `content` and `structured` are
 * the core's afterwards. */
struct mcp_answer {
    bool is_error;      /* the tool failed: the model should read why */
    json_t *content;    /* array of content blocks; NULL: one text block of `text` */
    struct str text;    /* for the model */
    json_t *structured; /* fits the output schema; NULL: none. Clients show a model
                           either this or `content`, so it repeats no long text */
    json_t *meta;       /* for programs, never for the model; NULL: none */

    /* For tools that speak the protocol themselves: */
    json_t *result;         /* the whole result instead of the above, or NULL */
    struct rpc_error error; /* code other than 0: a protocol error instead */
};

/* Whether an answer about a run that ended so is marked as an error: whenever the
 * program did not end by itself, with a code that is its own to choose. */
static inline bool mcp_is_failure(enum vial_verdict verdict)
{
    return verdict != VIAL_OK && verdict != VIAL_NONZERO;
}

struct mcp_tool {
    const char *name, *title, *description;
    json_t *input;  /* JSON schema, an object; owned by the table */
    json_t *judged; /* what arguments must fit instead, or NULL */
    /* Makes the schema that is listed instead of `input`; or NULL. */
    json_t *(*listed)(const struct mcp_tool *tool, struct vial_engine *engine);
    json_t *output;      /* or NULL */
    json_t *annotations; /* or NULL */
    void (*call)(const struct mcp_tool *tool, struct mcp_call *call,
                 struct mcp_answer *answer);
    /* Says that a call was not let in, in the tool's words; or NULL. */
    void (*refuse)(const struct mcp_tool *tool, struct mcp_call *call,
                   const struct vial_error *err, struct mcp_answer *answer);
    const void *data; /* the tool's own; borrowed */
    /* It runs programs: its calls wait for their turn where the server has a gate, and
     * one that takes long becomes a task, for clients that know tasks. */
    bool runs;
};

/* A table of tools, built once, in the order in which they are listed. */
struct mcp_tools {
    struct mcp_tool *items;
    size_t count;
    void *data; /* what the tools' texts and `data` point into; free'd last, by */
    void (*data_free)(void *data); /* … this, unless NULL */
};

/* The tools of vial itself. */
int mcp_own_tools(struct vial_engine *engine, struct mcp_tools *out,
                  struct vial_error *err);

/* The tools of the preset NAME, in the preset's own names; NULL or a preset that
 * has none: those of vial itself. */
int mcp_preset_tools(struct vial_engine *engine, const char *name,
                     struct mcp_tools *out, struct vial_error *err);

/* Releases schemas, the table and its data. Zero-initialised is allowed. */
void mcp_tools_done(struct mcp_tools *tools);

/* A log message, if the client wants its LEVEL ("info"). Takes DATA. */
void mcp_call_log(struct mcp_call *call, const char *level, json_t *data);

/* A vial_pull_progress whose CONTEXT is a struct mcp_call: progress in words. */
int mcp_tell_pull(void *context, const char *layer, const char *status,
                  unsigned long long current, unsigned long long total);

/* Around a run of LANGUAGE (or a command's name) in a vessel of its own, for a server
 * that keeps account: WATCH, whose context is the
 * call, has caller, correlation, cancel_fd and pulling set then. */
void *mcp_run_begin(const struct mcp_call *call, const char *language,
                    struct vial_watch *watch);
/* RUN is what begin gave; RESULT may be NULL. */
void mcp_run_end(struct mcp_call *call, void *run, const struct vial_result *result);

/* Tells whoever listens that something changed. */
void mcp_call_changed(struct mcp_call *call, const char *what);

#endif
