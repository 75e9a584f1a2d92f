/* SPDX-License-Identifier: Apache-2.0 */

/* The OpenAPI document, made from the table of routes and the schemas. */

#include <ctype.h>
#include <string.h>

#include "base/auto.h"
#include "base/str.h"
#include "serve/route.h"
#include "settings/schema.h"

static json_t *content(const char *type, json_t *schema)
{
    return json_pack("{s:{s:o}}", type, "schema", schema);
}

static json_t *ref(const char *name)
{
    auto_str struct str to = { 0 };

    str_printf(&to, "#/components/schemas/%s", name);
    return json_pack("{s:s}", "$ref", str_ok(&to) ? to.data : "");
}

static json_t *content_of(const char *kind)
{
    if (strcmp(kind, "request") == 0 || strcmp(kind, "result") == 0)
        return content("application/json", ref(kind));
    if (strcmp(kind, "stream") == 0)
        return json_pack("{s:{}, s:{}}", "application/x-ndjson", "text/event-stream");
    if (strcmp(kind, "bytes") == 0)
        return content("application/octet-stream",
                       json_pack("{s:s, s:s}", "type", "string", "format", "binary"));
    if (strcmp(kind, "text") == 0)
        return content("text/plain", json_pack("{s:s}", "type", "string"));
    return content("application/json", json_object());
}

static json_t *parameter(const char *name, size_t len, const char *in)
{
    return json_pack("{s:s%, s:s, s:b, s:{s:s}}", "name", name, len, "in", in,
                     "required", strcmp(in, "path") == 0, "schema", "type", "string");
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

static json_t *responses(const struct route *r)
{
    bool empty = r->gives[0] == '\0';
    json_t *good = empty
                       ? json_pack("{s:s}", "description", "Done.")
                       : json_pack("{s:s, s:o}", "description", "As the summary says.",
                                   "content", content_of(r->gives));
    json_t *bad = json_pack("{s:s, s:o}", "description", "An error with its remedy.",
                            "content", content("application/json", ref("error")));

    return json_pack("{s:o, s:o}", empty ? "204" : "200", good, "default", bad);
}

static json_t *operation(const struct route *r, json_t *parameters)
{
    json_t *json =
        json_pack("{s:s, s:s, s:o, s:o}", "operationId", r->name, "summary", r->summary,
                  "parameters", parameters, "responses", responses(r));

    if (r->takes[0])
        (void)json_object_set_new(json, "requestBody",
                                  json_pack("{s:o}", "content", content_of(r->takes)));
    if (r->scope == SCOPE_NONE)
        (void)json_object_set_new(json, "security", json_array());
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

static json_t *error_schema(void)
{
    return json_pack("{s:s, s:{s:{s:s, s:{s:{s:s}, s:{s:s}, s:{s:s}, s:{s:s}}}}}",
                     "type", "object", "properties", "error", "type", "object",
                     "properties", "code", "type", "string", "message", "type",
                     "string", "cause", "type", "string", "remedy", "type", "string");
}

void openapi_get(struct call *c)
{
    json_t *paths = json_object();

    for (const struct route *r = routes; r->path; r++)
        add_route(paths, r);
    call_json(c, 200,
              json_pack("{s:s, s:{s:s, s:s}, s:o, s:{s:{s:o, s:o, s:o}, "
                        "s:{s:{s:s, s:s}}}, s:[{s:[]}]}",
                        "openapi", "3.1.0", "info", "title", "vial", "version",
                        vial_version(), "paths", paths, "components", "schemas",
                        "request", schema_request(), "result", schema_result(), "error",
                        error_schema(), "securitySchemes", "token", "type", "http",
                        "scheme", "bearer", "security", "token"));
}
