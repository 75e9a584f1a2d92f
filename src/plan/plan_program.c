/* SPDX-License-Identifier: Apache-2.0 */

/* Plans what is executed: argument lists and a complete environment. */

#include <string.h>

#include "base/auto.h"
#include "base/fail.h"
#include "base/path.h"
#include "model/field_type.h"
#include "model/value.h"
#include "plan/draft.h"
#include "plan/secret_rules.h"

/* Linux takes no single string of 128 KiB (MAX_ARG_STRLEN), and the whole must
 * fit a quarter of the stack limit together with its pointers. */
#define STRING_MAX ((size_t)128 << 10)
#define EXEC_MAX   ((size_t)1 << 20)
#define INLINE_MAX ((size_t)96 << 10)

/* "{file}" becomes "{dir}/main.py"; "{dir}" is left for the engine, which knows
 * where the workdir really is. */
static void expand(struct strv *out, const char *from, const char *file)
{
    auto_str struct str s = { 0 };
    const char *at;

    while ((at = strstr(from, "{file}"))) {
        str_add(&s, from, (size_t)(at - from));
        str_puts(&s, "{dir}/");
        str_puts(&s, file);
        from = at + strlen("{file}");
    }
    str_puts(&s, from);
    if (!str_ok(&s))
        out->failed = true;
    else
        strv_push(out, s.data);
}

static void expand_all(struct strv *out, const struct strv *from, const char *file)
{
    for (size_t i = 0; i < from->count; i++)
        expand(out, from->items[i], file);
}

/* Short code goes as an argument where the language can take it so: no file
 * then lies among the program's own. */
static bool goes_inline(const struct draft *d)
{
    const struct blob *code = &d->req->code;

    return d->language->inline_argv.count > 0 && code->len < INLINE_MAX &&
           !d->req->words.file && d->req->words.run_argv.count == 0 &&
           (code->len == 0 || !memchr(code->data, '\0', code->len));
}

const char *plan_source_name(const struct draft *d)
{
    return d->req->words.file ? d->req->words.file : d->language->file;
}

static const struct strv *own_or(const struct strv *own, const struct strv *usual)
{
    return own->count > 0 ? own : usual;
}

static int code_build(struct draft *d, struct vial_error *err)
{
    const struct wording *words = &d->req->words;
    const struct language *language = d->language;
    const struct blob *code = &d->req->code;
    bool as_argument = goes_inline(d);

    if (!words->interpreted)
        expand_all(&d->plan->compile_argv,
                   own_or(&words->compile_argv, &language->compile_argv),
                   plan_source_name(d));
    expand_all(&d->plan->argv,
               as_argument ? &language->inline_argv
                           : own_or(&words->run_argv, &language->run_argv),
               plan_source_name(d));
    d->plan->argv_own = d->plan->argv.count;
    strv_copy(&d->plan->argv, &d->req->args);
    if (as_argument &&
        blob_set(&d->plan->code, code->data ? code->data : "", code->len) < 0)
        return fail_memory(err);
    return 0;
}

static int argv_build(struct draft *d, struct vial_error *err)
{
    struct plan *plan = d->plan;

    if (d->language) {
        if (code_build(d, err) < 0)
            return -1;
    } else {
        plan->entrypoint = plan_wants_entrypoint(d->req);
        strv_copy(&plan->argv, &d->req->command);
        if (plan->argv.count == 0) {
            strv_push(&plan->argv, PLAN_IMAGE_COMMAND);
            plan->argv_own = 1;
        }
    }
    if (!strv_ok(&plan->argv) || !strv_ok(&plan->compile_argv))
        return fail_memory(err);
    if (plan->argv.items[0][0] != '\0')
        return 0;
    (void)fail(err, VIAL_E_VALUE, "command names no program");
    return fail_remedy(err, "begin it with a program's name or path");
}

static int put_env(struct strv *env, const char *entry, struct vial_error *err)
{
    size_t name_len = strcspn(entry, "=");

    if (field_put_env(env, entry, name_len, entry + name_len + 1) < 0)
        return fail_memory(err);
    return 0;
}

static bool names_same(const char *a, const char *b)
{
    size_t len = strcspn(a, "=");

    return strncmp(a, b, len + 1) == 0;
}

static bool is_given(const struct strv *env, const char *entry)
{
    for (size_t i = 0; i < env->count; i++)
        if (names_same(entry, env->items[i]))
            return true;
    return false;
}

/* Who the program is, as variables say it. */
static const struct user_env {
    const char *home; /* NULL: the working directory, or what is not kept */
    const char *user, *logname;
} users[] = { { NULL, "USER=vial", "LOGNAME=vial" },
              { "HOME=/home/user", "USER=user", "LOGNAME=user" },
              { "HOME=/root", "USER=root", "LOGNAME=root" } };

static const struct user_env *user_of(const struct plan_root *root)
{
    return &users[root->as_root ? 2 : root->writable ? 1 : 0];
}

/* Ours, then the language's over it. HOME is not the user's workspace: what
 * programs keep there is not meant to stay. */
static int own_env(const struct draft *d, struct strv *out, struct vial_error *err)
{
    static const char search[] = "PATH=" PATH_SEARCH;
    bool fresh = !request_has(d->req, workspace) || str_eq(d->plan->workdir, "/work");
    const struct user_env *user = user_of(&d->plan->root);
    const char *const basis[] = {
        search,          user->home ? user->home : fresh ? "HOME={dir}" : "HOME=/tmp",
        "LANG=C.UTF-8",  "TMPDIR=/tmp",
        user->user,      user->logname,
        "SHELL=/bin/sh", "TERM=dumb"
    };
    auto_strv struct strv extra = { 0 };

    if (d->language)
        expand_all(&extra, &d->language->env, d->language->file);
    if (!strv_ok(&extra))
        return fail_memory(err);
    for (size_t i = 0; i < sizeof(basis) / sizeof(basis[0]); i++)
        if (put_env(out, basis[i], err) < 0)
            return -1;
    for (size_t i = 0; i < extra.count; i++)
        if (put_env(out, extra.items[i], err) < 0)
            return -1;
    return 0;
}

static int env_build(struct draft *d, struct vial_error *err)
{
    auto_strv struct strv own = { 0 }, trust = { 0 };
    struct strv *env = &d->plan->env;

    if (own_env(d, &own, err) < 0)
        return -1;
    for (size_t i = 0; i < own.count; i++)
        if (!is_given(&d->req->env, own.items[i]))
            strv_push(env, own.items[i]);
    secrets_trust_env(d->plan, &trust);
    for (size_t i = 0; i < trust.count; i++)
        if (!is_given(&d->req->env, trust.items[i]))
            strv_push(env, trust.items[i]);
    d->plan->env_own = env->count;
    strv_copy(env, &d->req->env);
    if (secrets_env(d, env, err) < 0)
        return -1;
    return strv_ok(env) && strv_ok(&trust) ? 0 : fail_memory(err);
}

static int measure(const struct strv *list, const char *what, size_t *total,
                   struct vial_error *err)
{
    for (size_t i = 0; i < list->count; i++) {
        size_t len = strlen(list->items[i]) + 1;

        if (len > STRING_MAX)
            return fail(err, VIAL_E_VALUE,
                        "an entry of %s has %zu bytes; the most is %zu", what, len - 1,
                        STRING_MAX - 1);
        *total += len + sizeof(char *);
    }
    if (*total <= EXEC_MAX)
        return 0;
    (void)fail(err, VIAL_E_VALUE, "arguments and env take more than %zu bytes",
               EXEC_MAX);
    return fail_remedy(err, "pass large data as stdin or files");
}

int plan_program_build(struct draft *d, struct vial_error *err)
{
    size_t total = 0;

    if (argv_build(d, err) < 0 || env_build(d, err) < 0)
        return -1;
    if (measure(&d->plan->argv, d->language ? "args" : "command", &total, err) < 0)
        return -1;
    return measure(&d->plan->env, "env", &total, err);
}

/*
 * Where the program lives and starts. The workdir is ours to write to before the
 * run. A command with a workspace works in it; code beside a workspace keeps a
 * workdir of its own, so that its file never lands in the user's tree.
 */

static int refuse_cwd(const char *cwd, const char *why, struct vial_error *err)
{
    (void)fail(err, VIAL_E_PATH, "cwd '%s' %s", cwd, why);
    return fail_remedy(err, "give a path below the working directory, or an absolute "
                            "one without '..' outside /proc, /sys and /dev");
}

static int check_absolute(const char *cwd, struct vial_error *err)
{
    static const char *const off_limits[] = { "/proc", "/sys", "/dev" };

    if (!path_is_clean_absolute(cwd))
        return refuse_cwd(cwd, "is not a clean path", err);
    for (size_t i = 0; i < sizeof(off_limits) / sizeof(off_limits[0]); i++)
        if (path_is_beneath(cwd, off_limits[i]))
            return refuse_cwd(cwd, "is not allowed", err);
    return 0;
}

/* Relative paths start where the program would without one. */
static int set_cwd(struct plan *plan, const char *cwd, const char *start,
                   struct vial_error *err)
{
    if (!cwd || str_eq(cwd, ".")) {
        plan->cwd = strdup(start);
    } else if (cwd[0] == '/') {
        if (check_absolute(cwd, err) < 0)
            return -1;
        plan->cwd = strdup(cwd);
    } else {
        if (!path_is_plain_relative(cwd, strlen(cwd)))
            return refuse_cwd(cwd, "is not a clean path", err);
        plan->cwd = path_join(start, cwd);
    }
    return plan->cwd ? 0 : fail_memory(err);
}

const char *plan_workspace_at(const struct draft *d)
{
    const char *asked = d->req->workspace_at;

    return asked ? asked : fields[FIELD_ID_workspace_at].def;
}

/* It brings nothing that would lie in the working directory, wants nothing back from
 * there, and does not say where to start. */
static bool is_bare(const struct vial_request *req)
{
    return !req->cwd && req->files.count == 0 && req->outputs.count == 0 &&
           !req->artifacts;
}

/* What the image names starts where the image says, as container engines do it. */
static bool starts_in_image(const struct draft *d)
{
    if (plan_wants_entrypoint(d->req))
        return !d->req->cwd;
    return !d->language && !request_has(d->req, workspace) &&
           str_eq(plan_workdirs[d->req->workdir], "/work") && is_bare(d->req);
}

int plan_cwd_build(struct draft *d, struct vial_error *err)
{
    bool shown = request_has(d->req, workspace);
    const char *start = plan_workdirs[d->req->workdir];
    const char *workdir = NULL;

    if (shown)
        start = plan_workspace_at(d);
    workdir = d->language && shown ? "/work" : start;

    d->plan->cwd_open = starts_in_image(d);
    d->plan->workdir = strdup(workdir);
    if (!d->plan->workdir)
        return fail_memory(err);
    return set_cwd(d->plan, d->req->cwd, start, err);
}

/*
 * Limits: what the request or a layer of settings says; else what the language
 * needs; else the built-in default. The policy's caps hold for all of them.
 */

static int64_t asked_for(const struct vial_request *req, enum field_id id)
{
    bool builtin = (req->builtin >> id) & 1u;

    return builtin ? 0 : request_amount(req, id);
}

static int64_t lower(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t choose(const struct draft *d, const struct limit_row *row)
{
    int64_t asked = asked_for(d->req, row->field);
    int64_t needed = d->language ? limits_get(&d->language->limits, row) : 0;
    int64_t cap = policy_cap(&d->settings->policy, row->field);

    bool firm = d->language &&
                ((d->language->firm_limits >> (row - limit_rows)) & 1u) &&
                !((d->req->own >> row->field) & 1u);

    if (asked && !(firm && needed))
        return asked; /* policy_check has compared it with the cap */
    if (needed)
        return lower(needed, cap);
    return lower(request_amount(d->req, row->field), cap);
}

int plan_limits_build(struct draft *d, struct vial_error *err)
{
    struct limits *limits = &d->plan->limits;

    for (size_t i = 0; i < LIMIT_COUNT; i++) {
        int64_t value = choose(d, &limit_rows[i]);

        /* A cap that an operator has set holds for those who name no limit, too. */
        if (value == 0)
            value = policy_implied(&d->settings->policy, limit_rows[i].field);
        if (limit_rows[i].needed && value <= 0)
            return fail(err, VIAL_E_INTERNAL, "limit '%s' has no value",
                        fields[limit_rows[i].field].name);
        *limits_at(limits, &limit_rows[i]) = value;
    }
    return 0;
}
