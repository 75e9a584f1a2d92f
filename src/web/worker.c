/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <sys/resource.h>
#include <time.h>

#include "base/thread.h"
#include "web/server.h"

#define LINGER_S 10 /* a thread without work stays for this long */
#define BACK     5  /* steps of nice: a third of the usual share */

/* With the lock held: the next request, or NULL when the thread should end. */
static struct web_request *next(struct workers *w)
{
    struct web_request *req;
    struct timespec until;

    (void)clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += LINGER_S;
    w->idle++;
    while (!w->first && !w->closing)
        if (w->threads <= w->threads_kept)
            (void)pthread_cond_wait(&w->work, &w->lock);
        else if (pthread_cond_timedwait(&w->work, &w->lock, &until) == ETIMEDOUT)
            break;
    w->idle--;
    req = w->first;
    if (!req)
        return NULL;
    w->first = req->next;
    w->waiting--;
    w->busy++;
    return req;
}

void worker_stand_back(const struct web_request *req)
{
    const struct workers *w = &req->web->lanes[req->place.lane];

    if (pthread_equal(req->worker, pthread_self()))
        (void)setpriority(PRIO_PROCESS, 0, w->nice + BACK); /* this thread's alone */
}

/* Without rights nobody comes back from that. */
static bool stands_back(const struct workers *w)
{
    return getpriority(PRIO_PROCESS, 0) > w->nice;
}

static void *work(void *context)
{
    struct workers *w = context;
    struct web_request *req;
    bool back = false;

    (void)setpriority(PRIO_PROCESS, 0, w->nice);
    (void)pthread_mutex_lock(&w->lock);
    while (!back && (req = next(w))) {
        (void)pthread_mutex_unlock(&w->lock);
        req->worker = pthread_self();
        req->web->options.handler(req->web->options.context, req);
        answer_finish(req);
        body_done(&req->body); /* by us: the loop has no time for a large one */
        request_unref(req);
        back = stands_back(w);
        (void)pthread_mutex_lock(&w->lock);
        w->busy--;
        (void)pthread_cond_broadcast(&w->quiet);
    }
    w->threads--;
    (void)pthread_cond_broadcast(&w->quiet);
    (void)pthread_mutex_unlock(&w->lock);
    return NULL;
}

/* With the lock held. */
static int add_thread(struct workers *w)
{
    if (thread_start_alone(THREAD_STACK, work, w) != 0)
        return -1;
    w->threads++;
    return 0;
}

int workers_init(struct workers *w)
{
    unsigned kept = w->threads_kept;

    if (pthread_mutex_init(&w->lock, NULL) != 0 ||
        pthread_cond_init(&w->work, NULL) != 0 ||
        pthread_cond_init(&w->quiet, NULL) != 0)
        return -1;
    /* The threads that stay are made now: later there may be none to be had. */
    (void)pthread_mutex_lock(&w->lock);
    while (w->threads < kept && add_thread(w) == 0)
        ;
    kept -= w->threads;
    (void)pthread_mutex_unlock(&w->lock);
    return kept == 0 ? 0 : -1;
}

/* With the lock held: there is one for the next, or will be. */
static bool has_thread(struct workers *w)
{
    if (w->idle > w->waiting)
        return true;
    if (w->threads < w->threads_most && add_thread(w) == 0)
        return true;
    return w->threads > 0 && w->threads_most < w->most;
}

int workers_give(struct workers *w, struct web_request *req)
{
    int rc = -1;

    (void)pthread_mutex_lock(&w->lock);
    if (!w->closing && w->busy + w->waiting < w->most && has_thread(w)) {
        req->next = NULL;
        if (w->first)
            w->last->next = req;
        else
            w->first = req;
        w->last = req;
        w->waiting++;
        (void)pthread_cond_signal(&w->work);
        rc = 0;
    }
    (void)pthread_mutex_unlock(&w->lock);
    return rc;
}

unsigned workers_busy(struct workers *w)
{
    unsigned busy;

    (void)pthread_mutex_lock(&w->lock);
    busy = w->busy;
    (void)pthread_mutex_unlock(&w->lock);
    return busy;
}

void workers_wait(struct workers *w)
{
    (void)pthread_mutex_lock(&w->lock);
    while (w->busy || w->waiting)
        (void)pthread_cond_wait(&w->quiet, &w->lock);
    (void)pthread_mutex_unlock(&w->lock);
}

void workers_done(struct workers *w)
{
    (void)pthread_mutex_lock(&w->lock);
    w->closing = true;
    (void)pthread_cond_broadcast(&w->work);
    while (w->threads)
        (void)pthread_cond_wait(&w->quiet, &w->lock);
    (void)pthread_mutex_unlock(&w->lock);
    (void)pthread_cond_destroy(&w->work);
    (void)pthread_cond_destroy(&w->quiet);
    (void)pthread_mutex_destroy(&w->lock);
}
