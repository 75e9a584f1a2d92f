/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_WIRES_GOJUDGE_WS_H
#define VIAL_WIRES_GOJUDGE_WS_H

#include "serve/http_call.h"

/* As there: a client is asked so often, and gone when it says nothing for so long. */
#define GOJUDGE_PING_MS 50000
#define GOJUDGE_PONG_MS 10000

/* go-judge's /ws: requests as messages, answered as they end. */
void gojudge_ws(struct call *c);

struct cmd_live;

/* Who tells the list of a request's results: a tree with stand-ins for BYTES bytes. */
struct gojudge_teller {
    void (*tell)(void *context, json_t *results, const struct json_larges *larges,
                 uint64_t bytes);
    void *context;
};

/* gojudge.c: runs a request, and tells TO. LIVE: for streams that its client has
 * meanwhile, or NULL. -1: it is at fault, or had no turn. */
int gojudge_run(struct call *c, json_t *body, int cancel_fd,
                const struct cmd_live *live, const struct gojudge_teller *to,
                struct vial_error *err);

#endif
