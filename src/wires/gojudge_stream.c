/* SPDX-License-Identifier: Apache-2.0 */
#include "wires/gojudge_stream.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/fail.h"
#include "base/thread.h"
#include "model/value.h"
#include "web/websocket.h"
#include "wires/gojudge_cmd.h"
#include "wires/gojudge_ws.h"

#define INPUTS    16u
#define LOOK_MS   50
#define FIRST_MS  10000 /* for the request */
#define BAD_WORDS 1008u

enum { HEAR_REQUEST = 1, HEAR_SIZE = 2, HEAR_INPUT = 3, HEAR_CANCEL = 4 };
enum { SAY_RESULTS = 1, SAY_OUTPUT = 2 };

struct live {
    struct call *call;
    struct web_socket *socket;
    json_t *body;
    int cancel_fd;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool begun;         /* all inputs are there */
    int inputs[INPUTS]; /* where a command's input goes; -1: nowhere */
    atomic_bool over;
    const char *wrong; /* what the client did */
};

static int send_output(void *context, size_t index, int fd, const void *data,
                       size_t len)
{
    struct live *l = context;
    auto_free char *piece = malloc(len + 2);

    if (!piece)
        return -1;
    piece[0] = SAY_OUTPUT;
    piece[1] = (char)(index << 4 | (size_t)fd);
    memcpy(piece + 2, data, len);
    return web_socket_send_bytes(l->socket, piece, len + 2);
}

static void take_input(void *context, size_t index, int fd)
{
    struct live *l = context;

    l->inputs[index] = fd; /* nobody else looks at it yet */
}

static void begin_listening(void *context)
{
    struct live *l = context;

    (void)pthread_mutex_lock(&l->lock);
    l->begun = true;
    (void)pthread_cond_broadcast(&l->changed);
    (void)pthread_mutex_unlock(&l->lock);
}

/* The last that is said. */
static void tell(struct live *l, json_t *results, const struct json_larges *larges,
                 const char *error)
{
    const char *id = value_string(json_object_get(l->body, "requestId"));
    auto_json json_t *told =
        json_pack("{s:s, s:O}", "requestId", id ? id : "", "results", results);

    if (told && error)
        (void)json_object_set_new(told, "error", json_string(error));
    if (told)
        (void)web_socket_send_json(l->socket, SAY_RESULTS, told, larges);
}

static void tell_results(void *context, json_t *results,
                         const struct json_larges *larges, uint64_t bytes)
{
    (void)bytes;
    tell(context, results, larges, NULL);
}

static void tell_error(struct live *l, const char *error)
{
    auto_json json_t *none = json_array();

    tell(l, none, NULL, error);
}

static void *work(void *context)
{
    struct live *l = context;
    const struct cmd_live streams = { send_output, take_input, begin_listening, l };
    const struct gojudge_teller to = { tell_results, l };
    struct vial_error err = { 0 };

    if (gojudge_run(l->call, l->body, l->cancel_fd, &streams, &to, &err) < 0)
        tell_error(l, err.message);
    atomic_store(&l->over, true);
    begin_listening(l); /* even if there was no memory to begin with */
    return NULL;
}

static void end_input(struct live *l, size_t index)
{
    if (l->inputs[index] >= 0)
        (void)close(fd_take(&l->inputs[index]));
}

/* Until FD takes more, or for a moment. False: the client has gone, or the daemon ends;
 * the run is cancelled. */
static bool await_room(struct live *l, int fd)
{
    struct pollfd fds[] = { { .fd = fd, .events = POLLOUT },
                            { .fd = web_gone_fd(l->call->web), .events = POLLIN } };

    (void)poll(fds, 2, LOOK_MS);
    if (!fds[1].revents && !l->call->serve->draining)
        return true;
    (void)eventfd_write(l->cancel_fd, 1);
    return false;
}

/* At the command's pace; one that has ended takes nothing. */
static void write_input(struct live *l, size_t index, const char *data, size_t len)
{
    while (len > 0 && l->inputs[index] >= 0 && !atomic_load(&l->over)) {
        ssize_t sent = write(l->inputs[index], data, len);

        if (sent > 0) {
            data += sent;
            len -= (size_t)sent;
        } else if (errno != EAGAIN) {
            end_input(l, index);
        } else if (!await_room(l, l->inputs[index])) {
            return;
        }
    }
}

static void hear_input(struct live *l, const char *data, size_t len)
{
    size_t index = len > 0 ? (unsigned char)data[0] >> 4 : 0;

    if (len == 0 || (data[0] & 0xf) != 0)
        l->wrong = "input does not exist";
    else if (len == 1)
        end_input(l, index);
    else
        write_input(l, index, data + 1, len - 1);
}

static void hear(struct live *l, const char *data, size_t len)
{
    switch (len > 0 ? data[0] : 0) {
    case HEAR_INPUT:
        hear_input(l, data + 1, len - 1);
        break;
    case HEAR_CANCEL:
        (void)eventfd_write(l->cancel_fd, 1);
        break;
    case HEAR_SIZE:
        l->wrong = "resize input does not have tty";
        break;
    default:
        l->wrong = "invalid request";
    }
}

/* While the commands run. What is wrong, or that the client has gone, ends them. */
static void listen(struct live *l)
{
    enum web_socket_said said = WEB_SOCKET_NOTHING;
    const char *data;
    size_t len;

    (void)pthread_mutex_lock(&l->lock);
    while (!l->begun)
        (void)pthread_cond_wait(&l->changed, &l->lock);
    (void)pthread_mutex_unlock(&l->lock);
    while (!atomic_load(&l->over)) {
        if (said != WEB_SOCKET_GONE && !l->wrong)
            said = web_socket_read(l->socket, LOOK_MS, &data, &len);
        else
            (void)poll(NULL, 0, LOOK_MS);
        if (said == WEB_SOCKET_MESSAGE)
            hear(l, data, len);
        if (said == WEB_SOCKET_GONE || l->wrong || l->call->serve->draining)
            (void)eventfd_write(l->cancel_fd, 1);
        said = said == WEB_SOCKET_GONE ? said : WEB_SOCKET_NOTHING;
    }
}

/* The body counts for its caller while its commands run. */
static void run(struct live *l, size_t bytes)
{
    struct gate *gate = &l->call->serve->gate;
    pthread_t thread;

    if (!gate_take(gate, l->call->caller, GATE_BODIES, bytes)) {
        tell_error(l, "too many requests are under way");
        return;
    }
    if (thread_start(&thread, THREAD_STACK, work, l) == 0) {
        listen(l);
        (void)pthread_join(thread, NULL);
    } else {
        tell_error(l, "there is no thread left");
    }
    gate_give(gate, l->call->caller, GATE_BODIES, bytes);
}

static enum web_socket_said read_first(struct live *l, const char **data, size_t *len)
{
    enum web_socket_said said = WEB_SOCKET_NOTHING;

    for (int ms = 0; said == WEB_SOCKET_NOTHING && ms < FIRST_MS; ms += LOOK_MS)
        said = l->call->serve->draining
                   ? WEB_SOCKET_GONE
                   : web_socket_read(l->socket, LOOK_MS, data, len);
    return said;
}

/* The first message. */
static void begin(struct live *l)
{
    struct vial_error err = { 0 };
    const char *data = NULL;
    size_t len = 0;

    if (read_first(l, &data, &len) != WEB_SOCKET_MESSAGE || len == 0 ||
        data[0] != HEAR_REQUEST)
        l->wrong = "the first stream request must be exec request";
    else if (json_parse(data + 1, len - 1, "request", &l->body, &err) < 0)
        tell_error(l, err.message);
    else
        run(l, len);
}

void gojudge_stream(struct call *c)
{
    struct live l = { .call = c,
                      .socket =
                          web_socket_open(c->web, (size_t)c->gen->settings->serve.body),
                      .cancel_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK) };

    c->status = l.socket ? 101 : 426;
    for (size_t i = 0; i < INPUTS; i++)
        l.inputs[i] = -1;
    (void)pthread_mutex_init(&l.lock, NULL);
    thread_cond_init(&l.changed);
    if (l.socket)
        web_socket_ping(l.socket, GOJUDGE_PING_MS, GOJUDGE_PONG_MS);
    if (l.socket && l.cancel_fd >= 0)
        begin(&l);
    if (l.socket)
        web_socket_close(l.socket, l.wrong ? BAD_WORDS : 1000, l.wrong ? l.wrong : "");
    for (size_t i = 0; i < INPUTS; i++)
        end_input(&l, i);
    if (l.cancel_fd >= 0)
        (void)close(l.cancel_fd);
    json_decref(l.body);
    (void)pthread_cond_destroy(&l.changed);
    (void)pthread_mutex_destroy(&l.lock);
}
