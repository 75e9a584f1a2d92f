/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include "base/tar.h"
#include "check.h"

/* Puts E through the writer and the reader. */
static void round_trip(struct tar_entry *e)
{
    struct tar_reader r = { 0 };
    struct vial_error err = { 0 };
    struct str s = { 0 };
    size_t at = 0;

    tar_write(&s, e);
    assert_int_equal(s.len % TAR_BLOCK, 0);
    if (s.len > TAR_BLOCK) {
        assert_int_equal(tar_step(&r, s.data, &err), TAR_MORE);
        assert_int_equal(tar_extra(&r, s.data + TAR_BLOCK, r.entry.size, &err), 0);
        at = s.len - TAR_BLOCK;
    }
    assert_int_equal(tar_step(&r, s.data + at, &err), TAR_ENTRY);
    assert_string_equal(r.entry.path, e->path);
    assert_int_equal(r.entry.size, e->size);
    assert_int_equal(r.entry.type, e->type);
    assert_int_equal(r.entry.mode, e->mode);
    assert_int_equal(r.entry.mtime, e->mtime);
    tar_done(&r);
    str_done(&s);
}

static void what_is_written_is_read_back(void **state)
{
    char path[4096];

    (void)state;
    for (size_t len = 1; len < sizeof path; len = len < 130 ? len + 1 : len * 2 - 7) {
        struct tar_entry e = { .path = path, .type = '0', .mode = 0644, .mtime = 1 };

        memset(path, 'n', len);
        path[len] = 0;
        round_trip(&e);
        e = (struct tar_entry){ .path = path,
                                .type = '0',
                                .size = (UINT64_C(1) << 33) + len };
        round_trip(&e);
    }
}

static void a_block_that_is_no_header_is_refused(void **state)
{
    struct tar_reader r = { 0 };
    struct vial_error err = { 0 };
    struct tar_entry e = { .path = (char[]){ "f" }, .type = '0', .size = 5 };
    struct str s = { 0 };

    (void)state;
    tar_write(&s, &e);
    for (size_t i = 0; i < TAR_BLOCK; i++) {
        s.data[i] ^= 1;
        if (tar_step(&r, s.data, &err) != TAR_BAD && s.data[i] != ' ' &&
            (i < 148 || i > 155))
            fail_msg("a change of byte %zu is not seen", i);
        s.data[i] ^= 1;
    }
    tar_done(&r);
    str_done(&s);
    assert_error(&err, "VIAL-TAR read the archive: a header's checksum is wrong");
}

static void two_blocks_of_zeros_are_the_end(void **state)
{
    struct tar_reader r = { 0 };
    struct str s = { 0 };

    (void)state;
    tar_write_end(&s);
    assert_int_equal(s.len, 2 * TAR_BLOCK);
    assert_int_equal(tar_step(&r, s.data, NULL), TAR_END);
    str_done(&s);
}

static void malformed_records_are_refused(void **state)
{
    static const char *const bad[] = {
        "x",           "9 path=ab\n", "12 path=ab\n",   "0 a=b\n",    "4 a\n ",
        "-1 path=a\n", "10 path=ab ", "99999999 a=b\n", "9 size=x\n", "10 size=-1\n",
    };
    struct vial_error err = { 0 };

    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct tar_reader r = { .extra = 'x' };

        if (tar_extra(&r, bad[i], strlen(bad[i]), &err) == 0)
            fail_msg("'%s' is taken", bad[i]);
        assert_string_equal(err.code, "VIAL-TAR");
        tar_done(&r);
    }
    struct tar_reader r = { .extra = 'x' };

    assert_int_equal(tar_extra(&r, "10 path=ab\n9 size=7\n6 a=b\n", 26, &err), -1);
    tar_done(&r);
    r = (struct tar_reader){ .extra = 'x' };
    assert_int_equal(tar_extra(&r, "11 path=ab\n9 size=7\n6 a=b\n", 26, &err), 0);
    assert_string_equal(r.next_path, "ab");
    assert_int_equal(r.next_size, 7);
    tar_done(&r);
    r = (struct tar_reader){ .extra = 'x' };
    assert_int_equal(tar_extra(&r, "12 path=a\0b\n", 12, &err), -1);
    tar_done(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_written_is_read_back),
        cmocka_unit_test(a_block_that_is_no_header_is_refused),
        cmocka_unit_test(two_blocks_of_zeros_are_the_end),
        cmocka_unit_test(malformed_records_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
