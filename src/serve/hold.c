/* SPDX-License-Identifier: Apache-2.0 */
#include "serve/hold.h"

#include "base/fail.h"
#include "base/unit.h"

int hold_session(struct call *c, struct hold *out, struct vial_error *err)
{
    *out = (struct hold){ .serve = c->serve };
    call_note(c, "session", c->params[0]);
    return registry_take(c->serve->registry, c->who.name, c->params[0], &out->session,
                         err);
}

int hold_exec(struct call *c, struct hold *out, struct vial_error *err)
{
    int64_t number;

    if (hold_session(c, out, err) < 0)
        return -1;
    if (unit_parse_count(c->params[1], &number) == 0 && number <= UINT32_MAX)
        out->exec = registered_exec(out->session, (unsigned)number);
    if (!out->exec)
        return fail(err, VIAL_E_ROUTE, "this session has no such program");
    out->number = (unsigned)number;
    return 0;
}

void hold_done(struct hold *h)
{
    if (h->exec)
        registered_exec_done(h->session, h->number);
    if (h->session)
        registry_release(h->serve->registry, h->session);
}

int hold_start(struct call *c, struct vial_error *err)
{
    struct gate_pass pass;
    int rc = gate_start(&c->serve->gate, c->caller, &pass, err);

    c->retry_s = pass.retry_s;
    return rc;
}

void hold_ended(void *caller)
{
    struct caller *c = caller;

    gate_end(c->gate, c);
}
