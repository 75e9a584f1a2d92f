/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_AUDIT_REFUSALS_H
#define VIAL_AUDIT_REFUSALS_H

/*
 * Records refusals in the audit log; who refuses is engine/run/admit.c, model/policy.c,
 * plan/ and engine/callers/gate.c. A caller who is always refused must not fill the disk
 * with that: of each kind and caller the first few in a minute have a record of their own
 * ("refused"), the others one together ("refused.more", with their number) when the
 * minute is over.
 *
 *   refusals_init -> refusals_use* -> { refusals_record | refusals_count }*
 *                 -> refusals_done
 *
 * All functions may be called from several threads.
 */

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "audit/audit.h"

#define REFUSALS_ROWS 64 /* kinds by caller; what is beyond shares one row */

struct refusal {
    const char *caller;  /* "uid:7", "token:ci", or "" when nobody known asked */
    const char *address; /* where from, or "" */
    const char *request; /* what it is called */
    const char *method, *path;
    unsigned status; /* of HTTP; 0: it did not come that way */
    const struct vial_error *why;
};

struct refusals_row {
    char who[96];
    char code[32];
    unsigned seen; /* in this minute */
    unsigned more; /* of them without a record */
};

/* Called when a refusal could not be recorded. The request was refused anyway. */
typedef void refusals_failed(void *context, const struct vial_error *err);

struct refusals {
    refusals_failed *failed;
    void *context;
    pthread_mutex_t writing; /* for the next; taken before `lock`, if both are */
    struct audit *audit;     /* NULL: none is kept */

    pthread_mutex_t lock; /* for all that follows; never held while the disk is busy */
    pthread_cond_t changed;
    bool kept; /* there is a log */
    struct refusals_row rows[REFUSALS_ROWS + 1];
    size_t row_count;
    unsigned written; /* records of their own in this minute */
    bool going, ending;
    pthread_t clerk; /* ends the minutes */
};

int refusals_init(struct refusals *r, refusals_failed *failed, void *context);
/* Starts to record, or goes on elsewhere; without a path nothing is. -1: the log cannot
 * be opened. */
int refusals_use(struct refusals *r, const struct audit_options *options,
                 struct vial_error *err);
void refusals_done(struct refusals *r);

/* May wait for the disk. */
void refusals_record(struct refusals *r, const struct refusal *what);
/* Never waits: it is counted only. */
void refusals_count(struct refusals *r, const char *who, const char *code);

/* True for an answer that turns somebody away, and is not about what is not there. */
bool refusals_is_one(unsigned status);

#endif
