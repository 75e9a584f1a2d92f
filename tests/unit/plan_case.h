/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_TESTS_PLAN_CASE_H
#define VIAL_TESTS_PLAN_CASE_H

/* A plan that a keeper of tests takes: it fits the policy that they give it. */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/plan.h"

static inline struct plan *good_plan(void)
{
    struct plan *p = calloc(1, sizeof(*p));

    (void)snprintf(p->id, sizeof(p->id), "r-test");
    p->driver = strdup("native");
    p->workdir = strdup("/work");
    p->hostname = strdup("vial");
    p->seccomp = strdup("default");
    p->limits = (struct limits){ .wall_ms = 1000,
                                 .compile_wall_ms = 1000,
                                 .memory_bytes = 64 << 20,
                                 .milli_cpus = 1000,
                                 .pids = 16,
                                 .disk_bytes = 1 << 20,
                                 .tmp_bytes = 1 << 20,
                                 .inodes = 128,
                                 .open_files = 64,
                                 .output_bytes = 4096 };
    return p;
}

#endif
