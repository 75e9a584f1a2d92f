/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_CLI_BATCH_JOBS_H
#define VIAL_CLI_BATCH_JOBS_H

#include <jansson.h>

#include "vial/engine.h"
#include "vial/request.h"

/* How many programs run at once when nobody says it: as many as there are cores, and,
 * if they run here, no more than can have all the memory that rows which say nothing
 * may use. USUAL is what such rows have; ENGINE is NULL where they run elsewhere. */
unsigned batch_jobs_usual(struct vial_engine *engine, const struct vial_request *usual);

/* The request of such a row, for what a plan says of its limits. -1: there is none. */
int batch_jobs_sample(const struct vial_request *usual, struct vial_request **out);

#endif
