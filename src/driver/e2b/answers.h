/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_DRIVER_E2B_ANSWERS_H
#define VIAL_DRIVER_E2B_ANSWERS_H

/*
 * What an E2B service answers, without any I/O. The service is not trusted: all that
 * becomes part of a later call, a path or a message is judged here.
 */

#include <jansson.h>

#include "driver/e2b/calls.h"

#include "vial/error.h"

/* By which a sandbox can be ended, whatever else the answer says. -1: OUT is "". */
int e2b_read_id(json_t *answer, char out[E2B_ID + 1], struct vial_error *err);
/* OUT->id is as e2b_read_id leaves it, also with -1. */
int e2b_read_box(json_t *answer, struct e2b_box *out, struct vial_error *err);

/* The directory in which a file that was brought is: the user's home. OUT holds
 * E2B_PATH bytes. */
#define E2B_PATH 512
int e2b_read_home(json_t *answer, const char *name, char *out, struct vial_error *err);

/* One thing that a stream of a program's events tells. */
struct e2b_event {
    enum { EVENT_OTHER, EVENT_START, EVENT_OUT, EVENT_ERR, EVENT_END } kind;
    uint32_t pid;     /* of EVENT_START */
    struct blob data; /* of EVENT_OUT and EVENT_ERR; owned */
    char status[64];  /* of EVENT_END: "exit status 1"; safe to show */
};

/* A stream is frames: taken apart as they arrive. Zero-initialised is a new one. */
#define E2B_FRAME_MAX (4u << 20)
struct e2b_frames {
    struct str held; /* of the frame that is not whole */
    bool over;       /* the last has come */
};

/* EVENT is TAKE's for the time of the call. 0, or -1 to give up. */
typedef int e2b_take(void *context, const struct e2b_event *event,
                     struct vial_error *err);

/* -1 as well when the last frame says that the call went wrong. */
int e2b_feed(struct e2b_frames *f, const char *data, size_t len, e2b_take *take,
             void *context, struct vial_error *err);

#endif
