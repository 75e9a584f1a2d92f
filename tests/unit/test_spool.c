/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include "check.h"
#include "engine/session/spool.h"

/* The byte at each offset is known, so that misplaced ones are seen. */
static char at(uint64_t offset)
{
    return (char)(offset * 131 + (offset >> 8));
}

static void add(struct spool *t, size_t len)
{
    char *data = malloc(len + 1);

    for (size_t i = 0; i < len; i++)
        data[i] = at(t->end + i);
    spool_add(t, data, len);
    free(data);
}

/* Everything from OFFSET on is there and right. */
static void check_from(const struct spool *t, uint64_t offset)
{
    char buf[77];
    size_t n;

    while ((n = spool_read(t, offset, buf, sizeof buf)) > 0)
        for (size_t i = 0; i < n; i++, offset++)
            if (buf[i] != at(offset))
                fail_msg("offset %llu is wrong", (unsigned long long)offset);
    assert_int_equal(offset, t->end);
}

static void what_fits_into_memory_needs_no_file(void **state)
{
    struct spool t;

    (void)state;
    spool_init(&t, 1000, 10000, NULL);
    check_from(&t, 0);
    add(&t, 600);
    add(&t, 400);
    assert_int_equal(t.spill_fd, -1);
    assert_int_equal(t.start, 0);
    check_from(&t, 0);
    check_from(&t, 999);
    spool_done(&t);
}

static void what_is_older_is_read_back_from_the_file(void **state)
{
    struct spool t;

    (void)state;
    spool_init(&t, 64, 100000, NULL);
    for (size_t len = 0; len < 300; len++)
        add(&t, len);
    assert_true(t.spill_fd >= 0);
    assert_int_equal(t.start, 0);
    check_from(&t, 0);
    check_from(&t, 12345);
    spool_done(&t);
}

static void what_is_older_still_is_gone_and_the_rest_is_right(void **state)
{
    struct spool t;

    (void)state;
    spool_init(&t, 64, 1000, NULL);
    for (size_t len = 0; len < 300; len++) {
        add(&t, len);
        assert_true(t.end - t.start <= 1064);
        check_from(&t, t.start);
    }
    assert_true(t.start > 0);
    assert_true(t.end - t.start >= 1000);
    spool_done(&t);
}

static void without_a_file_only_memory_is_kept(void **state)
{
    struct spool t;

    (void)state;
    spool_init(&t, 100, 0, NULL);
    add(&t, 1000);
    assert_true(t.end - t.start <= 100 && t.end > t.start);
    check_from(&t, t.start);
    spool_done(&t);
    spool_init(&t, 1, 0, NULL);
    add(&t, 10);
    check_from(&t, 9);
    spool_done(&t);
}

struct purse {
    uint64_t left[BUDGET_KINDS];
};

static bool purse_take(void *context, enum budget_kind kind, uint64_t bytes)
{
    struct purse *p = context;

    if (bytes > p->left[kind])
        return false;
    p->left[kind] -= bytes;
    return true;
}

static void purse_give(void *context, enum budget_kind kind, uint64_t bytes)
{
    ((struct purse *)context)->left[kind] += bytes;
}

static void who_cannot_pay_for_the_file_keeps_less(void **state)
{
    struct purse purse = { { 1 << 20, 600 << 10 } };
    const struct spool_payer payer = { purse_take, purse_give, &purse };
    struct spool t;

    (void)state;
    spool_init(&t, 64 << 10, 4 << 20, &payer);
    for (int i = 0; i < 100; i++) {
        add(&t, 30000);
        check_from(&t, t.start);
    }
    assert_int_equal(t.spill_size, 512 << 10);
    assert_int_equal(purse.left[BUDGET_DISK], 88 << 10);
    assert_true(t.end - t.start >= 512 << 10);
    spool_trim(&t, 1000);
    assert_int_equal(t.end - t.start, 1000);
    check_from(&t, t.start);
    assert_int_equal(purse.left[BUDGET_MEMORY], (1 << 20) - 1000);
    assert_int_equal(purse.left[BUDGET_DISK], 600 << 10);
    spool_done(&t);
    assert_int_equal(purse.left[BUDGET_MEMORY], 1 << 20);
}

static void who_cannot_pay_for_memory_keeps_nothing(void **state)
{
    struct purse purse = { { 100, 0 } };
    const struct spool_payer payer = { purse_take, purse_give, &purse };
    struct spool t;

    (void)state;
    spool_init(&t, 1000, 1000, &payer);
    add(&t, 10);
    assert_int_equal(t.end, 10);
    assert_int_equal(t.start, 10);
    assert_true(spool_is_empty(&t));
    spool_done(&t);
    assert_int_equal(purse.left[BUDGET_MEMORY], 100);
}

static void at_its_end_memory_is_held_for_what_is_there(void **state)
{
    struct purse purse = { { 5000, 0 } };
    const struct spool_payer payer = { purse_take, purse_give, &purse };
    struct spool t;

    (void)state;
    for (size_t len = 1; len < 2500; len += 7) {
        spool_init(&t, 1000, 0, &payer);
        add(&t, len);
        spool_end(&t, 300);
        assert_int_equal(t.end - t.start, len < 300 ? len : 300);
        assert_int_equal(purse.left[BUDGET_MEMORY], 5000 - (t.end - t.start));
        check_from(&t, t.start);
        spool_trim(&t, 0);
        assert_true(spool_is_empty(&t));
        check_from(&t, t.end);
        spool_done(&t);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_fits_into_memory_needs_no_file),
        cmocka_unit_test(what_is_older_is_read_back_from_the_file),
        cmocka_unit_test(what_is_older_still_is_gone_and_the_rest_is_right),
        cmocka_unit_test(without_a_file_only_memory_is_kept),
        cmocka_unit_test(who_cannot_pay_for_the_file_keeps_less),
        cmocka_unit_test(who_cannot_pay_for_memory_keeps_nothing),
        cmocka_unit_test(at_its_end_memory_is_held_for_what_is_there),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
