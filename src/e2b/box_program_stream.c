/* SPDX-License-Identifier: Apache-2.0 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/auto.h"
#include "base/clock.h"
#include "e2b/box_program.h"

#define PIECE     (32u << 10)
#define LOOK_MS   20 /* how often the second stream is looked at */
#define CALM_MS   100
#define CALM_S    5   /* without output: it is looked at less often */
#define STREAMS   64u /* of one sandbox */
#define KEEPALIVE "{\"event\":{\"keepalive\":{}}}"

/* A stream of events, and how far it is. */
struct attached {
    struct attached *next; /* of the same program */
    struct connect_stream s;
    struct proc *p;
    uint64_t at[2];
    bool ended[2];
    int64_t output_ns; /* when the last came */
    char *buf;
};

static const char *stream_name(const struct proc *p, int i)
{
    return p->terminal ? "pty" : i == 0 ? "stdout" : "stderr";
}

/* One piece of a stream, if there is any. 1: there was one; -1: give up. */
static int forward(struct attached *x, int i, int64_t wait_ms)
{
    struct vial_chunk chunk = { 0 };
    struct vial_error err;

    if (x->ended[i])
        return 0;
    if (vial_exec_read(x->p->exec, i + 1, x->at[i], x->buf, PIECE, wait_ms, &chunk,
                       &err) < 0)
        return -1;
    x->ended[i] = chunk.end;
    if (chunk.len == 0)
        return 0;
    /* Who has gone was not given it: the next one gets it. */
    if (ask_is_gone(x->s.ask))
        return -1;
    x->at[i] = chunk.offset + chunk.len;
    x->output_ns = clock_now_ns();
    if (connect_send(&x->s,
                     json_pack("{s:{s:{s:o}}}", "event", "data", stream_name(x->p, i),
                               connect_bytes(x->buf, chunk.len))) < 0)
        return -1;
    (void)pthread_mutex_lock(&x->p->box->lock);
    if (x->p->sent[i] < x->at[i])
        x->p->sent[i] = x->at[i];
    (void)pthread_mutex_unlock(&x->p->box->lock);
    return 1;
}

/* Until both streams have ended; false: the client has gone. */
static bool follow(struct ask *a, struct attached *x)
{
    while (!x->ended[0] || !x->ended[1]) {
        bool calm = clock_ms_between(x->output_ns, clock_now_ns()) > CALM_S * 1000.0;
        int out = forward(x, 0, 0);
        int err = forward(x, 1, 0);

        if (out == 0 && err == 0)
            out = forward(x, x->ended[0] ? 1 : 0, calm ? CALM_MS : LOOK_MS);
        if (out < 0 || err < 0 || ask_is_gone(a) ||
            connect_keep_alive(&x->s, KEEPALIVE) < 0)
            return false;
    }
    return true;
}

static const char *signal_words(int number, char out[48])
{
    static const struct {
        int number;
        const char *words;
    } table[] = {
        { SIGHUP, "hangup" },
        { SIGINT, "interrupt" },
        { SIGQUIT, "quit" },
        { SIGABRT, "aborted" },
        { SIGKILL, "killed" },
        { SIGSEGV, "segmentation fault" },
        { SIGPIPE, "broken pipe" },
        { SIGTERM, "terminated" },
        { SIGFPE, "floating point exception" },
        { SIGBUS, "bus error" },
    };

    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++)
        if (table[i].number == number) {
            (void)snprintf(out, 48, "signal: %s", table[i].words);
            return out;
        }
    (void)snprintf(out, 48, "signal: signal %d", number);
    return out;
}

static json_t *end_json(const struct vial_exec_status *st)
{
    bool exited = st->exit_code >= 0 && !st->signal;
    char words[48];
    json_t *end;

    if (exited)
        (void)snprintf(words, sizeof(words), "exit status %d", st->exit_code);
    else
        (void)signal_words(st->signal ? st->signal : SIGKILL, words);
    end = json_pack("{s:i, s:b, s:s}", "exitCode", exited ? st->exit_code : -1,
                    "exited", exited, "status", words);
    if (end && !(exited && st->exit_code == 0))
        (void)json_object_set_new(end, "error", json_string(words));
    return json_pack("{s:{s:o}}", "event", "end", end);
}

/* What a client is told last. A sandbox that is gone has nothing more to say. */
static void finish(struct ask *a, struct attached *x)
{
    struct vial_exec_status st;
    struct connect_error e = { 0 };

    vial_exec_wait(x->p->exec, 5000, &st);
    if (!box_lives(a->box) || st.running || st.verdict == VIAL_CANCELLED) {
        connect_cut(&x->s);
        return;
    }
    if (st.verdict == VIAL_TIMEOUT)
        (void)connect_fail(&e, CONNECT_DEADLINE, "the command's time is over");
    else if (st.verdict == VIAL_FAILED)
        (void)connect_from(&e, &st.error);
    else
        (void)connect_send(&x->s, end_json(&st));
    connect_end(&x->s, e.message[0] ? &e : NULL);
}

/* With the lock held: whether somebody reads P's output now, and how many streams the
 * sandbox has. */
static bool is_read(const struct proc *p, unsigned *all)
{
    bool read = false;

    *all = 0;
    for (const struct proc *other = p->box->procs; other; other = other->next)
        for (const struct attached *x = other->streams; x; x = x->next) {
            ++*all;
            read = read || (other == p && !ask_is_gone(x->s.ask));
        }
    return read;
}

/* X is one of P's streams from now on. Beside another it sees what comes from now on;
 * alone, what nobody saw. -1: too many. */
static int join(struct proc *p, struct attached *x)
{
    struct vial_exec_status st;
    unsigned all;
    bool read;

    vial_exec_wait(p->exec, 0, &st);
    (void)pthread_mutex_lock(&p->box->lock);
    read = is_read(p, &all);
    x->at[0] = read ? st.stdout_bytes : p->sent[0];
    x->at[1] = read ? st.stderr_bytes : p->sent[1];
    if (all < STREAMS) {
        x->next = p->streams;
        p->streams = x;
    }
    (void)pthread_mutex_unlock(&p->box->lock);
    return all < STREAMS ? 0 : -1;
}

static void leave(struct proc *p, const struct attached *x)
{
    struct attached **at = &p->streams;

    (void)pthread_mutex_lock(&p->box->lock);
    while (*at != x)
        at = &(*at)->next;
    *at = x->next;
    (void)pthread_mutex_unlock(&p->box->lock);
}

void proc_attach(struct ask *a, struct proc *p)
{
    auto_free char *buf = malloc(PIECE);
    struct attached x = { .p = p, .buf = buf, .output_ns = clock_now_ns() };
    struct connect_error e;

    if (!buf || connect_start(&x.s, a) < 0)
        return;
    if (join(p, &x) < 0) {
        (void)connect_fail(&e, CONNECT_EXHAUSTED, "this sandbox has %u streams",
                           STREAMS);
        connect_end(&x.s, &e);
        return;
    }
    vial_exec_follow(p->exec, x.at);
    if (connect_send(&x.s, json_pack("{s:{s:{s:i}}}", "event", "start", "pid",
                                     (int)p->pid)) < 0 ||
        !follow(a, &x))
        connect_cut(&x.s);
    else
        finish(a, &x);
    vial_exec_unfollow(p->exec);
    leave(p, &x);
}
