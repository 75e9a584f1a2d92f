/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_WEB_FORWARD_H
#define VIAL_WEB_FORWARD_H

/*
 * A request passed on to another HTTP server, and its answer to the client. That server
 * is not trusted, and neither side can speak to the other but by this one exchange:
 * both heads are written anew, the connection to the server serves one request, and
 * what belongs to a connection (RFC 9110, 7.6.1) stays behind. An answer goes on as it
 * comes, and waits while the client does not take it.
 *
 * The server can do nothing to pages of ours: browsers give what it sends no origin at
 * all (CSP: sandbox), it has no cookies, and headers that speak for a whole origin are
 * left out. Where it has an origin of its own, it keeps that: its cookies, which are
 * for this one host, and what it says of itself.
 */

#include "web/web.h"

struct web_forward {
    int fd;             /* connected to the server; borrowed */
    const char *target; /* what it is asked for: a path, and a query */
    const char *host;   /* how it is called */
    const char *prefix; /* of the client's paths, in front of the server's; or "" */
    bool own_origin;    /* the client's Host is the server's alone, and is told to it */
    bool ours;        /* another daemon of ours: trusted, and waited for without end */
    const char *mark; /* a header that an answer of `ours` has, for us alone; or NULL */
    const char *const *added; /* headers of ours, name, value, name, value …; the
                                 client's of these names stay behind. Or NULL */
    const char *const *kept;  /* headers of the request that it must not see; or NULL */
    void (*used)(void *context); /* as in base/two_way.h */
    void *context;
};

/* 0: it was answered, with *STATUS. -1: it was not, and ERR says why the server could
 * not: VIAL-PORT. WebSockets are passed on, too, and bytes to `ours` (Upgrade: tcp); no
 * other upgrade is. */
int web_forward(struct web_request *req, const struct web_forward *how,
                unsigned *status, struct vial_error *err);

#endif
