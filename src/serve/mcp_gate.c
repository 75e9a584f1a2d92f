/* SPDX-License-Identifier: Apache-2.0 */

/* The Model Context Protocol, which has its own way with HTTP. */

#include "serve/mcp_gate.h"

#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/fail.h"
#include "mcp/http_transport.h"
#include "serve/job.h"
#include "serve/route.h"

/* A run of a tool's. */
struct tool_run {
    char request[72], caller[96];
    struct record *record;
    int cancel_fd;
};

static const char *name_of(const struct mcp_call *call)
{
    return call->correlation ? call->correlation : "";
}

static int enter(void *context, const struct mcp_call *call, struct gate_pass *pass,
                 struct vial_error *err)
{
    struct serve *s = context;
    struct caller *caller = gate_known(&s->gate, call->owner);

    if (!caller)
        return fail(err, VIAL_E_INTERNAL, "'%s' never came in", call->owner);
    return gate_enter(&s->gate, caller, call->cancel_fd, pass, err);
}

static void refused(void *context, const struct mcp_call *call,
                    const struct vial_error *why)
{
    struct serve *s = context;
    const struct refusal what = { .caller = call->owner,
                                  .address = "",
                                  .request = name_of(call),
                                  .method = "POST",
                                  .path = "/mcp",
                                  .status = call_status_of(why),
                                  .why = why };

    refusals_record(&s->refusals, &what);
}

static void leave(void *context, struct gate_pass *pass, double cpu_ms)
{
    struct serve *s = context;

    gate_leave(&s->gate, pass, cpu_ms);
}

/* A set of its own, so that others can end the run too; whatever the call's is. */
static int cancel_set(int cancel_fd)
{
    struct epoll_event event = { .events = EPOLLIN };
    int fd = epoll_create1(EPOLL_CLOEXEC);

    if (fd < 0 || cancel_fd < 0 || epoll_ctl(fd, EPOLL_CTL_ADD, cancel_fd, &event) == 0)
        return fd;
    (void)close(fd);
    return -1;
}

static void *begin(void *context, const struct mcp_call *call, const char *language,
                   int *cancel_fd)
{
    struct serve *s = context;
    struct tool_run *run = calloc(1, sizeof(*run));

    if (!run)
        return NULL;
    (void)snprintf(run->request, sizeof(run->request), "%s", name_of(call));
    (void)snprintf(run->caller, sizeof(run->caller), "%s", call->owner);
    run->cancel_fd = cancel_set(call->cancel_fd);
    if (run->cancel_fd >= 0)
        *cancel_fd = run->cancel_fd;
    run->record =
        history_begin(&s->history, run->request, run->caller, language, run->cancel_fd);
    return run;
}

static void end(void *context, void *what, const struct vial_result *result)
{
    static const struct vial_result none = { .verdict = VIAL_FAILED };
    struct tool_run *run = what;

    job_account(context, run->request, run->caller, run->record,
                result ? result : &none);
    if (run->cancel_fd >= 0)
        (void)close(run->cancel_fd);
    free(run);
}

struct mcp_gate protocol_gate(struct serve *s)
{
    return (struct mcp_gate){ .context = s,
                              .enter = enter,
                              .leave = leave,
                              .refused = refused,
                              .begin = begin,
                              .end = end,
                              .budget = s->budget };
}

static void pass_on(struct call *c)
{
    const struct mcp_asker who = { .owner = c->who.name, .correlation = c->id };
    struct vial_error err = { 0 };

    /* Its tools both run code and hold sessions. */
    if (!(c->who.scopes & SCOPE_RUN)) {
        (void)fail(&err, VIAL_E_SCOPE, "'%s' may not run code", c->who.name);
        call_error(c, &err);
        return;
    }
    c->status = 200;
    mcp_http_handle(c->gen->mcp_http, c->web, &who);
}

void protocol_post(struct call *c)
{
    pass_on(c);
}

void protocol_get(struct call *c)
{
    pass_on(c);
}

void protocol_delete(struct call *c)
{
    pass_on(c);
}
