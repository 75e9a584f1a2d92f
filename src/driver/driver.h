/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_DRIVER_DRIVER_H
#define VIAL_DRIVER_DRIVER_H

/* clang-format off */
/*
 * The contract of every driver. The engine calls these in this order and never looks
 * behind them; tests/unit/test_contract.c is one suite for all drivers.
 *
 *   probe -> open -> { exec and files over the vessel's stream }* -> kill -> usage -> close
 *
 * kill may come at any point after open. A driver only has to produce an isolated
 * place with a byte stream to its guest. Exec, output, stdin, signals and files are
 * done over that stream.
 */
/* clang-format on */

#include <jansson.h>
#include <stdbool.h>
#include <sys/types.h>

#include "base/str.h"
#include "model/plan.h"
#include "wire/message.h"

#include "vial/result.h"
#include "vial/vessels.h"

/* One layer of protection on this host, for `doctor` and the ladder. */
struct layer {
    const char *name; /* "user", "seccomp", "cgroup" …; static */
    bool available;
    char reason[160]; /* why not, or a detail ("ABI 7") */
    char fix[320];    /* exact commands that would bring it, or "" */
};

#define CAPS_MAX_LAYERS 32

struct caps {
    bool thorough;     /* asked: find out by trying, at the price of half a vessel */
    bool usable;       /* open can work at all */
    const char *level; /* what a vessel would get: "none", "landlock", … */
    const char *limits_by; /* "cgroup2", "cgroup1", "cgroup", "rlimit", "none" */
    struct layer layers[CAPS_MAX_LAYERS];
    size_t layer_count;
    struct vial_error why_not; /* when not usable: code, message, remedy */
};

/* The kernel's counts, taken from outside the vessel where possible. */
struct vessel_usage {
    bool counted; /* false: only the guest's word exists */
    struct vial_usage usage;
    uint64_t oom_kills, pids_events; /* cgroup event counters */
    bool net_counted;
    uint64_t memory_bytes; /* now, where watching must hold the limit; else 0 */
    uint64_t memory_now_bytes,
        memory_cache_bytes; /* as a control group has it; 0: none */
};

/* An open vessel. Drivers embed it as their first member. */
struct vessel {
    const struct driver *driver;
    char id[32];        /* "v-…" */
    char container[80]; /* what an engine calls it, by number; "" without one */
    char name[160];     /* and by name */
    int stream_fd;      /* non-blocking byte stream to the guest; owned */
    int death_fd;       /* readable once the guest is gone (a pidfd), or -1; owned */
    int event_fd;       /* readable on a kernel limit event (POLLIN|POLLPRI), or -1 */
    int gate_fd;      /* where its gate is asked (wire/gate_message.h), or -1; owned */
    bool layered;     /* the workspace is an overlay, and these are there, owned: */
    int layer_fd;     /* the directory of its layers: upper, points */
    int merged_fd;    /* the overlay as programs see it */
    uid_t layer_id;   /* whose files are in it, here: what a host's thread must be */
    struct jail jail; /* sent to the guest before any exec */
    bool jailed;      /* it was greeted and told its jail already, by a keeper */
    const char *level;
    const char *limits_by;
    struct strv layers; /* names of those really active */
    const char *path;   /* PATH inside, where programs are looked up */
    char *tmpdir;       /* what TMPDIR is inside; NULL: as the plan says */
    struct strv env;    /* what the image adds to the plan's environment */
    char *cwd;          /* where the image starts its programs, or NULL */
    struct strv
        imports;   /* modules for a Python that waits in it, by the image's template */
    unsigned pool; /* how many of its like are to wait, by the same; 0: as usual */
    struct strv entrypoint, cmd; /* what the image would have started */
    char digest[72];             /* of the image that is its root, here; "" else */
    const char *owners; /* whose its files are inside: "image", "one" user's, "nobody";
                           NULL: it has no such root */
    unsigned swept;     /* vessels of dead owners that went when this was opened */
    int64_t until_ns;   /* when whoever has it ends it (clock_now_ns); 0: nobody does */
};

/* What a vessel's files are to become: an image of the store. */
struct snapshot_order {
    const char *name;   /* of the image; judged */
    const char *config; /* a JSON object: what its config says instead of the config of
                           the image that it stands on; or NULL */
    int report_fd;      /* where vial-image reports; borrowed */
};

struct zygote;
struct native_shared;

struct zygote_options {
    int guest_fd;
    const char *share_dir;
    const char *const *imports; /* modules to load, NULL-terminated or NULL */
};

struct driver {
    const char *name;

    /* Tells what this host can enforce now. Changes nothing, keeps nothing open. OUT
     * is zero, but for what is asked in it. */
    int (*probe)(struct caps *out, struct vial_error *err);

    /* Opens PLAN, which is immutable and outlives the vessel. GUEST_FD is an open
     * file of the guest program. If it fails, nothing is left behind: no
     * process, no cgroup, no container. */
    int (*open)(const struct plan *plan, int guest_fd, struct vessel **out,
                struct vial_error *err);

    /* Makes once what many vessels need that come and go. A driver has all three of
     * these, or none. Nothing that is shared was ever inside a vessel. */
    struct native_shared *(*native_shared_open)(int guest_fd);
    /* Opens PLAN with what is there. */
    int (*open_supplied)(struct native_shared *shared, const struct plan *plan,
                         int guest_fd, struct vessel **out, struct vial_error *err);
    void (*native_shared_close)(
        struct native_shared *shared); /* after the last vessel */

    /* The vessel's programs were just asked to end, by its guest; tells so whoever else
     * keeps an account of it. NULL: there is nobody. */
    void (*stopping)(struct vessel *vessel);

    /* Ends every process in the vessel, now. Cannot fail: what cannot be killed
     * is the kernel's. May be called more than once. */
    void (*kill)(struct vessel *vessel);

    /* Counters so far; complete once everything in it is dead. */
    void (*usage)(struct vessel *vessel, struct vessel_usage *out);

    /* The same with what it has in memory now, which may take longer. NULL: as usage.
     */
    void (*usage_now)(struct vessel *vessel, struct vessel_usage *out);
    /* Of these the processor's times alone, before anything has run in it. NULL: all of
     * them cost no more. */
    void (*spent)(struct vessel *vessel, struct vessel_usage *out);

    /* The stream has ended, and nobody here ended it. Puts into ERR what did, where
     * whoever keeps the vessel knows; it may take seconds to know. NULL: nobody does.
     */
    void (*explain)(struct vessel *vessel, struct vial_error *err);

    /* What share of the processors it has where there is too much to do, in
     * hundredths of the usual one; and what it has used of them so far, without any
     * other effect. Both are NULL where that cannot be said. */
    void (*weigh)(const struct vessel *vessel, unsigned percent);
    double (*cpu_ms)(const struct vessel *vessel);

    /* Stops every process in the vessel where it is, or lets all go on (STILL false).
     * RECLAIM: what they have in memory and need not is given back first, as far as
     * that can be done. Returns when none runs any more. A stopped vessel can be killed
     * and closed. NULL: this driver cannot. */
    int (*pause)(struct vessel *vessel, bool still, bool reclaim,
                 struct vial_error *err);

    /* Begins to save what was written to the root as an image of the store, and does
     * not wait: how that gets on, and ends, is reported by ORDER's descriptor, which
     * its writer closes. One at a time; closing the vessel ends it, and nothing is left
     * then. NULL: this driver cannot. */
    int (*snapshot)(struct vessel *vessel, const struct snapshot_order *order,
                    struct vial_error *err);

    /* Lets another process count by itself: see cgroup_lend. NULL: it must ask. */
    size_t (*lend)(const struct vessel *vessel, int *fds, uint32_t *which);

    /* Kills, waits and removes everything, then frees. Never blocks for long;
     * what is left for a moment is removed by the next open or cleanup. */
    void (*close)(struct vessel *vessel);
    /* Frees at once; somebody else kills and removes everything. NULL: nobody would. */
    void (*leave)(struct vessel *vessel);

    /* Removes what owners that have died left behind, and nothing of one that lives
     * or cannot be seen; *REMOVED is how many vessels' that was. Where the engine
     * cannot be reached there is nothing to remove: 0. Gives up once CANCEL_FD (or
     * -1) is readable. Any number may do so at once. NULL: nothing is ever left. */
    int (*sweep)(int cancel_fd, unsigned *removed, struct vial_error *err);

    /* Pulls an image, all of PULL being set, and verifies it. *OUT as vial_image_pull
     * gives it. NULL: this driver has no images. */
    int (*pull)(const struct vial_pull *pull, json_t **out, struct vial_error *err);

    /* Adds what this driver would make of PLAN to the object INTO, for people.
     * Opens nothing. NULL: nothing to add. */
    int (*describe)(const struct plan *plan, const char *share_dir, json_t *into,
                    struct vial_error *err);

    /* Lowers the limits of a vessel in which nothing has run yet. NULL, or a
     * failure: a vessel of its own must be opened. */
    int (*limit)(struct vessel *vessel, const struct limits *limits,
                 struct vial_error *err);

    /* A zygote is a trusted interpreter, started once for PLAN's language, from
     * which others are forked into open vessels. NULL: this driver has none. One
     * thread at a time. */
    int (*zygote_open)(const struct plan *plan, const struct zygote_options *options,
                       struct zygote **out, struct vial_error *err);
    /* Puts an interpreter into VESSEL, confined as its jail says. *PID is its number
     * inside; *FD, owned by the caller, is what the guest gives it its work by. */
    int (*fork_into)(struct zygote *zygote, struct vessel *vessel, int *fd,
                     uint32_t *pid, struct vial_error *err);
    void (*zygote_close)(struct zygote *zygote);

    /* Adds those of its vessels that no process and no container of this host shows.
     * NULL: there are none. */
    int (*list)(struct vial_vessels *list, struct vial_error *err);

    field_set unheld; /* limits that it cannot hold: refused where a request has one */
    bool waits;       /* its vessels may wait in a pool */
    bool wants_image; /* plan->image must be set */
    bool takes_image; /* or may be, and then is the root (plan->root); the engine
                         brings it into the store where `pull` is NULL */
    bool remote;      /* its vessels are on other hosts, and are told of as they go */
    bool far;      /* what it left is looked for only where it is the usual driver: that
                      takes a connection to elsewhere, and the caller's credentials */
    bool overlays; /* a plan's mount may be an overlay */
    bool needs_programs_here; /* the language's program must exist on this host */
};

#define DRIVER(name, ...)      extern const struct driver driver_##name;
#define TEST_DRIVER(name, ...) extern const struct driver driver_##name;
#include "model/drivers.def"

/* All drivers of this build (drivers.def), strongest first; NULL-terminated. */
extern const struct driver *const drivers[];

/* NULL: none of that name. TABLE is `drivers`, or another of its kind. */
const struct driver *driver_find(const struct driver *const *table, const char *name);

/* Resolves "auto": the first driver that is usable and not weaker than every
 * requirement; never `process`. A named driver is checked the same way. Probing
 * costs time, so that it is left to `open` where nothing is required and there
 * is no choice. */
int driver_choose(const struct driver *const *table, const char *name,
                  const struct strv *require, const struct driver **out,
                  struct vial_error *err);

/* 0 when D works on this host now and gives all that is required. */
int driver_works(const struct driver *d, const struct strv *require,
                 struct vial_error *err);

/* After an open that failed: if DRIVER's probe knows a reason, puts it into ERR. */
void driver_explain(const struct driver *driver, const struct strv *require,
                    struct vial_error *err);

/* 0 when LEVEL, LAYERS and LIMITS_BY satisfy every entry of REQUIRE; otherwise
 * VIAL_E_ISOLATION or VIAL_E_LIMITS naming what is missing. */
int driver_check_required(const struct strv *require, const char *level,
                          const struct strv *layers, const char *limits_by,
                          struct vial_error *err);

/* D's thorough probe, for the doctor; AUTOMATIC: it is taken without being asked for by
 * name. False: D is one of the tests' own, which nobody is told of. */
bool driver_examine(const struct driver *d, struct caps *out, bool *automatic);

/* Of the container engine behind it, or NULL. */
const char *driver_version(const struct caps *caps);

#endif
