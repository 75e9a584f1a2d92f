/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_DRIVER_KUBERNETES_CHANNELS_H
#define VIAL_DRIVER_KUBERNETES_CHANNELS_H

/*
 * The client's half of v4.channel.k8s.io in a WebSocket (RFC 6455), without I/O: each
 * message's first byte is a channel, the rest its bytes. What comes is hostile.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum { CHANNEL_STDIN, CHANNEL_STDOUT };

#define CHANNELS_HEAD 14 /* of a frame with our mask, at most */

/* What has been read so far. Zero-initialised is the beginning. */
struct channels {
    uint8_t head[10];
    size_t head_len, head_want;
    uint64_t left;  /* bytes of the present frame */
    uint8_t opcode; /* of the present message */
    bool whole;     /* the present frame ends it */
    bool named;     /* its channel is known */
    uint8_t channel;
    uint8_t control;   /* the present frame's opcode, if it is none of a message */
    uint8_t ping[125]; /* its content */
    size_t ping_len;
    bool ponged; /* a ping waits for its answer */
    bool closed; /* the other side said goodbye */
};

/* Takes LEN bytes at DATA, of which only stdout's are left, at the beginning. How many
 * these are; -1: it makes no sense. */
ssize_t channels_take(struct channels *c, uint8_t *data, size_t len);

/* The head of a frame that carries LEN bytes, of OPCODE 2 (a message: LEN counts its
 * channel), 8 (the end), 9 or 10; and the mask's four bytes at its end. Its length. */
size_t channels_head(uint8_t out[CHANNELS_HEAD], uint8_t opcode, size_t len,
                     const uint8_t mask[4]);

/* Masks LEN bytes at DATA, which begin at OFFSET of the frame's content. */
void channels_mask(uint8_t *data, size_t len, size_t offset, const uint8_t mask[4]);

#endif
