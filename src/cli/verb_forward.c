/* SPDX-License-Identifier: Apache-2.0 */

/* `vial session forward`: a port of loopback that leads to one of a session. */

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/fail.h"
#include "base/thread.h"
#include "base/two_way.h"
#include "base/unit.h"
#include "cli/print.h"
#include "cli/verb.h"

#define AT_ONCE 256
#define BACKLOG 128

struct forwarding {
    const struct daemon *daemon;
    const char *target;
    atomic_int under_way;
    int over_fd; /* readable: the session is gone, as `why` says */
    pthread_mutex_t lock;
    struct vial_error why;
};

struct one {
    struct forwarding *f;
    int fd;
};

static int read_port(const char *text, int64_t least, unsigned *out)
{
    int64_t port;

    if (unit_parse_count(text, &port) < 0 || port < least || port > UINT16_MAX)
        return -1;
    *out = (unsigned)port;
    return 0;
}

/* "PORT" or "LOCAL:PORT" */
static int read_ports(const char *text, unsigned *local, unsigned *inside,
                      struct vial_error *err)
{
    const char *colon = strchr(text, ':');
    char left[8] = "";
    size_t len = colon ? (size_t)(colon - text) : 0;

    if (len < sizeof(left))
        memcpy(left, text, len);
    if (len >= sizeof(left) || read_port(colon ? colon + 1 : text, 1, inside) < 0 ||
        (colon && read_port(left, 0, local) < 0)) {
        (void)fail(err, VIAL_E_VALUE, "'%s' is not [LOCAL:]PORT", text);
        return fail_remedy(err, "write '8080', or '9000:8080'");
    }
    if (!colon)
        *local = *inside;
    return 0;
}

/* On loopback alone. *PORT becomes the port that it is. */
static int listen_at(unsigned *port, int *out, struct vial_error *err)
{
    struct sockaddr_in at = { .sin_family = AF_INET,
                              .sin_port = htons((uint16_t)*port),
                              .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    socklen_t len = sizeof(at);
    const int yes = 1;

    *out = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (*out < 0)
        return fail_sys(err, "make a socket");
    (void)setsockopt(*out, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
    if (bind(*out, (struct sockaddr *)&at, len) < 0 || listen(*out, BACKLOG) < 0 ||
        getsockname(*out, (struct sockaddr *)&at, &len) < 0) {
        (void)fail_sys(err, "listen on 127.0.0.1:%u", *port);
        return fail_remedy(err, "take another one: '0:PORT' takes any that is free");
    }
    *port = ntohs(at.sin_port);
    return 0;
}

/* A session that is gone comes never again; any other failure is this connection's. */
static void judge(struct forwarding *f, const struct vial_error *err)
{
    if (!fail_is(err, VIAL_E_SESSION) && !fail_is(err, VIAL_E_UNSUPPORTED)) {
        say_error(err);
        return;
    }
    (void)pthread_mutex_lock(&f->lock);
    f->why = *err;
    (void)pthread_mutex_unlock(&f->lock);
    (void)eventfd_write(f->over_fd, 1);
}

static void *pass(void *context)
{
    struct one *one = context;
    struct forwarding *f = one->f;
    struct vial_error err = { 0 };
    auto_str struct str first = { 0 };
    auto_fd int mine = one->fd;
    auto_fd int theirs = -1;

    free(one);
    if (daemon_tunnel(f->daemon, f->target, &theirs, &first, &err) < 0)
        judge(f, &err);
    else
        two_way_run(&(struct two_way){ .ends = { mine, theirs },
                                       .stop_fd = f->over_fd,
                                       .back = first.data,
                                       .back_len = first.len });
    atomic_fetch_sub(&f->under_way, 1);
    return NULL;
}

static void begin(struct forwarding *f, int fd)
{
    struct one *one =
        atomic_load(&f->under_way) < AT_ONCE ? malloc(sizeof(*one)) : NULL;

    if (one) {
        *one = (struct one){ f, fd };
        atomic_fetch_add(&f->under_way, 1);
        if (thread_start_alone(THREAD_STACK, pass, one) == 0)
            return;
        atomic_fetch_sub(&f->under_way, 1);
        free(one);
    }
    (void)close(fd);
}

/* Until the session is gone; a signal ends the process. */
static int serve(struct forwarding *f, int listen_fd, struct vial_error *err)
{
    for (;;) {
        struct pollfd fds[] = { { .fd = listen_fd, .events = POLLIN },
                                { .fd = f->over_fd, .events = POLLIN } };
        int fd;

        if (poll(fds, 2, -1) < 0 && errno != EINTR)
            return fail_sys(err, "wait for a connection");
        if (fds[1].revents)
            break;
        fd = accept4(listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd >= 0)
            begin(f, fd);
    }
    while (atomic_load(&f->under_way) > 0)
        (void)poll(NULL, 0, 10);
    *err = f->why;
    return -1;
}

/* Refused before anybody connects, if it cannot work. */
static int look(const struct daemon *d, const char *target, struct vial_error *err)
{
    return daemon_call(d, &(struct daemon_ask){ "GET", target, NULL, NULL, -1 }, NULL,
                       err);
}

int verb_forward(struct cli *cli, const struct daemon *d, struct vial_error *err)
{
    struct forwarding f = { .daemon = d, .lock = PTHREAD_MUTEX_INITIALIZER };
    auto_str struct str target = { 0 };
    auto_str struct str line = { 0 };
    auto_fd int listen_fd = -1;
    auto_fd int over_fd = -1;
    unsigned local = 0;
    unsigned inside = 0;
    char rest[24];

    if (read_ports(cli_operand(cli, 2), &local, &inside, err) < 0)
        return -1;
    (void)snprintf(rest, sizeof(rest), "/ports/%u", inside);
    if (verb_target(cli, rest, &target, err) < 0 || look(d, target.data, err) < 0 ||
        listen_at(&local, &listen_fd, err) < 0)
        return -1;
    over_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (over_fd < 0)
        return fail_sys(err, "open an eventfd");
    f.over_fd = over_fd;
    f.target = target.data;
    str_printf(&line, "127.0.0.1:%u leads to port %u of %s", local, inside,
               cli_operand(cli, 1));
    if (!str_ok(&line))
        return fail_memory(err);
    if (print_line(line.data) < 0)
        return -1;
    return serve(&f, listen_fd, err);
}
