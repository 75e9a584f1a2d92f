/* SPDX-License-Identifier: Apache-2.0 */

/* How much a vessel may reach in all (struct gate_limits). What a program makes counts,
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

bool limits_let(struct gate *g)
{
    if (!leaves_one(g) || limits_reached(g))
        return false;
    g->used.connections++;
    g->used.left -= 1;
    return true;
}

void limits_count(struct gate *g, uint64_t in, uint64_t out)
{
    g->used.bytes_in += in;
    g->used.bytes_out += out;
}

bool limits_reached(const struct gate *g)
{
    const struct gate_limits *most = &g->config.limits;
    uint64_t in = g->used.bytes_in, out = g->used.bytes_out;

    if (!most->bytes_in && !most->bytes_out)
        return false;
    for (const struct connection *c = g->connections; c; c = c->next) {
        in += c->incoming ? 0 : c->channel->from_fd;
        out += c->incoming ? 0 : c->channel->to_fd;
    }
    return (most->bytes_in && in > most->bytes_in) ||
           (most->bytes_out && out > most->bytes_out);
}
