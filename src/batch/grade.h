/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_BATCH_GRADE_H
#define VIAL_BATCH_GRADE_H

/*
 * One row becomes one line of output: its program is compiled once, run on each test,
 * and what it printed is judged by comparison or by a checker, in a vessel of its own.
 * Only failures of vial itself are tried again, never a verdict of the program's.
 */

#include <jansson.h>
#include <pthread.h>
#include <stdbool.h>

#include "batch/row.h"

#include "vial/engine.h"
#include "vial/request.h"
#include "vial/result.h"

typedef int grade_run(void *context, const struct vial_request *req,
                      const struct vial_watch *watch, struct vial_result **out,
                      struct vial_error *err);

/* One program on many inputs, which are objects of fields laid over it. */
struct grade_many {
    const struct vial_request *base;
    json_t *inputs;
    bool keeps; /* who runs it keeps BASE compiled for the next time */
    const struct vial_watch *watch;
    /* Has their results, in their order, as they come; RESULT becomes its own. False:
     * no more are wanted. */
    bool (*see)(void *context, size_t index, struct vial_result *result);
    void *context;
};

/* What does not come is run one by one. */
typedef void grade_run_many(void *context, const struct grade_many *many);

struct grader {
    grade_run *run;
    grade_run_many *run_many; /* or NULL: each test is a run by itself */
    void *context;
    struct vial_engine *engine;       /* it compiles; NULL: each run does */
    const struct vial_request *usual; /* for fields that a row lacks */
    int cancel_fd;                    /* or -1 */
    unsigned retries;
    bool stops;         /* at a row's first test that is not passed */
    bool deterministic; /* addresses, hash seed, locale, time zone are fixed */
    bool no_times;      /* times and usage are left out */
    bool by_cpu;        /* a row's time limit is on cpu time, not on the clock */
    bool humaneval;     /* each line has `result` in the words of that harness */
    unsigned repeats;   /* how often each row is run; more than 1: `flaky` is told */
    const char *const *members; /* of a line, besides those it must have; NULL: all */
    pthread_mutex_t lock;
    struct grade_checker *checkers; /* that were compiled (checker.c) */
};

/* How a row went. */
struct grade {
    json_t *line; /* for the output; NULL: no memory */
    enum vial_verdict verdict;
    bool passed, cancelled;
    bool flaky;        /* it did not always end alike */
    bool in_compile;   /* the verdict is the compile step's */
    unsigned attempts; /* the most of any test */
    double cpu_ms, run_ms;
    struct vial_error error; /* of a verdict `denied` or `failed` */
};

int grader_init(struct grader *g);
void grader_done(struct grader *g);
/* Whether ROW can be run at all, without running it. */
int grade_check(const struct grader *g, const struct row *row, struct vial_error *err);
void grade_row(struct grader *g, const struct row *row, struct grade *out);

#endif
