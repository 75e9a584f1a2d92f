/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/pool/ready.h"

#include "base/auto.h"
#include "base/clock.h"
#include "base/fail.h"

#define UP_MS 30000 /* for a guest to say hello, or an interpreter that it is up */

static void on_lost(void *context, const struct vial_error *why)
{
    struct preparation *p = context;

    if (p->rc == 0 && why && p->err)
        *p->err = *why;
    else if (p->rc == 0 && !why)
        (void)fail(p->err, VIAL_E_GUEST, "start the guest: it went away at once");
    p->rc = -1;
    conversation_stop(&p->talk);
}

static void on_due(void *context)
{
    struct preparation *p = context;

    p->rc = fail(p->err, VIAL_E_GUEST, "start the guest: it does not answer");
}

static void on_turn(void *context)
{
    struct preparation *p = context;

    if (p->rc < 0 || (p->done && link_is_up(p->talk.link)))
        conversation_stop(&p->talk);
}

int ready_prepare(struct ready *r, struct preparation *p,
                  const struct link_events *guest, struct vial_error *err)
{
    const struct conversation_owner owner = {
        .guest = *guest, .lost = on_lost, .turn = on_turn, .due = on_due
    };

    p->err = err;
    p->rc = 0;
    if (conversation_begin(&p->talk, r->vessel, ptr_take(&r->link), &owner, p, err) < 0)
        p->rc = -1;
    conversation_due(&p->talk, clock_now_ns() + INT64_C(1000000) * UP_MS);
    if (p->rc == 0 && conversation_run(&p->talk, err) < 0)
        p->rc = -1;
    r->link = conversation_leave(&p->talk);
    return p->rc;
}

static int hear_hello(struct ready *r, struct vial_error *err)
{
    struct preparation p = { .done = true };

    return ready_prepare(r, &p, &(struct link_events){ 0 }, err);
}

int ready_open(const struct ready_order *order, struct ready *out,
               struct vial_error *err)
{
    const struct vessel_order wanted = { .driver = order->driver,
                                         .shared = order->shared,
                                         .plan = order->plan };
    struct ready r = { 0 };

    if (engine_vessel(order->engine, &wanted, &r.vessel, err) < 0)
        return -1;
    if (order->forks && r.vessel->driver->fork_into)
        r.vessel->jail.flags |= JAIL_AWAITS;
    if (hear_hello(&r, err) < 0) {
        ready_close(&r);
        return -1;
    }
    *out = r;
    return 0;
}

int ready_fork_into(struct ready *r, struct zygote *zygote, struct vial_error *err)
{
    uint32_t pid = 0;
    auto_fd int fd = -1;

    /* A vessel of a lower tier is another driver's. */
    if (!r->vessel->driver->fork_into)
        return 0;
    if (r->vessel->driver->fork_into(zygote, r->vessel, &fd, &pid, err) < 0 ||
        link_adopt(r->link, pid, err) < 0)
        return -1;
    /* The frame carries the descriptor by which the guest reaches the interpreter. */
    return conversation_send_fd(r->vessel, r->link, fd, err);
}

void ready_settle(struct ready *r)
{
    const struct driver *d = r->vessel->driver;

    (d->spent ? d->spent : d->usage)(r->vessel, &r->before);
}

void ready_close(struct ready *r)
{
    if (r->vessel)
        r->vessel->driver->close(r->vessel);
    link_free(r->link);
    *r = (struct ready){ 0 };
}
