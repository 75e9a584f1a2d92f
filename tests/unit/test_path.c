/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/path.h"
#include "check.h"

static void check_join(const char *dir, const char *name, const char *want)
{
    auto_free char *path = path_join(dir, name);

    assert_string_equal(path, want);
}

static void joining_puts_one_slash_between(void **state)
{
    (void)state;
    check_join("/d", "a/b", "/d/a/b");
    check_join("/d/", "a", "/d/a");
    check_join("/", "a", "/a");
    check_join("/d", "//a", "/d/a");
    check_join("", "a", "a");
    check_join("/d", "", "/d/");
}

static bool plain(const char *path)
{
    return path_is_plain_relative(path, strlen(path));
}

static void a_plain_relative_path_has_only_plain_components(void **state)
{
    static const char *const good[] = { "a",   "a/b", ".hidden", "..a",
                                        "a..", "...", "a/b.c",   NULL };
    static const char *const bad[] = { "",     "/a",    "/",      ".",    "..",
                                       "a/",   "a//b",  "./a",    "../a", "a/.",
                                       "a/..", "a/./b", "a/../b", NULL };

    (void)state;
    for (const char *const *p = good; *p; p++)
        assert_true(plain(*p));
    for (const char *const *p = bad; *p; p++)
        assert_false(plain(*p));
}

static void a_nul_inside_a_path_is_refused(void **state)
{
    (void)state;
    assert_false(path_is_plain_relative("a\0b", 3));
    assert_false(path_is_plain_relative("a\0", 2));
}

static void names_and_paths_have_the_kernels_limits(void **state)
{
    char path[PATH_MAX + 1];

    (void)state;
    memset(path, 'a', sizeof path);
    assert_true(path_is_plain_relative(path, NAME_MAX));
    assert_false(path_is_plain_relative(path, NAME_MAX + 1));
    for (size_t i = 200; i < sizeof path; i += 200)
        path[i] = '/';
    assert_true(path_is_plain_relative(path, PATH_MAX - 1));
    assert_false(path_is_plain_relative(path, PATH_MAX));
}

static void a_clean_absolute_path_has_one_reading(void **state)
{
    static const char *const good[] = { "/", "/a", "/a/b", "/a/", "/..a/b..", NULL };
    static const char *const bad[] = { "",     "a",   "//",   "/a//b", "/a//",
                                       "/.",   "/..", "/a/.", "/a/..", "/a/../b",
                                       "/./a", "//a", NULL };

    (void)state;
    for (const char *const *p = good; *p; p++)
        assert_true(path_is_clean_absolute(*p));
    for (const char *const *p = bad; *p; p++)
        assert_false(path_is_clean_absolute(*p));
}

static void beneath_ends_at_a_component_border(void **state)
{
    (void)state;
    assert_true(path_is_beneath("/a", "/a"));
    assert_true(path_is_beneath("/a/b", "/a"));
    assert_true(path_is_beneath("/a/b", "/a/"));
    assert_true(path_is_beneath("/a", "/a/"));
    assert_true(path_is_beneath("/a", "/"));
    assert_true(path_is_beneath("/", "/"));
    assert_false(path_is_beneath("/ab", "/a"));
    assert_false(path_is_beneath("/", "/a"));
    assert_false(path_is_beneath("/b/a", "/a"));
}

static void a_program_is_found_along_the_search_path(void **state)
{
    auto_free char *sh = path_find_program("sh", "/nonexistent::" PATH_SEARCH);
    auto_free char *direct = path_find_program("/bin/sh", "");

    (void)state;
    assert_non_null(sh);
    assert_string_equal(sh + strlen(sh) - 3, "/sh");
    assert_int_equal(access(sh, X_OK), 0);
    assert_string_equal(direct, "/bin/sh");
}

static void what_is_no_executable_file_is_not_found(void **state)
{
    (void)state;
    assert_null(path_find_program("", PATH_SEARCH));
    assert_null(path_find_program("sh", ""));
    assert_null(path_find_program("no-such-program", PATH_SEARCH));
    assert_null(path_find_program("/etc/passwd", PATH_SEARCH));
    assert_null(path_find_program("/usr/bin", PATH_SEARCH));
    assert_null(path_find_program("bin", "/usr"));
}

static void the_current_directory_is_never_searched(void **state)
{
    char here[PATH_MAX];

    (void)state;
    assert_non_null(getcwd(here, sizeof here));
    assert_int_equal(chdir("/bin"), 0);
    assert_null(path_find_program("sh", ":"));
    assert_int_equal(chdir(here), 0);
}

static void a_program_knows_its_own_directory(void **state)
{
    auto_free char *dir = path_self_dir();
    auto_free char *self = NULL;

    (void)state;
    assert_non_null(dir);
    assert_int_equal(dir[0], '/');
    self = path_join(dir, program_invocation_short_name);
    assert_int_equal(access(self, X_OK), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(joining_puts_one_slash_between),
        cmocka_unit_test(a_plain_relative_path_has_only_plain_components),
        cmocka_unit_test(a_nul_inside_a_path_is_refused),
        cmocka_unit_test(names_and_paths_have_the_kernels_limits),
        cmocka_unit_test(a_clean_absolute_path_has_one_reading),
        cmocka_unit_test(beneath_ends_at_a_component_border),
        cmocka_unit_test(a_program_is_found_along_the_search_path),
        cmocka_unit_test(what_is_no_executable_file_is_not_found),
        cmocka_unit_test(the_current_directory_is_never_searched),
        cmocka_unit_test(a_program_knows_its_own_directory),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
