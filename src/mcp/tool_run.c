/* SPDX-License-Identifier: Apache-2.0 */

/* run_code and run_command: in a vessel of their own, or in a sandbox. */

#include <stdlib.h>
#include <string.h>

#include "api/inside.h"
#include "base/auto.h"
#include "base/fail.h"
#include "base/json.h"
#include "base/sys.h"
#include "mcp/remedies.h"
#include "mcp/tools.h"
#include "model/language.h"
#include "model/request.h"
#include "model/result.h"

#define LINKS_MAX       20u
#define ONE_SHOT_KEYS   "stdin timeout files outputs env memory network args"
#define IN_SANDBOX_KEYS "stdin files env args"

/* bash where there is one, since that is what models write. */
#define SHELL_LINE                                                                     \
    "if command -v bash >/dev/null 2>&1; then exec bash -c \"$1\"; fi; exec sh -c \"$1\""

/* LINE as the program of a request. */
static json_t *shell_line(const char *line)
{
    return json_pack("{s:[s, s, s, s, s]}", "command", "/bin/sh", "-c", SHELL_LINE,
                     "sh", line);
}

/* The argument `timeout` in ms, or the settings' one. */
static int64_t timeout_of(const struct mcp_call *call, const struct tool_texts *own)
{
    const json_t *timeout = json_object_get(call->arguments, "timeout");

    return timeout ? (int64_t)(json_number_value(timeout) * 1000) : own->timeout_ms;
}

/* Copies the arguments that KEYS name. */
static int copy_keys(const json_t *from, const char *keys, json_t *to)
{
    while (*keys) {
        size_t len = strcspn(keys, " ");
        json_t *value = json_object_getn(from, keys, len);

        if (value && json_object_setn(to, keys, len, value) < 0)
            return -1;
        keys += len + (keys[len] == ' ');
    }
    return 0;
}

int tool_request(const struct mcp_call *call, const char *keys, json_t *more,
                 struct vial_request **out, struct vial_error *err)
{
    auto_json json_t *request = more ? more : json_object();
    auto_ask struct vial_request *req = NULL;

    if (!request || copy_keys(call->arguments, keys, request) < 0)
        return fail_memory(err);
    if (vial_request_new(&req, err) < 0 ||
        request_decode(req, request, 0, "request", err) < 0)
        return -1;
    *out = ptr_take(&req);
    return 0;
}

int tool_pass_on(void *context, int stream, const void *data, size_t len)
{
    struct mcp_call *call = context;

    (void)stream;
    call->progress(call, data, len);
    return 0;
}

static void run_once(struct mcp_call *call, const struct tool_texts *own,
                     json_t *program, const char *keys, struct mcp_answer *answer)
{
    const char *memory = tool_text(call, "memory");
    struct tool_extra extra = { .limit_ms = timeout_of(call, own),
                                .memory = memory ? memory : tool_word(own, "memory") };
    struct vial_watch watch = { .stdin_fd = -1,
                                .output = tool_pass_on,
                                .context = call };
    auto_ask struct vial_request *req = NULL;
    auto_result struct vial_result *result = NULL;
    const char *language = tool_text(call, "language");
    struct vial_error err = { 0 };
    void *run;
    int rc;

    if (tool_request(call, keys, program, &req, &err) < 0) {
        tool_fail(answer, &err);
        return;
    }
    run = mcp_run_begin(call, language ? language : "/bin/sh", &watch);
    rc = vial_run(call->engine, req, &watch, &result, &err);
    mcp_run_end(call, run, result);
    if (rc < 0) {
        tool_fail(answer, &err);
        return;
    }
    tool_answer(call, own, result, &extra, answer);
}

/* Both lists are sorted. */
static bool is_in(const struct vial_entries *list, size_t *at,
                  const struct vial_entry *e)
{
    while (*at < list->count && strcmp(list->items[*at].path, e->path) < 0)
        (*at)++;
    return *at < list->count && strcmp(list->items[*at].path, e->path) == 0 &&
           list->items[*at].size == e->size && list->items[*at].mtime_ns == e->mtime_ns;
}

/* The name up to its first dot. */
static size_t stem(const char *name)
{
    return strcspn(name, ".");
}

/* Whether it is of interest to nobody: a cache, or what vial itself wrote to run code
 * of LANGUAGE (or NULL): its text, and what the compiler made of that. */
static bool is_by_the_way(const char *path, const struct language *language)
{
    for (const char *at = path; at; at = strchr(at, '/')) {
        at += *at == '/';
        if (*at == '.')
            return true;
    }
    if (!language || stem(path) != stem(language->file) ||
        strncmp(path, language->file, stem(path)) != 0)
        return false;
    return strcmp(path, language->file) == 0 || language->compile_argv.count > 0;
}

/* The files that are new or other than BEFORE, as links. */
static json_t *links_to(const struct mcp_call *call, struct registered *held,
                        const struct vial_entries *before)
{
    const struct settings *s = inside_settings(call->engine);
    const char *name = tool_text(call, "language");
    const struct language *language = NULL;
    struct vial_entries now = { 0 };
    json_t *links = json_array();
    size_t at = 0;

    if (vial_session_list(held->session, "", true, &now, NULL) < 0)
        return links;
    if (name && language_find(&s->languages, name, &language, NULL) < 0)
        language = NULL;
    for (size_t i = 0; i < now.count && json_array_size(links) < LINKS_MAX; i++) {
        const struct vial_entry *e = &now.items[i];

        if (e->type != 'f' || is_in(before, &at, e) || is_by_the_way(e->path, language))
            continue;
        (void)json_array_append_new(
            links,
            json_pack("{s:s, s:o, s:s, s:s, s:I}", "type", "resource_link", "uri",
                      json_sprintf("sandbox://%s/%s", held->id, e->path), "name",
                      e->path, "mimeType", e->media, "size", (json_int_t)e->size));
    }
    vial_entries_free(&now);
    return links;
}

static bool has_context(const char *language)
{
    static const char *const names[] = { "python", "py",         "python3", "node",
                                         "js",     "javascript", "nodejs" };

    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(names[i], language) == 0)
            return true;
    return false;
}

/* The same context whatever it is called. */
static const char *context_language(const char *language)
{
    return language[0] == 'p' ? "python" : "node";
}

static int put_files(struct mcp_call *call, struct registered *held,
                     struct vial_error *err)
{
    const json_t *files = json_object_get(call->arguments, "files");

    for (size_t i = 0; i < json_array_size(files); i++) {
        const json_t *f = json_array_get(files, i);
        const char *path = json_string_value(json_object_get(f, "path"));
        const json_t *content = json_object_get(f, "content");

        if (!path || !json_is_string(content))
            return fail(err, VIAL_E_VALUE, "files[%zu] has no path or no content", i);
        if (vial_session_put(held->session, path, json_string_value(content),
                             json_string_length(content), 0, err) < 0)
            return -1;
    }
    return 0;
}

/* A program of its own in the sandbox: of another language than those that have an
 * interpreter waiting there, or a command. PROGRAM is taken. */
static int run_program_in(struct mcp_call *call, struct registered *held,
                          json_t *program, const char *keys, struct vial_result **out,
                          struct vial_error *err)
{
    const struct vial_watch watch = { .cancel_fd = call->cancel_fd,
                                      .stdin_fd = -1,
                                      .output = tool_pass_on,
                                      .context = call,
                                      .caller = call->owner[0] ? call->owner : NULL,
                                      .correlation = call->correlation };
    auto_ask struct vial_request *req = NULL;

    if (tool_request(call, keys, program, &req, err) < 0)
        return -1;
    return vial_session_run(held->session, req, &watch, out, err);
}

static int run_in(struct mcp_call *call, struct registered *held, bool code,
                  int64_t timeout_ms, struct tool_ran *out, struct vial_error *err)
{
    const char *language = tool_text(call, "language");
    json_t *program;

    if (code && has_context(language)) {
        if (put_files(call, held, err) < 0)
            return -1;
        return tool_cell(call, held, context_language(language), timeout_ms, out, err);
    }
    program = code ? json_object() : shell_line(tool_text(call, "command"));
    (void)json_object_set_new(program, "timeout",
                              json_sprintf("%lldms", (long long)timeout_ms));
    return run_program_in(call, held, program,
                          code ? "language code " IN_SANDBOX_KEYS
                               : "cwd " IN_SANDBOX_KEYS,
                          &out->result, err);
}

/* What was fixed when the sandbox was made, or has no meaning for a cell, is refused
 * rather than ignored. */
static int check_sandboxed(const struct mcp_call *call, bool code, int64_t timeout_ms,
                           struct vial_error *err)
{
    const struct policy *policy = &inside_settings(call->engine)->policy;
    static const char *const fixed[] = { "memory", "network" };
    static const char *const no_cell[] = { "stdin", "env", "args" };
    const char *language = tool_text(call, "language");

    if (timeout_ms > policy_cap(policy, FIELD_ID_timeout))
        return policy_refuse(policy, POLICY_ID_max_timeout, "timeout", timeout_ms, err);
    for (size_t i = 0; i < 2; i++)
        if (json_object_get(call->arguments, fixed[i])) {
            (void)fail(err, VIAL_E_VALUE, "'%s' is the sandbox's, and fixed", fixed[i]);
            return fail_remedy(err, "give it to create_sandbox");
        }
    for (size_t i = 0; code && has_context(language) && i < 3; i++)
        if (json_object_get(call->arguments, no_cell[i])) {
            (void)fail(err, VIAL_E_VALUE, "'%s' has no meaning for %s in a sandbox",
                       no_cell[i], language);
            return fail_remedy(err, "set it in the code, or run without sandbox_id");
        }
    return 0;
}

static void run_in_sandbox(struct mcp_call *call, const struct tool_texts *own,
                           bool code, struct mcp_answer *answer)
{
    struct registered *held = tool_take(call, answer);
    struct tool_extra extra = { .limit_ms = timeout_of(call, own) };
    struct vial_entries before = { 0 };
    struct tool_ran ran = { 0 };
    struct vial_error err = { 0 };
    bool listed;
    int rc;

    if (!held)
        return;
    rc = check_sandboxed(call, code, extra.limit_ms, &err);
    listed = rc == 0 && vial_session_list(held->session, "", true, &before, NULL) == 0;
    if (rc == 0)
        rc = run_in(call, held, code, extra.limit_ms, &ran, &err);
    if (rc < 0) {
        if (fail_is(&err, VIAL_E_UNSUPPORTED))
            (void)fail_remedy(&err, TOOL_ALONE);
        tool_fail(answer, &err);
    } else {
        if (listed)
            extra.links = links_to(call, held, &before);
        if (json_array_size(extra.links) > 0)
            mcp_call_changed(call, "resources");
        extra.sandbox_id = held->id;
        extra.value = json_object_get(ran.cell, "value");
        extra.displays = json_object_get(ran.cell, "displays");
        tool_answer(call, own, ran.result, &extra, answer);
    }
    vial_result_free(ran.result);
    json_decref(ran.cell);
    vial_entries_free(&before);
    registry_release(call->registry, held);
}

void tool_run_code(const struct mcp_tool *tool, struct mcp_call *call,
                   struct mcp_answer *answer)
{
    if (tool_text(call, "sandbox_id"))
        run_in_sandbox(call, tool->data, true, answer);
    else
        run_once(call, tool->data, NULL, "language code " ONE_SHOT_KEYS, answer);
}

void tool_run_command(const struct mcp_tool *tool, struct mcp_call *call,
                      struct mcp_answer *answer)
{
    if (tool_text(call, "sandbox_id"))
        run_in_sandbox(call, tool->data, false, answer);
    else
        run_once(call, tool->data, shell_line(tool_text(call, "command")),
                 "cwd " ONE_SHOT_KEYS, answer);
}
