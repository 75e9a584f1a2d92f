/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_WIRES_PISTON_CONNECT_H
#define VIAL_WIRES_PISTON_CONNECT_H

#include "serve/http_call.h"

/* Piston's /connect: one job over a WebSocket, with its input and signals live. */
void piston_connect(struct call *c);

#endif
