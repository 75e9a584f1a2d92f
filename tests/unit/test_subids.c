/* SPDX-License-Identifier: Apache-2.0 */

/* Which range of ids a user has, by files that an administrator, or a mistake, wrote.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/subids.h"
#include "check.h"

#define UID 1000

static const char passwd[] = "root:x:0:0::/:/bin/sh\njoe:x:1000:1000:J:/h:/bin/sh\n";

static void write_file(const char *dir, const char *name, const char *text)
{
    char path[128];
    FILE *file = NULL;

    (void)snprintf(path, sizeof(path), "%s/%s", dir, name);
    (void)unlink(path);
    if (!text)
        return;
    file = fopen(path, "we");
    assert_non_null(file);
    assert_int_equal(fputs(text, file) >= 0, 1);
    assert_int_equal(fclose(file), 0);
}

static bool read_files(const char *users, const char *subuid, const char *subgid,
                       struct subids *out, char why[160])
{
    char dir[] = "/tmp/subids-XXXXXX";
    bool found;

    assert_non_null(mkdtemp(dir));
    write_file(dir, "passwd", users);
    write_file(dir, "subuid", subuid);
    write_file(dir, "subgid", subgid);
    found = subids_read(dir, UID, UID, out, why);
    write_file(dir, "passwd", NULL);
    write_file(dir, "subuid", NULL);
    write_file(dir, "subgid", NULL);
    assert_int_equal(rmdir(dir), 0);
    return found;
}

static void a_range_is_found_by_name_or_number(void **state)
{
    struct subids ids;
    char why[160];

    (void)state;
    assert_true(read_files(passwd, "ann:5000:65536\njoe:100000:65536\n",
                           "1000:300000:65536\n", &ids, why));
    assert_int_equal(ids.first_uid, 100000);
    assert_int_equal(ids.first_gid, 300000);
}

static void the_first_that_is_large_enough_is_taken(void **state)
{
    struct subids ids;
    char why[160];

    (void)state;
    assert_true(read_files(passwd, "joe:100000:1000\njoe:200000:65535",
                           "joe:400000:1000000\n", &ids, why));
    assert_int_equal(ids.first_uid, 200000);
    assert_int_equal(ids.first_gid, 400000);
}

static void what_is_no_range_of_his_is_none(void **state)
{
    static const char *const bad[] = { "",
                                       "\n\n",
                                       "joe",
                                       "joe:",
                                       "joe:100000",
                                       "joe:100000:",
                                       "joe::65536",
                                       "joe:100000:65534",
                                       "joe:-1:65536",
                                       "joe:+100000:65536",
                                       "joe: 100000:65536",
                                       "joe:100000x:65536",
                                       "joe:100000:65536 ",
                                       "joe:0:65536",
                                       "joe:999:65536",
                                       "joe:1000:65536",
                                       "joe:4294901761:65536",
                                       "joe:4295067296:65536",
                                       "joe:99999999999999999999:65536",
                                       "joey:100000:65536",
                                       "jo:100000:65536",
                                       ":100000:65536",
                                       "1001:100000:65536",
                                       NULL };
    struct subids ids;
    char why[160];

    (void)state;
    for (const char *const *b = bad; *b; b++) {
        assert_false(read_files(passwd, *b, "joe:100000:65536\n", &ids, why));
        assert_non_null(strstr(why, "subuid has no range"));
        assert_false(read_files(passwd, "joe:100000:65536\n", *b, &ids, why));
        assert_non_null(strstr(why, "subgid has no range"));
    }
    assert_false(read_files(passwd, NULL, NULL, &ids, why));
}

static void who_is_not_in_passwd_with_his_group_has_none(void **state)
{
    static const char *const bad[] = { "joe:x:1001:1000::/:/bin/sh\n",
                                       "joe:x:1000:1001::/:/bin/sh\n",
                                       "joe:x:1000\n",
                                       "joe:x:1000:\n",
                                       ":x:1000:1000::/:/bin/sh\n",
                                       "joe:1000:1000\n",
                                       "",
                                       NULL };
    struct subids ids;
    char why[160];

    (void)state;
    for (const char *const *b = bad; *b; b++) {
        assert_false(
            read_files(*b, "joe:100000:65536\n", "joe:100000:65536\n", &ids, why));
        assert_non_null(strstr(why, "passwd has no such user"));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_range_is_found_by_name_or_number),
        cmocka_unit_test(the_first_that_is_large_enough_is_taken),
        cmocka_unit_test(what_is_no_range_of_his_is_none),
        cmocka_unit_test(who_is_not_in_passwd_with_his_group_has_none),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
