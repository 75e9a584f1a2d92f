/* SPDX-License-Identifier: Apache-2.0 */
#include "http/http.h"

#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/fail.h"
#include "http/parse.h"

#define READ_SIZE (16u << 10)

struct exchange {
    const struct http_request *request;
    int fd;
    int64_t end_ns;
    struct parse parse;
    struct http_answer *answer;
    http_take *take; /* NULL: the answer keeps its body */
    void *context;
};

void http_answer_done(struct http_answer *a)
{
    str_done(&a->body);
}

void http_escape(struct str *out, const char *text)
{
    for (; *text; text++) {
        unsigned char c = (unsigned char)*text;

        if (isalnum(c) || strchr("-._~", c))
            str_putc(out, *text);
        else
            str_printf(out, "%%%02X", c);
    }
}

static int say_cancelled(struct vial_error *err)
{
    return fail(err, VIAL_E_CANCELLED, "the caller cancelled the engine's work");
}

static bool is_cancelled(const struct exchange *x)
{
    struct pollfd cancel = { .fd = x->request->cancel_fd, .events = POLLIN };

    return cancel.fd >= 0 && poll(&cancel, 1, 0) > 0;
}

static int wait_for(const struct exchange *x, short events, struct vial_error *err)
{
    struct pollfd fds[2] = { { .fd = x->fd, .events = events },
                             { .fd = x->request->cancel_fd, .events = POLLIN } };
    int64_t left_ms = (x->end_ns - clock_now_ns() + 999999) / 1000000;
    int n = 0;

    if (left_ms > 0)
        n = poll(fds, 2, left_ms > INT_MAX ? INT_MAX : (int)left_ms);
    if (n < 0 && errno != EINTR)
        return fail_sys(err, "wait for the engine");
    if (n > 0 && fds[1].revents)
        return say_cancelled(err);
    if (n != 0)
        return 0;
    (void)fail(err, VIAL_E_ENGINE_TIMEOUT, "wait for '%s %s': no answer within %lld ms",
               x->request->method, x->request->target,
               (long long)x->request->timeout_ms);
    return fail_remedy(err,
                       "see whether the engine is busy: 'systemctl status docker'");
}

static void put_off(struct exchange *x)
{
    int64_t ms = x->request->idle_ms > 0 ? x->request->idle_ms : x->request->timeout_ms;

    x->end_ns = clock_now_ns() + ms * 1000000;
}

static int send_all(struct exchange *x, const char *data, size_t len,
                    struct vial_error *err)
{
    while (len > 0) {
        ssize_t n = send(x->fd, data, len, MSG_NOSIGNAL | MSG_DONTWAIT);

        if (n >= 0) {
            data += n;
            len -= (size_t)n;
        } else if (errno == EPIPE || errno == ECONNRESET) {
            break; /* it may have answered before hanging up */
        } else if (errno != EAGAIN && errno != EINTR) {
            return fail_sys(err, "send to the engine");
        } else if (wait_for(x, POLLOUT, err) < 0) {
            return -1;
        }
    }
    return 0;
}

static int send_request(struct exchange *x, struct vial_error *err)
{
    const struct http_request *r = x->request;
    auto_str struct str text = { 0 };

    str_printf(&text, "%s %s HTTP/1.1\r\nHost: %s\r\nUser-Agent: vial/%s\r\n",
               r->method, r->target, r->host ? r->host : "engine", VIAL_VERSION);
    if (r->token)
        str_printf(&text, "Authorization: Bearer %s\r\n", r->token);
    str_puts(&text, r->headers ? r->headers : "");
    str_puts(&text,
             x->parse.upgrade ? "Connection: Upgrade\r\n" : "Connection: close\r\n");
    if (x->parse.upgrade)
        str_puts(&text, r->upgrade ? r->upgrade : "Upgrade: tcp\r\n");
    if (r->archive)
        str_printf(&text, "Content-Type: %s\r\nContent-Length: %zu\r\n",
                   r->type ? r->type : "application/x-tar", r->archive->len);
    else if (r->body)
        str_printf(&text, "Content-Type: application/json\r\nContent-Length: %zu\r\n",
                   strlen(r->body));
    else if (strcmp(r->method, "POST") == 0)
        str_puts(&text, "Content-Length: 0\r\n");
    str_puts(&text, "\r\n");
    if (r->archive)
        str_add(&text, r->archive->data, r->archive->len);
    else
        str_puts(&text, r->body ? r->body : "");
    if (!str_ok(&text))
        return fail_memory(err);
    return send_all(x, text.data, text.len, err);
}

static int keep(void *context, const char *data, size_t len, struct vial_error *err)
{
    struct exchange *x = context;

    if (x->take && x->parse.status < 300)
        return x->take(x->context, data, len, err);
    if (x->answer->body.len + len > HTTP_BODY_MAX)
        return fail(err, VIAL_E_ENGINE_API,
                    "read the engine's answer: it is longer than %u bytes",
                    HTTP_BODY_MAX);
    str_add(&x->answer->body, data, len);
    return str_ok(&x->answer->body) ? 0 : fail_memory(err);
}

/* 1 when there may be more, 0 at the end, or -1. Who sends without a pause is not
 * waited for, and left all the same. */
static int receive(struct exchange *x, struct vial_error *err)
{
    char data[READ_SIZE];
    ssize_t n = 0;
    ssize_t used = 0;

    if (is_cancelled(x))
        return say_cancelled(err);
    n = recv(x->fd, data, sizeof(data), MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return wait_for(x, POLLIN, err) < 0 ? -1 : 1;
    if (n <= 0)
        return parse_eof(&x->parse, err);
    used = parse_feed(&x->parse, data, (size_t)n, keep, x, err);
    if (used < 0)
        return -1;
    if (x->request->idle_ms > 0)
        put_off(x); /* from when all of it was taken, which may have been long */
    if (x->parse.state != PARSE_DONE)
        return 1;
    if (x->parse.upgrade) /* the stream's first bytes */
        str_add(&x->answer->body, data + used, (size_t)(n - used));
    return str_ok(&x->answer->body) ? 0 : fail_memory(err);
}

static int exchange(struct exchange *x, const struct http_transport *t,
                    struct vial_error *err)
{
    int more = 1;

    put_off(x);
    x->parse.header = x->request->header;
    x->parse.header_context = x->request->header_context;
    x->parse.no_body = x->request->head_only || strcmp(x->request->method, "HEAD") == 0;
    x->fd = t->connect(t->context, x->request->timeout_ms, x->request->cancel_fd, err);
    if (x->fd < 0 || send_request(x, err) < 0)
        return -1;
    while (more > 0)
        more = receive(x, err);
    x->answer->status = x->parse.status;
    x->answer->version_major = x->parse.version_major;
    x->answer->version_minor = x->parse.version_minor;
    return more;
}

static int run(struct exchange *x, const struct http_transport *t,
               struct vial_error *err)
{
    int rc = exchange(x, t, err);

    parse_done(&x->parse);
    if (x->fd >= 0)
        (void)close(x->fd);
    return rc;
}

int http_call(const struct http_transport *t, const struct http_request *r,
              struct http_answer *out, struct vial_error *err)
{
    struct exchange x = { .request = r, .answer = out, .fd = -1 };

    return run(&x, t, err);
}

int http_stream(const struct http_transport *t, const struct http_request *r,
                http_take *take, void *context, struct http_answer *out,
                struct vial_error *err)
{
    struct exchange x = {
        .request = r, .answer = out, .fd = -1, .take = take, .context = context
    };

    return run(&x, t, err);
}

int http_upgrade(const struct http_transport *t, const struct http_request *r,
                 struct http_answer *out, int *fd, struct vial_error *err)
{
    struct exchange x = {
        .request = r, .answer = out, .fd = -1, .parse = { .upgrade = true }
    };
    int rc = exchange(&x, t, err);
    auto_fd int owned = x.fd;

    parse_done(&x.parse);
    *fd = -1;
    if (rc < 0)
        return -1;
    if (out->status == 101 || out->status == 200)
        *fd = fd_take(&owned);
    return 0;
}
