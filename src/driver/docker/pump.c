/* SPDX-License-Identifier: Apache-2.0 */
#include "driver/docker/pump.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/fail.h"
#include "base/io.h"
#include "base/thread.h"

#define LANE_SIZE  (64u << 10)
#define STACK_SIZE (128u << 10)

/* One direction. It reads only when it is empty: whoever is slow is waited for. */
struct lane {
    int from, to; /* borrowed */
    uint8_t data[LANE_SIZE];
    size_t begin, end;
    bool ended;      /* nothing more will be read */
    bool over;       /* and what was read is written */
    struct mux *mux; /* takes the wrapping off, or NULL */
};

struct pump {
    int engine_fd, inner_fd;
    struct mux mux;
    struct lane in, out; /* to the engine; from it */
    pthread_t thread;
    bool running;
};

static bool is_full(const struct lane *l)
{
    return l->end > l->begin;
}

static void lane_read(struct lane *l)
{
    ssize_t n = recv(l->from, l->data, sizeof(l->data), MSG_DONTWAIT);

    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n > 0 && l->mux)
        n = mux_strip(l->mux, l->data, (size_t)n);
    else if (n == 0)
        l->ended = true;
    if (n < 0)
        l->ended = true;
    l->begin = 0;
    l->end = n > 0 ? (size_t)n : 0;
}

static void lane_write(struct lane *l)
{
    ssize_t n =
        send(l->to, l->data + l->begin, l->end - l->begin, MSG_DONTWAIT | MSG_NOSIGNAL);

    if (n >= 0)
        l->begin += (size_t)n;
    else if (errno != EAGAIN && errno != EINTR)
        l->begin = l->end = 0, l->ended = true;
}

/* The other side learns of the end once it has all. */
static void lane_close(struct lane *l)
{
    if (!l->ended || is_full(l) || l->over)
        return;
    l->over = true;
    (void)shutdown(l->to, SHUT_WR);
}

static short wanted(const struct lane *reads, const struct lane *writes)
{
    int events = 0;

    if (!is_full(reads) && !reads->ended)
        events |= POLLIN;
    if (is_full(writes))
        events |= POLLOUT;
    return (short)events;
}

static void *work(void *argument)
{
    struct pump *p = argument;
    const short down = POLLIN | POLLHUP | POLLERR;

    while (!p->out.over) {
        struct pollfd fds[2] = {
            { .fd = p->engine_fd, .events = wanted(&p->out, &p->in) },
            { .fd = p->inner_fd, .events = wanted(&p->in, &p->out) },
        };

        /* One that only hung up would wake us for ever. */
        for (int i = 0; i < 2; i++)
            fds[i].fd = fds[i].events ? fds[i].fd : -1;
        if (poll(fds, 2, -1) < 0 && errno != EINTR)
            break;
        if ((fds[0].revents & down) && (fds[0].events & POLLIN))
            lane_read(&p->out);
        if ((fds[1].revents & down) && (fds[1].events & POLLIN))
            lane_read(&p->in);
        if (is_full(&p->out))
            lane_write(&p->out);
        if (is_full(&p->in))
            lane_write(&p->in);
        lane_close(&p->in);
        lane_close(&p->out);
    }
    (void)shutdown(p->inner_fd, SHUT_RDWR);
    return NULL;
}

static int start_thread(struct pump *p, struct vial_error *err)
{
    int rc = thread_start(&p->thread, STACK_SIZE, work, p);

    if (rc != 0)
        return fail_sys_rc(err, -rc, "start the stream's thread");
    p->running = true;
    return 0;
}

static int take_early(struct pump *p, const struct str *early, struct vial_error *err)
{
    ssize_t n;

    if (early->len == 0)
        return 0;
    if (early->len > sizeof(p->out.data))
        return fail(err, VIAL_E_ENGINE_API, "attach: too much came too early");
    memcpy(p->out.data, early->data, early->len);
    n = mux_strip(&p->mux, p->out.data, early->len);
    if (n < 0)
        return fail(err, VIAL_E_ENGINE_API, "attach: the stream is not wrapped");
    p->out.end = (size_t)n;
    return 0;
}

static int open_pair(struct pump *p, int *stream_fd, struct vial_error *err)
{
    int ends[2];

    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) < 0)
        return fail_sys(err, "make a socket pair");
    p->inner_fd = ends[0];
    *stream_fd = ends[1];
    p->in.from = p->out.to = p->inner_fd;
    p->in.to = p->out.from = p->engine_fd;
    p->out.mux = &p->mux;
    return 0;
}

int pump_start(int engine_fd, const struct str *early, struct pump **out,
               int *stream_fd, struct vial_error *err)
{
    struct pump *p = calloc(1, sizeof(*p));
    int fd = -1;

    if (!p) {
        (void)close(engine_fd);
        return fail_memory(err);
    }
    p->engine_fd = engine_fd;
    p->inner_fd = -1;
    if (open_pair(p, &fd, err) < 0 || take_early(p, early, err) < 0 ||
        start_thread(p, err) < 0) {
        pump_stop(p);
        auto_fd_(&fd);
        return -1;
    }
    *stream_fd = fd;
    *out = p;
    return 0;
}

void pump_stop(struct pump *p)
{
    if (!p)
        return;
    (void)shutdown(p->engine_fd, SHUT_RDWR);
    if (p->inner_fd >= 0)
        (void)shutdown(p->inner_fd, SHUT_RDWR);
    if (p->running)
        (void)pthread_join(p->thread, NULL);
    auto_fd_(&p->engine_fd);
    auto_fd_(&p->inner_fd);
    free(p);
}

enum { STREAM_STDIN, STREAM_STDOUT, STREAM_STDERR, STREAM_ERROR, STREAM_END_ };

static size_t min(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* Bytes taken, or -1. */
static ssize_t take_head(struct mux *m, const uint8_t *data, size_t len)
{
    size_t n = min(len, sizeof(m->head) - m->head_len);

    memcpy(m->head + m->head_len, data, n);
    m->head_len += n;
    if (m->head_len < sizeof(m->head))
        return (ssize_t)n;
    if (m->head[0] >= STREAM_END_ || m->head[1] || m->head[2] || m->head[3])
        return -1;
    m->left = (uint32_t)m->head[4] << 24 | (uint32_t)m->head[5] << 16 |
              (uint32_t)m->head[6] << 8 | m->head[7];
    if (m->left == 0)
        m->head_len = 0;
    return (ssize_t)n;
}

ssize_t mux_strip(struct mux *m, uint8_t *data, size_t len)
{
    size_t kept = 0;
    size_t at = 0;

    while (at < len) {
        size_t n = 0;

        if (m->left == 0) {
            ssize_t head = take_head(m, data + at, len - at);

            if (head < 0)
                return -1;
            at += (size_t)head;
            continue;
        }
        n = min(len - at, m->left);
        if (m->head[0] == STREAM_STDOUT) {
            memmove(data + kept, data + at, n);
            kept += n;
        }
        at += n;
        m->left -= (uint32_t)n;
        if (m->left == 0)
            m->head_len = 0;
    }
    return (ssize_t)kept;
}
