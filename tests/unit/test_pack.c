/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include "check.h"
#include "wire/message.h"
#include "wire/pack.h"

static struct unpack unpack_of(const struct pack *p)
{
    return (struct unpack){ .data = p->data, .len = p->len };
}

static void what_was_packed_unpacks_in_order(void **state)
{
    char a[] = "a", empty[] = "";
    char *texts[] = { a, empty };
    struct pack p = { 0 };
    struct unpack u;
    char *text, **list;

    (void)state;
    pack_u32(&p, 0xdeadbeef);
    pack_u64(&p, UINT64_C(0x0123456789abcdef));
    pack_text(&p, "text");
    pack_text(&p, NULL);
    pack_texts(&p, texts, 2);
    u = unpack_of(&p);
    assert_int_equal(unpack_u32(&u), 0xdeadbeef);
    assert_int_equal(unpack_u64(&u), UINT64_C(0x0123456789abcdef));
    text = unpack_text(&u);
    assert_string_equal(text, "text");
    free(text);
    text = unpack_text(&u);
    assert_string_equal(text, "");
    free(text);
    list = unpack_texts(&u, 2);
    assert_string_equal(list[0], "a");
    assert_string_equal(list[1], "");
    assert_null(list[2]);
    assert_true(unpack_finished(&u));
    free(list[0]);
    free(list[1]);
    free(list);
    pack_done(&p);
}

static void past_the_end_come_zeros_and_a_mark(void **state)
{
    static const uint8_t three[3] = { 1, 2, 3 };
    struct unpack u = { .data = three, .len = 3 };
    size_t len = 7;

    (void)state;
    assert_int_equal(unpack_u32(&u), 0);
    assert_true(u.bad);
    assert_int_equal(unpack_u64(&u), 0);
    assert_null(unpack_bytes(&u, &len));
    assert_int_equal(len, 0);
    assert_null(unpack_text(&u));
    assert_null(unpack_texts(&u, 5));
    assert_false(unpack_finished(&u));
}

static void a_length_that_lies_is_refused(void **state)
{
    struct pack p = { 0 };
    struct unpack u;

    (void)state;
    pack_u32(&p, UINT32_MAX);
    pack_raw(&p, "abc", 3);
    u = unpack_of(&p);
    assert_null(unpack_text(&u));
    u = unpack_of(&p);
    assert_null(unpack_texts(&u, SIZE_MAX)); /* and allocates nothing for it */
    assert_true(u.bad);
    pack_done(&p);
}

static void a_nul_inside_a_text_is_refused(void **state)
{
    struct pack p = { 0 };
    struct unpack u;

    (void)state;
    pack_bytes(&p, "a\0b", 3);
    u = unpack_of(&p);
    assert_null(unpack_text(&u));
    assert_true(u.bad);
    pack_done(&p);
}

static void more_texts_than_allowed_are_refused(void **state)
{
    char a[] = "a";
    char *texts[] = { a, a, a };
    struct pack p = { 0 };
    struct unpack u;

    (void)state;
    pack_texts(&p, texts, 3);
    u = unpack_of(&p);
    assert_null(unpack_texts(&u, 2));
    assert_true(u.bad);
    pack_done(&p);
}

static void a_lent_buffer_is_left_when_it_is_full_and_never_freed(void **state)
{
    uint8_t room[4] = { 0 };
    struct pack p = { .data = room, .cap = sizeof room, .lent = true };
    struct unpack u;

    (void)state;
    pack_u32(&p, 1);
    assert_ptr_equal(p.data, room);
    pack_u32(&p, 2);
    assert_ptr_not_equal(p.data, room);
    u = unpack_of(&p);
    assert_int_equal(unpack_u32(&u), 1);
    assert_int_equal(unpack_u32(&u), 2);
    assert_true(unpack_finished(&u));
    pack_done(&p);
    p = (struct pack){ .data = room, .cap = sizeof room, .lent = true };
    pack_u32(&p, 3);
    pack_done(&p);
    assert_int_equal(room[0], 3);
}

static void an_impossible_size_marks_the_pack(void **state)
{
    struct pack p = { 0 };

    (void)state;
    pack_bytes(&p, "x", SIZE_MAX);
    assert_true(p.bad);
    pack_u32(&p, 1);
    assert_int_equal(p.len, 0);
    pack_done(&p);
}

static void a_jail_survives_the_wire(void **state)
{
    char usr[] = "/usr", work[] = "/work";
    uint8_t filter[16] = { 1, 2, 3 };
    struct jail in = { .flags = JAIL_SECCOMP | JAIL_LANDLOCK_NET,
                       .uid = 1,
                       .gid = 2,
                       .rlimits = { { 7, 100 } },
                       .rlimit_count = 1,
                       .paths = { { usr, JAIL_READ | JAIL_EXEC } },
                       .path_count = 1,
                       .workdir = work };
    struct jail out;
    struct pack p = { 0 };
    struct unpack u;

    (void)state;
    in.filters[1].data = filter;
    in.filters[1].len = sizeof filter;
    in.watch_full[1] = work;
    jail_write(&p, &in);
    u = unpack_of(&p);
    assert_int_equal(jail_read(&u, &out), 0);
    assert_int_equal(out.flags, in.flags);
    assert_int_equal(out.uid, 1);
    assert_int_equal(out.gid, 2);
    assert_int_equal(out.rlimits[0].value, 100);
    assert_string_equal(out.paths[0].path, "/usr");
    assert_int_equal(out.paths[0].access, JAIL_READ | JAIL_EXEC);
    assert_int_equal(out.filters[0].len, 0);
    assert_memory_equal(out.filters[1].data, filter, sizeof filter);
    assert_string_equal(out.workdir, "/work");
    assert_null(out.watch_full[0]);
    assert_string_equal(out.watch_full[1], "/work");
    jail_done(&out);
    pack_done(&p);
}

static void every_truncation_of_a_jail_is_refused(void **state)
{
    char usr[] = "/usr";
    uint8_t filter[8] = { 0 };
    struct jail in = { .rlimit_count = 2,
                       .paths = { { usr, JAIL_READ } },
                       .path_count = 1,
                       .workdir = usr };
    struct jail out;
    struct pack p = { 0 };

    (void)state;
    in.filters[0].data = filter;
    in.filters[0].len = sizeof filter;
    jail_write(&p, &in);
    for (size_t len = 0; len < p.len; len++) {
        uint8_t *copy = malloc(len + 1); /* exact, so that ASan sees a byte too far */
        struct unpack u = { .data = copy, .len = len };

        assert_non_null(copy);
        memcpy(copy, p.data, len);
        assert_int_equal(jail_read(&u, &out), -1);
        free(copy);
    }
    pack_u32(&p, 0);
    struct unpack u = unpack_of(&p);
    assert_int_equal(jail_read(&u, &out), -1);
    pack_done(&p);
}

static void a_jail_with_absurd_values_is_refused(void **state)
{
    static uint8_t odd[12];
    char usr[] = "/usr";
    struct jail unknown = { .flags = 1u << 31 };
    struct jail access = { .paths = { { usr, 16 } }, .path_count = 1 };
    struct jail filter = { 0 };
    const struct jail *all[] = { &unknown, &access, &filter };
    struct jail out;

    (void)state;
    filter.filters[0].data = odd;
    filter.filters[0].len = sizeof odd;
    for (size_t i = 0; i < 3; i++) {
        struct pack p = { 0 };
        struct unpack u;

        jail_write(&p, all[i]);
        u = unpack_of(&p);
        assert_int_equal(jail_read(&u, &out), -1);
        pack_done(&p);
    }
}

static void an_exec_survives_the_wire_and_needs_an_argument(void **state)
{
    char ls[] = "ls", env[] = "A=1", cwd[] = "/w";
    char *argv[] = { ls, NULL }, *envp[] = { env, NULL }, *none[] = { NULL };
    struct exec_message in = { argv, envp, cwd, 5000, 1, .early_exit = 1 }, out;
    struct pack p = { 0 };
    struct unpack u;

    (void)state;
    exec_write(&p, &in);
    u = unpack_of(&p);
    assert_int_equal(exec_read(&u, &out), 0);
    assert_string_equal(out.argv[0], "ls");
    assert_string_equal(out.env[0], "A=1");
    assert_string_equal(out.cwd, "/w");
    assert_int_equal(out.timeout_ms, 5000);
    assert_int_equal(out.stdin_closed, 1);
    assert_int_equal(out.early_exit, 1);
    exec_done(&out);
    pack_done(&p);
    in.argv = none;
    exec_write(&p, &in);
    u = unpack_of(&p);
    assert_int_equal(exec_read(&u, &out), -1);
    pack_done(&p);
}

static int exit_of(const struct exit_message *in)
{
    struct pack p = { 0 };
    struct exit_message out;
    struct unpack u;
    int rc;

    exit_write(&p, in);
    u = unpack_of(&p);
    rc = exit_read(&u, &out);
    pack_done(&p);
    return rc;
}

static void an_exit_that_cannot_be_is_refused(void **state)
{
    (void)state;
    assert_int_equal(exit_of(&(struct exit_message){ .kind = EXIT_CODE, .value = 255 }),
                     0);
    assert_int_equal(exit_of(&(struct exit_message){ .kind = EXIT_SIGNAL, .value = 9 }),
                     0);
    assert_int_equal(exit_of(&(struct exit_message){ .kind = EXIT_CODE, .value = 256 }),
                     -1);
    assert_int_equal(exit_of(&(struct exit_message){ .kind = EXIT_SIGNAL }), -1);
    assert_int_equal(
        exit_of(&(struct exit_message){ .kind = EXIT_SIGNAL, .value = 65 }), -1);
    assert_int_equal(exit_of(&(struct exit_message){ .kind = 3 }), -1);
    assert_int_equal(exit_of(&(struct exit_message){ .kind = 1, .disk_full = 4 }), -1);
    assert_int_equal(exit_of(&(struct exit_message){ .kind = 1, .file_full = 2 }), -1);
    assert_int_equal(exit_of(&(struct exit_message){ .kind = 1, .timed_out = 2 }), -1);
    assert_int_equal(exit_of(&(struct exit_message){ .kind = 1, .oom = 2 }), -1);
    assert_int_equal(
        exit_of(&(struct exit_message){ .kind = 1, .user_us = UINT64_MAX }), -1);
    assert_int_equal(
        exit_of(&(struct exit_message){ .kind = 1, .net_refused = UINT64_MAX }), -1);
}

static int entry_of(const struct list_entry *in)
{
    struct pack p = { 0 };
    struct list_entry out;
    struct unpack u;
    int rc;

    list_entry_write(&p, in);
    u = unpack_of(&p);
    rc = list_entry_read(&u, &out);
    if (rc == 0)
        list_entry_done(&out);
    pack_done(&p);
    return rc;
}

static void only_a_link_has_a_target_and_none_without_end(void **state)
{
    char name[] = "n", short_one[] = "../up", *long_one = malloc(LIST_TARGET_MAX + 2);
    struct list_entry e = { .name = name, .type = 'l', .target = short_one };

    (void)state;
    assert_int_equal(entry_of(&e), 0);
    e.type = 'f';
    assert_int_equal(entry_of(&e), -1);
    e.type = 'l';
    memset(long_one, 'a', LIST_TARGET_MAX + 1);
    long_one[LIST_TARGET_MAX + 1] = 0;
    e.target = long_one;
    assert_int_equal(entry_of(&e), -1);
    long_one[LIST_TARGET_MAX] = 0;
    assert_int_equal(entry_of(&e), 0);
    free(long_one);
}

static void an_entry_whose_name_leads_elsewhere_is_refused(void **state)
{
    char good[] = "..x", dot[] = ".", dots[] = "..", slash[] = "a/b", empty[] = "";
    char long_name[300];

    (void)state;
    memset(long_name, 'a', sizeof long_name);
    long_name[256] = 0;
    assert_int_equal(entry_of(&(struct list_entry){ .name = good, .type = 'f' }), 0);
    assert_int_equal(
        entry_of(&(struct list_entry){ .name = good, .type = 'f', .holes = 1 }), -1);
    assert_int_equal(entry_of(&(struct list_entry){ .name = dot, .type = 'f' }), -1);
    assert_int_equal(entry_of(&(struct list_entry){ .name = dots, .type = 'd' }), -1);
    assert_int_equal(entry_of(&(struct list_entry){ .name = slash, .type = 'f' }), -1);
    assert_int_equal(entry_of(&(struct list_entry){ .name = empty, .type = 'f' }), -1);
    assert_int_equal(entry_of(&(struct list_entry){ .name = long_name, .type = 'f' }),
                     -1);
    assert_int_equal(entry_of(&(struct list_entry){ .name = good, .type = 'x' }), -1);
    assert_int_equal(entry_of(&(struct list_entry){ .name = good }), -1);
    assert_int_equal(
        entry_of(&(struct list_entry){ .name = good, .type = 'f', .mode = 010000 }),
        -1);
}

static void put_and_get_survive_the_wire(void **state)
{
    char path[] = "a/b";
    struct put_message put = { path, 0644 }, put_out;
    struct get_message get = { path, 5, 6 }, get_out;
    struct pack p = { 0 };
    struct unpack u;

    (void)state;
    put_write(&p, &put);
    u = unpack_of(&p);
    assert_int_equal(put_read(&u, &put_out), 0);
    assert_string_equal(put_out.path, "a/b");
    assert_int_equal(put_out.mode, 0644);
    free(put_out.path);
    u.at = 0;
    assert_int_equal(get_read(&u, &get_out), -1);
    pack_done(&p);
    get_write(&p, &get);
    u = unpack_of(&p);
    assert_int_equal(get_read(&u, &get_out), 0);
    assert_int_equal(get_out.offset, 5);
    assert_int_equal(get_out.len, 6);
    free(get_out.path);
    u.at = 0;
    assert_int_equal(put_read(&u, &put_out), -1);
    pack_done(&p);
}

static void every_step_has_a_name(void **state)
{
    (void)state;
    for (uint32_t step = STEP_FORK; step <= STEP_EXEC; step++)
        assert_string_not_equal(exec_step_name(step), "?");
    assert_string_equal(exec_step_name(STEP_CWD), "cwd");
    assert_string_equal(exec_step_name(0), "?");
    assert_string_equal(exec_step_name(STEP_EXEC + 1), "?");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_packed_unpacks_in_order),
        cmocka_unit_test(past_the_end_come_zeros_and_a_mark),
        cmocka_unit_test(a_length_that_lies_is_refused),
        cmocka_unit_test(a_nul_inside_a_text_is_refused),
        cmocka_unit_test(more_texts_than_allowed_are_refused),
        cmocka_unit_test(a_lent_buffer_is_left_when_it_is_full_and_never_freed),
        cmocka_unit_test(an_impossible_size_marks_the_pack),
        cmocka_unit_test(a_jail_survives_the_wire),
        cmocka_unit_test(every_truncation_of_a_jail_is_refused),
        cmocka_unit_test(a_jail_with_absurd_values_is_refused),
        cmocka_unit_test(an_exec_survives_the_wire_and_needs_an_argument),
        cmocka_unit_test(an_exit_that_cannot_be_is_refused),
        cmocka_unit_test(only_a_link_has_a_target_and_none_without_end),
        cmocka_unit_test(an_entry_whose_name_leads_elsewhere_is_refused),
        cmocka_unit_test(put_and_get_survive_the_wire),
        cmocka_unit_test(every_step_has_a_name),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
