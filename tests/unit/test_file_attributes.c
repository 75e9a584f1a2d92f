/* SPDX-License-Identifier: Apache-2.0 */

/* Attributes of a file that a hostile program has made, as the guest reads them. */

#include <stdlib.h>
#include <sys/mman.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "check.h"
#include "guest/guest.h"

static bool put(int fd, const char *name, char letter, size_t len)
{
    char *value = malloc(len + 1);
    int rc;

    assert_non_null(value);
    memset(value, letter, len);
    rc = fsetxattr(fd, name, value, len, 0);
    free(value);
    return rc == 0;
}

/* One leaves LEFT bytes of the room to those that come after it, in whatever order. */
static void fill(size_t left)
{
    char *out =
        malloc(LIST_ATTRIBUTES_MAX + 1); /* on the heap: what is behind is seen */
    int fd = memfd_create("attributes", MFD_CLOEXEC);

    assert_true(fd >= 0);
    assert_non_null(out);
    memset(out, 'x', LIST_ATTRIBUTES_MAX + 1); /* as one before it may have left it */
    if (!put(fd, "user.m", 'm', LIST_ATTRIBUTES_MAX - 3 - left))
        skip(); /* before Linux 6.6 */
    assert_true(put(fd, "user.a", 'a', 60000));
    assert_true(put(fd, "user.z", 'z', 40000));
    attributes_read(fd, out);
    assert_true(strlen(out) <= LIST_ATTRIBUTES_MAX);
    for (char *line = out; *line; line = strchr(line, '\n') + 1)
        assert_non_null(strchr(line, '\n'));
    (void)close(fd);
    free(out);
}

static void what_does_not_fit_is_not_told(void **state)
{
    (void)state;
    for (size_t left = 0; left < 12; left++)
        fill(left);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_does_not_fit_is_not_told),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
