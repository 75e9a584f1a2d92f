/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_TESTS_ON_DRIVER_H
#define VIAL_TESTS_ON_DRIVER_H

/* A suite that runs against one driver, whose name is the program's argument; on a host
 * on which the driver cannot work every test is skipped, with the reason. Who includes
 * this has a function prepare(struct on *), which tries the driver. */

#include "run_case.h"

struct on { /* a driver under test */
    const char *driver;
    struct vial_engine *engine;
    char why_not[512]; /* "" when it works */
};

#define begin(on)                                                                      \
    const struct on *on = *state;                                                      \
    do                                                                                 \
        if ((on)->why_not[0]) {                                                        \
            print_message("%s: %s\n", (on)->driver, (on)->why_not);                    \
            skip();                                                                    \
        }                                                                              \
    while (0)

#define T(name, on)                                                                    \
    {                                                                                  \
        #name, name, NULL, NULL, (on)                                                  \
    }

#define run_on_driver(TESTS)                                                           \
    int main(int argc, char **argv)                                                    \
    {                                                                                  \
        const char *name = argc > 1 ? argv[1] : "native";                              \
        struct on on = { .driver = kept_driver(name) };                                \
        int bad;                                                                       \
                                                                                       \
        on.engine = case_engine(NULL);                                                 \
        prepare(&on);                                                                  \
        const struct CMUnitTest tests[] = TESTS(&on);                                  \
                                                                                       \
        cmocka_set_test_filter(getenv("VIAL_TEST_ONLY"));                              \
        cmocka_set_skip_filter(getenv("VIAL_TEST_LEAVE_OUT"));                         \
        bad = cmocka_run_group_tests_name(name, tests, NULL, NULL);                    \
        vial_engine_close(on.engine);                                                  \
        return bad;                                                                    \
    }

#endif
