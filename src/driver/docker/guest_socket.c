/* SPDX-License-Identifier: Apache-2.0 */
#include "driver/docker/guest_socket.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/fail.h"
#include "base/path.h"
#include "driver/process/temp_dir.h"

#define COME_MS 30000 /* a guest that has started is there at once */

struct guest_socket {
    struct place place; /* ours alone, and removed by others should we be killed */
    char *dir;          /* in it: the one that is shown */
    struct sockaddr_un address;
    int listen_fd;
};

static int listen_at(struct guest_socket *l, struct vial_error *err)
{
    int n = snprintf(l->address.sun_path, sizeof(l->address.sun_path),
                     "%s/" GUEST_SOCKET_NAME, l->dir);

    if (n <= 0 || (size_t)n >= sizeof(l->address.sun_path))
        return fail(err, VIAL_E_OPEN, "'%s' is too long for a socket", l->dir);
    l->listen_fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    /* The guest may come as any user of the container; on the host nobody else gets
     * into the directory. */
    if (l->listen_fd < 0 || chmod(l->dir, 0711) < 0 ||
        bind(l->listen_fd, (struct sockaddr *)&l->address, sizeof(l->address)) < 0 ||
        chmod(l->address.sun_path, 0666) < 0 || listen(l->listen_fd, 1) < 0)
        return fail_sys(err, "listen at '%s'", l->address.sun_path);
    return 0;
}

int guest_socket_open(struct guest_socket **out, struct vial_error *err)
{
    struct guest_socket *l = calloc(1, sizeof(*l));

    if (!l)
        return fail_memory(err);
    l->place = (struct place)PLACE_NONE;
    l->address.sun_family = AF_UNIX;
    l->listen_fd = -1;
    if (temp_dir_create(&l->place, err) < 0) {
        guest_socket_close(l);
        return -1;
    }
    l->dir = path_join(l->place.dir, "tmp");
    if (!l->dir || listen_at(l, err) < 0) {
        guest_socket_close(l);
        return -1;
    }
    *out = l;
    return 0;
}

const char *guest_socket_dir(const struct guest_socket *l)
{
    return l->dir;
}

/* A number that cannot be seen from here is 0. */
static bool is_from(int fd, pid_t pid)
{
    struct ucred peer = { 0 };
    socklen_t len = sizeof(peer);

    return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len) == 0 &&
           (pid <= 0 || peer.pid == pid);
}

int guest_socket_take(struct guest_socket *l, int stream_fd, pid_t pid)
{
    struct pollfd ready[] = { { .fd = l->listen_fd, .events = POLLIN },
                              { .fd = stream_fd, .events = POLLIN } };
    auto_fd int fd = -1;
    int rc;

    do
        rc = poll(ready, 2, COME_MS);
    while (rc < 0 && errno == EINTR);
    if (rc > 0 && ready[0].revents)
        fd = accept4(l->listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    return fd >= 0 && is_from(fd, pid) ? fd_take(&fd) : -1;
}

void guest_socket_close(struct guest_socket *l)
{
    if (!l)
        return;
    auto_fd_(&l->listen_fd);
    temp_dir_remove(&l->place);
    free(l->dir);
    free(l);
}
