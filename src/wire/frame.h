/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_WIRE_FRAME_H
#define VIAL_WIRE_FRAME_H

/*
 * Frames between host and guest, over any byte stream. Pure: no system calls,
 * no allocation. Little-endian header of 12 bytes:
 *
 *   u32 channel | u8 type | u8 stream | u16 zero | u32 length | payload
 *
 * Channel 0 is the vessel itself; execs and file transfers each have a channel
 * of their own, numbered by the host, never reused in the life of a stream.
 * DATA flows only within credit: each direction of each (channel, stream)
 * starts with WIRE_CREDIT bytes, and the receiver grants more as it consumes.
 */

#include <stddef.h>
#include <stdint.h>

#define WIRE_VERSION      6u
#define WIRE_HEADER       12u
#define WIRE_MAX_TO_GUEST (4u << 20) /* an exec's argv and env, a jail's filters */
#define WIRE_MAX_TO_HOST  (64u << 10)
#define WIRE_CREDIT       (256u << 10)
#define WIRE_MAX_CHANNELS 256u /* alive at once */

enum wire_type {
    WIRE_HELLO = 1,   /* both: u32 version */
    WIRE_JAIL = 2,    /* to guest, once, before any exec: how to confine programs */
    WIRE_EXEC = 3,    /* to guest: opens a channel */
    WIRE_DATA = 4,    /* both: bytes of a stream (0 in, 1 out, 2 err) */
    WIRE_EOF = 5,     /* both: no more DATA on this stream */
    WIRE_CREDIT_ = 6, /* both: u32 more bytes may be sent on this stream */
    WIRE_SIGNAL = 7,  /* to guest: u32 signal, u32 1 for the exec's whole tree */
    WIRE_STARTED = 8, /* to host: u32 pid; the exec's program is running */
    WIRE_EXIT = 9,    /* to host: how it ended; after both streams' EOF or cut-off */
    WIRE_PUT = 10,    /* to guest: opens a channel; DATA on stream 0, EOF, then DONE */
    WIRE_GET = 11,    /* to guest: opens a channel; DATA on stream 1, EOF, then DONE */
    WIRE_LIST = 12,   /* to guest: likewise; DATA holds packed entries */
    WIRE_DONE = 13,   /* to host: u32 errno (0: good) and a text; ends PUT/GET/LIST */
    WIRE_FAILED = 14, /* to host: exec could not start: u32 step, u32 errno */
    WIRE_CLOSE = 15,  /* to guest: end the channel, killing what runs on it; the
                         guest still ends it with EXIT, FAILED or DONE */
    WIRE_NAME = 16,   /* to guest: stat, mkdir, move, remove; a stat gives one packed
                         entry as DATA on stream 1 and EOF; all end with DONE */
    WIRE_RESIZE = 17, /* to guest: u32 rows << 16 | columns, for an exec's terminal */
    WIRE_ADOPT = 18,  /* to guest, with a descriptor: u32 pid of a process that waits
                         at its other end to become the next exec's program */
    WIRE_WATCH = 19,  /* to guest: opens a channel; DATA on stream 1 holds packed
                         events, until it is closed; ends with DONE */
    WIRE_STOP = 20,   /* to guest, on channel 0: SIGTERM to all programs; the guest ends
                         once none is left */
    WIRE_DENIED = 21, /* to host: u32 number of a system call, u64 how often an exec's
                         program was refused it */
    WIRE_GATE = 22,   /* to guest, before HELLO, with a descriptor that leads to its
                         gate: texts allow and deny, u32 connections at once */
    WIRE_HOLD = 23,   /* to guest: opens a channel; u32 1: programs' time stands still
                         from now on, 0: it goes on; ends with DONE */
    WIRE_ROOT = 24    /* to guest, before the EXEC that opens its channel: the program
                         is root, where the jail lets programs become that */
};

struct frame {
    uint32_t channel;
    uint8_t type;
    uint8_t stream;
    uint32_t len;
    const uint8_t *payload; /* borrowed from the buffer it was read from */
};

/* Writes the header of F into BUF (WIRE_HEADER bytes). */
void frame_write_header(uint8_t *buf, const struct frame *f);

/* Looks at LEN bytes at BUF. Returns the size of the first whole frame (F then
 * points into BUF), 0 when more bytes are needed, -1 when this can never be a
 * frame: reserved bits set, length over MAX, unknown type. */
long frame_read(const uint8_t *buf, size_t len, uint32_t max, struct frame *f);

#endif
