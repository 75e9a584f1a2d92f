/* SPDX-License-Identifier: Apache-2.0 */

/* Forms that come in pieces of every size, held against the same form as a whole. */

#include <string.h>
#include <time.h>

#include "base/str.h"
#include "check.h"
#include "web/multipart.h"

#define TYPE "multipart/form-data; boundary=\"--B\""

struct pieces {
    const char *at, *end;
    size_t most;
    bool broken; /* instead of an end */
};

static int next_piece(void *context, struct str *out)
{
    struct pieces *p = context;
    size_t left = (size_t)(p->end - p->at);
    size_t n = left < p->most ? left : p->most;

    if (n == 0)
        return p->broken ? -1 : 0;
    str_add(out, p->at, n);
    p->at += n;
    return 1;
}

/* "name filename <data>" of each part, and how it ended. */
static void tell_part(struct str *out, const struct part *part)
{
    str_printf(out, "%s %s <", part->name, part->filename);
}

static void tell_in_place(const char *body, size_t len, struct str *out)
{
    struct multipart m;
    struct part part;
    int rc;

    if (!multipart_begin(&m, TYPE, body, len)) {
        str_puts(out, "no form");
        return;
    }
    while ((rc = multipart_next(&m, &part)) > 0) {
        tell_part(out, &part);
        str_add(out, part.data, part.len);
        str_puts(out, ">");
    }
    str_puts(out, rc == 0 ? "end" : "cut");
}

static void tell_pieces(struct pieces p, struct str *out)
{
    struct form f;
    struct part part;
    const char *data;
    size_t len;
    int rc;

    if (!form_begin(&f, TYPE, next_piece, &p)) {
        str_puts(out, "no form");
        form_done(&f);
        return;
    }
    while ((rc = form_next(&f, &part)) > 0) {
        tell_part(out, &part);
        while ((rc = form_data(&f, &data, &len)) > 0)
            str_add(out, data, len);
        if (rc < 0)
            break;
        str_puts(out, ">");
    }
    str_puts(out, rc == 0 ? "end" : "cut");
    form_done(&f);
}

static void expect_alike(const char *body, size_t len)
{
    auto_str struct str want = { 0 };

    tell_in_place(body, len, &want);
    for (size_t most = 1; most <= len; most++) {
        auto_str struct str got = { 0 };

        tell_pieces((struct pieces){ body, body + len, most, false }, &got);
        if (!str_eq(got.data, want.data))
            fail_msg("in pieces of %zu: <%s>, whole: <%s>", most, got.data, want.data);
    }
}

static void a_form_is_the_same_in_pieces_of_every_size(void **state)
{
    static const char *const bodies[] = {
        "----B--",
        "----B--\r\n",
        "before\r\n----B--",
        "----B\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\n1\r\n----B--",
        "----B\r\nContent-Disposition: form-data; name=\"a\"; filename=\"x%22y\"\r\n"
        "Content-Type: b\r\n\r\n\r\n----B\r\n\r\n2\r\n----B--",
        /* What only begins like the line that ends a part. */
        "----B\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\n\r\n----Bx\r\n----B-\r"
        "\n----\r\r\n-\r\n----B\r\nA: b\r\n\r\n\r\n----B\n\r\n----B--",
    };

    (void)state;
    for (size_t i = 0; i < sizeof bodies / sizeof bodies[0]; i++)
        expect_alike(bodies[i], strlen(bodies[i]));
}

static void one_that_is_cut_anywhere_has_no_end(void **state)
{
    static const char body[] =
        "----B\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\n1\r\n----B\r\n"
        "Content-Disposition: form-data; name=\"b\"\r\n\r\n2\r\n----B--";

    (void)state;
    for (size_t len = 0; len < sizeof body - 1; len++)
        for (size_t most = 1; most <= 4; most++) {
            auto_str struct str got = { 0 };
            size_t end;

            tell_pieces((struct pieces){ body, body + len, most, len % 2 }, &got);
            end = strlen(got.data);
            assert_false(end >= 3 && strcmp(got.data + end - 3, "end") == 0);
        }
}

static void a_part_that_nobody_takes_is_passed_over(void **state)
{
    static const char body[] =
        "----B\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\n1234567890\r\n"
        "----B\r\nContent-Disposition: form-data; name=\"b\"\r\n\r\n2\r\n----B--";
    struct pieces p = { body, body + sizeof body - 1, 7, false };
    struct form f;
    struct part part;

    (void)state;
    assert_true(form_begin(&f, TYPE, next_piece, &p));
    assert_int_equal(form_next(&f, &part), 1);
    assert_string_equal(part.name, "a");
    assert_int_equal(form_next(&f, &part), 1);
    assert_string_equal(part.name, "b");
    assert_int_equal(form_next(&f, &part), 0);
    form_done(&f);
}

static void a_head_without_an_end_is_not_waited_for(void **state)
{
    auto_str struct str body = { 0 };
    struct pieces p = { .most = 1000 };
    struct form f;
    struct part part;

    (void)state;
    str_puts(&body, "----B\r\n");
    for (int i = 0; i < 1000000; i++)
        str_putc(&body, 'a');
    p.at = body.data;
    p.end = body.data + body.len;
    assert_true(form_begin(&f, TYPE, next_piece, &p));
    assert_int_equal(form_next(&f, &part), -1);
    assert_true(p.end - p.at > 900000);
    form_done(&f);
    p.at = body.data + 7;
    assert_false(form_begin(&f, TYPE, next_piece, &p));
    assert_true(p.end - p.at > 900000);
    form_done(&f);
}

/* Who packs each byte by itself has it looked at once, not with each that follows. */
static void a_long_head_is_read_once(void **state)
{
    enum { HEADS = 40, LONG = 60000 };
    auto_str struct str body = { 0 }, got = { 0 };
    clock_t began;

    (void)state;
    for (int i = 0; i < HEADS; i++) {
        str_puts(&body, "\r\n----B\r\nX: ");
        for (int k = 0; k < LONG; k++)
            str_puts(&body, "x");
        str_puts(&body, "\r\n\r\ndata");
    }
    str_puts(&body, "\r\n----B--");
    assert_true(str_ok(&body));
    began = clock();
    tell_pieces((struct pieces){ body.data, body.data + body.len, 1, false }, &got);
    assert_true(clock() - began < 2 * CLOCKS_PER_SEC);
    assert_true(got.len > 3 && strcmp(got.data + got.len - 3, "end") == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_form_is_the_same_in_pieces_of_every_size),
        cmocka_unit_test(one_that_is_cut_anywhere_has_no_end),
        cmocka_unit_test(a_part_that_nobody_takes_is_passed_over),
        cmocka_unit_test(a_head_without_an_end_is_not_waited_for),
        cmocka_unit_test(a_long_head_is_read_once),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
