/* SPDX-License-Identifier: Apache-2.0 */
#include "driver/pump.h"

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
    bool ended; /* nothing more will be read */
    bool over;  /* and what was read is written */
};

struct pump {
    int server_fd, inner_fd;
    const struct pump_code *code;
    void *state;
    struct lane in, out; /* to the server; from it */
    pthread_t thread;
    bool running;
};

static bool is_full(const struct lane *l)
{
    return l->end > l->begin;
}

/* Bytes that came, with room before them; 0: none now. */
static size_t lane_read(struct lane *l)
{
    ssize_t n =
        recv(l->from, l->data + PUMP_ROOM, sizeof(l->data) - PUMP_ROOM, MSG_DONTWAIT);

    if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
        l->ended = true;
    l->begin = l->end = PUMP_ROOM;
    return n > 0 ? (size_t)n : 0;
}

static void strip(struct pump *p, size_t len)
{
    ssize_t n = len > 0 ? p->code->strip(p->state, p->out.data + PUMP_ROOM, len) : 0;

    if (n < 0)
        p->out.ended = true;
    else
        p->out.end = PUMP_ROOM + (size_t)n;
}

static void wrap(struct pump *p, size_t len)
{
    struct lane *l = &p->in;

    if (len == 0)
        return;
    if (p->code->wrap)
        l->begin -= p->code->wrap(p->state, l->data + PUMP_ROOM, len);
    l->end = PUMP_ROOM + len;
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

/* Between two pieces of the stream. */
static void add_control(struct pump *p, bool idle)
{
    struct lane *l = &p->in;

    if (!p->code->control || is_full(l) || l->ended)
        return;
    l->begin = 0;
    l->end = p->code->control(p->state, idle, l->data);
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
    const int idle_ms = p->code->control ? p->code->idle_ms : -1;

    while (!p->out.over) {
        struct pollfd fds[2] = {
            { .fd = p->server_fd, .events = wanted(&p->out, &p->in) },
            { .fd = p->inner_fd, .events = wanted(&p->in, &p->out) },
        };

        /* One that only hung up would wake us for ever. */
        for (int i = 0; i < 2; i++)
            fds[i].fd = fds[i].events ? fds[i].fd : -1;
        int n = poll(fds, 2, idle_ms);

        if (n < 0 && errno != EINTR)
            break;
        if ((fds[0].revents & down) && (fds[0].events & POLLIN))
            strip(p, lane_read(&p->out));
        if ((fds[1].revents & down) && (fds[1].events & POLLIN))
            wrap(p, lane_read(&p->in));
        add_control(p, n == 0);
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
    if (early->len > sizeof(p->out.data) - PUMP_ROOM)
        return fail(err, VIAL_E_ENGINE_API, "attach: too much came too early");
    memcpy(p->out.data + PUMP_ROOM, early->data, early->len);
    n = p->code->strip(p->state, p->out.data + PUMP_ROOM, early->len);
    if (n < 0)
        return fail(err, VIAL_E_ENGINE_API, "attach: the stream is not wrapped");
    p->out.begin = PUMP_ROOM;
    p->out.end = PUMP_ROOM + (size_t)n;
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
    p->in.to = p->out.from = p->server_fd;
    return 0;
}

int pump_start(int server_fd, const struct str *early, const struct pump_code *code,
               void *state, struct pump **out, int *stream_fd, struct vial_error *err)
{
    struct pump *p = calloc(1, sizeof(*p));
    int fd = -1;

    if (!p) {
        (void)close(server_fd);
        return fail_memory(err);
    }
    p->server_fd = server_fd;
    p->code = code;
    p->state = state;
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

void pump_hang_up(struct pump *p)
{
    if (p)
        (void)shutdown(p->server_fd, SHUT_RDWR);
}

void pump_stop(struct pump *p)
{
    if (!p)
        return;
    pump_hang_up(p);
    if (p->inner_fd >= 0)
        (void)shutdown(p->inner_fd, SHUT_RDWR);
    if (p->running)
        (void)pthread_join(p->thread, NULL);
    auto_fd_(&p->server_fd);
    auto_fd_(&p->inner_fd);
    free(p);
}
