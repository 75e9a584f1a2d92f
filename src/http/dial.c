/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Connections that need what a static program has not: names looked up, and TLS.
 * Another program, vial-tls, makes them; it says how that went over a pipe, moves
 * the bytes between the network and a socket pair, and ends with either.
 */

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/fail.h"
#include "base/text.h"
#include "http/call_out.h"
#include "http/http.h"

#define STREAM_FD 3 /* as vial-tls finds them */
#define REPORT_FD 4
#define ABOVE     10 /* ours, out of the way of those */

struct call {
    int stream[2], report[2]; /* ours, theirs */
    pid_t pid;
};

static void hang_up(struct call *c)
{
    for (int i = 0; i < 2; i++) {
        auto_fd_(&c->stream[i]);
        auto_fd_(&c->report[i]);
    }
}

static int lift(int *fd)
{
    int high = fcntl(*fd, F_DUPFD_CLOEXEC, ABOVE);

    if (high < 0)
        return -1;
    (void)close(*fd);
    *fd = high;
    return 0;
}

static int open_ends(struct call *c, struct vial_error *err)
{
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, c->stream) < 0 ||
        pipe2(c->report, O_CLOEXEC) < 0 || lift(&c->stream[1]) < 0 ||
        lift(&c->report[1]) < 0 ||
        fcntl(c->stream[0], F_SETFL, O_RDWR | O_NONBLOCK) < 0)
        return fail_sys(err, "make a socket pair");
    return 0;
}

static const char *mode_of(const struct http_peer *p)
{
    if (!p->tls)
        return "plain";
    if (p->given[0] > 0)
        return "given";
    return p->anonymous ? "anonymous" : "tls";
}

static int put_fds(posix_spawn_file_actions_t *files, const int *fds, size_t count)
{
    int rc = 0;

    for (size_t i = 0; rc == 0 && i < count; i++)
        rc = posix_spawn_file_actions_adddup2(files, fds[i], STREAM_FD + (int)i);
    return rc;
}

int http_start(const char *program, const char *const *args, const int *fds,
               size_t count, pid_t *out)
{
    posix_spawn_file_actions_t files;
    posix_spawnattr_t how;
    sigset_t none;
    char *const env[] = { NULL };
    int rc;

    (void)sigemptyset(&none);
    if (posix_spawn_file_actions_init(&files) != 0 || posix_spawnattr_init(&how) != 0)
        return ENOMEM;
    rc = put_fds(&files, fds, count);
    rc = rc ? rc : posix_spawnattr_setsigmask(&how, &none);
    rc = rc ? rc
            : posix_spawnattr_setflags(&how,
                                       POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSID);
    if (rc == 0)
        rc = posix_spawn(out, program, &files, &how, (char *const *)(uintptr_t)args,
                         env);
    (void)posix_spawn_file_actions_destroy(&files);
    (void)posix_spawnattr_destroy(&how);
    return rc;
}

static int start(struct call *c, const struct http_peer *p, int64_t timeout_ms)
{
    const int fds[] = { c->stream[1], c->report[1], p->given[0], p->given[1],
                        p->given[2] };
    char wait[24];
    const char *const args[] = { "vial-tls", mode_of(p), p->host, p->port,
                                 p->certs,   wait,       NULL };

    (void)snprintf(wait, sizeof(wait), "%lld", (long long)timeout_ms);
    return http_start(p->helper, args, fds, p->given[0] > 0 ? 5 : 2, &c->pid);
}

/* Of the process that runs already. */
static int ask(const struct call *c, const struct http_peer *p, int64_t timeout_ms)
{
    struct call_out_message m = { .timeout_ms = (int32_t)timeout_ms, .tls = p->tls };
    _Alignas(struct cmsghdr) char room[CMSG_SPACE(2 * sizeof(int))] = { 0 };
    struct iovec text = { .iov_base = &m, .iov_len = sizeof(m) };
    struct msghdr all = { .msg_iov = &text,
                          .msg_iovlen = 1,
                          .msg_control = room,
                          .msg_controllen = sizeof(room) };
    struct cmsghdr *fds = CMSG_FIRSTHDR(&all);
    const int both[] = { c->stream[1], c->report[1] };

    (void)snprintf(m.host, sizeof(m.host), "%s", p->host);
    (void)snprintf(m.port, sizeof(m.port), "%s", p->port);
    *fds = (struct cmsghdr){ .cmsg_level = SOL_SOCKET,
                             .cmsg_type = SCM_RIGHTS,
                             .cmsg_len = CMSG_LEN(sizeof(both)) };
    memcpy(CMSG_DATA(fds), both, sizeof(both));
    return sendmsg(p->asked_fd, &all, MSG_NOSIGNAL) == sizeof(m) ? 0 : errno;
}

/* 1 once FD is ready for EVENTS; 0: the time is over; -1: it is time to give up. */
static int wait_for(int fd, short events, int64_t timeout_ms, int cancel_fd)
{
    struct pollfd fds[2] = { { .fd = fd, .events = events },
                             { .fd = cancel_fd, .events = POLLIN } };
    int ms = timeout_ms > INT_MAX ? INT_MAX : (int)timeout_ms;

    if (ms <= 0 || poll(fds, 2, ms) < 1)
        return 0;
    return fds[1].revents ? -1 : 1;
}

/* One line, or what came of it until the time was over. -1: it is time to give up. */
static int read_report(int fd, int64_t timeout_ms, int cancel_fd, char *out,
                       size_t size)
{
    int64_t end_ns = clock_now_ns() + timeout_ms * 1000000;
    size_t len = 0;
    int ready = 1;

    while (ready > 0 && len + 1 < size && !memchr(out, '\n', len)) {
        ssize_t n = 0;

        ready = wait_for(fd, POLLIN, (end_ns - clock_now_ns()) / 1000000, cancel_fd);
        if (ready > 0)
            n = read(fd, out + len, size - 1 - len);
        if (n <= 0)
            break;
        len += (size_t)n;
    }
    out[len] = '\0';
    out[strcspn(out, "\n")] = '\0';
    return ready < 0 ? -1 : 0;
}

/* "KIND text", as vial-tls says it. */
static int say(const struct http_peer *p, const char *report, struct vial_error *err)
{
    static const struct {
        const char *kind;
        enum fail_code code;
        const char *remedy;
    } kinds[] = {
        { "down ", VIAL_E_ENGINE_DOWN, "see whether the engine listens there" },
        { "late ", VIAL_E_ENGINE_TIMEOUT, "see whether the engine can be reached" },
        { "name ", VIAL_E_ENGINE_MISSING, "check the name in DOCKER_HOST" },
        { "file ", VIAL_E_ENGINE_TLS,
          "put ca.pem, cert.pem and key.pem into the directory that DOCKER_CERT_PATH "
          "names" },
        { "cert ", VIAL_E_ENGINE_TLS,
          "renew the engine's certificate, or name the authority that signed it in "
          "ca.pem" },
        { "self ", VIAL_E_ENGINE_TLS,
          "have cert.pem signed by the authority that the engine trusts" },
        { "talk ", VIAL_E_ENGINE_TLS,
          "see whether the engine speaks TLS on that port" },
        { "deny ", VIAL_E_POLICY, "name the address in 'serve.callbacks'" },
    };

    for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds); i++) {
        if (!str_starts(report, kinds[i].kind))
            continue;
        (void)fail(err, kinds[i].code, "connect to '%s' port %s: %.160s", p->host,
                   p->port, report + strlen(kinds[i].kind));
        return fail_remedy(err, "%s", kinds[i].remedy);
    }
    return fail(err, VIAL_E_ENGINE_TIMEOUT,
                "connect to '%s' port %s: no connection in time", p->host, p->port);
}

static int say_cancelled(const struct http_peer *p, struct vial_error *err)
{
    return fail(err, VIAL_E_CANCELLED,
                "connect to '%s' port %s: the caller cancelled it", p->host, p->port);
}

/* The one that was started ends as soon as it has reported: a child of its own
 * moves the bytes, and is nobody's to wait for. */
static void reap(struct call *c, bool good)
{
    int status = 0;

    if (c->pid == 0)
        return; /* not our child's */
    if (!good)
        (void)kill(c->pid, SIGKILL);
    while (waitpid(c->pid, &status, 0) < 0 && errno == EINTR)
        continue;
}

/* What came of it: its end of the stream, or -1. */
static int await(struct call *c, const struct http_peer *p, int64_t timeout_ms,
                 int cancel_fd, struct vial_error *err)
{
    char report[256] = "";
    bool cancelled =
        read_report(c->report[0], timeout_ms, cancel_fd, report, sizeof(report)) < 0;
    bool good = !cancelled && str_eq(report, "ok");

    reap(c, good);
    if (good)
        return fd_take(&c->stream[0]);
    return cancelled ? say_cancelled(p, err) : say(p, report, err);
}

int http_dial_connect(const void *context, int64_t timeout_ms, int cancel_fd,
                      struct vial_error *err)
{
    const struct http_peer *p = context;
    struct call c = { { -1, -1 }, { -1, -1 }, 0 };
    int rc = open_ends(&c, err);

    if (rc == 0)
        rc = p->asked_fd > 0 ? ask(&c, p, timeout_ms) : start(&c, p, timeout_ms);
    if (rc != 0) {
        hang_up(&c);
        if (rc < 0)
            return -1;
        (void)fail_sys_rc(err, -rc, "start '%s'", p->helper);
        return fail_remedy(err, "install vial whole: it lies beside the guest");
    }
    (void)close(fd_take(&c.report[1]));
    (void)close(fd_take(&c.stream[1]));
    rc = await(&c, p, timeout_ms, cancel_fd, err);
    hang_up(&c);
    return rc;
}

/* Numbers alone: a static program cannot look up names. */
static int read_address(const struct http_peer *p, struct sockaddr_in6 *v6,
                        struct sockaddr_in *v4)
{
    in_port_t port = htons((in_port_t)strtoul(p->port, NULL, 10));

    *v6 = (struct sockaddr_in6){ .sin6_family = AF_INET6, .sin6_port = port };
    *v4 = (struct sockaddr_in){ .sin_family = AF_INET, .sin_port = port };
    if (str_eq(p->host, "localhost"))
        return inet_pton(AF_INET, "127.0.0.1", &v4->sin_addr) == 1 ? AF_INET : -1;
    if (inet_pton(AF_INET, p->host, &v4->sin_addr) == 1)
        return AF_INET;
    return inet_pton(AF_INET6, p->host, &v6->sin6_addr) == 1 ? AF_INET6 : -1;
}

static int wait_until_connected(int fd, int64_t timeout_ms, int cancel_fd)
{
    int ready = wait_for(fd, POLLOUT, timeout_ms, cancel_fd);
    socklen_t len = sizeof(errno);
    int error = 0;

    if (ready <= 0)
        error = ready < 0 ? ECANCELED : ETIMEDOUT;
    else if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &len) < 0)
        error = errno;
    errno = error;
    return error ? -1 : 0;
}

static int say_tcp_refused(const struct http_peer *p, struct vial_error *err)
{
    bool late = errno == ETIMEDOUT;

    if (errno == ECANCELED)
        return say_cancelled(p, err);
    (void)fail_sys(err, "connect to '%s' port %s", p->host, p->port);
    return fail_as(err, late ? VIAL_E_ENGINE_TIMEOUT : VIAL_E_ENGINE_DOWN);
}

int http_tcp_connect(const void *context, int64_t timeout_ms, int cancel_fd,
                     struct vial_error *err)
{
    const struct http_peer *p = context;
    struct sockaddr_in6 v6;
    struct sockaddr_in v4;
    int family = read_address(p, &v6, &v4);
    auto_fd int fd = socket(family < 0 ? AF_INET : family,
                            SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    const struct sockaddr *to = family == AF_INET6 ? (const struct sockaddr *)&v6
                                                   : (const struct sockaddr *)&v4;
    const int on = 1;

    if (family < 0)
        return fail(err, VIAL_E_VALUE, "'%s' is not an address", p->host);
    if (fd < 0)
        return fail_sys(err, "make a socket");
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    if (connect(fd, to, family == AF_INET6 ? sizeof(v6) : sizeof(v4)) < 0 &&
        (errno != EINPROGRESS || wait_until_connected(fd, timeout_ms, cancel_fd) < 0))
        return say_tcp_refused(p, err);
    return fd_take(&fd);
}

#define RETRY_MS 10 /* a full backlog has no descriptor to wait on */

static int say_refused(const char *path, struct vial_error *err)
{
    int why = errno;

    (void)fail_sys(err, "connect to '%s'", path);
    if (why == ENOENT)
        return fail_as(err, VIAL_E_ENGINE_MISSING);
    if (why == EACCES || why == EPERM)
        return fail_as(err, VIAL_E_ENGINE_ACCESS);
    if (why == EAGAIN)
        return fail_as(err, VIAL_E_ENGINE_TIMEOUT);
    return fail_as(err, VIAL_E_ENGINE_DOWN);
}

int http_unix_connect(const void *context, int64_t timeout_ms, int cancel_fd,
                      struct vial_error *err)
{
    const char *path = context;
    struct sockaddr_un to = { .sun_family = AF_UNIX };
    struct pollfd cancel = { .fd = cancel_fd, .events = POLLIN };
    int64_t end_ns = clock_now_ns() + timeout_ms * 1000000;
    auto_fd int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    if (fd < 0)
        return fail_sys(err, "make a socket");
    if (strlen(path) >= sizeof(to.sun_path))
        return fail(err, VIAL_E_VALUE, "socket path '%s' is longer than %zu bytes",
                    path, sizeof(to.sun_path) - 1);
    memcpy(to.sun_path, path, strlen(path) + 1);
    while (connect(fd, (const struct sockaddr *)&to, sizeof(to)) < 0) {
        if (errno == EINTR)
            continue;
        if (errno != EAGAIN || clock_now_ns() >= end_ns)
            return say_refused(path, err);
        if (poll(&cancel, 1, RETRY_MS) > 0)
            return fail(err, VIAL_E_CANCELLED,
                        "connect to '%s': the caller cancelled it", path);
    }
    return fd_take(&fd);
}
