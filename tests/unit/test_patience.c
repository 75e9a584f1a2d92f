/* SPDX-License-Identifier: Apache-2.0 */

/* Runs that are turned away: which are, and how long they wait. */

#include <unistd.h>

#include "base/fail.h"
#include "batch/patience.h"
#include "check.h"

static void pauses_grow_up_to_five_seconds(void **state)
{
    static const int64_t expected[] = { 250, 500, 1000, 2000, 4000, 5000, 5000 };
    struct patience p = { 0 };

    (void)state;
    for (size_t i = 0; i < sizeof(expected) / sizeof(expected[0]); i++, p.times++)
        assert_int_equal(patience_pause_ms(&p, 0), expected[i]);
    p.times = UINT32_MAX;
    assert_int_equal(patience_pause_ms(&p, 0), 5000);
}

static void who_turns_away_says_how_long_at_least(void **state)
{
    struct patience p = { 0 };

    (void)state;
    assert_int_equal(patience_pause_ms(&p, 1), 1000);
    assert_int_equal(patience_pause_ms(&p, 60), 60000);
    assert_int_equal(patience_pause_ms(&p, UINT32_MAX), 300000);
    p.times = 9;
    assert_int_equal(patience_pause_ms(&p, 1), 5000);
}

static void only_what_passes_is_waited_for(void **state)
{
    struct vial_result denied = { .verdict = VIAL_DENIED };
    struct vial_result ran = { .verdict = VIAL_FAILED };
    struct vial_error err = { 0 };

    (void)state;
    (void)fail(&err, VIAL_E_RATE, "too many");
    assert_true(patience_turned_away(-1, NULL, &err));
    denied.error = ran.error = err;
    assert_true(patience_turned_away(0, &denied, NULL));
    assert_false(patience_turned_away(0, &ran, NULL));
    (void)fail_as(&err, VIAL_E_BUSY);
    assert_true(patience_turned_away(-1, NULL, &err));
    (void)fail_as(&err, VIAL_E_POLICY);
    denied.error = err;
    assert_false(patience_turned_away(-1, NULL, &err));
    assert_false(patience_turned_away(0, &denied, NULL));
}

static void who_cancels_is_not_waited_for(void **state)
{
    atomic_size_t waiting = 0;
    struct patience p = { .waiting = &waiting };
    int ends[2];

    (void)state;
    assert_int_equal(pipe(ends), 0);
    assert_int_equal(close(ends[1]), 0);
    assert_false(patience_wait(&p, PATIENCE_RETRY_MOST_S, ends[0]));
    assert_int_equal(close(ends[0]), 0);
    assert_int_equal(p.times, 1);
    assert_int_equal(waiting, 0);
    assert_true(patience_wait(&p, 0, -1));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pauses_grow_up_to_five_seconds),
        cmocka_unit_test(who_turns_away_says_how_long_at_least),
        cmocka_unit_test(only_what_passes_is_waited_for),
        cmocka_unit_test(who_cancels_is_not_waited_for),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
