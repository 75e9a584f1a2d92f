/* SPDX-License-Identifier: Apache-2.0 */

/* A daemon by its address, and what opens it. */

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/fail.h"
#include "base/path.h"
#include "cli/daemon.h"

#define TOKEN_MAX 512

const char *daemon_name(const struct daemon *d)
{
    return d->socket[0] ? d->socket : d->host;
}

static int refuse_url(const char *url, const char *why, struct vial_error *err)
{
    (void)fail(err, VIAL_E_VALUE, "daemon '%.128s' %s", url, why);
    return fail_remedy(err,
                       "write https://HOST:PORT, http://127.0.0.1:PORT or unix:/PATH");
}

/* What is sent has programs in it, and the token: others could read both. */
static int refuse_plain(const char *url, struct vial_error *err)
{
    (void)fail(err, VIAL_E_AUTH,
               "daemon '%.128s' is on another host, and http:// is not encrypted", url);
    return fail_remedy(err, "write https://; or forward its port by ssh -L, and name "
                            "that: http://127.0.0.1:PORT");
}

static int find_tls(struct http_peer *p, const char *ca, struct vial_error *err)
{
    auto_free char *helper = path_own_program("vial-tls");
    auto_free char *file = ca ? realpath(ca, NULL) : NULL;

    if (ca && !file)
        return fail_sys(err, "open '%s'", ca);
    p->anonymous = true;
    if (!helper || strlen(helper) >= sizeof(p->helper) ||
        (file && strlen(file) >= sizeof(p->certs)))
        return fail(err, VIAL_E_VALUE, "the path of the authorities is too long");
    (void)snprintf(p->helper, sizeof(p->helper), "%s", helper);
    (void)snprintf(p->certs, sizeof(p->certs), "%s", file ? file : "");
    return 0;
}

static int at_socket(const char *url, const char *path, struct daemon *out,
                     struct vial_error *err)
{
    path += strncmp(path, "//", 2) == 0 ? 2 : 0; /* unix:///PATH */
    if (path[0] != '/' || strlen(path) >= sizeof(out->socket))
        return refuse_url(url, "names no socket by a short absolute path", err);
    (void)snprintf(out->socket, sizeof(out->socket), "%s", path);
    return 0;
}

int daemon_at(const char *url, const char *token, const char *ca, struct daemon *out,
              struct vial_error *err)
{
    bool tls = str_starts(url, "https://");
    struct http_peer *p = &out->peer;

    *out = (struct daemon){ .peer.tls = tls, .token = token };
    if (str_starts(url, "unix:"))
        return at_socket(url, url + strlen("unix:"), out, err);
    if (!tls && !str_starts(url, "http://"))
        return refuse_url(url, "is no address of one", err);
    if (http_peer_parse(p, strstr(url, "://") + 3, tls ? "443" : "8123") < 0)
        return refuse_url(url, "is not HOST:PORT", err);
    (void)snprintf(out->host, sizeof(out->host),
                   strchr(p->host, ':') ? "[%s]:%s" : "%s:%s", p->host, p->port);
    if (tls)
        return find_tls(p, ca, err);
    return http_is_loopback(p->host) ? 0 : refuse_plain(url, err);
}

/* It becomes part of a header. */
static int check_token(const char *token, const char *where, struct vial_error *err)
{
    size_t len = strlen(token);

    for (size_t i = 0; i < len; i++)
        if (token[i] <= ' ' || token[i] > '~')
            len = 0;
    if (len > 0 && len <= TOKEN_MAX)
        return 0;
    (void)fail(err, VIAL_E_AUTH, "%s is not a token", where);
    return fail_remedy(err, "'vial serve --new-token NAME' makes one");
}

static int read_token(const char *file, char **out, struct vial_error *err)
{
    auto_fd int fd = open(file, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    char text[TOKEN_MAX + 2] = "";
    ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);

    if (n < 0)
        return fail_sys(err, "read '%s'", file);
    text[strcspn(text, "\r\n")] = '\0';
    if (check_token(text, "what --token-file names", err) < 0)
        return -1;
    *out = strdup(text);
    return *out ? 0 : fail_memory(err);
}

int daemon_token(const char *file, char **out, struct vial_error *err)
{
    const char *given = getenv("VIAL_TOKEN"); /* NOLINT(concurrency-mt-unsafe) */

    if (file)
        return read_token(file, out, err);
    if (!given || !given[0])
        return 0;
    if (check_token(given, "VIAL_TOKEN", err) < 0)
        return -1;
    *out = strdup(given);
    return *out ? 0 : fail_memory(err);
}
