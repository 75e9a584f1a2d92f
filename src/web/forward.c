/* SPDX-License-Identifier: Apache-2.0 */
#include "web/forward.h"

#include <ctype.h>
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/fail.h"
#include "base/two_way.h"
#include "http/parse.h"
#include "web/raw.h"

#define PIECE      (32u << 10)
#define ANSWER_MS  300000        /* for a server that says nothing */
#define HEADERS    ((size_t)100) /* of an answer */
#define TELL_NS    INT64_C(1000000000)
#define NO_PLACE   "sandbox allow-scripts allow-forms allow-popups allow-modals"
#define WEBSOCKETS "websocket"
#define BYTES      "tcp"

struct passing {
    struct web_request *req;
    const struct web_forward *how;
    struct parse parse;
    struct strv headers; /* of the answer: name, value, name, value … */
    const char *body;    /* of the request: what is left of it */
    size_t body_len;
    struct str head; /* of the request */
    size_t head_at;
    const char *upgrade; /* to a WebSocket, say, as the client wants; or NULL */
    bool begun;          /* the answer is on its way */
    bool gone;           /* the client is */
    bool heard;          /* the server has said something */
    int64_t told_ns;
};

/* What belongs to one connection, or is said anew. */
static const char *const hop[] = { "Connection", "Keep-Alive",     "Proxy-Connection",
                                   "TE",         "Trailer",        "Transfer-Encoding",
                                   "Upgrade",    "Content-Length", NULL };

/* Of a request: its server sees ours, or none. */
static const char *const request_own[] = { "Host",
                                           "Expect",
                                           "Origin",
                                           "Forwarded",
                                           "X-Forwarded-For",
                                           "X-Forwarded-Host",
                                           "X-Forwarded-Proto",
                                           "X-Forwarded-Prefix",
                                           "Proxy-Authorization",
                                           NULL };

/* Of an answer: they would speak for our server, or for all of its origin. */
static const char *const origin_wide[] = { "Set-Cookie",
                                           "Set-Cookie2",
                                           "Clear-Site-Data",
                                           "Strict-Transport-Security",
                                           "Public-Key-Pins",
                                           "Expect-CT",
                                           "Alt-Svc",
                                           "NEL",
                                           "Report-To",
                                           "Reporting-Endpoints",
                                           "Service-Worker-Allowed",
                                           "Origin-Agent-Cluster",
                                           "Accept-CH",
                                           "Critical-CH",
                                           "Set-Login",
                                           "WWW-Authenticate",
                                           "Proxy-Authenticate",
                                           NULL };

/* The same of one that has its origin to itself: they would hold for hosts or ports
 * beside it. */
static const char *const host_wide[] = { "Strict-Transport-Security",
                                         "Public-Key-Pins",
                                         "Expect-CT",
                                         "Alt-Svc",
                                         "Set-Cookie2",
                                         "Proxy-Authenticate",
                                         NULL };

static bool is_one(const char *const *names, const char *name)
{
    for (; names && *names; names++)
        if (strcasecmp(*names, name) == 0)
            return true;
    return false;
}

/* Whether NAME stands in LIST, "a, b, c". */
static bool lists(const char *list, const char *name)
{
    size_t len = strlen(name);

    while (list && *list) {
        size_t n;

        list += strspn(list, ", \t");
        n = strcspn(list, ", \t");
        if (n == len && len > 0 && strncasecmp(list, name, n) == 0)
            return true;
        list += n;
    }
    return false;
}

/* In any of the request's headers Connection. */
static bool is_hop(const struct web_request *req, const char *name)
{
    const char *value = NULL;
    const char *key;

    if (is_one(hop, name))
        return true;
    for (size_t i = 0; (key = web_header_at(req, i, &value)); i++)
        if (strcasecmp(key, "Connection") == 0 && lists(value, name))
            return true;
    return false;
}

static const char *wanted_upgrade(const struct web_request *req, bool ours)
{
    const char *upgrade = web_header(req, "Upgrade");
    size_t len = 0;

    (void)web_body(req, &len);
    if (!upgrade || web_header_repeated(req, "Upgrade") || len > 0 ||
        strcmp(web_method(req), "GET") != 0 ||
        !lists(web_header(req, "Connection"), "upgrade"))
        return NULL;
    if (strcasecmp(upgrade, WEBSOCKETS) == 0)
        return WEBSOCKETS;
    return ours && strcasecmp(upgrade, BYTES) == 0 ? BYTES : NULL;
}

static bool is_added(const struct web_forward *how, const char *name)
{
    const char *const *at = how->added;

    while (at && *at && strcasecmp(*at, name) != 0)
        at += 2;
    return at && *at;
}

/* Pages of the client's own origin are the server's own; others stay others. */
static void put_origin(struct passing *p)
{
    const char *origin = web_header(p->req, "Origin");
    const char *host = web_header(p->req, "Host");
    const char *rest = origin ? strstr(origin, "://") : NULL;

    if (!origin || web_header_repeated(p->req, "Origin"))
        return;
    if (!p->how->own_origin && !p->how->ours && rest && host &&
        strcasecmp(rest + 3, host) == 0)
        str_printf(&p->head, "Origin: http://%s\r\n", p->how->host);
    else
        str_printf(&p->head, "Origin: %s\r\n", origin);
}

static void put_headers(struct passing *p)
{
    const char *value = NULL;
    const char *name;

    for (size_t i = 0; (name = web_header_at(p->req, i, &value)); i++) {
        if (is_hop(p->req, name) || is_one(request_own, name) ||
            is_one(p->how->kept, name) || is_added(p->how, name) ||
            (!p->how->own_origin && strcasecmp(name, "Cookie") == 0))
            continue;
        str_printf(&p->head, "%s: %s\r\n", name, value);
    }
}

static int write_head(struct passing *p, struct vial_error *err)
{
    const char *host = web_header(p->req, "Host");
    bool has_body = p->body_len > 0 || web_header(p->req, "Content-Length") ||
                    web_header(p->req, "Transfer-Encoding");

    str_printf(&p->head, "%s %s HTTP/1.1\r\nHost: %s\r\n", web_method(p->req),
               p->how->target, p->how->host);
    put_headers(p);
    put_origin(p);
    for (const char *const *at = p->how->added; at && *at; at += 2)
        str_printf(&p->head, "%s: %s\r\n", at[0], at[1]);
    if (host)
        str_printf(&p->head, "X-Forwarded-Host: %s\r\n", host);
    if (p->how->prefix[0])
        str_printf(&p->head, "X-Forwarded-Prefix: %s\r\n", p->how->prefix);
    if (has_body)
        str_printf(&p->head, "Content-Length: %zu\r\n", p->body_len);
    if (p->upgrade)
        str_printf(&p->head, "Connection: Upgrade\r\nUpgrade: %s\r\n\r\n", p->upgrade);
    else
        str_puts(&p->head, "Connection: close\r\n\r\n");
    return str_ok(&p->head) ? 0 : fail_memory(err);
}

static bool is_token(const char *text, size_t len)
{
    static const char marks[] = "!#$%&'*+-.^_`|~";

    for (size_t i = 0; i < len; i++)
        if (!isalnum((unsigned char)text[i]) && !strchr(marks, text[i]))
            return false;
    return len > 0;
}

/* One line of the answer's head. */
static int take_header(void *context, const char *line)
{
    struct passing *p = context;
    size_t len = strcspn(line, ":");
    const char *value = line + len + 1;

    if (line[len] != ':' || !is_token(line, len) || p->headers.count >= 2 * HEADERS)
        return -1;
    value += strspn(value, " \t");
    for (const char *at = value; *at; at++)
        if ((unsigned char)*at < 0x20 ? *at != '\t' : *at == 0x7f)
            return -1;
    strv_printf(&p->headers, "%.*s", (int)len, line);
    strv_push(&p->headers, value);
    return strv_ok(&p->headers) ? 0 : -1;
}

static const char *answer_header(const struct passing *p, const char *name)
{
    for (size_t i = 0; i + 1 < p->headers.count; i += 2)
        if (strcasecmp(p->headers.items[i], name) == 0)
            return p->headers.items[i + 1];
    return NULL;
}

static bool stays_behind(const struct passing *p, const char *name)
{
    for (size_t i = 0; i + 1 < p->headers.count; i += 2)
        if (strcasecmp(p->headers.items[i], "Connection") == 0 &&
            lists(p->headers.items[i + 1], name))
            return true;
    return is_one(hop, name) || strcasecmp(name, "Date") == 0 ||
           strcasecmp(name, "X-Request-Id") == 0 ||
           (p->how->mark && strcasecmp(name, p->how->mark) == 0) ||
           (!p->how->ours &&
            is_one(p->how->own_origin ? host_wide : origin_wide, name));
}

/* A cookie is for this host alone, whatever its server says. */
static void put_cookie(struct passing *p, const char *value)
{
    auto_str struct str out = { 0 };

    for (const char *at = value; *at;) {
        size_t len = strcspn(at, ";");
        const char *name = at + strspn(at, " \t");

        if (at == value || strncasecmp(name, "domain", 6) != 0 ||
            !strchr("= \t;", name[6])) {
            str_puts(&out, at == value ? "" : ";");
            str_add(&out, at, len);
        }
        at += len + (at[len] == ';');
    }
    if (str_ok(&out))
        (void)web_set_header(p->req, "Set-Cookie", out.data);
}

/* Where the client finds what the server calls "/path". */
static void put_location(struct passing *p, const char *value)
{
    auto_str struct str out = { 0 };
    auto_str struct str own = { 0 };

    str_printf(&own, "http://%s/", p->how->host);
    if (str_ok(&own) && str_starts(value, own.data))
        value += own.len - 1;
    if (value[0] == '/' && value[1] != '/')
        str_puts(&out, p->how->prefix);
    str_puts(&out, value);
    if (str_ok(&out))
        (void)web_set_header(p->req, "Location", out.data);
}

static void put_answer_headers(struct passing *p)
{
    for (size_t i = 0; i + 1 < p->headers.count; i += 2) {
        const char *name = p->headers.items[i];
        const char *value = p->headers.items[i + 1];

        if (stays_behind(p, name))
            continue;
        if (strcasecmp(name, "Location") == 0)
            put_location(p, value);
        else if (strcasecmp(name, "Set-Cookie") == 0)
            put_cookie(p, value);
        else
            (void)web_set_header(p->req, name, value);
    }
    if (p->how->own_origin || p->how->ours)
        return;
    (void)web_set_header(p->req, "Content-Security-Policy", NO_PLACE);
    (void)web_set_header(p->req, "X-Content-Type-Options", "nosniff");
    (void)web_set_header(p->req, "Referrer-Policy", "no-referrer");
}

static int check_mark(const struct passing *p, struct vial_error *err)
{
    if (!p->how->mark || answer_header(p, p->how->mark))
        return 0;
    return fail(err, VIAL_E_PORT, "its answer has no header %s", p->how->mark);
}

/* Once its head is whole. */
static int begin(struct passing *p, struct vial_error *err)
{
    int status = p->parse.status;
    bool empty = status == 204 || status == 304;
    bool sized = p->parse.state == PARSE_LENGTH || p->parse.no_body;
    const char *length = answer_header(p, "Content-Length");

    if (status == 101)
        return fail(err, VIAL_E_PORT, "the port's server wants another protocol");
    if (check_mark(p, err) < 0)
        return -1;
    put_answer_headers(p);
    p->begun = true;
    if (empty || (p->parse.state == PARSE_DONE && !p->parse.no_body))
        return web_reply(p->req, (unsigned)status, NULL, "", 0);
    if (p->parse.no_body)
        sized = length && strspn(length, "0123456789") == strlen(length);
    if (sized)
        return web_start_sized(p->req, (unsigned)status, NULL,
                               p->parse.no_body ? strtoull(length, NULL, 10)
                                                : p->parse.left);
    return web_start(p->req, (unsigned)status, NULL);
}

static int take_body(void *context, const char *data, size_t len,
                     struct vial_error *err)
{
    struct passing *p = context;

    if (web_write(p->req, data, len) == 0)
        return 0;
    p->gone = true;
    return fail(err, VIAL_E_PORT, "the client has gone");
}

/* The head's last byte and the body's first may come in one piece, so that an answer
 * begins between two calls of the parser. Bytes that were used, or -1. */
static ssize_t feed(struct passing *p, const char *data, size_t len,
                    struct vial_error *err)
{
    size_t used = 0;

    while (used < len && p->parse.state != PARSE_DONE) {
        const char *end = memchr(data + used, '\n', len - used);
        bool in_head = p->parse.state == PARSE_HEAD;
        size_t n = in_head && end ? (size_t)(end - data) + 1 - used : len - used;
        ssize_t took = parse_feed(&p->parse, data + used, n, take_body, p, err);

        if (took < 0)
            return -1;
        used += (size_t)took;
        if (!in_head || p->parse.state == PARSE_HEAD)
            continue;
        if (p->upgrade && p->parse.status == 101)
            p->parse.state = PARSE_DONE;
        else if (begin(p, err) < 0)
            return -1;
    }
    return (ssize_t)used;
}

static void tell_used(struct passing *p)
{
    int64_t now = clock_now_ns();

    if (!p->how->used || now - p->told_ns < TELL_NS)
        return;
    p->told_ns = now;
    p->how->used(p->how->context);
}

/* What is left of the request. A server that takes no more may have answered. */
static void send_more(struct passing *p)
{
    bool head = p->head_at < p->head.len;
    const char *at = head ? p->head.data + p->head_at : p->body;
    size_t left = head ? p->head.len - p->head_at : p->body_len;
    ssize_t n = send(p->how->fd, at, left, MSG_DONTWAIT | MSG_NOSIGNAL);

    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n < 0) {
        p->head_at = p->head.len;
        p->body_len = 0;
    } else if (head) {
        p->head_at += (size_t)n;
    } else {
        p->body += n;
        p->body_len -= (size_t)n;
    }
}

/* 1: there is more to come; 0: the answer is whole; -1. */
static int receive(struct passing *p, char *piece, size_t *got, ssize_t *used,
                   struct vial_error *err)
{
    ssize_t n = recv(p->how->fd, piece, PIECE, MSG_DONTWAIT);

    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return 1;
    if (n <= 0)
        return parse_eof(&p->parse, err);
    tell_used(p);
    p->heard = true;
    *got = (size_t)n;
    *used = feed(p, piece, (size_t)n, err);
    if (*used < 0)
        return -1;
    return p->parse.state == PARSE_DONE ? 0 : 1;
}

static bool has_unsent(const struct passing *p)
{
    return p->head_at < p->head.len || p->body_len > 0;
}

/* Until the answer is whole, or its head is that of an upgrade. */
static int exchange(struct passing *p, char *piece, size_t *got, ssize_t *used,
                    struct vial_error *err)
{
    int gone_fd = web_gone_fd(p->req);
    int more = 1;

    while (more > 0) {
        struct pollfd fds[] = { { .fd = p->how->fd,
                                  .events =
                                      (short)(POLLIN | (has_unsent(p) ? POLLOUT : 0)) },
                                { .fd = gone_fd, .events = POLLIN } };
        int n = poll(fds, 2, p->how->ours ? -1 : ANSWER_MS);

        if (n == 0)
            return fail(err, VIAL_E_PORT, "the port's server says nothing");
        if (n > 0 && fds[1].revents)
            return fail(err, VIAL_E_PORT, "the client has gone");
        if (n > 0 && (fds[0].revents & POLLOUT) && has_unsent(p))
            send_more(p);
        if (n > 0 && (fds[0].revents & ~POLLOUT))
            more = receive(p, piece, got, used, err);
    }
    return more;
}

/* The client hears the server's 101, and from then on bytes pass both ways. */
static int join(struct passing *p, const char *rest, size_t len, struct vial_error *err)
{
    const char *upgrade = answer_header(p, "Upgrade");
    struct two_way both = { .used = p->how->used, .context = p->how->context };
    struct web_raw *raw;

    if (!upgrade || strcasecmp(upgrade, p->upgrade) != 0)
        return fail(err, VIAL_E_PORT, "the port's server wants another protocol");
    if (check_mark(p, err) < 0)
        return -1;
    put_answer_headers(p);
    p->begun = true;
    raw = web_raw_open(p->req, p->upgrade);
    if (!raw)
        return 0; /* nobody is there any more */
    both.ends[0] = web_raw_fd(raw);
    both.ends[1] = p->how->fd;
    both.stop_fd = web_raw_ending(raw);
    both.first = web_raw_first(raw, &both.first_len);
    both.back = rest;
    both.back_len = len;
    two_way_run(&both);
    web_raw_close(raw);
    return 0;
}

/* In the words of who asked for a port. */
static int say_why(const struct passing *p, struct vial_error *err)
{
    if (fail_is(err, VIAL_E_PORT))
        return -1;
    if (!p->heard) {
        (void)fail(err, VIAL_E_PORT, "nothing answers on this port");
        return fail_remedy(err, "start a program that listens there, on 127.0.0.1");
    }
    return fail(err, VIAL_E_PORT, "the port's server does not answer in HTTP");
}

static int pass(struct passing *p, unsigned *status, struct vial_error *err)
{
    auto_free char *piece = malloc(PIECE);
    size_t got = 0;
    ssize_t used = 0;
    int rc;

    if (!piece)
        return fail_memory(err);
    rc = exchange(p, piece, &got, &used, err);
    *status = (unsigned)p->parse.status;
    if (rc == 0 && p->parse.status == 101)
        rc = join(p, piece + used, got - (size_t)used, err);
    if (rc < 0 && !p->begun)
        return say_why(p, err);
    if (rc < 0 && !p->gone)
        web_abort(p->req);
    return 0;
}

int web_forward(struct web_request *req, const struct web_forward *how,
                unsigned *status, struct vial_error *err)
{
    struct passing p = { .req = req,
                         .how = how,
                         .upgrade = wanted_upgrade(req, how->ours) };
    int rc;

    p.parse = (struct parse){ .no_body = strcmp(web_method(req), "HEAD") == 0,
                              .header = take_header,
                              .header_context = &p };
    p.body = web_body(req, &p.body_len);
    rc = write_head(&p, err);
    if (rc == 0)
        rc = pass(&p, status, err);
    parse_done(&p.parse);
    str_done(&p.head);
    strv_done(&p.headers);
    return rc;
}
