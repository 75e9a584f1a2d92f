/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_TESTS_TWO_ENDS_H
#define VIAL_TESTS_TWO_ENDS_H

/* A connection of HTTP/2 without its TLS: what its ends say is put into their sides,
 * and what they are told is taken out. */

#include "fuzz_held.h"

struct two_ends {
    struct held *held;
    struct exchange e;
};

static inline void two_ends_open(struct two_ends *t)
{
    *t = (struct two_ends){ .held = hold() };
    t->e.held = t->held;
    t->e.to = (struct place){ HOST, 443 };
    t->e.max_response = 4000;
    t->e.client.fd = t->e.server.fd = -1;
    t->e.client.ready = t->e.server.ready = true;
    t->e.client.in = malloc(IN_MAX);
    t->e.server.in = malloc(IN_MAX);
    MUST(t->e.client.in && t->e.server.in);
    t->e.two = http2_new(&t->e);
    MUST(t->e.two);
}

/* How much of it there is room for. */
static inline size_t two_ends_put(struct side *s, const void *data, size_t len)
{
    size_t room = IN_MAX - s->in_len;

    len = len < room ? len : room;
    if (len)
        memcpy(s->in + s->in_len, data, len);
    s->in_len += len;
    return len;
}

static inline void two_ends_taken(struct side *s)
{
    s->out_at = s->out_len = 0;
}

static inline void two_ends_close(struct two_ends *t)
{
    http2_free(t->e.two);
    side_done(&t->e.client);
    side_done(&t->e.server);
    let_go(t->held);
}

#endif
