/* SPDX-License-Identifier: Apache-2.0 */
#include "check.h"
#include "engine/run/bounded_output.h"

/* Under the address sanitizer, lack of memory is an answer and not the end. */
VIAL_API const char *__asan_default_options(void);
const char *__asan_default_options(void)
{
    return "allocator_may_return_null=1";
}

static void add(struct output *o, const char *text)
{
    output_add(o, text, strlen(text));
}

static void check_kept(struct output *o, const char *text, uint64_t total,
                       bool truncated)
{
    struct vial_stream s = { 0 };

    assert_int_equal(output_take(o, &s), 0);
    assert_string_equal(s.data, text);
    assert_int_equal(s.len, strlen(text));
    assert_int_equal(s.total_bytes, total);
    assert_int_equal(s.truncated, truncated);
    free(s.data);
    output_done(o);
}

static void nothing_written_is_an_empty_text(void **state)
{
    struct output o;

    (void)state;
    output_init(&o, KEEP_BOTH, 10, NULL);
    check_kept(&o, "", 0, false);
}

static void a_stream_of_exactly_the_limit_is_whole(void **state)
{
    static const enum plan_keep all[] = { KEEP_HEAD, KEEP_TAIL, KEEP_BOTH };
    struct output o;

    (void)state;
    for (size_t i = 0; i < 3; i++) {
        output_init(&o, all[i], 9, NULL);
        add(&o, "abcd");
        add(&o, "efghi");
        check_kept(&o, "abcdefghi", 9, false);
    }
}

static void one_byte_more_is_marked(void **state)
{
    struct output o;

    (void)state;
    output_init(&o, KEEP_HEAD, 4, NULL);
    add(&o, "abcde");
    check_kept(&o, "abcd\n[… 1 bytes left out …]\n", 5, true);
}

static void keeping_the_tail_forgets_the_beginning(void **state)
{
    struct output o;

    (void)state;
    output_init(&o, KEEP_TAIL, 4, NULL);
    add(&o, "abc");
    add(&o, "defg");
    add(&o, "hi");
    check_kept(&o, "[… 5 bytes left out …]\nfghi", 9, true);
}

static void keeping_both_leaves_out_the_middle(void **state)
{
    struct output o;

    (void)state;
    output_init(&o, KEEP_BOTH, 5, NULL);
    for (char c = 'a'; c <= 'z'; c++)
        output_add(&o, &c, 1);
    check_kept(&o, "abc\n[… 21 bytes left out …]\nyz", 26, true);
}

static void a_piece_longer_than_the_ring_leaves_its_end(void **state)
{
    struct output o;

    (void)state;
    output_init(&o, KEEP_BOTH, 4, NULL);
    add(&o, "0123456789");
    check_kept(&o, "01\n[… 6 bytes left out …]\n89", 10, true);
}

static void a_limit_of_nothing_still_counts(void **state)
{
    struct output o;

    (void)state;
    output_init(&o, KEEP_BOTH, 0, NULL);
    add(&o, "hello");
    check_kept(&o, "[… 5 bytes left out …]\n", 5, true);
}

static void bytes_may_be_nul(void **state)
{
    struct vial_stream s = { 0 };
    struct output o;

    (void)state;
    output_init(&o, KEEP_BOTH, 100, NULL);
    output_add(&o, "a\0b", 3);
    assert_int_equal(output_take(&o, &s), 0);
    assert_int_equal(s.len, 3);
    assert_memory_equal(s.data, "a\0b", 4);
    free(s.data);
    output_done(&o);
}

static void lack_of_memory_for_the_tail_is_told(void **state)
{
    struct vial_stream s = { 0 };
    struct output o;

    (void)state;
    output_init(&o, KEEP_TAIL, SIZE_MAX / 2, NULL);
    add(&o, "x");
    assert_true(o.failed);
    assert_int_equal(output_take(&o, &s), -1);
    assert_null(s.data);
    output_done(&o);
}

static void a_note_of_ones_own_says_how_much_was_kept_and_left(void **state)
{
    struct output o;
    struct vial_stream out = { 0 };

    (void)state;
    output_init(&o, KEEP_HEAD, 4, "[...truncated at {limit} chars, {left} more...]");
    output_add(&o, "abcdefgh", 8);
    assert_int_equal(output_take(&o, &out), 0);
    assert_string_equal(out.data, "abcd\n[...truncated at 4 chars, 4 more...]");
    assert_true(out.truncated);
    free(out.data);
    output_done(&o);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_written_is_an_empty_text),
        cmocka_unit_test(a_stream_of_exactly_the_limit_is_whole),
        cmocka_unit_test(one_byte_more_is_marked),
        cmocka_unit_test(a_note_of_ones_own_says_how_much_was_kept_and_left),
        cmocka_unit_test(keeping_the_tail_forgets_the_beginning),
        cmocka_unit_test(keeping_both_leaves_out_the_middle),
        cmocka_unit_test(a_piece_longer_than_the_ring_leaves_its_end),
        cmocka_unit_test(a_limit_of_nothing_still_counts),
        cmocka_unit_test(bytes_may_be_nul),
        cmocka_unit_test(lack_of_memory_for_the_tail_is_told),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
