/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/session/compile_once.h"

#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/fail.h"
#include "engine/session/keep_call.h"
#include "model/field_type.h"

#include "vial/files.h"

#define REST_MS    (INT64_C(60) * 1000) /* for all but the compiler itself */
#define MADE_BYTES ((uint64_t)64 << 20) /* of all that a compiler makes */
#define MADE_FILES 512u

AUTO(compiled, struct vial_request, vial_request_free)
#define auto_compiled __attribute__((cleanup(auto_compiled_)))
AUTO(session, struct vial_session, vial_session_free)
#define auto_session __attribute__((cleanup(auto_session_)))
#define auto_entries __attribute__((cleanup(vial_entries_free)))

bool compile_fits(struct vial_engine *e, const struct vial_request *req)
{
    auto_plan struct plan *plan = NULL;
    const struct driver *driver = NULL;

    /* A command would go without the language's own seccomp profile. */
    return engine_plan(e, req, &driver, &plan, NULL) == 0 &&
           plan->compile_argv.count > 0 && !plan->seccomp_file &&
           policy_check_list(&e->settings->policy, POLICY_ID_languages, "language",
                             "command", NULL) == 0;
}

/* In another vessel the directory must be the same. */
static bool is_usual_place(struct vial_session *s)
{
    bool usual;

    session_lock(s);
    usual = s->vessel && (!s->vessel->jail.workdir ||
                          str_eq(s->vessel->jail.workdir, s->plan->workdir));
    session_unlock(s);
    return usual;
}

/* Its files are there since the session was opened. */
static bool run_compiler(struct vial_session *s, int cancel_fd,
                         struct vial_result **told)
{
    const struct vial_watch watch = { .cancel_fd = cancel_fd,
                                      .stdin_fd = -1,
                                      .caller = s->options.caller };
    struct kept_call c = { .session = s,
                           .plan = s->plan,
                           .watch = &watch,
                           .stage = LIFE_FILES_IN,
                           .steps = true, /* or light files would go with the first */
                           .compile_only = true };
    struct vial_result *r = kept_call_result(s->plan);
    bool ended = r && engine_reserve(s->engine, s->plan, &watch, r, NULL) == 0 &&
                 kept_call_run(&c, r, NULL) == 0;

    if (r && !ended)
        r->verdict = VIAL_FAILED;
    *told = r;
    return ended && r->verdict == VIAL_OK;
}

/* LEFT: how many bytes may come yet. What was small when it was listed may not be. */
static bool take_file(struct vial_session *s, const struct vial_entry *e,
                      struct file_in *out, uint64_t *left)
{
    out->mode = e->mode & 0777u;
    out->path = strdup(e->path);
    if (!out->path || vial_session_get(s, e->path, 0, *left + 1, &out->content.data,
                                       &out->content.len, NULL) < 0)
        return false;
    if (out->content.len > *left)
        return false;
    *left -= out->content.len;
    return true;
}

/* What the compiler made comes before the request's own files, which win. */
static bool take_files(struct vial_session *s, const struct vial_entries *before,
                       struct file_list *files)
{
    auto_entries struct vial_entries now = { 0 };
    struct file_list all = { 0 };
    uint64_t bytes = 0, left = MADE_BYTES;

    if (vial_session_changes(s, "", before, &now, NULL) < 0 || now.count == 0 ||
        now.count > MADE_FILES)
        return false;
    for (size_t i = 0; i < now.count; i++)
        bytes += now.items[i].size;
    all.items = calloc(now.count + files->count, sizeof(*all.items));
    if (!all.items || bytes > MADE_BYTES) {
        free(all.items);
        return false;
    }
    memcpy(all.items + now.count, files->items, files->count * sizeof(*all.items));
    all.count = now.count + files->count;
    free(files->items);
    *files = all;
    for (size_t i = 0; i < now.count; i++)
        if (!take_file(s, &now.items[i], &files->items[i], &left))
            return false;
    return true;
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

/* Variables that the language gave; the request's own come over them. */
static int set_env(struct vial_request *req, const struct plan *plan)
{
    struct strv env = { 0 };
    int rc = 0;

    for (size_t i = 0; rc == 0 && i < plan->env.count; i++) {
        const char *entry = plan->env.items[i];
        size_t len = strcspn(entry, "=");

        if (i >= plan->env_own || !is_usual(entry))
            rc = field_put_env(&env, entry, len, entry + len + 1);
    }
    strv_done(&req->env);
    req->env = env;
    req->set |= FIELD_BIT(FIELD_ID_env);
    return rc;
}

/* What the language gave where the request says nothing. */
static int set_rest(struct vial_request *req, const struct plan *plan)
{
    static const enum field_id given[] = { FIELD_ID_memory, FIELD_ID_pids,
                                           FIELD_ID_disk, FIELD_ID_tmp };

    for (size_t i = 0; i < LIMIT_COUNT; i++) {
        enum field_id id = limit_rows[i].field;
        int64_t value = limits_get(&plan->limits, &limit_rows[i]);
        bool ours = false;

        for (size_t k = 0; k < sizeof(given) / sizeof(given[0]); k++)
            ours = ours || given[k] == id;
        if (!ours || !value || ((req->set >> id) & 1u))
            continue;
        *(int64_t *)request_member(req, id) = value;
        req->set |= FIELD_BIT(id);
    }
    if (plan->image && !request_has(req, image) &&
        request_set_text(req, FIELD_ID_image, plan->image, strlen(plan->image),
                         "request", NULL) < 0)
        return -1;
    return request_has(req, seccomp)
               ? 0
               : request_set_text(req, FIELD_ID_seccomp, plan->seccomp,
                                  strlen(plan->seccomp), "request", NULL);
}

/* The language's words alone: the request's `args` stay what they are. */
static int set_command(struct vial_request *req, const struct plan *plan)
{
    auto_strv struct strv argv = { 0 };
    int rc = 0;

    wording_done(&req->words);
    request_unset(req, FIELD_ID_language);
    request_unset(req, FIELD_ID_code);
    request_unset(req, FIELD_ID_compile_timeout);
    for (size_t i = 0; i < plan->argv_own; i++)
        plan_expand(&argv, plan->argv.items[i], plan->workdir);
    for (size_t i = 0; rc == 0 && i < argv.count; i++)
        rc = request_set_text(req, FIELD_ID_command, argv.items[i],
                              strlen(argv.items[i]), "request", NULL);
    return strv_ok(&argv) ? rc : -1;
}

int compile_told(struct vial_engine *e, const struct vial_request *req,
                 const struct vial_session_options *options, struct vial_request **out,
                 struct vial_result **told, struct vial_error *err)
{
    auto_compiled struct vial_request *made = NULL;
    auto_session struct vial_session *s = NULL;
    auto_entries struct vial_entries before = { 0 };
    int cancel_fd = options && options->watch ? options->watch->cancel_fd : -1;

    *out = NULL;
    *told = NULL;
    if (vial_request_new(&made, err) < 0 || request_fill(made, req, err) < 0)
        return -1;
    if (vial_session_open(e, req, options, &s, NULL) < 0 ||
        vial_session_renew(s, s->plan->limits.compile_wall_ms + REST_MS, NULL) < 0 ||
        !is_usual_place(s) || vial_session_list(s, "", true, &before, NULL) < 0 ||
        !run_compiler(s, cancel_fd, told) || !take_files(s, &before, &made->files) ||
        set_env(made, s->plan) < 0 || set_rest(made, s->plan) < 0 ||
        set_command(made, s->plan) < 0)
        return 0;
    made->set |= FIELD_BIT(FIELD_ID_files);
    *out = ptr_take(&made);
    return 0;
}

int compile_once(struct vial_engine *e, const struct vial_request *req,
                 const struct vial_session_options *options, struct vial_request **out,
                 double *cpu_ms, struct vial_error *err)
{
    struct vial_result *told;
    int rc = compile_told(e, req, options, out, &told, err);

    if (told)
        *cpu_ms = told->usage.cpu_user_ms + told->usage.cpu_system_ms;
    vial_result_free(told);
    return rc;
}
