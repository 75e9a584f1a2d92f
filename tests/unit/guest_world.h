/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_TESTS_GUEST_WORLD_H
#define VIAL_TESTS_GUEST_WORLD_H

/*
 * A real vial-init, started from $VIAL_SHARE and driven through link.h by a
 * small poll pump. Everything it reports is kept per channel.
 */

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include "wire/frame.h"
#include "wire/link.h"

#define WORLD_CHANNELS 64
#define WORLD_PATIENCE 120000 /* ms; only reached when something is broken */

struct seen {
    bool started, exited, failed, done, hold;
    bool eof[3];
    struct exit_message exit;
    uint32_t pid; /* as the guest tells it */
    uint32_t step;
    int error;
    char text[256];
    char *bytes[3];
    size_t len[3];
};

struct world {
    struct link *l;
    int fd;
    pid_t pid; /* of the guest, as seen from here */
    char dir[64];
    struct seen seen[WORLD_CHANNELS];
    struct vial_error err;
};

static inline struct seen *world_seen(void *context, uint32_t channel)
{
    struct world *w = context;

    assert_true(channel < WORLD_CHANNELS);
    return &w->seen[channel];
}

static inline void world_on_started(void *context, uint32_t channel, uint32_t pid)
{
    world_seen(context, channel)->started = true;
    world_seen(context, channel)->pid = pid;
}

static inline void world_on_data(void *context, uint32_t channel, int stream,
                                 const uint8_t *data, size_t len)
{
    struct world *w = context;
    struct seen *s = world_seen(context, channel);

    s->bytes[stream] = realloc(s->bytes[stream], s->len[stream] + len + 1);
    assert_non_null(s->bytes[stream]);
    memcpy(s->bytes[stream] + s->len[stream], data, len);
    s->len[stream] += len;
    s->bytes[stream][s->len[stream]] = 0;
    if (!s->hold)
        link_consumed(w->l, channel, stream, len);
}

static inline void world_on_eof(void *context, uint32_t channel, int stream)
{
    world_seen(context, channel)->eof[stream] = true;
}

static inline void world_on_exited(void *context, uint32_t channel,
                                   const struct exit_message *exit)
{
    world_seen(context, channel)->exited = true;
    world_seen(context, channel)->exit = *exit;
}

static inline void world_on_failed(void *context, uint32_t channel, uint32_t step,
                                   int error)
{
    world_seen(context, channel)->failed = true;
    world_seen(context, channel)->step = step;
    world_seen(context, channel)->error = error;
}

static inline void world_on_done(void *context, uint32_t channel, int error,
                                 const char *text)
{
    world_seen(context, channel)->done = true;
    world_seen(context, channel)->error = error;
    (void)snprintf(world_seen(context, channel)->text, 256, "%s", text);
}

/* The child of a new pid namespace gets a /proc of its own. */
static inline void world_guest(int fd, bool pid1, bool stdio)
{
    char path[4096];
    char option[] = "--stdio";
    char *argv[] = { path, stdio ? option : NULL, NULL };
    char *env[] = { NULL };

    /* NOLINTNEXTLINE(concurrency-mt-unsafe): tests have one thread */
    (void)snprintf(path, sizeof path, "%s/vial-init", getenv("VIAL_SHARE"));
    if (pid1 && (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
                 mount("proc", "/proc", "proc", 0, NULL) < 0))
        _exit(77);
    if (stdio && (dup2(fd, 0) < 0 || dup2(fd, 1) < 0))
        _exit(76);
    if (fd == 3)
        (void)fcntl(3, F_SETFD, 0);
    else
        (void)dup2(fd, 3);
    (void)execve(path, argv, env);
    _exit(78);
}

static inline pid_t world_fork(int fd, bool pid1, bool stdio)
{
    unsigned long flags = pid1 ? CLONE_NEWPID | CLONE_NEWNS | CLONE_NEWIPC : 0;
    pid_t pid = (pid_t)syscall(SYS_clone, flags | SIGCHLD, 0, 0, 0, 0);

    if (pid == 0)
        world_guest(fd, pid1, stdio);
    return pid;
}

static inline struct world *world_open_by(struct jail *jail, bool stdio)
{
    static const struct link_events events = {
        .started = world_on_started,
        .data = world_on_data,
        .eof = world_on_eof,
        .exited = world_on_exited,
        .failed = world_on_failed,
        .done = world_on_done,
    };
    struct world *w = calloc(1, sizeof *w);
    int ends[2];

    assert_non_null(w);
    (void)strcpy(w->dir, "/tmp/vial-test-XXXXXX");
    assert_non_null(mkdtemp(w->dir));
    assert_int_equal(chmod(w->dir, 0777), 0);
    if (!jail->workdir)
        jail->workdir = w->dir;
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    w->pid = world_fork(ends[1], jail->flags & JAIL_PID1, stdio);
    assert_true(w->pid > 0);
    (void)close(ends[1]);
    w->fd = ends[0];
    assert_int_equal(fcntl(w->fd, F_SETFL, O_NONBLOCK), 0);
    w->l = link_new(&events, w);
    assert_non_null(w->l);
    assert_int_equal(link_jail(w->l, jail, &w->err), 0);
    return w;
}

/* JAIL's workdir, unless set, becomes a fresh directory. */
static inline struct world *world_open(struct jail *jail)
{
    return world_open_by(jail, false);
}

static inline void world_send(struct world *w)
{
    size_t len;
    const uint8_t *data = link_pending(w->l, &len);
    ssize_t n = len ? send(w->fd, data, len, MSG_NOSIGNAL) : 0;

    if (n > 0)
        link_sent(w->l, (size_t)n);
}

/* One round; false when the guest has gone. */
static inline bool world_pump(struct world *w)
{
    static uint8_t buf[256 << 10];
    struct pollfd p = { .fd = w->fd, .events = POLLIN };
    size_t len;
    ssize_t n;

    world_send(w);
    (void)link_pending(w->l, &len);
    if (len)
        p.events |= POLLOUT;
    assert_true(poll(&p, 1, WORLD_PATIENCE) > 0);
    n = recv(w->fd, buf, sizeof buf, 0);
    if (n < 0 && errno == EAGAIN)
        return true;
    if (n <= 0)
        return false;
    if (link_feed(w->l, buf, (size_t)n, &w->err) < 0)
        fail_msg("%s: %s", w->err.code, w->err.message);
    return true;
}

/* Until the channel has ended, one way or another. */
static inline struct seen *world_wait(struct world *w, uint32_t channel)
{
    struct seen *s = &w->seen[channel];

    while (!s->exited && !s->failed && !s->done)
        if (!world_pump(w))
            fail_msg("the guest has gone");
    return s;
}

static inline uint32_t world_exec(struct world *w, char **argv, bool with_stdin)
{
    char path[] = "PATH=/usr/bin:/bin";
    char *env[] = { path, NULL };
    struct exec_message m = { .argv = argv, .env = env, .stdin_closed = !with_stdin };
    uint32_t channel;

    assert_int_equal(link_exec(w->l, &m, &channel, &w->err), 0);
    return channel;
}

static inline uint32_t world_sh_start(struct world *w, const char *script)
{
    char sh[] = "sh", c[] = "-c", text[4096];
    char *argv[] = { sh, c, text, NULL };

    (void)snprintf(text, sizeof text, "%s", script);
    return world_exec(w, argv, false);
}

static inline struct seen *world_sh(struct world *w, const char *script)
{
    return world_wait(w, world_sh_start(w, script));
}

/* Runs until LEN bytes of stdout have come. */
static inline void world_wait_out(struct world *w, uint32_t channel, size_t len)
{
    while (w->seen[channel].len[1] < len)
        assert_true(world_pump(w));
}

static inline const char *world_out(const struct seen *s, int stream)
{
    return s->bytes[stream] ? s->bytes[stream] : "";
}

static inline int world_put(struct world *w, const char *path, const char *text,
                            uint32_t mode)
{
    char copy[256];
    struct put_message m = { .path = copy, .mode = mode };
    uint32_t channel;

    (void)snprintf(copy, sizeof copy, "%s", path);
    assert_int_equal(link_put(w->l, &m, &channel, &w->err), 0);
    link_send(w->l, channel, text, strlen(text));
    link_send_eof(w->l, channel);
    return world_wait(w, channel)->error;
}

static inline struct seen *world_get(struct world *w, const char *path, uint64_t offset,
                                     uint64_t len)
{
    char copy[256];
    struct get_message m = { .path = copy, .offset = offset, .len = len };
    uint32_t channel;

    (void)snprintf(copy, sizeof copy, "%s", path);
    assert_int_equal(link_get(w->l, &m, &channel, &w->err), 0);
    return world_wait(w, channel);
}

/* Waits until the process is gone, by its descriptor. */
static inline void world_await_death(int pidfd)
{
    struct pollfd p = { .fd = pidfd, .events = POLLIN };

    assert_int_equal(poll(&p, 1, WORLD_PATIENCE), 1);
    (void)close(pidfd);
}

/* Ends the stream; returns the guest's wait status. */
static inline int world_hang_up(struct world *w)
{
    int status = -1;

    if (w->fd >= 0)
        (void)close(w->fd);
    w->fd = -1;
    assert_int_equal(waitpid(w->pid, &status, 0), w->pid);
    w->pid = -1;
    return status;
}

static inline int world_remove(const char *path, const struct stat *st, int type,
                               struct FTW *at)
{
    (void)st;
    (void)type;
    (void)at;
    return remove(path);
}

static inline void world_close(struct world *w)
{
    if (w->pid > 0)
        (void)world_hang_up(w);
    /* NOLINTNEXTLINE(concurrency-mt-unsafe): tests have one thread */
    assert_int_equal(nftw(w->dir, world_remove, 16, FTW_DEPTH | FTW_PHYS), 0);
    link_free(w->l);
    for (size_t i = 0; i < WORLD_CHANNELS; i++)
        for (int k = 0; k < 3; k++)
            free(w->seen[i].bytes[k]);
    free(w);
}

#endif
