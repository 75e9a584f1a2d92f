/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_CLI_BATCH_SUMMARY_H
#define VIAL_CLI_BATCH_SUMMARY_H

/* What a batch came to, and what it ran on. */

#include "batch/tally.h"
#include "cli/batch_places.h"

struct batch_summary {
    struct vial_engine *engine;
    struct batch_places *places;      /* NULL: it ran here */
    const struct vial_request *usual; /* what rows have that say nothing */
    const char *input_sha256;         /* "": not all of it was read */
    unsigned jobs;
    int cancel_fd; /* nobody is asked any more; or -1 */
};

/* With all that WHERE can tell, which asks the languages for their versions; NULL: no
 * memory. */
json_t *batch_summary_json(struct tally *t, const struct batch_summary *where);

/* For people, on stderr. */
void batch_summary_show(struct tally *t);

#endif
