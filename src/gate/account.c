/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "gate/gate.h"

#define TELL_MS 2000 /* for an owner who does not read */

/* A refusal of the same name and port again is one more of the same. */
static struct gate_record *find_refusal(struct gate_account *a, const char *name,
                                        uint16_t port, uint32_t verdict)
{
    for (size_t i = 0; i < a->count; i++)
        if (a->records[i].verdict == verdict && a->records[i].port == port &&
            strcmp(a->records[i].name, name) == 0)
            return &a->records[i];
    return NULL;
}

/* Those who visit a port of the vessel take a quarter of the places: where programs
 * went stays to be seen. */
static bool has_place(const struct gate_account *a, bool incoming)
{
    size_t visits = 0;

    for (size_t i = 0; incoming && i < a->count; i++)
        visits += a->records[i].incoming;
    return a->count < GATE_RECORDS_MAX && visits < GATE_RECORDS_MAX / 4;
}

static struct gate_record *add(struct gate_account *a, const char *name, uint16_t port,
                               uint32_t verdict, bool incoming)
{
    struct gate_record *r =
        verdict == GATE_OK ? NULL : find_refusal(a, name, port, verdict);

    if (verdict == GATE_OK)
        a->connections++;
    else
        a->refused++;
    a->limited = a->limited || verdict == GATE_LIMIT || verdict == GATE_QUOTA;
    a->over_quota += verdict == GATE_QUOTA;
    if (!r && has_place(a, incoming)) {
        r = &a->records[a->count++];
        *r = (struct gate_record){ .port = port,
                                   .verdict = verdict,
                                   .incoming = incoming };
        (void)snprintf(r->name, sizeof r->name, "%s", name);
    }
    if (!r)
        a->left_out++;
    else
        r->times++;
    return r;
}

void account_add(struct gate *g, const struct connection *c, uint64_t in, uint64_t out)
{
    struct gate_account *a = &g->account;
    struct gate_record *r = add(a, c->name, c->port, c->verdict, c->incoming);

    a->bytes_in += in;
    a->bytes_out += out;
    if (!r)
        return;
    r->bytes_in += in;
    r->bytes_out += out;
    r->ms = (now_ns() - c->started_ns) / 1000000;
}

/* The guest's word: a name is shown as it came only if a host can have it. */
void account_refused(struct gate *g, const char *name)
{
    size_t len = strlen(name);

    (void)add(&g->account, name_is_host(name, len) ? name : "?", 0, GATE_DENIED, false);
}

static void write_whole(int fd, const uint8_t *data, size_t len)
{
    while (len) {
        struct pollfd ready = { .fd = fd, .events = POLLOUT };
        ssize_t n = send(fd, data, len, MSG_NOSIGNAL | MSG_DONTWAIT);

        if (n < 0 && errno != EAGAIN && errno != EINTR)
            return;
        if (n < 0 && poll(&ready, 1, TELL_MS) != 1)
            return;
        data += n < 0 ? 0 : n;
        len -= n < 0 ? 0 : (size_t)n;
    }
}

/* Connections that are still open are told when they end. */
void account_tell(struct gate *g)
{
    struct frame f = { .type = GATE_ACCOUNT };
    uint8_t header[WIRE_HEADER];
    struct pack p = { 0 };

    gate_account_write(&p, &g->account);
    g->account = (struct gate_account){ 0 };
    f.len = (uint32_t)p.len;
    frame_write_header(header, &f);
    if (!p.bad) {
        write_whole(GATE_OWNER_FD, header, sizeof header);
        write_whole(GATE_OWNER_FD, p.data, p.len);
    }
    pack_done(&p);
}
