/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_ENGINE_RUN_RUN_H
#define VIAL_ENGINE_RUN_RUN_H

/*
 * One run while it happens. supervise moves bytes and gathers evidence, collect
 * judges it; nothing here is shared between runs.
 *
 *   run_init -> (the vessel is opened) -> supervise -> collect -> run_done
 *
 * What happens in the vessel, stage by stage, is in life.c.
 */

#include "engine/conversation.h"
#include "engine/engine.h"
#include "engine/record/run_log.h"
#include "engine/run/bounded_output.h"
#include "engine/run/life.h"
#include "engine/run/verdict.h"

#define RUN_FETCH_MS  60000                /* for bringing all output files back */
#define RUN_FETCH_MAX (INT64_C(256) << 20) /* bytes of all output files together */

struct run {
    struct vial_engine *engine;     /* borrowed */
    const struct vial_watch *watch; /* borrowed, never NULL */
    const struct driver *driver;
    struct plan *plan;
    struct vessel *vessel;
    struct network_place place; /* of its gate, in the caller's share */
    struct stock *stock;        /* where it was taken from; NULL: it was opened */
    bool assumed;               /* its program is here, as the pool's interpreter is */
    struct vessel_usage before; /* used up before this run began */
    double queued_ms;           /* waited for a vessel that was being made */
    uint32_t waiting_channel;   /* where its interpreter waits, or 0 */
    int64_t started_ns, opened_ns, ended_ns;

    struct link
        *taken_link; /* of a vessel that was taken, until the conversation begins */
    struct conversation talk;
    bool metered;      /* the counters are looked at again and again */
    int64_t due_ns;    /* of the present step: its deadline, … */
    int64_t exited_ns; /* … and when the guest told its end */
    int stdin_slot, meter_slot;
    int room_slot, room_timer; /* the reader of live output has room again */
    size_t owed[2];            /* bytes for which no credit was given for want of it */
    bool unheld;               /* it is not waited for any more */

    enum life_stage stage;
    size_t next_file;     /* files in: the next one to announce */
    uint32_t put_channel; /* the one whose content is being sent, or 0 */
    size_t put_sent;
    unsigned puts_open; /* announced, not yet answered */

    bool started;          /* a program runs, or has run */
    uint32_t exec_channel; /* of the present step, or 0 */
    size_t stdin_sent;
    bool stdin_ended;

    size_t next_output;   /* files out: index of the one being fetched */
    uint32_t get_channel; /* or 0 */
    struct str fetched;
    int64_t fetched_total;
    struct vial_file *files;     /* plan->outputs.count of them */
    struct artifacts *artifacts; /* NULL: none wanted, or not yet looked at */

    enum run_end end;
    struct vial_error error;
    bool exited;
    struct exit_message exit;
    struct {
        uint32_t number, channel;
        uint64_t before, count; /* by earlier steps, and on CHANNEL */
    } denied[DENIED_MAX];       /* system calls that were refused, as the guest says */
    size_t denied_count;
    struct output kept[2];      /* of stdout and stderr of the present step */
    struct vial_result *result; /* it pays for files that come back */
    uint64_t written;           /* by both streams of the present step */
    bool muted;                 /* the caller's callback asked to stop */

    struct run_log log;
    char correlation[72]; /* the caller's name for it, or one made up, or "" */
};

void run_init(struct run *r, struct vial_engine *e, const struct vial_watch *watch);
void run_done(struct run *r);
#define auto_run __attribute__((cleanup(run_done)))

/* What happens now has so long. Returns that moment. */
int64_t run_set_due(struct run *r, int64_t ms);

/* For the journal: a program has started. */
void run_note_exec(struct run *r);

/* What this run used so far. */
void run_usage(struct run *r, struct vessel_usage *out);

/* Ends the run for reason END unless it has already ended. */
void run_stop(struct run *r, enum run_end end);
/* The same, with ERR as the reason. */
void run_fail(struct run *r, enum run_end end, const struct vial_error *err);

/* admit.c */

/* Fills in the settings, checks the policy and picks the driver. FULL is the
 * caller's to release, whatever this returns. */
int admit(const struct vial_engine *e, const struct vial_request *req,
          struct vial_request *full, const struct driver **driver,
          struct vial_error *err);
/* Refuses a language whose program does not exist where the driver needs it. */
int admit_programs(const struct driver *driver, const struct plan *plan,
                   struct vial_error *err);

/* supervise.c */
void supervise(struct run *r);

/* life.c: what happens next */
void run_go_on(struct run *r); /* the present stage is over */
/* It compiles, or will as soon as its files are there. */
bool run_is_compiling(const struct run *r);

/* step.c: what runs in the vessel */
void step_start(struct run *r); /* the compiler, or the program */
/* As the guest reports; CONTEXT is the run. */
void step_exited(void *context, uint32_t channel, const struct exit_message *m);
void step_failed(void *context, uint32_t channel, uint32_t step, int error);
void step_output(struct run *r, int stream, const uint8_t *data, size_t len);
void step_tell_rest(struct run *r); /* at the end of all */

/* step.c: the program's stdin */
void input_feed(struct run *r); /* sends what may be sent */
void input_read(struct run *r); /* the live descriptor is readable */

/* transfer.c: files in and out */
void transfer_put(struct run *r); /* sends what may be sent now */
void transfer_get(struct run *r); /* asks for the next output */
/* BYTES more of the file PATH: there have to be memory and measure for them, where
 * TOTAL bytes of all files have come by then. */
int transfer_pay(struct vial_result *result, const char *path, int64_t total,
                 size_t bytes, struct vial_error *err);
void transfer_data(struct run *r, const uint8_t *data, size_t len);
void transfer_done(struct run *r, uint32_t channel, int error);
void transfer_give_up(struct run *r); /* outputs that will not come */

/* artifacts.c: new and changed files. All but the first two: R->artifacts is there. */
void artifacts_before(struct run *r); /* looks */
void artifacts_after(struct run *r);  /* looks again, and reads */
bool artifacts_owns(const struct run *r, uint32_t channel);
void artifacts_data(struct run *r, const uint8_t *data, size_t len);
void artifacts_done(struct run *r, int error);
void artifacts_give(struct run *r, struct vial_result *result);
void artifacts_free(struct artifacts *a);

/* verdict.c */
void collect(struct run *r, struct vial_result *result);
/* The result of a run for which no vessel was opened. */
void collect_refusal(const struct run *r, const struct vial_error *err,
                     struct vial_result *result);

#endif
