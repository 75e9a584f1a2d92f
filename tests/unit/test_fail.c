/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdlib.h>

#include "base/fail.h"
#include "base/text.h"
#include "check.h"

static void a_failure_is_minus_one_with_code_and_message(void **state)
{
    struct vial_error err = { .cause = "old", .remedy = "old", .sys = 7 };

    (void)state;
    assert_int_equal(fail(&err, VIAL_E_VALUE, "timeout '%s' is not a duration", "x"),
                     -1);
    assert_error(&err, "VIAL-VALUE timeout 'x' is not a duration");
    assert_string_equal(err.cause, "");
    assert_string_equal(err.remedy, "");
    assert_int_equal(err.sys, 0);
}

static void errno_becomes_the_cause(void **state)
{
    struct vial_error err;

    (void)state;
    errno = ENOENT;
    assert_int_equal(fail_sys(&err, "open '%s'", "/x"), -1);
    assert_error(&err, "VIAL-SYSTEM open '/x'");
    assert_string_equal(err.cause, "No such file or directory");
    assert_int_equal(err.sys, ENOENT);
}

static void a_negative_and_a_positive_errno_mean_the_same(void **state)
{
    struct vial_error a, b;

    (void)state;
    (void)fail_sys_rc(&a, -EPERM, "mount '%s'", "/m");
    (void)fail_sys_rc(&b, EPERM, "mount '%s'", "/m");
    assert_int_equal(a.sys, EPERM);
    assert_string_equal(a.cause, "Operation not permitted");
    assert_string_equal(a.cause, b.cause);
    assert_int_equal(a.sys, b.sys);
}

static void an_unknown_errno_still_has_a_cause(void **state)
{
    struct vial_error err;

    (void)state;
    (void)fail_sys_rc(&err, -100000, "read");
    assert_string_equal(err.cause, "error 100000");
}

static void context_goes_before_the_message_and_keeps_the_rest(void **state)
{
    struct vial_error err;

    (void)state;
    (void)fail_sys_rc(&err, -EACCES, "create 'a'");
    assert_int_equal(fail_in(&err, "cgroup '%s'", "c"), -1);
    assert_error(&err, "VIAL-SYSTEM cgroup 'c': create 'a'");
    assert_int_equal(err.sys, EACCES);
    assert_string_equal(err.cause, "Permission denied");
}

static void an_argument_may_point_into_the_error_itself(void **state)
{
    struct vial_error err;

    (void)state;
    (void)fail(&err, VIAL_E_VALUE, "inner");
    (void)fail(&err, VIAL_E_OPEN, "outer '%s'", err.message);
    assert_error(&err, "VIAL-OPEN outer 'inner'");
}

static void remedy_cause_and_code_can_be_changed_alone(void **state)
{
    struct vial_error err;

    (void)state;
    (void)fail(&err, VIAL_E_FIELD, "unknown key 'timout'");
    assert_int_equal(fail_remedy(&err, "did you mean '%s'?", "timeout"), -1);
    assert_int_equal(fail_cause(&err, "%s", "typing"), -1);
    assert_int_equal(fail_as(&err, VIAL_E_POLICY), -1);
    assert_error(&err, "VIAL-POLICY unknown key 'timout'");
    assert_string_equal(err.remedy, "did you mean 'timeout'?");
    assert_string_equal(err.cause, "typing");
}

static void want_of_descriptors_has_its_own_remedy_and_keeps_it(void **state)
{
    struct vial_error err;

    (void)state;
    (void)fail_sys_rc(&err, -EMFILE, "read '%s'", "languages.yaml");
    assert_non_null(strstr(err.remedy, "ulimit -n"));
    (void)fail_remedy(&err, "install it");
    assert_non_null(strstr(err.remedy, "ulimit -n"));
    (void)fail_sys_rc(&err, -ENOENT, "read '%s'", "languages.yaml");
    assert_string_equal(err.remedy, "");
    (void)fail_remedy(&err, "install it");
    assert_string_equal(err.remedy, "install it");
}

static void every_function_takes_no_error_at_all(void **state)
{
    (void)state;
    assert_int_equal(fail(NULL, VIAL_E_VALUE, "x"), -1);
    assert_int_equal(fail_sys(NULL, "x"), -1);
    assert_int_equal(fail_sys_rc(NULL, -1, "x"), -1);
    assert_int_equal(fail_in(NULL, "x"), -1);
    assert_int_equal(fail_remedy(NULL, "x"), -1);
    assert_int_equal(fail_cause(NULL, "x"), -1);
    assert_int_equal(fail_as(NULL, VIAL_E_VALUE), -1);
    assert_int_equal(fail_memory(NULL), -1);
    fail_clear(NULL);
}

static void a_message_too_long_is_cut_at_a_character(void **state)
{
    struct vial_error err;
    char text[4 * sizeof err.message];

    (void)state;
    for (size_t shift = 0; shift < 4; shift++) {
        memset(text, 'x', sizeof text);
        for (size_t i = shift; i + 4 < sizeof text; i += 4)
            memcpy(text + i, "\xF0\x9F\x98\x80", 4);
        text[sizeof text - 1] = '\0';
        (void)fail(&err, VIAL_E_VALUE, "%s", text);
        assert_true(strlen(err.message) > sizeof err.message - 9);
        assert_true(text_is_utf8(err.message, strlen(err.message)));
        (void)fail_in(&err, "%s", text + shift);
        assert_true(text_is_utf8(err.message, strlen(err.message)));
        (void)fail_remedy(&err, "%s", text);
        assert_true(text_is_utf8(err.remedy, strlen(err.remedy)));
    }
}

static void clearing_leaves_no_error(void **state)
{
    struct vial_error err;

    (void)state;
    (void)fail_memory(&err);
    assert_error(&err, "VIAL-MEMORY out of memory");
    fail_clear(&err);
    assert_error(&err, " ");
}

static void every_code_has_a_text_and_a_meaning_and_no_twin(void **state)
{
    const char *meaning;

    (void)state;
    for (unsigned i = 0; i < VIAL_E__COUNT; i++) {
        const char *text = vial_error_code(i, &meaning);

        assert_memory_equal(text, "VIAL-", 5);
        assert_true(strlen(text) < sizeof((struct vial_error *)NULL)->code);
        assert_int_equal(meaning[strlen(meaning) - 1], '.');
        assert_string_equal(text, fail_code_text((enum fail_code)i));
        assert_string_equal(text, vial_error_code(i, NULL));
        for (unsigned j = 0; j < i; j++)
            assert_string_not_equal(text, vial_error_code(j, NULL));
    }
    assert_null(vial_error_code(VIAL_E__COUNT, &meaning));
}

static void a_code_out_of_the_table_is_a_bug_of_vial(void **state)
{
    (void)state;
    assert_string_equal(fail_code_text(VIAL_E__COUNT), "VIAL-INTERNAL");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_failure_is_minus_one_with_code_and_message),
        cmocka_unit_test(errno_becomes_the_cause),
        cmocka_unit_test(a_negative_and_a_positive_errno_mean_the_same),
        cmocka_unit_test(an_unknown_errno_still_has_a_cause),
        cmocka_unit_test(context_goes_before_the_message_and_keeps_the_rest),
        cmocka_unit_test(an_argument_may_point_into_the_error_itself),
        cmocka_unit_test(remedy_cause_and_code_can_be_changed_alone),
        cmocka_unit_test(want_of_descriptors_has_its_own_remedy_and_keeps_it),
        cmocka_unit_test(every_function_takes_no_error_at_all),
        cmocka_unit_test(a_message_too_long_is_cut_at_a_character),
        cmocka_unit_test(clearing_leaves_no_error),
        cmocka_unit_test(every_code_has_a_text_and_a_meaning_and_no_twin),
        cmocka_unit_test(a_code_out_of_the_table_is_a_bug_of_vial),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
