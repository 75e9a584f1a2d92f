/* SPDX-License-Identifier: Apache-2.0 */

/* Who waits for a vessel, with threads that do. What a vessel is does not matter. And
 * the end of a stock. */

#include <pthread.h>
#include <sched.h>
#include <stdlib.h>

#include "base/thread.h"
#include "check.h"
#include "engine/pool/stock.h"

#define WAITERS 3
#define LONG_MS 60000

struct case_waiter {
    struct case_queue *all;
    pthread_t thread;
    int64_t ms;
    struct ready got;
    bool served;
};

struct case_queue {
    pthread_mutex_t lock;
    struct queue queue;
    struct case_waiter waiters[WAITERS];
};

static void *wait_in_line(void *context)
{
    struct case_waiter *w = context;

    (void)pthread_mutex_lock(&w->all->lock);
    w->served = queue_wait(&w->all->queue, &w->all->lock, w->ms, &w->got);
    (void)pthread_mutex_unlock(&w->all->lock);
    return NULL;
}

static unsigned count(struct case_queue *q)
{
    unsigned n = 0;

    (void)pthread_mutex_lock(&q->lock);
    n = q->queue.count;
    (void)pthread_mutex_unlock(&q->lock);
    return n;
}

/* One after the other, so that their order is known. */
static void line_up(struct case_queue *q)
{
    *q = (struct case_queue){ 0 };
    (void)pthread_mutex_init(&q->lock, NULL);
    for (unsigned i = 0; i < WAITERS; i++) {
        q->waiters[i].all = q;
        q->waiters[i].ms = LONG_MS;
        assert_int_equal(
            pthread_create(&q->waiters[i].thread, NULL, wait_in_line, &q->waiters[i]),
            0);
        while (count(q) != i + 1)
            (void)sched_yield();
    }
}

static void join_all(struct case_queue *q)
{
    for (unsigned i = 0; i < WAITERS; i++)
        (void)pthread_join(q->waiters[i].thread, NULL);
    (void)pthread_mutex_destroy(&q->lock);
}

static void who_came_first_is_served_first(void **state)
{
    struct case_queue q;

    (void)state;
    line_up(&q);
    for (unsigned i = 0; i < WAITERS; i++) {
        (void)pthread_mutex_lock(&q.lock);
        assert_true(queue_serve(&q.queue, &(struct ready){ .queued_ms = i + 1 }));
        (void)pthread_mutex_unlock(&q.lock);
        assert_int_equal(count(&q), WAITERS - 1 - i);
    }
    assert_false(queue_serve(&q.queue, &(struct ready){ .queued_ms = 9 }));
    join_all(&q);
    for (unsigned i = 0; i < WAITERS; i++) {
        assert_true(q.waiters[i].served);
        assert_int_equal((int)q.waiters[i].got.queued_ms, i + 1);
    }
}

static void who_is_dismissed_goes_without(void **state)
{
    struct case_queue q;

    (void)state;
    line_up(&q);
    (void)pthread_mutex_lock(&q.lock);
    assert_true(queue_serve(&q.queue, &(struct ready){ .queued_ms = 7 }));
    queue_dismiss(&q.queue);
    (void)pthread_mutex_unlock(&q.lock);
    join_all(&q);
    assert_true(q.waiters[0].served);
    assert_false(q.waiters[1].served || q.waiters[2].served);
    assert_int_equal(q.queue.count, 0);
    assert_null(q.queue.first);
}

static void who_waited_in_vain_leaves_the_line(void **state)
{
    struct case_queue q = { 0 };
    struct ready got = { 0 };

    (void)state;
    (void)pthread_mutex_init(&q.lock, NULL);
    (void)pthread_mutex_lock(&q.lock);
    assert_false(queue_wait(&q.queue, &q.lock, 1, &got));
    assert_int_equal(q.queue.count, 0);
    assert_null(q.queue.last);
    assert_false(queue_serve(&q.queue, &got));
    (void)pthread_mutex_unlock(&q.lock);
    (void)pthread_mutex_destroy(&q.lock);
}

/* What a zygote is does not matter either: the pool, and its one stock. */
struct zygote {
    struct pool pool;
    struct stock stock;
    bool closed;
};

static struct shared_zygote *somebody(void)
{
    static struct shared_zygote elses;

    return &elses;
}

/* Whoever adds a stock meanwhile frees those that have ended: the place is another's
 * from here on. */
static void close_late(struct zygote *z)
{
    (void)pthread_mutex_lock(&z->pool.lock);
    assert_true(z->stock.ended);
    assert_int_equal(atomic_load(&z->stock.users), 0);
    z->closed = true;
    z->stock.holder.shared = somebody();
    (void)pthread_mutex_unlock(&z->pool.lock);
}

static void a_stock_that_has_ended_is_left_alone(void **state)
{
    static const struct driver driver = { .name = "none", .zygote_close = close_late };
    struct zygote *z = calloc(1, sizeof *z);
    struct shared_zygote *shared = calloc(1, sizeof *shared);

    (void)state;
    assert_non_null(z);
    assert_non_null(shared);
    (void)pthread_mutex_init(&z->pool.lock, NULL);
    thread_cond_init(&z->pool.changed);
    thread_cond_init(&z->stock.changed);
    z->pool.threads = 1;
    z->stock.pool = &z->pool;
    z->stock.driver = &driver;
    shared->driver = &driver;
    shared->zygote = z;
    z->stock.holder.shared = shared;
    /* Nobody has asked since the clock began: it is forgotten. */
    assert_null(stock_work(&z->stock));
    assert_true(z->closed);
    assert_int_equal(z->pool.threads, 0);
    assert_ptr_equal(z->stock.holder.shared, somebody());
    (void)pthread_cond_destroy(&z->stock.changed);
    (void)pthread_cond_destroy(&z->pool.changed);
    (void)pthread_mutex_destroy(&z->pool.lock);
    free(z);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(who_came_first_is_served_first),
        cmocka_unit_test(who_is_dismissed_goes_without),
        cmocka_unit_test(who_waited_in_vain_leaves_the_line),
        cmocka_unit_test(a_stock_that_has_ended_is_left_alone),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
