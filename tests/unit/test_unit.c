/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include "base/unit.h"
#include "check.h"

typedef int parse_fn(const char *text, int64_t *out);
typedef void write_fn(struct str *s, int64_t value);

struct vector {
    const char *text;
    int64_t value;
};

static void check_all(parse_fn *parse, const struct vector *vectors)
{
    for (; vectors->text; vectors++) {
        int64_t value = -1;

        if (parse(vectors->text, &value) < 0)
            fail_msg("'%s' was refused", vectors->text);
        if (value != vectors->value)
            fail_msg("'%s' became %lld", vectors->text, (long long)value);
    }
}

static void check_refused(parse_fn *parse, const char *const *texts)
{
    for (; *texts; texts++) {
        int64_t value = 42;

        if (parse(*texts, &value) == 0)
            fail_msg("'%s' was taken for %lld", *texts, (long long)value);
        assert_int_equal(value, 42);
    }
}

static void durations_are_milliseconds(void **state)
{
    static const struct vector good[] = {
        { "5", 5000 },
        { "5s", 5000 },
        { "0.5", 500 },
        { "500ms", 500 },
        { "2m", 120000 },
        { "1h", 3600000 },
        { "0", 0 },
        { "0.001", 1 },
        { "1.5h", 5400000 },
        { "0.0015", 1 },
        { "007", 7000 },
        { "0.1m", 6000 },
        { "0.3333333333333333333333333", 333 },
        { "9223372036854775807ms", INT64_MAX },
        { "9223372036854775.807", INT64_MAX },
        { NULL, 0 },
    };

    (void)state;
    check_all(unit_parse_ms, good);
}

static void sizes_are_powers_of_1024_in_either_case(void **state)
{
    static const struct vector good[] = {
        { "256m", 268435456 },
        { "1g", 1073741824 },
        { "64k", 65536 },
        { "1.5g", 1610612736 },
        { "1024", 1024 },
        { "256mb", 268435456 },
        { "256MiB", 268435456 },
        { "1T", 1099511627776 },
        { "0.5K", 512 },
        { "7b", 7 },
        { "7B", 7 },
        { "0.1g", 107374182 },
        { "0", 0 },
        { "8388607t", 9223370937343148032 },
        { "0.999999999999999999t", 1099511627775 },
        { NULL, 0 },
    };

    (void)state;
    check_all(unit_parse_bytes, good);
}

static void thousandths_come_from_decimals(void **state)
{
    static const struct vector good[] = {
        { "0.5", 500 }, { "2", 2000 }, { "0.25", 250 }, { "1.9999", 1999 }, { NULL, 0 },
    };

    (void)state;
    check_all(unit_parse_milli, good);
}

static void counts_are_whole(void **state)
{
    static const struct vector good[] = {
        { "0", 0 },
        { "64", 64 },
        { "9223372036854775807", INT64_MAX },
        { NULL, 0 },
    };
    static const char *const bad[] = {
        "",         "-1",  "+1",  " 1", "1 ",
        "1.0",      "0x1", "1e3", "1k", "9223372036854775808",
        "\xD9\xA1", NULL
    };

    (void)state;
    check_all(unit_parse_count, good);
    check_refused(unit_parse_count, bad);
}

static void what_is_not_a_duration_is_refused(void **state)
{
    static const char *const bad[] = {
        "",
        "-1",
        "+1",
        " 5",
        "5 ",
        "5 s",
        ".5",
        "5.",
        "5.s",
        "1e3",
        "0x10",
        "5S",
        "5sec",
        "ms",
        "1.5ms",
        "0.0001",
        "inf",
        "nan",
        "1,5",
        "1.2.3",
        "5s5s",
        "9223372036854775808ms",
        "9223372036854776",
        "2562047788016h",
        "99999999999999999999",
        NULL,
    };

    (void)state;
    check_refused(unit_parse_ms, bad);
}

static void what_is_not_a_size_is_refused(void **state)
{
    static const char *const bad[] = {
        "",     "-1",  "1.5", "1.5b", "k",          "1x",       "1kk",
        "1ki",  "1ib", "1 m", "m1",   "0.0000001k", "8388608t", "9223372036854775808",
        "1gbb", "0.5", NULL,
    };

    (void)state;
    check_refused(unit_parse_bytes, bad);
}

static void what_is_not_a_decimal_is_refused_as_thousandths(void **state)
{
    static const char *const bad[] = { "",       "1m",   "-0.5",
                                       "0.0001", "1e-1", "9223372036854776",
                                       NULL };

    (void)state;
    check_refused(unit_parse_milli, bad);
}

static void check_written(write_fn *write, int64_t value, const char *text)
{
    auto_str struct str s = { 0 };

    write(&s, value);
    assert_string_equal(s.data, text);
}

static void values_are_written_short(void **state)
{
    (void)state;
    check_written(unit_write_ms, 0, "0s");
    check_written(unit_write_ms, 5, "5ms");
    check_written(unit_write_ms, 250, "250ms");
    check_written(unit_write_ms, 500, "0.5s");
    check_written(unit_write_ms, 5000, "5s");
    check_written(unit_write_ms, 90000, "90s");
    check_written(unit_write_ms, 120000, "2m");
    check_written(unit_write_ms, 3600000, "1h");
    check_written(unit_write_ms, 1234567, "1234567ms");
    check_written(unit_write_bytes, 0, "0");
    check_written(unit_write_bytes, 1023, "1023");
    check_written(unit_write_bytes, 268435456, "256m");
    check_written(unit_write_bytes, 1610612736, "1.5g");
    check_written(unit_write_bytes, INT64_MAX, "9223372036854775807");
    check_written(unit_write_milli, 500, "0.5");
    check_written(unit_write_milli, 2000, "2");
    check_written(unit_write_milli, 1234, "1.234");
}

static void a_negative_value_is_written_as_it_is(void **state)
{
    (void)state;
    check_written(unit_write_ms, -1, "-1");
    check_written(unit_write_bytes, INT64_MIN, "-9223372036854775808");
}

static void check_round_trip(write_fn *write, parse_fn *parse, int64_t value)
{
    auto_str struct str s = { 0 };
    int64_t back = -1;

    write(&s, value);
    if (parse(s.data, &back) < 0 || back != value)
        fail_msg("%lld was written as '%s'", (long long)value, s.data);
}

/* Fixed seed: a failure can be repeated. */
static uint64_t next_random(uint64_t *seed)
{
    *seed ^= *seed << 13;
    *seed ^= *seed >> 7;
    *seed ^= *seed << 17;
    return *seed;
}

static void every_value_reads_back_as_it_was_written(void **state)
{
    uint64_t seed = 88172645463325252u;

    (void)state;
    for (int i = 0; i < 20000; i++) {
        /* All magnitudes alike, and round values as often as odd ones. */
        uint64_t bits = next_random(&seed);
        int64_t value = (int64_t)(bits >> (1 + bits % 63));

        if (i % 3 == 0)
            value = value / 1024 * 1024;
        if (i % 3 == 1)
            value = value / 500 * 500;
        check_round_trip(unit_write_ms, unit_parse_ms, value);
        check_round_trip(unit_write_bytes, unit_parse_bytes, value);
        check_round_trip(unit_write_milli, unit_parse_milli, value);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(durations_are_milliseconds),
        cmocka_unit_test(sizes_are_powers_of_1024_in_either_case),
        cmocka_unit_test(thousandths_come_from_decimals),
        cmocka_unit_test(counts_are_whole),
        cmocka_unit_test(what_is_not_a_duration_is_refused),
        cmocka_unit_test(what_is_not_a_size_is_refused),
        cmocka_unit_test(what_is_not_a_decimal_is_refused_as_thousandths),
        cmocka_unit_test(values_are_written_short),
        cmocka_unit_test(a_negative_value_is_written_as_it_is),
        cmocka_unit_test(every_value_reads_back_as_it_was_written),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
