/* SPDX-License-Identifier: Apache-2.0 */
#include "web/server.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/fail.h"
#include "base/sys.h"
#include "base/thread.h"

#define FLUSH_S     5    /* for answers on their way when the server closes */
#define SWEEP_MS    1000 /* between two looks for connections that are too slow */
#define TURN_ROUNDS 3
#define AGAIN       64u   /* rounds between two looks for connections that are stuck */
#define MOVING      1024u /* the same, while bytes move */
#define QUIET       4     /* requests of callers that are served */

static void notify_connection(void *context, struct MHD_Connection *handle, void **mine,
                              enum MHD_ConnectionNotificationCode code)
{
    struct web *web = context;
    const union MHD_ConnectionInfo *info;
    int yes = 1;

    if (code == MHD_CONNECTION_NOTIFY_CLOSED) {
        if (*mine) {
            sweep_remove(web, *mine);
            free(((struct connection *)*mine)->target);
        }
        free(*mine);
        *mine = NULL;
        return;
    }
    info = MHD_get_connection_info(handle, MHD_CONNECTION_INFO_CONNECTION_FD);
    *mine = calloc(1, sizeof(struct connection));
    if (!*mine || !info)
        return;
    /* Finds peers that vanished without a word; a unix socket has none. */
    (void)setsockopt(info->connect_fd, SOL_SOCKET, SO_KEEPALIVE, &yes, sizeof(yes));
    sweep_add(web, *mine, info->connect_fd);
    request_look_at_peer(*mine, info->connect_fd);
}

/* Decoding is ours: see request.c. */
static size_t leave_escaped(void *context, struct MHD_Connection *handle, char *text)
{
    (void)context;
    (void)handle;
    return strlen(text);
}

/* What libmicrohttpd takes apart in place. It is bounded as the head is. */
static void *note_target(void *context, const char *target,
                         struct MHD_Connection *handle)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(handle, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    struct connection *c = info ? info->socket_context : NULL;

    (void)context;
    if (c) {
        free(c->target);
        c->target = strdup(target);
    }
    return NULL;
}

static void count(struct web *web, int exchanges, uint64_t refused)
{
    (void)pthread_mutex_lock(&web->lock);
    web->exchanges = (unsigned)((int)web->exchanges + exchanges);
    web->requests += exchanges > 0;
    web->refused += refused;
    if (web->draining) /* or nobody waits for that */
        (void)pthread_cond_broadcast(&web->changed);
    (void)pthread_mutex_unlock(&web->lock);
}

/* A request that we broke off before its body was whole. Nothing is said where
 * libmicrohttpd did: what it does not understand it answers itself. */
static void say_why(const struct web_request *req, enum MHD_RequestTerminationCode code)
{
    bool late = code == MHD_REQUEST_TERMINATED_TIMEOUT_REACHED;

    (void)pthread_mutex_lock(&req->web->lock);
    late = late || req->connection->told;
    (void)pthread_mutex_unlock(&req->web->lock);
    if (req->cut)
        answer_late(req->web, req->connection->fd, req->refusal, req->why);
    else if (late)
        answer_late(req->web, req->connection->fd, 408, "the request came too slowly");
}

static void completed(void *context, struct MHD_Connection *handle, void **mine,
                      enum MHD_RequestTerminationCode code)
{
    struct web *web = context;
    struct web_request *req = *mine;

    (void)handle;
    if (!req)
        return;
    if (code != MHD_REQUEST_TERMINATED_COMPLETED_OK && !req->refused &&
        (!req->handed || (req->flow.on && !req->flow.ended)))
        say_why(req, code);
    sweep_phase(web, req->connection, PHASE_IDLE);
    request_over(req);
    request_unref(req);
    *mine = NULL;
    count(web, -1, 0);
}

static enum MHD_Result refuse(struct web_request *req, struct MHD_Connection *handle,
                              unsigned status, const char *why)
{
    struct MHD_Response *response = answer_refusal(status, why, &req->place);
    enum MHD_Result good;

    if (!response)
        return MHD_NO;
    answer_headers(req, response);
    count(req->web, 0, 1);
    if (req->web->options.refused)
        req->web->options.refused(req->web->options.context, req, status);
    sweep_phase(req->web, req->connection, PHASE_BUSY);
    req->refused = true;
    good = MHD_queue_response(handle, status, response);
    MHD_destroy_response(response);
    return good;
}

bool server_is(struct web *web, const bool *flag)
{
    bool set;

    (void)pthread_mutex_lock(&web->lock);
    set = *flag;
    (void)pthread_mutex_unlock(&web->lock);
    return set;
}

/* The caller is known before the first byte of a body is taken. A small body of a
 * stranger is read and dropped, so that the client hears the answer when it has sent
 * all. */
static enum MHD_Result find_place(struct web *web, struct web_request *req,
                                  struct MHD_Connection *handle)
{
    struct web_place *place = &req->place;
    bool eager = web_header(req, "Expect") == NULL;

    if (!web->options.door)
        return MHD_YES;
    web->options.door->place(web->options.context, req, place);
    if (place->caller)
        return sweep_know(web, req->connection, place->caller)
                   ? MHD_YES
                   : refuse(req, handle, 503, "this caller has too many connections");
    if (!request_has_body(req) || (eager && request_length(req) >= 0 &&
                                   request_length(req) <= (int64_t)WEB_PASS_OVER))
        return MHD_YES;
    return refuse(req, handle, place->status, place->why);
}

static enum MHD_Result begin(struct web *web, struct MHD_Connection *handle,
                             struct web_request **out, const char *method,
                             const char *target)
{
    struct web_request *req = request_new(web, handle, method, target);
    const char *why = NULL;
    unsigned status;

    if (!req)
        return MHD_NO;
    *out = req;
    count(web, 1, 0);
    sweep_phase(web, req->connection, PHASE_READING);
    status = request_judge(req, &why);
    if (server_is(web, &web->draining))
        return refuse(req, handle, 503, "the server is going down");
    return status ? refuse(req, handle, status, why) : find_place(web, req, handle);
}

/* A place among the caller's requests, and one in its lane. With the request's lock
 * held. */
static bool hand_over(struct web *web, struct web_request *req)
{
    const struct web_door *door = web->options.door;

    if (door && req->place.caller) {
        req->placed =
            door->take(web->options.context, req->place.caller, WEB_REQUESTS, 1);
        if (!req->placed)
            return false;
    }
    req->owners++;
    req->handed = workers_give(&web->lanes[req->place.lane], req) == 0;
    if (!req->handed)
        req->owners--;
    return req->handed;
}

/* With the body's first bytes, which are in memory. */
static void begin_flow(struct web *web, struct web_request *req)
{
    (void)pthread_mutex_lock(&req->lock);
    if (request_charge(req, FLOW_CHARGE)) {
        req->flow = (struct flow){ .on = true,
                                   .queue = req->body.small,
                                   .total = req->body.len };
        req->body = (struct body){ .fd = -1 };
    }
    if (!req->flow.on) {
        req->refusal = 503;
        req->why = "there is no room for the body now";
    } else if (!hand_over(web, req)) {
        req->flow.on = false;
        req->refusal = 503;
        req->why = "too many requests are under way";
    }
    (void)pthread_mutex_unlock(&req->lock);
}

static void keep_body(struct web *web, struct web_request *req, const char *data,
                      size_t len)
{
    if (req->body.len + len > web->options.body_bytes)
        body_too_large(req);
    if (req->refusal || (web->options.door && !req->place.caller))
        return;
    if (!request_charge(req, len) || body_add(&req->body, data, len) < 0) {
        req->refusal = 503;
        req->why = "there is no room for the body now";
    } else if (req->place.flows && req->body.len > FLOW_BEGINS) {
        begin_flow(web, req);
    }
}

/* Once refused, what still comes is passed over; libmicrohttpd takes an answer
 * only before a body or behind it. */
static enum MHD_Result take_body(struct web *web, struct web_request *req,
                                 const char *data, size_t *len)
{
    size_t more = *len;

    if (req->flow.on)
        flow_take(req, data, len);
    else
        *len = 0;
    more -= *len;
    web->moved += more;
    req->came += more;
    (void)pthread_mutex_lock(&web->lock);
    req->connection->read += more;
    (void)pthread_mutex_unlock(&web->lock);
    req->cut = req->came > 2 * (uint64_t)web->options.body_bytes;
    if (req->cut) {
        body_too_large(req);
        return MHD_NO;
    }
    if (!req->flow.on)
        keep_body(web, req, data, more);
    return MHD_YES;
}

static enum MHD_Result dispatch(struct web *web, struct web_request *req,
                                struct MHD_Connection *handle)
{
    if (req->refusal)
        return refuse(req, handle, req->refusal, req->why);
    if (body_end(&req->body) < 0)
        return refuse(req, handle, 503, "there is no room for the body now");
    sweep_phase(web, req->connection, PHASE_BUSY);
    (void)pthread_mutex_lock(&req->lock);
    if (!hand_over(web, req)) {
        (void)pthread_mutex_unlock(&req->lock);
        return refuse(req, handle, 503, "too many requests are under way");
    }
    /* The worker cannot answer before this, as that takes the lock. */
    req->suspended = true;
    MHD_suspend_connection(handle);
    (void)pthread_mutex_unlock(&req->lock);
    return MHD_YES;
}

/* NOLINTNEXTLINE(readability-function-size): as libmicrohttpd has it */
static enum MHD_Result access_handler(void *context, struct MHD_Connection *handle,
                                      const char *url, const char *method,
                                      const char *version, const char *data,
                                      size_t *len, void **mine)
{
    struct web *web = context;
    struct web_request *req = *mine;

    (void)version;
    if (!req) {
        enum MHD_Result good = begin(web, handle, &req, method, url);

        *mine = req;
        return good;
    }
    if (*len)
        return take_body(web, req, data, len);
    if (!req->handed)
        return dispatch(web, req, handle);
    if (req->flow.on && !req->flow.ended && !flow_end(req))
        return MHD_YES;
    return req->response ? answer_queue(req, handle) : MHD_NO;
}

static void set_usual(struct web_options *o)
{
    o->body_bytes = o->body_bytes ? o->body_bytes : (size_t)64 << 20;
    o->connections = o->connections ? o->connections : 12000;
    o->strangers = o->strangers ? o->strangers : 256;
    o->handlers = o->handlers ? o->handlers : 1800;
    o->idle_s = o->idle_s ? o->idle_s : 60;
    o->slow_s = o->slow_s ? o->slow_s : 20;
}

static struct MHD_Daemon *start(struct web *web)
{
    const struct web_options *o = &web->options;
    unsigned flags = MHD_USE_EPOLL | MHD_ALLOW_SUSPEND_RESUME | MHD_ALLOW_UPGRADE |
                     (o->tls_cert ? MHD_USE_TLS : 0u);
    struct MHD_OptionItem tls[] = {
        { MHD_OPTION_HTTPS_MEM_CERT, 0, (void *)(uintptr_t)o->tls_cert },
        { MHD_OPTION_HTTPS_MEM_KEY, 0, (void *)(uintptr_t)o->tls_key },
        { MHD_OPTION_HTTPS_PRIORITIES, 0,
          (void *)(uintptr_t) "NORMAL:-VERS-TLS1.0:-VERS-TLS1.1" },
        { MHD_OPTION_END, 0, NULL },
    };

    if (!o->tls_cert)
        tls[0].option = MHD_OPTION_END;
    return MHD_start_daemon(
        flags, 0, NULL, NULL, access_handler, web, MHD_OPTION_LISTEN_SOCKET,
        o->listen_fd, MHD_OPTION_CONNECTION_LIMIT,
        /* Never full of those that have been dropped and are not closed yet. */
        o->connections + 2 * o->strangers, MHD_OPTION_CONNECTION_TIMEOUT, o->idle_s,
        MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)WEB_HEAD_BYTES,
        MHD_OPTION_STRICT_FOR_CLIENT, 1, MHD_OPTION_UNESCAPE_CALLBACK, leave_escaped,
        NULL, MHD_OPTION_URI_LOG_CALLBACK, note_target, web,
        MHD_OPTION_NOTIFY_COMPLETED, completed, web, MHD_OPTION_NOTIFY_CONNECTION,
        notify_connection, web, MHD_OPTION_ARRAY, tls, MHD_OPTION_END);
}

/* True: there is more to do. *IDLE: no byte of a body went either way. */
static bool run(struct web *web, bool *idle)
{
    MHD_UNSIGNED_LONG_LONG ms = 1;
    uint64_t before;

    (void)pthread_mutex_lock(&web->turn);
    before = web->moved;
    (void)MHD_run(web->daemon);
    (void)MHD_get_timeout(web->daemon, &ms);
    *idle = web->moved == before;
    (void)pthread_mutex_unlock(&web->turn);
    return ms == 0;
}

void web_nudge(struct web *web)
{
    (void)eventfd_write(web->nudge_fd, 1);
}

/* The loop comes before everybody, a worker does not: one that is pushed aside in its
 * turn holds up all connections. So only where there is little to do. */
void web_turn(struct web *web)
{
    bool more = workers_busy(&web->lanes[WEB_CALLERS]) <= QUIET;
    bool idle;

    if (!more) {
        web_nudge(web);
        return;
    }
    /* What was sent by the first is followed by a look for what came meanwhile. */
    for (int i = 0; more && i < TURN_ROUNDS; i++)
        more = run(web, &idle);
    if (more)
        web_nudge(web);
}

/* For how long nothing needs to be done, if nothing comes; true: it all ends. */
static bool look(struct web *web, int *rest_ms)
{
    bool ending;

    (void)pthread_mutex_lock(&web->lock);
    *rest_ms = web->connection_count ? SWEEP_MS : -1;
    ending = web->ending;
    (void)pthread_mutex_unlock(&web->lock);
    return ending;
}

/* Until something comes, or somebody nudges, or MS are over; -1: for ever. */
static void rest(struct web *web, int ms)
{
    const union MHD_DaemonInfo *info =
        MHD_get_daemon_info(web->daemon, MHD_DAEMON_INFO_EPOLL_FD);
    struct pollfd fds[] = { { .fd = info->epoll_fd, .events = POLLIN },
                            { .fd = web->nudge_fd, .events = POLLIN } };
    eventfd_t count;

    (void)poll(fds, 2, ms);
    if (fds[1].revents)
        (void)eventfd_read(web->nudge_fd, &count);
}

static void *loop(void *context)
{
    struct web *web = context;
    int64_t swept_ns = clock_now_ns();
    unsigned again = 0; /* rounds with more to do, one after the other */
    unsigned still = 0; /* the same, in which nothing moved */
    int rest_ms = 0;

    while (!look(web, &rest_ms)) {
        bool idle = true;

        again = run(web, &idle) ? again + 1 : 0;
        still = again && idle ? still + 1 : 0;
        /* A connection that libmicrohttpd can do nothing for has more for ever. */
        if (again && (still ? still % AGAIN : again % MOVING) == 0)
            sweep_stuck(web);
        if (again == 0 || still >= AGAIN)
            rest(web, still ? 1 : rest_ms);
        if (clock_ms_between(swept_ns, clock_now_ns()) < SWEEP_MS)
            continue;
        sweep(web);
        swept_ns = clock_now_ns();
    }
    return NULL;
}

static void close_lanes(struct web *web, unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        workers_done(&web->lanes[i]);
}

static int open_lanes(struct web *web)
{
    const struct web_options *o = &web->options;
    const struct workers lanes[WEB_LANES] = {
        [WEB_CALLERS] = { .most = o->handlers, .threads_most = o->handlers },
        [WEB_STRANGERS] = { .most = 2 * o->strangers, .threads_most = 2 },
        [WEB_HEALTH] = { .most = 2 * o->strangers, .threads_most = 2 },
    };

    for (unsigned i = 0; i < WEB_LANES; i++) {
        web->lanes[i] = lanes[i];
        web->lanes[i].nice = i == WEB_HEALTH ? getpriority(PRIO_PROCESS, 0) : o->nice;
        if (i != WEB_CALLERS && o->door)
            web->lanes[i].threads_kept = lanes[i].threads_most;
        if (workers_init(&web->lanes[i]) < 0) {
            close_lanes(web, i + 1);
            return -1;
        }
    }
    return 0;
}

static int open_events(struct web *web, struct vial_error *err)
{
    web->ready_fd = eventfd(1, EFD_CLOEXEC | EFD_NONBLOCK);
    web->ending_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    web->nudge_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (web->ready_fd < 0 || web->ending_fd < 0 || web->nudge_fd < 0)
        return fail_sys(err, "open an eventfd");
    if (sys_random(web->secret, sizeof(web->secret)) < 0)
        return fail(err, VIAL_E_INTERNAL, "the kernel gives no random bytes");
    if (open_lanes(web) < 0 || pthread_mutex_init(&web->turn, NULL) != 0 ||
        pthread_mutex_init(&web->lock, NULL) != 0 ||
        pthread_cond_init(&web->changed, NULL) != 0)
        return fail_memory(err);
    return 0;
}

int web_open(const struct web_options *options, struct web **out,
             struct vial_error *err)
{
    struct web *web = calloc(1, sizeof(*web));

    if (!web)
        return fail_memory(err);
    web->options = *options;
    set_usual(&web->options);
    if (open_events(web, err) < 0) {
        free(web);
        return -1;
    }
    web->daemon = start(web);
    if (web->daemon)
        web->looping = thread_start(&web->loop, THREAD_STACK, loop, web) == 0;
    if (!web->looping) {
        web_close(web);
        (void)fail(err, VIAL_E_HTTP, "start the HTTP server");
        return options->tls_cert ? fail_remedy(err, "check the certificate and its key")
                                 : -1;
    }
    *out = web;
    return 0;
}

/* Whether it was not set before. */
static bool set_once(struct web *web, bool *flag)
{
    bool first;

    (void)pthread_mutex_lock(&web->lock);
    first = !*flag;
    *flag = true;
    (void)pthread_mutex_unlock(&web->lock);
    return first;
}

/* libmicrohttpd can be asked for this once only. */
static void take_no_connection(struct web *web)
{
    MHD_socket fd;

    if (!set_once(web, &web->quiet))
        return;
    (void)pthread_mutex_lock(&web->turn);
    fd = MHD_quiesce_daemon(web->daemon);
    (void)pthread_mutex_unlock(&web->turn);
    if (fd >= 0)
        (void)close(fd);
}

void web_retire(struct web *web)
{
    (void)set_once(web, &web->retired);
    take_no_connection(web);
}

void web_drain(struct web *web)
{
    (void)set_once(web, &web->draining);
    take_no_connection(web);
}

/* Answers that are complete still have to reach their clients. */
static void flush(struct web *web)
{
    struct timespec until;

    (void)clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += FLUSH_S;
    (void)pthread_mutex_lock(&web->lock);
    while (web->exchanges &&
           pthread_cond_timedwait(&web->changed, &web->lock, &until) == 0)
        ;
    (void)pthread_mutex_unlock(&web->lock);
}

static void end_loop(struct web *web)
{
    (void)pthread_mutex_lock(&web->lock);
    web->ending = true;
    (void)pthread_mutex_unlock(&web->lock);
    (void)eventfd_write(web->nudge_fd, 1);
    (void)pthread_join(web->loop, NULL);
}

void web_close(struct web *web)
{
    if (!web)
        return;
    (void)eventfd_write(web->ending_fd, 1);
    if (web->looping) {
        web_drain(web);
        for (unsigned i = 0; i < WEB_LANES; i++)
            workers_wait(&web->lanes[i]);
        flush(web);
        end_loop(web);
    }
    if (web->daemon)
        MHD_stop_daemon(web->daemon);
    close_lanes(web, WEB_LANES);
    (void)close(web->ready_fd);
    (void)close(web->ending_fd);
    (void)close(web->nudge_fd);
    (void)pthread_cond_destroy(&web->changed);
    (void)pthread_mutex_destroy(&web->turn);
    (void)pthread_mutex_destroy(&web->lock);
    free(web);
}

void web_count(struct web *web, struct web_counts *out)
{
    (void)pthread_mutex_lock(&web->lock);
    *out = (struct web_counts){ .connections = web->connection_count,
                                .requests = web->requests,
                                .refused = web->refused };
    (void)pthread_mutex_unlock(&web->lock);
    for (unsigned i = 0; i < WEB_LANES; i++) {
        struct workers *w = &web->lanes[i];

        (void)pthread_mutex_lock(&w->lock);
        out->handlers += w->busy + w->waiting;
        (void)pthread_mutex_unlock(&w->lock);
    }
}
