/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_SERVE_SESSIONS_AT_H
#define VIAL_SERVE_SESSIONS_AT_H

/*
 * Sessions that another daemon of this host has (the setting `sessions_at`): requests
 * about them are passed on to it, so that they outlive this daemon (docs/adr/0107).
 *
 *   client -> this daemon: who asks, and may they? -> unix socket, below
 *   SESSIONS_PATH, with the caller's name -> the daemon of the sessions, which knows
 *   this daemon's user (`sessions_for`) and what that caller may do
 */

#include "serve/http_call.h"

#define SESSIONS_PATH "/passed/1"   /* the number is the protocol's */
#define SESSIONS_MARK "Vial-Passed" /* in answers to what came below that */

/* Takes from S's settings where they are, if they are not here. */
void sessions_at_load(struct serve *s);

/* Whether REQ is passed on. */
bool sessions_at_concerns(const struct serve *s, const struct web_request *req);

/* Whose share a request counts for that has a port's token: only the daemon of the
 * sessions knows whose it is. NULL: it has none, or is not passed on. */
struct caller *sessions_at_caller(struct serve *s, const struct quota *quota,
                                  const struct web_request *req);

/* Answers a call that is passed on; false: it is answered here. */
bool sessions_at_answer(struct call *c);

/* Whether somebody listens there. */
bool sessions_at_answers(const struct serve *s);

#endif
