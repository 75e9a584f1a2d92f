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

/* What a tool takes, or what its answer has: a row for each member. */
enum part_type {
    TEXT,
    COUNT,  /* an integer; what is taken is not negative */
    LENGTH, /* of a piece of a file */
    NUMBER,
    FLAG,
    LIST,       /* of objects with the parts `inside` */
    ALL_OF,     /* the parts `inside` stand here */
    PATHS,      /* a list of texts */
    ENTRY_TYPE, /* of a directory's entry */
    FIELD,      /* a field of a request */
    TIMEOUT,
    MEMORY,
    NETWORK
};

struct part {
    const char *name; /* NULL ends the table */
    enum part_type type;
    bool needed;
    const char *text;          /* for the model; NULL: none, or the settings tell it */
    const struct part *inside; /* NULL: any objects */
};

#define SANDBOX "A sandbox from create_sandbox."
#define PATH    "Relative to the sandbox's working directory, or absolute."
#define FILES   "Files to put into the working directory first."

static const struct part file[] = {
    { "path", TEXT, true, "Relative to the working directory." },
    { "content", TEXT, true, "The file's text." },
    { 0 },
};

/* What run_code and run_command share. */
static const struct part run[] = {
    { "sandbox_id", TEXT, false,
      "A sandbox from create_sandbox, to keep files and variables between calls. "
      "Without it the run gets a fresh, empty place of its own, which is destroyed "
      "afterwards." },
    { "stdin", FIELD },
    { "timeout", TIMEOUT },
    { "files", LIST, false, FILES, file },
    { "outputs", PATHS, false,
      "Files that the run makes and that should come back, such as \"plot.png\"; "
      "images are shown. Not needed in a sandbox, where files stay." },
    { "env", FIELD },
    { "memory", MEMORY },
    { "network", NETWORK },
    { 0 },
};

static const struct part run_code[] = {
    { "language", TEXT, true,
      "python, node, bash, ruby, …; list_languages tells which." },
    { "code", TEXT, true, "The whole program's text." },
    { "", ALL_OF, false, NULL, run },
    { "args", FIELD },
    { 0 },
};

static const struct part run_command[] = {
    { "command", TEXT, true, "A line for the shell." },
    { "", ALL_OF, false, NULL, run },
    { "cwd", FIELD },
    { 0 },
};

static const struct part read_file[] = {
    { "sandbox_id", TEXT, false, SANDBOX },
    { "path", TEXT, false, PATH },
    { "uri", TEXT, false,
      "Instead of sandbox_id and path: a vial://runs/… address that an earlier answer "
      "named." },
    { "offset", COUNT, false, "First byte to read; usually 0." },
    { "length", LENGTH, false, "How many bytes at most; usually 65536." },
    { 0 },
};

static const struct part write_file[] = {
    { "sandbox_id", TEXT, true, SANDBOX },
    { "path", TEXT, true, PATH " Missing directories are made." },
    { "content", TEXT, false, "The file's whole text." },
    { "content_base64", TEXT, false, "Instead of content, for what is not text." },
    { 0 },
};

static const struct part list_files[] = {
    { "sandbox_id", TEXT, true, SANDBOX },
    { "path", TEXT, false, "A directory; without it the working directory. " PATH },
    { "recursive", FLAG, false, "Also what its directories hold." },
    { 0 },
};

static const struct part create_sandbox[] = {
    { "memory", MEMORY },
    { "network", NETWORK },
    { "files", LIST, false, FILES, file },
    { "env", FIELD },
    { 0 },
};

static const struct part one_sandbox[] = { { "sandbox_id", TEXT, true, SANDBOX },
                                           { 0 } };
static const struct part nothing[] = { { 0 } };

/* Answers. */

static const struct part written[] = {
    { "path", TEXT, true },
    { "bytes", COUNT, true },
    { 0 },
};

static const struct part entry[] = {
    { "path", TEXT, true },
    { "type", ENTRY_TYPE, true },
    { "size", COUNT, true },
    { 0 },
};

static const struct part listing[] = {
    { "entries", LIST, true, NULL, entry },
    { "total", COUNT, true },
    { 0 },
};

static const struct part created[] = {
    { "sandbox_id", TEXT, true },
    { "driver", TEXT, true },
    { "isolation", TEXT, true },
    { 0 },
};

static const struct part open_sandbox[] = {
    { "sandbox_id", TEXT, true },
    { "age_s", NUMBER, true },
    { "programs_run", COUNT, true },
    { 0 },
};

static const struct part sandboxes[] = {
    { "sandboxes", LIST, true, NULL, open_sandbox },
    { 0 },
};

static const struct part deleted[] = { { "deleted", TEXT, true }, { 0 } };
static const struct part languages[] = { { "languages", LIST, true }, { 0 } };

/* What schemas are made of besides. */
struct source {
    const struct tool_texts *own;
    const json_t *request; /* the schema of a request, as fields.def has it; NULL: it
                              is an answer's schema */
};

static json_t *object_of(const struct part *parts, const struct source *from);

/* The schema of a request's field. */
static json_t *field(const struct source *from, const char *name)
{
    const json_t *properties = json_object_get(from->request, "properties");

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

static json_t *network_schema(const struct source *from)
{
    json_t *schema = field(from, "network");

    (void)json_object_set_new(schema, "default",
                              json_string(tool_word(from->own, "network")));
    return schema;
}

static json_t *memory_schema(const struct tool_texts *own)
{
    return json_pack("{s:s, s:o}", "type", "string", "description",
                     json_sprintf("Memory limit, like \"512m\" or \"2g\"; %s if not "
                                  "given, at most %s.",
                                  tool_word(own, "memory"),
                                  tool_word(own, "max_memory")));
}

static json_t *typed(const char *type)
{
    return json_pack("{s:s}", "type", type);
}

static json_t *list_schema(const struct part *p, const struct source *from)
{
    return json_pack("{s:s, s:o}", "type", "array", "items",
                     p->inside ? object_of(p->inside, from) : typed("object"));
}

static json_t *by_type(const struct part *p, const struct source *from)
{
    switch (p->type) {
    case TEXT:
        return typed("string");
    case COUNT:
        return from->request ? json_pack("{s:s, s:i}", "type", "integer", "minimum", 0)
                             : typed("integer");
    case LENGTH:
        return json_pack("{s:s, s:i, s:i}", "type", "integer", "minimum", 1, "maximum",
                         1 << 20);
    case NUMBER:
        return typed("number");
    case FLAG:
        return typed("boolean");
    case LIST:
        return list_schema(p, from);
    case PATHS:
        return json_pack("{s:s, s:{s:s}, s:i}", "type", "array", "items", "type",
                         "string", "maxItems", 64);
    case ENTRY_TYPE:
        return json_pack("{s:s, s:[s, s, s, s]}", "type", "string", "enum", "file",
                         "directory", "link", "other");
    case FIELD:
        return field(from, p->name);
    case TIMEOUT:
        return timeout_schema(from->own);
    case MEMORY:
        return memory_schema(from->own);
    case NETWORK:
        return network_schema(from);
    case ALL_OF:
        break;
    }
    return NULL;
}

static json_t *part_schema(const struct part *p, const struct source *from)
{
    json_t *schema = by_type(p, from);

    if (schema && p->text)
        (void)json_object_set_new(schema, "description", json_string(p->text));
    return schema;
}

static void add_parts(json_t *properties, json_t *required, const struct part *p,
                      const struct source *from)
{
    for (; p->name; p++) {
        if (p->type == ALL_OF)
            add_parts(properties, required, p->inside, from);
        else
            (void)json_object_set_new(properties, p->name, part_schema(p, from));
        if (p->needed)
            (void)json_array_append_new(required, json_string(p->name));
    }
}

static json_t *object_of(const struct part *parts, const struct source *from)
{
    json_t *properties = json_object();
    json_t *required = json_array();

    add_parts(properties, required, parts, from);
    return json_pack("{s:s, s:o, s:o, s:b}", "type", "object", "properties", properties,
                     "required", required, "additionalProperties", 0);
}

json_t *tool_file_schema(void)
{
    return object_of(file, &(struct source){ .own = &(struct tool_texts){ 0 } });
}

enum { READS = 1, REMOVES = 2, SAME = 4, RUNS = 8 };

/* In texts "{memory}" and so on are the settings in force: mcp/settings_text.h. */
static const struct row {
    const char *name, *title, *text;
    tool_call *call;
    const struct part *input, *output; /* no output: the answer is a text */
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
      tool_run_code, run_code, NULL, RUNS },
    { "run_command", "Run a shell command",
      "Runs a shell line (bash where there is one) in an isolated sandbox and returns "
      "what it prints. Without sandbox_id it gets a fresh, empty place of its own; with "
      "sandbox_id it works on that sandbox's files, and what it changes stays.\n"
      "Limits: {timeout} of time unless timeout says otherwise (at most "
      "{max_timeout}), {memory} of memory, {cpus} CPU cores, {pids} processes, {disk} "
      "of files; network: {network}; {output} kept of each output. Programs left in the background are ended with the "
      "command.",
      tool_run_command, run_command, NULL, RUNS },
    { "read_file", "Read a file",
      "Reads a file of a sandbox, or more of an output that an earlier answer had to "
      "cut (by its uri). Text comes as text, images as images. Long files come in "
      "pieces: the answer says at which offset to go on.",
      tool_read_file, read_file, NULL, READS },
    { "write_file", "Write a file",
      "Writes a file into a sandbox, replacing one that is there.", tool_write_file,
      write_file, written, SAME },
    { "list_files", "List files", "Lists a directory of a sandbox, with sizes.",
      tool_list_files, list_files, listing, READS },
    { "create_sandbox", "Create a sandbox",
      "Creates a sandbox that lasts, and returns its sandbox_id. Use one when several "
      "calls belong together: files and, for python and node, variables stay. It ends "
      "after {idle} without use, or by delete_sandbox, and {lease} after it was made "
      "at the latest.",
      tool_create_sandbox, create_sandbox, created, 0 },
    { "list_sandboxes", "List sandboxes", "Lists the sandboxes that are open.",
      tool_list_sandboxes, nothing, sandboxes, READS },
    { "delete_sandbox", "Delete a sandbox",
      "Ends a sandbox: its programs are killed and its files are gone.",
      tool_delete_sandbox, one_sandbox, deleted, REMOVES | SAME },
    { "list_languages", "List languages",
      "Lists the languages that run_code can use here, with their versions.",
      tool_list_languages, nothing, languages, READS },
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

/* A network is offered where there can be one. */
static json_t *listed(const struct mcp_tool *tool, struct vial_engine *engine)
{
    json_t *copy;

    if (inside_gives_network(engine))
        return json_incref(tool->input);
    copy = json_deep_copy(tool->input);
    (void)json_object_del(json_object_get(copy, "properties"), "network");
    return copy;
}

static bool fill(struct mcp_tool *t, const struct row *row, struct tool_texts *own,
                 const json_t *request)
{
    const struct source taken = { own, request }, given = { own, NULL };

    *t = (struct mcp_tool){ .name = row->name,
                            .title = row->title,
                            .input = object_of(row->input, &taken),
                            .output =
                                row->output ? object_of(row->output, &given) : NULL,
                            .annotations = annotations(row, own),
                            .call = row->call,
                            .data = own,
                            .runs = row->flags & RUNS };
    t->judged = mcp_without_maximum(t->input, "timeout");
    if (json_object_get(json_object_get(t->input, "properties"), "network"))
        t->listed = listed;
    add_text(own, row);
    return t->input && t->judged && (t->output || !row->output) && t->annotations;
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
