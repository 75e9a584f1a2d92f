/* SPDX-License-Identifier: Apache-2.0 */
#include <signal.h>
#include <unistd.h>

#include "base/thread.h"
#include "check.h"

static void *look(void *context)
{
    return pthread_sigmask(SIG_SETMASK, NULL, context) == 0 ? context : NULL;
}

static void our_threads_take_no_signal_and_the_callers_mask_stays(void **state)
{
    sigset_t seen, after;
    pthread_t thread;
    void *looked = NULL;

    (void)state;
    (void)sigemptyset(&seen);
    assert_int_equal(thread_start(&thread, THREAD_STACK, look, &seen), 0);
    assert_int_equal(pthread_join(thread, &looked), 0);
    assert_ptr_equal(looked, &seen);
    assert_int_equal(sigismember(&seen, SIGTERM), 1);
    assert_int_equal(sigismember(&seen, SIGINT), 1);
    assert_int_equal(pthread_sigmask(SIG_SETMASK, NULL, &after), 0);
    assert_int_equal(sigismember(&after, SIGTERM), 0);
}

static void *measure(void *context)
{
    size_t *bytes = context;
    pthread_attr_t attr;

    if (pthread_getattr_np(pthread_self(), &attr) != 0)
        return NULL;
    (void)pthread_attr_getstacksize(&attr, bytes);
    (void)pthread_attr_destroy(&attr);
    return NULL;
}

static void a_stack_is_as_large_as_was_asked_for(void **state)
{
    size_t bytes = 0;
    pthread_t thread;

    (void)state;
    /* Larger than the one before, whose stack libc may give again. */
    assert_int_equal(thread_start(&thread, 2 * THREAD_STACK, measure, &bytes), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_true(bytes <= 2 * THREAD_STACK);
    assert_true(bytes > THREAD_STACK);
    /* Too small a one is made as large as a thread needs. */
    assert_int_equal(thread_start(&thread, 1, measure, &bytes), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_true(bytes >= (size_t)sysconf(_SC_THREAD_STACK_MIN));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(our_threads_take_no_signal_and_the_callers_mask_stays),
        cmocka_unit_test(a_stack_is_as_large_as_was_asked_for),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
