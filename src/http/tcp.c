/* SPDX-License-Identifier: Apache-2.0 */
#include <arpa/inet.h>
#include <errno.h>
#include <limits.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "base/auto.h"
#include "base/fail.h"
#include "http/http.h"

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

static int wait_until_connected(int fd, int64_t timeout_ms)
{
    struct pollfd p = { .fd = fd, .events = POLLOUT };
    socklen_t len = sizeof(errno);
    int error = 0;

    if (poll(&p, 1, timeout_ms > INT_MAX ? INT_MAX : (int)timeout_ms) <= 0)
        error = ETIMEDOUT;
    else if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &len) < 0)
        error = errno;
    errno = error;
    return error ? -1 : 0;
}

static int say_refused(const struct http_peer *p, struct vial_error *err)
{
    bool late = errno == ETIMEDOUT;

    (void)fail_sys(err, "connect to '%s' port %s", p->host, p->port);
    return fail_as(err, late ? VIAL_E_ENGINE_TIMEOUT : VIAL_E_ENGINE_DOWN);
}

int http_tcp_connect(const void *context, int64_t timeout_ms, struct vial_error *err)
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
        (errno != EINPROGRESS || wait_until_connected(fd, timeout_ms) < 0))
        return say_refused(p, err);
    return fd_take(&fd);
}
