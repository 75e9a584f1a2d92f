/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_SERVE_FRONT_H
#define VIAL_SERVE_FRONT_H

/* The listening sockets and their HTTP servers. */

#include "serve/listen.h"
#include "serve/service.h"

#define RETIRED_MOST (2 * SERVE_LISTENERS)

/* A server that a reload replaced. */
struct retired {
    struct web *web; /* NULL: none */
    int64_t until_ns;
};

struct front {
    struct serve *serve; /* borrowed */
    struct listener listeners[SERVE_LISTENERS];
    struct web *webs[SERVE_LISTENERS];
    size_t count;
    bool inherited;        /* they are systemd's, and not those of the settings */
    struct blob cert, key; /* for TCP; empty: no TLS */
    struct retired retired[RETIRED_MOST];
};

/* Binds all addresses, or takes those that systemd bound, and reads the certificate.
 * Before privileges are dropped. */
int front_bind(struct front *f, const struct serve_settings *s, struct vial_error *err);

/* Answers from now on. */
int front_open(struct front *f, struct serve *serve, struct vial_error *err);
/* The same sockets with new settings and certificates. Requests under way go on, and
 * who is connected may still ask: front_settle is to be called until it is done. When
 * too many have been replaced, what runs in the oldest ends. */
int front_reopen(struct front *f, struct vial_error *err);
/* Closes what was replaced when nobody is connected to it, or time is over; false: not
 * yet. */
bool front_settle(struct front *f);

void front_drain(struct front *f);
unsigned front_busy(const struct front *f); /* handlers that run */
void front_close(struct front *f);

#endif
