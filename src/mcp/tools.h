/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_MCP_TOOLS_H
#define VIAL_MCP_TOOLS_H

/* What vial's own tools share. */

#include "mcp/long_outputs.h"
#include "mcp/tool.h"

#include "vial/vial.h"

/* Sandboxes end after so long without use, and, if they are not renewed, anyhow. */
#define TOOL_IDLE_MS  (INT64_C(30) * 60 * 1000)
#define TOOL_LEASE_MS (INT64_C(12) * 60 * 60 * 1000)

/* Of a run's answer: the result without output and files. */
#define TOOL_META "vial/result"

/* What the settings say that the tools' texts repeat. `data` of each tool. */
struct tool_texts {
    int64_t timeout_ms, max_timeout_ms;
    char max_timeout[24]; /* as a request takes it */
    json_t *words;        /* the settings in force, for texts (mcp/settings_text.h) */
    struct strv texts;    /* the tools' descriptions */
};

/* The text of an argument; NULL: it was not given. */
static inline const char *tool_text(const struct mcp_call *call, const char *name)
{
    return json_string_value(json_object_get(call->arguments, name));
}

/* What a setting is, in words: "30 seconds". */
const char *tool_word(const struct tool_texts *own, const char *name);

typedef void tool_call(const struct mcp_tool *tool, struct mcp_call *call,
                       struct mcp_answer *answer);

extern tool_call tool_run_code, tool_run_command, tool_read_file, tool_write_file,
    tool_list_files, tool_create_sandbox, tool_list_sandboxes, tool_delete_sandbox,
    tool_list_languages;

/* Schemas. */
json_t *tool_file_schema(void); /* of a file that is put in first */

/* LEN bytes at DATA as a block of CONTENT, if MEDIA is an image that clients show; not
 * too many, and none that is too large. */
bool tool_is_image(const char *media); /* one that clients show */
void tool_add_image(json_t *content, const char *media, const void *data, size_t len);

/* A file that came back: kept for its caller as a resource, linked from CONTENT (and
 * shown there if it is an image), told in TEXT. Its URI, which is free'd by the caller;
 * NULL: it did not come, or is too large to be kept. */
char *tool_add_file(struct mcp_call *call, const char *run, const struct vial_file *f,
                    struct str *text, json_t *content);

/* A failure of vial's as an answer: what, why, and what to do. */
void tool_fail(struct mcp_answer *answer, const struct vial_error *err);

/* The sandbox that the argument `sandbox_id` names, held; fills ANSWER otherwise. */
struct registered *tool_take(struct mcp_call *call, struct mcp_answer *answer);

/* A request made of the arguments KEYS name (space-separated), and of MORE (taken,
 * an object, or NULL). */
int tool_request(const struct mcp_call *call, const char *keys, json_t *more,
                 struct vial_request **out, struct vial_error *err);

/* What a run has to say besides its result. */
struct tool_extra {
    const char *sandbox_id; /* or NULL */
    const json_t *value;    /* what the last line of a cell gave, or NULL */
    const json_t *displays; /* figures and so on, or NULL */
    int64_t limit_ms;       /* the time-out it had */
    const char *memory;     /* the memory limit it had, or NULL: the sandbox's */
    json_t *links;          /* resource links to append, or NULL; taken */
};

/* RESULT as an answer for a model. */
void tool_answer(struct mcp_call *call, const struct tool_texts *own,
                 struct vial_result *result, struct tool_extra *extra,
                 struct mcp_answer *answer);

/* What a vial_watch calls for output: the caller of the call, its CONTEXT, is told. */
int tool_pass_on(void *context, int stream, const void *data, size_t len);

/* What came of a run in a sandbox. */
struct tool_ran {
    struct vial_result *result;
    json_t *cell; /* what vial_context_watch gave; NULL: it was no cell */
};

/* A cell in the context of LANGUAGE. */
int tool_cell(struct mcp_call *call, struct registered *held, const char *language,
              int64_t timeout_ms, struct tool_ran *out, struct vial_error *err);

/* Sets a stream of a result to a copy of TEXT. */
int tool_stream(struct vial_stream *s, const char *data, size_t len, uint64_t total,
                bool truncated);

static inline void auto_result_(struct vial_result **result)
{
    vial_result_free(*result);
}
#define auto_result __attribute__((cleanup(auto_result_)))

static inline void auto_ask_(struct vial_request **req)
{
    vial_request_free(*req);
}
#define auto_ask __attribute__((cleanup(auto_ask_)))

#endif
