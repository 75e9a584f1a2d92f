/* SPDX-License-Identifier: Apache-2.0 */

/* Judges what the guest sends, frame by frame. Each judge returns NULL when the frame
 * fits, or what is wrong with it; a channel is given up before its last event is
 * reported, so that the owner may open another from there. */

#include <string.h>

#include "base/fail.h"
#include "wire/link_state.h"

#define TEXT_MAX  200
#define ERRNO_MAX 4095
#define CALL_MAX  8191 /* far above the last system call of any architecture */

static const char *const malformed = "it is malformed";

static const char *type_name(uint8_t type)
{
    static const char *const names[] = {
        [WIRE_HELLO] = "HELLO",   [WIRE_JAIL] = "JAIL",       [WIRE_EXEC] = "EXEC",
        [WIRE_DATA] = "DATA",     [WIRE_EOF] = "EOF",         [WIRE_CREDIT_] = "CREDIT",
        [WIRE_SIGNAL] = "SIGNAL", [WIRE_STARTED] = "STARTED", [WIRE_EXIT] = "EXIT",
        [WIRE_PUT] = "PUT",       [WIRE_GET] = "GET",         [WIRE_LIST] = "LIST",
        [WIRE_DONE] = "DONE",     [WIRE_FAILED] = "FAILED",   [WIRE_CLOSE] = "CLOSE",
        [WIRE_NAME] = "NAME",     [WIRE_RESIZE] = "RESIZE",   [WIRE_ADOPT] = "ADOPT",
        [WIRE_WATCH] = "WATCH",   [WIRE_STOP] = "STOP",       [WIRE_DENIED] = "DENIED",
        [WIRE_GATE] = "GATE",     [WIRE_HOLD] = "HOLD",       [WIRE_ROOT] = "ROOT",
    };

    return names[type]; /* frame_read knows only these */
}

static struct unpack unpack_of(const struct frame *f)
{
    return (struct unpack){ .data = f->payload, .len = f->len };
}

static const char *judge_hello(struct link *l, const struct frame *f)
{
    struct unpack u = unpack_of(f);
    uint32_t version = unpack_u32(&u);

    if (l->up)
        return "it came twice";
    if (f->channel || f->stream || !unpack_finished(&u))
        return malformed;
    if (version != WIRE_VERSION)
        return "the guest speaks another version; reinstall vial";
    l->up = true;
    return NULL;
}

static bool gives_output(const struct channel *c, int stream)
{
    if (c->kind == CHANNEL_EXEC)
        return c->started && (stream == 1 || stream == 2);
    return c->kind != CHANNEL_PUT && stream == 1;
}

static const char *judge_data(struct link *l, struct channel *c, const struct frame *f)
{
    if (!gives_output(c, f->stream))
        return "there is no such stream now";
    if (c->got_eof[f->stream])
        return "the stream has ended";
    if (!f->len)
        return "it is empty";
    if (f->len > c->may_come[f->stream])
        return "it exceeds its credit";
    c->may_come[f->stream] -= f->len;
    c->held[f->stream] += f->len;
    if (l->events.data && !c->closed)
        l->events.data(l->context, c->number, f->stream, f->payload, f->len);
    return NULL;
}

static void end_stream(struct link *l, struct channel *c, int stream)
{
    c->got_eof[stream] = true;
    if (l->events.eof && !c->closed)
        l->events.eof(l->context, c->number, stream);
}

static const char *judge_eof(struct link *l, struct channel *c, const struct frame *f)
{
    if (!gives_output(c, f->stream))
        return "there is no such stream now";
    if (c->got_eof[f->stream])
        return "the stream has ended";
    if (f->len)
        return malformed;
    end_stream(l, c, f->stream);
    return NULL;
}

static const char *judge_credit(struct link *l, struct channel *c,
                                const struct frame *f)
{
    struct unpack u = unpack_of(f);
    uint32_t more = unpack_u32(&u);

    if (f->stream || (c->kind != CHANNEL_EXEC && c->kind != CHANNEL_PUT))
        return "there is no such stream now";
    if (!unpack_finished(&u) || !more)
        return malformed;
    if (more > WIRE_CREDIT - c->may_send)
        return "it grants more than was sent";
    c->may_send += more;
    if (l->events.writable && link_writable(l, c->number))
        l->events.writable(l->context, c->number);
    return NULL;
}

static const char *judge_started(struct link *l, struct channel *c,
                                 const struct frame *f)
{
    struct unpack u = unpack_of(f);
    uint32_t pid = unpack_u32(&u);

    if (c->kind != CHANNEL_EXEC || c->started)
        return "nothing was to start";
    if (f->stream || !unpack_finished(&u) || !pid || pid > INT32_MAX)
        return malformed;
    c->started = true;
    if (l->events.started && !c->closed)
        l->events.started(l->context, c->number, pid);
    return NULL;
}

/* The owner sees the end of each stream before the end of its channel. The
 * channel may have been closed by the owner when this returns. */
static bool end_channel(struct link *l, struct channel *c)
{
    bool closed;

    for (int stream = 1; stream <= 2; stream++)
        if (gives_output(c, stream) && !c->got_eof[stream])
            end_stream(l, c, stream);
    closed = c->closed;
    c->kind = CHANNEL_FREE;
    return !closed;
}

static const char *judge_exit(struct link *l, struct channel *c, const struct frame *f)
{
    struct unpack u = unpack_of(f);
    struct exit_message m;

    if (c->kind != CHANNEL_EXEC || !c->started)
        return "nothing was running";
    if (f->stream || exit_read(&u, &m) < 0)
        return malformed;
    if (end_channel(l, c) && l->events.exited)
        l->events.exited(l->context, f->channel, &m);
    return NULL;
}

static const char *judge_failed(struct link *l, struct channel *c,
                                const struct frame *f)
{
    struct unpack u = unpack_of(f);
    uint32_t step = unpack_u32(&u);
    uint32_t error = unpack_u32(&u);

    if (c->kind != CHANNEL_EXEC || c->started)
        return "nothing was to start";
    if (f->stream || !unpack_finished(&u) || step < STEP_FORK || step > STEP_EXEC ||
        !error || error > ERRNO_MAX)
        return malformed;
    if (end_channel(l, c) && l->events.failed)
        l->events.failed(l->context, f->channel, step, (int)error);
    return NULL;
}

/* A claim, as all that the guest says of its programs; numbers are small. */
static const char *judge_denied(struct link *l, struct channel *c,
                                const struct frame *f)
{
    struct unpack u = unpack_of(f);
    uint32_t number = unpack_u32(&u);
    uint64_t count = unpack_u64(&u);

    if (c->kind != CHANNEL_EXEC || !c->started)
        return "nothing was running";
    if (f->stream || !unpack_finished(&u) || number > CALL_MAX || !count ||
        count > INT64_MAX)
        return malformed;
    if (l->events.denied && !c->closed)
        l->events.denied(l->context, c->number, number, count);
    return NULL;
}

/* The guest's words may end in a terminal: printable ASCII, and not many. */
static void copy_text(char *out, const uint8_t *text, size_t len)
{
    size_t n = len < TEXT_MAX ? len : TEXT_MAX;

    memcpy(out, text, n);
    out[n] = 0;
    for (size_t i = 0; i < n; i++)
        if (text[i] < 0x20 || text[i] >= 0x7f)
            out[i] = '?';
}

static const char *judge_done(struct link *l, struct channel *c, const struct frame *f)
{
    struct unpack u = unpack_of(f);
    uint32_t error = unpack_u32(&u);
    size_t len;
    const uint8_t *bytes = unpack_bytes(&u, &len);
    char text[TEXT_MAX + 1];

    if (c->kind == CHANNEL_EXEC)
        return "no file was under way";
    if (f->stream || !unpack_finished(&u) || error > ERRNO_MAX)
        return malformed;
    if (c->kind == CHANNEL_PUT && !error && !c->sent_eof && !c->closed)
        return "the file was not complete";
    copy_text(text, bytes, len);
    if (end_channel(l, c) && l->events.done)
        l->events.done(l->context, f->channel, (int)error, text);
    return NULL;
}

static const char *judge_channel(struct link *l, const struct frame *f)
{
    struct channel *c = link_channel(l, f->channel);

    if (!c)
        return "there is no such channel";
    switch (f->type) {
    case WIRE_DATA:
        return judge_data(l, c, f);
    case WIRE_EOF:
        return judge_eof(l, c, f);
    case WIRE_CREDIT_:
        return judge_credit(l, c, f);
    case WIRE_STARTED:
        return judge_started(l, c, f);
    case WIRE_EXIT:
        return judge_exit(l, c, f);
    case WIRE_FAILED:
        return judge_failed(l, c, f);
    case WIRE_DENIED:
        return judge_denied(l, c, f);
    case WIRE_DONE:
        return judge_done(l, c, f);
    default:
        return "only the host sends it";
    }
}

static int judge(struct link *l, const struct frame *f, struct vial_error *err)
{
    const char *wrong;

    if (f->type == WIRE_HELLO)
        wrong = judge_hello(l, f);
    else if (!l->up)
        wrong = "it came before HELLO";
    else
        wrong = judge_channel(l, f);
    if (!wrong)
        return 0;
    return fail(err, VIAL_E_GUEST, "guest frame '%s' on channel %u: %s",
                type_name(f->type), f->channel, wrong);
}

/* Moves what is missing of the partial frame, up to WANT bytes in all, from
 * *DATA. False when there is still less. */
static bool fill(struct link *l, size_t want, const uint8_t **data, size_t *len)
{
    size_t n = want > l->partial_len ? want - l->partial_len : 0;

    if (n > *len)
        n = *len;
    memcpy(l->partial + l->partial_len, *data, n);
    l->partial_len += n;
    *data += n;
    *len -= n;
    return l->partial_len >= want;
}

static int refuse_frame(struct vial_error *err)
{
    return fail(err, VIAL_E_GUEST, "read from the guest: this is not a frame");
}

/* Completes and judges the frame whose beginning came with an earlier feed. */
static int finish_partial(struct link *l, const uint8_t **data, size_t *len,
                          struct vial_error *err)
{
    struct frame f;
    long size;

    if (!fill(l, WIRE_HEADER, data, len))
        return 0;
    size = frame_read(l->partial, l->partial_len, WIRE_MAX_TO_HOST, &f);
    if (size < 0)
        return refuse_frame(err);
    if (!fill(l, WIRE_HEADER + f.len, data, len))
        return 0;
    l->partial_len = 0;
    return judge(l, &f, err);
}

static int feed(struct link *l, const uint8_t *data, size_t len, struct vial_error *err)
{
    if (l->partial_len && finish_partial(l, &data, &len, err) < 0)
        return -1;
    while (len) {
        struct frame f;
        long size = frame_read(data, len, WIRE_MAX_TO_HOST, &f);

        if (size < 0)
            return refuse_frame(err);
        if (size == 0) {
            (void)fill(l, sizeof l->partial, &data, &len);
            return 0;
        }
        if (judge(l, &f, err) < 0)
            return -1;
        data += size;
        len -= (size_t)size;
    }
    return 0;
}

int link_feed(struct link *l, const uint8_t *data, size_t len, struct vial_error *err)
{
    if (l->dead)
        return fail(err, VIAL_E_GUEST,
                    "read from the guest: it broke the protocol before");
    if (!len || feed(l, data, len, err) == 0)
        return 0;
    l->dead = true;
    return -1;
}
