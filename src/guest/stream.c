/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "guest/guest.h"

/* To more bytes; the first are not ours to give back. */
static uint8_t *enlarge(struct guest *g, uint8_t *data, size_t used, size_t cap)
{
    bool first = data == g->room->in || data == g->room->out;
    uint8_t *larger = realloc(first ? NULL : data, cap);

    if (!larger)
        guest_end(g, 1);
    if (first)
        memcpy(larger, data, used);
    return larger;
}

static size_t unwritten(const struct guest *g)
{
    return g->out_tail - g->out_head;
}

bool stream_is_busy(const struct guest *g)
{
    return unwritten(g) > OUT_BUSY;
}

/* Makes room for LEN more bytes at the tail. */
static uint8_t *make_room(struct guest *g, size_t len)
{
    size_t cap = g->out_cap;

    if (g->out_cap - g->out_tail >= len)
        return g->out + g->out_tail;
    if (g->out_head) {
        memmove(g->out, g->out + g->out_head, unwritten(g));
        g->out_tail -= g->out_head;
        g->out_head = 0;
    }
    while (cap - g->out_tail < len)
        cap *= 2;
    if (cap != g->out_cap) {
        g->out = enlarge(g, g->out, g->out_tail, cap);
        g->out_cap = cap;
    }
    return g->out + g->out_tail;
}

void stream_flush(struct guest *g)
{
    while (unwritten(g)) {
        ssize_t n = write(g->out_fd, g->out + g->out_head, unwritten(g));

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno == EAGAIN)
            return;
        if (n <= 0)
            guest_end(g, 0);
        g->out_head += (size_t)n;
    }
    g->out_head = g->out_tail = 0;
}

void stream_put(struct guest *g, const struct job *j, enum wire_type type, int stream,
                const struct pack *payload)
{
    struct frame f = { .channel = j ? j->channel : 0,
                       .type = (uint8_t)type,
                       .stream = (uint8_t)stream,
                       .len = payload ? (uint32_t)payload->len : 0 };
    uint8_t *at;

    if (payload && payload->bad)
        guest_end(g, 1);
    at = make_room(g, WIRE_HEADER + f.len);
    frame_write_header(at, &f);
    if (f.len)
        memcpy(at + WIRE_HEADER, payload->data, f.len);
    g->out_tail += WIRE_HEADER + f.len;
}

uint8_t *stream_reserve(struct guest *g, size_t len)
{
    return stream_is_busy(g) ? NULL : make_room(g, WIRE_HEADER + len) + WIRE_HEADER;
}

void stream_commit(struct guest *g, struct job *j, int stream, size_t len)
{
    struct frame f = { .channel = j->channel,
                       .type = WIRE_DATA,
                       .stream = (uint8_t)stream,
                       .len = (uint32_t)len };

    frame_write_header(g->out + g->out_tail, &f);
    g->out_tail += WIRE_HEADER + len;
    j->may_send[stream] -= (uint32_t)len;
}

/* Hands every whole frame on, and keeps the rest. Returns how many bytes the
 * first unfinished frame needs in all. */
static size_t take_frames(struct guest *g)
{
    size_t at = 0;
    struct frame f = { 0 };
    long size;

    while ((size = frame_read(g->in + at, g->in_len - at, WIRE_MAX_TO_GUEST, &f)) > 0) {
        at += (size_t)size;
        g->in_next = at;
        host_frame(g, &f);
    }
    if (size < 0)
        guest_end(g, 1);
    g->in_len -= at;
    if (at && g->in_len)
        memmove(g->in, g->in + at, g->in_len);
    return g->in_len < WIRE_HEADER ? WIRE_HEADER : WIRE_HEADER + f.len;
}

bool stream_has_end(const struct guest *g, uint32_t channel)
{
    struct frame f = { 0 };
    long size;

    for (size_t at = g->in_next;
         (size = frame_read(g->in + at, g->in_len - at, WIRE_MAX_TO_GUEST, &f)) > 0 &&
         f.channel == channel;
         at += (size_t)size)
        if (f.type == WIRE_EOF)
            return true;
    return false;
}

static void grow_input(struct guest *g, size_t need)
{
    if (need < g->in_cap)
        return;
    g->in = enlarge(g, g->in, g->in_len, need + READ_AT_ONCE);
    g->in_cap = need + READ_AT_ONCE;
}

/* A descriptor may come with what is read, where the stream can carry one. */
static ssize_t receive(struct guest *g, uint8_t *data, size_t size)
{
    _Alignas(struct cmsghdr) char room[CMSG_SPACE(sizeof(int))];
    struct iovec iov = { data, size };
    struct msghdr message = { .msg_iov = &iov,
                              .msg_iovlen = 1,
                              .msg_control = room,
                              .msg_controllen = sizeof room };
    const struct cmsghdr *c;
    ssize_t n;

    if (g->in_is_pipe)
        return read(g->in_fd, data, size);
    n = recvmsg(g->in_fd, &message, MSG_CMSG_CLOEXEC);
    if (n < 0 && errno == ENOTSOCK) {
        g->in_is_pipe = true;
        return read(g->in_fd, data, size);
    }
    c = n < 0 ? NULL : CMSG_FIRSTHDR(&message);
    if (c && c->cmsg_type == SCM_RIGHTS)
        memcpy(&g->came_fd, CMSG_DATA(c), sizeof g->came_fd);
    return n;
}

/* A program that came together with its files: who waits for it can get ready for it
 * while they are written. */
static void foresee(struct guest *g)
{
    struct frame f = { 0 };
    long size;

    for (size_t at = 0;
         adopt_waits(g) &&
         (size = frame_read(g->in + at, g->in_len - at, WIRE_MAX_TO_GUEST, &f)) > 0;
         at += (size_t)size)
        if (f.type == WIRE_EXEC) {
            adopt_tell(g, &f);
            return;
        }
}

void stream_read(struct guest *g)
{
    ssize_t n;

    grow_input(g, WIRE_HEADER);
    n = receive(g, g->in + g->in_len, g->in_cap - g->in_len);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n <= 0)
        guest_end(g, 0);
    g->in_len += (size_t)n;
    foresee(g);
    grow_input(g, take_frames(g));
}
