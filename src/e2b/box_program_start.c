/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/fail.h"
#include "base/str.h"
#include "base/unit.h"
#include "e2b/box_program.h"
#include "model/value.h"

#define START_MS     30000 /* for a program to start */
#define CONFIG_BYTES ((size_t)64 << 10)
#define VALUE_BYTES  ((size_t)128) /* that a text costs, however short it is */
#define TAG_BYTES    256u
#define ARGS         4096u

/* Texts of a message, made into what vial_session_exec takes. */
struct start {
    struct strv argv, env;
    struct str cwd;
    unsigned rows, columns;
    bool stdin_live, root;
    int64_t timeout_ms;
};

static void start_done(struct start *s)
{
    strv_done(&s->argv);
    strv_done(&s->env);
    str_done(&s->cwd);
}

static int read_argv(const json_t *process, struct strv *out, struct connect_error *e)
{
    const char *cmd = value_string(json_object_get(process, "cmd"));
    const json_t *args = json_object_get(process, "args");

    if (!cmd || !*cmd || json_array_size(args) > ARGS)
        return connect_fail(e, CONNECT_INVALID, "'process' names no command");
    if (args && !json_is_array(args) && !json_is_null(args))
        return connect_fail(e, CONNECT_INVALID, "'args' is not a list");
    strv_push(out, cmd);
    for (size_t i = 0; i < json_array_size(args); i++) {
        const char *arg = value_string(json_array_get(args, i));

        if (!arg)
            return connect_fail(e, CONNECT_INVALID, "'args' are not all texts");
        strv_push(out, arg);
    }
    return strv_ok(out) ? 0 : connect_fail(e, CONNECT_INTERNAL, "out of memory");
}

static int read_env(json_t *envs, bool root, struct strv *out, struct connect_error *e)
{
    const char *name;
    json_t *value;

    if (root) { /* over the sandbox's own, which are the user's */
        strv_push(out, "HOME=/" BOX_ROOT);
        strv_push(out, "USER=" BOX_ROOT);
        strv_push(out, "LOGNAME=" BOX_ROOT);
    }
    if (envs && !json_is_object(envs) && !json_is_null(envs))
        return connect_fail(e, CONNECT_INVALID, "'envs' is not an object");
    json_object_foreach(envs, name, value)
    {
        if (!value_string(value) || !*name || strchr(name, '='))
            return connect_fail(e, CONNECT_INVALID,
                                "'envs' has a name or value that is none");
        strv_printf(out, "%s=%s", name, value_string(value));
    }
    return strv_ok(out) ? 0 : connect_fail(e, CONNECT_INTERNAL, "out of memory");
}

int proc_read_size(const json_t *pty, unsigned *rows, unsigned *columns,
                   struct connect_error *e)
{
    const json_t *size = json_object_get(pty, "size");
    json_int_t r = json_integer_value(json_object_get(size, "rows"));
    json_int_t c = json_integer_value(json_object_get(size, "cols"));

    if (r < 1 || c < 1 || r > 4096 || c > 4096)
        return connect_fail(e, CONNECT_INVALID,
                            "a terminal has from 1 to 4096 rows and columns");
    *rows = (unsigned)r;
    *columns = (unsigned)c;
    return 0;
}

/* The client's time for the command; 0: none was set. */
static int64_t timeout_of(const struct ask *a)
{
    const char *text = web_header(a->web, "Connect-Timeout-Ms");
    int64_t ms;

    if (!text || unit_parse_count(text, &ms) < 0 || ms < 1)
        return 0;
    return ms < a->box->most_ms ? ms : a->box->most_ms;
}

static int read_start(struct ask *a, const json_t *message, struct start *s,
                      struct connect_error *e)
{
    const json_t *process = json_object_get(message, "process");
    const json_t *pty = json_object_get(message, "pty");
    const json_t *where = json_object_get(process, "cwd");
    const char *cwd = value_string(where);

    if (where && !cwd && !json_is_null(where))
        return connect_fail(e, CONNECT_INVALID, "'cwd' is not a text");
    if (connect_user(a, &s->root, e) < 0 || read_argv(process, &s->argv, e) < 0 ||
        read_env(json_object_get(process, "envs"), s->root, &s->env, e) < 0 ||
        box_path(s->root ? "/" BOX_ROOT : BOX_HOME, cwd ? cwd : "", &s->cwd, e) < 0)
        return -1;
    if (json_is_object(pty) && proc_read_size(pty, &s->rows, &s->columns, e) < 0)
        return -1;
    s->stdin_live = s->rows == 0 && !json_is_false(json_object_get(message, "stdin"));
    s->timeout_ms = timeout_of(a);
    return 0;
}

/* What a list tells of it: whole while that is short, as it is kept for a while. */
static json_t *config_of(const json_t *message, const struct start *s)
{
    const json_t *process = json_object_get(message, "process");
    size_t bytes = 0;

    for (size_t i = 0; i < s->argv.count; i++)
        bytes += strlen(s->argv.items[i]) + VALUE_BYTES;
    for (size_t i = 0; i < s->env.count; i++)
        bytes += strlen(s->env.items[i]) + VALUE_BYTES;
    if (bytes > CONFIG_BYTES)
        return json_pack("{s:O}", "cmd", json_object_get(process, "cmd"));
    return json_pack("{s:O, s:O*, s:O*, s:O*}", "cmd", json_object_get(process, "cmd"),
                     "args", json_object_get(process, "args"), "envs",
                     json_object_get(process, "envs"), "cwd",
                     json_object_get(process, "cwd"));
}

static struct proc *proc_new(struct ask *a, const json_t *message,
                             const struct start *s)
{
    const char *tag = json_string_value(json_object_get(message, "tag"));
    struct proc *p = calloc(1, sizeof(*p));

    if (!p)
        return NULL;
    p->box = a->box;
    p->users = 2;
    p->terminal = s->rows > 0;
    p->has_stdin = s->stdin_live;
    p->config = config_of(message, s);
    p->tag = tag ? strndup(tag, TAG_BYTES) : NULL;
    return p;
}

/* From the session's thread. */
static void on_end(void *context)
{
    struct proc *p = context;

    atomic_store(&p->ended_ns, clock_now_ns());
    ask_ended(p->box->caller);
}

static int launch(struct ask *a, struct proc *p, const struct start *s,
                  struct vial_error *err)
{
    const struct vial_exec_options o = {
        .argv = (const char *const *)s->argv.items,
        .env = (const char *const *)s->env.items,
        .cwd = s->cwd.data,
        .stdin_live = s->stdin_live || s->rows > 0,
        .timeout_ms = s->timeout_ms,
        .rows = s->rows,
        .columns = s->columns,
        .as_root = s->root,
        .correlation = a->turn->correlation,
        .ended = on_end,
        .context = p,
    };

    if (ask_start(a, err) < 0)
        return -1;
    if (vial_session_exec(box_session(a->box), &o, &p->exec, err) == 0)
        return 0;
    ask_ended(a->caller);
    return -1;
}

/* It runs, or has an end that is its own. */
static int started(struct proc *p, const struct start *s, struct connect_error *e)
{
    struct vial_exec_status status;

    vial_exec_wait_started(p->exec, START_MS, &status);
    p->pid = status.pid;
    if (p->pid)
        return 0;
    if (fail_is(&status.error, VIAL_E_CWD))
        return connect_fail(e, CONNECT_INVALID, "cwd '%s' does not exist", s->cwd.data);
    if (status.error.code[0])
        return connect_from(e, &status.error);
    return connect_fail(e, CONNECT_INTERNAL, "the program did not start");
}

static void enlist(struct box *box, struct proc *p)
{
    (void)pthread_mutex_lock(&box->lock);
    p->next = box->procs;
    box->procs = p;
    (void)pthread_mutex_unlock(&box->lock);
}

struct proc *proc_start(struct ask *a, const json_t *message, struct connect_error *e)
{
    __attribute__((cleanup(start_done))) struct start s = { 0 };
    struct vial_error err = { 0 };
    struct proc *p;

    if (read_start(a, message, &s, e) < 0)
        return NULL;
    if (!procs_make_room(a->box)) {
        (void)connect_fail(e, CONNECT_EXHAUSTED, "this sandbox has %u programs", PROCS);
        return NULL;
    }
    p = proc_new(a, message, &s);
    if (!p || launch(a, p, &s, &err) < 0) {
        (void)connect_from(e, &err);
        if (p)
            proc_free(p);
        return NULL;
    }
    if (started(p, &s, e) < 0) {
        proc_free(p);
        return NULL;
    }
    enlist(a->box, p);
    return p;
}
