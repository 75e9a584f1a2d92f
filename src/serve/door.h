/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_SERVE_DOOR_H
#define VIAL_SERVE_DOOR_H

/*
 * The door decides who comes in: a request's head says who asks, before any of its body
 * is taken, and what callers take of the server is their share of the gate's. /healthz
 * and /readyz have threads that no caller can occupy.
 */

#include "serve/service.h"

/* For every listener; its context is the struct serve. */
extern const struct web_door serve_door;

/* How much there is to share. */
void door_set(struct serve *s, const struct serve_settings *c);

/* So many handlers at once, of all listeners and callers together. */
#define DOOR_HANDLERS 1800u
/* Questions for volumes at once: no more than the keeper answers. */
#define DOOR_VOLUMES 16u

/* As many connections as there are descriptors for. */
unsigned door_connections(const struct serve_settings *c);

#endif
