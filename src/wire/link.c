/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/link.h"

#include <stdlib.h>
#include <string.h>

#include "base/fail.h"
#include "wire/link_state.h"

#define CHUNK (64u << 10) /* of stdin or file content in one frame */

/* Grants travel in lumps of this size: less than the whole credit, so that the
 * guest need not stop, and large enough to cost nothing. */
#define GRANT_AT (WIRE_CREDIT / 4)

/* With more than this unwritten, grants wait: a guest that sends but never
 * reads then runs out of credit instead of growing the buffer. */
#define OUT_BUSY (256u << 10)

static size_t unwritten(const struct link *l)
{
    return l->out.len - l->out_head;
}

static void put_header(struct link *l, const struct frame *f)
{
    uint8_t header[WIRE_HEADER];

    if (l->out_head && unwritten(l) <= l->out_head) {
        memmove(l->out.data, l->out.data + l->out_head, unwritten(l));
        l->out.len -= l->out_head;
        l->out_head = 0;
    }
    frame_write_header(header, f);
    pack_raw(&l->out, header, sizeof header);
}

static void put_frame(struct link *l, const struct frame *f)
{
    put_header(l, f);
    pack_raw(&l->out, f->payload, f->len);
}

struct link *link_new(const struct link_events *events, void *context)
{
    static const uint8_t version[4] = { WIRE_VERSION };
    struct link *l = calloc(1, sizeof *l);

    if (!l)
        return NULL;
    l->events = *events;
    l->context = context;
    put_frame(l, &(struct frame){ .type = WIRE_HELLO, .len = 4, .payload = version });
    if (l->out.bad) {
        link_free(l);
        return NULL;
    }
    return l;
}

void link_free(struct link *l)
{
    if (!l)
        return;
    pack_done(&l->out);
    free(l);
}

struct channel *link_channel(struct link *l, uint32_t number)
{
    struct channel *c = &l->channels[number % WIRE_MAX_CHANNELS];

    return c->kind != CHANNEL_FREE && c->number == number ? c : NULL;
}

static const struct channel *find(const struct link *l, uint32_t number)
{
    const struct channel *c = &l->channels[number % WIRE_MAX_CHANNELS];

    return c->kind != CHANNEL_FREE && c->number == number ? c : NULL;
}

/* Takes a free slot; NULL when as many channels are alive as may be. */
static struct channel *new_channel(struct link *l, enum channel_kind kind)
{
    for (uint32_t i = 1; i <= WIRE_MAX_CHANNELS; i++) {
        uint32_t number = l->last_channel + i;
        struct channel *c = &l->channels[number % WIRE_MAX_CHANNELS];

        if (number < i) /* wrapped: numbers are never used twice */
            return NULL;
        if (c->kind != CHANNEL_FREE)
            continue;
        *c = (struct channel){ .number = number, .kind = kind };
        c->may_send = WIRE_CREDIT;
        c->may_come[1] = c->may_come[2] = WIRE_CREDIT;
        l->last_channel = number;
        return c;
    }
    return NULL;
}

/* Queues what P holds as one frame of TYPE on CHANNEL, and releases P. */
static int put_message(struct link *l, enum wire_type type, uint32_t channel,
                       struct pack *p, struct vial_error *err)
{
    int rc = 0;

    if (p->len > WIRE_MAX_TO_GUEST)
        rc = fail(err, VIAL_E_VALUE, "send %zu bytes to the guest: more than %u",
                  p->len, WIRE_MAX_TO_GUEST);
    else if (!p->bad)
        put_frame(l, &(struct frame){ .channel = channel,
                                      .type = (uint8_t)type,
                                      .len = (uint32_t)p->len,
                                      .payload = p->data });
    if (p->bad || l->out.bad)
        rc = fail_memory(err);
    pack_done(p);
    return rc;
}

int link_jail(struct link *l, const struct jail *jail, struct vial_error *err)
{
    struct pack p = { 0 };

    if (l->jailed)
        return fail(err, VIAL_E_INTERNAL, "the guest was told its jail twice");
    jail_write(&p, jail);
    if (put_message(l, WIRE_JAIL, 0, &p, err) < 0)
        return -1;
    l->jailed = true;
    return 0;
}

void link_rebind(struct link *l, const struct link_events *events, void *context)
{
    l->events = *events;
    l->context = context;
}

int link_adopt(struct link *l, uint32_t pid, struct vial_error *err)
{
    struct pack p = { 0 };

    pack_u32(&p, pid);
    return put_message(l, WIRE_ADOPT, 0, &p, err);
}

void link_jailed(struct link *l)
{
    l->out.len = l->out_head = 0; /* our own greeting */
    l->jailed = true;
}

void link_root(struct link *l)
{
    l->root = true;
}

/* Numbers are not used twice: what is said of one holds for none that comes later. */
static int say_root(struct link *l, uint32_t number, bool root, struct vial_error *err)
{
    struct pack nothing = { 0 };

    return root ? put_message(l, WIRE_ROOT, number, &nothing, err) : 0;
}

static int open_channel(struct link *l, enum channel_kind kind, enum wire_type type,
                        struct pack *p, uint32_t *channel, struct vial_error *err)
{
    struct channel *c = l->jailed ? new_channel(l, kind) : NULL;
    bool root = l->root;

    l->root = false;
    if (!c) {
        pack_done(p);
        if (!l->jailed)
            return fail(err, VIAL_E_INTERNAL, "the guest has not been told its jail");
        return fail(err, VIAL_E_GUEST, "open channel: %u are open already",
                    WIRE_MAX_CHANNELS);
    }
    if (say_root(l, c->number, root, err) < 0) {
        pack_done(p);
        c->kind = CHANNEL_FREE;
        return -1;
    }
    if (put_message(l, type, c->number, p, err) < 0) {
        c->kind = CHANNEL_FREE;
        return -1;
    }
    *channel = c->number;
    return 0;
}

int link_exec(struct link *l, const struct exec_message *m, uint32_t *channel,
              struct vial_error *err)
{
    struct pack p = { 0 };

    exec_write(&p, m);
    if (open_channel(l, CHANNEL_EXEC, WIRE_EXEC, &p, channel, err) < 0)
        return -1;
    link_channel(l, *channel)->sent_eof = m->stdin_closed;
    return 0;
}

int link_put(struct link *l, const struct put_message *m, uint32_t *channel,
             struct vial_error *err)
{
    struct pack p = { 0 };

    put_write(&p, m);
    return open_channel(l, CHANNEL_PUT, WIRE_PUT, &p, channel, err);
}

int link_get(struct link *l, const struct get_message *m, uint32_t *channel,
             struct vial_error *err)
{
    struct pack p = { 0 };

    get_write(&p, m);
    return open_channel(l, CHANNEL_GET, WIRE_GET, &p, channel, err);
}

int link_list(struct link *l, const char *path, uint32_t *channel,
              struct vial_error *err)
{
    struct pack p = { 0 };

    pack_text(&p, path);
    return open_channel(l, CHANNEL_LIST, WIRE_LIST, &p, channel, err);
}

int link_name(struct link *l, const struct name_message *m, uint32_t *channel,
              struct vial_error *err)
{
    struct pack p = { 0 };

    name_write(&p, m);
    return open_channel(l, CHANNEL_NAME, WIRE_NAME, &p, channel, err);
}

int link_watch(struct link *l, const struct watch_message *m, uint32_t *channel,
               struct vial_error *err)
{
    struct pack p = { 0 };

    watch_write(&p, m);
    return open_channel(l, CHANNEL_WATCH, WIRE_WATCH, &p, channel, err);
}

int link_hold(struct link *l, bool still, uint32_t *channel, struct vial_error *err)
{
    struct pack p = { 0 };

    pack_u32(&p, still);
    return open_channel(l, CHANNEL_NAME, WIRE_HOLD, &p, channel, err);
}

static bool takes_input(const struct channel *c)
{
    return c && (c->kind == CHANNEL_EXEC || c->kind == CHANNEL_PUT) && !c->sent_eof &&
           !c->closed;
}

size_t link_writable(const struct link *l, uint32_t channel)
{
    const struct channel *c = find(l, channel);

    return takes_input(c) ? c->may_send : 0;
}

void link_send(struct link *l, uint32_t channel, const void *data, size_t len)
{
    struct channel *c = link_channel(l, channel);
    const uint8_t *at = data;

    if (!takes_input(c) || len > c->may_send)
        return;
    c->may_send -= (uint32_t)len;
    while (len) {
        uint32_t part = len < CHUNK ? (uint32_t)len : CHUNK;

        put_frame(
            l, &(struct frame){
                   .channel = channel, .type = WIRE_DATA, .len = part, .payload = at });
        at += part;
        len -= part;
    }
}

void link_send_eof(struct link *l, uint32_t channel)
{
    struct channel *c = link_channel(l, channel);

    if (!takes_input(c))
        return;
    c->sent_eof = true;
    put_frame(l, &(struct frame){ .channel = channel, .type = WIRE_EOF });
}

bool link_send_whole(struct link *l, uint32_t channel, const void *data, size_t len,
                     size_t *sent)
{
    size_t room = link_writable(l, channel);
    size_t n = len - *sent < room ? len - *sent : room;

    if (n > 0)
        link_send(l, channel, (const char *)data + *sent, n);
    *sent += n;
    if (*sent < len)
        return false;
    link_send_eof(l, channel);
    return true;
}

void link_signal(struct link *l, uint32_t channel, int signal, bool whole_tree)
{
    const struct channel *c = find(l, channel);
    struct pack p = { 0 };

    if (!c || c->kind != CHANNEL_EXEC || c->closed)
        return;
    pack_u32(&p, (uint32_t)signal);
    pack_u32(&p, whole_tree);
    if (put_message(l, WIRE_SIGNAL, channel, &p, NULL) < 0)
        l->out.bad = true;
}

void link_stop(struct link *l)
{
    struct pack p = { 0 };

    if (put_message(l, WIRE_STOP, 0, &p, NULL) < 0)
        l->out.bad = true;
}

void link_resize(struct link *l, uint32_t channel, uint32_t size)
{
    const struct channel *c = find(l, channel);
    struct pack p = { 0 };

    if (!c || c->kind != CHANNEL_EXEC || c->closed)
        return;
    pack_u32(&p, size);
    if (put_message(l, WIRE_RESIZE, channel, &p, NULL) < 0)
        l->out.bad = true;
}

void link_close_channel(struct link *l, uint32_t channel)
{
    struct channel *c = link_channel(l, channel);

    if (!c || c->closed)
        return;
    c->closed = true;
    put_frame(l, &(struct frame){ .channel = channel, .type = WIRE_CLOSE });
}

static void grant(struct link *l, struct channel *c, int stream)
{
    uint8_t more[4];

    if (c->owed[stream] < GRANT_AT)
        return;
    if (unwritten(l) > OUT_BUSY) {
        l->grants_wait = true;
        return;
    }
    for (unsigned i = 0; i < 4; i++)
        more[i] = (uint8_t)(c->owed[stream] >> (8 * i));
    put_frame(l, &(struct frame){ .channel = c->number,
                                  .type = WIRE_CREDIT_,
                                  .stream = (uint8_t)stream,
                                  .len = 4,
                                  .payload = more });
    c->may_come[stream] += c->owed[stream];
    c->owed[stream] = 0;
}

void link_consumed(struct link *l, uint32_t channel, int stream, size_t len)
{
    struct channel *c = link_channel(l, channel);

    if (!c || stream < 1 || stream > 2 || c->got_eof[stream] || c->closed)
        return;
    if (len > c->held[stream])
        len = c->held[stream];
    c->held[stream] -= (uint32_t)len;
    c->owed[stream] += (uint32_t)len;
    grant(l, c, stream);
}

static void grant_waiting(struct link *l)
{
    l->grants_wait = false;
    for (uint32_t i = 0; i < WIRE_MAX_CHANNELS; i++) {
        struct channel *c = &l->channels[i];

        if (c->kind == CHANNEL_FREE || c->closed)
            continue;
        grant(l, c, 1);
        grant(l, c, 2);
    }
}

const uint8_t *link_pending(const struct link *l, size_t *len)
{
    *len = unwritten(l);
    return *len ? l->out.data + l->out_head : NULL;
}

void link_sent(struct link *l, size_t len)
{
    l->out_head += len < unwritten(l) ? len : unwritten(l);
    if (!unwritten(l))
        l->out_head = l->out.len = 0;
    if (l->grants_wait && unwritten(l) <= OUT_BUSY)
        grant_waiting(l);
}

bool link_is_up(const struct link *l)
{
    return l->up;
}

bool link_out_of_memory(const struct link *l)
{
    return l->out.bad;
}
