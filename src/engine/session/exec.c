/* SPDX-License-Identifier: Apache-2.0 */

/* The programs of a session: what is sent to start one, and what becomes of it. */

#include <ctype.h>
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/fail.h"
#include "base/path.h"
#include "engine/record/audit_events.h"
#include "engine/run/expand.h"
#include "engine/run/network_account.h"
#include "engine/session/session.h"
#include "model/field_type.h"
#include "model/result.h"

#define LOST_MS      5000 /* after a kill; then the guest counts as stuck */
#define TERMINAL_MAX 4096u
#define STRING_MAX   ((size_t)128 << 10)
#define EXEC_MAX     ((size_t)1 << 20)

static int fail_large(struct vial_error *err, const char *what, size_t most)
{
    (void)fail(err, VIAL_E_VALUE, "%s of the exec: more than %zu bytes", what, most);
    return fail_remedy(err, "pass large data as stdin or files");
}

static int measure(const struct strv *list, const char *what, size_t *total,
                   struct vial_error *err)
{
    if (!strv_ok(list))
        return fail_memory(err);
    for (size_t i = 0; i < list->count; i++) {
        size_t len = strlen(list->items[i]) + 1;

        if (len > STRING_MAX)
            return fail_large(err, what, STRING_MAX - 1);
        *total += len + sizeof(char *);
        if (*total > EXEC_MAX)
            return fail_large(err, what, EXEC_MAX);
    }
    return 0;
}

/* As container engines do, with what the session's image has. */
static int make_images_argv(const struct vial_session *s,
                            const struct vial_exec_options *o, struct strv *out,
                            struct vial_error *err)
{
    const struct vessel *v = s->vessel;

    if (o->shell)
        return fail(err, VIAL_E_VALUE,
                    "start an exec: an entrypoint takes no shell line");
    strv_copy(out, &v->entrypoint);
    for (size_t i = 0; o->argv && o->argv[i] && !out->failed; i++)
        strv_push(out, o->argv[i]);
    if (!o->argv || !o->argv[0])
        strv_copy(out, &v->cmd);
    if (out->failed || (out->count > 0 && *out->items[0]))
        return 0;
    (void)fail(err, VIAL_E_VALUE,
               "start an exec: the session has no image with a program "
               "of its own");
    return fail_remedy(err, "give a command");
}

static int make_argv(const struct vial_session *s, const struct vial_exec_options *o,
                     struct strv *out, struct vial_error *err)
{
    bool has_argv = o->argv && o->argv[0];

    if (o->entrypoint)
        return make_images_argv(s, o, out, err);
    if (has_argv == (o->shell != NULL))
        return fail(err, VIAL_E_VALUE,
                    "start an exec: give either argv or a shell line");
    if (o->shell) {
        strv_push(out, "/bin/sh");
        strv_push(out, "-c");
        strv_push(out, o->shell);
        return 0;
    }
    if (!*o->argv[0])
        return fail(err, VIAL_E_VALUE, "start an exec: argv names no program");
    for (size_t i = 0; o->argv[i] && !out->failed; i++)
        strv_push(out, o->argv[i]);
    return 0;
}

static bool is_name(const char *entry, size_t len)
{
    if (len == 0 || isdigit((unsigned char)entry[0]) || entry[len] != '=')
        return false;
    for (size_t i = 0; i < len; i++)
        if (!isalnum((unsigned char)entry[i]) && entry[i] != '_')
            return false;
    return true;
}

static int make_env(const struct vial_session *s, const struct vial_exec_options *o,
                    struct strv *out, struct vial_error *err)
{
    expand_env(s->plan, s->vessel, out);
    if (o->correlation && field_put_env(out, "VIAL_REQUEST_ID",
                                        strlen("VIAL_REQUEST_ID"), o->correlation) < 0)
        return fail_memory(err);
    for (size_t i = 0; o->env && o->env[i]; i++) {
        size_t len = strcspn(o->env[i], "=");

        if (!is_name(o->env[i], len)) {
            (void)fail(err, VIAL_E_VALUE, "env entry %zu of the exec is not NAME=VALUE",
                       i);
            return fail_remedy(err, "use letters, digits and '_', and no digit first");
        }
        if (field_put_env(out, o->env[i], len, o->env[i] + len + 1) < 0)
            return fail_memory(err);
    }
    return 0;
}

/* Relative ones are below the workdir. The guest judges where it really leads. */
static int make_cwd(const struct vial_session *s, const struct vial_exec_options *o,
                    char **out, struct vial_error *err)
{
    const char *cwd = o->cwd ? o->cwd : s->plan->cwd;
    auto_free char *whole = NULL;

    if (o->entrypoint && !o->cwd && s->vessel->cwd) { /* as container engines do */
        *out = strdup(s->vessel->cwd);
        return *out ? 0 : fail_memory(err);
    }
    whole = *cwd == '/' ? strdup(cwd) : path_join(s->plan->workdir, cwd);
    if (!whole)
        return fail_memory(err);
    if (!path_is_clean_absolute(whole)) {
        (void)fail(err, VIAL_E_CWD, "enter directory '%s': not a plain path", cwd);
        return fail_remedy(err, "leave out '.', '..' and double slashes");
    }
    *out = expand_cwd(s->plan, s->vessel, whole);
    return *out ? 0 : fail_memory(err);
}

static int check_timeout(const struct vial_session *s,
                         const struct vial_exec_options *o, int64_t *out,
                         struct vial_error *err)
{
    int64_t most = s->plan->limits.wall_ms;

    if (o->timeout_ms < 0)
        return fail(err, VIAL_E_VALUE, "timeout %" PRId64 " ms of the exec is negative",
                    o->timeout_ms);
    if (o->timeout_ms > most) {
        (void)fail(err, VIAL_E_CAP,
                   "timeout %" PRId64 " ms of the exec exceeds the session's %" PRId64
                   " ms",
                   o->timeout_ms, most);
        return fail_remedy(err, "open the session with a larger 'timeout'");
    }
    *out = o->timeout_ms ? o->timeout_ms : most;
    return 0;
}

int exec_check_size(unsigned rows, unsigned columns, struct vial_error *err)
{
    if (rows > 0 && columns > 0 && rows <= TERMINAL_MAX && columns <= TERMINAL_MAX)
        return 0;
    return fail(err, VIAL_E_VALUE,
                "a terminal of %u rows and %u columns is not in 1 … %u", rows, columns,
                TERMINAL_MAX);
}

/* What a program needs to know of its terminal. */
static int make_terminal(struct vial_exec *x, const struct vial_exec_options *o,
                         struct strv *env, struct vial_error *err)
{
    if (o->rows == 0 && o->columns == 0)
        return 0;
    x->terminal = true;
    if (strv_has(env, "TERM=dumb") && field_put_env(env, "TERM", 4, "xterm") < 0)
        return fail_memory(err);
    return exec_check_size(o->rows, o->columns, err);
}

/* The guest judges it again, by what it was told of its jail. */
int session_check_root(const struct vial_session *s, struct vial_error *err)
{
    if (s->plan->root.sudo || s->plan->root.as_root)
        return 0;
    (void)fail(err, VIAL_E_UNSUPPORTED, "programs of this session cannot be root");
    return fail_remedy(err, "open it with an image, 'root_mode: rw' and 'sudo: "
                            "nopasswd', as a root's vessel");
}

static uint64_t kills_in(const struct vial_session *s)
{
    struct vessel_usage u = { 0 };

    s->driver->usage(s->vessel, &u);
    return u.oom_kills;
}

static int queue(struct vial_exec *x, const struct vial_exec_options *o, bool lasting,
                 struct vial_error *err)
{
    struct vial_session *s = x->session;
    auto_strv struct strv argv = { 0 };
    auto_strv struct strv env = { 0 };
    struct exec_message m;
    int64_t timeout_ms = 0;
    size_t total = 0;

    if ((o->as_root && session_check_root(s, err) < 0) ||
        check_timeout(s, o, &timeout_ms, err) < 0 || make_argv(s, o, &argv, err) < 0 ||
        make_env(s, o, &env, err) < 0 || make_terminal(x, o, &env, err) < 0 ||
        measure(&argv, "argv", &total, err) < 0 ||
        measure(&env, "env", &total, err) < 0 || make_cwd(s, o, &x->cwd, err) < 0)
        return -1;
    x->program = strdup(argv.count ? argv.items[0] : "");
    x->correlation = o->correlation ? strdup(o->correlation) : NULL;
    if (!x->program || (o->correlation && !x->correlation) ||
        blob_set(&x->input, o->stdin_data, o->stdin_len) < 0)
        return fail_memory(err);
    x->live = o->stdin_live;
    m = (struct exec_message){ .argv = argv.items,
                               .env = env.items,
                               .cwd = x->cwd,
                               .timeout_ms =
                                   lasting ? 0 : (uint64_t)(timeout_ms + RUN_GRACE_MS),
                               .stdin_closed = !x->live && x->input.len == 0,
                               .terminal = o->rows << 16 | o->columns,
                               .apart = 1 };
    if (record_exec_begin(x, &argv, err) < 0)
        return -1;
    if (s->vessel && engine_counts_kills(s->vessel))
        x->oom_before = kills_in(s);
    x->begun_ns = clock_now_ns();
    x->deadline_ns = lasting ? SESSION_NEVER : x->begun_ns + timeout_ms * 1000000;
    if (o->as_root)
        link_root(s->talk.link);
    return link_exec(s->talk.link, &m, &x->channel, err);
}

int exec_new(struct vial_session *s, const struct vial_exec_options *o, bool lasting,
             struct vial_exec **out, struct vial_error *err)
{
    struct vial_exec *x;

    if (s->running >= SESSION_EXECS)
        return fail(err, VIAL_E_BUSY, "start an exec: %u are running", s->running);
    if (o->stdin_live && o->stdin_len > 0)
        return fail(err, VIAL_E_VALUE, "start an exec: stdin is either whole or live");
    x = calloc(1, sizeof *x);
    if (!x)
        return fail_memory(err);
    x->session = s;
    x->number = s->report.execs + 1;
    x->lost_ns = SESSION_NEVER;
    x->status.running = true;
    x->status.exit_code = -1;
    x->lasting = lasting;
    exec_output_init(x);
    if (queue(x, o, lasting, err) < 0) {
        exec_release(x);
        return -1;
    }
    x->ended = o->ended;
    x->context = o->context;
    x->next = s->execs;
    s->execs = x;
    s->running++;
    s->report.execs++;
    if (x->input.len > 0)
        exec_feed(x);
    *out = x;
    return 0;
}

int exec_start(struct vial_session *s, const struct vial_exec_options *o, bool lasting,
               struct vial_exec **out, struct vial_error *err)
{
    int rc;

    session_lock(s);
    rc = session_touch(s, err);
    if (rc == 0)
        rc = exec_new(s, o, lasting, out, err);
    if (rc == 0) {
        session_flush(s);
        if ((*out)->deadline_ns < s->wakes_ns)
            session_wake(s);
    }
    session_unlock(s);
    return rc;
}

struct vial_exec *exec_find(const struct vial_session *s, uint32_t channel)
{
    struct vial_exec *x = s->execs;

    while (x && x->channel != channel)
        x = x->next;
    return x;
}

void exec_feed(struct vial_exec *x)
{
    if (link_send_whole(x->session->talk.link, x->channel, x->input.data, x->input.len,
                        &x->input_sent))
        blob_done(&x->input);
}

void exec_kill(struct vial_exec *x, enum run_end why)
{
    if (x->end == RUN_GOING)
        x->end = why;
    (void)exec_output_release(x); /* what it wrote last would wait for a reader */
    link_signal(x->session->talk.link, x->channel, SIGKILL, true);
    x->deadline_ns = SESSION_NEVER;
    x->lost_ns = clock_now_ns() + (int64_t)LOST_MS * 1000000;
}

/* Its end is judged, and recorded. */
static void settle(struct vial_exec *x, const struct evidence *e)
{
    struct judgement j = judge(e);

    x->status.verdict = j.verdict;
    x->status.exit_code = j.exit_code;
    x->status.signal = j.signal;
    x->limits_hit = j.limits_hit;
    x->status.running = false;
    x->status.duration_ms = clock_ms_between(x->begun_ns, clock_now_ns());
    record_exec_end(x);
}

static void tell_end(struct vial_exec *x)
{
    if (x->ended)
        x->ended(x->context);
    x->ended = NULL;
}

static void end(struct vial_exec *x, const struct evidence *e)
{
    struct vial_session *s = x->session;

    x->channel = 0;
    x->live = false;
    exec_output_end(x);
    blob_done(&x->input);
    settle(x, e);
    s->running--;
    s->active_ns = clock_now_ns();
    s->news = true;
    tell_end(x);
}

/* How many kills for memory there were since X began, and no other program died of; the
 * guest's word M where the kernel's count is not ours to read. There asking costs, and
 * only a SIGKILL that was not ours can be one for memory. */
static uint64_t count_oom(const struct vial_exec *x, const struct exit_message *m)
{
    struct vial_session *s = x->session;
    uint64_t before = x->oom_before > s->oom_seen ? x->oom_before : s->oom_seen;
    bool counts = engine_counts_kills(s->vessel), killed = exit_was_killed(m);
    uint64_t kills, rose;

    if (!counts && !killed)
        return 0;
    kills = kills_in(s);
    rose = kills > before ? kills - before : 0;
    if (killed)
        s->oom_seen = kills;
    return rose || counts ? rose : m->oom;
}

void exec_exited(struct vial_exec *x, const struct exit_message *m)
{
    struct evidence e = {
        .end = x->end == RUN_GOING ? RUN_EXITED : x->end,
        .exit = m,
        .exited_ns = clock_now_ns(),
        .due_ns = x->overdue ? 0 : x->deadline_ns,
        .limits_by = x->session->report.limits_by,
        .cut = x->collected &&
               (output_is_cut(&x->collected[0]) || output_is_cut(&x->collected[1])),
    };

    if (e.end == RUN_EXITED && x->session->vessel)
        e.oom_kills = count_oom(x, m);
    x->status.cpu_user_ms = (double)m->user_us / 1000.0;
    x->status.cpu_system_ms = (double)m->system_us / 1000.0;
    x->status.memory_peak_bytes = m->max_rss_bytes;
    x->status.network_refused = m->net_refused;
    if (x->session->vessel)
        x->network = network_account(x->session->vessel->gate_fd, true);
    x->status.network = e.network = x->network;
    x->alive = m->alive;
    end(x, &e);
}

void exec_failed(struct vial_exec *x, uint32_t step, int error)
{
    const struct start_failure f = {
        .program = x->program, .cwd = x->cwd, .step = step, .error = error
    };

    (void)start_fail(x->session->plan, &f, &x->status.error);
    end(x, &(struct evidence){ .end = RUN_FAILED });
}

/* Its caller or its lease may have ended the session, or a fault. */
void exec_ended(struct vial_exec *x, const struct vial_error *err)
{
    const struct vial_session *s = x->session;
    bool lost = s->outcome == VIAL_SESSION_FAILED && s->error.code[0];
    struct evidence e = { .end = lost ? RUN_FAILED : RUN_CANCELLED };

    if (s->cpu_spent)
        e.end = RUN_CPU;
    else
        x->status.error = *err;
    end(x, &e);
}

int64_t exec_check_time(struct vial_exec *x, int64_t now_ns)
{
    struct vial_error err = { 0 };
    int64_t next;

    if (!x->channel)
        return SESSION_NEVER;
    if (now_ns >= x->deadline_ns && !x->overdue && exec_output_release(x)) {
        /* It may be over but for what its reader did not take; the guest knows. */
        x->overdue = true;
        x->deadline_ns = now_ns + (int64_t)RUN_GRACE_MS * 1000000;
    } else if (now_ns >= x->deadline_ns) {
        exec_kill(x, RUN_WALL);
    }
    if (now_ns >= x->lost_ns) {
        (void)fail(&err, VIAL_E_GUEST, "kill '%s': the guest is stuck", x->program);
        session_end(x->session, VIAL_SESSION_FAILED, &err);
    }
    next = exec_output_check(x, now_ns);
    next = next < x->deadline_ns ? next : x->deadline_ns;
    return next < x->lost_ns ? next : x->lost_ns;
}

void exec_release(struct vial_exec *x)
{
    /* What has begun has an end, though it was not sent, or nobody waits for it. */
    if (x->status.running && x->begun_ns)
        settle(x, &(struct evidence){ .end = x->channel ? RUN_CANCELLED : RUN_FAILED });
    tell_end(x);
    for (int i = 0; i < 2; i++)
        spool_done(&x->spool[i]);
    blob_done(&x->input);
    free(x->program);
    free(x->cwd);
    free(x->correlation);
    network_free(x->network);
    free(x);
}
