/* SPDX-License-Identifier: Apache-2.0 */

/* The OpenAPI document, made of what judges requests: the tables of routes, bodies and
 * fields; and of the table of answers. */

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "base/auto.h"
#include "base/str.h"
#include "serve/bodies.h"
#include "serve/route.h"

static const struct {
    const char *name, *type, *help;
} queries[] = {
    { "all", "boolean", "Those of all callers, too; for administrators." },
    { "batch", "string",
      "A name for runs that belong together: the page, and /v1/recent, sum them up." },
    { "caller", "string", "Whose run is meant; for administrators." },
    { "close", "boolean", "Nothing comes behind these bytes." },
    { "attributes", "boolean", "Changes of mode, owner and times are told, too." },
    { "deep", "boolean", "With all that lies below." },
    { "follow", "boolean", "Go on until the program has ended." },
    { "format", "string", "text: a unified diff instead of JSON." },
    { "length", "integer", "How many bytes; 0: all." },
    { "limit", "integer", "How many, at most; else 100." },
    { "mode", "string", "The file's mode in octal, like 0644." },
    { "names", "boolean", "Names alone, without diffs." },
    { "of", "string", "Which stream: stdout or stderr." },
    { "offset", "integer", "Where to begin, in bytes." },
    { "path", "string",
      "Below the working directory, or absolute; else the working directory itself." },
    { "raw", "boolean", "Output in base64 as well, also if it is text." },
    { "stderr", "integer", "Where to begin in stderr, in bytes." },
    { "stdout", "integer", "Where to begin in stdout, in bytes." },
    { "stream", "string",
      "ndjson or sse: events as they come; the header Accept does it, too." },
    { "wait", "boolean", "Answer when the program has ended, with its output." },
};

static json_t *events_schema(const char *list, size_t len)
{
    json_t *all = json_array();

    for (size_t at = 0; at < len;) {
        size_t part = strcspn(list + at, " |");

        (void)json_array_append_new(all, shape_ref(list + at, part));
        at += part + 1;
    }
    return json_pack("{s:o}", "oneOf", all);
}

/* One more form of a body: those of one media type stand beside each other. */
static void add_form(json_t *content, const char *type, json_t *schema)
{
    json_t *before = json_object_get(json_object_get(content, type), "schema");
    json_t *forms = json_object_get(before, "anyOf");

    if (forms)
        (void)json_array_append_new(forms, schema);
    else if (before)
        (void)json_object_set_new(
            content, type,
            json_pack("{s:{s:[O, o]}}", "schema", "anyOf", before, schema));
    else
        (void)json_object_set_new(content, type, json_pack("{s:o}", "schema", schema));
}

static void add_kind(json_t *content, const char *kind, size_t len)
{
    if (strncmp(kind, "events ", 7) == 0) {
        add_form(content, "application/x-ndjson", events_schema(kind + 7, len - 7));
        add_form(content, "text/event-stream", json_pack("{s:s}", "type", "string"));
    } else if (kind[0] == '[') {
        add_form(content, "application/json",
                 json_pack("{s:s, s:o}", "type", "array", "items",
                           strncmp(kind, "[string]", len) == 0
                               ? json_pack("{s:s}", "type", "string")
                               : shape_ref(kind + 1, len - 2)));
    } else if (strncmp(kind, "bytes", len) == 0) {
        add_form(content, "application/octet-stream",
                 json_pack("{s:s, s:s}", "type", "string", "format", "binary"));
    } else if (strncmp(kind, "text", len) == 0) {
        add_form(content, "text/plain", json_pack("{s:s}", "type", "string"));
    } else {
        add_form(content, "application/json", shape_ref(kind, len));
    }
}

static json_t *request_body(const char *takes)
{
    json_t *content = json_object();

    if (strncmp(takes, "request+", 8) == 0)
        add_form(content, "application/json", shape_request_with(takes + 8));
    else
        add_kind(content, takes, strlen(takes));
    return json_pack("{s:o}", "content", content);
}

/* "503 ready": the status, if there is one, and where the rest begins. */
static size_t read_status(const char *given, size_t len, char status[8])
{
    size_t word = strcspn(given, " |");

    (void)snprintf(status, 8, "200");
    if ((given[0] < '0' || given[0] > '9') && strncmp(given, "default ", 8) != 0)
        return 0;
    (void)snprintf(status, 8, "%.*s", (int)word, given);
    return word < len ? word + 1 : len;
}

static void add_answer(json_t *all, const char *status, const char *kind, size_t len)
{
    bool bad = status[0] == 'd';
    json_t *one = json_object_get(all, status);

    if (!one) {
        one = json_pack("{s:s}", "description",
                        bad   ? "An error with its remedy."
                        : len ? "As the summary says."
                              : "Done.");
        (void)json_object_set_new(all, status, one);
    }
    if (len && !json_object_get(one, "content"))
        (void)json_object_set_new(one, "content", json_object());
    if (len)
        add_kind(json_object_get(one, "content"), kind, len);
}

static json_t *responses(const struct route *r)
{
    json_t *all = json_object();
    const char *at = r->gives;

    if (!*at)
        add_answer(all, "204", "", 0);
    while (*at) {
        size_t len = strcspn(at, "|");
        char status[8];
        size_t skip = read_status(at, len, status);

        add_answer(all, status, at + skip, len - skip);
        at += len + (at[len] ? 1 : 0);
    }
    add_answer(all, "default", "refusal", strlen("refusal"));
    return all;
}

static json_t *parameter(const char *name, size_t len, const char *in)
{
    const char *type = "string", *help = NULL;

    for (size_t i = 0; in[0] == 'q' && i < sizeof(queries) / sizeof(queries[0]); i++)
        if (strncmp(queries[i].name, name, len) == 0 && !queries[i].name[len])
            type = queries[i].type, help = queries[i].help;
    return json_pack("{s:s%, s:s, s:b, s:s*, s:{s:s}}", "name", name, len, "in", in,
                     "required", strcmp(in, "path") == 0, "description", help, "schema",
                     "type", type);
}

static const char *path_name(size_t index, bool rest)
{
    static const char *const names[] = { "id", "name", "part" };

    return rest ? "path" : names[index < 3 ? index : 2];
}

/* "/v1/sessions/{}/files/{*}" with names in the braces, which are gathered, too. */
static void name_path(const char *path, struct str *out, json_t *parameters)
{
    size_t index = 0;

    while (*path) {
        const char *name;
        bool rest;

        if (*path != '{') {
            str_putc(out, *path++);
            continue;
        }
        rest = path[1] == '*';
        name = path_name(index++, rest);
        str_printf(out, "{%s}", name);
        (void)json_array_append_new(parameters, parameter(name, strlen(name), "path"));
        path += rest ? 3 : 2;
    }
}

static void add_query(const char *list, json_t *parameters)
{
    while (*list) {
        size_t len = strcspn(list, "|");

        (void)json_array_append_new(parameters, parameter(list, len, "query"));
        list += len + (list[len] ? 1 : 0);
    }
}

static json_t *operation(const struct route *r, json_t *parameters)
{
    json_t *json =
        json_pack("{s:s, s:s, s:o, s:o}", "operationId", r->name, "summary", r->summary,
                  "parameters", parameters, "responses", responses(r));

    if (r->takes[0])
        (void)json_object_set_new(json, "requestBody", request_body(r->takes));
    if (r->scope == SCOPE_NONE)
        (void)json_object_set_new(json, "security", json_array());
    else
        (void)json_object_set_new(json, "x-scope",
                                  json_string(auth_scope_name(r->scope)));
    return json;
}

static void add_route(json_t *paths, const struct route *r)
{
    json_t *parameters = json_array();
    auto_str struct str path = { 0 };
    char method[8] = "";
    json_t *item;

    name_path(r->path, &path, parameters);
    add_query(r->query, parameters);
    for (size_t i = 0; r->method[i] && i + 1 < sizeof(method); i++)
        method[i] = (char)(tolower)((unsigned char)r->method[i]);
    item = str_ok(&path) ? json_object_get(paths, path.data) : NULL;
    if (!item) {
        item = json_object();
        (void)json_object_set_new(paths, path.data, item);
    }
    (void)json_object_set_new(item, method, operation(r, parameters));
}

json_t *openapi_json(void)
{
    json_t *paths = json_object();

    for (const struct route *r = routes; r->path; r++)
        add_route(paths, r);
    return json_pack("{s:s, s:{s:s, s:s}, s:o, s:{s:o, s:{s:{s:s, s:s}}}, s:[{s:[]}]}",
                     "openapi", "3.1.0", "info", "title", "vial", "version",
                     vial_version(), "paths", paths, "components", "schemas",
                     shape_schemas(), "securitySchemes", "token", "type", "http",
                     "scheme", "bearer", "security", "token");
}

void openapi_get(struct call *c)
{
    call_json(c, 200, openapi_json());
}
