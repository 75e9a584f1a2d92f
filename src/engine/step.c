/* SPDX-License-Identifier: Apache-2.0 */

/* The programs of a run: the compile step, if there is one, then the program
 * itself. */

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/fail.h"
#include "base/path.h"
#include "engine/run.h"

static const char *workdir(const struct run *r)
{
    return r->vessel->jail.workdir ? r->vessel->jail.workdir : r->plan->workdir;
}

/* Appends TEXT with every "{dir}" replaced by the real working directory. */
static void add_expanded(struct strv *out, const struct run *r, const char *text)
{
    auto_str struct str s = { 0 };
    const char *at;

    while ((at = strstr(text, "{dir}")) != NULL) {
        str_add(&s, text, (size_t)(at - text));
        str_puts(&s, workdir(r));
        text = at + strlen("{dir}");
    }
    str_puts(&s, text);
    if (str_ok(&s))
        strv_push(out, s.data);
    else
        out->failed = true;
}

/* What the caller wrote is passed on letter by letter, though it may hold
 * "{dir}" too: only the plan's own words are expanded. */
static void make_argv(const struct run *r, struct strv *out)
{
    const struct strv *from = r->compiling ? &r->plan->compile_argv : &r->plan->argv;
    size_t own = r->compiling ? from->count : r->plan->argv_own;

    for (size_t i = 0; i < from->count; i++) {
        if (i >= own)
            strv_push(out, from->items[i]);
        else if (str_eq(from->items[i], "{code}") && r->plan->code.data)
            strv_push(out, r->plan->code.data);
        else
            add_expanded(out, r, from->items[i]);
    }
}

static void make_env(const struct run *r, struct strv *out)
{
    const struct strv *from = &r->plan->env;
    const char *tmpdir = r->vessel->tmpdir;

    for (size_t i = 0; i < from->count; i++) {
        const char *entry = from->items[i];
        const char *value = strchr(entry, '=');

        if (i >= r->plan->env_own)
            strv_push(out, entry);
        else if (tmpdir && str_eq(value, "=/tmp"))
            strv_printf(out, "%.*s=%s", (int)(value - entry), entry, tmpdir);
        else
            add_expanded(out, r, entry);
    }
}

/* The plan's cwd with the plan's workdir replaced by the real one. malloc'ed. */
static char *make_cwd(const struct run *r)
{
    const char *cwd = r->plan->cwd;
    struct str s = { 0 };

    if (path_is_beneath(cwd, r->plan->workdir)) {
        str_puts(&s, workdir(r));
        cwd += strlen(r->plan->workdir);
    }
    str_puts(&s, cwd);
    return str_take(&s);
}

static bool has_input(const struct run *r)
{
    return !r->compiling && (input_is_live(r) || r->plan->stdin_data.len > 0);
}

static int queue_exec(struct run *r, int64_t wall_ms, struct vial_error *err)
{
    auto_strv struct strv argv = { 0 };
    auto_strv struct strv env = { 0 };
    auto_free char *cwd = make_cwd(r);
    struct exec_message m;

    make_argv(r, &argv);
    make_env(r, &env);
    if (!strv_ok(&argv) || !strv_ok(&env) || !cwd)
        return fail_memory(err);
    if (argv.count == 0 || env.count == 0)
        return fail(err, VIAL_E_INTERNAL, "the plan has no program or no environment");
    m = (struct exec_message){
        .argv = argv.items,
        .env = env.items,
        .cwd = cwd,
        .timeout_ms = (uint64_t)(wall_ms + RUN_GRACE_MS),
        .stdin_closed = !has_input(r),
        .end_on_full = strv_has(&r->plan->end_on, "disk"),
    };
    return link_exec(r->link, &m, &r->exec_channel, err);
}

void step_start(struct run *r)
{
    const struct limits *limits = &r->plan->limits;
    int64_t wall_ms = r->compiling ? limits->compile_wall_ms : limits->wall_ms;
    struct vial_error err = { 0 };
    int rc;

    r->begun = true;
    r->written = 0;
    if (queue_exec(r, wall_ms, &err) < 0) {
        run_fail(r, RUN_FAILED, &err);
        return;
    }
    rc = clock_timer_set(r->deadline_fd, wall_ms);
    if (rc < 0) {
        (void)fail_sys_rc(&err, rc, "set the deadline");
        run_fail(r, RUN_FAILED, &err);
        return;
    }
    if (has_input(r))
        input_feed(r);
}

static void tell(struct run *r, int stream, const void *data, size_t len)
{
    const struct vial_watch *w = r->watch;

    if (!w->output || r->muted || len == 0)
        return;
    if (w->output(w->context, stream, data, len) != 0) {
        r->muted = true;
        run_stop(r, RUN_CANCELLED);
    }
}

void step_output(struct run *r, int stream, const uint8_t *data, size_t len)
{
    struct output *o = stream == 1 ? &r->out : &r->err;
    uint64_t max = (uint64_t)r->plan->limits.output_max;
    size_t wanted = len;

    if (max && len > max - r->written)
        wanted = (size_t)(max - r->written);
    /* What a compiler says matters only if it fails, so it is held back. */
    if (r->compiling || !r->watch->live_only)
        output_add(o, data, wanted);
    else
        o->total += wanted;
    if (!r->compiling)
        tell(r, stream, data, wanted);
    r->written += wanted;
    if (wanted < len) {
        o->total += len - wanted;
        run_stop(r, RUN_OUTPUT);
    }
}

static void tell_kept(struct run *r, int stream, const struct output *o)
{
    tell(r, stream, o->head.data, o->head.len);
    if (o->tail_len == o->tail_limit)
        tell(r, stream, o->tail + o->tail_at, o->tail_len - o->tail_at);
    tell(r, stream, o->tail, o->tail_at);
}

static void start_program(struct run *r)
{
    const struct plan *plan = r->plan;

    output_done(&r->out);
    output_done(&r->err);
    output_init(&r->out, plan->keep, (size_t)plan->limits.output_bytes);
    output_init(&r->err, plan->keep, (size_t)plan->limits.output_bytes);
    r->compiling = false;
    step_start(r);
}

void step_exited(struct run *r, const struct exit_message *m)
{
    bool good = m->kind == EXIT_CODE && m->value == 0 && !m->timed_out;

    r->exec_channel = 0;
    if (r->compiling && good && r->end == RUN_GOING) {
        start_program(r);
        return;
    }
    r->exit = *m;
    r->exited = true;
    if (r->end != RUN_GOING)
        return; /* its last words, after it was killed */
    input_end(r);
    if (r->compiling) {
        tell_kept(r, 1, &r->out);
        tell_kept(r, 2, &r->err);
        run_stop(r, RUN_EXITED);
        return;
    }
    transfer_get(r);
}

/* The program was not there, or is none. */
static int fail_program(const struct run *r, const char *program, int error,
                        struct vial_error *err)
{
    bool interpreter = r->plan->language && !strchr(program, '{');

    (void)fail_sys_rc(err, error, "start '%s'", program);
    if (interpreter && error == ENOENT) {
        (void)fail_as(err, VIAL_E_INTERPRETER);
        return fail_remedy(err,
                           "install '%s' on this host, or run 'vial languages' to see "
                           "what is usable",
                           program);
    }
    (void)fail_as(err, VIAL_E_EXEC);
    if (error == ENOENT)
        return fail_remedy(err, "check the name: programs are looked up along PATH "
                                "inside the vessel");
    return -1;
}

void step_failed(struct run *r, uint32_t step, int error)
{
    const struct strv *argv = r->compiling ? &r->plan->compile_argv : &r->plan->argv;
    struct vial_error err = { 0 };

    r->exec_channel = 0;
    if (step == STEP_FIND || step == STEP_EXEC) {
        (void)fail_program(r, argv->items[0], error, &err);
    } else if (step == STEP_CWD) {
        (void)fail_sys_rc(&err, error, "enter directory '%s'", r->plan->cwd);
        (void)fail_as(&err, VIAL_E_CWD);
        (void)fail_remedy(&err, "name a directory that exists inside the vessel, or "
                                "leave 'cwd' out");
    } else {
        (void)fail_sys_rc(&err, error, "prepare '%s': step '%s'", argv->items[0],
                          exec_step_name(step));
        (void)fail_as(&err, VIAL_E_EXEC);
    }
    run_fail(r, RUN_FAILED, &err);
}
