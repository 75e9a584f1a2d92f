/* SPDX-License-Identifier: Apache-2.0 */
#include "driver/e2b/tunnel.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/fail.h"
#include "base/text.h"
#include "base/thread.h"
#include "driver/e2b/ask_service.h"

#define STACK_SIZE (256u << 10)
#define PIECE      ((size_t)128 << 10) /* what goes with one call, at most */
#define SAID_MAX   160u                /* bytes of what the guest complained of */
#define SAY_MS     60000               /* the guest takes a piece within this */
#define AGAIN_MS   5000                /* after a renewal that went wrong */

struct tunnel {
    struct tunnel_options o;
    int inner_fd; /* ours of the pair */
    int stop_fd;  /* readable: it is time to end */
    pthread_t reader, writer;
    bool reads, writes;
    struct e2b_frames frames; /* the reader's */
    char *piece;              /* the writer's */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    /* Under the lock: */
    uint32_t pid;          /* inside; 0: not told yet */
    bool spoke, over;      /* the guest has written; its stream has ended */
    struct vial_error why; /* of the end */
    struct str said;       /* on its standard error */
};

static struct e2b_way way_of(const struct tunnel *t, const struct e2b_server *to,
                             int64_t timeout_ms)
{
    return (struct e2b_way){ to, timeout_ms, t->stop_fd, 0 };
}

/* 0 once INNER is ready for EVENTS; -1: it is time to end. */
static int wait_for(const struct tunnel *t, short events, int64_t ms)
{
    struct pollfd fds[2] = { { .fd = t->stop_fd, .events = POLLIN },
                             { .fd = t->inner_fd, .events = events } };
    int n = poll(fds, 2, ms > INT_MAX ? INT_MAX : (int)ms);

    if ((n < 0 && errno != EINTR) || (n > 0 && fds[0].revents))
        return -1;
    return 0;
}

/* As fast as our own side takes it. */
static int pass_on(const struct tunnel *t, const struct blob *data,
                   struct vial_error *err)
{
    size_t at = 0;

    while (at < data->len) {
        ssize_t n = send(t->inner_fd, data->data + at, data->len - at,
                         MSG_DONTWAIT | MSG_NOSIGNAL);

        if (n > 0)
            at += (size_t)n;
        else if (errno != EAGAIN && errno != EINTR)
            return fail(err, VIAL_E_CANCELLED, "nobody listens any more");
        else if (wait_for(t, POLLOUT, -1) < 0)
            return fail(err, VIAL_E_CANCELLED, "it is time to end");
    }
    return 0;
}

static void keep_complaint(struct tunnel *t, const struct blob *data)
{
    size_t room = SAID_MAX - t->said.len;

    str_add(&t->said, data->data, data->len < room ? data->len : room);
}

static int take_event(void *context, const struct e2b_event *event,
                      struct vial_error *err)
{
    struct tunnel *t = context;

    (void)pthread_mutex_lock(&t->lock);
    if (event->kind == EVENT_START && !t->pid)
        t->pid = event->pid;
    t->spoke = t->spoke || event->kind == EVENT_OUT;
    if (event->kind == EVENT_ERR && event->data.len > 0)
        keep_complaint(t, &event->data);
    if (event->kind == EVENT_END)
        (void)fail(&t->why, VIAL_E_REMOTE, "the guest ended with '%s'", event->status);
    (void)pthread_cond_broadcast(&t->changed);
    (void)pthread_mutex_unlock(&t->lock);
    return event->kind == EVENT_OUT ? pass_on(t, &event->data, err) : 0;
}

static int take_bytes(void *context, const char *data, size_t len,
                      struct vial_error *err)
{
    struct tunnel *t = context;

    return e2b_feed(&t->frames, data, len, take_event, t, err);
}

/* What was told first is nearest to the reason. */
static void end_by(struct tunnel *t, const struct vial_error *why)
{
    (void)pthread_mutex_lock(&t->lock);
    t->over = true;
    if (why && !t->why.code[0])
        t->why = *why;
    (void)pthread_cond_broadcast(&t->changed);
    (void)pthread_mutex_unlock(&t->lock);
    (void)shutdown(t->inner_fd, SHUT_RDWR);
}

static void *read_stream(void *argument)
{
    struct tunnel *t = argument;
    struct e2b_way way = way_of(t, t->o.box_server, t->o.wait_ms);
    auto_e2b_call struct e2b_call call;
    struct vial_error err = { 0 };
    int rc;

    e2b_call_start(&call, t->o.box, t->o.argv);
    rc = e2b_stream(&call, &way, take_bytes, t, &err);
    end_by(t, rc < 0 ? &err : NULL);
    return NULL;
}

static int renew(const struct tunnel *t)
{
    const struct e2b_way way = way_of(t, &t->o.endpoint->api, t->o.lease_s * 1000 / 4);
    auto_e2b_call struct e2b_call call;

    e2b_call_renew(&call, t->o.endpoint, t->o.box->id, t->o.lease_s);
    return e2b_do(&call, &way, NULL, NULL);
}

static int say(struct tunnel *t, size_t len)
{
    const struct e2b_way way = way_of(t, t->o.box_server, SAY_MS);
    auto_e2b_call struct e2b_call call;
    struct vial_error err = { 0 };
    uint32_t pid;

    (void)pthread_mutex_lock(&t->lock);
    pid = t->pid;
    (void)pthread_mutex_unlock(&t->lock);
    e2b_call_input(&call, t->o.box, pid, t->piece, len);
    if (e2b_do(&call, &way, NULL, &err) == 0)
        return 0;
    end_by(t, &err);
    return -1;
}

/* 1: there may be more; 0: the caller says nothing any more; -1: nobody hears it. */
static int say_some(struct tunnel *t)
{
    ssize_t n = recv(t->inner_fd, t->piece, PIECE, MSG_DONTWAIT);

    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return 1;
    if (n <= 0)
        return 0;
    return say(t, (size_t)n) < 0 ? -1 : 1;
}

static void *write_calls(void *argument)
{
    struct tunnel *t = argument;
    const int64_t every_ms = t->o.lease_s * 1000 / 3;
    int64_t next_ns = clock_now_ns() + every_ms * 1000000;
    int more = 1;

    while (more > 0) {
        int64_t left_ms = (next_ns - clock_now_ns()) / 1000000;

        if (left_ms <= 0) {
            left_ms = renew(t) < 0 && every_ms > AGAIN_MS ? AGAIN_MS : every_ms;
            next_ns = clock_now_ns() + left_ms * 1000000;
        }
        if (wait_for(t, POLLIN, left_ms) < 0)
            return NULL;
        more = say_some(t);
    }
    return NULL;
}

/* Why there is no guest. */
static int explain(struct tunnel *t, struct vial_error *err)
{
    auto_str struct str safe = { 0 };
    struct text_safe state = { 0 };

    if (!t->over) {
        (void)fail(err, VIAL_E_REMOTE, "start the guest: it says nothing");
        return fail_remedy(err, "see whether the sandbox is overloaded");
    }
    if (err)
        *err = t->why;
    if (!t->why.code[0])
        (void)fail(err, VIAL_E_REMOTE, "start the guest: its stream ended");
    if (!fail_is(&t->why, VIAL_E_REMOTE) || t->said.len == 0)
        return -1;
    text_safe(&state, &safe, t->said.data, strcspn(t->said.data, "\n"));
    text_safe_end(&state, &safe);
    if (str_ok(&safe) && safe.data)
        (void)fail_cause(err, "%s", safe.data);
    return fail_remedy(err, "the template needs /bin/sh, and the same architecture as "
                            "this host");
}

static int await(struct tunnel *t, struct vial_error *err)
{
    int64_t end_ns = clock_now_ns() + t->o.wait_ms * 1000000;
    int rc = 0;

    (void)pthread_mutex_lock(&t->lock);
    while (!t->over && !(t->pid && t->spoke) && clock_now_ns() < end_ns)
        thread_wait(&t->changed, &t->lock, (end_ns - clock_now_ns()) / 1000000 + 1);
    if (!(t->pid && t->spoke))
        rc = explain(t, err);
    (void)pthread_mutex_unlock(&t->lock);
    return rc;
}

void tunnel_why(struct tunnel *t, struct vial_error *err)
{
    (void)pthread_mutex_lock(&t->lock);
    if (t->over && !t->why.code[0])
        (void)fail_cause(err, "the guest's stream ended");
    else if (fail_is(&t->why, VIAL_E_REMOTE))
        (void)fail_cause(err, "%s%s%s", t->why.message, t->why.cause[0] ? ": " : "",
                         t->why.cause);
    (void)pthread_mutex_unlock(&t->lock);
}

static int open_ends(struct tunnel *t, int *stream_fd, struct vial_error *err)
{
    int ends[2];

    t->stop_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (t->stop_fd < 0 ||
        socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) < 0)
        return fail_sys(err, "make a socket pair");
    t->inner_fd = ends[0];
    *stream_fd = ends[1];
    return 0;
}

static int start(pthread_t *thread, bool *runs, thread_fn *work, struct tunnel *t,
                 struct vial_error *err)
{
    int rc = thread_start(thread, STACK_SIZE, work, t);

    *runs = rc == 0;
    return rc == 0 ? 0 : fail_sys_rc(err, -rc, "start the sandbox's thread");
}

int tunnel_open(const struct tunnel_options *o, struct tunnel **out, int *stream_fd,
                struct vial_error *err)
{
    struct tunnel *t = calloc(1, sizeof(*t));
    auto_fd int fd = -1;

    if (!t)
        return fail_memory(err);
    t->o = *o;
    t->inner_fd = t->stop_fd = -1;
    (void)pthread_mutex_init(&t->lock, NULL);
    thread_cond_init(&t->changed);
    t->piece = malloc(PIECE);
    if ((!t->piece && fail_memory(err) < 0) || open_ends(t, &fd, err) < 0 ||
        start(&t->reader, &t->reads, read_stream, t, err) < 0 || await(t, err) < 0 ||
        start(&t->writer, &t->writes, write_calls, t, err) < 0) {
        tunnel_close(t);
        return -1;
    }
    *stream_fd = fd_take(&fd);
    *out = t;
    return 0;
}

void tunnel_close(struct tunnel *t)
{
    const uint64_t one = 1;

    if (!t)
        return;
    if (t->stop_fd >= 0)
        (void)!write(t->stop_fd, &one, sizeof(one));
    if (t->reads)
        (void)pthread_join(t->reader, NULL);
    if (t->writes)
        (void)pthread_join(t->writer, NULL);
    auto_fd_(&t->inner_fd);
    auto_fd_(&t->stop_fd);
    str_done(&t->frames.held);
    str_done(&t->said);
    free(t->piece);
    (void)pthread_cond_destroy(&t->changed);
    (void)pthread_mutex_destroy(&t->lock);
    free(t);
}
