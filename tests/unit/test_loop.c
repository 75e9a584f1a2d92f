/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/loop.h"
#include "check.h"

struct seen {
    struct loop *loop;
    int calls, slot, other, stop_after;
    short events;
};

static void note(void *context, short events)
{
    struct seen *s = context;

    s->calls++;
    s->events = events;
    if (s->calls >= s->stop_after)
        loop_stop(s->loop);
}

static void open_pipe(int fds[2])
{
    assert_int_equal(pipe2(fds, O_CLOEXEC | O_NONBLOCK), 0);
}

static void close_pipe(const int fds[2])
{
    (void)close(fds[0]);
    (void)close(fds[1]);
}

static void a_ready_descriptor_calls_back_until_the_loop_is_stopped(void **state)
{
    struct loop l;
    struct seen s = { .loop = &l, .stop_after = 3 };
    struct vial_error err;
    int fds[2];

    (void)state;
    open_pipe(fds);
    assert_int_equal(write(fds[1], "x", 1), 1);
    loop_init(&l);
    assert_int_equal(loop_add(&l, -1, POLLIN, note, NULL), 0);
    assert_int_equal(loop_add(&l, fds[0], POLLIN, note, &s), 1);
    assert_int_equal(loop_run(&l, &err), 0);
    assert_int_equal(s.calls, 3);
    assert_int_equal(s.events & POLLIN, POLLIN);
    close_pipe(fds);
}

static void a_stop_ends_one_run_and_the_loop_can_be_run_again(void **state)
{
    struct loop l;
    struct seen s = { .loop = &l, .stop_after = 1 };
    struct vial_error err;
    int fds[2];

    (void)state;
    open_pipe(fds);
    loop_init(&l);
    (void)loop_add(&l, fds[1], POLLOUT, note, &s);
    assert_int_equal(loop_run(&l, &err), 0);
    assert_int_equal(loop_run(&l, &err), 0);
    assert_int_equal(s.calls, 2);
    loop_stop(&l);
    assert_int_equal(loop_run(&l, &err), 0);
    assert_int_equal(s.calls, 2);
    close_pipe(fds);
}

/* Switches the other slot off. */
static void silence(void *context, short events)
{
    struct seen *s = context;

    (void)events;
    s->calls++;
    loop_set(s->loop, s->other, -1, 0);
    if (s->calls == 2)
        loop_stop(s->loop);
}

static void a_slot_that_is_switched_off_by_a_callback_is_not_called_any_more(
    void **state)
{
    struct loop l;
    struct seen first = { .loop = &l, .other = 1 };
    struct seen second = { .loop = &l, .stop_after = 100 };
    struct vial_error err;
    int fds[2];

    (void)state;
    open_pipe(fds);
    loop_init(&l);
    (void)loop_add(&l, fds[1], POLLOUT, silence, &first);
    (void)loop_add(&l, fds[1], POLLOUT, note, &second);
    assert_int_equal(loop_run(&l, &err), 0);
    assert_int_equal(first.calls, 2);
    assert_int_equal(second.calls, 0);
    close_pipe(fds);
}

static void after_a_stop_no_other_slot_is_called(void **state)
{
    struct loop l;
    struct seen first = { .loop = &l, .stop_after = 1 };
    struct seen second = { .loop = &l, .stop_after = 1 };
    struct vial_error err;
    int fds[2];

    (void)state;
    open_pipe(fds);
    loop_init(&l);
    (void)loop_add(&l, fds[1], POLLOUT, note, &first);
    (void)loop_add(&l, fds[1], POLLOUT, note, &second);
    assert_int_equal(loop_run(&l, &err), 0);
    assert_int_equal(second.calls, 0);
    close_pipe(fds);
}

static void a_loop_with_nothing_to_wait_for_fails_instead_of_hanging(void **state)
{
    struct loop l;
    struct vial_error err;

    (void)state;
    loop_init(&l);
    (void)loop_add(&l, -1, POLLIN, note, NULL);
    assert_int_equal(loop_run(&l, &err), -1);
    assert_error(&err, "VIAL-INTERNAL wait: no descriptor to wait for");
}

static void a_closed_descriptor_fails_instead_of_spinning(void **state)
{
    struct loop l;
    struct seen s = { .loop = &l, .stop_after = 1 };
    struct vial_error err;

    (void)state;
    loop_init(&l);
    (void)loop_add(&l, 999, POLLIN, note, &s);
    assert_int_equal(loop_run(&l, &err), -1);
    assert_error(&err, "VIAL-INTERNAL wait for descriptor 999: not open");
}

static void a_full_loop_takes_no_more(void **state)
{
    struct loop l;

    (void)state;
    loop_init(&l);
    for (int i = 0; i < LOOP_MAX; i++)
        assert_int_equal(loop_add(&l, -1, 0, note, NULL), i);
    assert_int_equal(loop_add(&l, -1, 0, note, NULL), -1);
}

static void ignore(int signal)
{
    (void)signal;
}

static void a_signal_does_not_end_the_loop(void **state)
{
    struct sigaction action = { .sa_handler = ignore }, old;
    struct itimerval soon = { .it_value.tv_usec = 1000, .it_interval.tv_usec = 1000 };
    struct itimerval off = { 0 };
    struct loop l;
    struct seen s = { .loop = &l, .stop_after = 1 };
    struct vial_error err;

    (void)state;
    loop_init(&l);
    loop_set_timer(&l, loop_add_timer(&l, note, &s), 30);
    assert_int_equal(sigaction(SIGALRM, &action, &old), 0);
    assert_int_equal(setitimer(ITIMER_REAL, &soon, NULL), 0);
    assert_int_equal(loop_run(&l, &err), 0);
    assert_int_equal(setitimer(ITIMER_REAL, &off, NULL), 0);
    assert_int_equal(sigaction(SIGALRM, &old, NULL), 0);
    assert_int_equal(s.calls, 1);
}

static void a_timer_of_zero_is_called_at_once_and_only_once(void **state)
{
    struct loop l;
    struct seen timer = { .loop = &l, .stop_after = 9 };
    struct seen pipe = { .loop = &l, .stop_after = 3 };
    struct vial_error err;
    int fds[2];

    (void)state;
    open_pipe(fds);
    loop_init(&l);
    loop_set_timer(&l, loop_add_timer(&l, note, &timer), 0);
    (void)loop_add(&l, fds[1], POLLOUT, note, &pipe);
    assert_int_equal(loop_run(&l, &err), 0);
    assert_int_equal(timer.calls, 1);
    assert_int_equal(pipe.calls, 3);
    close_pipe(fds);
}

static void a_timer_is_never_early(void **state)
{
    static const int64_t after_ms[] = { 1, 5, 40 };
    struct loop l;
    struct vial_error err;

    (void)state;
    for (size_t i = 0; i < sizeof after_ms / sizeof *after_ms; i++) {
        struct seen s = { .loop = &l, .stop_after = 1 };
        int64_t start_ns = clock_now_ns();

        loop_init(&l);
        loop_set_timer(&l, loop_add_timer(&l, note, &s), after_ms[i]);
        assert_int_equal(loop_run(&l, &err), 0);
        assert_true(clock_now_ns() - start_ns >= after_ms[i] * 1000000);
    }
}

static void a_timer_that_is_taken_back_is_not_called(void **state)
{
    struct loop l;
    struct seen back = { .loop = &l, .stop_after = 1 };
    struct seen end = { .loop = &l, .stop_after = 1 };
    struct vial_error err;
    int slot;

    (void)state;
    loop_init(&l);
    slot = loop_add_timer(&l, note, &back);
    loop_set_timer(&l, slot, 0);
    loop_set_timer(&l, slot, -1);
    assert_int_equal(loop_run(&l, &err), -1);
    assert_error(&err, "VIAL-INTERNAL wait: no descriptor to wait for");
    loop_set_timer(&l, slot, 0);
    loop_set_timer(&l, slot, INT64_MAX);
    loop_set_timer(&l, loop_add_timer(&l, note, &end), 5);
    assert_int_equal(loop_run(&l, &err), 0);
    assert_int_equal(back.calls, 0);
    assert_int_equal(end.calls, 1);
}

static void the_soonest_timer_is_called_first_and_of_two_due_the_first_added(
    void **state)
{
    struct loop l;
    struct seen late = { .loop = &l, .stop_after = 1 };
    struct seen soon = { .loop = &l, .stop_after = 1 };
    struct vial_error err;
    int slots[2];

    (void)state;
    loop_init(&l);
    slots[0] = loop_add_timer(&l, note, &late);
    slots[1] = loop_add_timer(&l, note, &soon);
    loop_set_timer(&l, slots[0], 3600000);
    loop_set_timer(&l, slots[1], 1);
    assert_int_equal(loop_run(&l, &err), 0);
    assert_int_equal(soon.calls, 1);
    assert_int_equal(late.calls, 0);
    loop_set_timer(&l, slots[0], 0);
    loop_set_timer(&l, slots[1], 0);
    assert_int_equal(loop_run(&l, &err), 0);
    assert_int_equal(soon.calls, 1);
    assert_int_equal(late.calls, 1);
}

struct stopper {
    struct loop *loop;
    int before, after, stop_at;
};

static void before(void *context)
{
    struct stopper *s = context;

    if (++s->before == s->stop_at)
        loop_stop(s->loop);
}

static void after(void *context)
{
    struct stopper *s = context;

    s->after++;
}

static void a_loop_that_is_stopped_before_a_wait_does_not_wait(void **state)
{
    struct loop l;
    struct stopper s = { .loop = &l, .stop_at = 2 };
    struct seen once = { .loop = &l, .stop_after = 2 };
    struct vial_error err;

    (void)state;
    loop_init(&l);
    loop_set_turns(&l, before, after, &s);
    loop_set_due(&l, loop_add_timer(&l, note, &once), 0);
    assert_int_equal(loop_run(&l, &err), 0); /* nothing is left to wait for */
    assert_int_equal(once.calls, 1);
    assert_int_equal(s.before, 2);
    assert_int_equal(s.after, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_ready_descriptor_calls_back_until_the_loop_is_stopped),
        cmocka_unit_test(a_stop_ends_one_run_and_the_loop_can_be_run_again),
        cmocka_unit_test(
            a_slot_that_is_switched_off_by_a_callback_is_not_called_any_more),
        cmocka_unit_test(after_a_stop_no_other_slot_is_called),
        cmocka_unit_test(a_loop_with_nothing_to_wait_for_fails_instead_of_hanging),
        cmocka_unit_test(a_closed_descriptor_fails_instead_of_spinning),
        cmocka_unit_test(a_full_loop_takes_no_more),
        cmocka_unit_test(a_timer_of_zero_is_called_at_once_and_only_once),
        cmocka_unit_test(a_timer_is_never_early),
        cmocka_unit_test(a_timer_that_is_taken_back_is_not_called),
        cmocka_unit_test(
            the_soonest_timer_is_called_first_and_of_two_due_the_first_added),
        cmocka_unit_test(a_loop_that_is_stopped_before_a_wait_does_not_wait),
        cmocka_unit_test(a_signal_does_not_end_the_loop),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
