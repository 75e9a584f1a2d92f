/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_SERVE_CORS_H
#define VIAL_SERVE_CORS_H

/*
 * Pages of other origins. A browser hands a page what this daemon answers only if the
 * answer names the page's origin, and asks first ("preflight") whether it may send what
 * is not simple. Both are told of origins that the setting `origins` names, and of no
 * others. Who asks is not found out by this: a token is, and it is said in headers that
 * no browser adds by itself, so that credentials are never allowed.
 *
 * Ports of sessions are left out: what listens in a vessel speaks for itself.
 */

#include "serve/http_call.h"

/* The origin of the page by which REQ comes, if it may read the answer; else NULL. */
const char *cors_origin(const struct auth *a, const struct web_request *req);

/* Has C's answer say which page may read it. */
void cors_allow(struct call *c);

/* Does the same unless another daemon will, and answers a browser that asks first;
 * true: C was answered. It takes no caller and tells nothing of paths. */
bool cors_answer(struct call *c);

#endif
