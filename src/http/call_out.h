/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_HTTP_CALL_OUT_H
#define VIAL_HTTP_CALL_OUT_H

/*
 * A process that connects for the daemon, which cannot itself: vial-tls, started with a
 * list of whom it may call (out_rules.h), before the daemon gives up its rights. It has
 * none either. Each connection is a child of its, which lives for the time of one call.
 *
 * It is asked by one message with two descriptors: a stream for the connection's bytes,
 * and a pipe for what became of it.
 */

#include <stdbool.h>
#include <stdint.h>

#define CALL_OUT_FD 3 /* where it finds the socket that it is asked over */

struct call_out_message {
    char host[256], port[8];
    int32_t timeout_ms; /* of the whole call */
    bool tls;
};

/* call_out.c: until nobody can ask any more. */
int call_out_serve(char *const *rules);

/* vial-tls.c: makes a connection as M says, to where RULES let it, gives up what it
 * does not need any more, and moves bytes until it ends. In a process of its own, with
 * the descriptors of vial-tls at their places. */
struct out_rules;
int call_out_make(const struct call_out_message *m, const struct out_rules *rules);

#endif
