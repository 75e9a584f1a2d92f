/* SPDX-License-Identifier: Apache-2.0 */
#include "mcp/vial_server.h"

#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/budget.h"
#include "base/fail.h"
#include "base/json.h"
#include "base/text.h"
#include "mcp/long_outputs.h"

#define SANDBOX_URI   "sandbox://"
#define FILES_MAX     500u
#define READ_MAX      (32u << 20) /* bytes of a resource */
#define READ_SMALL    (1u << 20)  /* most have fewer */
#define READ_COPIES   4u /* of these, while an answer is made: base64 is longer */
#define TASK_AFTER_MS 5000

struct mcp_vial {
    struct registry *registry;
    struct vial_budget *budget; /* borrowed, or NULL */
    struct mcp_runs *runs;
    struct mcp_tools tools;
    struct mcp_resources resources;
    struct str instructions;
    struct mcp *core;
};

static const char tool_instructions[] =
    "Runs code and shell commands in isolated sandboxes on this machine. Without a "
    "sandbox_id each run gets a fresh place that is destroyed afterwards; "
    "create_sandbox gives one that keeps files and variables between calls. Outputs "
    "that were cut, files of sandboxes and files that runs brought back are resources.";

/* A preset's names its own tools, and no others. */
static int make_instructions(struct mcp_vial *v, const char *preset,
                             struct vial_error *err)
{
    struct str *s = &v->instructions;

    if (!preset) {
        str_puts(s, tool_instructions);
        return str_ok(s) ? 0 : fail_memory(err);
    }
    str_printf(s,
               "Runs code and shell commands in isolated sandboxes on this machine, "
               "as %s does. Tools:",
               preset);
    for (size_t i = 0; i < v->tools.count; i++)
        str_printf(s, "%s %s", i ? "," : "", v->tools.items[i].name);
    str_puts(s, ". Their descriptions tell the limits in force.");
    return str_ok(s) ? 0 : fail_memory(err);
}

/* For people who start from a prompt rather than from a tool. */
static void solve_with_code(struct mcp_call *call, struct mcp_answer *answer)
{
    const char *task = json_string_value(json_object_get(call->arguments, "task"));

    answer->content = json_pack(
        "[{s:s, s:o}]", "type", "text", "text",
        json_sprintf("%s\n\nWork it out by running code rather than by guessing. Use "
                     "run_code for a single program; if several steps belong together, "
                     "make a sandbox with create_sandbox first, pass its sandbox_id, "
                     "and delete it in the end. Read errors and fix the code. Say what "
                     "the code showed.",
                     task));
}

static const char *const task_argument[] = { "task", NULL };

static const struct mcp_prompt prompts[] = {
    { "solve_with_code", "Solves a task by writing and running code.", task_argument,
      solve_with_code },
    { 0 },
};

static void add_files(json_t *list, struct registered *held)
{
    struct vial_entries files = { 0 };

    if (vial_session_list(held->session, "", true, &files, NULL) < 0)
        return;
    for (size_t i = 0; i < files.count && json_array_size(list) < FILES_MAX; i++) {
        const struct vial_entry *e = &files.items[i];

        if (e->type == 'f')
            (void)json_array_append_new(
                list,
                json_pack("{s:o, s:s, s:s, s:I}", "uri",
                          json_sprintf(SANDBOX_URI "%s/%s", held->id, e->path), "name",
                          e->path, "mimeType", e->media, "size", (json_int_t)e->size));
    }
    vial_entries_free(&files);
}

/* Outputs first, then the files of each sandbox. */
static json_t *list(void *context, const char *owner)
{
    struct mcp_vial *v = context;
    json_t *resources = mcp_runs_list(v->runs, owner);
    auto_free struct vial_session_report *open = NULL;
    size_t count = registry_reports(v->registry, owner, true, &open);

    for (size_t i = 0; i < count; i++) {
        struct registered *held;

        if (registry_take(v->registry, owner, open[i].id, &held, NULL) < 0)
            continue;
        add_files(resources, held);
        registry_release(v->registry, held);
    }
    return resources;
}

static json_t *templates(void *context)
{
    (void)context;
    return json_pack("[{s:s, s:s, s:s}, {s:s, s:s, s:s}, {s:s, s:s, s:s}]",
                     "uriTemplate", SANDBOX_URI "{sandbox_id}/{+path}", "name",
                     "sandbox-file", "description", "A file of a sandbox.",
                     "uriTemplate", MCP_RUNS_URI "{run_id}/{stream}", "name",
                     "run-output", "description",
                     "stdout or stderr of a run whose answer had to cut it.",
                     "uriTemplate", MCP_RUNS_URI "{run_id}/files/{+path}", "name",
                     "run-file", "description", "A file that a run brought back.");
}

static int read_sandbox(struct mcp_vial *v, const char *owner, const char *uri,
                        uint64_t most, struct blob *out)
{
    const char *id = uri + strlen(SANDBOX_URI);
    const char *slash = strchr(id, '/');
    struct registered *held;
    char name[24] = "";
    int rc;

    if (!slash || (size_t)(slash - id) >= sizeof name)
        return -1;
    (void)memcpy(name, id, (size_t)(slash - id));
    if (registry_take(v->registry, owner, name, &held, NULL) < 0)
        return -1;
    rc = vial_session_get(held->session, slash + 1, 0, most + 1, &out->data, &out->len,
                          NULL);
    registry_release(v->registry, held);
    return rc;
}

static json_t *contents_of(const char *uri, const struct blob *data)
{
    auto_str struct str base64 = { 0 };
    const char *media = mcp_media(uri);

    if (text_is_utf8(data->data, data->len) && !memchr(data->data, '\0', data->len))
        return json_pack("[{s:s, s:s, s:s%}]", "uri", uri, "mimeType",
                         strcmp(media, "application/octet-stream") == 0 ? "text/plain"
                                                                        : media,
                         "text", data->data, data->len);
    text_base64(&base64, data->data, data->len);
    if (!str_ok(&base64))
        return NULL;
    return json_pack("[{s:s, s:s, s:s}]", "uri", uri, "mimeType", media, "blob",
                     base64.data);
}

/* Reads at most MOST bytes; a longer resource is not whole. False: there is no such
 * resource. */
static bool read_most(struct mcp_vial *v, const char *owner, const char *uri,
                      uint64_t most, struct blob *out)
{
    uint64_t total;

    if (str_starts(uri, SANDBOX_URI))
        return read_sandbox(v, owner, uri, most, out) == 0;
    return str_starts(uri, MCP_RUNS_URI) &&
           mcp_runs_read(v->runs, owner, uri, 0, most + 1, out, &total);
}

static void fail_read(bool paid, bool found, struct rpc_error *err)
{
    if (!paid)
        (void)rpc_fail(err, RPC_INTERNAL, 503, json_pack("{s:s}", "code", "VIAL-BUSY"),
                       "there is no memory left for this resource: try again when "
                       "other answers were read");
    else if (!found)
        (void)rpc_fail(err, RPC_NO_RESOURCE, 0, NULL, "Resource not found");
    else
        (void)rpc_fail(err, RPC_INTERNAL, 0, NULL,
                       "the resource has more than %u bytes: read it in pieces with "
                       "the tool read_file",
                       READ_MAX);
}

/* Nobody knows how long it is before it was read: first it is taken for a small one. */
static int read_resource(void *context, const char *owner, const char *uri,
                         json_t **out, uint64_t *paid, struct rpc_error *err)
{
    static const uint64_t tries[] = { READ_SMALL, READ_MAX };
    struct mcp_vial *v = context;
    bool pays = true, found = true, whole = false;

    for (size_t i = 0; i < sizeof tries / sizeof *tries && found && !whole; i++) {
        uint64_t cost = READ_COPIES * tries[i];
        struct blob data = { 0 };

        pays = budget_take(v->budget, BUDGET_MEMORY, owner, cost);
        found = pays && read_most(v, owner, uri, tries[i], &data);
        whole = found && data.len <= tries[i];
        if (whole) {
            *out = contents_of(uri, &data);
            *paid = READ_COPIES * data.len;
        }
        if (pays)
            budget_give(v->budget, BUDGET_MEMORY, owner, cost - *paid);
        blob_done(&data);
    }
    if (!whole)
        fail_read(pays, found, err);
    return *out ? 0 : -1;
}

/* Ids of sandboxes, for the template that takes one. */
static json_t *complete_sandbox(void *context, const char *owner, const json_t *params)
{
    struct mcp_vial *v = context;
    const json_t *argument = json_object_get(params, "argument");
    const char *name = rpc_text(argument, "name"), *begun = rpc_text(argument, "value");
    auto_free struct vial_session_report *open = NULL;
    json_t *ids = json_array();
    size_t count;

    if (!str_eq(name, "sandbox_id"))
        return ids;
    count = registry_reports(v->registry, owner, true, &open);
    for (size_t i = 0; i < count && json_array_size(ids) < 100; i++)
        if (str_starts(open[i].id, begun))
            (void)json_array_append_new(ids, json_string(open[i].id));
    return ids;
}

int mcp_vial_open(struct vial_engine *engine, struct registry *registry,
                  const char *preset, const struct mcp_gate *gate,
                  struct mcp_vial **out, struct vial_error *err)
{
    struct mcp_vial *v = calloc(1, sizeof *v);
    struct mcp_options options = { .engine = engine,
                                   .registry = registry,
                                   .name = "vial",
                                   .title = "vial sandbox",
                                   .task_after_ms = TASK_AFTER_MS };

    if (!v)
        return fail_memory(err);
    if (gate)
        options.gate = *gate;
    options.calls = options.gate.calls;
    v->registry = registry;
    v->budget = options.gate.budget;
    v->runs = mcp_runs_new();
    v->resources = (struct mcp_resources){ .context = v,
                                           .list = list,
                                           .templates = templates,
                                           .read = read_resource,
                                           .complete = complete_sandbox };
    options.runs = v->runs;
    options.tools = &v->tools;
    options.resources = &v->resources;
    options.prompts = preset ? NULL : prompts; /* it names vial's own tools */
    if (!v->runs)
        (void)fail_memory(err);
    if (!v->runs || mcp_preset_tools(engine, preset, &v->tools, err) < 0 ||
        make_instructions(v, preset, err) < 0) {
        mcp_vial_close(v);
        return -1;
    }
    options.instructions = v->instructions.data;
    if (mcp_open(&options, &v->core, err) < 0) {
        mcp_vial_close(v);
        return -1;
    }
    *out = v;
    return 0;
}

struct mcp *mcp_vial_core(struct mcp_vial *server)
{
    return server->core;
}

void mcp_vial_close(struct mcp_vial *server)
{
    if (!server)
        return;
    mcp_close(server->core);
    mcp_tools_done(&server->tools);
    mcp_runs_free(server->runs);
    str_done(&server->instructions);
    free(server);
}
