/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_SERVE_HEALTH_H
#define VIAL_SERVE_HEALTH_H

/*
 * Whether vessels can be opened now. To look asks drivers, an engine and the keeper,
 * which may take long or not answer; so a thread looks, whenever someone asks, and who
 * asks hears what it saw last. However many ask, it looks four times a second.
 */

#include <jansson.h>
#include <pthread.h>
#include <stdbool.h>

struct serve;

struct health {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool going, ending;
    bool wanted;       /* somebody asks */
    unsigned looks;    /* so many were made */
    int64_t looked_ns; /* when the last one ended */
    unsigned waiting;  /* for the next */
    json_t *doctor;    /* what was seen last, or NULL */
    json_t *keeper;
    pthread_t thread;
};

int health_open(struct serve *s);
void health_close(struct serve *s);

/* What was seen last: of now, if that can be seen in a moment. New references, or NULL:
 * nothing was seen yet. */
void health_see(struct serve *s, json_t **doctor, json_t **keeper);

#endif
