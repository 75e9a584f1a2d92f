/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_TESTS_MCP_TALK_BACK_H
#define VIAL_TESTS_MCP_TALK_BACK_H

/*
 * What the tools of the conformance suite do and vial's never: they ask the client, by
 * requests of their own or for a task's input, tell progress as a share of a whole, and
 * have arguments that a header repeats. It looks into the product's core, and sees each
 * HTTP request before the product does.
 */

#include "mcp/core.h"
#include "web/web.h"

/* Looks at a request on its way to the server. False: it was refused here. */
bool talk_look(struct mcp *mcp, struct web_request *req);

/* The whole params of the call; among them the client's `inputResponses`. */
const json_t *talk_params(const struct mcp_call *call);
/* What the client said it can do: an object. */
const json_t *talk_capabilities(const struct mcp_call *call);

/* A progress notification in so many words. */
void talk_progress(struct mcp_call *call, int progress, int total);

/* Sends the client a request and waits for its answer; before 2026-07-28 only.
 * Takes PARAMS. */
int talk_ask(struct mcp_call *call, const char *method, json_t *params, json_t **out,
             struct rpc_error *err);

/* False: it is a task already, or of an era before there were any. */
bool talk_may_become_task(const struct mcp_call *call);
/* Calls the tool once more, as a task, which is the answer; an error for clients that
 * know no tasks. */
void talk_become_task(struct mcp_call *call, struct mcp_answer *answer);
/* In a task: waits until the client was told of it. One that ends before that is
 * answered with its result. Does nothing elsewhere. */
void talk_await_told(const struct mcp_call *call);

/* In a task: asks the client for input and waits for it. Takes REQUESTS, an object;
 * *OUT has the same keys. -1: cancelled. */
int talk_input(struct mcp_call *call, json_t *requests, json_t **out);

#endif
