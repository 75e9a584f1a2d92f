/* SPDX-License-Identifier: Apache-2.0 */

/* Ranges that are denied, without those that are allowed: looked at address by address,
 * at every edge and in between. */

#include <jansson.h>
#include <stdio.h>

#include "base/json.h"
#include "check.h"
#include "e2b/egress.h"

#define CASES  400
#define INSIDE 16 /* addresses in each range, besides its edges */

static uint32_t next(uint32_t *seed)
{
    *seed ^= *seed << 13;
    *seed ^= *seed >> 17;
    *seed ^= *seed << 5;
    return *seed;
}

static bool is_in_any(const json_t *texts, const struct address *a)
{
    const json_t *text;
    struct range r;
    size_t i;

    json_array_foreach(texts, i, text)
    {
        assert_true(egress_parse(json_string_value(text), &r));
        if (address_in(a, &r, 1))
            return true;
    }
    return false;
}

struct lists {
    const json_t *denied, *allowed, *left;
};

/* What is left is what was denied, but for what was allowed, and nothing else. */
static void look_at(const struct lists *l, const struct address *a)
{
    bool denied = is_in_any(l->denied, a) && !is_in_any(l->allowed, a);
    char text[ADDRESS_TEXT];

    if (address_is_own(a) || is_in_any(l->left, a) == denied)
        return;
    address_write(a, text);
    fail_msg("%s is %s: denied %s, allowed %s, left %s", text,
             denied ? "let through" : "cut off", json_dumps(l->denied, 0),
             json_dumps(l->allowed, 0), json_dumps(l->left, 0));
}

/* One more (BY 1) or less (BY 255), round the end. */
static struct address moved(struct address a, unsigned by)
{
    unsigned char carry = by == 1 ? 0x00 : 0xff;

    for (int i = a.v6 ? 15 : 3; i >= 0; i--) {
        a.bytes[i] = (uint8_t)(a.bytes[i] + by);
        if (a.bytes[i] != carry)
            break;
    }
    return a;
}

/* Some address of R: the bits behind its own are those of FILL, over and over. */
static struct address filled(const struct range *r, uint32_t fill)
{
    struct address a = r->first;

    for (unsigned bit = r->bits; bit < (a.v6 ? 128u : 32u); bit++)
        if (fill >> bit % 32 & 1)
            a.bytes[bit / 8] |= (uint8_t)(0x80u >> bit % 8);
    return a;
}

static void look_round(const struct lists *l, const json_t *texts, uint32_t *seed)
{
    const json_t *text;
    struct range r;
    size_t i;

    json_array_foreach(texts, i, text)
    {
        assert_true(egress_parse(json_string_value(text), &r));
        const struct address last = filled(&r, UINT32_MAX);
        const struct address beside[] = { r.first, last, moved(r.first, 255),
                                          moved(last, 1) };

        for (size_t n = 0; n < sizeof(beside) / sizeof(*beside); n++)
            look_at(l, &beside[n]);
        for (unsigned n = 0; n < INSIDE; n++) {
            struct address a = filled(&r, next(seed));

            look_at(l, &a);
        }
    }
}

/* 1: it came to more ranges than there may be. */
static int expect_cut(const json_t *denied, const json_t *allowed, uint32_t *seed)
{
    const struct policy policy = { 0 };
    struct vial_error err = { 0 };
    auto_json json_t *left = json_array();
    const struct lists l = { denied, allowed, left };

    if (egress_deny(denied, allowed, &policy, left, &err) < 0) {
        assert_string_equal(err.code, "VIAL-UNSUPPORTED");
        return 1;
    }
    look_round(&l, denied, seed);
    look_round(&l, allowed, seed);
    look_round(&l, left, seed);
    return 0;
}

/* Near each other, so that they meet. */
static json_t *some_ranges(uint32_t *seed, bool v6)
{
    json_t *list = json_array();

    for (unsigned left = next(seed) % 4; left > 0; left--) {
        uint32_t a = next(seed);
        uint32_t b = next(seed);

        (void)json_array_append_new(
            list, v6 ? json_sprintf("2001:db8:%x:%x::%x/%u", a % 4, a >> 16, b >> 16,
                                    20 + b % 109)
                     : json_sprintf("10.%u.%u.%u/%u", a % 4, a >> 8 & 255, a >> 24,
                                    6 + b % 27));
    }
    return list;
}

static void no_address_that_is_allowed_is_left_and_every_other_is(void **state)
{
    uint32_t seed = 2463534242;
    unsigned too_many = 0;

    (void)state;
    for (unsigned i = 0; i < CASES; i++) {
        auto_json json_t *denied = some_ranges(&seed, i % 2);
        auto_json json_t *allowed = some_ranges(&seed, i % 2);

        too_many += (unsigned)expect_cut(denied, allowed, &seed);
    }
    assert_true(too_many < CASES / 4);
}

static void all_addresses_without_a_few_are_all_the_others(void **state)
{
    auto_json json_t *denied = json_pack("[s]", "0.0.0.0/0");
    auto_json json_t *ranges = json_pack("[s, s]", "1.1.1.1", "10.0.0.0/8");
    auto_json json_t *allowed = json_copy(ranges);
    auto_json json_t *left = json_array();
    const struct policy policy = { 0 };
    const struct lists l = { denied, ranges, left };
    uint32_t seed = 1;

    (void)state;
    (void)json_array_append_new(allowed, json_string("example.com")); /* a gate's */
    assert_int_equal(egress_deny(denied, allowed, &policy, left, NULL), 0);
    look_round(&l, ranges, &seed);
    look_round(&l, left, &seed);
    look_round(&l, denied, &seed);
}

static void ranges_without_end_are_refused_and_not_cut_short(void **state)
{
    auto_json json_t *denied = json_pack("[s]", "::/0");
    auto_json json_t *allowed = json_pack("[s, s]", "2001:db8::1", "2001:db9::1");
    uint32_t seed = 1;

    (void)state;
    assert_int_equal(expect_cut(denied, allowed, &seed), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_address_that_is_allowed_is_left_and_every_other_is),
        cmocka_unit_test(all_addresses_without_a_few_are_all_the_others),
        cmocka_unit_test(ranges_without_end_are_refused_and_not_cut_short),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
