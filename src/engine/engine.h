/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_ENGINE_ENGINE_H
#define VIAL_ENGINE_ENGINE_H

/*
 * The verbs, in the order they happen:
 *
 *   admit -> plan -> open -> supervise -> collect, and the audit entry around all
 *
 * struct vial_engine (public, opaque) is this struct. It is read-only after
 * engine_open, so runs need no lock.
 */

#include "audit/audit.h"
#include "base/network_share.h"
#include "driver/driver.h"
#include "settings/settings.h"
#include "wire/link.h"

#include "vial/engine.h"

struct pool;

struct vial_engine {
    struct settings *settings;
    bool borrowed;                       /* they are somebody else's, who frees them */
    int guest_fd;                        /* the guest program, opened once */
    struct audit *audit;                 /* NULL: nothing is recorded, … */
    struct vial_error audit_error;       /* … or, with a code: why nothing can be */
    char policy_hash[65];                /* "" without an audit */
    bool journal;                        /* runs may be remembered: record/run_log.h */
    struct vial_budget *budget;          /* for output; NULL: any */
    struct pool *pool;                   /* vessels that wait, or NULL */
    struct network_shares shares;        /* without functions: nobody counts */
    const struct driver *const *drivers; /* NULL-terminated; static */
};

/* SETTINGS outlive the engine; NULL: they are read now, as OPTIONS says. */
int engine_open(const struct vial_engine_options *options, struct settings *settings,
                struct vial_engine **out, struct vial_error *err);
void engine_close(struct vial_engine *e);

/* The life of one request. Fills RESULT whatever happens. */
void engine_run(struct vial_engine *e, const struct vial_request *req,
                const struct vial_watch *watch, struct vial_result *result);

/* The same up to the plan. */
int engine_plan(struct vial_engine *e, const struct vial_request *req,
                const struct driver **driver, struct plan **out,
                struct vial_error *err);

/* Reserves memory for the output that a run may keep, before it starts; later nothing
 * could be refused. It is RESULT's. VIAL-BUSY, or VIAL-CAP for what can never be
 * had. */
int engine_reserve(struct vial_engine *e, const struct plan *plan,
                   const struct vial_watch *watch, struct vial_result *result,
                   struct vial_error *err);

/* Whether what DRIVER has left is looked for, unasked: not elsewhere, unless that is
 * where vessels usually are. */
bool engine_minds(const struct vial_engine *e, const struct driver *driver);

/* How a vessel is opened. */
struct vessel_order {
    const struct driver *driver;
    struct native_shared *shared;   /* or NULL */
    const struct plan *plan;        /* outlives the vessel */
    const struct vial_watch *watch; /* who follows while its image is pulled, or NULL */
};

/* Opens the vessel, and refuses one that is weaker than what was required. Its image is
 * pulled before, if the plan says so. *OUT is given back with the driver's close. */
int engine_vessel(struct vial_engine *e, const struct vessel_order *order,
                  struct vessel **out, struct vial_error *err);

/* Kills for memory are counted by the kernel where we read it ourselves, so that the
 * guest's word is not needed. */
bool engine_counts_kills(const struct vessel *vessel);

/* The preset's driver, when DRIVER has taken its place for REQ; else "". */
#define WANTED_SIZE 16
void engine_wanted(const struct vial_engine *e, const struct vial_request *req,
                   const char *driver, char out[WANTED_SIZE]);
/* Tells who watches that it stands in for WANTED, unless that is "". */
void engine_announce(const struct vial_watch *watch, const char *driver,
                     const char *wanted);

#endif
