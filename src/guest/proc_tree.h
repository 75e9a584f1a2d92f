/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_GUEST_PROC_TREE_H
#define VIAL_GUEST_PROC_TREE_H

/* Processes as trees, as /proc shows them. As pid 1 of a namespace the kernel knows who
 * is ours; elsewhere orphans come back to us (we are their subreaper), so that all are
 * found as descendants. A program keeps its own orphans in the same way. */

#include "guest/guest.h"

struct proc {
    pid_t pid, parent, session;
    unsigned long long start; /* tells two processes with one pid apart */
    bool ours, alive, stopped, exiting;
    unsigned threads;
};

struct procs { /* sorted by pid once marked; at is malloc'ed */
    struct proc *at;
    size_t count, cap;
};

/* A target says whose processes are meant. */
struct target {
    const struct job *j; /* NULL: every descendant of the guest */
    bool alone;          /* no other program is running */
    struct proc main;    /* j's, once seen; it may be gone before the rest */
};

/* "/proc/PID/FILE", for a short FILE; OUT has room for 32 bytes. */
void tree_path(char *out, pid_t pid, const char *file);

/* One process; false when it is gone. */
bool tree_look_up(pid_t pid, struct proc *out);

/* All processes there are; false without a /proc. Whoever goes on from one process to
 * the next meanwhile may be missed. */
bool tree_scan(struct procs *p);

/* How many processes and threads there are below the guest. Costs one system call when
 * it has no child. */
uint32_t tree_count(const struct guest *g);

/* Marks who is meant as ours. */
void tree_mark(const struct guest *g, struct target *t, struct procs *p);

int tree_by_pid(const void *a, const void *b); /* for bsearch */

/* By descriptor, so that a pid used again in the meantime is not hit. */
void tree_send(const struct proc *one, int signal);

#endif
