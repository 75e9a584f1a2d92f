/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_TESTS_CHECK_H
#define VIAL_TESTS_CHECK_H

/* cmocka with what it wants before it, in the order it wants it. */

/* clang-format off */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
/* clang-format on */

/* `fail` is ours (base/fail.h), and cmocka's fail_msg is made of its own. */
#undef fail
#undef fail_msg
#define fail_msg(...)                                                                  \
    do {                                                                               \
        print_error(__VA_ARGS__);                                                      \
        print_error("\n");                                                             \
        _fail(__FILE__, __LINE__);                                                     \
    } while (0)

#include <stdio.h>
#include <string.h>

#include "vial/error.h"

/* An error as one text: "CODE message". Static storage. */
static inline const char *check_text(const struct vial_error *err)
{
    static char text[sizeof err->code + sizeof err->message + 2];

    (void)snprintf(text, sizeof text, "%s %s", err->code, err->message);
    return text;
}

#define assert_error(err, text) assert_string_equal(check_text(err), text)

#endif
