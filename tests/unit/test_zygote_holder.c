/* SPDX-License-Identifier: Apache-2.0 */

/* A zygote that two threads ask at once. What a vessel is does not matter. */

#include <pthread.h>
#include <stdlib.h>

#include "base/thread.h"
#include "check.h"
#include "engine/pool/zygote_holder.h"

#define ASKING  2
#define LONG_MS 60000

struct zygote {
    unsigned number;
};

/* What the driver of this test was asked for. */
static struct {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    unsigned opened, closed, inside, met, inside_at_close;
} seen = { .lock = PTHREAD_MUTEX_INITIALIZER };

static int open_zygote(const struct plan *plan, const struct zygote_options *options,
                       struct zygote **out, struct vial_error *err)
{
    (void)plan;
    (void)options;
    (void)err;
    *out = calloc(1, sizeof **out);
    (*out)->number = ++seen.opened;
    return 0;
}

static void close_zygote(struct zygote *z)
{
    (void)pthread_mutex_lock(&seen.lock);
    seen.closed++;
    seen.inside_at_close = seen.inside;
    (void)pthread_mutex_unlock(&seen.lock);
    free(z);
}

/* Fails once all who ask are here together. */
static int meet_and_fail(struct zygote *z, struct vessel *v, int *fd, uint32_t *pid,
                         struct vial_error *err)
{
    (void)v;
    (void)fd;
    (void)pid;
    (void)pthread_mutex_lock(&seen.lock);
    seen.inside++;
    seen.met++;
    (void)pthread_cond_broadcast(&seen.changed);
    while (seen.met < ASKING)
        thread_wait(&seen.changed, &seen.lock, LONG_MS);
    assert_int_equal(z->number, 1);
    seen.inside--;
    (void)pthread_mutex_unlock(&seen.lock);
    err->code[0] = '\0';
    return -1;
}

static const struct driver driver = { .name = "none",
                                      .zygote_open = open_zygote,
                                      .zygote_close = close_zygote,
                                      .fork_into = meet_and_fail };
static const struct zygote_holder_needs needs = { .driver = &driver };

static void *ask(void *context)
{
    struct zygote_holder *n = context;
    struct vessel vessel = { .driver = &driver };
    struct ready r = { .vessel = &vessel };
    struct vial_error err = { 0 };

    return zygote_holder_fork_into(n, &needs, &r, &err) < 0 ? n : NULL;
}

static void who_ask_at_once_share_a_zygote_and_the_last_of_them_closes_it(void **state)
{
    struct zygote_holder n;
    pthread_t threads[ASKING];
    struct vial_error err = { 0 };

    (void)state;
    thread_cond_init(&seen.changed);
    zygote_holder_init(&n);
    for (unsigned i = 0; i < ASKING; i++)
        assert_int_equal(thread_start(&threads[i], THREAD_STACK, ask, &n), 0);
    for (unsigned i = 0; i < ASKING; i++) {
        void *failed = NULL;

        (void)pthread_join(threads[i], &failed);
        assert_ptr_equal(failed, &n);
    }
    assert_int_equal(seen.opened, 1);
    assert_int_equal(seen.closed, 1);
    assert_int_equal(seen.inside_at_close, 0);
    assert_false(zygote_holder_is_alive(&n));
    /* One that failed is replaced at once; nobody has asked this one yet. */
    zygote_holder_have(&n, &needs, &err);
    assert_true(zygote_holder_is_alive(&n));
    assert_int_equal(n.zygotes, 2);
    zygote_holder_close(atomic_exchange(&n.shared, NULL));
    assert_int_equal(seen.closed, 2);
    zygote_holder_done(&n);
    (void)pthread_cond_destroy(&seen.changed);
}

static int open_none(const struct plan *plan, const struct zygote_options *options,
                     struct zygote **out, struct vial_error *err)
{
    (void)plan;
    (void)options;
    (void)out;
    (void)err;
    seen.opened++;
    return -1;
}

static void one_that_cannot_be_started_is_not_tried_again_at_once(void **state)
{
    static const struct driver sterile = { .name = "none", .zygote_open = open_none };
    static const struct zygote_holder_needs none = { .driver = &sterile };
    struct zygote_holder n;
    struct ready r = { 0 };
    struct vial_error err = { 0 };

    (void)state;
    seen.opened = 0;
    zygote_holder_init(&n);
    zygote_holder_have(&n, &none, &err);
    n.pause.until_ns = INT64_MAX;
    assert_int_equal(zygote_holder_fork_into(&n, &none, &r, &err), 0);
    assert_int_equal(seen.opened, 1);
    n.pause.until_ns = 0;
    zygote_holder_have(&n, &none, &err);
    assert_int_equal(seen.opened, 2);
    zygote_holder_done(&n);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(who_ask_at_once_share_a_zygote_and_the_last_of_them_closes_it),
        cmocka_unit_test(one_that_cannot_be_started_is_not_tried_again_at_once),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
