/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_MCP_CORE_H
#define VIAL_MCP_CORE_H

/* Shared by the files of the core: the server itself, and a call at work. */

#include <pthread.h>

#include "mcp/mcp.h"
#include "mcp/peer.h"

struct task;
struct listener;

struct mcp {
    struct mcp_options options;
    pthread_mutex_t lock; /* for what follows */
    pthread_cond_t changed;
    struct mcp_peer *peers;
    struct listener *listeners;
    struct task *tasks;
    unsigned task_count, task_threads;
    unsigned calls;
};

/* Messages from any thread for one that sends them. */
struct outbox {
    pthread_mutex_t lock;
    json_t *messages;
    int event_fd; /* readable: there are some */
};
int outbox_init(struct outbox *o);
void outbox_put(struct outbox *o, json_t *message); /* takes; full: dropped */
void outbox_done(struct outbox *o);

/* Sends what comes until the exchange's `cancel_fd` or STOP_FD (-1: none) is readable,
 * or TIMEOUT_MS have passed: false. */
bool outbox_pass_on(struct outbox *o, struct mcp_exchange *x, int stop_fd,
                    int64_t timeout_ms);

/* A call at work. `public.core` points back here. */
struct work {
    struct mcp_call public;
    struct mcp *mcp;
    const struct mcp_tool *tool;   /* NULL for prompts */
    json_t *params, *capabilities; /* owned */
    json_t *token;                 /* the progress token, owned; NULL: not asked for */
    bool modern;
    int log_level;          /* of a modern request; -1: none */
    struct mcp_exchange *x; /* the caller's, while it listens; NULL in a task */
    struct task *task;      /* or NULL */

    json_int_t progress; /* how often it was told */
    struct str held;     /* text that waits for the next turn */
    size_t told;         /* bytes of text told so far */
    double turns;        /* notifications that may go at once */
    int64_t turns_ns;
};

struct era { /* who asks, in the terms of both eras */
    bool modern;
    json_t *capabilities; /* owned */
};

int work_init(struct work *w, struct mcp_exchange *x, const struct era *era);
void work_done(struct work *w);
/* Says that it was not let in, and why. */
void work_refuse(struct work *w, const struct vial_error *err,
                 struct mcp_answer *answer);
/* Calls the tool, when it is its turn. */
void work_call(struct work *w, struct mcp_answer *answer);

/* A method: fills *RESULT or ERR. */
typedef int mcp_method(struct mcp_exchange *x, const struct era *era, json_t **result,
                       struct rpc_error *err);

extern mcp_method tools_list, tools_call, prompts_list, prompts_get, resources_list,
    resources_templates, resources_read, complete, listen_run, task_get, task_update,
    task_cancel;

/* One page of LIST (taken) as {KEY: …, nextCursor?}. */
int page_of(const struct mcp_exchange *x, const char *key, json_t *list,
            json_t **result, struct rpc_error *err);

/* ANSWER as a result; it is used up. */
int answer_result(struct mcp_answer *answer, json_t **result, struct rpc_error *err);
void answer_done(struct mcp_answer *answer);

/* True if the client knows tasks. */
bool task_is_known(const json_t *capabilities);
int task_fail_unknown(struct rpc_error *err);
/* Runs W (taken) as a task; answers with it, or with its result if it ends soon. */
int task_run(struct work *w, json_t **result, struct rpc_error *err);
/* Sends what its tool says meanwhile. Takes MESSAGE. */
void task_send(struct task *task, json_t *message);
/* Ends all tasks, and frees them. */
void task_end_all(struct mcp *mcp);

#endif
