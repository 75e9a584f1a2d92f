/* SPDX-License-Identifier: Apache-2.0 */
#include <arpa/inet.h>
#include <ctype.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/text.h"
#include "base/unit.h"
#include "web/server.h"

#define HEADERS_MAX 100u

/* Appends TEXT with its %XX decoded, and a NUL. Its offset, or SIZE_MAX for what
 * is no encoding, or holds NUL. */
static size_t add_decoded(struct str *out, const char *text, size_t len)
{
    size_t at = out->len;

    for (size_t i = 0; i < len; i++) {
        int high = text[i] == '%' && i + 2 < len ? text_unhex(text[i + 1]) : -1;
        int low = high >= 0 ? text_unhex(text[i + 2]) : -1;
        char c = text[i];

        if (c == '%' && low < 0)
            return SIZE_MAX;
        if (c == '%') {
            c = (char)(high << 4 | low);
            i += 2;
        }
        if (c == '\0')
            return SIZE_MAX;
        str_putc(out, c);
    }
    str_putc(out, '\0');
    return at;
}

static size_t add_text(struct str *out, const char *text, size_t len)
{
    size_t at = out->len;

    str_add(out, text, len);
    str_putc(out, '\0');
    return at;
}

struct gathering {
    struct web_request *req;
    struct pairs *pairs;
    bool decode, bad;
};

/* A name with a space behind it, or a value with a carriage return in it, is another
 * one to some readers. */
static bool is_field(const char *name, size_t name_len, const char *value,
                     size_t value_len)
{
    static const char marks[] = "!#$%&'*+-.^_`|~";

    for (size_t i = 0; i < name_len; i++)
        if (!isalnum((unsigned char)name[i]) && (!name[i] || !strchr(marks, name[i])))
            return false;
    for (size_t i = 0; i < value_len; i++)
        if ((unsigned char)value[i] < 0x20 ? value[i] != '\t' : value[i] == 0x7f)
            return false;
    return name_len > 0;
}

static enum MHD_Result gather(void *context, enum MHD_ValueKind kind, const char *key,
                              size_t key_len, const char *value, size_t value_len)
{
    struct gathering *g = context;
    struct str *text = &g->req->text;
    struct pair *grown =
        reallocarray(g->pairs->items, g->pairs->count + 1, sizeof(*grown));
    struct pair pair;

    (void)kind;
    if (!grown || g->pairs->count >= HEADERS_MAX ||
        (value && memchr(value, '\0', value_len)) ||
        (!g->decode && !is_field(key, key_len, value, value ? value_len : 0))) {
        g->pairs->items = grown ? grown : g->pairs->items;
        g->bad = true;
        return MHD_NO;
    }
    g->pairs->items = grown;
    pair.name =
        g->decode ? add_decoded(text, key, key_len) : add_text(text, key, key_len);
    pair.value = g->decode ? add_decoded(text, value ? value : "", value_len)
                           : add_text(text, value ? value : "", value_len);
    if (pair.name == SIZE_MAX || pair.value == SIZE_MAX)
        g->bad = true;
    else
        g->pairs->items[g->pairs->count++] = pair;
    return g->bad ? MHD_NO : MHD_YES;
}

static void look_at_address(struct connection *c, int fd)
{
    struct sockaddr_storage peer = { 0 };
    socklen_t len = sizeof(peer);
    const void *address = &((struct sockaddr_in *)(void *)&peer)->sin_addr;

    if (getpeername(fd, (struct sockaddr *)&peer, &len) < 0)
        return;
    if (peer.ss_family == AF_INET6)
        address = &((struct sockaddr_in6 *)(void *)&peer)->sin6_addr;
    (void)inet_ntop(peer.ss_family, address, c->address, sizeof(c->address));
}

void request_look_at_peer(struct connection *c, int fd)
{
    struct ucred peer;
    socklen_t len = sizeof(peer);
    struct sockaddr_storage address = { 0 };
    socklen_t address_len = sizeof(address);

    if (getsockname(fd, (struct sockaddr *)&address, &address_len) < 0)
        return;
    if (address.ss_family != AF_UNIX) {
        look_at_address(c, fd);
        return;
    }
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len) < 0)
        return;
    c->has_peer = true;
    c->pid = peer.pid;
    c->uid = peer.uid;
}

/* The request may outlive its connection. */
static void take_peer(struct web_request *req)
{
    const struct connection *c = req->connection;

    req->has_peer = c->has_peer;
    req->pid = c->pid;
    req->uid = c->uid;
    memcpy(req->address, c->address, sizeof(req->address));
}

static bool climbs(const char *path)
{
    for (const char *at = path; (at = strstr(at, "..")); at += 2)
        if ((at == path || at[-1] == '/') && (at[2] == '\0' || at[2] == '/'))
            return true;
    return false;
}

/* Whether a target lies below PREFIX. */
static bool is_below(const char *target, const char *prefix)
{
    size_t len = strlen(prefix);

    return strncmp(target, prefix, len) == 0 && target[len] == '/';
}

static void fill(struct web_request *req, const char *method, const char *target)
{
    struct gathering headers = { .req = req, .pairs = &req->headers };
    struct gathering query = { .req = req, .pairs = &req->query, .decode = true };

    const char *prefix = req->web->options.passed;
    char *whole = req->connection->target;
    const char *shown = whole ? whole : "";

    req->connection->target = NULL;
    req->passed =
        prefix && req->has_peer && is_below(target, prefix) && is_below(shown, prefix);
    if (req->passed) {
        target += strlen(prefix);
        shown += strlen(prefix);
        if (req->web->options.passed_mark)
            (void)web_set_header(req, req->web->options.passed_mark, "1");
    }
    req->target = add_text(&req->text, shown, strlen(shown));
    free(whole);
    req->method = add_text(&req->text, method, strlen(method));
    req->path = add_decoded(&req->text, target, strlen(target));
    (void)MHD_get_connection_values_n(req->handle, MHD_HEADER_KIND, gather, &headers);
    (void)MHD_get_connection_values_n(req->handle, MHD_GET_ARGUMENT_KIND, gather,
                                      &query);
    if (headers.bad || query.bad || req->path == SIZE_MAX || target[0] != '/' ||
        climbs(req->text.data + req->path)) {
        req->refusal = 400;
        req->why = "the target or a header is not valid";
    }
    if (req->path == SIZE_MAX)
        req->path = req->method;
}

struct web_request *request_new(struct web *web, struct MHD_Connection *handle,
                                const char *method, const char *target)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(handle, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    struct web_request *req = calloc(1, sizeof(*req));

    if (!req || !info || !info->socket_context) {
        free(req);
        return NULL;
    }
    req->web = web;
    req->handle = handle;
    req->connection = info->socket_context;
    req->body.fd = -1;
    req->gone_fd = -1;
    req->room_fd = -1;
    req->owners = 1;
    (void)pthread_mutex_init(&req->lock, NULL);
    (void)pthread_cond_init(&req->changed, NULL);
    take_peer(req);
    fill(req, method, target);
    if (str_ok(&req->text))
        return req;
    request_unref(req);
    return NULL;
}

/* Gives back what the request has taken of its caller's share. */
static void give_back(const struct web_request *req)
{
    const struct web_options *o = &req->web->options;

    if (!o->door || !req->place.caller)
        return;
    if (req->charged)
        o->door->give(o->context, req->place.caller, WEB_BODIES, req->charged);
    if (req->paid)
        o->door->give(o->context, req->place.caller, WEB_ANSWERS, req->paid);
    if (req->placed)
        o->door->give(o->context, req->place.caller, WEB_REQUESTS, 1);
}

bool request_charge(struct web_request *req, size_t more)
{
    const struct web_options *o = &req->web->options;

    if (o->door && !o->door->take(o->context, req->place.caller, WEB_BODIES, more))
        return false;
    req->charged += more;
    return true;
}

bool web_pay(struct web_request *req, size_t bytes)
{
    const struct web_options *o = &req->web->options;

    if (!o->door || !req->place.caller)
        return true;
    if (!o->door->take(o->context, req->place.caller, WEB_ANSWERS, bytes))
        return false;
    req->paid += bytes;
    return true;
}

static void release(struct web_request *req)
{
    give_back(req);
    if (req->response)
        MHD_destroy_response(req->response);
    if (req->gone_fd >= 0)
        (void)close(req->gone_fd);
    body_done(&req->body);
    str_done(&req->flow.queue);
    str_done(&req->queue);
    if (req->room_fd >= 0)
        (void)close(req->room_fd);
    str_done(&req->text);
    strv_done(&req->headers_out);
    free(req->headers.items);
    free(req->query.items);
    (void)pthread_cond_destroy(&req->changed);
    (void)pthread_mutex_destroy(&req->lock);
    free(req);
}

void request_unref(struct web_request *req)
{
    bool last;

    (void)pthread_mutex_lock(&req->lock);
    last = --req->owners == 0;
    (void)pthread_mutex_unlock(&req->lock);
    if (last)
        release(req);
}

static const char *find(const struct web_request *req, const struct pairs *pairs,
                        const char *name, bool any_case, size_t nth)
{
    for (size_t i = 0; i < pairs->count; i++) {
        const char *key = req->text.data + pairs->items[i].name;

        if ((any_case ? strcasecmp(key, name) : strcmp(key, name)) == 0 && nth-- == 0)
            return req->text.data + pairs->items[i].value;
    }
    return NULL;
}

const char *web_method(const struct web_request *req)
{
    return req->text.data + req->method;
}

const char *web_path(const struct web_request *req)
{
    return req->text.data + req->path;
}

const char *web_target(const struct web_request *req)
{
    return req->text.data + req->target;
}

const char *web_header_at(const struct web_request *req, size_t index,
                          const char **value)
{
    if (index >= req->headers.count)
        return NULL;
    *value = req->text.data + req->headers.items[index].value;
    return req->text.data + req->headers.items[index].name;
}

const char *web_query(const struct web_request *req, const char *name)
{
    return find(req, &req->query, name, false, 0);
}

const char *web_query_name(const struct web_request *req, size_t index)
{
    return index < req->query.count ? req->text.data + req->query.items[index].name
                                    : NULL;
}

const char *web_header(const struct web_request *req, const char *name)
{
    return find(req, &req->headers, name, true, 0);
}

bool web_header_repeated(const struct web_request *req, const char *name)
{
    return find(req, &req->headers, name, true, 1) != NULL;
}

const char *web_body(const struct web_request *req, size_t *len)
{
    *len = req->body.len;
    return body_data(&req->body);
}

int web_body_fd(struct web_request *req)
{
    return body_fd(&req->body);
}

bool web_peer(const struct web_request *req, pid_t *pid, uid_t *uid)
{
    if (!req->has_peer)
        return false;
    *pid = req->pid;
    *uid = req->uid;
    return true;
}

bool web_passed(const struct web_request *req)
{
    return req->passed;
}

const char *web_address(const struct web_request *req)
{
    return req->address;
}

int64_t request_length(const struct web_request *req)
{
    const char *text = web_header(req, "Content-Length");
    int64_t length = 0;

    return text && unit_parse_count(text, &length) == 0 ? length : -1;
}

bool request_has_body(const struct web_request *req)
{
    return request_length(req) > 0 || web_header(req, "Transfer-Encoding");
}

/* Two programs that read one request differently are how requests are smuggled;
 * what could be read in two ways is refused. */
unsigned request_judge(const struct web_request *req, const char **why)
{
    const char *coding = web_header(req, "Transfer-Encoding");
    const char *length = web_header(req, "Content-Length");

    if (req->refusal) {
        *why = req->why;
        return req->refusal;
    }
    *why = "the length of the body is not clear";
    if (web_header_repeated(req, "Transfer-Encoding") ||
        web_header_repeated(req, "Content-Length") || (coding && length) ||
        (length && request_length(req) < 0))
        return 400;
    *why = "the transfer coding is not known; use chunked";
    if (coding && strcasecmp(coding, "chunked") != 0)
        return 501;
    *why = "there is more than one Host";
    if (web_header_repeated(req, "Host"))
        return 400;
    *why = "the body is too large";
    if (request_length(req) > (int64_t)req->web->options.body_bytes)
        return 413;
    return 0;
}

static void watch(int epoll_fd, int fd, uint32_t events)
{
    struct epoll_event event = { .events = events };

    (void)epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &event);
}

/* An epoll set is itself readable when one of its members has something to say:
 * no thread has to look. */
int web_gone_fd(struct web_request *req)
{
    (void)pthread_mutex_lock(&req->lock);
    if (req->gone_fd < 0) {
        req->gone_fd = epoll_create1(EPOLL_CLOEXEC);
        if (req->gone_fd >= 0) {
            watch(req->gone_fd, req->web->ending_fd, EPOLLIN);
            if (req->over)
                watch(req->gone_fd, req->web->ready_fd, EPOLLIN);
            else
                watch(req->gone_fd, req->connection->fd, EPOLLRDHUP);
        }
    }
    (void)pthread_mutex_unlock(&req->lock);
    return req->gone_fd;
}

/* The loop's part is over, and the connection may go now, with its descriptor. */
void request_over(struct web_request *req)
{
    (void)pthread_mutex_lock(&req->lock);
    req->over = true;
    req->handle = NULL;
    if (req->gone_fd >= 0)
        watch(req->gone_fd, req->web->ready_fd, EPOLLIN);
    (void)pthread_cond_broadcast(&req->changed);
    (void)pthread_mutex_unlock(&req->lock);
}
