/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_DRIVER_KUBERNETES_ASKING_H
#define VIAL_DRIVER_KUBERNETES_ASKING_H

/*
 * How an API server is asked: once more where it says that the trouble will pass
 * (retry_after.h), and where it does not know us by credentials that were renewed since
 * (login.h).
 */

#include "driver/kubernetes/cluster_api.h"
#include "driver/kubernetes/retry_after.h"

/* In which way an answer is wanted: whole, by and by, or as a stream. */
struct way {
    http_take *take; /* with CONTEXT: by and by */
    void *context;
    int *fd;                                               /* as a stream */
    int (*header)(void *header_context, const char *line); /* as http_request has it */
    void *header_context;
    struct retry_after patience; /* this and the next are asking.c's own */
    bool renewed;
};

/* 0 with any status, or -1, as http_call has it. R's token and header are set here. */
int cluster_ask(struct cluster_api *api, struct http_request *r, struct way *way,
                struct http_answer *answer, struct vial_error *err);

#endif
