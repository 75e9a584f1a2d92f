/* SPDX-License-Identifier: Apache-2.0 */

/* What a server says back, without the values of secrets: those that are part of one
 * another, too, and however what it says is cut. */

#include <stdlib.h>

#include "check.h"
#include "secrets/secrets.h"

/* TEXT by pieces of STEP, without VALUES, as is told. */
static char *told(const char *const *values, const char *text, size_t step)
{
    struct held held = { 0 };
    struct scrub scrub = { .held = &held };
    struct str out = { 0 };
    size_t len = strlen(text);

    for (; values[held.count]; held.count++)
        assert_true(pattern_make(&held.all[held.count].pattern, values[held.count],
                                 strlen(values[held.count]), ""));
    for (size_t at = 0; at < len; at += step)
        assert_int_equal(scrub_add(&scrub, text + at, len - at < step ? len - at : step,
                                   false, &out),
                         0);
    assert_int_equal(scrub_add(&scrub, NULL, 0, true, &out), 0);
    scrub_done(&scrub);
    for (size_t i = 0; i < held.count; i++) {
        free(held.all[i].pattern.value);
        free(held.all[i].pattern.instead);
    }
    return out.data;
}

static void check_told(const char *const *values, const char *text, const char *want)
{
    for (size_t step = 1; step <= strlen(text); step++) {
        char *said = told(values, text, step);

        assert_string_equal(said, want);
        free(said);
    }
}

static void a_value_that_is_part_of_another_leaves_nothing_of_it(void **state)
{
    (void)state;
    check_told((const char *const[]){ "token", "token-of-two", NULL },
               "a token, a token-of-two, token-of-",
               "a *****, a ************, *****-of-");
    check_told((const char *const[]){ "of-tw", "token-of-two", NULL },
               "a token-of-two, of-two", "a ************, *****o");
}

static void values_that_overlap_are_both_hidden(void **state)
{
    (void)state;
    check_told((const char *const[]){ "first-mid", "mid-last", NULL },
               "<first-mid-last>", "<**************>");
    check_told((const char *const[]){ "abcab", NULL }, "abcabcabc", "********c");
}

static void what_only_begins_like_a_value_is_told(void **state)
{
    (void)state;
    check_told((const char *const[]){ "secret", NULL }, "secre secres ecret secret",
               "secre secres ecret ******");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_value_that_is_part_of_another_leaves_nothing_of_it),
        cmocka_unit_test(values_that_overlap_are_both_hidden),
        cmocka_unit_test(what_only_begins_like_a_value_is_told),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
