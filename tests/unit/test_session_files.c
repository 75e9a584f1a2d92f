/* SPDX-License-Identifier: Apache-2.0 */

/* Files of a session: any content, any name, and nothing outside. */

#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "session_case.h"

#include "vial/files.h"

#define BIG ((size_t)10 << 20)

static char *random_bytes(size_t len)
{
    char *data = malloc(len);
    size_t at = 0;

    while (at < len) {
        ssize_t n = getrandom(data + at, len - at, 0);

        assert_true(n > 0);
        at += (size_t)n;
    }
    return data;
}

static int memory_file(void)
{
    int fd = memfd_create("test", MFD_CLOEXEC);

    assert_true(fd >= 0);
    return fd;
}

static void rewind_file(int fd)
{
    assert_int_equal(lseek(fd, 0, SEEK_SET), 0);
}

static void assert_file(struct vial_session *s, const char *path, const char *data,
                        size_t len)
{
    char *got = NULL;
    size_t got_len = 0;

    good(vial_session_get(s, path, 0, 0, &got, &got_len, &err));
    assert_int_equal(got_len, len);
    assert_memory_equal(got, data, len);
    free(got);
}

static void ten_random_megabytes_come_back_unchanged(void **state)
{
    char *data = random_bytes(BIG), *got = NULL;
    int fd = memory_file();
    struct vial_entry e;
    size_t len = 0, left_out = 1;

    begin(on);
    struct vial_session *s = open_on(on);
    good(vial_session_put(s, "a/b/big", data, BIG, 0600, &err));
    assert_file(s, "a/b/big", data, BIG);
    good(vial_session_get(s, "a/b/big", 1234567, 89, &got, &len, &err));
    assert_int_equal(len, 89);
    assert_memory_equal(got, data + 1234567, 89);
    free(got);
    good(vial_session_stat(s, "a/b/big", &e, &err));
    assert_int_equal(e.size, BIG);
    assert_int_equal(e.type, 'f');
    assert_int_equal(e.mode, 0600);
    check_line(s, "wc -c < a/b/big", "10485760\n");

    good(vial_session_get_fd(s, "a/b/big", 0, 0, fd, &err));
    rewind_file(fd);
    good(vial_session_put_fd(s, "again", fd, 0, &err));
    check_line(s, "cmp a/b/big again && echo same", "same\n");

    assert_int_equal(ftruncate(fd, 0), 0);
    rewind_file(fd);
    good(vial_session_export(s, "a", fd, &left_out, &err));
    assert_int_equal(left_out, 0);
    rewind_file(fd);
    good(vial_session_import(s, "copy", fd, &err));
    assert_file(s, "copy/b/big", data, BIG);
    (void)close(fd);
    free(data);
    vial_session_free(s);
}

/* Names with every byte that may be in one. */
static void hostile_name(unsigned i, char *out, size_t size)
{
    static const char *const some[] = {
        "new\nline", "quo\"te'",  "-rf", " lead", "trail ",   "\u202egpj.exe",
        "\xc3\xa9",  "e\xcc\x81", "con", "a:b",   "日本",     "\xff\xfe",
        "$(id)",     "`id`",      "\\",  "*?[",   "\033[31m", "..."
    };
    char bytes[8] = "";

    for (unsigned k = 0; k < 7; k++) {
        unsigned char c = (unsigned char)(i * 37 + k * 11 + 1);

        bytes[k] = (char)(c == '/' || c == 0 ? '_' : c);
    }
    (void)snprintf(out, size, "d%u/%s%u%s", i % 10,
                   some[i % (sizeof some / sizeof *some)], i, bytes);
}

static void a_thousand_hostile_names_make_the_round_trip(void **state)
{
    struct vial_entries all = { 0 }, copy = { 0 };
    int fd = memory_file();
    char name[300], text[16];

    begin(on);
    struct vial_session *s = open_on(on);
    for (unsigned i = 0; i < 1000; i++) {
        hostile_name(i, name, sizeof name);
        (void)snprintf(text, sizeof text, "%u", i);
        good(vial_session_put(s, name, text, strlen(text), 0, &err));
    }
    good(vial_session_list(s, ".", true, &all, &err));
    assert_int_equal(all.count, 1010);
    for (unsigned i = 0; i < 1000; i++) {
        hostile_name(i, name, sizeof name);
        (void)snprintf(text, sizeof text, "%u", i);
        assert_file(s, name, text, strlen(text));
    }
    good(vial_session_export(s, "", fd, NULL, &err));
    rewind_file(fd);
    good(vial_session_import(s, "copy", fd, &err));
    good(vial_session_list(s, "copy", true, &copy, &err));
    assert_int_equal(copy.count, all.count);
    for (size_t i = 0; i < all.count; i++) {
        assert_string_equal(copy.items[i].path, all.items[i].path);
        assert_int_equal(copy.items[i].size, all.items[i].size);
        assert_int_equal(copy.items[i].type, all.items[i].type);
    }
    vial_entries_free(&all);
    vial_entries_free(&copy);
    (void)close(fd);
    vial_session_free(s);
}

static void a_path_that_is_not_plain_is_refused_everywhere(void **state)
{
    static const char *const paths[] = { "../x",         "a/../../x", "/etc/../passwd",
                                         "//etc/passwd", "a/",        "a//b",
                                         "./../a",       "a/./b",     "..",
                                         "/etc//passwd", "/tmp//",    "/./../a" };
    struct vial_entries list;
    struct vial_entry e;
    char deep[5000], wide[300], *data;
    size_t len;

    begin(on);
    struct vial_session *s = open_on(on);
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
        refused(vial_session_put(s, paths[i], "x", 1, 0, &err), "VIAL-PATH");
        refused(vial_session_get(s, paths[i], 0, 0, &data, &len, &err), "VIAL-PATH");
        refused(vial_session_list(s, paths[i], false, &list, &err), "VIAL-PATH");
        refused(vial_session_stat(s, paths[i], &e, &err), "VIAL-PATH");
        refused(vial_session_mkdir(s, paths[i], &err), "VIAL-PATH");
        refused(vial_session_move(s, paths[i], "b", &err), "VIAL-PATH");
        refused(vial_session_move(s, "b", paths[i], &err), "VIAL-PATH");
        refused(vial_session_remove(s, paths[i], true, &err), "VIAL-PATH");
    }
    refused(vial_session_remove(s, "", true, &err), "VIAL-PATH");
    refused(vial_session_remove(s, "/", true, &err), "VIAL-PATH");
    refused(vial_session_put(s, "/", "x", 1, 0, &err), "VIAL-PATH");
    memset(deep, 'a', sizeof deep);
    for (size_t i = 100; i < sizeof deep; i += 100)
        deep[i] = '/';
    deep[sizeof deep - 1] = 0;
    memset(wide, 'a', sizeof wide);
    wide[256] = 0;
    refused(vial_session_put(s, deep, "x", 1, 0, &err), "VIAL-PATH");
    deep[0] = '/';
    refused(vial_session_put(s, deep, "x", 1, 0, &err), "VIAL-PATH");
    refused(vial_session_put(s, wide, "x", 1, 0, &err), "VIAL-PATH");
    wide[255] = 0;
    good(vial_session_put(s, wide, "x", 1, 0, &err));
    assert_file(s, wide, "x", 1);
    good(vial_session_put(s, "..%2fx", "x", 1, 0, &err)); /* just a name */
    good(vial_session_put(s, "././dot", "x", 1, 0, &err));
    good(vial_session_remove(s, "dot", false, &err));
    check_line(s, "ls -A | wc -l", "2\n");
    vial_session_free(s);
}

static void root_s_calls_are_for_sessions_whose_programs_may_be_root(void **state)
{
    const struct vial_put_options as_root = { .as_root = true };
    struct vial_entries list = { 0 };
    struct vial_entry e;
    char *data;
    size_t len;

    begin(on);
    struct vial_session *s = open_on(on);
    refused(vial_session_put_with(s, "/tmp/a", "x", 1, &as_root, &err),
            "VIAL-UNSUPPORTED");
    refused(vial_session_get_as(s, true, "/etc/passwd", 0, 0, &data, &len, &err),
            "VIAL-UNSUPPORTED");
    refused(vial_session_list_as(s, true, "/tmp", false, &list, &err),
            "VIAL-UNSUPPORTED");
    refused(vial_session_stat_as(s, true, true, "/tmp", &e, &err), "VIAL-UNSUPPORTED");
    refused(vial_session_mkdir_as(s, true, "/tmp/d", &err), "VIAL-UNSUPPORTED");
    refused(vial_session_move_as(s, true, "/tmp/a", "/tmp/b", &err),
            "VIAL-UNSUPPORTED");
    refused(vial_session_remove_as(s, true, "/tmp/a", true, &err), "VIAL-UNSUPPORTED");
    refused(vial_session_stat_as(s, true, false, "a", &e, &err), "VIAL-PATH");
    good(vial_session_put(s, "a", "x", 1, 0, &err));
    assert_file(s, "a", "x", 1);
    vial_session_free(s);
}

static void links_devices_and_pipes_lead_nowhere(void **state)
{
    struct vial_entries list = { 0 };
    struct vial_entry e;
    int fd = memory_file();
    size_t len, left_out = 0;
    char *data;

    begin(on);
    struct vial_session *s = open_on(on);
    check_line(
        s,
        "ln -s /etc/shadow out.txt; ln -s ../../../../../../etc/hostname rel.txt; "
        "ln -s / d; ln -s /var/tmp up; mkfifo pipe; mkdir plain; echo x > plain/f",
        "");
    refused(vial_session_get(s, "out.txt", 0, 0, &data, &len, &err), "VIAL-PATH");
    refused(vial_session_get(s, "rel.txt", 0, 0, &data, &len, &err), "VIAL-PATH");
    refused(vial_session_get(s, "d/etc/hostname", 0, 0, &data, &len, &err),
            "VIAL-PATH");
    refused(vial_session_get(s, "pipe", 0, 0, &data, &len, &err), "VIAL-FILE");
    refused(vial_session_get(s, "plain", 0, 0, &data, &len, &err), "VIAL-FILE");
    refused(vial_session_get(s, "nothing", 0, 0, &data, &len, &err), "VIAL-NO-FILE");
    refused(vial_session_get(s, "plain/f", 3, 0, &data, &len, &err), "VIAL-OFFSET");
    refused(vial_session_list(s, "d", false, &list, &err), "VIAL-PATH");
    refused(vial_session_remove(s, "d/tmp", true, &err), "VIAL-PATH");
    refused(vial_session_put(s, "up/canary", "x", 1, 0, &err), "VIAL-PATH");
    refused(vial_session_move(s, "plain/f", "up/canary", &err), "VIAL-PATH");
    refused(vial_session_put(s, "plain", "x", 1, 0, &err), "VIAL-FILE");
    refused(vial_session_mkdir(s, "plain/f", &err), "VIAL-FILE");
    refused(vial_session_remove(s, "plain", false, &err), "VIAL-FILE");
    good(vial_session_stat(s, "d", &e, &err));
    assert_int_equal(e.type, 'l');
    assert_string_equal(e.target, "/");
    vial_entry_done(&e);
    good(vial_session_put(s, "rel.txt", "mine", 4, 0, &err)); /* replaces the link */
    assert_file(s, "rel.txt", "mine", 4);
    good(vial_session_export(s, "", fd, &left_out, &err));
    assert_int_equal(left_out, 4);
    good(vial_session_remove(s, "d", true, &err)); /* the link, not what it names */
    check_line(s, "ls /etc/passwd", "/etc/passwd\n");
    (void)close(fd);
    vial_session_free(s);
}

/* A directory outside of the working directory, of this test's own. */
static const char *outside(char *dir, size_t size, const char *name)
{
    static char place[64];

    (void)snprintf(place, sizeof place, "/tmp/vial-test-%d", (int)getpid());
    (void)snprintf(dir, size, "%s/%s", place, name);
    return dir;
}

static void say_line(struct vial_session *s, const char *format, const char *dir,
                     const char *want)
{
    char line[512];

    (void)snprintf(line, sizeof line, "cd %s && %s", dir, format);
    check_line(s, line, want);
}

static void an_absolute_path_is_what_programs_find_there(void **state)
{
    char dir[80], f[96], l[96];
    struct vial_entries list = { 0 };
    struct vial_entry e;
    int fd = memory_file();

    begin(on);
    struct vial_session *s = open_on(on);
    (void)outside(dir, sizeof dir, "d");
    (void)outside(f, sizeof f, "d/a/f");
    (void)outside(l, sizeof l, "d/l");
    good(vial_session_put(s, f, "one", 3, 0600, &err));
    say_line(s, "cat a/f; ln -s a/f l; ln -s $PWD/a up", dir, "one");
    assert_file(s, l, "one", 3);
    good(vial_session_put(s, l, "three", 5, 0, &err)); /* what the link names */
    say_line(s, "readlink l; cat a/f; stat -c ' %a' a/f", dir, "a/f\nthree 600\n");
    assert_file(s, outside(f, sizeof f, "d/up/f"), "three", 5);
    good(vial_session_stat(s, l, &e, &err));
    assert_int_equal(e.type, 'l');
    assert_string_equal(e.target, "a/f");
    vial_entry_done(&e);
    good(vial_session_stat_followed(s, l, &e, &err));
    assert_int_equal(e.type, 'f');
    assert_int_equal(e.mode, 0600);
    assert_int_equal(e.size, 5);
    assert_true(e.mtime_ns > 0);
    (void)snprintf(f, sizeof f, "%u:%u\n", e.uid, e.gid);
    say_line(s, "stat -c %u:%g a/f", dir, f);
    good(vial_session_list(s, dir, true, &list, &err));
    assert_int_equal(list.count, 4); /* links are listed, not entered */
    assert_string_equal(list.items[1].path, "a/f");
    vial_entries_free(&list);
    good(vial_session_list(s, "/", false, &list, &err));
    assert_true(list.count > 3);
    vial_entries_free(&list);
    good(vial_session_export(s, dir, fd, NULL, &err));
    rewind_file(fd);
    good(vial_session_import(s, outside(l, sizeof l, "copy"), fd, &err));
    assert_file(s, outside(f, sizeof f, "copy/a/f"), "three", 5);
    good(vial_session_move(s, f, "here", &err));
    assert_file(s, "here", "three", 5);
    check_line(s, "stat -c %a here", "600\n"); /* though it may have come from far */
    good(vial_session_mkdir(s, outside(f, sizeof f, "x/y"), &err));
    good(vial_session_move(s, "here", outside(f, sizeof f, "x/y/z"), &err));
    say_line(s, "cat ../x/y/z", dir, "three");
    good(vial_session_remove(s, f, false, &err));
    refused(vial_session_remove(s, outside(f, sizeof f, "x"), false, &err),
            "VIAL-FILE");
    (void)outside(f, sizeof f, "");
    f[strlen(f) - 1] = 0;
    good(vial_session_remove(s, f, true, &err));
    refused(vial_session_stat(s, f, &e, &err), "VIAL-NO-FILE");
    (void)close(fd);
    vial_session_free(s);
}

static void an_absolute_path_below_the_workdir_is_the_same_place(void **state)
{
    begin(on);
    struct vial_session *s = open_with(on, "'timeout':'60s','disk':'64m'", NULL);
    good(vial_session_put(s, "/work/a/b", "x", 1, 0755, &err));
    check_line(s, "cat a/b; ln -s a/b l", "x");
    assert_file(s, "/work/l", "x", 1); /* by the whole name links are followed */
    assert_file(s, "a/b", "x", 1);
    vial_session_free(s);
}

static void a_circle_of_links_and_a_link_to_nowhere_are_told(void **state)
{
    char *data;
    size_t len;

    begin(on);
    struct vial_session *s = open_on(on);
    check_line(s, "ln -s b a; ln -s a b; ln -s /no/such/place c; mkfifo p", "");
    refused(vial_session_get(s, "/work/a", 0, 0, &data, &len, &err), "VIAL-PATH");
    refused(vial_session_put(s, "/work/a", "x", 1, 0, &err), "VIAL-PATH");
    refused(vial_session_get(s, "/work/c", 0, 0, &data, &len, &err), "VIAL-NO-FILE");
    refused(vial_session_get(s, "/work/p", 0, 0, &data, &len, &err), "VIAL-FILE");
    refused(vial_session_put(s, "/work/p", "x", 1, 0, &err), "VIAL-FILE");
    check_line(s, "test -p p && echo there", "there\n");
    vial_session_free(s);
}

static void a_file_that_is_given_up_leaves_nothing_at_its_absolute_path(void **state)
{
    int fd = open("/dev/null", O_WRONLY | O_CLOEXEC); /* which cannot be read */

    begin(on);
    struct vial_session *s = open_on(on);
    refused(vial_session_put_fd(s, "/work/d/half", fd, 0, &err), "VIAL-SYSTEM");
    check_line(s,
               "for i in $(seq 100); do [ \"$(ls -A d)\" ] || break; sleep 0.1; done; "
               "ls -A d",
               "");
    good(vial_session_put(s, "/work/d/whole", "", 0, 0, &err));
    check_line(s, "ls -A d", "whole\n");
    (void)close(fd);
    vial_session_free(s);
}

/* Who asks for a file gets what programs could have got: their user, their rules. */
static void what_programs_may_not_read_is_not_read_for_anybody(void **state)
{
    char *data;
    size_t len;

    begin(on);
    assert_string_not_equal(on->driver, "process"); /* it has no walls: never there */
    struct vial_session *s = open_on(on);
    check_line(s,
               "cat /proc/1/environ 2>/dev/null || echo refused; ln -s /proc/1/mem m",
               "refused\n");
    refused(vial_session_get(s, "/proc/1/environ", 0, 0, &data, &len, &err),
            "VIAL-FILE");
    refused(vial_session_get(s, "/work/m", 0, 1, &data, &len, &err), "VIAL-FILE");
    refused(vial_session_put(s, "/usr/x", "x", 1, 0, &err), "VIAL-FILE");
    refused(vial_session_put(s, "/x", "x", 1, 0, &err), "VIAL-FILE");
    refused(vial_session_put(s, "/dev/null", "x", 1, 0, &err), "VIAL-FILE");
    check_line(s, "test -c /dev/null && echo there", "there\n");
    vial_session_free(s);
}

static void a_rename_race_finds_nothing_outside(void **state)
{
    static const char flip[] =
        "import os, shutil\n"
        "os.makedirs('a_real/etc'); open('a_real/etc/hostname', 'w').write('SAFE\\n')\n"
        "def attempt(what, *names):\n"
        "    try: what(*names)\n"
        "    except OSError: pass\n"
        "while True:\n"
        "    attempt(os.rename, 'a_real', 'a'); attempt(os.rename, 'a', 'a_real')\n"
        "    attempt(os.symlink, '/', 'a'); attempt(os.unlink, 'a')\n"
        "    if os.path.isdir('a') and not os.path.islink('a'): shutil.rmtree('a', True)\n";
    const char *argv[] = { "python3", "-c", flip, NULL };
    struct vial_exec_options o = { .argv = argv };
    struct vial_entries list = { 0 };
    struct vial_exec *x;
    struct stat st;
    int safe = 0;

    begin(on);
    struct vial_session *s = open_on(on);
    good(vial_session_exec(s, &o, &x, &err));
    for (int i = 0; i < 2000; i++) {
        struct vial_error err = { 0 };
        char *data = NULL;
        size_t len = 0;

        if (vial_session_get(s, "a/etc/hostname", 0, 0, &data, &len, &err) == 0) {
            assert_string_equal(data, "SAFE\n");
            free(data);
            safe++;
        }
        (void)!vial_session_put(s, "a/var/tmp/vial-canary", "x", 1, 0, &err);
        if (vial_session_list(s, "a", false, &list, &err) == 0) {
            for (size_t k = 0; k < list.count; k++)
                assert_true(strcmp(list.items[k].path, "proc") != 0);
            vial_entries_free(&list);
        }
        (void)!vial_session_remove(s, "a/var", true, &err);
    }
    assert_int_equal(stat("/var/tmp/vial-canary", &st), -1);
    print_message("# %d of 2000 reads hit the real file\n", safe);
    vial_exec_free(x);
    check_line(s, "echo alive", "alive\n");
    vial_session_free(s);
}

static void names_can_be_made_moved_and_removed(void **state)
{
    struct vial_entries list = { 0 };
    struct vial_entry e;

    begin(on);
    struct vial_session *s = open_on(on);
    good(vial_session_mkdir(s, "x/y/z", &err));
    good(vial_session_mkdir(s, "x/y/z", &err));
    good(vial_session_put(s, "x/y/f", "1", 1, 0755, &err));
    good(vial_session_move(s, "x/y/f", "new/place/g", &err));
    good(vial_session_list(s, "x", true, &list, &err));
    assert_int_equal(list.count, 2);
    assert_string_equal(list.items[0].path, "y");
    assert_string_equal(list.items[1].path, "y/z");
    vial_entries_free(&list);
    good(vial_session_stat(s, "", &e, &err));
    assert_int_equal(e.type, 'd');
    good(vial_session_stat(s, "new/place/g", &e, &err));
    assert_int_equal(e.mode, 0755);
    refused(vial_session_stat(s, "x/y/f", &e, &err), "VIAL-NO-FILE");
    refused(vial_session_move(s, "nothing", "n", &err), "VIAL-NO-FILE");
    refused(vial_session_remove(s, "nothing", true, &err), "VIAL-NO-FILE");
    good(vial_session_remove(s, "x/y/z", false, &err));
    check_line(s, "mkdir -p x/1/2/3/4; touch x/1/f x/1/2/f; ln -s /etc x/1/l", "");
    good(vial_session_remove(s, "x", true, &err));
    good(vial_session_remove(s, "new/place/g", false, &err));
    check_line(s, "ls -A; ls /etc/passwd", "new\n/etc/passwd\n");
    vial_session_free(s);
}

static void what_does_not_fit_is_a_quota_error_and_leaves_nothing(void **state)
{
    char *data = calloc(1, BIG);
    int fd = memory_file();

    begin(on);
    struct vial_session *s = open_with(on, "'timeout':'60s','disk':'4m'", NULL);
    refused(vial_session_put(s, "big", data, BIG, 0, &err), "VIAL-QUOTA");
    assert_int_equal(write(fd, data, BIG), BIG);
    rewind_file(fd);
    refused(vial_session_put_fd(s, "big", fd, 0, &err), "VIAL-QUOTA");
    check_line(s, "ls -A", "");
    if (strcmp(on->driver, "native") == 0) { /* the others have no size of their own */
        good(vial_session_put(s, "most", data, (size_t)3 << 20, 0, &err));
        refused(vial_session_put(s, "rest", data, (size_t)2 << 20, 0, &err),
                "VIAL-QUOTA");
        check_line(s, "ls -A", "most\n");
    }
    good(vial_session_put(s, "small", data, 100, 0, &err));
    (void)close(fd);
    free(data);
    vial_session_free(s);
}

/* Else code could have us read for ever what costs it nothing. */
static void a_mount_elsewhere_does_not_lift_the_bound_of_what_is_read(void **state)
{
    static const char with[] = "'timeout':'60s','disk':'4m','mounts':[{'source':"
                               "'/usr/share','target':'/data','mode':'ro'}]";
    char *got = NULL;
    size_t len = 0;

    begin(on);
    if (strcmp(on->driver, "native") != 0 || kept_is_on())
        return; /* the others have no size of their own, or no mounts */
    struct vial_session *s = open_with(on, with, NULL);
    check_line(s, "truncate -s 256m hole; ls -A", "hole\n");
    refused(vial_session_get(s, "hole", 0, 0, &got, &len, &err), "VIAL-QUOTA");
    vial_session_free(s);
}

static void changes_are_what_is_new_or_different(void **state)
{
    struct vial_entries before = { 0 }, now = { 0 };

    begin(on);
    struct vial_session *s = open_on(on);
    check_line(s, "mkdir out; echo 1 > out/same; echo 1 > out/other", "");
    good(vial_session_list(s, "out", true, &before, &err));
    check_line(s, "echo 22 > out/other; mkdir out/sub; echo > out/sub/plot.png", "");
    good(vial_session_changes(s, "out", &before, &now, &err));
    assert_int_equal(now.count, 2);
    assert_string_equal(now.items[0].path, "other");
    assert_int_equal(now.items[0].size, 3);
    assert_string_equal(
        now.items[0].sha256,
        "f14b4987904bcb5814e4459a057ed4d20f58a633152288a761214dcd28780b56");
    assert_string_equal(now.items[1].path, "sub/plot.png");
    assert_string_equal(now.items[1].media, "image/png");
    vial_entries_free(&now);
    good(vial_session_changes(s, "out", NULL, &now, &err));
    assert_int_equal(now.count, 3);
    vial_entries_free(&now);
    vial_entries_free(&before);
    vial_session_free(s);
}

static void an_invalid_archive_is_refused_and_hurts_nothing(void **state)
{
    static const char *const makers[] = {
        "head -c 1000 /dev/urandom",
        "echo",
        "tar cf - l",
        "tar cPf - ../up",
        "tar cf - f | head -c 700",
        "tar cf - f | head -c 512",
        "tar cf - p",
    };
    char line[128];

    begin(on);
    struct vial_session *s = open_on(on);
    check_line(s, "mkdir w; cd w; echo x > ../up; ln -s / l; echo y > f; mkfifo p", "");
    for (size_t i = 0; i < sizeof makers / sizeof *makers; i++) {
        int fd = memory_file();

        (void)snprintf(line, sizeof line, "cd w; %s > ../t.tar 2>/dev/null", makers[i]);
        check_line(s, line, "");
        good(vial_session_get_fd(s, "t.tar", 0, 0, fd, &err));
        rewind_file(fd);
        refused(vial_session_import(s, "in", fd, &err), "VIAL-TAR");
        (void)close(fd);
    }
    check_line(s, "find in -type f", "");
    vial_session_free(s);
}

static void archives_of_other_programs_are_taken_in(void **state)
{
    static const char *const formats[] = { "ustar", "pax", "gnu", "v7" };
    char line[256];

    begin(on);
    struct vial_session *s = open_on(on);
    check_line(s,
               "mkdir w; cd w; n=$(printf %080d 7); mkdir -p a/$n; echo x > a/$n/f; "
               "echo é > 'a/b c'; : > a/empty; chmod 750 'a/b c'",
               "");
    for (size_t i = 0; i < 4; i++) {
        int fd = memory_file();

        (void)snprintf(line, sizeof line, "cd w; tar --format=%s -cf ../t.tar ./a",
                       formats[i]);
        check_line(s, line, "");
        good(vial_session_get_fd(s, "t.tar", 0, 0, fd, &err));
        rewind_file(fd);
        good(vial_session_import(s, "in", fd, &err));
        check_line(s, "diff -r w in && stat -c %a 'in/a/b c'; rm -r in", "750\n");
        /* and ours by others */
        assert_int_equal(ftruncate(fd, 0), 0);
        rewind_file(fd);
        good(vial_session_export(s, "w", fd, NULL, &err));
        rewind_file(fd);
        good(vial_session_put_fd(s, "o.tar", fd, 0, &err));
        check_line(s, "mkdir o; tar -xf o.tar -C o && diff -r w o; rm -r o", "");
        (void)close(fd);
    }
    vial_session_free(s);
}

static void a_closed_session_has_no_files(void **state)
{
    struct vial_entry e;
    char *data;
    size_t len;

    begin(on);
    struct vial_session *s = open_on(on);
    vial_session_close(s, VIAL_SESSION_COMPLETED);
    refused(vial_session_put(s, "x", "x", 1, 0, &err), "VIAL-SESSION");
    refused(vial_session_get(s, "x", 0, 0, &data, &len, &err), "VIAL-SESSION");
    refused(vial_session_stat(s, "x", &e, &err), "VIAL-SESSION");
    vial_session_free(s);
}

static void artifacts_are_listed_with_hash_and_images(void **state)
{
    begin(on);
    struct vial_session *s = open_on(on);
    struct vial_entries before = { 0 };
    char *json = NULL;

    check_line(s, "mkdir out; echo old > out/old", "");
    good(vial_session_list(s, "out", true, &before, &err));
    check_line(s, "printf abc > out/a.txt; printf PNG > out/b.png", "");
    good(vial_session_artifacts(s, "out", &before, &json, &err));
    assert_string_equal(
        json, "[{\"path\":\"a.txt\",\"type\":\"text/plain\",\"bytes\":3,\"sha256\":\""
              "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad\"},"
              "{\"path\":\"b.png\",\"type\":\"image/png\",\"bytes\":3,\"sha256\":\""
              "796120837694d3f3f29259cfeb25091698c2a0aa87873658d840b4993ee889b3\","
              "\"content_base64\":\"UE5H\"}]");
    free(json);
    vial_entries_free(&before);
    vial_session_free(s);
}

static void next_is(struct vial_watcher *w, enum vial_event_kind kind, const char *path,
                    const char *from)
{
    struct vial_event *e = calloc(1, sizeof *e);

    good(vial_watcher_next(w, PATIENCE_MS, e, &err) - 1);
    if (e->kind != kind || strcmp(e->path, path) != 0 || strcmp(e->from, from) != 0)
        fail_msg("%s '%s' '%s' where %s '%s' should be", vial_event_name(e->kind),
                 e->path, e->from, vial_event_name(kind), path);
    free(e);
}

static void a_watcher_tells_what_happens_to_files(void **state)
{
    begin(on);
    struct vial_session *s = open_on(on);
    struct vial_watcher *w = NULL;
    struct vial_event *e = calloc(1, sizeof *e);

    check_line(s, "mkdir -p in/a; echo old > in/a/f", "");
    good(vial_session_watch(s, "in", VIAL_WATCH_DEEP, &w, &err));
    assert_int_equal(vial_watcher_next(w, 0, e, NULL), 0);
    check_line(s, "echo x > in/a/f", "");
    next_is(w, VIAL_EVENT_WRITTEN, "a/f", "");
    check_line(s, "mv in/a/f 'in/new\nname'", "");
    next_is(w, VIAL_EVENT_MOVED, "new\nname", "a/f");
    check_line(s, "mv in/a in/b; touch in/b/g", ""); /* a directory, with its watch */
    next_is(w, VIAL_EVENT_MOVED, "b", "a");
    next_is(w, VIAL_EVENT_CREATED, "b/g", "");
    next_is(w, VIAL_EVENT_WRITTEN, "b/g", "");
    check_line(s, "mkdir in/c", "");
    next_is(w, VIAL_EVENT_CREATED, "c", ""); /* told by who watches it from now on */
    check_line(s, "echo 1 > in/c/h", "");
    next_is(w, VIAL_EVENT_CREATED, "c/h", "");
    next_is(w, VIAL_EVENT_WRITTEN, "c/h", "");
    check_line(s, "mv in/c out; rm in/b/g; echo 2 > out/h", "");
    next_is(w, VIAL_EVENT_REMOVED, "c", "");
    next_is(w, VIAL_EVENT_REMOVED, "b/g", "");
    assert_int_equal(vial_watcher_next(w, 200, e, NULL), 0);
    good(vial_session_put(s, "in/put", "p", 1, 0, &err));
    vial_watcher_free(w);
    refused(vial_session_watch(s, "nowhere", VIAL_WATCH_DEEP, &w, &err),
            "VIAL-NO-FILE");
    refused(vial_session_watch(s, "../x", VIAL_WATCH_DEEP, &w, &err), "VIAL-PATH");
    check_line(s, "ln -s /etc link", "");
    refused(vial_session_watch(s, "link", VIAL_WATCH_DEEP, &w, &err), "VIAL-PATH");
    free(e);
    vial_session_free(s);
}

static void a_watcher_tells_of_modes_if_asked_and_of_one_directory_alone(void **state)
{
    struct vial_watcher *w = NULL;
    struct vial_event *e = calloc(1, sizeof *e);

    begin(on);
    struct vial_session *s = open_on(on);
    check_line(s, "mkdir -p in/sub; echo x > in/f", "");
    good(vial_session_watch(s, "in", VIAL_WATCH_ATTRIBUTES, &w, &err));
    check_line(s, "chmod 600 in/f; echo y > in/sub/deep; mkdir in/new; rm in/f", "");
    next_is(w, VIAL_EVENT_ATTRIBUTES, "f", "");
    next_is(w, VIAL_EVENT_CREATED, "new", "");
    next_is(w, VIAL_EVENT_REMOVED, "f", "");
    check_line(s, "echo z > in/new/unseen", "");
    assert_int_equal(vial_watcher_next(w, 300, e, NULL), 0);
    vial_watcher_free(w);
    free(e);
    vial_session_free(s);
}

static void an_absolute_path_is_watched_by_its_programs_rights(void **state)
{
    struct vial_watcher *w = NULL;
    struct vial_event *e = calloc(1, sizeof *e);

    begin(on);
    struct vial_session *s = open_on(on);
    check_line(s, "mkdir -p d/sub; ln -s d l", "");
    good(vial_session_watch(s, "/work/l", VIAL_WATCH_DEEP, &w, &err));
    check_line(s, "echo 1 > d/sub/f; mv d/sub/f d/g; mv d/g out", "");
    next_is(w, VIAL_EVENT_CREATED, "sub/f", "");
    next_is(w, VIAL_EVENT_WRITTEN, "sub/f", "");
    next_is(w, VIAL_EVENT_MOVED, "g", "sub/f");
    next_is(w, VIAL_EVENT_REMOVED, "g", ""); /* though nothing more happens */
    assert_int_equal(vial_watcher_next(w, 0, e, NULL), 0);
    vial_watcher_free(w);
    refused(vial_session_watch(s, "/work/nowhere", 0, &w, &err), "VIAL-NO-FILE");
    refused(vial_session_watch(s, "/work/out", 0, &w, &err), "VIAL-FILE");
    free(e);
    vial_session_free(s);
}

static void a_watcher_too_many_is_refused_and_room_comes_back(void **state)
{
    struct vial_watcher *w[VIAL_WATCHERS_MAX] = { 0 }, *more = NULL;
    struct vial_error why = { 0 };

    begin(on);
    struct vial_session *s = open_on(on);
    for (size_t i = 0; i < VIAL_WATCHERS_MAX; i++)
        good(vial_session_watch(s, "", 0, &w[i], &err));
    assert_int_equal(vial_session_watch(s, "", 0, &more, &why), -1);
    assert_string_equal(why.code, "VIAL-BUSY");
    assert_string_equal(why.message, "watch '': the session has 8 watchers");
    vial_watcher_free(w[0]);
    good(vial_session_watch(s, "", 0, &w[0], &err));
    for (size_t i = 0; i < VIAL_WATCHERS_MAX; i++)
        vial_watcher_free(w[i]);
    vial_session_free(s);
}

/* More than a watcher takes: nothing is watched, rather than a part. */
static void a_tree_that_is_too_large_is_refused_not_watched_in_part(void **state)
{
    struct vial_watcher *w = NULL;
    struct vial_error why = { 0 };

    begin(on);
    struct vial_session *s =
        open_with(on, "'timeout':'60s','disk':'64m','inodes':60000", NULL);
    check_line(s, "python3 -c \"import os\nfor i in range(9000): os.mkdir('d%d' % i)\"",
               "");
    assert_int_equal(vial_session_watch(s, "", VIAL_WATCH_DEEP, &w, &why), -1);
    assert_string_equal(why.code, "VIAL-QUOTA");
    good(vial_session_watch(s, "", 0, &w, &err));
    vial_watcher_free(w);
    vial_session_free(s);
}

/* Whether NAME is told of. What comes before it is counted, and may be much. */
static bool is_told(struct vial_watcher *w, const char *name, unsigned *events)
{
    struct vial_event *e = calloc(1, sizeof *e);
    bool told = false;

    while (!told && vial_watcher_next(w, 1000, e, NULL) == 1) {
        *events += 1;
        told = e->kind == VIAL_EVENT_CREATED && strcmp(e->path, name) == 0;
    }
    free(e);
    return told;
}

static void a_watcher_that_is_not_read_tells_of_a_gap(void **state)
{
    begin(on);
    struct vial_session *s =
        open_with(on, "'timeout':'60s','disk':'64m','inodes':60000", NULL);
    struct vial_watcher *w = NULL;
    struct vial_event *e = calloc(1, sizeof *e);
    unsigned events = 0;
    int tries = 0, rc;

    good(vial_session_watch(s, "", VIAL_WATCH_DEEP, &w, &err));
    check_line(s, "python3 -c \"for i in range(25000): open('f%d' % i, 'w').close()\"",
               "");
    do {
        good(vial_watcher_next(w, PATIENCE_MS, e, &err) - 1);
        events++;
    } while (e->kind != VIAL_EVENT_GAP);
    do { /* and it goes on; this too may be lost while much is on its way */
        assert_true(tries++ < 100);
        check_line(s, "rm -f after; echo 1 > after", "");
    } while (!is_told(w, "after", &events));
    assert_true(events < 50000);
    vial_session_close(s, VIAL_SESSION_COMPLETED);
    do
        rc = vial_watcher_next(w, PATIENCE_MS, e, NULL);
    while (rc == 1);
    assert_int_equal(rc, -1);
    free(e);
    vial_watcher_free(w);
    vial_session_free(s);
}

static void the_requests_files_are_there_from_the_start(void **state)
{
    begin(on);
    struct vial_session *s = open_with(
        on, "'timeout':'60s','files':[{'path':'in/a.txt','content':'hello'}]", NULL);
    check_line(s, "cat in/a.txt", "hello");
    vial_session_free(s);
}

#define TESTS(on)                                                                      \
    {                                                                                  \
        T(ten_random_megabytes_come_back_unchanged, on),                               \
            T(a_thousand_hostile_names_make_the_round_trip, on),                       \
            T(a_path_that_is_not_plain_is_refused_everywhere, on),                     \
            T(root_s_calls_are_for_sessions_whose_programs_may_be_root, on),           \
            T(links_devices_and_pipes_lead_nowhere, on),                               \
            T(an_absolute_path_is_what_programs_find_there, on),                       \
            T(an_absolute_path_below_the_workdir_is_the_same_place, on),               \
            T(a_circle_of_links_and_a_link_to_nowhere_are_told, on),                   \
            T(a_file_that_is_given_up_leaves_nothing_at_its_absolute_path, on),        \
            T(what_programs_may_not_read_is_not_read_for_anybody, on),                 \
            T(a_rename_race_finds_nothing_outside, on),                                \
            T(names_can_be_made_moved_and_removed, on),                                \
            T(what_does_not_fit_is_a_quota_error_and_leaves_nothing, on),              \
            T(a_mount_elsewhere_does_not_lift_the_bound_of_what_is_read, on),          \
            T(changes_are_what_is_new_or_different, on),                               \
            T(an_invalid_archive_is_refused_and_hurts_nothing, on),                    \
            T(archives_of_other_programs_are_taken_in, on),                            \
            T(a_closed_session_has_no_files, on),                                      \
            T(artifacts_are_listed_with_hash_and_images, on),                          \
            T(a_watcher_tells_what_happens_to_files, on),                              \
            T(a_watcher_tells_of_modes_if_asked_and_of_one_directory_alone, on),       \
            T(an_absolute_path_is_watched_by_its_programs_rights, on),                 \
            T(a_watcher_too_many_is_refused_and_room_comes_back, on),                  \
            T(a_tree_that_is_too_large_is_refused_not_watched_in_part, on),            \
            T(a_watcher_that_is_not_read_tells_of_a_gap, on),                          \
            T(the_requests_files_are_there_from_the_start, on),                        \
    }

run_on_driver(TESTS)
