/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_WIRES_GOJUDGE_STREAM_H
#define VIAL_WIRES_GOJUDGE_STREAM_H

/*
 * go-judge's `/stream`: one request over a WebSocket, whose commands are written to and
 * heard while they run. Messages begin with a byte that says what they are:
 *
 *   from the client   1 the request as JSON, first; 3 a byte (command << 4 | stream)
 * and input, none ends it; 4 cancel; 2 a terminal's size, which none has to the client
 * 2 such a byte and output; 1 the results as JSON, last
 */

#include "serve/route.h"

void gojudge_stream(struct call *c);

#endif
