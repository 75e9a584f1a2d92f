/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_MCP_PULSE_H
#define VIAL_MCP_PULSE_H

/*
 * A beat every so often while somebody works, from a thread of its own:
 *
 *   pulse_start -> { beat }* -> pulse_stop
 *
 * No beat is under way when pulse_stop has returned.
 */

#include <pthread.h>
#include <stdbool.h>

struct pulse {
    void (*beat)(void *context);
    void *context;
    unsigned every_ms;

    pthread_t thread;
    bool started;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool stopped;
};

/* BEAT, CONTEXT and EVERY_MS are set. Without a thread for it there is no beat. */
void pulse_start(struct pulse *p);
void pulse_stop(struct pulse *p);

#endif
