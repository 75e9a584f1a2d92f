/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_WIRE_LINK_STATE_H
#define VIAL_WIRE_LINK_STATE_H

/*
 * Shared by link.c (the host speaks) and judge.c (the guest is judged).
 *
 * A channel lives in slot number % WIRE_MAX_CHANNELS; numbers whose slot is
 * taken are skipped, so that finding one is a single look. It ends with the
 * guest's EXIT, FAILED or DONE, also after the host has closed it: until then
 * what is under way from the guest is still judged, but not reported.
 */

#include "wire/frame.h"
#include "wire/link.h"

enum channel_kind {
    CHANNEL_FREE,
    CHANNEL_EXEC,
    CHANNEL_PUT,
    CHANNEL_GET,
    CHANNEL_LIST,
    CHANNEL_NAME,
    CHANNEL_WATCH
};

struct channel {
    uint32_t number;
    enum channel_kind kind;
    bool started;         /* exec: STARTED has come */
    bool sent_eof;        /* stream 0 */
    bool closed;          /* by the host; nothing is reported any more */
    bool got_eof[3];      /* streams 1 and 2 */
    uint32_t may_send;    /* credit left on stream 0 */
    uint32_t may_come[3]; /* credit the guest has left on streams 1 and 2 */
    uint32_t held[3];     /* given to the owner, not yet consumed */
    uint32_t owed[3];     /* consumed, not yet granted again */
};

struct link {
    struct link_events events;
    void *context;
    bool up, dead, jailed;
    bool root; /* the next channel's program is */
    bool grants_wait; /* some channel's `owed` waits for the buffer to drain */
    uint32_t last_channel;
    struct pack out;
    size_t out_head; /* bytes before it have been written */
    size_t partial_len;
    struct channel channels[WIRE_MAX_CHANNELS];
    uint8_t partial[WIRE_HEADER + WIRE_MAX_TO_HOST]; /* a frame not yet whole */
};

/* The live channel of that number, or NULL. */
struct channel *link_channel(struct link *l, uint32_t number);

#endif
