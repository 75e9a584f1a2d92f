/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/pool/ready.h"

#include <errno.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/fail.h"
#include "base/sys.h"

#define UP_MS 30000 /* for a guest to say hello */

static const struct link_events silence;

static int wait_for(const struct vessel *v, short events, int64_t until_ns,
                    struct vial_error *err)
{
    struct pollfd fds[2] = { { .fd = v->stream_fd, .events = events },
                             { .fd = v->death_fd, .events = POLLIN } };
    int64_t left_ms = (until_ns - clock_now_ns()) / 1000000;
    int rc = left_ms <= 0 ? 0 : poll(fds, 2, (int)left_ms);

    if (rc < 0 && errno != EINTR)
        return fail_sys(err, "wait for the guest");
    if (rc == 0)
        return fail(err, VIAL_E_GUEST, "start the guest: it does not answer");
    if (rc > 0 && fds[1].revents)
        return fail(err, VIAL_E_GUEST, "start the guest: it went away at once");
    return 0;
}

static int send_pending(const struct ready *r, int64_t until_ns, struct vial_error *err)
{
    const uint8_t *data;
    size_t len;

    while ((data = link_pending(r->link, &len)) != NULL && len > 0) {
        ssize_t n = send(r->vessel->stream_fd, data, len, MSG_NOSIGNAL | MSG_DONTWAIT);

        if (n > 0)
            link_sent(r->link, (size_t)n);
        else if (n < 0 && errno != EAGAIN && errno != EINTR)
            return fail_sys(err, "speak to the guest");
        else if (wait_for(r->vessel, POLLOUT, until_ns, err) < 0)
            return -1;
    }
    return link_out_of_memory(r->link) ? fail_memory(err) : 0;
}

static int hear(const struct ready *r, int64_t until_ns, struct vial_error *err)
{
    uint8_t bytes[1024];
    ssize_t n = 0;

    if (wait_for(r->vessel, POLLIN, until_ns, err) < 0)
        return -1;
    n = recv(r->vessel->stream_fd, bytes, sizeof bytes, MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return 0;
    if (n <= 0)
        return fail(err, VIAL_E_GUEST, "start the guest: it went away at once");
    return link_feed(r->link, bytes, (size_t)n, err);
}

static int hear_hello(const struct ready *r, int64_t until_ns, struct vial_error *err)
{
    while (!link_is_up(r->link))
        if (hear(r, until_ns, err) < 0)
            return -1;
    return 0;
}

int ready_talk(struct ready *r, int64_t until_ns, struct vial_error *err)
{
    return send_pending(r, until_ns, err) < 0 ? -1 : hear(r, until_ns, err);
}

void ready_hush(struct ready *r)
{
    link_rebind(r->link, &silence, NULL);
}

/* The frame carries the descriptor by which the guest reaches the interpreter. */
static int send_adoption(const struct ready *r, int fd, struct vial_error *err)
{
    size_t len;
    const void *frame = link_pending(r->link, &len);
    ssize_t n = sys_send_fds(r->vessel->stream_fd,
                             (struct iovec){ (void *)(uintptr_t)frame, len }, &fd, 1,
                             MSG_DONTWAIT);

    if (n != (ssize_t)len)
        return fail_sys_rc(err, n < 0 ? (int)n : -EAGAIN,
                           "hand the interpreter to the guest");
    link_sent(r->link, (size_t)n);
    return 0;
}

static int make_ready(struct ready *r, struct vial_error *err)
{
    int64_t until_ns = clock_now_ns() + INT64_C(1000000) * UP_MS;

    r->link = link_new(&silence, NULL);
    if (!r->link)
        return fail_memory(err);
    if (engine_greet(r->link, r->vessel, err) < 0 ||
        send_pending(r, until_ns, err) < 0 || hear_hello(r, until_ns, err) < 0)
        return -1;
    return 0;
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
    if (order->hatches && r.vessel->driver->hatch)
        r.vessel->jail.flags |= JAIL_AWAITS;
    if (make_ready(&r, err) < 0) {
        ready_close(&r);
        return -1;
    }
    *out = r;
    return 0;
}

int ready_hatch(struct ready *r, struct zygote *zygote, struct vial_error *err)
{
    uint32_t pid = 0;
    auto_fd int fd = -1;

    /* A vessel of a lower tier is another driver's. */
    if (!r->vessel->driver->hatch)
        return 0;
    if (r->vessel->driver->hatch(zygote, r->vessel, &fd, &pid, err) < 0 ||
        link_adopt(r->link, pid, err) < 0 || send_adoption(r, fd, err) < 0)
        return -1;
    return 0;
}

void ready_settle(struct ready *r)
{
    const struct driver *d = r->vessel->driver;

    (d->spent ? d->spent : d->usage)(r->vessel, &r->before);
}

bool ready_is_alive(const struct ready *r)
{
    struct pollfd fds[2] = { { .fd = r->vessel->stream_fd, .events = POLLIN },
                             { .fd = r->vessel->death_fd, .events = POLLIN } };

    /* A guest that speaks before it is asked is none of ours any more. */
    return poll(fds, 2, 0) == 0;
}

void ready_close(struct ready *r)
{
    if (r->vessel)
        r->vessel->driver->close(r->vessel);
    link_free(r->link);
    *r = (struct ready){ 0 };
}
