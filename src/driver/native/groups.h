/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_DRIVER_NATIVE_GROUPS_H
#define VIAL_DRIVER_NATIVE_GROUPS_H

/*
 * Cgroups (v1) that are used again. Making and removing four directories costs the
 * kernel more than any other part of a vessel but its network; and a group holds
 * nothing of those who were in it but numbers. It is used again only if none of these
 * can be told from a new one's:
 *
 *   no process is in it; none was killed or refused; it was not throttled, and used
 *   little processor time, so that its quota is whole; no more processes were in it at
 *   once than making a vessel takes; next to no memory is counted; the limits are those
 *   that are wanted.
 *
 *   groups_open -> { groups_take -> a vessel -> groups_give }* -> groups_close
 */

#include <pthread.h>

#include "driver/native/cgroup.h"

#define GROUPS_MAX 16 /* that wait to be used again */

struct group_limits {
    int64_t memory_bytes, pids, milli_cpus;
};

struct groups {
    struct cgroup base; /* our own; its name begins all of ours */
    pthread_mutex_t lock;
    struct {
        struct cgroup cgroup;
        struct group_limits limits;
    } idle[GROUPS_MAX];
    unsigned count;
    unsigned wanted; /* since the last rest */
};

/* 0, or -1: nothing is to be had here, and everything else works without. */
int groups_open(struct groups *g);
void groups_close(struct groups *g); /* all that were taken have been given */

/* Makes OUT a group with LIMITS, new or as good as new. As cgroup_find and
 * cgroup_create otherwise. */
int groups_take(struct groups *g, const char *vessel_id, const struct limits *limits,
                struct cgroup *out, struct vial_error *err);
/* Takes C, in which nothing runs any more. BEFORE is what was counted when nothing had
 * run; where its counters show a trace of what has, C is removed. */
void groups_give(struct groups *g, struct cgroup *c, const struct limits *limits,
                 const struct vessel_usage *before);
/* Whether nothing of AFTER would be taken for the next user's. */
bool groups_no_trace(const struct vessel_usage *before,
                     const struct vessel_usage *after);
/* Removes some, if few were wanted of late. */
void groups_rest(struct groups *g);

#endif
