/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_TESTS_REPLAY_H
#define VIAL_TESTS_REPLAY_H

/* Every input that a fuzz target starts from, or once failed on, as a test. */

#include <dirent.h>
#include <stdbool.h>
#include <stdlib.h>

#include "base/auto.h"
#include "base/io.h"
#include "base/path.h"
#include "check.h"

typedef int target_fn(const uint8_t *data, size_t len);

static inline void replay_file(const char *path, target_fn *target)
{
    struct blob input = { 0 };
    struct vial_error err = { 0 };
    uint8_t *exact; /* without the NUL of a blob, so that an overrun is seen */

    if (io_read_file(path, 1 << 20, &input, &err) < 0)
        fail_msg("%s", check_text(&err));
    exact = malloc(input.len > 0 ? input.len : 1);
    assert_non_null(exact);
    memcpy(exact, input.data, input.len);
    assert_int_equal(target(exact, input.len), 0);
    free(exact);
    blob_done(&input);
}

static inline void replay(const char *name, target_fn *target)
{
    const char *source = getenv("VIAL_TEST_SOURCE");
    auto_free char *corpora = path_join(source ? source : ".", "tests/fuzz/corpus");
    auto_free char *dir = path_join(corpora, name);
    DIR *list = opendir(dir);
    const struct dirent *entry;
    unsigned count = 0;

    if (!list)
        fail_msg("no corpus at '%s'", dir);
    while ((entry = readdir(list))) {
        auto_free char *path = path_join(dir, entry->d_name);

        if (entry->d_name[0] == '.')
            continue;
        replay_file(path, target);
        count++;
    }
    (void)closedir(list);
    assert_true(count > 0);
}

#endif
