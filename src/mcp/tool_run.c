/* SPDX-License-Identifier: Apache-2.0 */

/* run_code and run_command: in a vessel of their own, or in a sandbox. */

#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/fail.h"
#include "base/json.h"
#include "base/sys.h"
#include "mcp/tools.h"
#include "model/result.h"

#define LINKS_MAX     20u
#define ONE_SHOT_KEYS "stdin timeout files outputs env memory network args"

/* bash where there is one, since that is what models write. */
#define SHELL_LINE                                                                     \
    "if command -v bash >/dev/null 2>&1; then exec bash -c \"$1\"; fi; exec sh -c \"$1\""

static const char *argument(const struct mcp_call *call, const char *key)
{
    return json_string_value(json_object_get(call->arguments, key));
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
    auto_free char *text = NULL;

    if (!request || copy_keys(call->arguments, keys, request) < 0)
        return fail_memory(err);
    text = json_dumps(request, JSON_COMPACT);
    if (!text)
        return fail_memory(err);
    return vial_request_parse(text, strlen(text), out, err);
}

static int pass_on(void *context, int stream, const void *data, size_t len)
{
    struct mcp_call *call = context;

    (void)stream;
    call->progress(call, data, len);
    return 0;
}

static void run_once(struct mcp_call *call, const struct tool_texts *own,
                     json_t *program, const char *keys, struct mcp_answer *answer)
{
    struct tool_extra extra = { .limit_ms = timeout_of(call, own) };
    struct vial_watch watch = { .stdin_fd = -1, .output = pass_on, .context = call };
    auto_ask struct vial_request *req = NULL;
    auto_result struct vial_result *result = NULL;
    const char *language = argument(call, "language");
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

/* The files that are new or other than BEFORE, as links. */
static json_t *links_to(struct registered *held, const struct vial_entries *before)
{
    struct vial_entries now = { 0 };
    json_t *links = json_array();
    size_t at = 0;

    if (vial_session_list(held->session, "", true, &now, NULL) < 0)
        return links;
    for (size_t i = 0; i < now.count && json_array_size(links) < LINKS_MAX; i++) {
        const struct vial_entry *e = &now.items[i];

        if (e->type != 'f' || is_in(before, &at, e))
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

/* A program of another language than those with contexts: as the plan of a run of
 * its own would start it, but in the sandbox, whose working directory it starts in. */
static int add_argv(const json_t *list, const char *code, struct strv *argv)
{
    for (size_t i = 0; i < json_array_size(list); i++) {
        const char *word = json_string_value(json_array_get(list, i));
        const char *dir = word ? strstr(word, "{dir}") : NULL;

        if (dir)
            strv_printf(argv, "%.*s.%s", (int)(dir - word), word, dir + 5);
        else
            strv_push(argv, word && strcmp(word, "{code}") == 0 ? code : word);
    }
    return strv_ok(argv) ? 0 : -1;
}

/* What names the directory of a run is another one here. */
static int add_env(const json_t *list, struct strv *env)
{
    for (size_t i = 0; i < json_array_size(list); i++) {
        const char *word = json_string_value(json_array_get(list, i));

        if (word && !strstr(word, "{dir}"))
            strv_push(env, word);
    }
    return strv_ok(env) ? 0 : -1;
}

struct planned {
    struct strv compile, run, env;
    char *file;
};

static void planned_done(struct planned *p)
{
    strv_done(&p->compile);
    strv_done(&p->run);
    strv_done(&p->env);
    free(p->file);
}

/* Its filter is loaded by the vessel, which was made without it. */
static int refuse_profile(const json_t *plan, struct vial_error *err)
{
    const char *language = json_string_value(json_object_get(plan, "language"));

    (void)fail(err, VIAL_E_UNSUPPORTED,
               "language '%s' has a seccomp profile of its own, which a sandbox was "
               "made without",
               language ? language : "?");
    return fail_remedy(err,
                       "leave 'sandbox_id' out: the program then has a vessel of its "
                       "own");
}

static int read_plan(const json_t *plan, const char *code, struct planned *out)
{
    const json_t *files = json_object_get(plan, "files");
    const char *path =
        json_string_value(json_object_get(json_array_get(files, 0), "path"));

    if (path && !(out->file = strdup(path)))
        return -1;
    if (add_argv(json_object_get(plan, "compile"), code, &out->compile) < 0 ||
        add_env(json_object_get(plan, "env"), &out->env) < 0)
        return -1;
    return add_argv(json_object_get(plan, "argv"), code, &out->run);
}

static int plan_code(struct mcp_call *call, struct planned *out, struct vial_error *err)
{
    auto_ask struct vial_request *req = NULL;
    auto_json json_t *plan = NULL;
    auto_free char *text = NULL;

    if (tool_request(call, "language code args", NULL, &req, err) < 0 ||
        vial_plan(call->engine, req, &text, err) < 0)
        return -1;
    plan = json_loads(text, 0, NULL);
    if (json_object_get(plan, "seccomp_file"))
        return refuse_profile(plan, err);
    return read_plan(plan, argument(call, "code"), out) < 0 ? fail_memory(err) : 0;
}

static int run_planned(struct mcp_call *call, struct registered *held,
                       const struct planned *p, int64_t timeout_ms,
                       struct vial_result **out, struct vial_error *err)
{
    const char *code = argument(call, "code");
    struct tool_program program = { .env = (const char *const *)p->env.items,
                                    .stdin_text = argument(call, "stdin"),
                                    .timeout_ms = timeout_ms };

    if (p->file &&
        vial_session_put(held->session, p->file, code, strlen(code), 0, err) < 0)
        return -1;
    if (p->compile.count > 0) {
        program.argv = (const char *const *)p->compile.items;
        if (tool_exec(call, held, &program, out, err) < 0)
            return -1;
        (*out)->stage = "compile";
        if ((*out)->verdict != VIAL_OK)
            return 0;
        vial_result_free(ptr_take(out));
    }
    program.argv = (const char *const *)p->run.items;
    return tool_exec(call, held, &program, out, err);
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

/* The argument `env` as "NAME=VALUE". */
static int add_given_env(const struct mcp_call *call, struct strv *env,
                         struct vial_error *err)
{
    json_t *given = json_object_get(call->arguments, "env");
    const char *name;
    json_t *value;

    json_object_foreach(given, name, value)
    {
        strv_printf(env, "%s=%s", name, json_string_value(value));
    }
    return env->failed ? fail_memory(err) : 0;
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

static int run_code_in(struct mcp_call *call, struct registered *held,
                       int64_t timeout_ms, struct tool_ran *out, struct vial_error *err)
{
    const char *language = argument(call, "language");
    struct planned planned = { 0 };
    int rc;

    if (put_files(call, held, err) < 0)
        return -1;
    if (has_context(language))
        return tool_cell(call, held, context_language(language), timeout_ms, out, err);
    rc = plan_code(call, &planned, err);
    if (rc == 0)
        rc = add_given_env(call, &planned.env, err);
    if (rc == 0)
        rc = run_planned(call, held, &planned, timeout_ms, &out->result, err);
    planned_done(&planned);
    return rc;
}

static int run_command_in(struct mcp_call *call, struct registered *held,
                          int64_t timeout_ms, struct vial_result **out,
                          struct vial_error *err)
{
    const char *const argv[] = {
        "/bin/sh", "-c", SHELL_LINE, "sh", argument(call, "command"), NULL
    };
    auto_strv struct strv env = { 0 };
    struct tool_program program = { .argv = argv,
                                    .cwd = argument(call, "cwd"),
                                    .stdin_text = argument(call, "stdin"),
                                    .timeout_ms = timeout_ms };

    if (put_files(call, held, err) < 0 || add_given_env(call, &env, err) < 0)
        return -1;
    program.env = (const char *const *)env.items;
    return tool_exec(call, held, &program, out, err);
}

/* What was fixed when the sandbox was made, or has no meaning for a cell, is refused
 * rather than ignored. */
static int check_sandboxed(const struct mcp_call *call, bool code,
                           struct vial_error *err)
{
    static const char *const fixed[] = { "memory", "network" };
    static const char *const no_cell[] = { "stdin", "env", "args" };
    const char *language = argument(call, "language");

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
    rc = check_sandboxed(call, code, &err);
    listed = rc == 0 && vial_session_list(held->session, "", true, &before, NULL) == 0;
    if (rc == 0)
        rc = code ? run_code_in(call, held, extra.limit_ms, &ran, &err)
                  : run_command_in(call, held, extra.limit_ms, &ran.result, &err);
    if (rc < 0) {
        tool_fail(answer, &err);
    } else {
        if (listed)
            extra.links = links_to(held, &before);
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
    if (argument(call, "sandbox_id"))
        run_in_sandbox(call, tool->data, true, answer);
    else
        run_once(call, tool->data, NULL, "language code " ONE_SHOT_KEYS, answer);
}

void tool_run_command(const struct mcp_tool *tool, struct mcp_call *call,
                      struct mcp_answer *answer)
{
    json_t *program;

    if (argument(call, "sandbox_id")) {
        run_in_sandbox(call, tool->data, false, answer);
        return;
    }
    program = json_pack("{s:[s, s, s, s, s]}", "command", "/bin/sh", "-c", SHELL_LINE,
                        "sh", argument(call, "command"));
    run_once(call, tool->data, program, "cwd " ONE_SHOT_KEYS, answer);
}
