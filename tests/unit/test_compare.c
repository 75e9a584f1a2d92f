/* SPDX-License-Identifier: Apache-2.0 */

/* How a batch compares what was printed with what was expected. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "batch/compare.h"

static bool same(const char *how, const char *got, const char *want)
{
    struct compare c;
    struct vial_error err = { 0 };

    assert_int_equal(compare_parse(how, &c, &err), 0);
    return compare_equal(&c, got, strlen(got), want, strlen(want));
}

static void each_way_forgives_what_it_says(void **state)
{
    static const struct {
        const char *how, *got, *want;
        bool same;
    } cases[] = {
        { "exact", "a\n", "a\n", true },
        { "exact", "a", "a\n", false },
        { "exact", "", "", true },
        { "lines", "a \nb\t\r\n\n\n", "a\nb", true },
        { "lines", " a\n", "a\n", false },
        { "lines", "a\n\nb\n", "a\nb\n", false },
        { "lines", "", "\n \n", true },
        { "lines", "A\n", "a\n", false },
        { "lower", "A b \n", "a B\n", true },
        { "lower", "Ä\n", "ä\n", false },
        { "tokens", "1  2\n3", "1 2 3\n", true },
        { "tokens", "1 2", "1 2 3", false },
        { "tokens", "12", "1 2", false },
        { "tokens", "1.0", "1", false },
        { "float", "1.0000001 x", "1 x", true },
        { "float", "1.001", "1", false },
        { "float:0.01", "1.001 1e9", "1 1000000001", true },
        { "float:0", "0.10", "0.1", true },
        { "float:1", "nan", "1", false },
        { "float:1", "inf", "1e308", false },
        { "float:1", "inf", "inf", true },
        { "float:1", "0x10z", "16", false },
        { "float", "", "0", false },
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        if (same(cases[i].how, cases[i].got, cases[i].want) != cases[i].same)
            fail_msg("%s: '%s' and '%s'", cases[i].how, cases[i].got, cases[i].want);
}

static void nul_is_a_byte_like_others(void **state)
{
    const struct compare c = { COMPARE_LINES, 0 };

    (void)state;
    assert_true(compare_equal(&c, "a\0b\n", 4, "a\0b", 3));
    assert_false(compare_equal(&c, "a\0b\n", 4, "a\0c", 3));
}

static void other_ways_are_refused(void **state)
{
    static const char *const wrong[] = { "", "exactly", "float:", "float:x", "float:-1",
                                         "float:inf", "float:nan", "float:1 " };

    (void)state;
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        struct compare c;
        struct vial_error err = { 0 };

        assert_int_equal(compare_parse(wrong[i], &c, &err), -1);
        assert_string_equal(err.code, "VIAL-VALUE");
        assert_true(err.remedy[0]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_way_forgives_what_it_says),
        cmocka_unit_test(nul_is_a_byte_like_others),
        cmocka_unit_test(other_ways_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
