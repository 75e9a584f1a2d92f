/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_WEB_RAW_H
#define VIAL_WEB_RAW_H

/*
 * A request's connection, for a handler that speaks another protocol from here on.
 *
 *   web_raw_open -> { read and write at web_raw_fd } -> web_raw_close
 */

#include "web/web.h"

struct web_raw;

/* Answers 101 with PROTOCOL and the headers that were set. NULL: the client has gone,
 * or there is no memory. */
struct web_raw *web_raw_open(struct web_request *req, const char *protocol);
int web_raw_fd(const struct web_raw *raw); /* non-blocking use only */
int web_raw_ending(
    const struct web_raw *raw); /* readable: the server is being closed */
/* What the client had sent behind its head. */
const char *web_raw_first(const struct web_raw *raw, size_t *len);
void web_raw_close(struct web_raw *raw);

#endif
