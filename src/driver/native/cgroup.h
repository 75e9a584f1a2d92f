/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_DRIVER_NATIVE_CGROUP_H
#define VIAL_DRIVER_NATIVE_CGROUP_H

/* clang-format off */
/*
 * One vessel's control groups: a directory in the unified hierarchy (v2), or one
 * in each of memory, pids, cpu and cpuacct (v1), always below our own group.
 * Where neither can be made, kind is CGROUP_NONE and `why` says why.
 *
 *   cgroup_find -> cgroup_create
 *         -> join (by clone3, or by the child writing join_fd)
 *         -> cgroup_read -> cgroup_remove
 *
 * The name tells the owner, so that what a dead owner left can be removed:
 * vial-<pid namespace>-<owner's pid>-<owner's start time>-[held-]<vessel id>
 */
/* clang-format on */

#include "driver/driver.h"
#include "model/limits.h"

enum cgroup_kind { CGROUP_NONE, CGROUP_V1, CGROUP_V2 };

#define CGROUP_DIRS     5
#define CGROUP_JOINED   4 /* v1: of these; the last is made when a vessel is paused */
#define CGROUP_COUNTERS 6 /* v1: what is read of every vessel */

struct cgroup_dir {
    int base_fd; /* our own group there; owned unless borrowed, or -1 */
    int fd;      /* the vessel's; owned, or -1 */
    int join_fd; /* v1: its tasks file, open for writing; owned, or -1 */
};

struct cgroup {
    enum cgroup_kind kind;
    struct cgroup_dir dirs[CGROUP_DIRS]; /* v1: in the order of cgroup_v1_names */
    bool complete;                       /* memory, pids and cpu are all enforced */
    int error;     /* a fault that does not mean "not here": nothing may go on */
    bool borrowed; /* each base_fd is somebody else's */
    int counter_fds[CGROUP_COUNTERS]; /* v1: where it is held; owned, or -1 */
    char name[128];
    char why[160];
};

/* Whether this host has the unified hierarchy, so far as can be seen at a glance. */
bool cgroup_is_v2(void);

/* Finds where a vessel's group can be made, and names it. Never fails for want of a
 * hierarchy: kind is CGROUP_NONE then. -1: one is there and cannot be used now. */
int cgroup_find(const char *vessel_id, struct cgroup *out, struct vial_error *err);

/* Makes the vessel's directories in what was found. Where we may write nothing there,
 * kind becomes CGROUP_NONE; -1 when it fails otherwise, with nothing left behind. */
int cgroup_create(struct cgroup *c, const struct limits *limits,
                  struct vial_error *err);

/* Its share of the processors where there is too much to do, in hundredths of the usual
 * one. Where it cannot be set, it stays as it was. */
#define CGROUP_YIELDS 50 /* others come first */
void cgroup_weigh(const struct cgroup *c, unsigned percent);

/* Stops all that is in it, or lets it go on; waits until that is so.
 * VIAL_E_UNSUPPORTED: there is no freezer of ours. */
int cgroup_freeze(const struct cgroup *c, bool still, struct vial_error *err);
int cgroup_v1_freeze(const struct cgroup *c, bool still, struct vial_error *err);
/* Gives back pages that are not needed, as far as the kernel does. */
void cgroup_reclaim(const struct cgroup *c);
#define CGROUP_FREEZE_MS 2000 /* for all of a vessel to stand still, or to go on */

/* True once DIR_FD/NAME has a line TEXT; false when that takes too long. */
bool cgroup_await(int dir_fd, const char *name, const char *text, int ms);

/* Counters of the kernel. */
void cgroup_read(const struct cgroup *c, struct vessel_usage *out);
/* What is in memory now, added to OUT. */
void cgroup_read_now(const struct cgroup *c, struct vessel_usage *out);

/* Lets another process read the same: descriptors, borrowed; how many, and *WHICH. 0:
 * it must ask. */
size_t cgroup_lend(const struct cgroup *c, int fds[CGROUP_COUNTERS], uint32_t *which);
/* That process: takes COUNT of FDS for cgroup_read and cgroup_close, which are all that
 * can be done with OUT. 0, or -1: this is not what is lent, and nothing was taken. */
int cgroup_borrow(struct cgroup *out, int *fds, size_t count, uint32_t which);

/* Tells what a vessel would get here; makes and keeps nothing. WHY holds 160 bytes. */
enum cgroup_kind cgroup_probe(char *why);

/* The child has joined: the join descriptors are no longer needed. */
void cgroup_joined(struct cgroup *c);

/* Removes the directories. False: one is busy still. */
bool cgroup_unlink(const struct cgroup *c);
/* The same, and closes; what is still busy is left to cgroup_sweep. */
void cgroup_remove(struct cgroup *c);

/* Kills and removes what dead owners left below our own group. With MAX
 * ~0u everywhere, else at MAX foreign entries of one hierarchy, each process at
 * another: what is found is removed from all. How many vessels' groups went. */
unsigned cgroup_sweep(const struct cgroup *like, unsigned max);

/* Inside the room: our own group without a vessel's. */
int cgroup_open_base(struct cgroup *c); /* 0, or -1: see `why` */
/* Marks it as ours (base/owner.h), and names what is made in it. 0 or -1. */
int cgroup_name(struct cgroup *c, const char *vessel_id);
void cgroup_forget(struct cgroup *c); /* empty, owning nothing */
void cgroup_close(struct cgroup *c);
extern const char *const cgroup_v1_names[CGROUP_DIRS];
/* Opens a group's directory; a fault other than its absence goes to c->error. */
int cgroup_open_dir(struct cgroup *c, const char *path);
int cgroup_v1_open_base(struct cgroup *c, const char *text);
/* Opens what is read of C, and closes its directories: reading costs a third then.
 * 0, or -errno with C as it was. */
int cgroup_v1_hold(struct cgroup *c);
int cgroup_v1_limit(const struct cgroup *c, const struct limits *l,
                    struct vial_error *err);
void cgroup_v1_weigh(const struct cgroup *c, unsigned percent);
void cgroup_v1_read(const struct cgroup *c, struct vessel_usage *out);
void cgroup_v1_read_times(const struct cgroup *c, struct vessel_usage *out);
/* Reads the text of cpuacct.usage_all: user, system, in nanoseconds. 0, or -1: it is
 * cut. */
int cgroup_v1_parse_times(const char *text, uint64_t times[2]);
int cgroup_v2_limit(const struct cgroup *c, const struct limits *l,
                    struct vial_error *err);
/* The number after KEY in TEXT, or its first when KEY is NULL. */
uint64_t cgroup_parse(const char *text, const char *key, uint64_t fallback);
/* The number after KEY in the flat file NAME, or its only number when KEY is
 * NULL; FALLBACK when there is none. */
uint64_t cgroup_number(int dir_fd, const char *name, const char *key,
                       uint64_t fallback);
/* Writes a number; a missing file is success if MAY_MISS. */
int cgroup_set(int dir_fd, const char *name, int64_t value, bool may_miss,
               struct vial_error *err);

#endif
