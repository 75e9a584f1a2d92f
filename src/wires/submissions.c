/* SPDX-License-Identifier: Apache-2.0 */
#include "wires/submissions.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/fail.h"
#include "base/sys.h"
#include "base/thread.h"
#include "wires/verdict_words.h"
#include "wires/wires.h"

#define BYTES_MOST ((uint64_t)256 << 20)
#define COUNT_MOST 20000u

int submissions_init(struct submissions *s)
{
    thread_cond_init(&s->changed);
    s->closing_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    return s->closing_fd >= 0 && pthread_mutex_init(&s->lock, NULL) == 0 ? 0 : -1;
}

static void drop(struct submission *sub)
{
    judge0_asked_done(&sub->asked);
    json_decref(sub->entry_name);
    str_done(&sub->out);
    str_done(&sub->err);
    str_done(&sub->compile_output);
    free(sub);
}

void submissions_done(struct submissions *s)
{
    (void)eventfd_write(s->closing_fd, 1);
    (void)pthread_mutex_lock(&s->lock);
    while (s->running > 0)
        (void)pthread_cond_wait(&s->changed, &s->lock);
    (void)pthread_mutex_unlock(&s->lock);
    while (s->newest) {
        struct submission *next = s->newest->next;

        drop(s->newest);
        s->newest = next;
    }
    (void)close(s->closing_fd);
    (void)pthread_cond_destroy(&s->changed);
    (void)pthread_mutex_destroy(&s->lock);
}

static uint64_t weigh(const struct submission *sub)
{
    return sizeof(*sub) + sub->asked.source.len + sub->asked.stdin_data.len +
           sub->asked.expected.len + sub->asked.archive.len + sub->out.cap +
           sub->err.cap + sub->compile_output.cap;
}

/* With the lock held: whether OWNER has more than half of all there can be. */
static bool has_most(const struct submissions *s, const char *owner)
{
    uint64_t bytes = 0, count = 0;

    for (const struct submission *sub = s->newest; sub; sub = sub->next)
        if (strcmp(sub->owner, owner) == 0) {
            bytes += sub->bytes;
            count++;
        }
    return bytes > BYTES_MOST / 2 || count > COUNT_MOST / 2;
}

/* With the lock held: the oldest that has ended; OWNER NULL: anybody's. */
static struct submission *find_oldest(const struct submissions *s, const char *owner)
{
    struct submission *oldest = NULL;

    for (struct submission *sub = s->newest; sub; sub = sub->next)
        if (sub->ended_ns && sub->users == 0 &&
            (!owner || strcmp(sub->owner, owner) == 0))
            oldest = sub;
    return oldest;
}

/* With the lock held. */
static void forget(struct submissions *s, struct submission *sub)
{
    struct submission **at = &s->newest;

    while (*at != sub)
        at = &(*at)->next;
    *at = sub->next;
    s->bytes -= sub->bytes;
    drop(sub);
}

/* With the lock held: what of OWNER's cannot go yet. */
static uint64_t under_way(const struct submissions *s, const char *owner)
{
    uint64_t bytes = 0;

    for (const struct submission *sub = s->newest; sub; sub = sub->next)
        if (!sub->ended_ns && strcmp(sub->owner, owner) == 0)
            bytes += sub->bytes;
    return bytes;
}

/* With the lock held: the oldest that have ended go, until there is room for COUNT more
 * of BYTES; OWNER's own, if it has most of them. */
static bool forget_oldest(struct submissions *s, const char *owner, uint64_t bytes,
                          size_t count)
{
    for (const struct submission *sub = s->newest; sub; sub = sub->next)
        count++;
    while (s->bytes + bytes > BYTES_MOST || count > COUNT_MOST) {
        struct submission *oldest = find_oldest(s, has_most(s, owner) ? owner : NULL);

        if (!oldest)
            return false;
        forget(s, oldest);
        count--;
    }
    return true;
}

/* With the lock held. What waits or runs is at most half of all for one owner. */
static bool make_room(struct submissions *s, const char *owner, uint64_t bytes)
{
    return under_way(s, owner) + bytes <= BYTES_MOST / 2 &&
           forget_oldest(s, owner, bytes, 1);
}

/* A UUID of version 4. */
static void make_token(char out[37])
{
    unsigned char b[16] = { 0 };
    size_t at = 0;

    (void)sys_random(b, sizeof(b));
    b[6] = (unsigned char)((b[6] & 0x0f) | 0x40);
    b[8] = (unsigned char)((b[8] & 0x3f) | 0x80);
    for (size_t i = 0; i < sizeof(b); i++) {
        if (i == 4 || i == 6 || i == 8 || i == 10)
            out[at++] = '-';
        (void)snprintf(out + at, 3, "%02x", b[i]);
        at += 2;
    }
}

int submissions_add(struct call *c, struct judge0_asked *asked, const char *language,
                    struct submission **out)
{
    struct submissions *s = &c->serve->wires->submissions;
    struct submission *sub = calloc(1, sizeof(*sub));
    bool room;

    if (!sub)
        return -1;
    make_token(sub->token);
    (void)snprintf(sub->owner, sizeof(sub->owner), "%s", c->who.name);
    clock_stamp(sub->created, 3);
    sub->asked = *asked;
    sub->entry_name = json_string(language);
    sub->status = JUDGE0_QUEUED;
    sub->exit_code = -1;
    sub->users = 1;
    (void)pthread_mutex_lock(&s->lock);
    sub->bytes = weigh(sub);
    room = make_room(s, sub->owner, sub->bytes);
    if (room) {
        s->bytes += sub->bytes;
        sub->next = s->newest;
        s->newest = sub;
    }
    (void)pthread_mutex_unlock(&s->lock);
    if (!room) {
        json_decref(sub->entry_name);
        free(sub);
        return -1;
    }
    *asked = (struct judge0_asked){ 0 };
    *out = sub;
    return 0;
}

/* isolate's words. */
static void say(struct submission *sub, const struct stage *s)
{
    char *to = sub->message;
    size_t size = sizeof(sub->message);

    if (s->verdict == VIAL_NONZERO)
        (void)snprintf(to, size, "Exited with error status %d", s->exit_code);
    else if (s->verdict == VIAL_OOM)
        (void)snprintf(to, size, "Exited with error status 137");
    else if (s->verdict == VIAL_TIMEOUT)
        (void)snprintf(to, size, "Time limit exceeded (wall clock)");
    else if (s->verdict == VIAL_CPU_TIMEOUT)
        (void)snprintf(to, size, "Time limit exceeded");
    else if (s->verdict == VIAL_CANCELLED)
        (void)snprintf(to, size, "cancelled");
    else if (verdict_words[s->verdict].by == BY_OTHERS)
        (void)snprintf(to, size, "%s", s->error.message);
    else if (s->verdict != VIAL_OK)
        (void)snprintf(to, size, "Caught fatal signal %d", sub->exit_signal);
}

static void take_exit(struct submission *sub, const struct stage *s)
{
    switch (verdict_words[s->verdict].by) {
    case BY_EXIT:
        sub->exit_code = s->exit_code;
        break;
    case BY_SIGNAL:
        sub->exit_signal = s->signal;
        sub->exit_code = 128 + s->signal;
        break;
    case BY_KILL:
        sub->exit_signal = s->verdict == VIAL_OUTPUT_LIMIT ? 25 : 9;
        sub->exit_code = 128 + sub->exit_signal;
        break;
    case BY_DEADLINE:
    case BY_OTHERS:
        break;
    }
}

static void take_compiler(struct submission *sub, const struct stage *s)
{
    if (s->verdict == VIAL_TIMEOUT || s->verdict == VIAL_CPU_TIMEOUT)
        str_puts(&sub->compile_output, "Compilation time limit exceeded.");
    else
        str_add(&sub->compile_output, s->both.data ? s->both.data : "", s->both.len);
}

static void move(struct str *to, struct str *from)
{
    str_done(to);
    *to = *from;
    *from = (struct str){ 0 };
}

/* With the lock held. RUNS of it have been made, this one among them. */
static void take_outcome(struct submission *sub, struct outcome *o, unsigned runs)
{
    sub->status = judge0_judge(&sub->asked, o);
    str_done(&sub->compile_output);
    sub->compile_output = (struct str){ 0 };
    if (o->compile.there)
        take_compiler(sub, &o->compile);
    if (!o->run.there) {
        sub->timed = false;
        return;
    }
    move(&sub->out, &o->run.out);
    move(&sub->err, &o->run.err);
    take_exit(sub, &o->run);
    say(sub, &o->run);
    sub->timed = verdict_words[o->run.verdict].by != BY_OTHERS;
    sub->cpu_s += (o->run.cpu_ms / 1000 - sub->cpu_s) / runs;
    sub->wall_s += (o->run.wall_ms / 1000 - sub->wall_s) / runs;
    sub->memory_bytes = (sub->memory_bytes * (runs - 1) + o->run.memory_bytes) / runs;
}

static void set_status(struct submissions *s, struct submission *sub, int status)
{
    (void)pthread_mutex_lock(&s->lock);
    sub->status = status;
    (void)pthread_mutex_unlock(&s->lock);
}

static void end(struct submissions *s, struct submission *sub)
{
    (void)pthread_mutex_lock(&s->lock);
    clock_stamp(sub->finished, 3);
    sub->ended_ns = clock_now_ns();
    s->bytes -= sub->bytes;
    sub->bytes = weigh(sub);
    s->bytes += sub->bytes;
    (void)forget_oldest(s, sub->owner, 0, 0); /* it may have said much */
    (void)pthread_mutex_unlock(&s->lock);
}

/* With the lock held. */
static void fail_submission(struct submission *sub, const struct vial_error *err)
{
    sub->status = JUDGE0_INTERNAL;
    (void)snprintf(sub->message, sizeof(sub->message), "%s", err->message);
}

/* True: the next of its runs. */
static bool run_once(struct call *c, struct submission *sub,
                     const struct additional_files *files, unsigned number)
{
    struct submissions *s = &c->serve->wires->submissions;
    auto_outcome struct outcome o = { 0 };
    struct program p = { .call = c, .cancel_fd = s->closing_fd };
    struct vial_error err = { 0 };
    int rc = judge0_program(&sub->asked, files, &p, &err);
    bool more;

    if (rc == 0)
        rc = program_run(&p, &o, &err);
    (void)pthread_mutex_lock(&s->lock);
    if (rc == 0) {
        take_outcome(sub, &o, number);
    } else {
        fail_submission(sub, &err);
        sub->late = program_is_late(&err);
    }
    more = sub->status == JUDGE0_ACCEPTED &&
           number < (unsigned)sub->asked.limits[JUDGE0_RUNS];
    if (more)
        sub->status = JUDGE0_RUNNING;
    (void)pthread_mutex_unlock(&s->lock);
    vial_request_free(p.req);
    return more;
}

/* False: it has an archive that nothing can be made of, and has ended. */
static bool unpack(struct call *c, struct submission *sub, struct additional_files *out)
{
    struct submissions *s = &c->serve->wires->submissions;
    struct vial_error err = { 0 };

    if (!sub->asked.has_archive ||
        additional_files_unpack(c, s->closing_fd, &sub->asked.archive, out, &err) == 0)
        return true;
    (void)pthread_mutex_lock(&s->lock);
    fail_submission(sub, &err);
    (void)pthread_mutex_unlock(&s->lock);
    return false;
}

void submission_run(struct call *c, struct submission *sub)
{
    struct submissions *s = &c->serve->wires->submissions;
    auto_additional_files struct additional_files files = { 0 };
    unsigned number = 1;

    set_status(s, sub, JUDGE0_RUNNING);
    if (unpack(c, sub, &files))
        while (run_once(c, sub, &files, number))
            number++;
    end(s, sub);
}

/* A call that outlives the one that it came by. */
struct errand {
    struct call call;
    struct submission *sub;
    bool runs; /* it has to be run first */
};

/* Nobody waits to hear that it failed: the log has it. Only the host is said, as paths
 * have secrets. */
static void log_failed(struct call *c, const struct submission *sub,
                       const struct callback *to, const struct vial_error *err)
{
    log_line(&c->serve->log, "warn", "callback",
             json_pack("{s:s, s:s, s:s, s:s}", "submission", sub->token, "host",
                       to->peer.host, "port", to->peer.port, "error", err->message));
}

/* What it sends counts for its caller until it was sent. */
static void call_back(struct call *c, struct submission *sub)
{
    struct submissions *s = &c->serve->wires->submissions;
    struct gate *gate = &c->serve->gate;
    auto_free char *text = NULL;
    struct vial_error err = { 0 };
    struct callback to;
    uint64_t bytes = 2 * sub->bytes;
    bool paid;

    if (!callback_read(&c->serve->callbacks, sub->asked.callback_url, &to))
        return;
    paid = gate_take(gate, c->caller, GATE_BODIES, bytes);
    text = paid ? judge0_callback_text(s, sub) : NULL;
    if (!text)
        (void)fail(&err, VIAL_E_BUSY, "there is no memory left for it");
    if (!text || callback_put(&to, text, s->closing_fd, &err) < 0)
        log_failed(c, sub, &to, &err);
    if (paid)
        gate_give(gate, c->caller, GATE_BODIES, bytes);
}

static void finish(struct errand *e)
{
    struct serve *serve = e->call.serve;
    struct submissions *s = &serve->wires->submissions;

    submission_release(&e->call, e->sub);
    gate_give(&serve->gate, e->call.caller, GATE_REQUESTS, 1);
    serve_unuse(serve, e->call.gen);
    free(e);
    (void)pthread_mutex_lock(&s->lock);
    s->running--;
    (void)pthread_cond_broadcast(&s->changed);
    (void)pthread_mutex_unlock(&s->lock);
}

static void *work(void *context)
{
    struct errand *e = context;

    if (e->runs)
        submission_run(&e->call, e->sub);
    if (e->sub->asked.callback_url)
        call_back(&e->call, e->sub);
    finish(e);
    return NULL;
}

/* What never ran ends as well: it could not go otherwise. */
static int give_up(struct submissions *s, struct submission *sub)
{
    set_status(s, sub, JUDGE0_INTERNAL);
    end(s, sub);
    return -1;
}

static int send_off(struct call *c, struct submission *sub, bool runs)
{
    struct submissions *s = &c->serve->wires->submissions;
    struct errand *e = calloc(1, sizeof(*e));

    if (!e || !gate_take(&c->serve->gate, c->caller, GATE_REQUESTS, 1)) {
        free(e);
        return -1;
    }
    e->sub = sub;
    e->runs = runs;
    e->call = (struct call){ .serve = c->serve,
                             .gen = serve_use(c->serve),
                             .who = c->who,
                             .caller = c->caller };
    (void)snprintf(e->call.id, sizeof(e->call.id), "%s", sub->token);
    (void)pthread_mutex_lock(&s->lock);
    sub->users++;
    s->running++;
    (void)pthread_mutex_unlock(&s->lock);
    if (thread_start_alone(THREAD_STACK, work, e) == 0)
        return 0;
    finish(e);
    return -1;
}

int submission_start(struct call *c, struct submission *sub)
{
    return send_off(c, sub, true) == 0 ? 0
                                       : give_up(&c->serve->wires->submissions, sub);
}

void submission_call_back(struct call *c, struct submission *sub)
{
    struct vial_error err = { 0 };
    struct callback to;

    if (!sub->asked.callback_url || send_off(c, sub, false) == 0 ||
        !callback_read(&c->serve->callbacks, sub->asked.callback_url, &to))
        return;
    (void)fail(&err, VIAL_E_BUSY, "its caller has too many requests under way");
    log_failed(c, sub, &to, &err);
}

struct submission *submissions_find(struct call *c, const char *token)
{
    struct submissions *s = &c->serve->wires->submissions;
    struct submission *sub;

    (void)pthread_mutex_lock(&s->lock);
    for (sub = s->newest; sub; sub = sub->next)
        if (!sub->deleted && strcmp(sub->token, token) == 0 &&
            strcmp(sub->owner, c->who.name) == 0)
            break;
    if (sub)
        sub->users++;
    (void)pthread_mutex_unlock(&s->lock);
    return sub;
}

void submission_release(struct call *c, struct submission *sub)
{
    struct submissions *s = &c->serve->wires->submissions;

    (void)pthread_mutex_lock(&s->lock);
    sub->users--;
    if (sub->deleted && sub->users == 0)
        forget(s, sub);
    (void)pthread_mutex_unlock(&s->lock);
}

bool submission_delete(struct call *c, struct submission *sub)
{
    struct submissions *s = &c->serve->wires->submissions;
    bool good;

    (void)pthread_mutex_lock(&s->lock);
    good = sub->ended_ns != 0;
    sub->deleted = sub->deleted || good;
    (void)pthread_mutex_unlock(&s->lock);
    return good;
}

size_t submissions_list(struct call *c, size_t from, size_t most,
                        struct submission **out, size_t *got)
{
    struct submissions *s = &c->serve->wires->submissions;
    size_t count = 0;

    *got = 0;
    (void)pthread_mutex_lock(&s->lock);
    for (struct submission *sub = s->newest; sub; sub = sub->next) {
        if (sub->deleted || strcmp(sub->owner, c->who.name) != 0)
            continue;
        if (count++ >= from && *got < most) {
            sub->users++;
            out[(*got)++] = sub;
        }
    }
    (void)pthread_mutex_unlock(&s->lock);
    return count;
}
