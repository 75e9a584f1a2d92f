/* SPDX-License-Identifier: Apache-2.0 */
#include "serve/callbacks.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/fail.h"
#include "base/path.h"
#include "http/call_out.h"
#include "http/out_rules.h"

#define URL_MOST  2048u
#define PAUSE_MS  1000
#define LOW_SPACE ' '
#define DELETE    0x7f

static int read_rules(struct callbacks *c, const struct strv *hosts,
                      struct vial_error *err)
{
    c->rules = calloc(1, sizeof(*c->rules));
    if (!c->rules)
        return fail_memory(err);
    for (size_t i = 0; i < hosts->count; i++) {
        const char *wrong = out_rules_add(c->rules, hosts->items[i]);

        if (!wrong)
            continue;
        (void)fail(err, VIAL_E_VALUE, "serve: callbacks: '%.200s': %s", hosts->items[i],
                   wrong);
        return fail_remedy(err, "write NAME, *.NAME, NAME:PORT, ADDRESS, ADDRESS:PORT "
                                "or ADDRESS/BITS");
    }
    return 0;
}

static int start(struct callbacks *c, const struct strv *hosts, int fd,
                 struct vial_error *err)
{
    auto_free char *program = path_own_program("vial-tls");
    auto_free const char **args = calloc(hosts->count + 3, sizeof(*args));
    int rc;

    if (!program || !args)
        return fail_memory(err);
    args[0] = "vial-tls";
    args[1] = "calls";
    for (size_t i = 0; i < hosts->count; i++)
        args[i + 2] = hosts->items[i];
    rc = http_start(program, args, &fd, 1, &c->pid);
    if (rc == 0)
        return 0;
    (void)fail_sys_rc(err, -rc, "start '%s'", program);
    return fail_remedy(err, "install vial whole, or leave out 'serve: callbacks'");
}

int callbacks_start(struct callbacks *c, const struct strv *hosts,
                    struct vial_error *err)
{
    int ends[2];
    int rc;

    *c = (struct callbacks){ .fd = -1 };
    if (hosts->count == 0)
        return 0;
    if (read_rules(c, hosts, err) < 0)
        return -1;
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0)
        return fail_sys(err, "make a socket pair");
    c->fd = ends[0];
    rc = start(c, hosts, ends[1], err);
    (void)close(ends[1]);
    return rc;
}

void callbacks_stop(struct callbacks *c)
{
    if (c->fd > 0)
        (void)close(fd_take(&c->fd)); /* that ends it */
    while (c->pid > 0 && waitpid(c->pid, NULL, 0) < 0 && errno == EINTR)
        continue;
    free(c->rules);
    *c = (struct callbacks){ .fd = -1 };
}

/* It becomes a line of a request. */
static bool is_plain(const char *url)
{
    size_t len = strlen(url);

    for (size_t i = 0; i < len; i++)
        if (url[i] <= LOW_SPACE || url[i] >= DELETE || url[i] == '#')
            return false;
    return len <= URL_MOST;
}

static void lower(char *text)
{
    for (; *text; text++)
        if (*text >= 'A' && *text <= 'Z')
            *text = (char)(*text + 32);
}

bool callback_read(const struct callbacks *c, const char *url, struct callback *out)
{
    bool tls = str_starts(url, "https://");
    const char *host = strstr(url, "://");
    char place[300];
    size_t len;

    if (!c->rules || !host || (!tls && !str_starts(url, "http://")) || !is_plain(url))
        return false;
    host += strlen("://");
    len = strcspn(host, "/?");
    *out = (struct callback){ .peer = { .tls = tls, .asked_fd = c->fd },
                              .target = host + len };
    if (len >= sizeof(place))
        return false;
    (void)snprintf(place, sizeof(place), "%.*s", (int)len, host);
    lower(place);
    return http_peer_parse(&out->peer, place, tls ? "443" : "80") == 0 &&
           out_rules_have_host(c->rules, out->peer.host,
                               (uint16_t)strtoul(out->peer.port, NULL, 10));
}

static bool pause_is_over(int cancel_fd)
{
    struct pollfd p = { .fd = cancel_fd, .events = POLLIN };

    return poll(&p, 1, PAUSE_MS) == 0;
}

int callback_put(const struct callback *to, const char *body, int cancel_fd,
                 struct vial_error *err)
{
    const struct http_transport by = { http_dial_connect, &to->peer };
    auto_str struct str target = { 0 }, host = { 0 };
    int rc = -1;

    str_printf(&target, "%s%s", *to->target == '/' ? "" : "/", to->target);
    str_printf(&host, strchr(to->peer.host, ':') ? "[%s]:%s" : "%s:%s", to->peer.host,
               to->peer.port);
    if (!str_ok(&target) || !str_ok(&host))
        return fail_memory(err);
    for (int tries = 0; rc < 0 && tries < CALLBACK_TRIES; tries++) {
        auto_answer struct http_answer answer = { 0 };
        const struct http_request put = { .method = "PUT",
                                          .target = target.data,
                                          .host = host.data,
                                          .body = body,
                                          .timeout_ms = CALLBACK_TIMEOUT_MS,
                                          .cancel_fd = cancel_fd,
                                          .head_only = true };

        if (tries > 0 && !pause_is_over(cancel_fd))
            break;
        rc = http_call(&by, &put, &answer, err);
    }
    return rc;
}
