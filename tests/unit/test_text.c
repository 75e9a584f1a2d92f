/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include "base/text.h"
#include "check.h"

#define FFFD "\xEF\xBF\xBD"

struct vector {
    const char *in;
    size_t len;
    const char *out;
};

/* A literal with its length, NULs included. */
#define IN(text) text, sizeof(text) - 1

static void valid_utf8_is_known_at_every_border(void **state)
{
    static const char *const good[] = { "",
                                        "ascii",
                                        "\xC2\x80",
                                        "\xDF\xBF",
                                        "\xE0\xA0\x80",
                                        "\xED\x9F\xBF",
                                        "\xEE\x80\x80",
                                        "\xEF\xBF\xBF",
                                        "\xF0\x90\x80\x80",
                                        "\xF4\x8F\xBF\xBF",
                                        NULL };

    (void)state;
    for (const char *const *t = good; *t; t++)
        assert_true(text_is_utf8(*t, strlen(*t)));
    assert_true(text_is_utf8("a\0b", 3));
}

static void overlongs_surrogates_and_halves_are_not_utf8(void **state)
{
    static const char *const bad[] = { "\x80",
                                       "\xBF",
                                       "\xC0\x80",
                                       "\xC1\xBF",
                                       "\xC2",
                                       "\xC2\x41",
                                       "\xE0\x80\x80",
                                       "\xE0\x9F\xBF",
                                       "\xED\xA0\x80",
                                       "\xED\xBF\xBF",
                                       "\xE2\x82",
                                       "\xF0\x80\x80\x80",
                                       "\xF0\x8F\xBF\xBF",
                                       "\xF4\x90\x80\x80",
                                       "\xF5\x80\x80\x80",
                                       "\xF0\x9F\x98",
                                       "\xFE",
                                       "\xFF",
                                       NULL };

    (void)state;
    for (const char *const *t = bad; *t; t++)
        assert_false(text_is_utf8(*t, strlen(*t)));
}

/* The middle four are the examples of The Unicode Standard 15, section 3.9,
 * tables 3-8 to 3-11. */
static void each_maximal_invalid_part_becomes_one_replacement(void **state)
{
    static const struct vector vectors[] = {
        { IN(""), "" },
        { IN("plain"), "plain" },
        { IN("\xC0\xAF\xE0\x80\xBF\xF0\x81\x82\x41"),
          FFFD FFFD FFFD FFFD FFFD FFFD FFFD FFFD "A" },
        { IN("\xED\xA0\x80\xED\xBF\xBF\xED\xAF\x41"),
          FFFD FFFD FFFD FFFD FFFD FFFD FFFD FFFD "A" },
        { IN("\xF4\x91\x92\x93\xFF\x41\x80\xBF\x42"),
          FFFD FFFD FFFD FFFD FFFD "A" FFFD FFFD "B" },
        { IN("\xE1\x80\xE2\xF0\x91\x92\xF1\xBF\x41"), FFFD FFFD FFFD FFFD "A" },
        { IN("\xE2\x82\xAC\xE2\x82"), "\xE2\x82\xAC" FFFD },
        { IN("a\xFFz"), "a" FFFD "z" },
        { IN("\xF0\x9F\x98"), FFFD },
    };

    (void)state;
    for (size_t i = 0; i < sizeof vectors / sizeof *vectors; i++) {
        auto_str struct str s = { 0 };

        text_repair(&s, vectors[i].in, vectors[i].len);
        assert_string_equal(s.data, vectors[i].out);
        assert_true(text_is_utf8(s.data, s.len));
    }
}

static void repair_keeps_nul_bytes(void **state)
{
    auto_str struct str s = { 0 };

    (void)state;
    text_repair(&s, "a\0\xFF", 3);
    assert_int_equal(s.len, 5);
    assert_memory_equal(s.data, "a\0" FFFD, 6);
}

static const struct vector safe_vectors[] = {
    { IN(""), "" },
    { IN("plain \xC3\xA9 \xE2\x82\xAC \xF0\x9F\x98\x80\n\ttab"),
      "plain \xC3\xA9 \xE2\x82\xAC \xF0\x9F\x98\x80\n\ttab" },
    { IN("\x1b[31mred\x1b[0m"), "\\x1b[31mred\\x1b[0m" },
    { IN("\x1b]52;c;ZXZpbA==\a"), "\\x1b]52;c;ZXZpbA==\\x07" },
    { IN("line\r\nnext"), "line\r\nnext" },
    { IN("over\rwritten"), "over\\x0dwritten" },
    { IN("\r\r\n\r"), "\\x0d\r\n\\x0d" },
    { IN("\r\xE2\x82"), "\\x0d\\xe2\\x82" },
    { IN("nul\0bs\bdel\x7f"), "nul\\x00bs\\x08del\\u007f" },
    { IN("sep\xe2\x80\xa8"
         "end"),
      "sep\\u2028end" },
    { IN("tag\xf3\xa0\x81\x81"
         "end"),
      "tag\\udb40\\udc41end" },
    { IN("\xC2\x9B"
         "31m"),
      "\\u009b31m" },
    { IN("\xC2\x80\xC2\xA0"), "\\u0080\xC2\xA0" },
    { IN("a\xE2\x80\xAE"
         "b\xE2\x81\xA6\xE2\x81\xA9"),
      "a\\u202eb\\u2066\\u2069" },
    { IN("\xD8\x9C\xE2\x80\x8E\xE2\x80\x8F\xE2\x80\xAA"),
      "\\u061c\\u200e\\u200f\\u202a" },
    { IN("\xE2\x80\x90\xE2\x80\xAF"), "\xE2\x80\x90\xE2\x80\xAF" },
    { IN("\xFF\xC0\x80"), "\\xff\\xc0\\x80" },
    { IN("\xE2\x82\xC3\xA9"), "\\xe2\\x82\xC3\xA9" },
    { IN("\xF0\x9F\x98\x1b"), "\\xf0\\x9f\\x98\\x1b" },
    { IN("\xF0\x9F\x98"), "\\xf0\\x9f\\x98" },
    { IN("\xE2\x82\r"), "\\xe2\\x82\\x0d" },
};

#define SAFE_VECTORS (sizeof safe_vectors / sizeof *safe_vectors)

static void check_safe(const struct vector *v, size_t cut, size_t cut2)
{
    auto_str struct str s = { 0 };
    struct text_safe safe = { 0 };

    text_safe(&safe, &s, v->in, cut);
    text_safe(&safe, &s, v->in + cut, cut2 - cut);
    text_safe(&safe, &s, v->in + cut2, v->len - cut2);
    text_safe_end(&safe, &s);
    assert_string_equal(s.data ? s.data : "", v->out);
    assert_int_equal(safe.held_len, 0);
}

static void nothing_that_moves_a_terminal_gets_through(void **state)
{
    (void)state;
    for (size_t i = 0; i < SAFE_VECTORS; i++)
        check_safe(&safe_vectors[i], 0, 0);
}

static void where_chunks_are_cut_changes_nothing(void **state)
{
    (void)state;
    for (size_t i = 0; i < SAFE_VECTORS; i++) {
        const struct vector *v = &safe_vectors[i];

        for (size_t cut = 0; cut <= v->len; cut++) {
            for (size_t cut2 = cut; cut2 <= v->len; cut2++)
                check_safe(v, cut, cut2);
        }
    }
}

static void bytes_one_by_one_come_out_the_same(void **state)
{
    (void)state;
    for (size_t i = 0; i < SAFE_VECTORS; i++) {
        const struct vector *v = &safe_vectors[i];
        auto_str struct str s = { 0 };
        struct text_safe safe = { 0 };

        for (size_t at = 0; at < v->len; at++)
            text_safe(&safe, &s, v->in + at, 1);
        text_safe_end(&safe, &s);
        assert_string_equal(s.data ? s.data : "", v->out);
    }
}

/* RFC 4648, section 10, and the two last characters of the alphabet. */
static const struct vector base64_vectors[] = {
    { IN(""), "" },
    { IN("f"), "Zg==" },
    { IN("fo"), "Zm8=" },
    { IN("foo"), "Zm9v" },
    { IN("foob"), "Zm9vYg==" },
    { IN("fooba"), "Zm9vYmE=" },
    { IN("foobar"), "Zm9vYmFy" },
    { IN("\xFB\xFF\xBF\0"), "+/+/AA==" },
};

static void base64_is_that_of_the_rfc_both_ways(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof base64_vectors / sizeof *base64_vectors; i++) {
        const struct vector *v = &base64_vectors[i];
        auto_str struct str s = { 0 };
        struct blob back = { 0 };

        text_base64(&s, v->in, v->len);
        assert_string_equal(s.data, v->out);
        assert_int_equal(text_unbase64(s.data, s.len, &back), 0);
        assert_int_equal(back.len, v->len);
        assert_memory_equal(back.data, v->in, v->len + 1);
        blob_done(&back);
    }
}

static void base64_that_has_two_readings_is_refused(void **state)
{
    static const char *const bad[] = {
        "Z",    "Zg",       "Zg=",  "Zh==", "Zm9=", "Zm9v\n",         "Zm 9", "Z===",
        "====", "Zg==Zg==", "Zm9_", "=Zg=", "Zg=A", "Zm9vZ\xC3\xA9=", NULL
    };
    struct blob out = { 0 };

    (void)state;
    for (const char *const *t = bad; *t; t++)
        assert_int_equal(text_unbase64(*t, strlen(*t), &out), -1);
    assert_int_equal(text_unbase64("AA\0A", 4, &out), -1);
    assert_null(out.data);
}

static void a_name_is_never_more_than_one_line(void **state)
{
    static const char *const names[][2] = {
        { "plain", "a/plain" },
        { "with space: \xc3\xa9\xff", "a/with space: \xc3\xa9\xff" },
        { "", "a/" },
        { "x\n+++ b/y", "\"a/x\\n+++ b/y\"" },
        { "\a\b\t\n\v\f\r\x1b\x7f\x01", "\"a/\\a\\b\\t\\n\\v\\f\\r\\033\\177\\001\"" },
        { "\"a/q\"", "\"a/\\\"a/q\\\"\"" },
        { "back\\slash", "\"a/back\\\\slash\"" },
    };

    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        auto_str struct str out = { 0 };

        text_quote(&out, "a/", names[i][0]);
        assert_true(str_ok(&out));
        assert_string_equal(out.data, names[i][1]);
    }
}

static void the_nearest_name_is_suggested(void **state)
{
    static const char *const names[] = { "timeout",  "memory",   "cpus", "pids",
                                         "language", "mem_swap", NULL };

    (void)state;
    assert_string_equal(text_suggest("timout", names), "timeout");
    assert_string_equal(text_suggest("tiemout", names), "timeout");
    assert_string_equal(text_suggest("Timeout", names), "timeout");
    assert_string_equal(text_suggest("mem-swap", names), "mem_swap");
    assert_string_equal(text_suggest("lang", names), "language");
    assert_string_equal(text_suggest("memry", names), "memory");
    assert_string_equal(text_suggest("cpu", names), "cpus");
    assert_string_equal(text_suggest("pid", names), "pids");
}

static void a_nearer_name_beats_an_abbreviation(void **state)
{
    static const char *const names[] = { "men", "memory", NULL };
    static const char *const other_way[] = { "memory", "mem", NULL };

    (void)state;
    assert_string_equal(text_suggest("mem", names), "men");
    assert_string_equal(text_suggest("mem", other_way), "mem");
}

static void a_word_that_resembles_nothing_gets_no_suggestion(void **state)
{
    static const char *const names[] = { "timeout", "ab", NULL };
    static const char *const none[] = { NULL };
    char longest[200];

    (void)state;
    memset(longest, 'a', sizeof longest - 1);
    longest[sizeof longest - 1] = '\0';
    assert_null(text_suggest("privileged", names));
    assert_null(text_suggest("", names));
    assert_null(text_suggest("x", names));
    assert_null(text_suggest("xy", names));
    assert_null(text_suggest(longest, names));
    assert_null(text_suggest("timeout", none));
}

static void a_name_longer_than_any_word_is_only_found_by_its_beginning(void **state)
{
    static const char *const names[] = {
        "a_name_that_is_much_longer_than_the_forty_eight_bytes_we_compare", NULL
    };

    (void)state;
    assert_ptr_equal(text_suggest("a_name", names), names[0]);
    assert_null(text_suggest("b_name", names));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(valid_utf8_is_known_at_every_border),
        cmocka_unit_test(overlongs_surrogates_and_halves_are_not_utf8),
        cmocka_unit_test(each_maximal_invalid_part_becomes_one_replacement),
        cmocka_unit_test(repair_keeps_nul_bytes),
        cmocka_unit_test(nothing_that_moves_a_terminal_gets_through),
        cmocka_unit_test(where_chunks_are_cut_changes_nothing),
        cmocka_unit_test(bytes_one_by_one_come_out_the_same),
        cmocka_unit_test(base64_is_that_of_the_rfc_both_ways),
        cmocka_unit_test(base64_that_has_two_readings_is_refused),
        cmocka_unit_test(a_name_is_never_more_than_one_line),
        cmocka_unit_test(the_nearest_name_is_suggested),
        cmocka_unit_test(a_nearer_name_beats_an_abbreviation),
        cmocka_unit_test(a_word_that_resembles_nothing_gets_no_suggestion),
        cmocka_unit_test(a_name_longer_than_any_word_is_only_found_by_its_beginning),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
