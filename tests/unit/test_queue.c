/* SPDX-License-Identifier: Apache-2.0 */

/* Who waits for a vessel, with threads that do. What a vessel is does not matter. */

#include <pthread.h>
#include <sched.h>

#include "check.h"
#include "engine/queue.h"

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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(who_came_first_is_served_first),
        cmocka_unit_test(who_is_dismissed_goes_without),
        cmocka_unit_test(who_waited_in_vain_leaves_the_line),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
