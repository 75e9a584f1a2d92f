/* SPDX-License-Identifier: Apache-2.0 */

/* The programs of a run: the compile step, if there is one, then the program
 * itself. */

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/fail.h"
#include "engine/pool/prestart.h"
#include "engine/run/expand.h"
#include "engine/run/run.h"
#include "wire/weaken.h"

#define PIECE              (64u << 10)                 /* that watchers get at once */
#define LOOK_MS            1000                        /* whether a reader goes on */
#define RUN_NO_DEADLINE_MS (INT64_C(24) * 3600 * 1000) /* test builds only */

/* The program's stdin: the request's bytes, or the caller's descriptor. Either
 * is sent only within credit, so that a program which does not read costs no
 * memory. */

static bool input_is_live(const struct run *r)
{
    return r->watch->stdin_fd >= 0;
}

static void input_end(struct run *r)
{
    r->stdin_ended = true;
    loop_set(&r->talk.loop, r->stdin_slot, -1, 0);
}

static void feed_data(struct run *r)
{
    const struct blob *data = &r->plan->stdin_data;

    if (link_send_whole(r->talk.link, r->exec_channel, data->data, data->len,
                        &r->stdin_sent))
        input_end(r);
}

void input_feed(struct run *r)
{
    if (r->stdin_ended || run_is_compiling(r))
        return;
    if (!input_is_live(r))
        feed_data(r);
    else if (link_writable(r->talk.link, r->exec_channel) > 0)
        loop_set(&r->talk.loop, r->stdin_slot, r->watch->stdin_fd, POLLIN);
}

/* A program that took half its input for all of it would end well, with a wrong answer.
 */
static void give_up(struct run *r)
{
    struct vial_error err;

    (void)fail_sys(&err, "read the program's standard input");
    (void)fail_as(&err, VIAL_E_FILE);
    (void)fail_remedy(&err, "give it a file or a pipe, or '</dev/null'");
    run_fail(r, RUN_FAILED, &err);
}

void input_read(struct run *r)
{
    size_t room = link_writable(r->talk.link, r->exec_channel);
    ssize_t n;

    if (room == 0) { /* not even watched for its end until there is room */
        loop_set(&r->talk.loop, r->stdin_slot, -1, 0);
        return;
    }
    n = read(r->watch->stdin_fd, r->talk.buffer,
             room < r->talk.buffer_size ? room : r->talk.buffer_size);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n > 0) {
        link_send(r->talk.link, r->exec_channel, r->talk.buffer, (size_t)n);
        conversation_grow(&r->talk, (size_t)n);
        return;
    }
    /* nohup(1) leaves a descriptor that can only be written: there is no input. */
    if (n < 0 && errno != EBADF) {
        give_up(r);
        return;
    }
    link_send_eof(r->talk.link, r->exec_channel);
    input_end(r);
}

static bool has_input(const struct run *r)
{
    return !run_is_compiling(r) && (input_is_live(r) || r->plan->stdin_data.len > 0);
}

/* It has started, and only goes on now. The deadline is the host's alone: when it was
 * told its own, nobody knew of this run. */
static int queue_go(struct run *r, struct vial_error *err)
{
    r->exec_channel = r->waiting_channel;
    r->waiting_channel = 0;
    r->started = true;
    if (r->log.on)
        run_note_exec(r);
    return prestart_go(r->talk.link, r->exec_channel, r->plan, r->vessel, has_input(r),
                       err);
}

/* Where the kernel counts for the vessel, and nobody inside could trace the program and
 * see it stop. */
static bool may_tell_exit_early(const struct run *r)
{
    return r->stock && str_starts(r->vessel->limits_by, "cgroup") &&
           !str_eq(r->plan->seccomp, "debug");
}

static int queue_exec(struct run *r, int64_t wall_ms, struct vial_error *err)
{
    auto_program_step struct program_step step = { 0 };
    struct exec_message m;

    if (r->waiting_channel)
        return queue_go(r, err);
    if (expand_step(r->plan, r->vessel, run_is_compiling(r), &step, err) < 0)
        return -1;
    m = (struct exec_message){
        .argv = step.argv.items,
        .env = step.env.items,
        .cwd = step.cwd,
        .timeout_ms = (uint64_t)(wall_ms + RUN_GRACE_MS),
        .stdin_closed = !has_input(r),
        .end_on_full = strv_has(&r->plan->end_on, "disk"),
        .early_exit = may_tell_exit_early(r),
    };
    return link_exec(r->talk.link, &m, &r->exec_channel, err);
}

/* Of each step on its own. */
static void forget_output(struct run *r)
{
    outputs_begin(r->kept, r->plan);
    r->written = 0;
    r->owed[0] = r->owed[1] = 0;
}

void step_start(struct run *r)
{
    int64_t wall_ms = plan_wall_ms(r->plan, run_is_compiling(r));
    struct vial_error err = { 0 };

    forget_output(r);
    if (weaken("deadline"))
        wall_ms = RUN_NO_DEADLINE_MS;
    if (queue_exec(r, wall_ms, &err) < 0) {
        run_fail(r, RUN_FAILED, &err);
        return;
    }
    r->due_ns = run_set_due(r, wall_ms);
    if (has_input(r))
        input_feed(r);
}

static void tell(struct run *r, int stream, const void *data, size_t len)
{
    const struct vial_watch *w = r->watch;

    if (w->live_only)
        run_log_output(&r->log, stream, data, len);
    if (!w->output || r->muted || len == 0)
        return;
    if (w->output(w->context, stream, data, len) != 0) {
        r->muted = true;
        run_stop(r, RUN_CANCELLED);
    }
}

void step_output(struct run *r, int stream, const uint8_t *data, size_t len)
{
    struct output *o = &r->kept[stream - 1];
    size_t wanted = output_allowed(r->plan, r->written, len);
    size_t room = r->plan->stream_limited ? output_room(o) : wanted;

    /* What a compiler says matters only if it fails, so it is held back. */
    if (run_is_compiling(r) || !r->watch->live_only || r->plan->stream_limited)
        output_add(o, data, wanted);
    else
        o->total += wanted;
    if (!run_is_compiling(r))
        tell(r, stream, data, room < wanted ? room : wanted);
    r->written += wanted;
    if (wanted < len) {
        o->total += len - wanted;
        run_stop(r, RUN_OUTPUT);
    }
}

struct teller {
    struct run *run;
    int stream;
};

/* What a program left behind comes all at once: its reader is waited for, within the
 * program's own time. */
static void await_room(struct run *r)
{
    const struct vial_watch *w = r->watch;
    struct pollfd fds[] = { { .fd = w->room_fd, .events = POLLIN },
                            { .fd = w->cancel_fd, .events = POLLIN } };

    while (w->room && r->exited && !r->muted && !r->unheld && !w->room(w->context)) {
        r->unheld = clock_now_ns() >= r->due_ns;
        if (!r->unheld && poll(fds, 2, LOOK_MS) > 0)
            r->unheld = fds[1].revents != 0;
    }
}

static void tell_piece(void *context, const void *data, size_t len)
{
    const struct teller *t = context;
    const char *at = data;

    for (size_t part; len > 0; at += part, len -= part) {
        part = len < PIECE ? len : PIECE;
        await_room(t->run);
        tell(t->run, t->stream, at, part);
    }
}

/* What was held back of a stream with a limit, once it is known to be its end. */
void step_tell_rest(struct run *r)
{
    for (int i = 0; i < 2 && r->plan->stream_limited && !run_is_compiling(r); i++)
        output_rest(&r->kept[i], tell_piece, &(struct teller){ r, i + 1 });
}

static void tell_kept(struct run *r)
{
    for (int i = 0; i < 2; i++) {
        struct teller t = { r, i + 1 };

        output_head(&r->kept[i], tell_piece, &t);
        output_rest(&r->kept[i], tell_piece, &t);
    }
}

void step_exited(void *context, uint32_t channel, const struct exit_message *m)
{
    bool good = m->kind == EXIT_CODE && m->value == 0 && !m->timed_out;
    struct run *r = context;

    (void)channel;
    r->exec_channel = 0;
    if (run_is_compiling(r) && good && r->end == RUN_GOING) {
        forget_output(r);
        run_go_on(r);
        return;
    }
    r->exit = *m;
    r->exited = true;
    r->exited_ns = clock_now_ns();
    if (r->end != RUN_GOING)
        return; /* its last words, after it was killed */
    input_end(r);
    if (run_is_compiling(r)) {
        tell_kept(r);
        run_stop(r, RUN_EXITED);
        return;
    }
    run_go_on(r);
}

static bool lacks_interpreter(const struct run *r, const char *program, uint32_t step,
                              int error)
{
    return r->plan->language && !strchr(program, '{') && error == ENOENT &&
           (step == STEP_FIND || step == STEP_EXEC);
}

void step_failed(void *context, uint32_t channel, uint32_t step, int error)
{
    struct run *r = context;
    const char *program = expand_program(r->plan, r->vessel, run_is_compiling(r));
    bool in_image = expand_starts_in_image(r->plan, r->vessel);
    const struct start_failure f = {
        .program = program,
        .cwd = in_image ? r->vessel->cwd : r->plan->cwd,
        .cwd_of_image = in_image,
        .step = step,
        .error = error,
    };
    struct vial_error err = { 0 };

    (void)channel;
    r->exec_channel = 0;
    (void)start_fail(r->plan, &f, &err);
    if (lacks_interpreter(r, program, step, error))
        (void)fail_as(&err, VIAL_E_INTERPRETER);
    if (lacks_interpreter(r, program, step, error) && !r->plan->image)
        (void)fail_remedy(&err,
                          "install '%s' on this host, or run 'vial languages' to see "
                          "what is usable",
                          program);
    run_fail(r, RUN_FAILED, &err);
}
