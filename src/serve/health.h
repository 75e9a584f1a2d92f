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

#include "keeper/front/start_keeper.h"

#include "vial/host.h"

struct serve;

struct health {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool going, ending;
    bool wanted;                /* somebody asks */
    unsigned looks;             /* so many were made */
    int64_t looked_ns;          /* when the last one ended */
    unsigned waiting;           /* for the next */
    struct vial_doctor *doctor; /* what was seen last, or NULL */
    bool keeper_answers;
    struct keeper_health keeper; /* if it answers */
    bool sessions_answer;        /* the daemon that has them, if it is another one */
    pthread_t thread;
};

int health_open(struct serve *s);
void health_close(struct serve *s);

/* Whether the driver that the settings ask for, or one that stands in for it, was there
 * when it was looked last: now, if that can be seen in a moment. *OUT, which may be
 * NULL, becomes an object with what was seen: "engine", "needed", "drivers", "keeper",
 * "sessions". */
bool health_see(struct serve *s, json_t **out);

#endif
