/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A limit that is added to limits.def is respected by warm vessels, without a line
 * more. This program has four that vial has not (more_limits/model/limits.def), and
 * compiles limits.c and pool_key.c with them. Nothing else here may see a struct
 * limits: the library's is a shorter one.
 */
#include <stdlib.h>

#include "check.h"
#include "engine/pool/pool_key.h"

static const struct driver driver = { .name = "native", .waits = true };
static const struct limits open_limits = {
    .more_by_engine = 10, .more_by_both = 10, .more_lowered = 10, .more_at_opening = 10
};

static bool has_the_same_key(const struct plan *a, const struct plan *b)
{
    char *one = pool_key(&driver, a);
    char *other = pool_key(&driver, b);
    bool same = strcmp(one, other) == 0;

    free(one);
    free(other);
    return same;
}

static void one_that_opening_sets_is_part_of_the_key(void **state)
{
    struct plan open = { .limits = open_limits };
    struct plan wanted = { .limits = open_limits };

    (void)state;
    assert_true(has_the_same_key(&open, &wanted));
    wanted.limits.more_at_opening = 9;
    assert_false(has_the_same_key(&open, &wanted));
    wanted.limits = open_limits;
    wanted.limits.more_lowered = wanted.limits.more_by_both = 9;
    wanted.limits.more_by_engine = 11;
    assert_true(has_the_same_key(&open, &wanted));
}

static void one_that_can_be_lowered_is_lowered_and_never_raised(void **state)
{
    struct plan wanted = { .limits = open_limits };

    (void)state;
    assert_true(pool_fits(&open_limits, &wanted));
    assert_false(pool_needs_limits(&open_limits, &wanted));
    wanted.limits.more_lowered = 9;
    assert_true(pool_fits(&open_limits, &wanted));
    assert_true(pool_needs_limits(&open_limits, &wanted));
    wanted.limits.more_lowered = 11;
    assert_false(pool_fits(&open_limits, &wanted));
    wanted.limits.more_lowered = 0; /* no limit is more than any */
    assert_false(pool_fits(&open_limits, &wanted));
}

static void one_that_the_engine_holds_asks_nothing_of_the_vessel(void **state)
{
    struct plan wanted = { .limits = open_limits };

    (void)state;
    wanted.limits.more_by_engine = 11;
    wanted.limits.more_by_both = 9;
    assert_true(pool_fits(&open_limits, &wanted));
    assert_false(pool_needs_limits(&open_limits, &wanted));
    wanted.limits.more_by_both = 11; /* the vessel's own would come first */
    assert_false(pool_fits(&open_limits, &wanted));
}

static void each_limit_of_the_table_is_judged(void **state)
{
    (void)state;
    for (size_t i = 0; i < LIMIT_COUNT; i++) {
        const struct limit_row *row = &limit_rows[i];
        struct plan open = { .limits = open_limits };
        struct plan wanted = { .limits = open_limits };
        bool fits;

        *limits_at(&open.limits, row) = 10;
        *limits_at(&wanted.limits, row) = 11;
        fits = has_the_same_key(&open, &wanted) && pool_fits(&open.limits, &wanted);
        assert_int_equal(fits, row->hold == LIMIT_BY_ENGINE);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_that_opening_sets_is_part_of_the_key),
        cmocka_unit_test(one_that_can_be_lowered_is_lowered_and_never_raised),
        cmocka_unit_test(one_that_the_engine_holds_asks_nothing_of_the_vessel),
        cmocka_unit_test(each_limit_of_the_table_is_judged),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
