/* SPDX-License-Identifier: Apache-2.0 */
#include "mcp/stdio.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/fail.h"
#include "base/io.h"
#include "base/json.h"
#include "base/thread.h"
#include "model/result.h"

#define LINE_MAX_BYTES (64u << 20)
#define THREADS_MAX    256u
#define THREADS_KEPT   4u /* that wait to read, when there is nothing to do */
#define PIECE          (64u << 10)
#define GREETING_MS    5000 /* how long who has started us may take to say a word */

/* One thread reads. What takes its time it does itself, as soon as another one reads in
 * its place: a request has a thread of its own without waiting for it. */
struct stdio {
    struct mcp *mcp;
    struct mcp_peer *peer;
    int in, out;
    int broken_fd; /* readable: nobody reads our answers any more */

    pthread_mutex_t reading; /* the reader has it; for what follows */
    char *bytes; /* PIECE of them; those from AT to END were not taken yet */
    size_t at, end;
    struct str line;
    bool skipping;  /* the rest of a line that was too long */
    bool ended;     /* nothing more comes */
    int read_error; /* why, if the client is not simply gone */

    pthread_mutex_t lock; /* for what follows, and for writing */
    pthread_cond_t changed;
    unsigned threads, waiting; /* all of them, and those that wait to read */
    bool broken;
    int write_error; /* the same for what we say */
};

/* A request that takes its time. */
struct job {
    struct rpc_message message;
    struct mcp_flight *flight;
    int cancel_fd;
};

/* A client that reads nothing may hold us up, but only for as long as it lives: once
 * its end of our stdin is closed, nobody waits for what cannot be written. */
static int await_room(const struct stdio *s)
{
    struct pollfd p[] = { { .fd = s->out, .events = POLLOUT },
                          { .fd = s->in, .events = POLLRDHUP } };

    while (poll(p, 2, -1) < 0)
        if (errno != EINTR)
            return -1;
    if (p[0].revents & (POLLERR | POLLHUP | POLLNVAL))
        return -1;
    return p[0].revents & POLLOUT ? 0 : -1;
}

/* A client that ends without a word, over a pipe, a socket or a terminal. */
static bool is_gone(int error)
{
    return error == EPIPE || error == ECONNRESET || error == EIO;
}

/* A pipe that has room has room for PIPE_BUF bytes. */
static int write_text(const struct stdio *s, const char *text, size_t len)
{
    while (len > 0) {
        size_t part = len < PIPE_BUF ? len : PIPE_BUF;

        int rc = await_room(s) < 0 ? -EPIPE : io_write_all(s->out, text, part);

        if (rc < 0)
            return rc;
        text += part;
        len -= part;
    }
    return 0;
}

/* Takes MESSAGE. */
static void write_message(struct stdio *s, json_t *message)
{
    char *text = message ? json_dumps(message, JSON_COMPACT) : NULL;
    const uint64_t one = 1;
    size_t len;
    int rc;

    json_decref(message);
    if (!text)
        return;
    len = strlen(text);
    text[len] = '\n'; /* in place of the NUL */
    (void)pthread_mutex_lock(&s->lock);
    rc = s->broken ? 0 : write_text(s, text, len + 1);
    if (rc < 0) {
        s->broken = true; /* half a line may be out: nothing can follow it */
        s->write_error = is_gone(-rc) ? 0 : -rc;
        (void)!write(s->broken_fd, &one, sizeof one);
    }
    (void)pthread_mutex_unlock(&s->lock);
    free(text);
}

static void send_unasked(void *transport, json_t *message)
{
    write_message(transport, message);
}

static void send_meanwhile(struct mcp_exchange *x, json_t *message)
{
    write_message(x->transport, message);
}

static void write_error(struct stdio *s, const json_t *id, const struct rpc_error *err)
{
    write_message(s, rpc_error(id, err));
}

static void answer(struct stdio *s, struct rpc_message *m, struct mcp_flight *flight,
                   int cancel_fd)
{
    struct mcp_exchange x = { .mcp = s->mcp,
                              .peer = s->peer,
                              .owner = "",
                              .message = m,
                              .cancel_fd = cancel_fd,
                              .send = send_meanwhile,
                              .transport = s };
    unsigned status;
    json_t *reply = mcp_answer(&x, mcp_is_modern(m, NULL), &status);

    if (mcp_flight_end(s->peer, flight))
        json_decref(reply); /* nobody wants it any more */
    else
        write_message(s, reply);
    mcp_give_back(&x);
}

static void *serve(void *context);

/* There is one who reads when we do not, or now there is. */
static bool has_next(struct stdio *s)
{
    bool has;

    (void)pthread_mutex_lock(&s->lock);
    has = s->waiting > 0;
    if (!has && s->threads < THREADS_MAX &&
        thread_start_alone(THREAD_STACK, serve, s) == 0) {
        s->threads++;
        s->waiting++;
        has = true;
    }
    (void)pthread_mutex_unlock(&s->lock);
    return has;
}

static void refuse_busy(struct stdio *s, const json_t *id)
{
    auto_rpc_error struct rpc_error err = { 0 };
    struct vial_error busy = { 0 };

    (void)fail(&busy, VIAL_E_BUSY, "too many requests are under way");
    mcp_tell_refused(s->mcp, "", &busy);
    (void)rpc_fail(&err, RPC_INTERNAL, 0, NULL, "%s: %s", busy.code, busy.message);
    write_error(s, id, &err);
}

/* Takes M. True: JOB is what it asks for, and another thread reads. */
static bool take_request(struct stdio *s, struct rpc_message *m, struct job *job)
{
    auto_rpc_error struct rpc_error err = { 0 };
    bool slow = mcp_is_slow(m->method);

    *job = (struct job){ .message = *m };
    if (mcp_flight_begin(s->peer, m->id, &job->flight, &job->cancel_fd, &err) < 0) {
        write_error(s, m->id, &err);
    } else if (!slow) {
        answer(s, m, job->flight, job->cancel_fd);
    } else if (has_next(s)) {
        return true;
    } else {
        refuse_busy(s, m->id);
        (void)mcp_flight_end(s->peer, job->flight);
    }
    rpc_message_done(m);
    return false;
}

static bool is_blank(const char *text, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if (!strchr(" \t\r", text[i]))
            return false;
    return true;
}

/* True: JOB is to be done. */
static bool take_line(struct stdio *s, const char *text, size_t len, struct job *job)
{
    auto_rpc_error struct rpc_error err = { 0 };
    auto_json json_t *id = NULL;
    struct rpc_message m;

    if (is_blank(text, len))
        return false;
    if (rpc_read(text, len, &m, &id, &err) < 0) {
        write_error(s, id, &err);
        return false;
    }
    if (m.kind == RPC_REQUEST)
        return take_request(s, &m, job);
    mcp_take(s->peer, &m);
    rpc_message_done(&m);
    return false;
}

static void refuse_line(struct stdio *s)
{
    auto_rpc_error struct rpc_error err = { 0 };

    s->skipping = true;
    s->line.len = 0;
    (void)rpc_fail(&err, RPC_INVALID, 0, NULL,
                   "Invalid Request: a message has at most %u bytes", LINE_MAX_BYTES);
    write_error(s, NULL, &err);
}

/* Whole lines go, up to one that is a JOB; the rest waits. */
static bool take_bytes(struct stdio *s, struct job *job)
{
    bool found = false;

    while (s->at < s->end && !found) {
        const char *data = s->bytes + s->at;
        const char *end = memchr(data, '\n', s->end - s->at);
        size_t part = end ? (size_t)(end - data) : s->end - s->at;

        s->at += part + (end != NULL);
        if (!s->skipping && s->line.len + part > LINE_MAX_BYTES)
            refuse_line(s);
        if (!s->skipping)
            str_add(&s->line, data, part);
        if (!end)
            return false;
        if (!s->skipping && !s->line.failed)
            found = take_line(s, s->line.data ? s->line.data : "", s->line.len, job);
        s->line.len = 0;
        s->skipping = false;
    }
    return found;
}

static void read_some(struct stdio *s)
{
    struct pollfd p[] = { { .fd = s->in, .events = POLLIN },
                          { .fd = s->broken_fd, .events = POLLIN } };
    ssize_t n;

    if (poll(p, 2, -1) < 0) {
        s->ended = errno != EINTR;
        return;
    }
    n = p[1].revents ? 0 : read(s->in, s->bytes, PIECE);
    if (n < 0 && (errno == EINTR || errno == EAGAIN))
        return;
    if (n < 0 && !is_gone(errno))
        s->read_error = errno;
    s->ended = n <= 0;
    s->at = 0;
    s->end = n > 0 ? (size_t)n : 0;
}

/* The next that takes its time; false: there is nothing more to come. Who sees that has
 * all others end. */
static bool next_job(struct stdio *s, struct job *job)
{
    while (!s->ended) {
        if (take_bytes(s, job))
            return true;
        read_some(s);
        if (s->ended)
            mcp_peer_cancel_all(s->peer);
    }
    return false;
}

/* The next job, once it is our turn to read. */
static bool await_job(struct stdio *s, struct job *job)
{
    bool found;

    (void)pthread_mutex_lock(&s->reading);
    (void)pthread_mutex_lock(&s->lock);
    s->waiting--;
    (void)pthread_mutex_unlock(&s->lock);
    found = next_job(s, job);
    (void)pthread_mutex_unlock(&s->reading);
    return found;
}

/* False: enough others wait already. */
static bool wait_again(struct stdio *s)
{
    bool wanted;

    (void)pthread_mutex_lock(&s->lock);
    wanted = s->waiting < THREADS_KEPT;
    s->waiting += wanted;
    (void)pthread_mutex_unlock(&s->lock);
    return wanted;
}

/* A thread, which whoever started it has counted among those that wait. */
static void *serve(void *context)
{
    struct stdio *s = context;
    struct job job;

    while (await_job(s, &job)) {
        answer(s, &job.message, job.flight, job.cancel_fd);
        rpc_message_done(&job.message);
        if (!wait_again(s))
            break;
    }
    (void)pthread_mutex_lock(&s->lock);
    s->threads--;
    (void)pthread_cond_broadcast(&s->changed);
    (void)pthread_mutex_unlock(&s->lock);
    return NULL;
}

int mcp_stdio_serve(struct mcp *mcp, int in, int out, struct vial_error *err)
{
    auto_free char *bytes = malloc(PIECE);
    auto_fd int broken_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    struct stdio s = { .mcp = mcp,
                       .in = in,
                       .out = out,
                       .broken_fd = broken_fd,
                       .bytes = bytes,
                       .threads = 1,
                       .waiting = 1 };

    if (broken_fd < 0)
        return fail_sys(err, "make an eventfd");
    s.peer = mcp_peer_new(mcp, send_unasked, &s);
    if (!s.peer || !bytes) {
        mcp_peer_free(s.peer);
        return fail_memory(err);
    }
    (void)pthread_mutex_init(&s.reading, NULL);
    (void)pthread_mutex_init(&s.lock, NULL);
    (void)pthread_cond_init(&s.changed, NULL);
    (void)serve(&s);
    (void)pthread_mutex_lock(&s.lock);
    while (s.threads > 0)
        (void)pthread_cond_wait(&s.changed, &s.lock);
    (void)pthread_mutex_unlock(&s.lock);
    mcp_peer_free(s.peer);
    str_done(&s.line);
    (void)pthread_cond_destroy(&s.changed);
    (void)pthread_mutex_destroy(&s.lock);
    (void)pthread_mutex_destroy(&s.reading);
    if (s.read_error)
        return fail_sys_rc(err, s.read_error, "read from the client");
    return s.write_error ? fail_sys_rc(err, s.write_error, "write to the client") : 0;
}

/* The first line, without its end. False: none came, or a longer one than a greeting.
 */
static bool read_first(int in, struct str *line)
{
    int64_t until_ns = clock_now_ns() + (int64_t)GREETING_MS * 1000000;
    struct pollfd p = { .fd = in, .events = POLLIN };
    char byte = 0;

    while (line->len < PIECE) {
        double left_ms = clock_ms_between(clock_now_ns(), until_ns);

        if (left_ms <= 0 || poll(&p, 1, (int)left_ms + 1) <= 0 ||
            read(in, &byte, 1) != 1)
            return false;
        if (byte == '\n')
            return str_ok(line);
        str_putc(line, byte);
    }
    return false;
}

void mcp_stdio_refuse(int in, int out, const struct vial_error *why)
{
    auto_str struct str line = { 0 };
    auto_rpc_error struct rpc_error err = { 0 };
    auto_json json_t *id = NULL;
    auto_json json_t *reply = NULL;
    auto_free char *text = NULL;
    struct rpc_message m;

    if (!read_first(in, &line) || rpc_read(line.data, line.len, &m, &id, &err) < 0)
        return;
    (void)rpc_fail(&err, RPC_INTERNAL, 0, error_json(why), "%s: %s%s%s", why->code,
                   why->message, why->remedy[0] ? "; " : "", why->remedy);
    if (m.kind == RPC_REQUEST)
        reply = rpc_error(m.id, &err);
    rpc_message_done(&m);
    text = reply ? json_dumps(reply, JSON_COMPACT) : NULL;
    if (text && io_write_all(out, text, strlen(text)) == 0)
        (void)io_write_all(out, "\n", 1);
}
