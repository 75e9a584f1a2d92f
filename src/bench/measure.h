/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_BENCH_MEASURE_H
#define VIAL_BENCH_MEASURE_H

/*
 * The ways in which bench_promises measures, each as a reader of the documents would
 * meet it. All but held_open give milliseconds.
 */

#include <stdbool.h>

#include "vial/vial.h"

/* One row's measuring, with the engine of its document's preset. */
struct trial {
    const char *preset, *driver;
    struct vial_engine *engine;
    struct vial_keep *keep; /* opened by who needs it */
    bool warm;              /* the engine's pools are on */
    struct vial_error err;
};

typedef double trial_measure(struct trial *t); /* a value, or -1 with t->err filled */

double trial_whole_run(struct trial *t); /* a run, from call to answer */
double trial_first_run(struct trial *t); /* the same, with reading the settings */
double trial_warm_run(struct trial *t);  /* with a vessel that waits */
double trial_timed_out(
    struct trial *t); /* an endless loop, with 5 s, in one that waits */
double trial_kept_run(struct trial *t); /* in a vessel that is there */
double trial_opened(struct trial *t);   /* what a result says of opening */
double trial_closed(struct trial *t);   /* and of closing */
double trial_mounted(
    struct trial *t); /* opening with a mount, beyond opening without */
double trial_overhead(struct trial *t);   /* a run, beyond the bare program */
double trial_output_lag(struct trial *t); /* from a program's write to our callback */
double trial_listed(struct trial *t); /* the containers there are, from the engine */
double trial_held_open(
    struct trial *t); /* megabytes of ours for each session that is open */
double trial_swept(struct trial *t); /* removing ten orphans */

#endif
