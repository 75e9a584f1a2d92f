/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_SERVE_FRONT_H
#define VIAL_SERVE_FRONT_H

/* The listening sockets and their HTTP servers. */

#include "serve/listen.h"
#include "serve/service.h"

struct front {
    struct serve *serve; /* borrowed */
    struct listener listeners[SERVE_LISTENERS];
    struct web *webs[SERVE_LISTENERS];
    size_t count;
    bool inherited;        /* they are systemd's, and not those of the settings */
    struct blob cert, key; /* for TCP; empty: no TLS */
    struct web *retired[SERVE_LISTENERS]; /* what a reload replaced */
    int64_t retired_until_ns;             /* 0: there is none */
};

/* Binds all addresses, or takes those that systemd bound, and reads the certificate.
 * Before privileges are dropped. */
int front_bind(struct front *f, const struct serve_settings *s, struct vial_error *err);

/* Answers from now on. */
int front_open(struct front *f, struct serve *serve, struct vial_error *err);
/* The same sockets with new settings and certificates. Requests under way go on, and
 * who is connected may still ask: front_settle is to be called until it is done. The
 * next call ends what this one has left under way. */
int front_reopen(struct front *f, struct vial_error *err);
/* Closes what was replaced when nobody is connected to it, or time is over; false: not
 * yet. */
bool front_settle(struct front *f);

void front_drain(struct front *f);
unsigned front_busy(const struct front *f); /* handlers that run */
void front_close(struct front *f);

#endif
