/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_ENGINE_RUN_VERDICT_H
#define VIAL_ENGINE_RUN_VERDICT_H

/*
 * Why a program has ended. Runs, kept calls, the programs of sessions and the cells of
 * contexts bring their evidence here; nobody else decides. Evidence is what the kernel
 * counted and what our own timers saw; the guest is believed about the program's exit
 * and its own counters only.
 */

#include "engine/engine.h"

#include "vial/result.h"

#define RUN_GRACE_MS                                                                   \
    500 /* the guest's own deadline comes this much later than ours                    \
         */

/* Who ended it. The first one stays. */
enum run_end {
    RUN_GOING,
    RUN_EXITED, /* the last program ended by itself */
    RUN_FAILED, /* it could not be set up or started, or the guest broke the rules */
    RUN_LOST,   /* the guest went away */
    RUN_CANCELLED,
    RUN_WALL,
    RUN_CPU,
    RUN_OUTPUT,
    RUN_PIDS,
    RUN_MEMORY,
};

struct evidence {
    enum run_end end;
    const struct exit_message *exit; /* the guest's word; NULL: there is none */
    int64_t exited_ns, due_ns;       /* when that came; its own deadline */
    /* The plan whose program has the vessel to itself: what ran out inside, it has used
     * up. NULL: there are other programs. */
    const struct plan *plan;
    const char *limits_by;           /* of the vessel */
    uint64_t oom_kills, pids_events; /* counted for this program */
    double cpu_ms;
    bool cut;                           /* some of its output was not kept */
    const struct vial_network *network; /* what its gate told, or NULL */
};

struct judgement {
    enum vial_verdict verdict;
    int exit_code; /* -1 when there is none */
    int signal;    /* 0 when there is none */
    unsigned limits_hit;
};

struct judgement judge(const struct evidence *e);

/* A cell's end: its interpreter SAID how; PRESSED: we had interrupted it, for its
 * deadline, and what it made of that does not matter. Static storage. */
const char *judge_cell(const char *said, bool pressed);

/* What never came into a vessel, for ERR: a fault of ours, or refused. */
enum vial_verdict judge_refusal(const struct vial_error *err);

/* What a result has of it; WHY: what made it fail, or cancelled it. */
void collect_judgement(struct judgement j, const struct vial_error *why,
                       struct vial_result *result);
/* What it has of its vessel V, opened from PLAN. -1: no memory. */
int collect_vessel(const struct vial_engine *e, const struct plan *plan,
                   const struct vessel *v, struct vial_result *result);
/* Of what was not run: WHY. */
void collect_nothing(struct vial_result *result, enum vial_verdict verdict,
                     const struct vial_error *why);

#endif
