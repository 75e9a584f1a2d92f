/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_SERVE_AGENT_H
#define VIAL_SERVE_AGENT_H

/*
 * Tells a proxy how much of this daemon is free, as HAProxy's agent-check asks for it:
 * whoever connects hears "ready 75%" or "drain" and is hung up on. Nothing is read, so
 * there is nothing to send that could do harm. A thread of its own says it.
 *
 *   agent_bind -> agent_open -> agent_close
 */

#include <pthread.h>

#include "serve/service.h"

struct agent {
    struct serve *serve; /* borrowed */
    int fd;              /* -1: nobody asked for one */
    int stop_fd;         /* readable: end; -1: there is no thread */
    pthread_t thread;
};

/* Before privileges are dropped. Without the setting nothing is done, here and below.
 */
int agent_bind(struct agent *a, const struct serve_settings *s, struct vial_error *err);
int agent_open(struct agent *a, struct serve *serve, struct vial_error *err);
void agent_close(struct agent *a);

#endif
