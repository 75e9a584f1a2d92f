/* SPDX-License-Identifier: Apache-2.0 */
#include "base/budget.h"
#include "check.h"

static struct vial_budget *of_100(void)
{
    struct vial_budget *b = budget_new();

    assert_non_null(b);
    budget_set(b, BUDGET_MEMORY, 100);
    return b;
}

static void one_alone_has_at_most_half(void **state)
{
    struct vial_budget *b = of_100();

    (void)state;
    assert_int_equal(budget_share(b, BUDGET_MEMORY), 50);
    assert_true(budget_take(b, BUDGET_MEMORY, "a", 50));
    assert_false(budget_take(b, BUDGET_MEMORY, "a", 1));
    assert_int_equal(budget_used(b, BUDGET_MEMORY), 50);
    budget_unref(b);
}

static void a_newcomer_finds_as_much_as_anybody_holds(void **state)
{
    struct vial_budget *b = of_100();

    (void)state;
    assert_true(budget_take(b, BUDGET_MEMORY, "a", 50));
    assert_true(budget_take(b, BUDGET_MEMORY, "b", 25));
    assert_false(budget_take(b, BUDGET_MEMORY, "b", 1));
    assert_true(budget_take(b, BUDGET_MEMORY, "c", 12));
    budget_unref(b);
}

static void what_is_given_back_can_be_taken_again(void **state)
{
    struct vial_budget *b = of_100();

    (void)state;
    for (int i = 0; i < 10; i++) {
        assert_true(budget_take(b, BUDGET_MEMORY, "a", 30));
        assert_true(budget_take(b, BUDGET_MEMORY, NULL, 30));
        budget_give(b, BUDGET_MEMORY, NULL, 30);
        budget_give(b, BUDGET_MEMORY, "a", 30);
    }
    assert_int_equal(budget_used(b, BUDGET_MEMORY), 0);
    budget_unref(b);
}

static void kinds_are_counted_apart_and_huge_wishes_do_not_wrap(void **state)
{
    struct vial_budget *b = of_100();

    (void)state;
    assert_true(budget_take(b, BUDGET_DISK, "a", 1000)); /* that one has no bound */
    assert_false(budget_take(b, BUDGET_MEMORY, "a", UINT64_MAX));
    assert_true(budget_take(b, BUDGET_MEMORY, "a", 10));
    assert_false(budget_take(b, BUDGET_MEMORY, "a", UINT64_MAX - 5));
    budget_set(b, BUDGET_MEMORY, 5); /* less than is taken */
    assert_false(budget_take(b, BUDGET_MEMORY, "b", 1));
    budget_unref(b);
    assert_true(budget_take(NULL, BUDGET_MEMORY, "a", UINT64_MAX));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_alone_has_at_most_half),
        cmocka_unit_test(a_newcomer_finds_as_much_as_anybody_holds),
        cmocka_unit_test(what_is_given_back_can_be_taken_again),
        cmocka_unit_test(kinds_are_counted_apart_and_huge_wishes_do_not_wrap),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
