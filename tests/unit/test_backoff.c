/* SPDX-License-Identifier: Apache-2.0 */

/* Pauses after failures: what they are, not that they are waited for. */

#include "base/clock.h"
#include "check.h"
#include "engine/pool/zygote_holder.h"

#define MS_NS INT64_C(1000000)

static void what_has_not_failed_is_not_put_off(void **state)
{
    struct backoff p = { 0 };

    (void)state;
    assert_true(backoff_is_over(&p));
}

static void each_failure_doubles_it_up_to_five_seconds(void **state)
{
    static const int64_t expected[] = {
        100, 200, 400, 800, 1600, 3200, 5000, 5000, 5000
    };
    struct backoff p = { 0 };

    (void)state;
    for (size_t i = 0; i < sizeof expected / sizeof *expected; i++) {
        int64_t before_ns = clock_now_ns();

        backoff_begin(&p);
        assert_int_equal(p.ms, expected[i]);
        assert_true(p.until_ns >= before_ns + expected[i] * MS_NS);
        assert_true(p.until_ns <= clock_now_ns() + expected[i] * MS_NS);
    }
    assert_false(backoff_is_over(&p)); /* five seconds from now */
    p.until_ns = clock_now_ns();
    assert_true(backoff_is_over(&p));
}

static void what_went_well_begins_anew(void **state)
{
    struct backoff p = { 0 };

    (void)state;
    for (int i = 0; i < 5; i++)
        backoff_begin(&p);
    backoff_forget(&p);
    backoff_begin(&p);
    assert_int_equal(p.ms, 100);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_has_not_failed_is_not_put_off),
        cmocka_unit_test(each_failure_doubles_it_up_to_five_seconds),
        cmocka_unit_test(what_went_well_begins_anew),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
