/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_SERVE_PORTS_H
#define VIAL_SERVE_PORTS_H

/*
 * Ports of sessions, reached through the daemon: /v1/sessions/ID/ports/PORT/… is passed
 * on to the server that listens on PORT inside. Who may use the session may use its
 * ports; besides, each port has a token of its own, which is good for that port alone,
 * in the header X-Vial-Port-Token or the parameter vial_token. The daemon's own
 * credentials never reach the session.
 */

#include "serve/http_call.h"

/* Whether REQ is for a port of a session. */
bool port_concerns(const struct web_request *req);

/* The same, and it has a port's token, be it right or wrong. */
bool port_has_token(const struct web_request *req);

/* The caller whose session's port REQ is for, as its token says; NULL: it has none, or
 * a wrong one. */
struct caller *port_caller(struct serve *s, const struct web_request *req);

/* Answers a call for a port; false: it is for something else. */
bool port_answer(struct call *c);

#endif
