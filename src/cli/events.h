/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_CLI_EVENTS_H
#define VIAL_CLI_EVENTS_H

/* A stream of events, one JSON object a line, taken apart as it comes. */

#include <jansson.h>

#include "base/str.h"

#include "vial/error.h"

struct events {
    struct str line;
    /* Each event; a return other than 0 ends it, with ERR filled. */
    int (*see)(void *context, const char *event, json_t *object,
               struct vial_error *err);
    void *context;
};

/* For http_stream and daemon_stream; CONTEXT is a struct events. */
int events_take(void *context, const char *data, size_t len, struct vial_error *err);
void events_done(struct events *e);
#define auto_events __attribute__((cleanup(events_done)))

/* The bytes of an event of output: 1 for stdout, 2 for stderr, 0: it is none. OUT is
 * the caller's to release. */
int events_output(const char *event, json_t *object, struct blob *out);

#endif
