/* SPDX-License-Identifier: Apache-2.0 */

/* The table of vial's own tools: names, texts for a model, schemas. */

#include <stdlib.h>
#include <string.h>

#include "api/inside.h"
#include "base/auto.h"
#include "base/fail.h"
#include "base/json.h"
#include "mcp/settings_text.h"
#include "mcp/tools.h"
#include "settings/schema.h"

static json_t *text_of(const char *description)
{
    return json_pack("{s:s, s:s}", "type", "string", "description", description);
}

static json_t *whole_number(const char *description)
{
    return json_pack("{s:s, s:i, s:s}", "type", "integer", "minimum", 0, "description",
                     description);
}

static json_t *object_of(json_t *properties, const char *required)
{
    json_t *names = json_array();

    while (*required) {
        size_t len = strcspn(required, " ");

        (void)json_array_append_new(names, json_stringn(required, len));
        required += len + (required[len] == ' ');
    }
    return json_pack("{s:s, s:o, s:o, s:b}", "type", "object", "properties", properties,
                     "required", names, "additionalProperties", 0);
}

/* The schema of a request's field, as fields.def has it. */
static json_t *field(const json_t *request, const char *name)
{
    const json_t *properties = json_object_get(request, "properties");

    return json_deep_copy(json_object_get(properties, name));
}

/* Seconds: models do better with one form than with two. */
static json_t *timeout_schema(const struct tool_texts *own)
{
    return json_pack(
        "{s:s, s:f, s:f, s:f, s:o}", "type", "number", "minimum", 0.001, "maximum",
        (double)own->max_timeout_ms / 1000, "default", (double)own->timeout_ms / 1000,
        "description",
        json_sprintf("Seconds after which it is ended; %s if not given, at "
                     "most %s.",
                     tool_word(own, "timeout"), tool_word(own, "max_timeout")));
}

static json_t *network_schema(const struct tool_texts *own, const json_t *request)
{
    json_t *schema = field(request, "network");

    (void)json_object_set_new(schema, "default",
                              json_string(tool_word(own, "network")));
    return schema;
}

static json_t *memory_schema(const struct tool_texts *own)
{
    return json_pack("{s:s, s:o}", "type", "string", "description",
                     json_sprintf("Memory limit, like \"512m\" or \"2g\"; %s if not "
                                  "given.",
                                  tool_word(own, "memory")));
}

json_t *tool_files_schema(void)
{
    json_t *file = object_of(json_pack("{s:o, s:o}", "path",
                                       text_of("Relative to the working directory."),
                                       "content", text_of("The file's text.")),
                             "path content");

    return json_pack("{s:s, s:o, s:s}", "type", "array", "items", file, "description",
                     "Files to put into the working directory first.");
}

static json_t *sandbox_schema(bool optional)
{
    return text_of(optional
                       ? "A sandbox from create_sandbox, to keep files and variables "
                         "between calls. Without it the run gets a fresh, empty place "
                         "of its own, which is destroyed afterwards."
                       : "A sandbox from create_sandbox.");
}

static json_t *run_properties(const struct tool_texts *own, const json_t *request)
{
    json_t *p = json_object();

    (void)json_object_set_new(p, "sandbox_id", sandbox_schema(true));
    (void)json_object_set_new(p, "stdin", field(request, "stdin"));
    (void)json_object_set_new(p, "timeout", timeout_schema(own));
    (void)json_object_set_new(p, "files", tool_files_schema());
    (void)json_object_set_new(
        p, "outputs",
        json_pack("{s:s, s:{s:s}, s:i, s:s}", "type", "array", "items", "type",
                  "string", "maxItems", 64, "description",
                  "Files that the run makes and that should come back, such as "
                  "\"plot.png\"; images are shown. Not needed in a sandbox, where "
                  "files stay."));
    (void)json_object_set_new(p, "env", field(request, "env"));
    (void)json_object_set_new(p, "memory", memory_schema(own));
    (void)json_object_set_new(p, "network", network_schema(own, request));
    return p;
}

static json_t *run_code_input(const struct tool_texts *own, const json_t *request)
{
    json_t *p = json_object();
    json_t *rest = run_properties(own, request);

    (void)json_object_set_new(
        p, "language",
        text_of("python, node, bash, ruby, …; list_languages tells which."));
    (void)json_object_set_new(p, "code", text_of("The whole program's text."));
    (void)json_object_update(p, rest);
    (void)json_object_set_new(p, "args", field(request, "args"));
    json_decref(rest);
    return object_of(p, "language code");
}

static json_t *run_command_input(const struct tool_texts *own, const json_t *request)
{
    json_t *p = json_object();
    json_t *rest = run_properties(own, request);

    (void)json_object_set_new(p, "command", text_of("A line for the shell."));
    (void)json_object_update(p, rest);
    (void)json_object_set_new(p, "cwd", field(request, "cwd"));
    json_decref(rest);
    return object_of(p, "command");
}

static json_t *read_file_input(const struct tool_texts *own, const json_t *request)
{
    (void)own;
    (void)request;
    return object_of(
        json_pack("{s:o, s:o, s:o, s:o, s:o}", "sandbox_id", sandbox_schema(false),
                  "path", text_of("Relative to the sandbox's working directory."),
                  "uri",
                  text_of("Instead of sandbox_id and path: a vial://runs/… address "
                          "that an earlier answer named."),
                  "offset", whole_number("First byte to read; usually 0."), "length",
                  json_pack("{s:s, s:i, s:i, s:s}", "type", "integer", "minimum", 1,
                            "maximum", 1 << 20, "description",
                            "How many bytes at most; usually 65536.")),
        "");
}

static json_t *write_file_input(const struct tool_texts *own, const json_t *request)
{
    (void)own;
    (void)request;
    return object_of(
        json_pack("{s:o, s:o, s:o, s:o}", "sandbox_id", sandbox_schema(false), "path",
                  text_of("Relative to the sandbox's working directory; missing "
                          "directories are made."),
                  "content", text_of("The file's whole text."), "content_base64",
                  text_of("Instead of content, for what is not text.")),
        "sandbox_id path");
}

static json_t *list_files_input(const struct tool_texts *own, const json_t *request)
{
    (void)own;
    (void)request;
    return object_of(json_pack("{s:o, s:o, s:{s:s, s:s}}", "sandbox_id",
                               sandbox_schema(false), "path",
                               text_of("A directory; usually the working directory."),
                               "recursive", "type", "boolean", "description",
                               "Also what its directories hold."),
                     "sandbox_id");
}

static json_t *create_input(const struct tool_texts *own, const json_t *request)
{
    return object_of(json_pack("{s:o, s:o, s:o, s:o}", "memory", memory_schema(own),
                               "network", network_schema(own, request), "files",
                               tool_files_schema(), "env", field(request, "env")),
                     "");
}

static json_t *sandbox_input(const struct tool_texts *own, const json_t *request)
{
    (void)own;
    (void)request;
    return object_of(json_pack("{s:o}", "sandbox_id", sandbox_schema(false)),
                     "sandbox_id");
}

static json_t *no_input(const struct tool_texts *own, const json_t *request)
{
    (void)own;
    (void)request;
    return object_of(json_object(), "");
}

/* Output schemas. */

static json_t *typed(const char *type)
{
    return json_pack("{s:s}", "type", type);
}

static json_t *read_file_output(void)
{
    return object_of(json_pack("{s:o, s:o, s:o, s:o, s:o}", "path", typed("string"),
                               "offset", typed("integer"), "total_bytes",
                               typed("integer"), "content", typed("string"),
                               "content_base64", typed("string")),
                     "path offset total_bytes");
}

static json_t *write_file_output(void)
{
    return object_of(
        json_pack("{s:o, s:o}", "path", typed("string"), "bytes", typed("integer")),
        "path bytes");
}

static json_t *list_of(json_t *items)
{
    return json_pack("{s:s, s:o}", "type", "array", "items", items);
}

static json_t *list_files_output(void)
{
    json_t *entry =
        object_of(json_pack("{s:o, s:{s:s, s:[s, s, s, s]}, s:o}", "path",
                            typed("string"), "type", "type", "string", "enum", "file",
                            "directory", "link", "other", "size", typed("integer")),
                  "path type size");

    return object_of(
        json_pack("{s:o, s:o}", "entries", list_of(entry), "total", typed("integer")),
        "entries total");
}

static json_t *create_output(void)
{
    return object_of(json_pack("{s:o, s:o, s:o}", "sandbox_id", typed("string"),
                               "driver", typed("string"), "isolation", typed("string")),
                     "sandbox_id driver isolation");
}

static json_t *list_sandboxes_output(void)
{
    json_t *one =
        object_of(json_pack("{s:o, s:o, s:o}", "sandbox_id", typed("string"), "age_s",
                            typed("number"), "programs_run", typed("integer")),
                  "sandbox_id age_s programs_run");

    return object_of(json_pack("{s:o}", "sandboxes", list_of(one)), "sandboxes");
}

static json_t *delete_output(void)
{
    return object_of(json_pack("{s:o}", "deleted", typed("string")), "deleted");
}

static json_t *languages_output(void)
{
    return object_of(json_pack("{s:o}", "languages", list_of(typed("object"))),
                     "languages");
}

enum { READS = 1, REMOVES = 2, SAME = 4, RUNS = 8 };

/* In texts "{memory}" and so on are the settings in force: mcp/settings_text.h. */
static const struct row {
    const char *name, *title, *text;
    tool_call *call;
    json_t *(*input)(const struct tool_texts *own, const json_t *request);
    json_t *(*output)(void);
    unsigned flags;
} rows[] = {
    { "run_code", "Run code",
      "Runs a program in an isolated sandbox and returns what it prints. Use it to "
      "compute, to test code, to work with data. Without sandbox_id each call gets a "
      "fresh, empty place that is destroyed afterwards: nothing carries over, and "
      "nothing can be broken. With sandbox_id (from create_sandbox) files stay, and "
      "python and node keep their variables, imports and functions between calls, like "
      "the cells of a notebook; there, the last expression's value is returned, and "
      "matplotlib figures come back as images.\n"
      "Limits: {timeout} of time unless timeout says otherwise (at most "
      "{max_timeout}), {memory} of memory, {cpus} CPU cores, {pids} processes, {disk} "
      "of files; network: {network}; {output} kept of each output. A long output is shown by its beginning and end, and the "
      "answer says how to read the rest. On a time-out everything is ended: ask for "
      "more time, or do less at once.",
      tool_run_code, run_code_input, tool_run_output, RUNS },
    { "run_command", "Run a shell command",
      "Runs a shell line (bash where there is one) in an isolated sandbox and returns "
      "what it prints. Without sandbox_id it gets a fresh, empty place of its own; with "
      "sandbox_id it works on that sandbox's files, and what it changes stays.\n"
      "Limits: {timeout} of time unless timeout says otherwise (at most "
      "{max_timeout}), {memory} of memory, {cpus} CPU cores, {pids} processes, {disk} "
      "of files; network: {network}; {output} kept of each output. Programs left in the background are ended with the "
      "command.",
      tool_run_command, run_command_input, tool_run_output, RUNS },
    { "read_file", "Read a file",
      "Reads a file of a sandbox, or more of an output that an earlier answer had to "
      "cut (by its uri). Text comes as text, images as images. Long files come in "
      "pieces: the answer says at which offset to go on.",
      tool_read_file, read_file_input, read_file_output, READS },
    { "write_file", "Write a file",
      "Writes a file into a sandbox, replacing one that is there.", tool_write_file,
      write_file_input, write_file_output, SAME },
    { "list_files", "List files", "Lists a directory of a sandbox, with sizes.",
      tool_list_files, list_files_input, list_files_output, READS },
    { "create_sandbox", "Create a sandbox",
      "Creates a sandbox that lasts, and returns its sandbox_id. Use one when several "
      "calls belong together: files and, for python and node, variables stay. It ends "
      "after {idle} without use, or by delete_sandbox, and {lease} after it was made "
      "at the latest.",
      tool_create_sandbox, create_input, create_output, 0 },
    { "list_sandboxes", "List sandboxes", "Lists the sandboxes that are open.",
      tool_list_sandboxes, no_input, list_sandboxes_output, READS },
    { "delete_sandbox", "Delete a sandbox",
      "Ends a sandbox: its programs are killed and its files are gone.",
      tool_delete_sandbox, sandbox_input, delete_output, REMOVES | SAME },
    { "list_languages", "List languages",
      "Lists the languages that run_code can use here, with their versions.",
      tool_list_languages, no_input, languages_output, READS },
};

#define ROWS (sizeof rows / sizeof *rows)

static json_t *annotations(const struct row *row, const struct tool_texts *own)
{
    bool open = strcmp(tool_word(own, "network"), "none") != 0 && (row->flags & RUNS);

    return json_pack("{s:b, s:b, s:b, s:b}", "readOnlyHint", row->flags & READS ? 1 : 0,
                     "destructiveHint", row->flags & REMOVES ? 1 : 0, "idempotentHint",
                     row->flags & (READS | SAME) ? 1 : 0, "openWorldHint", (int)open);
}

static int read_settings(struct vial_engine *engine, struct tool_texts *own,
                         struct vial_error *err)
{
    const struct settings *s = inside_settings(engine);

    own->words = mcp_words(s);
    if (!own->words)
        return fail_memory(err);
    own->timeout_ms = request_amount(&s->defaults, FIELD_ID_timeout);
    own->max_timeout_ms = policy_cap(&s->policy, FIELD_ID_timeout);
    (void)snprintf(own->max_timeout, sizeof own->max_timeout, "%lldms",
                   (long long)own->max_timeout_ms);
    return 0;
}

const char *tool_word(const struct tool_texts *own, const char *name)
{
    const char *text = json_string_value(json_object_get(own->words, name));

    return text ? text : "";
}

static void tool_free(void *data)
{
    struct tool_texts *own = data;

    json_decref(own->words);
    strv_done(&own->texts);
    free(own);
}

static void add_text(struct tool_texts *own, const struct row *row)
{
    auto_str struct str text = { 0 };

    mcp_expand(&text, row->text, own->words);
    strv_push(&own->texts, str_ok(&text) ? text.data : "");
}

static bool fill(struct mcp_tool *t, const struct row *row, struct tool_texts *own,
                 const json_t *request)
{
    *t = (struct mcp_tool){ .name = row->name,
                            .title = row->title,
                            .input = row->input(own, request),
                            .output = row->output(),
                            .annotations = annotations(row, own),
                            .call = row->call,
                            .data = own,
                            .runs = row->flags & RUNS };
    t->judged = mcp_without_maximum(t->input, "timeout");
    add_text(own, row);
    return t->input && t->judged && t->output && t->annotations;
}

int mcp_own_tools(struct vial_engine *engine, struct mcp_tools *out,
                  struct vial_error *err)
{
    auto_json json_t *request = schema_request();
    struct tool_texts *own = calloc(1, sizeof *own);
    struct mcp_tools tools = { .items = calloc(ROWS, sizeof(struct mcp_tool)),
                               .data = own,
                               .data_free = tool_free };
    bool good = own && tools.items && request;

    if (good && read_settings(engine, own, err) < 0) {
        mcp_tools_done(&tools);
        return -1;
    }
    for (size_t i = 0; good && i < ROWS; i++) {
        good = fill(&tools.items[i], &rows[i], own, request);
        tools.count = i + 1;
    }
    if (!good || !strv_ok(&own->texts)) {
        if (!own)
            tools.data_free = NULL;
        mcp_tools_done(&tools);
        return fail_memory(err);
    }
    for (size_t i = 0; i < ROWS; i++)
        tools.items[i].description = own->texts.items[i];
    *out = tools;
    return 0;
}
