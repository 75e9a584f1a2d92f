/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include "base/json.h"
#include "base/str.h"
#include "base/text.h"
#include "check.h"

static int put(void *context, const void *data, size_t len)
{
    str_add(context, data, len);
    return 0;
}

static int refuse(void *context, const void *data, size_t len)
{
    (void)data;
    (void)len;
    ++*(unsigned *)context;
    return -1;
}

/* Bytes of every kind, whole characters and torn ones, at all distances from the
 * borders of the pieces. */
static char *bytes(size_t len, bool valid)
{
    static const char torn[] = "a\0\"\\\n\x1f\x7f\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80"
                               "\xf0\x9f\x98-\xff\xe2\x82";
    size_t most = valid ? 16 : sizeof(torn) - 1;
    char *data = malloc(len + 1);

    for (size_t i = 0; i < len; i++)
        data[i] = torn[i % most];
    while (valid && len > 0 && text_unfinished(data, len) > 0)
        data[--len] = '-';
    return data;
}

static void check_same(size_t len, bool valid)
{
    char *data = bytes(len, valid);
    auto_str struct str repaired = { 0 };
    auto_str struct str coded = { 0 };
    auto_str struct str text = { 0 };
    auto_larges struct json_larges l = { 0 };
    const struct json_sink to = { put, &text };
    json_t *large = json_pack("{s:i, s:o, s:[o, s], s:f}", "a", 1, "text",
                              json_large(&l, data, len, false), "list",
                              json_large(&l, data, len, true), "\n", "real", 0.1);
    json_t *plain;
    char *wanted;

    text_repair(&repaired, data, len);
    text_base64(&coded, data, len);
    plain = json_pack("{s:i, s:o, s:[o, s], s:f}", "a", 1, "text",
                      json_stringn(repaired.data, repaired.len), "list",
                      json_stringn(coded.data, coded.len), "\n", "real", 0.1);
    for (int compact = 0; compact < 2; compact++) {
        text.len = 0;
        wanted = json_dumps(plain, JSON_REAL_PRECISION(15) |
                                       (compact ? JSON_COMPACT : (size_t)0));
        assert_int_equal(json_write(large, &l,
                                    compact ? JSON_STYLE_COMPACT : JSON_STYLE_SPACED,
                                    &to),
                         0);
        assert_int_equal(text.len, strlen(wanted));
        assert_string_equal(text.data, wanted);
        free(wanted);
    }
    json_decref(plain);
    json_decref(large);
    free(data);
}

static void what_is_written_in_pieces_is_what_jansson_writes(void **state)
{
    (void)state;
    for (size_t len = 0; len < 64; len++) {
        check_same(len, true);
        check_same(len, false);
        check_same(6144 - 32 + len, true);
        check_same(6144 - 32 + len, false);
    }
    check_same(100001, false);
}

static void nothing_more_is_written_to_who_wants_no_more(void **state)
{
    char *data = bytes(200000, true);
    auto_larges struct json_larges l = { 0 };
    unsigned called = 0;
    const struct json_sink to = { refuse, &called };
    json_t *value = json_pack("[o]", json_large(&l, data, 200000, false));

    (void)state;
    assert_int_equal(json_write(value, &l, JSON_STYLE_COMPACT, &to), -1);
    assert_int_equal(called, 1);
    json_decref(value);
    free(data);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_written_in_pieces_is_what_jansson_writes),
        cmocka_unit_test(nothing_more_is_written_to_who_wants_no_more),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
