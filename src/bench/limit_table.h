/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_BENCH_LIMIT_TABLE_H
#define VIAL_BENCH_LIMIT_TABLE_H

/*
 * Limits for a program that can set none itself: around each run a cgroup of its own,
 * as vial makes one around each vessel, with the limits that vial's bench runs with.
 *
 *   bench_limits_open -> (bench_group_make -> the process joins -> bench_group_remove)*
 *   -> bench_limits_close
 */

#include <stdatomic.h>
#include <stdbool.h>

#include "vial/error.h"

#define BENCH_GROUPS 4

struct bench_limits {
    int base_fd[BENCH_GROUPS]; /* where groups are made; -1: not there */
    bool is_v2;                /* of the first of them alone */
    atomic_uint made;          /* by many clients at once */
};

#define BENCH_LIMITS_NONE                                                              \
    {                                                                                  \
        .base_fd = { -1, -1, -1, -1 }                                                  \
    }

struct bench_group {
    char name[96];
    int join_fd[BENCH_GROUPS]; /* whoever writes "0" there is in; or -1 */
};

int bench_limits_open(struct bench_limits *l, struct vial_error *err);
void bench_limits_close(struct bench_limits *l);
int bench_group_make(struct bench_limits *l, struct bench_group *g);
/* Once its processes have ended. */
void bench_group_remove(const struct bench_limits *l, struct bench_group *g);

#endif
