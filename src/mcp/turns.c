/* SPDX-License-Identifier: Apache-2.0 */
#include "mcp/turns.h"

#include "base/fail.h"

#define CLIENT "client"

int mcp_turns_open(struct mcp_turns *t, const struct serve_settings *serve,
                   struct vial_error *err)
{
    static const struct quota all = { .concurrency =
                                          INT64_MAX }; /* nobody else comes */

    if (gate_init(&t->gate, err) < 0)
        return -1;
    t->client = gate_caller(&t->gate, CLIENT, &all);
    if (!t->client) {
        gate_done(&t->gate);
        return fail_memory(err);
    }
    gate_set(&t->gate, gate_most(serve->concurrency), (unsigned)serve->queue,
             serve->queue_timeout);
    return 0;
}

void mcp_turns_close(struct mcp_turns *t)
{
    gate_done(&t->gate);
}

static int enter(void *context, const struct mcp_call *call, struct gate_pass *pass,
                 struct vial_error *err)
{
    struct mcp_turns *t = context;

    return gate_enter(&t->gate, t->client, call->cancel_fd, pass, err);
}

static void leave(void *context, struct gate_pass *pass, double cpu_ms)
{
    struct mcp_turns *t = context;

    gate_leave(&t->gate, pass, cpu_ms);
}

static void refused(void *context, const struct mcp_call *call,
                    const struct vial_error *why)
{
    struct mcp_turns *t = context;

    if (t->refused)
        t->refused(t->context, call, why);
}

struct mcp_gate mcp_turns_gate(struct mcp_turns *t)
{
    return (struct mcp_gate){ .context = t,
                              .calls = t->gate.most + t->gate.places + 1,
                              .enter = enter,
                              .leave = leave,
                              .refused = refused };
}
