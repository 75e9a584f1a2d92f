/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/run/network_account.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/fail.h"
#include "base/io.h"
#include "base/sys.h"
#include "wire/frame.h"
#include "wire/gate_message.h"

#define WAIT_MS     2000
#define NUMBERS_MAX 2

static bool read_whole(int fd, uint8_t *to, size_t len, int64_t end_ns)
{
    while (len > 0) {
        struct pollfd ready = { .fd = fd, .events = POLLIN };
        int64_t left_ms = (end_ns - clock_now_ns()) / 1000000;
        ssize_t n;

        if (left_ms <= 0 || (poll(&ready, 1, (int)left_ms) < 1 && errno != EINTR))
            return false;
        n = recv(fd, to, len, MSG_DONTWAIT);
        if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
            return false;
        to += n < 0 ? 0 : n;
        len -= n < 0 ? 0 : (size_t)n;
    }
    return true;
}

static void ask_for_it(int fd)
{
    uint8_t header[WIRE_HEADER];

    frame_write_header(header, &(struct frame){ .type = GATE_ASK });
    (void)send(fd, header, sizeof(header), MSG_NOSIGNAL | MSG_DONTWAIT);
}

static bool receive(int fd, struct gate_account *out)
{
    int64_t end_ns = clock_now_ns() + INT64_C(1000000) * WAIT_MS;
    uint8_t header[WIRE_HEADER];
    auto_free uint8_t *payload = NULL;
    struct frame f;
    struct unpack u;

    if (!read_whole(fd, header, sizeof(header), end_ns) ||
        frame_read(header, sizeof(header), GATE_FRAME_MAX, &f) < 0 ||
        f.type != GATE_ACCOUNT)
        return false;
    payload = malloc(f.len ? f.len : 1);
    if (!payload || !read_whole(fd, payload, f.len, end_ns))
        return false;
    u = (struct unpack){ .data = payload, .len = f.len };
    return gate_account_read(&u, out) == 0;
}

static void copy(struct vial_connection *to, const struct gate_record *from)
{
    (void)snprintf(to->name, sizeof(to->name), "%s", from->name);
    to->port = from->port;
    (void)snprintf(to->verdict, sizeof(to->verdict), "%s",
                   gate_verdict_name(from->verdict));
    to->incoming = from->incoming;
    to->bytes_in = from->bytes_in;
    to->bytes_out = from->bytes_out;
    to->times = from->times;
    to->ms = (double)from->ms;
}

struct vial_network *network_account(int gate_fd, bool ask)
{
    auto_free struct gate_account *a = gate_fd < 0 ? NULL : calloc(1, sizeof(*a));
    struct vial_network *out = a ? calloc(1, sizeof(*out)) : NULL;

    if (!out)
        return NULL;
    if (ask)
        ask_for_it(gate_fd);
    out->whole = receive(gate_fd, a);
    out->connections = a->count ? calloc(a->count, sizeof(*out->connections)) : NULL;
    for (size_t i = 0; out->connections && i < a->count; i++)
        copy(&out->connections[out->count++], &a->records[i]);
    out->left_out = a->left_out + (a->count - out->count);
    out->made = a->connections;
    out->refused = a->refused;
    out->bytes_in = a->bytes_in;
    out->bytes_out = a->bytes_out;
    out->limited = a->limited;
    out->over_quota = a->over_quota;
    return out;
}

static int no_gate(struct vial_error *err)
{
    (void)fail(err, VIAL_E_UNSUPPORTED, "this vessel has no gate");
    return fail_remedy(err, "open it with '--network gate'");
}

static int send_whole(int fd, const uint8_t *data, size_t len)
{
    int64_t end_ns = clock_now_ns() + INT64_C(1000000) * WAIT_MS;

    while (len > 0) {
        struct pollfd ready = { .fd = fd, .events = POLLOUT };
        ssize_t n = send(fd, data, len, MSG_NOSIGNAL | MSG_DONTWAIT);

        if (n < 0 && errno != EAGAIN && errno != EINTR)
            return -errno;
        if (n < 0 && clock_now_ns() > end_ns)
            return -ETIMEDOUT;
        if (n < 0)
            (void)poll(&ready, 1, WAIT_MS);
        data += n < 0 ? 0 : n;
        len -= n < 0 ? 0 : (size_t)n;
    }
    return 0;
}

static int tell_rules(int gate_fd, const struct strv *rules, struct vial_error *err)
{
    struct frame f = { .type = GATE_ALLOW };
    uint8_t header[WIRE_HEADER];
    struct pack texts = { 0 }, whole = { 0 };
    int rc;

    pack_texts(&texts, rules->items, rules->count);
    f.len = (uint32_t)texts.len;
    frame_write_header(header, &f);
    pack_raw(&whole, header, sizeof(header));
    pack_raw(&whole, texts.data, texts.len);
    rc = texts.bad || whole.bad ? -ENOMEM : send_whole(gate_fd, whole.data, whole.len);
    pack_done(&texts);
    pack_done(&whole);
    return rc < 0 ? fail_sys_rc(err, rc, "tell the gate its rules") : 0;
}

int network_allow(const struct settings *settings, const struct plan *plan, int gate_fd,
                  const struct strv *entries, struct vial_error *err)
{
    auto_strv struct strv rules = { 0 };

    if (gate_fd < 0)
        return no_gate(err);
    if (gate_narrow(settings, &plan->gate, entries, &rules, err) < 0)
        return -1;
    return tell_rules(gate_fd, &rules, err);
}

/* One frame of NUMBERS, with the descriptor; the gate reads them one by one. */
static int hand_over(int gate_fd, uint8_t type, const uint32_t *numbers, size_t count,
                     int fd)
{
    struct frame f = { .type = type, .len = (uint32_t)(4 * count) };
    uint8_t bytes[WIRE_HEADER + 4 * NUMBERS_MAX];
    struct pack p = { .data = bytes + WIRE_HEADER, .cap = f.len, .lent = true };
    ssize_t n;

    frame_write_header(bytes, &f);
    for (size_t i = 0; i < count; i++)
        pack_u32(&p, numbers[i]);
    n = sys_send_fds(gate_fd, (struct iovec){ bytes, WIRE_HEADER + f.len }, &fd, 1,
                     MSG_DONTWAIT | MSG_NOSIGNAL);
    return n == (ssize_t)(WIRE_HEADER + f.len) ? 0 : n < 0 ? (int)n : -EAGAIN;
}

int network_join(struct vial_engine *e, const struct vessel *vessel, const char *caller,
                 struct network_place *out, struct vial_error *err)
{
    int rc;

    *out = (struct network_place){ .fd = -1 };
    if (vessel->gate_fd < 0 || !e->shares.enter)
        return 0;
    if (e->shares.enter(e->shares.context, caller, out, err) < 0)
        return -1;
    if (out->fd < 0)
        return 0;
    rc = hand_over(vessel->gate_fd, GATE_SHARE,
                   (const uint32_t[]){ out->place, out->taker }, 2, out->fd);
    if (rc == 0)
        return 0;
    network_leave(e, caller, out);
    return fail_sys_rc(err, rc, "tell the gate the caller's quota");
}

void network_leave(struct vial_engine *e, const char *caller,
                   struct network_place *place)
{
    if (e->shares.leave && place->fd >= 0)
        e->shares.leave(e->shares.context, caller, place);
    place->fd = -1;
}

int network_connect(int gate_fd, unsigned port, int *out, struct vial_error *err)
{
    int pair[2];
    int rc;

    if (gate_fd < 0)
        return no_gate(err);
    if (port == 0 || port > UINT16_MAX)
        return fail(err, VIAL_E_VALUE, "port %u is not from 1 to 65535", port);
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
        return fail_sys(err, "make a socket pair");
    rc = io_set_nonblocking(pair[1]);
    rc = rc < 0 ? rc
                : hand_over(gate_fd, GATE_PORT, &(const uint32_t){ port }, 1, pair[1]);
    (void)close(pair[1]);
    if (rc == 0)
        *out = pair[0];
    else
        (void)close(pair[0]);
    return rc < 0 ? fail_sys_rc(err, rc, "reach port %u of the vessel", port) : 0;
}
