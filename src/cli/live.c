/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/live.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"

#define ELSEWHERE_MS (INT64_C(3600) * 1000) /* a run whose plan we do not know */
#define GRACE_NS     INT64_C(2000000000)
#define NO_MODULE    "ModuleNotFoundError: No module named "

/* Pipes and terminals are opened anew, because non-blocking mode belongs to the
 * open file, which the caller's shell shares with us. */
static void open_stream(struct live_stream *s, int fd, bool raw)
{
    char path[32];
    struct stat st;

    *s = (struct live_stream){ .fd = fd };
    if (fstat(fd, &st) < 0 || S_ISREG(st.st_mode))
        return;
    s->safe = !raw && isatty(fd);
    (void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    if ((S_ISFIFO(st.st_mode) || S_ISCHR(st.st_mode)) &&
        (fcntl(fd, F_GETFL) & O_ACCMODE) != O_RDONLY)
        s->fd = open(path, O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    else
        s->fd = -1;
    if (s->fd >= 0)
        return;
    s->fd = fd;
    s->most = PIPE_BUF;
}

void live_planned(void *context, int64_t most_ms)
{
    struct live *l = context;

    l->deadline_ns = l->started_ns + most_ms * 1000000 + GRACE_NS;
}

void live_open(struct live *l, bool raw, int signal_fd)
{
    *l = (struct live){ .signal_fd = signal_fd, .started_ns = clock_now_ns() };
    live_planned(l, ELSEWHERE_MS);
    open_stream(&l->streams[0], STDOUT_FILENO, raw);
    open_stream(&l->streams[1], STDERR_FILENO, raw);
}

/* Waits until S takes bytes. -1: a signal came, or it is too late. */
static int wait_for(struct live *l, const struct live_stream *s)
{
    struct pollfd fds[] = {
        { .fd = s->fd, .events = POLLOUT },
        { .fd = l->signal_fd, .events = POLLIN },
    };
    int64_t left_ms = (l->deadline_ns - clock_now_ns()) / 1000000;

    if (left_ms < 0)
        left_ms = 0;
    if (poll(fds, 2, left_ms > INT_MAX ? INT_MAX : (int)left_ms) < 0)
        return errno == EINTR ? 0 : -1;
    if (fds[1].revents) {
        l->error = ECANCELED;
        return -1;
    }
    if (fds[0].revents)
        return 0;
    l->error = ETIMEDOUT;
    return -1;
}

static int write_some(struct live *l, const struct live_stream *s, const char *data,
                      size_t len, size_t *done)
{
    ssize_t n = 0;

    if (s->most && wait_for(l, s) < 0)
        return -1;
    if (s->most && len > s->most)
        len = s->most;
    n = write(s->fd, data, len);
    if (n >= 0) {
        *done += (size_t)n;
        return 0;
    }
    if (errno == EAGAIN)
        return wait_for(l, s);
    if (errno == EINTR)
        return 0;
    l->error = errno;
    return -1;
}

static int write_all(struct live *l, const struct live_stream *s, const char *data,
                     size_t len)
{
    size_t done = 0;

    while (done < len)
        if (write_some(l, s, data + done, len - done, &done) < 0)
            return -1;
    return 0;
}

static int write_safe(struct live *l, struct live_stream *s, const char *data,
                      size_t len, bool end)
{
    auto_str struct str text = { 0 };

    text_safe(&s->state, &text, data, len);
    if (end)
        text_safe_end(&s->state, &text);
    if (!str_ok(&text)) {
        l->error = ENOMEM;
        return -1;
    }
    return write_all(l, s, text.data, text.len);
}

int live_write(void *context, int stream, const void *data, size_t len)
{
    struct live *l = context;
    struct live_stream *s = &l->streams[stream == 2];

    if (stream == 2 && memmem(data, len, NO_MODULE, strlen(NO_MODULE)))
        l->lacks_module = true;
    if (l->error)
        return -1;
    return s->safe ? write_safe(l, s, data, len, false) : write_all(l, s, data, len);
}

void live_end(struct live *l)
{
    for (size_t i = 0; i < 2; i++)
        if (l->streams[i].safe && !l->error)
            (void)write_safe(l, &l->streams[i], "", 0, true);
}

void live_close(struct live *l)
{
    for (size_t i = 0; i < 2; i++)
        if (l->streams[i].fd > STDERR_FILENO)
            (void)close(l->streams[i].fd);
}

int signals_open(void)
{
    static const int wanted[] = { SIGINT, SIGTERM, SIGHUP, SIGQUIT };
    sigset_t set;
    int fd = -1;

    (void)sigemptyset(&set);
    for (size_t i = 0; i < sizeof(wanted) / sizeof(wanted[0]); i++) {
        struct sigaction old;

        if (sigaction(wanted[i], NULL, &old) == 0 && old.sa_handler != SIG_IGN)
            (void)sigaddset(&set, wanted[i]);
    }
    if (pthread_sigmask(SIG_BLOCK, &set, NULL) != 0)
        return -EINVAL;
    fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    return fd < 0 ? -errno : fd;
}

int signals_seen(int fd)
{
    struct signalfd_siginfo info;

    return read(fd, &info, sizeof(info)) == sizeof(info) ? (int)info.ssi_signo : 0;
}
