/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <time.h>

#include "base/auto.h"
#include "base/clock.h"
#include "web/server.h"

#define BLOCK_BYTES (16u << 10)
#define LARGE_BLOCK (64u << 10) /* of what is longer than many of these */

void answer_wake(struct web_request *req)
{
    if (!req->suspended || req->over)
        return;
    req->suspended = false;
    req->woken = true;
    MHD_resume_connection(req->handle);
}

static bool is_long(const struct web_request *req)
{
    return req->given > WEB_QUEUE_BYTES;
}

/* With the lock held. */
static void note_given(struct web_request *req, size_t len)
{
    bool was_long = is_long(req);

    req->given += len;
    if (!was_long && is_long(req))
        worker_stand_back(req);
}

/* Lets go of the lock, and sends what there is; or has the loop do so, for who stands
 * back. */
static void leave(struct web_request *req)
{
    struct web *web = req->web;
    bool woken = req->woken;
    bool alone = !is_long(req);

    req->woken = false;
    (void)pthread_mutex_unlock(&req->lock);
    if (woken && alone)
        web_turn(web);
    else if (woken)
        web_nudge(web);
}

#define REFUSAL_MAX 256

/* The length of what was written to TEXT. */
static int write_refusal(char text[REFUSAL_MAX], unsigned status, const char *why)
{
    static const struct {
        unsigned status;
        const char *code;
    } codes[] = { { 503, "VIAL-BUSY" }, { 401, "VIAL-AUTH" }, { 403, "VIAL-HOST" } };
    const char *code = "VIAL-HTTP";

    for (size_t i = 0; i < sizeof(codes) / sizeof(codes[0]); i++)
        if (codes[i].status == status)
            code = codes[i].code;
    return snprintf(text, REFUSAL_MAX,
                    "{\"error\":{\"code\":\"%s\",\"message\":\"%s\",\"cause\":\"\","
                    "\"remedy\":\"\"}}\n",
                    code, why);
}

/* Only in the clear: what TLS still has to send is libmicrohttpd's business. */
void answer_late(const struct web *web, int fd, unsigned status, const char *why)
{
    char text[REFUSAL_MAX];
    char head[REFUSAL_MAX];
    int len = write_refusal(text, status, why);
    int head_len = snprintf(head, sizeof(head),
                            "HTTP/1.1 %u %s\r\nConnection: close\r\nContent-Type: "
                            "application/json\r\nContent-Length: %d\r\n\r\n",
                            status, MHD_get_reason_phrase_for(status), len);
    struct iovec parts[] = { { head, (size_t)head_len }, { text, (size_t)len } };
    struct msghdr message = { .msg_iov = parts, .msg_iovlen = 2 };

    if (!web->options.tls_cert)
        (void)sendmsg(fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
}

struct MHD_Response *answer_refusal(unsigned status, const char *why,
                                    const struct web_place *place)
{
    char text[REFUSAL_MAX];
    int len = place->coded ? snprintf(text, REFUSAL_MAX,
                                      "{\"code\":%u,\"message\":\"%s\"}\n", status, why)
                           : write_refusal(text, status, why);
    struct MHD_Response *response =
        MHD_create_response_from_buffer((size_t)len, text, MHD_RESPMEM_MUST_COPY);

    if (!response)
        return NULL;
    (void)MHD_add_response_header(response, "Content-Type", "application/json");
    if (place->origin)
        (void)MHD_add_response_header(response, "Access-Control-Allow-Origin",
                                      place->origin);
    if (status == 503)
        (void)MHD_add_response_header(response, "Retry-After", "1");
    if (status == 401)
        (void)MHD_add_response_header(response, "WWW-Authenticate",
                                      "Bearer realm=\"vial\"");
    (void)MHD_add_response_header(response, "Connection", "close");
    return response;
}

enum MHD_Result answer_queue(struct web_request *req, struct MHD_Connection *handle)
{
    enum MHD_Result good = MHD_queue_response(handle, req->status, req->response);

    MHD_destroy_response(req->response);
    req->response = NULL;
    return good;
}

static bool is_field_text(const char *text)
{
    for (; *text; text++)
        if ((unsigned char)*text < 0x20 && *text != '\t')
            return false;
    return true;
}

int web_set_header(struct web_request *req, const char *name, const char *value)
{
    if (req->answered || !is_field_text(name) || !is_field_text(value))
        return -1;
    strv_push(&req->headers_out, name);
    strv_push(&req->headers_out, value);
    return strv_ok(&req->headers_out) ? 0 : -1;
}

void answer_headers(const struct web_request *req, struct MHD_Response *response)
{
    for (size_t i = 0; i + 1 < req->headers_out.count; i += 2)
        (void)MHD_add_response_header(response, req->headers_out.items[i],
                                      req->headers_out.items[i + 1]);
}

/* Takes RESPONSE, which may be NULL for lack of memory. */
int answer_give(struct web_request *req, unsigned status, const char *type,
                struct MHD_Response *response)
{
    if (!response)
        return -1;
    if (type)
        (void)MHD_add_response_header(response, "Content-Type", type);
    answer_headers(req, response);
    if (status != 101 && server_is(req->web, &req->web->retired))
        (void)MHD_add_response_header(response, "Connection", "close");
    (void)pthread_mutex_lock(&req->lock);
    req->response = response;
    req->status = status;
    req->answered = true;
    answer_wake(req);
    leave(req);
    return 0;
}

int web_reply(struct web_request *req, unsigned status, const char *type,
              const void *data, size_t len)
{
    if (req->answered)
        return -1;
    return answer_give(req, status, type,
                       MHD_create_response_from_buffer(len, (void *)(uintptr_t)data,
                                                       MHD_RESPMEM_MUST_COPY));
}

int web_give(struct web_request *req, unsigned status, const char *type, char *data,
             size_t len)
{
    struct MHD_Response *response = NULL;

    if (!req->answered)
        response = MHD_create_response_from_buffer(len, data, MHD_RESPMEM_MUST_FREE);
    if (!response)
        free(data);
    return answer_give(req, status, type, response);
}

/* With the lock held. */
static void tell_room(struct web_request *req)
{
    if (req->room_fd >= 0 && req->queue.len - req->queue_at < WEB_QUEUE_BYTES)
        (void)eventfd_write(req->room_fd, 1);
}

/* In the loop: hands over what waits, or has the connection wait. */
static ssize_t read_queue(void *context, uint64_t at, char *buf, size_t max)
{
    struct web_request *req = context;
    size_t len;
    ssize_t result;

    (void)at;
    (void)pthread_mutex_lock(&req->lock);
    len = req->queue.len - req->queue_at;
    if (len > 0) {
        len = len < max ? len : max;
        memcpy(buf, req->queue.data + req->queue_at, len);
        req->queue_at += len;
        req->taken += len;
        req->web->moved += len;
        tell_room(req);
        if (req->queue_at == req->queue.len)
            req->queue.len = req->queue_at = 0;
        (void)pthread_cond_broadcast(&req->changed);
        result = (ssize_t)len;
    } else if (req->ended) {
        result = req->broken ? MHD_CONTENT_READER_END_WITH_ERROR
                             : MHD_CONTENT_READER_END_OF_STREAM;
    } else {
        req->suspended = true;
        MHD_suspend_connection(req->handle);
        result = 0;
    }
    (void)pthread_mutex_unlock(&req->lock);
    return result;
}

static size_t block_for(uint64_t len)
{
    return len != MHD_SIZE_UNKNOWN && len > 16 * (uint64_t)LARGE_BLOCK ? LARGE_BLOCK
                                                                       : BLOCK_BYTES;
}

int web_start_sized(struct web_request *req, unsigned status, const char *type,
                    uint64_t len)
{
    if (req->answered)
        return -1;
    req->streaming = true;
    if (answer_give(req, status, type,
                    MHD_create_response_from_callback(len, block_for(len), read_queue,
                                                      req, NULL)) == 0)
        return 0;
    req->streaming = false;
    return -1;
}

int web_start(struct web_request *req, unsigned status, const char *type)
{
    return web_start_sized(req, status, type, MHD_SIZE_UNKNOWN);
}

/* With the lock held. A client that takes next to nothing is given up. */
static int wait_for_room(struct web_request *req)
{
    struct timespec until;

    (void)clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += 3 * (time_t)req->web->options.slow_s;
    while (!req->over && req->queue.len - req->queue_at >= WEB_QUEUE_BYTES)
        if (pthread_cond_timedwait(&req->changed, &req->lock, &until) == ETIMEDOUT) {
            req->broken = req->ended = true;
            req->queue.len = req->queue_at = 0;
            answer_wake(req);
            return -1;
        }
    return req->over ? -1 : 0;
}

/* The bytes in front that are gone already. */
static void close_up(struct web_request *req)
{
    if (req->queue_at < BLOCK_BYTES)
        return;
    memmove(req->queue.data, req->queue.data + req->queue_at,
            req->queue.len - req->queue_at);
    req->queue.len -= req->queue_at;
    req->queue_at = 0;
}

/* With the lock held. */
static int add_to_queue(struct web_request *req, const void *data, size_t len)
{
    close_up(req);
    str_add(&req->queue, data, len);
    answer_wake(req);
    return str_ok(&req->queue) ? 0 : -1;
}

int web_push(struct web_request *req, const void *data, size_t len)
{
    int rc = -1;

    (void)pthread_mutex_lock(&req->lock);
    note_given(req, len);
    if (req->streaming && !req->ended && !req->over)
        rc = add_to_queue(req, data, len);
    leave(req);
    return rc;
}

size_t web_queued(struct web_request *req, uint64_t *taken)
{
    size_t len;

    (void)pthread_mutex_lock(&req->lock);
    len = req->queue.len - req->queue_at;
    *taken = req->taken;
    (void)pthread_mutex_unlock(&req->lock);
    return len;
}

int web_room_fd(struct web_request *req)
{
    (void)pthread_mutex_lock(&req->lock);
    if (req->room_fd < 0)
        req->room_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    (void)pthread_mutex_unlock(&req->lock);
    return req->room_fd;
}

void web_room_clear(struct web_request *req)
{
    eventfd_t count;

    if (req->room_fd >= 0)
        (void)eventfd_read(req->room_fd, &count);
}

int web_write(struct web_request *req, const void *data, size_t len)
{
    int rc = -1;

    (void)pthread_mutex_lock(&req->lock);
    note_given(req, len);
    if (req->streaming && !req->ended && wait_for_room(req) == 0)
        rc = add_to_queue(req, data, len);
    leave(req);
    return rc;
}

void web_abort(struct web_request *req)
{
    (void)pthread_mutex_lock(&req->lock);
    req->broken = true;
    (void)pthread_mutex_unlock(&req->lock);
    web_end(req);
}

void web_end(struct web_request *req)
{
    (void)pthread_mutex_lock(&req->lock);
    req->broken = req->broken || req->queue.failed;
    req->ended = true;
    answer_wake(req);
    leave(req);
}

void answer_finish(struct web_request *req)
{
    /* Its origin is among the headers that the handler has set. */
    const struct web_place place = { .coded = req->place.coded };
    struct MHD_Response *response;

    if (req->streaming)
        web_end(req);
    if (req->answered)
        return;
    response = answer_refusal(500, "nothing was answered", &place);
    if (response && answer_give(req, 500, NULL, response) == 0)
        return;
    /* Without memory even for that, the connection is only let go. */
    (void)pthread_mutex_lock(&req->lock);
    req->broken = req->answered = true;
    answer_wake(req);
    leave(req);
}
