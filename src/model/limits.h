/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_MODEL_LIMITS_H
#define VIAL_MODEL_LIMITS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "model/fields.h"

/* What a run may use. 0 means no limit of that kind, except where noted. */
struct limits {
    int64_t wall_ms;         /* never 0 */
    int64_t compile_wall_ms; /* for the compile step; never 0 */
    int64_t cpu_ms;          /* total cpu time of the vessel */
    int64_t memory_bytes;
    int64_t milli_cpus; /* 1000 = one core */
    int64_t pids;
    int64_t disk_bytes;   /* of the working directory; never 0 */
    int64_t tmp_bytes;    /* of /tmp and /dev/shm each; never 0 */
    int64_t inodes;       /* of each of them; never 0 */
    int64_t open_files;   /* never 0 */
    int64_t file_bytes;   /* largest file */
    int64_t output_bytes; /* kept per stream */
    int64_t output_max;   /* written by both streams together before vial ends it */
};

/* Which request field each member comes from (limits.def). */
struct limit_row {
    enum field_id field;
    const char *name; /* the member's */
    size_t offset;
    bool needed; /* never 0 in a plan */
};

#define LIMIT_COUNT 13
extern const struct limit_row limit_rows[LIMIT_COUNT];

int64_t *limits_at(struct limits *limits, const struct limit_row *row);
int64_t limits_get(const struct limits *limits, const struct limit_row *row);

#endif
