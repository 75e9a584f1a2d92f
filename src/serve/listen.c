/* SPDX-License-Identifier: Apache-2.0 */
#include "serve/listen.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/fail.h"
#include "base/str.h"
#include "base/unit.h"

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

static int socket_of(int family, const struct sockaddr *at, socklen_t len, int *out,
                     const char *shown, struct vial_error *err)
{
    auto_fd int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    int yes = 1;

    if (fd < 0)
        return fail_sys(err, "open a socket");
    if (family != AF_UNIX)
        (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
    if (bind(fd, at, len) < 0 || listen(fd, BACKLOG) < 0) {
        (void)fail_sys(err, "listen on '%s'", shown);
        (void)fail_as(err, VIAL_E_DAEMON);
        return fail_remedy(err, "choose another %s by --listen",
                           family == AF_UNIX ? "place" : "address or port");
    }
    *out = fd_take(&fd);
    return 0;
}

static int elsewhere(struct vial_error *err)
{
    return fail_remedy(err, "choose another place by --listen unix:PATH");
}

/* A directory that nobody else can put things into. */
static int make_dir(const char *path, bool shared, struct vial_error *err)
{
    const char *slash = strrchr(path, '/');
    auto_free char *dir = slash ? strndup(path, (size_t)(slash - path)) : NULL;
    struct stat st;

    if (!dir)
        return slash ? fail_memory(err)
                     : fail(err, VIAL_E_VALUE, "'%s' is not an absolute path", path);
    if (mkdir(dir, shared ? 0755 : 0700) < 0 && errno != EEXIST)
        (void)fail_sys(err, "make directory '%s'", dir);
    else if (lstat(dir, &st) < 0 || !S_ISDIR(st.st_mode))
        (void)fail(err, VIAL_E_DAEMON, "'%s' is not a directory", dir);
    else if (st.st_uid != geteuid() && st.st_uid != 0)
        (void)fail(err, VIAL_E_DAEMON, "directory '%s' is another user's", dir);
    else if ((st.st_mode & S_IWOTH) && !(st.st_mode & S_ISVTX))
        (void)fail(err, VIAL_E_DAEMON, "directory '%s' can be written by all", dir);
    else
        return 0;
    return elsewhere(err);
}

/* A socket that nobody listens on is left over from a daemon that died. */
static int clear_way(const struct sockaddr_un *at, struct vial_error *err)
{
    auto_fd int fd = -1;
    struct stat st;

    if (lstat(at->sun_path, &st) < 0)
        return 0;
    if (!S_ISSOCK(st.st_mode)) {
        (void)fail(err, VIAL_E_DAEMON, "'%s' is in the way, and not a socket",
                   at->sun_path);
        return elsewhere(err);
    }
    fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd >= 0 && connect(fd, (const struct sockaddr *)at, sizeof(*at)) < 0 &&
        errno == ECONNREFUSED && unlink(at->sun_path) == 0)
        return 0;
    (void)fail(err, VIAL_E_DAEMON, "another daemon listens on '%s'", at->sun_path);
    return fail_remedy(err, "stop it, or choose another place by --listen unix:PATH");
}

static int open_unix(const char *path, const struct serve_settings *s,
                     struct listener *out, struct vial_error *err)
{
    struct sockaddr_un at = { .sun_family = AF_UNIX };
    bool shared = s->uids.count > 0;

    if (path[0] != '/' || strlen(path) >= sizeof(at.sun_path)) {
        (void)fail(err, VIAL_E_VALUE, "'%s' is not an absolute path of up to 107 bytes",
                   path);
        return fail_remedy(err, "write it in full, as in unix:/run/vial/vial.sock");
    }
    (void)snprintf(at.sun_path, sizeof(at.sun_path), "%s", path);
    if (make_dir(path, shared, err) < 0 || clear_way(&at, err) < 0 ||
        socket_of(AF_UNIX, (const struct sockaddr *)&at, sizeof(at), &out->fd, path,
                  err) < 0)
        return -1;
    (void)snprintf(out->path, sizeof(out->path), "%s", path);
    /* Who connects is looked at in any case; this only spares others the try. */
    if (chmod(path, shared ? 0666 : 0600) < 0)
        return fail_sys(err, "chmod '%s'", path);
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

static int open_tcp(const char *address, const char *where,
                    const struct serve_settings *s, struct listener *out,
                    struct vial_error *err)
{
    const char *colon = strrchr(where, ':');
    struct addrinfo hints = { .ai_socktype = SOCK_STREAM,
                              .ai_flags = AI_PASSIVE | AI_NUMERICSERV };
    struct addrinfo *found = NULL;
    auto_free char *host = NULL;
    int rc;

    if (!colon)
        return fail(err, VIAL_E_VALUE, "'%s' is not tcp:HOST:PORT", address);
    host = where[0] == '[' && colon > where + 1 && colon[-1] == ']'
               ? strndup(where + 1, (size_t)(colon - where) - 2)
               : strndup(where, (size_t)(colon - where));
    if (!host)
        return fail_memory(err);
    rc = getaddrinfo(*host ? host : NULL, colon + 1, &hints, &found);
    if (rc != 0)
        return fail(err, VIAL_E_VALUE, "'%s' is not tcp:HOST:PORT: %s", address,
                    gai_strerror(rc));
    out->tcp = true;
    rc = judge_tcp(found->ai_addr, address, s, err);
    if (rc == 0)
        rc = socket_of(found->ai_family, found->ai_addr, found->ai_addrlen, &out->fd,
                       address, err);
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

void listen_close(struct listener *l)
{
    if (l->fd >= 0)
        (void)close(l->fd);
    if (l->path[0])
        (void)unlink(l->path);
    *l = (struct listener){ .fd = -1 };
}
