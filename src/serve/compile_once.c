/* SPDX-License-Identifier: Apache-2.0 */
#include "serve/compile_once.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/fail.h"
#include "base/text.h"
#include "serve/job.h"

#define MADE_BYTES ((uint64_t)64 << 20) /* of all that a compiler makes */
#define MADE_FILES 512u

static void auto_session_(struct vial_session **session)
{
    vial_session_free(*session);
}
#define auto_session __attribute__((cleanup(auto_session_)))

static void auto_entries_(struct vial_entries *entries)
{
    vial_entries_free(entries);
}
#define auto_entries __attribute__((cleanup(auto_entries_)))

/* TEXT with "{dir}" as DIR. */
static json_t *in_dir(const char *text, const char *dir)
{
    auto_str struct str out = { 0 };
    const char *at;

    while ((at = strstr(text, "{dir}"))) {
        str_add(&out, text, (size_t)(at - text));
        str_puts(&out, dir);
        text = at + strlen("{dir}");
    }
    str_puts(&out, text);
    return json_string(str_ok(&out) && out.data ? out.data : "");
}

static json_t *argv_in(json_t *argv, const char *dir)
{
    json_t *out = json_array();

    for (size_t i = 0; i < json_array_size(argv); i++) {
        const char *text = json_string_value(json_array_get(argv, i));

        (void)json_array_append_new(out, in_dir(text ? text : "", dir));
    }
    return out;
}

/* -1: it did not do well, in *CPU_MS. */
static int run_compiler(struct vial_session *session, json_t *argv, double *cpu_ms)
{
    size_t count = json_array_size(argv);
    auto_free const char **args = calloc(count + 1, sizeof(*args));
    struct vial_exec_options o = { .argv = args };
    struct vial_exec_status status;
    struct vial_error err = { 0 };
    struct vial_exec *exec;

    for (size_t i = 0; args && i < count; i++)
        args[i] = json_string_value(json_array_get(argv, i));
    if (!args || vial_session_exec(session, &o, &exec, &err) < 0)
        return -1;
    vial_exec_wait(exec, -1, &status);
    *cpu_ms = status.cpu_user_ms + status.cpu_system_ms;
    return status.verdict == VIAL_OK ? 0 : -1;
}

static int add_file(struct vial_session *session, const struct vial_entry *e,
                    json_t *files)
{
    auto_free char *data = NULL;
    auto_str struct str coded = { 0 };
    struct vial_error err = { 0 };
    char mode[8];
    size_t len;

    if (vial_session_get(session, e->path, 0, 0, &data, &len, &err) < 0)
        return -1;
    text_base64(&coded, data, len);
    if (!str_ok(&coded))
        return -1;
    (void)snprintf(mode, sizeof(mode), "%04o", e->mode & 0777u);
    return json_array_append_new(
        files, json_pack("{s:s, s:s, s:s}", "path", e->path, "content_base64",
                         coded.data ? coded.data : "", "mode", mode));
}

/* What the compiler made, as files of a request. */
static json_t *made(struct vial_session *session, const struct vial_entries *before)
{
    auto_entries struct vial_entries now = { 0 };
    struct vial_error err = { 0 };
    json_t *files = json_array();
    uint64_t bytes = 0;
    bool good = vial_session_changes(session, "", before, &now, &err) == 0 &&
                now.count <= MADE_FILES;

    for (size_t i = 0; good && i < now.count; i++) {
        bytes += now.items[i].size;
        good = bytes <= MADE_BYTES && add_file(session, &now.items[i], files) == 0;
    }
    if (good && now.count > 0)
        return files;
    json_decref(files);
    return NULL;
}

static bool is_usual(const char *variable)
{
    static const char *const usual[] = { "PATH=", "HOME=",    "LANG=",  "TMPDIR=",
                                         "USER=", "LOGNAME=", "SHELL=", "TERM=" };

    for (size_t i = 0; i < sizeof(usual) / sizeof(usual[0]); i++)
        if (str_starts(variable, usual[i]))
            return true;
    return strstr(variable, "{dir}") != NULL;
}

/* Variables that the language gave. */
static void set_env(json_t *req, json_t *list)
{
    json_t *env = json_object_get(req, "env");

    if (!env) {
        env = json_object();
        (void)json_object_set_new(req, "env", env);
    }
    for (size_t i = 0; i < json_array_size(list); i++) {
        const char *text = json_string_value(json_array_get(list, i));
        const char *equals = text ? strchr(text, '=') : NULL;

        if (!equals || is_usual(text))
            continue;
        (void)json_object_setn_new(env, text, (size_t)(equals - text),
                                   json_string(equals + 1));
    }
}

/* What the language gave where the request says nothing. */
static void set_rest(json_t *req, json_t *plan)
{
    static const char *const limits[][2] = { { "memory", "memory_bytes" },
                                             { "pids", "pids" },
                                             { "disk", "disk_bytes" },
                                             { "tmp", "tmp_bytes" } };
    static const char *const names[] = { "image", "seccomp" };

    for (size_t i = 0; i < sizeof(limits) / sizeof(limits[0]); i++) {
        json_t *value = json_object_get(json_object_get(plan, "limits"), limits[i][1]);

        if (json_is_integer(value) && !json_object_get(req, limits[i][0]))
            (void)json_object_set(req, limits[i][0], value);
    }
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        json_t *value = json_object_get(plan, names[i]);

        if (json_is_string(value) && !json_object_get(req, names[i]))
            (void)json_object_set(req, names[i], value);
    }
}

static json_t *compiled(json_t *base, json_t *plan, json_t *files, const char *dir)
{
    json_t *req = json_deep_copy(base);
    json_t *command = argv_in(json_object_get(plan, "argv"), dir);
    json_t *given = json_object_get(req, "files");

    (void)json_object_del(req, "language");
    (void)json_object_del(req, "code");
    (void)json_object_del(req, "compile_timeout");
    (void)json_object_set_new(req, "command", command);
    if (given)
        (void)json_array_extend(files, given);
    (void)json_object_set_new(req, "files", files);
    set_env(req, json_object_get(plan, "env"));
    set_rest(req, plan);
    return req;
}

static json_t *compile(struct call *c, json_t *base, struct vial_request *req,
                       json_t *plan, double *cpu_ms)
{
    const char *dir = json_string_value(json_object_get(plan, "workdir"));
    auto_session struct vial_session *session = NULL;
    auto_entries struct vial_entries before = { 0 };
    auto_json json_t *argv = NULL;
    const struct vial_session_options options = { .caller = c->who.name,
                                                  .correlation = c->id };
    struct vial_error err = { 0 };
    json_t *files;

    if (vial_session_open(c->gen->engine, req, &options, &session, &err) < 0 ||
        vial_session_list(session, "", true, &before, &err) < 0)
        return NULL;
    argv = argv_in(json_object_get(plan, "compile"), dir);
    if (run_compiler(session, argv, cpu_ms) < 0)
        return NULL;
    files = made(session, &before);
    return files ? compiled(base, plan, files, dir) : NULL;
}

static bool fits(struct call *c, json_t *plan)
{
    const struct policy *p = &c->gen->settings->policy;
    struct vial_error err = { 0 };

    /* A command would go without the language's own seccomp profile. */
    return json_is_array(json_object_get(plan, "compile")) &&
           !json_object_get(plan, "seccomp_file") &&
           json_is_string(json_object_get(plan, "workdir")) &&
           policy_check_list(p, POLICY_ID_languages, "language", "command", &err) == 0;
}

int compile_once(struct call *c, json_t *base, json_t **out, struct vial_error *err)
{
    auto_vial_request struct vial_request *req = NULL;
    auto_json json_t *plan = NULL;
    auto_free char *text = json_dumps(base, JSON_COMPACT);
    auto_free char *shown = NULL;
    struct vial_error why = { 0 };
    struct gate_pass pass;
    double cpu_ms = 0;

    *out = NULL;
    /* Whatever is wrong with it, the runs will say. */
    if (!text || job_request(c, text, strlen(text), &req, &why) < 0 ||
        vial_plan(c->gen->engine, req, &shown, &why) < 0)
        return 0;
    plan = json_loads(shown, 0, NULL);
    if (!fits(c, plan))
        return 0;
    if (gate_enter(&c->serve->gate, c->caller, web_gone_fd(c->web), &pass, err) < 0)
        return -1;
    *out = compile(c, base, req, plan, &cpu_ms);
    gate_leave(&c->serve->gate, c->caller, cpu_ms);
    return 0;
}
