/* SPDX-License-Identifier: Apache-2.0 */

/* The host's side of runtimes/context.*: frames of JSON over an exec's stdin and
 * stdout. They come from inside the vessel, hence bounds on everything. */

#include "engine/session/context.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/fail.h"
#include "base/io.h"
#include "base/json.h"
#include "base/path.h"
#include "engine/session/cell.h"

#define FRAME_MAX   (32u << 20)
#define HARNESS_MAX (100u << 10) /* it travels as one argument */

/* By the ending of a language's files: what runs the harness, and what makes an
 * argument a program of it. NULL: the language's own interpreter. Node's own parser of
 * JavaScript is among what it calls its internals. */
static const struct harness {
    const char *ending, *file, *program;
    const char *flags[3];
    const char *kind;  /* its argument, or NULL */
    const char *wants; /* what to install where it says that something is missing */
} harnesses[] = {
    { ".py", "runtimes/context.py", NULL, { "-c" }, NULL, NULL },
    { ".js", "runtimes/context.js", NULL, { "--expose-internals", "-e" }, NULL, NULL },
    { ".mjs", "runtimes/context.js", NULL, { "--expose-internals", "-e" }, NULL, NULL },
    { ".ts",
      "runtimes/context.js",
      NULL,
      { "--expose-internals", "-e" },
      "typescript",
      "have Node 22.13 or later there, or the npm package 'typescript', globally or "
      "below the working directory" },
    { ".bash",
      "runtimes/context_other.py",
      "python3",
      { "-c" },
      "bash",
      "install bash" },
    { ".R", "runtimes/context_other.py", "python3", { "-c" }, "r", "install R" },
    { ".java",
      "runtimes/context_other.py",
      "python3",
      { "-c" },
      "java",
      "have a JDK of 11 or later there, JShell included" },
};

static const struct harness *harness_for(const struct language *language)
{
    const char *dot = strrchr(language->file, '.');

    for (size_t i = 0; dot && i < sizeof(harnesses) / sizeof(harnesses[0]); i++)
        if (str_eq(dot, harnesses[i].ending))
            return &harnesses[i];
    return NULL;
}

static int read_harness(struct vial_context *c, struct vial_error *err)
{
    const char *share = c->session->engine->settings->share_dir;
    auto_free char *path = NULL;
    struct blob text = { 0 };

    c->how = harness_for(c->language);
    if (!c->how) {
        (void)fail(err, VIAL_E_UNSUPPORTED, "open a context of '%s': there is none",
                   c->language->name);
        return fail_remedy(err, "use python, node, typescript, bash, r or java");
    }
    path = path_join(share, c->how->file);
    if (!path)
        return fail_memory(err);
    if (io_read_file(path, HARNESS_MAX, &text, err) < 0)
        return -1;
    c->harness = text.data;
    return 0;
}

static int launch(struct vial_context *c, struct vial_error *err)
{
    const struct harness *how = c->how;
    const char *argv[6] = { how->program ? how->program
                                         : c->language->run_argv.items[0] };
    const struct vial_exec_options o = {
        .argv = argv,
        .env = (const char *const *)c->language->env.items,
        .stdin_live = true
    };
    size_t n = 1;

    for (const char *const *flag = how->flags; *flag; flag++)
        argv[n++] = *flag;
    argv[n++] = c->harness;
    argv[n] = how->kind;
    return exec_start(c->session, &o, true, &c->exec, err);
}

/* Its interpreter is not there, or lacks what reads the language. */
static int fail_missing(struct vial_context *c, struct vial_error *err)
{
    c->stage = LIFE_ENDED;
    (void)fail(err, VIAL_E_INTERPRETER,
               "what reads the language '%s' is not installed in the vessel",
               c->language->name);
    return fail_remedy(err, "%s", c->how->wants ? c->how->wants : "install it");
}

/* The interpreter's end, in words. */
static int fail_dead(struct vial_context *c, struct vial_error *err)
{
    struct vial_exec_status st;

    c->stage = LIFE_ENDED;
    if (!c->exec)
        return fail(err, VIAL_E_CONTEXT, "the interpreter of '%s' did not start again",
                    c->language->name);
    vial_exec_wait(c->exec, 1000, &st);
    if (st.error.code[0]) {
        if (err)
            *err = st.error;
        if (st.error.sys == ENOENT && c->how->wants && !c->how->program)
            return fail_missing(c, err);
        if (st.error.sys == ENOENT)
            return fail_as(err, VIAL_E_INTERPRETER);
        return -1;
    }
    (void)fail(err, VIAL_E_CONTEXT, "the interpreter of '%s' has ended",
               c->language->name);
    if (st.running)
        (void)fail_cause(err, "it closed its stdout");
    else if (st.signal)
        (void)fail_cause(err, "signal %d", st.signal);
    else
        (void)fail_cause(err, "exit code %d", st.exit_code);
    return fail_remedy(err, "restart the context");
}

int context_nonsense(struct vial_context *c, const char *why, struct vial_error *err)
{
    c->stage = LIFE_ENDED;
    (void)fail(err, VIAL_E_CONTEXT, "read from the interpreter of '%s': %s",
               c->language->name, why);
    return fail_remedy(err, "restart the context");
}

/* The first whole frame of what has come: 1, 0 for none yet, -1. */
static int take_frame(struct vial_context *c, json_t **out, struct vial_error *err)
{
    const unsigned char *b = (const unsigned char *)c->bytes.data;
    struct vial_error why = { 0 };
    size_t len;

    if (c->bytes.len < 4)
        return 0;
    len = (size_t)b[0] << 24 | (size_t)b[1] << 16 | (size_t)b[2] << 8 | b[3];
    if (len > FRAME_MAX)
        return context_nonsense(c, "a frame is too large", err);
    if (c->bytes.len < 4 + len)
        return 0;
    if (json_parse(c->bytes.data + 4, len, "cell", out, &why) < 0)
        return context_nonsense(c, "a frame is not JSON", err);
    c->frame = len;
    c->bytes.len -= 4 + len;
    memmove(c->bytes.data, c->bytes.data + 4 + len, c->bytes.len);
    return 1;
}

/* Reads on, until UNTIL_NS: 1 when more has come, 0 when that moment has. */
static int read_more(struct vial_context *c, int64_t until_ns, struct vial_error *err)
{
    auto_free char *buf = malloc(CONTEXT_PIECE);
    int64_t left_ms = (until_ns - clock_now_ns() + 999999) / 1000000;
    struct vial_chunk chunk;

    if (!buf)
        return fail_memory(err);
    if (vial_exec_read(c->exec, 1, c->at, buf, CONTEXT_PIECE, left_ms > 0 ? left_ms : 0,
                       &chunk, err) < 0)
        return -1;
    if (chunk.gap > 0)
        return context_nonsense(c, "it wrote more than could be kept", err);
    c->at += chunk.len;
    str_add(&c->bytes, buf, chunk.len);
    if (c->bytes.failed)
        return fail_memory(err);
    if (chunk.len == 0 && chunk.end)
        return fail_dead(c, err);
    return chunk.len > 0;
}

int context_next(struct vial_context *c, int64_t until_ns, json_t **out,
                 struct vial_error *err)
{
    int rc;

    while ((rc = take_frame(c, out, err)) == 0) {
        rc = read_more(c, until_ns, err);
        if (rc <= 0)
            return rc;
    }
    return rc;
}

bool context_is_kind(const json_t *frame, const char *kind)
{
    const char *text = json_string_value(json_object_get(frame, "kind"));

    return text && strcmp(text, kind) == 0;
}

static int await_ready(struct vial_context *c, struct vial_error *err)
{
    auto_json json_t *frame = NULL;
    int rc = context_next(c, clock_now_ns() + (int64_t)CONTEXT_WAIT_MS * 1000000,
                          &frame, err);

    if (rc == 0)
        return context_nonsense(c, "it does not become ready", err);
    if (rc < 0)
        return -1;
    if (context_is_kind(frame, "missing"))
        return fail_missing(c, err);
    return context_is_kind(frame, "ready")
               ? 0
               : context_nonsense(c, "it is not ready", err);
}

/* Its life, from the begin. */
static int begin(struct vial_context *c, struct vial_error *err)
{
    int rc;

    vial_exec_free(ptr_take(&c->exec));
    c->at = 0;
    c->bytes.len = 0;
    c->stage = LIFE_RUN;
    rc = launch(c, err);
    if (rc == 0)
        rc = await_ready(c, err);
    if (rc < 0)
        c->stage = LIFE_ENDED;
    return rc;
}

static int find_language(struct vial_context *c, const char *name,
                         struct vial_error *err)
{
    const struct settings *settings = c->session->engine->settings;

    if (language_find(&settings->languages, name, &c->language, err) < 0)
        return -1;
    if (session_check_profile(c->session, c->language, err) < 0)
        return -1;
    return policy_check_list(&settings->policy, POLICY_ID_languages, "language",
                             c->language->name, err);
}

int vial_context_open(struct vial_session *session, const char *language,
                      struct vial_context **out, struct vial_error *err)
{
    struct vial_context *c = calloc(1, sizeof *c);

    if (!c)
        return fail_memory(err);
    c->session = session;
    if (find_language(c, language, err) < 0 || read_harness(c, err) < 0 ||
        begin(c, err) < 0) {
        vial_context_close(c);
        return -1;
    }
    *out = c;
    return 0;
}

static int enter(struct vial_context *c, struct vial_error *err)
{
    int rc;

    session_lock(c->session);
    rc = session_touch(c->session, err);
    if (rc == 0 && c->busy)
        rc = fail(err, VIAL_E_BUSY, "run a cell: another one is running");
    if (rc == 0)
        c->busy = true;
    session_unlock(c->session);
    return rc;
}

static void leave(struct vial_context *c)
{
    session_lock(c->session);
    c->busy = false;
    session_unlock(c->session);
}

int vial_context_run(struct vial_context *context, const char *code, size_t len,
                     int64_t timeout_ms, char **json, struct vial_error *err)
{
    return vial_context_watch(context, code, len, timeout_ms, NULL, json, err);
}

/* NOLINTNEXTLINE(readability-function-size): code, its time, and who follows it */
int vial_context_watch(struct vial_context *context, const char *code, size_t len,
                       int64_t timeout_ms, const struct vial_watch *watch, char **json,
                       struct vial_error *err)
{
    int64_t most = context->session->plan->limits.wall_ms;
    struct cell cell = { .watch = watch };
    int rc;

    if (timeout_ms < 0 || timeout_ms > most) {
        (void)fail(err, VIAL_E_CAP,
                   "timeout %" PRId64 " ms of the cell is not in 0 … %" PRId64,
                   timeout_ms, most);
        return fail_remedy(err, "open the session with a larger 'timeout'");
    }
    if (enter(context, err) < 0)
        return -1;
    cell.deadline_ns = clock_now_ns() + (timeout_ms ? timeout_ms : most) * 1000000;
    cell.slept_ns = session_slept_ns(context->session);
    if (context->stage == LIFE_ENDED)
        rc = fail_dead(context, err);
    else
        rc = cell_run(context, &cell, code, len, json, err);
    leave(context);
    return rc;
}

int vial_context_interrupt(struct vial_context *context, struct vial_error *err)
{
    return context->exec ? vial_exec_signal(context->exec, SIGINT, false, err)
                         : fail_dead(context, err);
}

int vial_context_restart(struct vial_context *context, struct vial_error *err)
{
    int rc;

    if (enter(context, err) < 0)
        return -1;
    rc = begin(context, err);
    leave(context);
    return rc;
}

void vial_context_close(struct vial_context *context)
{
    if (!context)
        return;
    vial_exec_free(context->exec);
    str_done(&context->bytes);
    free(context->harness);
    free(context);
}
