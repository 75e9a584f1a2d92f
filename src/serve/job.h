/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_SERVE_JOB_H
#define VIAL_SERVE_JOB_H

/* One run for a caller, from its turn at the gate to its place in the history. */

#include "serve/http_call.h"

struct job {
    struct call *call;
    const struct vial_request *req;
    const char *batch; /* what it belongs to (batches.h), or NULL */
    int cancel_fd;     /* an epoll set, readable: end the run */
    /* Output as it comes, or NULL: then the result has it. */
    int (*output)(void *context, int stream, const void *data, size_t len);
    vial_pull_progress *pulling; /* with the same context, or NULL */
    bool (*room)(void *context); /* as in struct vial_watch, or NULL */
    int room_fd;
    void *context;
    void (*notice)(void *context, const char *text); /* likewise */
    int64_t patience_ms; /* how long its caller waits for its turn at most; 0: as long
                            as the settings say */
    bool in_turn;        /* its caller has a turn already, and gives it back */
    bool piped; /* its input comes by STDIN_FD, borrowed; else it is the request's */
    int stdin_fd;
    struct record *record; /* the job's own */
};

/* A request from LEN bytes of JSON, if this caller may ask for that. */
int job_request(struct call *c, const char *json, size_t len, struct vial_request **out,
                struct vial_error *err);
/* The same from an object that was read already. */
int job_decode(struct call *c, json_t *object, struct vial_request **out,
               struct vial_error *err);
/* The same check on a request that exists. */
int job_check(struct call *c, struct vial_request *req, struct vial_error *err);

/* Whether this caller can have volumes at all: the operator has said which there are.
 */
int job_volumes_said(const struct call *c, struct vial_error *err);

/* 0 with a result, whatever became of it; or -1 when it never had its turn, with
 * *RETRY_S. */
int job_run(struct job *job, struct vial_result **out, unsigned *retry_s,
            struct vial_error *err);

/* A run has ended: it is remembered, counted and told. RECORD may be NULL. */
void job_account(struct serve *s, const char *request, const char *caller,
                 struct record *record, const struct vial_result *result);

/* What the caller says that its runs belong to (?batch=NAME); *OUT may be NULL. */
int job_batch(const struct call *c, const char **out, struct vial_error *err);

/* The HTTP status of a result. */
unsigned job_status(const struct vial_result *result);

static inline void auto_vial_request_(struct vial_request **req)
{
    vial_request_free(*req);
}
#define auto_vial_request __attribute__((cleanup(auto_vial_request_)))

static inline void auto_vial_result_(struct vial_result **result)
{
    vial_result_free(*result);
}
#define auto_vial_result __attribute__((cleanup(auto_vial_result_)))

#endif
