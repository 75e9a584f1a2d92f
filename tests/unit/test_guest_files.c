/* SPDX-License-Identifier: Apache-2.0 */

/* The real guest's file operations, against links and other traps. */

#include "guest_world.h"

static void what_was_put_is_got_back(void **state)
{
    struct jail jail = { 0 };
    struct world *w = world_open(&jail);
    struct seen *s;

    (void)state;
    assert_int_equal(world_put(w, "note.txt", "some text", 0644), 0);
    s = world_get(w, "note.txt", 0, 0);
    assert_int_equal(s->error, 0);
    assert_string_equal(world_out(s, 1), "some text");
    assert_string_equal(world_out(world_get(w, "note.txt", 5, 2), 1), "te");
    assert_int_equal(world_get(w, "note.txt", 500, 0)->len[1], 0);
    world_close(w);
}

static void a_put_file_has_its_mode_and_nothing_more(void **state)
{
    struct jail jail = { 0 };
    struct world *w = world_open(&jail);

    (void)state;
    assert_int_equal(world_put(w, "run.sh", "#!/bin/sh\necho ran\n", 04755), 0);
    assert_string_equal(world_out(world_sh(w, "stat -c %a run.sh; ./run.sh"), 1),
                        "755\nran\n");
    world_close(w);
}

static void parents_are_made_and_a_file_is_replaced_whole(void **state)
{
    struct jail jail = { 0 };
    struct world *w = world_open(&jail);
    struct seen *s;

    (void)state;
    assert_int_equal(world_put(w, "a/b/c.txt", "first, and longer", 0600), 0);
    assert_int_equal(world_put(w, "a/b/c.txt", "second", 0600), 0);
    assert_string_equal(world_out(world_get(w, "a/b/c.txt", 0, 0), 1), "second");
    s = world_sh(w, "ls -A a/b; stat -c %a a a/b");
    assert_string_equal(world_out(s, 1), "c.txt\n755\n755\n");
    world_close(w);
}

static void a_large_file_arrives_whole_both_ways(void **state)
{
    struct jail jail = { 0 };
    struct world *w = world_open(&jail);
    struct seen *s;

    (void)state;
    assert_int_equal(world_sh(w, "seq 500000 > big")->exit.value, 0);
    s = world_get(w, "big", 0, 0);
    assert_int_equal(s->len[1], 3388895);
    assert_memory_equal(s->bytes[1] + s->len[1] - 7, "500000\n", 7);
    world_close(w);
}

/* The hole is refused only where it is asked for. */
static void a_part_of_a_hole_has_no_more_holes_than_bytes(void **state)
{
    struct jail jail = { 0 };
    struct world *w = world_open(&jail);
    struct seen *s;

    (void)state;
    s = world_sh(w, "truncate -s 2G big && echo end >> big");
    assert_int_equal(s->exit.value, 0);
    assert_int_equal(world_get(w, "big", 0, 0)->error, EFBIG);
    s = world_get(w, "big", 0, 2 << 20);
    assert_int_equal(s->error, 0);
    assert_int_equal(s->len[1], 2 << 20);
    world_close(w);
}

static void names_that_leave_the_workdir_are_refused(void **state)
{
    static const char *const names[] = { "..", "../x", "a/../../x", "./x",      "a//b",
                                         "a/", "",     "a/./b",     "../../etc" };
    struct jail jail = { 0 };
    struct world *w = world_open(&jail);

    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        assert_int_equal(world_put(w, names[i], "x", 0644), EINVAL);
        assert_int_equal(world_get(w, names[i], 0, 0)->error, EINVAL);
    }
    world_close(w);
}

static void links_are_never_followed(void **state)
{
    struct jail jail = { 0 };
    struct world *w = world_open(&jail);

    (void)state;
    assert_int_equal(
        world_sh(w, "ln -s /etc/passwd file; ln -s /etc dir; ln -s . here")->exit.value,
        0);
    assert_int_equal(world_get(w, "file", 0, 0)->error, ELOOP);
    assert_int_equal(world_get(w, "dir/passwd", 0, 0)->error, ELOOP);
    assert_int_equal(world_get(w, "here/here/file", 0, 0)->error, ELOOP);
    assert_int_equal(world_put(w, "dir/vial-was-here", "x", 0644), ELOOP);
    assert_int_equal(access("/etc/vial-was-here", F_OK), -1);
    world_close(w);
}

static void a_put_replaces_a_link_instead_of_writing_through_it(void **state)
{
    struct jail jail = { 0 };
    struct world *w = world_open(&jail);
    struct seen *s;

    (void)state;
    assert_int_equal(world_sh(w, "echo old > target; ln -s target link")->exit.value,
                     0);
    assert_int_equal(world_put(w, "link", "new", 0644), 0);
    s = world_sh(w, "cat target; test -L link || echo file");
    assert_string_equal(world_out(s, 1), "old\nfile\n");
    world_close(w);
}

static void only_regular_files_are_read(void **state)
{
    struct jail jail = { 0 };
    struct world *w = world_open(&jail);

    (void)state;
    assert_int_equal(world_sh(w, "mkfifo pipe; mkdir dir")->exit.value, 0);
    assert_int_equal(world_get(w, "pipe", 0, 0)->error, EINVAL);
    assert_int_equal(world_get(w, "dir", 0, 0)->error, EISDIR);
    assert_int_equal(world_get(w, "missing", 0, 0)->error, ENOENT);
    assert_int_equal(world_put(w, "dir", "x", 0644), EISDIR);
    world_close(w);
}

static struct seen *list(struct world *w, const char *path)
{
    uint32_t channel;

    assert_int_equal(link_list(w->l, path, &channel, &w->err), 0);
    return world_wait(w, channel);
}

static void a_list_names_every_entry_with_its_kind(void **state)
{
    struct jail jail = { 0 };
    struct world *w = world_open(&jail);
    struct list_entry e;
    struct unpack u;
    struct seen *s;
    char letters[4] = { 0 };

    (void)state;
    assert_int_equal(
        world_sh(w, "mkdir d; cd d; printf 12345 > f; ln -s f l; mkdir s")->exit.value,
        0);
    s = list(w, "d");
    assert_int_equal(s->error, 0);
    u = (struct unpack){ .data = (uint8_t *)s->bytes[1], .len = s->len[1] };
    for (int i = 0; i < 3; i++) {
        assert_int_equal(list_entry_read(&u, &e), 0);
        letters[e.name[0] == 'f' ? 0 : e.name[0] == 'l' ? 1 : 2] = (char)e.type;
        assert_true(e.name[0] != 'f' || e.size == 5);
        assert_true(e.mtime_ns > 0);
        assert_int_equal(e.uid, getuid());
        assert_int_equal(e.gid, getgid());
        if (e.type == 'l')
            assert_string_equal(e.target, "f");
        list_entry_done(&e);
    }
    assert_true(unpack_finished(&u));
    assert_string_equal(letters, "fld");
    world_close(w);
}

static void a_list_of_many_entries_spans_frames(void **state)
{
    struct jail jail = { 0 };
    struct world *w = world_open(&jail);
    struct list_entry e;
    struct unpack u;
    struct seen *s;
    int count = 0;

    (void)state;
    assert_int_equal(
        world_sh(w, "seq -f 'a-rather-long-name-%05.0f' 6000 | xargs touch")
            ->exit.value,
        0);
    s = list(w, "");
    assert_int_equal(s->error, 0);
    u = (struct unpack){ .data = (uint8_t *)s->bytes[1], .len = s->len[1] };
    while (!unpack_finished(&u)) {
        assert_int_equal(list_entry_read(&u, &e), 0);
        list_entry_done(&e);
        count++;
    }
    assert_int_equal(count, 6000);
    world_close(w);
}

static void a_list_of_a_file_or_a_link_is_refused(void **state)
{
    struct jail jail = { 0 };
    struct world *w = world_open(&jail);

    (void)state;
    assert_int_equal(world_sh(w, "touch f; ln -s /etc l")->exit.value, 0);
    assert_int_equal(list(w, "f")->error, ENOTDIR);
    assert_int_equal(list(w, "l")->error, ELOOP);
    assert_int_equal(list(w, "..")->error, EINVAL);
    world_close(w);
}

static void an_unfinished_put_leaves_nothing(void **state)
{
    struct jail jail = { 0 };
    struct world *w = world_open(&jail);
    char path[] = "half";
    struct put_message m = { .path = path, .mode = 0644 };
    uint32_t channel;

    (void)state;
    assert_int_equal(link_put(w->l, &m, &channel, &w->err), 0);
    link_send(w->l, channel, "half of it", 10);
    link_close_channel(w->l, channel);
    assert_string_equal(world_out(world_sh(w, "ls -A"), 1), "");
    world_close(w);
}

static void a_full_file_system_is_reported_by_put(void **state)
{
    struct jail jail = { 0 };
    struct world *w;
    char path[] = "big", dir[] = "/tmp/vial-full-XXXXXX";
    struct put_message m = { .path = path, .mode = 0644 };
    static char block[200 << 10];
    uint32_t channel;

    (void)state;
    assert_non_null(mkdtemp(dir));
    if (mount("none", dir, "tmpfs", 0, "size=64k") < 0) {
        (void)rmdir(dir);
        skip();
    }
    jail.workdir = dir;
    w = world_open(&jail);
    assert_int_equal(link_put(w->l, &m, &channel, &w->err), 0);
    link_send(w->l, channel, block, sizeof block);
    link_send_eof(w->l, channel);
    assert_int_equal(world_wait(w, channel)->error, ENOSPC);
    assert_string_equal(world_out(world_sh(w, "ls -A"), 1), "");
    world_close(w);
    assert_int_equal(umount(dir), 0);
    assert_int_equal(rmdir(dir), 0);
}

static void a_program_behind_a_failed_put_finds_no_part_of_it(void **state)
{
    struct jail jail = { 0 };
    struct world *w;
    char path[] = "big", dir[] = "/tmp/vial-full-XXXXXX";
    struct put_message m = { .path = path, .mode = 0644 };
    static char block[100 << 10];
    uint32_t put, exec;

    (void)state;
    assert_non_null(mkdtemp(dir));
    if (mount("none", dir, "tmpfs", 0, "size=64k") < 0) {
        (void)rmdir(dir);
        skip();
    }
    jail.workdir = dir;
    w = world_open(&jail);
    assert_int_equal(link_put(w->l, &m, &put, &w->err), 0);
    link_send(w->l, put, block, sizeof block);
    link_send_eof(w->l, put);
    exec = world_sh_start(w, "ls -A"); /* all on its way at once */
    assert_string_equal(world_out(world_wait(w, exec), 1), "");
    assert_int_equal(world_wait(w, put)->error, ENOSPC);
    world_close(w);
    assert_int_equal(umount(dir), 0);
    assert_int_equal(rmdir(dir), 0);
}

static void files_that_are_put_with_a_program_are_there_and_whole(void **state)
{
    struct jail jail = { 0 };
    struct world *w = world_open(&jail);
    char one[] = "one", two[] = "in/two";
    struct put_message m[] = { { one, 0666 }, { two, 0700 }, { one, 0640 } };
    uint32_t channel;

    (void)state;
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(link_put(w->l, &m[i], &channel, &w->err), 0);
        link_send(w->l, channel, "012" + i, 1);
        link_send_eof(w->l, channel);
    }
    channel = world_sh_start(w, "cat one in/two; stat -c ' %a' one in/two; ls -A . in");
    assert_string_equal(world_out(world_wait(w, channel), 1),
                        "21 640\n 700\n.:\nin\none\n\nin:\ntwo\n");
    world_close(w);
}

static void a_put_in_the_place_of_a_directory_is_refused(void **state)
{
    struct jail jail = { 0 };
    struct world *w = world_open(&jail);

    (void)state;
    assert_int_equal(world_put(w, "d/x", "x", 0644), 0);
    assert_int_equal(world_put(w, "d", "x", 0644), EISDIR);
    assert_string_equal(world_out(world_sh(w, "ls -A . d"), 1), ".:\nd\n\nd:\nx\n");
    world_close(w);
}

static void a_missing_workdir_fails_the_operation_only(void **state)
{
    char nowhere[] = "/no/such/dir";
    struct jail jail = { .workdir = nowhere };
    struct world *w = world_open(&jail);

    (void)state;
    assert_int_equal(world_put(w, "x", "x", 0644), ENOENT);
    assert_int_equal(list(w, "")->error, ENOENT);
    world_close(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_put_is_got_back),
        cmocka_unit_test(a_put_file_has_its_mode_and_nothing_more),
        cmocka_unit_test(parents_are_made_and_a_file_is_replaced_whole),
        cmocka_unit_test(a_large_file_arrives_whole_both_ways),
        cmocka_unit_test(a_part_of_a_hole_has_no_more_holes_than_bytes),
        cmocka_unit_test(names_that_leave_the_workdir_are_refused),
        cmocka_unit_test(links_are_never_followed),
        cmocka_unit_test(a_put_replaces_a_link_instead_of_writing_through_it),
        cmocka_unit_test(only_regular_files_are_read),
        cmocka_unit_test(a_list_names_every_entry_with_its_kind),
        cmocka_unit_test(a_list_of_many_entries_spans_frames),
        cmocka_unit_test(a_list_of_a_file_or_a_link_is_refused),
        cmocka_unit_test(an_unfinished_put_leaves_nothing),
        cmocka_unit_test(a_full_file_system_is_reported_by_put),
        cmocka_unit_test(a_program_behind_a_failed_put_finds_no_part_of_it),
        cmocka_unit_test(files_that_are_put_with_a_program_are_there_and_whole),
        cmocka_unit_test(a_put_in_the_place_of_a_directory_is_refused),
        cmocka_unit_test(a_missing_workdir_fails_the_operation_only),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
