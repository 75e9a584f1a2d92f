/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_RELAY_RELAY_H
#define VIAL_RELAY_RELAY_H

/* clang-format off */
/*
 * The bytes of many connections over one socket between a guest and its gate. Both ends
 * are this code, around an epoll of their own; each channel has one local connection.
 *
 *   relay_init -> { relay_owns ? relay_event : owner's own events; relay_turn }* -> relay_done
 *
 * Frames are those of wire/frame.h, with the types below. Who opens a channel numbers it;
 * the guest's numbers are odd and the gate's even, and none comes twice. DATA flows only
 * within credit: RELAY_WINDOW bytes each way, granted again as the receiver's connection
 * takes them, and more to one that keeps taking, as long as there is some to spare. So one
 * that is not read holds up nobody else, and costs at most its window.
 *
 * A guest hands the connections that it accepts over (relay_hand_over), where the socket
 * between the two can carry them: then the gate moves their bytes alone, and what waits of
 * them has the same bounds.
 *
 * Neither end trusts the other. A frame that does not fit makes the relay `broken`.
 */
/* clang-format on */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "wire/frame.h"
#include "wire/pack.h"

#define RELAY_WINDOW  (64u << 10) /* at first */
#define RELAY_WIDEST  (1u << 20)  /* of a channel that takes all that comes */
#define RELAY_SPARE   (4u << 20)  /* of all channels together, beyond the first */
#define RELAY_CHUNK   (32u << 10) /* bytes of one DATA frame, at most */
#define RELAY_MAX     1024u       /* channels, at most */
#define RELAY_IN      (256u << 10)
#define RELAY_OUT     (256u << 10)
#define RELAY_PIECE   (256u << 10) /* bytes moved at once between two connections */
#define RELAY_HANDED  4
#define RELAY_OWN_TAG 16u /* the owner's tags of epoll begin here */

enum relay_type {
    RELAY_OPEN = 1, /* u32 port, text name ("" for one of the guest's own) */
    RELAY_DATA = 2,
    RELAY_EOF = 3,
    RELAY_CREDIT = 4,  /* u32 more bytes */
    RELAY_CLOSE = 5,   /* at once, both ways; late frames of it are passed over */
    RELAY_REFUSED = 6, /* to the gate, channel 0: text name, which is not allowed */
    RELAY_DIRECT = 7,  /* to the gate: as OPEN, with the guest's connection; the channel
                          has no other frames, in either direction */
};

/* What waits: LEN bytes from AT on, of CAP. */
struct relay_rest {
    uint8_t *data;
    size_t cap, at, len;
};

struct relay_end {
    int fd; /* -1: there is none yet, or it is behind the link */
    bool can_read, can_write, hung_up;
    bool ended;             /* it has no more to say */
    bool shut;              /* it was told that no more comes */
    struct relay_rest rest; /* for it */
};

struct relay_channel {
    uint32_t id;
    bool hold; /* what comes for our own waits, and `held` is told */
    bool gone; /* freed after this turn */
    struct relay_end own, other;
    uint32_t may_send, may_come, owed;
    uint32_t window;         /* what may be under way to us */
    uint64_t to_fd, from_fd; /* bytes of our own so far */
    void *user;              /* the owner's */
};

struct relay_events {
    /* The other end has opened CHANNEL; WHAT is its name. relay_attach it now or later,
     * or relay_close. */
    void (*opened)(void *context, struct relay_channel *channel, uint32_t port,
                   const char *name);
    /* It would have, but there are too many. */
    void (*crowded)(void *context, uint32_t port, const char *name);
    /* More lies in own.rest of a channel that is held, or that is all. */
    void (*held)(void *context, struct relay_channel *channel);
    /* It is over; RESET: not by both ends' own will. */
    void (*closed)(void *context, struct relay_channel *channel, bool reset);
    void (*refused)(void *context, const char *name);
};

struct relay {
    int link_fd, epoll_fd;
    bool is_gate; /* stops reading while the guest does not read */
    bool broken;  /* the other end is gone, or makes no sense */
    bool link_readable;
    bool left; /* the guest has gone; what programs have said still goes */
    unsigned last_turns;
    uint32_t last_theirs, next_ours;
    struct relay_channel *channels[RELAY_MAX];
    size_t count, most, turn;
    uint32_t spare; /* what windows may still grow by */
    uint8_t *piece; /* of direct channels, under way; NULL: there was none yet */
    int handed[RELAY_HANDED]; /* came with frames that have not been read whole */
    size_t handed_count;
    uint8_t *in, *out;
    size_t in_len, out_head, out_tail, out_cap;
    const struct relay_events *events;
    void *context;
};

/* LINK_FD and EPOLL_FD are the relay's from now on; non-blocking. -1 without memory. */
int relay_init(struct relay *r, int link_fd, bool is_gate, size_t most,
               const struct relay_events *events, void *context);
void relay_done(struct relay *r);

/* A new channel over FD, which is taken. NULL: there are too many, or no memory. */
struct relay_channel *relay_open(struct relay *r, int fd, uint32_t port,
                                 const char *name);
/* Likewise, of a guest: the gate has FD from now on; or it is a channel like others. */
void relay_hand_over(struct relay *r, int fd, uint32_t port, const char *name);
/* FD, which is taken, is CHANNEL's connection; it may still be connecting. */
void relay_attach(struct relay *r, struct relay_channel *channel, int fd);
/* What was held may go. */
void relay_release(struct relay *r, struct relay_channel *channel);
/* At once; the other end is told. */
void relay_close(struct relay *r, struct relay_channel *channel);
void relay_refuse_name(struct relay *r, const char *name);

/* An epoll event whose tag is below RELAY_OWN_TAG << 32. */
void relay_event(struct relay *r, uint64_t tag, uint32_t events);
/* Moves what can be moved. True: more can be, without waiting. */
bool relay_turn(struct relay *r);

/* How owners tag their own descriptors. */
static inline uint64_t relay_tag(uint32_t kind, uint32_t number)
{
    return (uint64_t)kind << 32 | number;
}
int relay_watch(const struct relay *r, int fd, uint32_t events, uint64_t tag);

#endif
