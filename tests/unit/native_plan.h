/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_TESTS_NATIVE_PLAN_H
#define VIAL_TESTS_NATIVE_PLAN_H

/* A plan for the native driver, by hand. Its strings are static. */

#include "model/plan.h"

static inline void native_plan(struct plan *plan)
{
    static char work[] = "/work", hostname[] = "vial", profile[] = "default";

    *plan = (struct plan){ .workdir = work,
                           .cwd = work,
                           .hostname = hostname,
                           .seccomp = profile,
                           .limits = { .wall_ms = 1000,
                                       .memory_bytes = 64 << 20,
                                       .milli_cpus = 1000,
                                       .pids = 16,
                                       .disk_bytes = 1 << 20,
                                       .tmp_bytes = 1 << 20,
                                       .inodes = 128,
                                       .open_files = 64 } };
}

#endif
