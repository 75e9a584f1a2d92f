/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/pool/queue.h"

#include "base/clock.h"
#include "base/thread.h"

#define MS_NS INT64_C(1000000)

static void join(struct queue *q, struct waiter *w)
{
    if (q->last)
        q->last->next = w;
    else
        q->first = w;
    q->last = w;
    q->count++;
}

static void leave(struct queue *q, const struct waiter *w)
{
    struct waiter *before = NULL;
    struct waiter *at = q->first;

    while (at != w) {
        before = at;
        at = at->next;
    }
    if (before)
        before->next = w->next;
    else
        q->first = w->next;
    if (q->last == w)
        q->last = before;
    q->count--;
}

bool queue_wait(struct queue *q, pthread_mutex_t *lock, int64_t ms, struct ready *out)
{
    struct waiter w = { .out = out };
    int64_t until_ns = clock_now_ns() + ms * MS_NS;
    int64_t left_ms = ms;

    thread_cond_init(&w.called);
    join(q, &w);
    while (!w.served && !w.dismissed && left_ms > 0) {
        thread_wait(&w.called, lock, left_ms);
        left_ms = (until_ns - clock_now_ns()) / MS_NS;
    }
    if (!w.served && !w.dismissed)
        leave(q, &w);
    (void)pthread_cond_destroy(&w.called);
    return w.served;
}

bool queue_serve(struct queue *q, const struct ready *r)
{
    struct waiter *w = q->first;

    if (!w)
        return false;
    leave(q, w);
    *w->out = *r;
    w->served = true;
    (void)pthread_cond_signal(&w->called);
    return true;
}

void queue_dismiss(struct queue *q)
{
    while (q->first) {
        struct waiter *w = q->first;

        leave(q, w);
        w->dismissed = true;
        (void)pthread_cond_signal(&w->called);
    }
}
