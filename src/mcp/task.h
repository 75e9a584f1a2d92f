/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_MCP_TASK_H
#define VIAL_MCP_TASK_H

/* A call that goes on after its request was answered, and what becomes of it. */

#include "base/clock.h"
#include "mcp/core.h"

enum task_status {
    TASK_WORKING,
    TASK_INPUT, /* of tools that ask for some; vial's do not */
    TASK_COMPLETED,
    TASK_FAILED,
    TASK_CANCELLED
};

struct task {
    struct task *next;
    struct mcp *mcp;
    char id[40];
    char *owner, *correlation;
    struct work work;
    int cancel_fd, ended_fd; /* eventfds */
    struct outbox outbox;    /* what it says while its request listens */

    /* Under the server's lock: */
    bool attached; /* the request that began it waits for it */
    bool over;     /* its thread has ended */
    enum task_status status;
    char created[CLOCK_STAMP_SIZE], updated[CLOCK_STAMP_SIZE];
    int64_t ended_ns;
    json_t *result, *error, *asked; /* `asked`: with TASK_INPUT */
    uint64_t bytes;                 /* of the result, paid for from the gate's budget */
};

/* With the server's lock held. A task that is over stays as it is: false. */
bool task_set_status(struct task *t, enum task_status status);

#endif
