/* SPDX-License-Identifier: Apache-2.0 */

/* What makers of volumes wait for, and what they leave to others. */

#include <fcntl.h>
#include <stdlib.h>
#include <sys/file.h>
#include <unistd.h>

#include "base/state.h"
#include "check.h"
#include "volumes/volume_dir.h"
#include "volumes/volume_disk.h"

#define GIB (UINT64_C(1) << 30)

static void a_size_leaves_a_twentieth_of_the_disk_to_others(void **state)
{
    /* 100 GiB, of which 20 are free. */
    const struct statvfs disk = { .f_frsize = 4096,
                                  .f_blocks = 100 * GIB / 4096,
                                  .f_bfree = 30 * GIB / 4096,
                                  .f_bavail = 20 * GIB / 4096 };
    const struct statvfs full = { .f_frsize = 4096, .f_blocks = 100 * GIB / 4096 };

    (void)state;
    assert_true(volume_disk_fits(&disk, 14 * GIB));
    assert_true(volume_disk_fits(&disk, 15 * GIB - 4096));
    assert_false(volume_disk_fits(&disk, 15 * GIB));
    assert_false(volume_disk_fits(&disk, 20 * GIB));
    assert_false(volume_disk_fits(&disk, UINT64_MAX));
    assert_false(volume_disk_fits(&full, 0));
}

/* Who holds it may be stopped, or hostile. */
static void a_store_that_somebody_holds_is_given_up(void **state)
{
    char place[] = "/tmp/vial-volumes-XXXXXX";
    struct vial_error err = { 0 };
    int holder, mine;

    (void)state;
    assert_non_null(mkdtemp(place));
    holder = open(place, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    mine = volume_dir_store(place, &err);
    assert_true(holder >= 0 && mine >= 0);
    assert_int_equal(flock(holder, LOCK_EX), 0);
    assert_int_equal(volume_dir_lock(mine, 1, &err), -1);
    assert_string_equal(err.code, "VIAL-BUSY");
    assert_string_equal(err.message, "others are making volumes");
    (void)close(holder);
    assert_int_equal(volume_dir_lock(mine, 0, &err), 0);
    (void)close(mine);
    assert_int_equal(rmdir(place), 0);
}

static void a_store_that_others_can_enter_is_not_believed(void **state)
{
    char place[] = "/tmp/vial-volumes-XXXXXX";
    struct vial_error err = { 0 };

    (void)state;
    assert_non_null(mkdtemp(place));
    assert_int_equal(chmod(place, 0711), 0);
    assert_int_equal(volume_dir_store(place, &err), -1);
    assert_string_equal(err.code, "VIAL-FILE");
    assert_string_equal(err.remedy,
                        "chmod 700 it, or name another by VIAL_VOLUME_STORE");
    assert_int_equal(rmdir(place), 0);
    assert_int_equal(volume_dir_store(place, &err), -1);
    assert_true(state_is_absent(&err));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_store_that_somebody_holds_is_given_up),
        cmocka_unit_test(a_store_that_others_can_enter_is_not_believed),
        cmocka_unit_test(a_size_leaves_a_twentieth_of_the_disk_to_others),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
