/* SPDX-License-Identifier: Apache-2.0 */
#include "serve/listen.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/fail.h"
#include "base/str.h"
#include "base/unit.h"
#include "serve/socket_name.h"

#define BACKLOG 1024

char *listen_usual(void)
{
    const char *dir = getenv("XDG_RUNTIME_DIR"); /* NOLINT(concurrency-mt-unsafe) */
    auto_str struct str path = { 0 };

    if (geteuid() == 0)
        return strdup("/run/vial/vial.sock");
    if (dir && dir[0] == '/')
        str_printf(&path, "%s/vial/vial.sock", dir);
    else
        str_printf(&path, "/tmp/vial-%u/vial.sock", (unsigned)geteuid());
    return str_take(&path);
}

int listen_inherited(void)
{
    const char *pid = getenv("LISTEN_PID");   /* NOLINT(concurrency-mt-unsafe) */
    const char *count = getenv("LISTEN_FDS"); /* NOLINT(concurrency-mt-unsafe) */
    int64_t number;

    if (!pid || !count || unit_parse_count(pid, &number) < 0 || number != getpid() ||
        unit_parse_count(count, &number) < 0 || number > 16)
        return 0;
    return (int)number;
}

static int open_unix(const char *path, const struct serve_settings *s,
                     struct listener *out, struct vial_error *err)
{
    mode_t mode = s->uids.count + s->sessions_for.count > 0 ? 0666 : 0600;

    if (path[0] != '/' || strlen(path) >= sizeof(out->path)) {
        (void)fail(err, VIAL_E_VALUE, "'%s' is not an absolute path of up to 107 bytes",
                   path);
        return fail_remedy(err, "write it in full, as in unix:/run/vial/vial.sock");
    }
    out->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (out->fd < 0)
        return fail_sys(err, "open a socket");
    if (socket_name_take(out->fd, path, mode, &out->made, err) < 0)
        return -1;
    (void)snprintf(out->path, sizeof(out->path), "%s", path);
    return 0;
}

static int bind_tcp(const struct addrinfo *to, const char *shown, int *out,
                    struct vial_error *err)
{
    auto_fd int fd =
        socket(to->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    int yes = 1;

    if (fd < 0)
        return fail_sys(err, "open a socket");
    (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
    if (bind(fd, to->ai_addr, to->ai_addrlen) < 0 || listen(fd, BACKLOG) < 0) {
        (void)fail_sys(err, "listen on '%s'", shown);
        (void)fail_as(err, VIAL_E_DAEMON);
        return fail_remedy(err, "choose another address or port by --listen");
    }
    *out = fd_take(&fd);
    return 0;
}

static bool is_loopback(const struct sockaddr *at)
{
    const struct sockaddr_in *v4 = (const void *)at;
    const struct sockaddr_in6 *v6 = (const void *)at;

    if (at->sa_family == AF_INET)
        return ntohl(v4->sin_addr.s_addr) >> 24 == 127;
    return at->sa_family == AF_INET6 && IN6_IS_ADDR_LOOPBACK(&v6->sin6_addr);
}

static int judge_tcp(const struct sockaddr *at, const char *address,
                     const struct serve_settings *s, struct vial_error *err)
{
    if (!s->tokens) {
        (void)fail(err, VIAL_E_AUTH,
                   "'%s' needs tokens: anyone on this host could use it", address);
        return fail_remedy(err, "give --token-file FILE; 'vial serve --new-token NAME' "
                                "makes an entry for it");
    }
    if (is_loopback(at) || (s->tls_cert && s->tls_key))
        return 0;
    (void)fail(err, VIAL_E_AUTH, "'%s' can be reached from outside, and needs TLS",
               address);
    return fail_remedy(err, "give --tls-cert FILE and --tls-key FILE, or listen on "
                            "127.0.0.1");
}

static int find_tcp(const char *address, const char *where, struct addrinfo **out,
                    struct vial_error *err)
{
    const char *colon = strrchr(where, ':');
    struct addrinfo hints = { .ai_socktype = SOCK_STREAM,
                              .ai_flags = AI_PASSIVE | AI_NUMERICSERV };
    auto_free char *host = NULL;
    int rc;

    if (!colon)
        return fail(err, VIAL_E_VALUE, "'%s' is not tcp:HOST:PORT", address);
    host = where[0] == '[' && colon > where + 1 && colon[-1] == ']'
               ? strndup(where + 1, (size_t)(colon - where) - 2)
               : strndup(where, (size_t)(colon - where));
    if (!host)
        return fail_memory(err);
    rc = getaddrinfo(*host ? host : NULL, colon + 1, &hints, out);
    return rc == 0 ? 0
                   : fail(err, VIAL_E_VALUE, "'%s' is not tcp:HOST:PORT: %s", address,
                          gai_strerror(rc));
}

static int open_tcp(const char *address, const char *where,
                    const struct serve_settings *s, struct listener *out,
                    struct vial_error *err)
{
    struct addrinfo *found = NULL;
    int rc;

    if (find_tcp(address, where, &found, err) < 0)
        return -1;
    out->tcp = true;
    rc = judge_tcp(found->ai_addr, address, s, err);
    if (rc == 0)
        rc = bind_tcp(found, address, &out->fd, err);
    freeaddrinfo(found);
    return rc;
}

int listen_open(const char *address, const struct serve_settings *s,
                struct listener *out, struct vial_error *err)
{
    *out = (struct listener){ .fd = -1 };
    (void)snprintf(out->shown, sizeof(out->shown), "%s", address);
    if (str_starts(address, "unix:"))
        return open_unix(address + 5, s, out, err);
    if (str_starts(address, "tcp:"))
        return open_tcp(address, address + 4, s, out, err);
    (void)fail(err, VIAL_E_VALUE, "'%s' is no address to listen on", address);
    return fail_remedy(err, "write unix:PATH or tcp:HOST:PORT");
}

int listen_open_agent(const char *address, int *out, struct vial_error *err)
{
    struct addrinfo *found = NULL;
    int rc;

    if (!str_starts(address, "tcp:"))
        return fail(err, VIAL_E_VALUE, "agent '%s' is not tcp:HOST:PORT", address);
    if (find_tcp(address, address + 4, &found, err) < 0)
        return -1;
    rc = bind_tcp(found, address, out, err);
    freeaddrinfo(found);
    return rc;
}

void listen_close(struct listener *l)
{
    if (l->path[0])
        socket_name_leave(l->path, &l->made);
    if (l->fd >= 0)
        (void)close(l->fd);
    *l = (struct listener){ .fd = -1 };
}
