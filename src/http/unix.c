/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/fail.h"
#include "http/http.h"

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

int http_unix_connect(const void *context, int64_t timeout_ms, struct vial_error *err)
{
    const char *path = context;
    struct sockaddr_un to = { .sun_family = AF_UNIX };
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
        (void)poll(NULL, 0, RETRY_MS);
    }
    return fd_take(&fd);
}
