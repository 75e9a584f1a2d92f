/* SPDX-License-Identifier: Apache-2.0 */

/* A body that its handler takes while it comes. The loop adds to a queue, and suspends
 * the connection while that is full; the worker takes all of it at once, and has the
 * loop go on. */

#include <poll.h>
#include <time.h>

#include "web/server.h"

#define WAKE   FLOW_BEGINS /* bytes for which the worker is woken */
#define LOOK_S 1           /* between two looks whether the server is being closed */

/* With the lock held. */
static void refuse(struct web_request *req)
{
    if (req->refusal)
        return;
    req->refusal = 413;
    req->why = "the body is too large";
}

void body_too_large(struct web_request *req)
{
    (void)pthread_mutex_lock(&req->lock);
    refuse(req);
    (void)pthread_mutex_unlock(&req->lock);
}

/* With the lock held. False: there is no room now. */
static bool add(struct web_request *req, const char *data, size_t len)
{
    struct flow *f = &req->flow;
    bool few = f->queue.len < WAKE;

    if (req->answered || req->refusal)
        return true; /* nobody takes it any more */
    if (f->queue.len >= FLOW_BYTES)
        return false;
    f->total += len;
    if (f->total > req->web->options.body_bytes)
        refuse(req);
    else
        str_add(&f->queue, data, len);
    if (req->refusal || f->queue.failed || (few && f->queue.len >= WAKE))
        (void)pthread_cond_broadcast(&req->changed);
    return true;
}

void flow_take(struct web_request *req, const char *data, size_t *len)
{
    struct connection *c = req->connection;
    enum phase phase = PHASE_READING;

    (void)pthread_mutex_lock(&req->lock);
    if (add(req, data, *len)) {
        *len = 0;
    } else {
        phase = PHASE_BUSY; /* the client is not what is slow */
        req->suspended = true;
        MHD_suspend_connection(req->handle);
    }
    (void)pthread_mutex_unlock(&req->lock);
    if (c->phase != phase)
        sweep_phase(req->web, c, phase);
}

bool flow_end(struct web_request *req)
{
    bool answered;

    sweep_phase(req->web, req->connection, PHASE_BUSY);
    (void)pthread_mutex_lock(&req->lock);
    req->flow.ended = true;
    answered = req->answered;
    if (!answered) {
        req->suspended = true;
        MHD_suspend_connection(req->handle);
    }
    (void)pthread_cond_broadcast(&req->changed);
    (void)pthread_mutex_unlock(&req->lock);
    return answered;
}

static bool is_closing(const struct web *web)
{
    struct pollfd ending = { .fd = web->ending_fd, .events = POLLIN };

    return poll(&ending, 1, 0) != 0;
}

/* With the lock held, until there is enough to be worth it. False: no more comes. */
static bool wait_for_bytes(struct web_request *req)
{
    const struct flow *f = &req->flow;
    struct timespec until;

    while (f->queue.len < WAKE && !f->ended && !req->over && !req->refusal &&
           !f->queue.failed && !is_closing(req->web)) {
        (void)clock_gettime(CLOCK_REALTIME, &until);
        until.tv_sec += LOOK_S;
        (void)pthread_cond_timedwait(&req->changed, &req->lock, &until);
    }
    return !req->refusal && !f->queue.failed && (f->ended || f->queue.len >= WAKE);
}

static int read_small(struct web_request *req, struct str *out)
{
    size_t len = 0;
    const char *data = web_body(req, &len);

    if (req->flow.ended)
        len = 0;
    req->flow.ended = true;
    str_add(out, data, len);
    return len > 0;
}

int web_read(struct web_request *req, struct str *out, struct web_refusal *no)
{
    int rc = -1;
    bool woken;

    *no = (struct web_refusal){ 0 };
    if (!req->flow.on)
        return read_small(req, out);
    (void)pthread_mutex_lock(&req->lock);
    if (wait_for_bytes(req)) {
        rc = req->flow.queue.len > 0;
        str_move(out, &req->flow.queue);
        if (!req->flow.ended) /* then it is an answer that it waits for */
            answer_wake(req);
    } else if (req->refusal) {
        *no = (struct web_refusal){ req->refusal, req->why };
    } else if (req->flow.queue.failed) {
        *no = (struct web_refusal){ 503, "there is no room for the body now" };
    }
    woken = req->woken;
    req->woken = false;
    (void)pthread_mutex_unlock(&req->lock);
    if (woken)
        web_nudge(req->web);
    return rc;
}
