/* SPDX-License-Identifier: Apache-2.0 */

/* How much a vessel may reach in all (struct gate_limits), and its caller with all
 * vessels (base/network_share.h). What a program makes counts,
 * not what comes to one of its ports. Bytes are looked at once a turn, so that a little
 * more may have passed than the limit says: at most what one turn moves. */

#include "gate/gate.h"

#define MINUTE_NS 60e9

void limits_start(struct gate *g)
{
    g->used.left = (double)g->config.limits.per_minute;
    g->used.filled_ns = now_ns();
}

static void refill(struct used *u, double per_minute)
{
    uint64_t now = now_ns();

    u->left += (double)(now - u->filled_ns) / MINUTE_NS * per_minute;
    u->left = u->left < per_minute ? u->left : per_minute;
    u->filled_ns = now;
}

/* Whether a minute, and all minutes, leave one more; LIMIT 0 is none. */
static bool leaves_one(struct gate *g)
{
    const struct gate_limits *most = &g->config.limits;

    if (most->connections && g->used.connections >= most->connections)
        return false;
    if (!most->per_minute)
        return true;
    refill(&g->used, (double)most->per_minute);
    return g->used.left >= 1;
}

static void sum_up(const struct gate *g, uint64_t *in, uint64_t *out)
{
    *in = g->used.bytes_in;
    *out = g->used.bytes_out;
    for (const struct connection *c = g->connections; c; c = c->next) {
        *in += c->incoming ? 0 : c->channel->from_fd;
        *out += c->incoming ? 0 : c->channel->to_fd;
    }
}

static bool is_reached(const struct gate *g, uint64_t in, uint64_t out)
{
    const struct gate_limits *most = &g->config.limits;

    return (most->bytes_in && in > most->bytes_in) ||
           (most->bytes_out && out > most->bytes_out);
}

enum gate_verdict limits_turn(struct gate *g)
{
    const struct gate_limits *most = &g->config.limits;
    struct used *u = &g->used;
    uint64_t in, out, now;

    if (!most->bytes_in && !most->bytes_out && !u->hold.share)
        return GATE_OK;
    sum_up(g, &in, &out);
    if (u->hold.share) {
        now = now_ns();
        network_hold_pay(&u->hold, NETWORK_IN, in - u->paid_in, now);
        network_hold_pay(&u->hold, NETWORK_OUT, out - u->paid_out, now);
        u->paid_in = in;
        u->paid_out = out;
        if (network_hold_spent(&u->hold, now))
            return GATE_QUOTA;
    }
    return is_reached(g, in, out) ? GATE_LIMIT : GATE_OK;
}

enum gate_verdict limits_let(struct gate *g)
{
    enum gate_verdict bytes = limits_turn(g);

    if (bytes != GATE_OK)
        return bytes;
    if (!leaves_one(g) && !weaken("gate_limits"))
        return GATE_LIMIT;
    if (!network_hold_connection(&g->used.hold, now_ns()))
        return GATE_QUOTA;
    g->used.connections++;
    g->used.left -= 1;
    return GATE_OK;
}

/* Whoever opened us says it before the vessel's first program. What cannot be counted
 * is not let out. */
void limits_join(struct gate *g, int fd, uint32_t place, uint32_t taker)
{
    if (!network_hold_map(&g->used.hold, fd, place, taker))
        g->owner_gone = true;
}

void limits_count(struct gate *g, uint64_t in, uint64_t out)
{
    g->used.bytes_in += in;
    g->used.bytes_out += out;
}
