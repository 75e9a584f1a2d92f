/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_DRIVER_METER_H
#define VIAL_DRIVER_METER_H

/*
 * A meter adds up what a tree of processes uses, from outside, for vessels that nothing
 * counts as a whole. Numbers of time and the peak never go back: what dies unwaited-for
 * between two looks would take its share with it.
 */

#include <stdint.h>
#include <sys/types.h>

#include "driver/driver.h"

#define METER_SEEN 512 /* processes remembered from one look to the next */

/* A process and the ticks that it has used itself. */
struct meter_process {
    pid_t pid;
    unsigned long start, user, system;
};

struct meter {
    int64_t memory_limit; /* 0: memory is not looked at */
    double user_ms, system_ms;
    uint64_t memory_bytes, memory_peak_bytes;
    struct meter_process seen[METER_SEEN];
    size_t seen_count;
    unsigned long gone_user, gone_system; /* of those no longer there */
};

/* Looks at ROOT, which is not yet reaped, and its descendants. */
void meter_look(struct meter *m, pid_t root);

/* Takes in what the kernel says at the end, if it is more. */
void meter_add(struct meter *m, double user_ms, double system_ms);

void meter_report(const struct meter *m, struct vessel_usage *out);

/* Weighs the memory of the vessel's processes: the proportional set size of its guest
 * and of the guest's children, in bytes. 0 when it cannot be told. */
uint64_t weigh_vessel(const struct vessel *v);

#endif
