/* SPDX-License-Identifier: Apache-2.0 */
#include "relay/relay.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "relay/inside.h"

#define BUSY       (128u << 10) /* with more unwritten, nothing is produced */
#define LAST_TURNS 1000         /* once the guest has gone */

int relay_watch(const struct relay *r, int fd, uint32_t events, uint64_t tag)
{
    struct epoll_event e = { .events = events, .data.u64 = tag };

    return epoll_ctl(r->epoll_fd, EPOLL_CTL_ADD, fd, &e);
}

int relay_init(struct relay *r, int link_fd, bool is_gate, size_t most,
               const struct relay_events *events, void *context)
{
    *r = (struct relay){ .link_fd = link_fd,
                         .epoll_fd = epoll_create1(EPOLL_CLOEXEC),
                         .is_gate = is_gate,
                         .most = most < RELAY_MAX ? most : RELAY_MAX,
                         .next_ours = is_gate ? 2 : 1,
                         .spare = RELAY_SPARE,
                         .in = malloc(RELAY_IN),
                         .out = malloc(RELAY_OUT),
                         .out_cap = RELAY_OUT,
                         .events = events,
                         .context = context };
    if (r->epoll_fd < 0 || !r->in || !r->out ||
        relay_watch(r, link_fd, RELAY_EDGES, relay_tag(TAG_LINK, 0)) < 0)
        return -1;
    return 0;
}

static size_t unwritten(const struct relay *r)
{
    return r->out_tail - r->out_head;
}

static bool is_busy(const struct relay *r)
{
    return unwritten(r) > BUSY;
}

static void flush(struct relay *r)
{
    while (unwritten(r) && !r->broken) {
        ssize_t n = send(r->link_fd, r->out + r->out_head, unwritten(r), MSG_NOSIGNAL);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno == EAGAIN)
            return;
        if (n <= 0)
            r->broken = true;
        else
            r->out_head += (size_t)n;
    }
    r->out_head = r->out_tail = 0;
}

/* Room for a frame with LEN bytes; NULL, and broken, without memory. */
static uint8_t *reserve(struct relay *r, size_t len)
{
    size_t cap = r->out_cap;
    uint8_t *larger;

    if (r->out_tail + WIRE_HEADER + len > cap && r->out_head) {
        memmove(r->out, r->out + r->out_head, unwritten(r));
        r->out_tail -= r->out_head;
        r->out_head = 0;
    }
    while (r->out_tail + WIRE_HEADER + len > cap)
        cap *= 2;
    if (cap != r->out_cap) {
        larger = realloc(r->out, cap);
        r->broken = r->broken || !larger;
        if (!larger)
            return NULL;
        r->out = larger;
        r->out_cap = cap;
    }
    return r->out + r->out_tail + WIRE_HEADER;
}

static void commit(struct relay *r, uint32_t id, enum relay_type type, size_t len)
{
    struct frame f = { .channel = id, .type = (uint8_t)type, .len = (uint32_t)len };

    frame_write_header(r->out + r->out_tail, &f);
    r->out_tail += WIRE_HEADER + len;
}

static void put(struct relay *r, uint32_t id, enum relay_type type,
                const struct pack *payload)
{
    size_t len = payload ? payload->len : 0;
    uint8_t *at = payload && payload->bad ? NULL : reserve(r, len);

    if (!at) {
        r->broken = true;
        return;
    }
    if (len)
        memcpy(at, payload->data, len);
    commit(r, id, type, len);
}

static struct relay_channel *find(const struct relay *r, uint32_t id)
{
    for (size_t i = 0; i < r->count; i++)
        if (r->channels[i]->id == id && !r->channels[i]->gone)
            return r->channels[i];
    return NULL;
}

static struct relay_channel *add(struct relay *r, uint32_t id)
{
    struct relay_channel *c = r->count < r->most ? calloc(1, sizeof *c) : NULL;

    if (!c)
        return NULL;
    c->id = id;
    c->own.fd = c->other.fd = -1;
    c->may_send = c->may_come = c->window = RELAY_WINDOW;
    r->channels[r->count++] = c;
    return c;
}

void relay_finish(struct relay *r, struct relay_channel *c, bool reset)
{
    if (c->gone)
        return;
    c->gone = true;
    if (r->events->closed)
        r->events->closed(r->context, c, reset);
}

void relay_close(struct relay *r, struct relay_channel *c)
{
    if (c->gone)
        return;
    if (!is_direct(c))
        put(r, c->id, RELAY_CLOSE, NULL);
    relay_finish(r, c, true);
}

void relay_attach(struct relay *r, struct relay_channel *c, int fd)
{
    c->own.fd = fd;
    c->own.can_read = c->own.can_write = true;
    if (relay_watch(r, fd, RELAY_EDGES, relay_tag(TAG_OWN, c->id)) < 0)
        relay_close(r, c);
}

static void put_open(struct relay *r, uint32_t id, uint32_t port, const char *name)
{
    struct pack p = { 0 };

    pack_u32(&p, port);
    pack_text(&p, name);
    put(r, id, RELAY_OPEN, &p);
    pack_done(&p);
}

struct relay_channel *relay_open(struct relay *r, int fd, uint32_t port,
                                 const char *name)
{
    struct relay_channel *c = is_busy(r) ? NULL : add(r, r->next_ours);

    if (!c) {
        (void)close(fd);
        return NULL;
    }
    r->next_ours += 2;
    put_open(r, c->id, port, name);
    relay_attach(r, c, fd);
    return c;
}

/* The frame by itself, as its descriptor goes with its first byte. */
static bool hand(struct relay *r, int fd, uint32_t port, const char *name)
{
    struct pack p = { 0 };
    size_t from = r->out_tail;
    bool sent = false;

    pack_u32(&p, port);
    pack_text(&p, name);
    put(r, r->next_ours, RELAY_DIRECT, &p);
    pack_done(&p);
    if (!r->broken)
        sent = direct_send(r, r->out + from, r->out_tail - from, fd);
    r->out_tail = from;
    return sent;
}

void relay_hand_over(struct relay *r, int fd, uint32_t port, const char *name)
{
    flush(r);
    if (unwritten(r) || !hand(r, fd, port, name)) {
        (void)relay_open(r, fd, port, name);
        return;
    }
    r->next_ours += 2;
    (void)close(fd);
}

void relay_refuse_name(struct relay *r, const char *name)
{
    struct pack p = { 0 };

    if (is_busy(r))
        return;
    pack_text(&p, name);
    put(r, 0, RELAY_REFUSED, &p);
    pack_done(&p);
}

/* Its connection has taken all that was granted: it may have twice as much under way.
 */
static void widen(struct relay *r, struct relay_channel *c)
{
    if (c->own.rest.len || c->window >= RELAY_WIDEST || c->window > r->spare)
        return;
    r->spare -= c->window;
    c->owed += c->window;
    c->window *= 2;
}

/* The connection has taken LEN bytes. */
static void consumed(struct relay *r, struct relay_channel *c, size_t len)
{
    struct pack p = { 0 };

    c->to_fd += len;
    c->owed += (uint32_t)len;
    if (c->owed < c->window / 4 || c->other.ended)
        return;
    if (c->to_fd > UINT64_C(4) * c->window)
        widen(r, c);
    pack_u32(&p, c->owed);
    put(r, c->id, RELAY_CREDIT, &p);
    pack_done(&p);
    c->may_come += c->owed;
    c->owed = 0;
}

static void end_if_over(struct relay *r, struct relay_channel *c)
{
    if (c->other.ended && !c->own.rest.len && !c->own.shut && c->own.fd >= 0) {
        c->own.shut = true;
        (void)shutdown(c->own.fd, SHUT_WR);
    }
    if (c->own.shut && c->own.ended)
        relay_finish(r, c, false);
}

/* What the connection takes of LEN bytes; the channel may be closed by it. */
static size_t push(struct relay *r, struct relay_channel *c, const uint8_t *data,
                   size_t len)
{
    ssize_t n;

    if (c->own.fd < 0 || c->hold || !c->own.can_write || !len)
        return 0;
    do
        n = send(c->own.fd, data, len, MSG_NOSIGNAL | MSG_DONTWAIT);
    while (n < 0 && errno == EINTR);
    if (n < 0 && errno == EAGAIN) {
        c->own.can_write = false;
        return 0;
    }
    if (n < 0) {
        relay_close(r, c);
        return 0;
    }
    consumed(r, c, (size_t)n);
    return (size_t)n;
}

static void push_rest(struct relay *r, struct relay_channel *c)
{
    rest_eat(&c->own.rest,
             push(r, c, c->own.rest.data + c->own.rest.at, c->own.rest.len));
}

void relay_release(struct relay *r, struct relay_channel *c)
{
    c->hold = false;
    if (is_direct(c))
        return; /* its turn comes */
    if (c->own.rest.len)
        push_rest(r, c);
    end_if_over(r, c);
}

/* Judges of frames: false when it does not fit. */

static bool on_data(struct relay *r, struct relay_channel *c, const struct frame *f)
{
    size_t n = 0;

    if (c->other.ended || !f->len || f->len > c->may_come)
        return false;
    c->may_come -= f->len;
    if (!c->own.rest.len)
        n = push(r, c, f->payload, f->len);
    if (c->gone)
        return true;
    if (n < f->len && !rest_keep(&c->own.rest, f->payload + n, f->len - n, c->window))
        relay_close(r, c);
    else if (c->hold && r->events->held)
        r->events->held(r->context, c);
    return true;
}

static bool on_eof(struct relay *r, struct relay_channel *c, const struct frame *f)
{
    if (c->other.ended || f->len)
        return false;
    c->other.ended = true;
    if (c->hold && r->events->held)
        r->events->held(r->context, c);
    if (!c->gone)
        end_if_over(r, c);
    return true;
}

static bool on_credit(struct relay_channel *c, const struct frame *f)
{
    struct unpack u = { .data = f->payload, .len = f->len };
    uint32_t more = unpack_u32(&u);

    if (!unpack_finished(&u) || !more || more > RELAY_WIDEST - c->may_send)
        return false;
    c->may_send += more;
    return true;
}

/* FD: the guest's connection, which is taken; -1: frames will bring its bytes. */
static void open_theirs(struct relay *r, uint32_t id, uint32_t port, const char *name,
                        int fd)
{
    struct relay_channel *c = add(r, id);

    r->last_theirs = id;
    if (c && fd >= 0)
        direct_begin(r, c, fd);
    if (c) {
        if (!c->gone)
            r->events->opened(r->context, c, port, name);
        return;
    }
    if (fd >= 0)
        direct_turn_away(fd);
    else
        put(r, id, RELAY_CLOSE, NULL);
    if (r->events->crowded)
        r->events->crowded(r->context, port, name);
}

static bool on_open(struct relay *r, const struct frame *f)
{
    struct unpack u = { .data = f->payload, .len = f->len };
    uint32_t port = unpack_u32(&u);
    char *name = unpack_text(&u);
    bool fits = unpack_finished(&u) && f->channel > r->last_theirs && port > 0 &&
                port <= UINT16_MAX && f->channel % 2 == (r->is_gate ? 1 : 0) &&
                f->channel <= INT32_MAX; /* users double it */
    int fd = fits && f->type == RELAY_DIRECT ? direct_claim(r) : -1;

    fits = fits && (fd >= 0) == (f->type == RELAY_DIRECT);
    if (fits)
        open_theirs(r, f->channel, port, name, fd);
    free(name);
    return fits;
}

static bool on_refused(struct relay *r, const struct frame *f)
{
    struct unpack u = { .data = f->payload, .len = f->len };
    char *name = unpack_text(&u);
    bool fits = unpack_finished(&u) && r->is_gate;

    if (fits && r->events->refused)
        r->events->refused(r->context, name);
    free(name);
    return fits;
}

/* Of a channel that is over here, the other end may not have heard yet. */
static bool is_past(const struct relay *r, uint32_t id)
{
    bool theirs = id % 2 == (r->is_gate ? 1 : 0);

    return id && (theirs ? id <= r->last_theirs : id < r->next_ours);
}

static bool on_frame(struct relay *r, const struct frame *f)
{
    struct relay_channel *c = find(r, f->channel);

    if (f->stream)
        return false;
    if (f->type == RELAY_OPEN || f->type == RELAY_DIRECT)
        return on_open(r, f);
    if (f->type == RELAY_REFUSED)
        return on_refused(r, f);
    if (!c)
        return is_past(r, f->channel);
    if (is_direct(c))
        return false;
    switch (f->type) {
    case RELAY_DATA:
        return on_data(r, c, f);
    case RELAY_EOF:
        return on_eof(r, c, f);
    case RELAY_CREDIT:
        return on_credit(c, f);
    case RELAY_CLOSE:
        relay_finish(r, c, true);
        return f->len == 0;
    default:
        return false;
    }
}

static void take_frames(struct relay *r)
{
    size_t at = 0;
    struct frame f = { 0 };
    long size = 0;

    while (!r->broken &&
           (size = frame_read(r->in + at, r->in_len - at, RELAY_CHUNK, &f)) > 0) {
        at += (size_t)size;
        r->broken = r->broken || !on_frame(r, &f);
    }
    if (size < 0)
        r->broken = true;
    r->in_len -= at;
    if (at && r->in_len)
        memmove(r->in, r->in + at, r->in_len);
}

/* What its programs had said before they ended is with us, and goes. */
static void guest_left(struct relay *r)
{
    r->link_readable = false;
    r->left = r->is_gate;
    r->broken = !r->left;
    for (size_t i = 0; i < r->count; i++)
        r->channels[i]->other.can_read = true;
}

static void read_link(struct relay *r)
{
    ssize_t n = direct_receive(r, r->in + r->in_len, RELAY_IN - r->in_len);

    if (n < 0 && errno == EINTR)
        return;
    if (n < 0 && errno == EAGAIN) {
        r->link_readable = false;
        return;
    }
    if (n == 0)
        guest_left(r);
    else if (n < 0)
        r->broken = true;
    if (n <= 0)
        return;
    r->in_len += (size_t)n;
    take_frames(r);
}

static bool wants_read(const struct relay *r, const struct relay_channel *c)
{
    return !c->gone && c->own.fd >= 0 && c->own.can_read && !c->own.ended &&
           c->may_send && !is_busy(r);
}

/* One read from the connection. */
static void pull(struct relay *r, struct relay_channel *c)
{
    size_t most = c->may_send < RELAY_CHUNK ? c->may_send : RELAY_CHUNK;
    uint8_t *to = reserve(r, most);
    ssize_t n = to ? recv(c->own.fd, to, most, MSG_DONTWAIT) : -1;

    if (!to || (n < 0 && errno == EINTR))
        return;
    if (n < 0 && errno == EAGAIN) {
        c->own.can_read = false;
        return;
    }
    if (n < 0) {
        relay_close(r, c);
        return;
    }
    if (n == 0) {
        c->own.ended = true;
        put(r, c->id, RELAY_EOF, NULL);
        end_if_over(r, c);
        return;
    }
    commit(r, c->id, RELAY_DATA, (size_t)n);
    c->may_send -= (uint32_t)n;
    c->from_fd += (uint64_t)n;
    if ((size_t)n < most && !c->own.hung_up)
        c->own.can_read = false; /* the next edge tells of more */
}

/* With a reset where the other end had no end either. */
static void drop(struct relay_channel *c)
{
    const struct linger none = { .l_onoff = 1 };

    if (c->own.fd >= 0) {
        if (!c->own.ended || !c->own.shut)
            (void)setsockopt(c->own.fd, SOL_SOCKET, SO_LINGER, &none, sizeof none);
        (void)close(c->own.fd);
    }
    rest_free(&c->own.rest);
    free(c);
}

static void sweep(struct relay *r)
{
    size_t kept = 0;

    for (size_t i = 0; i < r->count; i++) {
        struct relay_channel *c = r->channels[i];

        if (!c->gone) {
            r->channels[kept++] = c;
            continue;
        }
        r->spare += c->window - RELAY_WINDOW;
        if (is_direct(c))
            direct_drop(r, c);
        drop(c);
    }
    r->count = kept;
}

static void note(struct relay_end *e, uint32_t events)
{
    const uint32_t over = EPOLLHUP | EPOLLERR;

    e->can_read = e->can_read || (events & (EPOLLIN | EPOLLRDHUP | over));
    e->can_write = e->can_write || (events & (EPOLLOUT | over));
    e->hung_up = e->hung_up || (events & (EPOLLRDHUP | over));
}

void relay_event(struct relay *r, uint64_t tag, uint32_t events)
{
    struct relay_channel *c = NULL;

    if (tag >> 32 == TAG_LINK) {
        r->link_readable = true;
        return;
    }
    c = find(r, (uint32_t)tag);
    if (c)
        note(tag >> 32 == TAG_OTHER ? &c->other : &c->own, events);
}

static bool wants_link(const struct relay *r)
{
    return r->link_readable && !(r->is_gate && is_busy(r));
}

static void channel_turn(struct relay *r, struct relay_channel *c)
{
    if (is_direct(c)) {
        direct_turn(r, c);
        return;
    }
    if (c->own.rest.len && c->own.can_write) {
        push_rest(r, c);
        end_if_over(r, c);
    }
    if (wants_read(r, c))
        pull(r, c);
}

static bool wants_turn(const struct relay *r, const struct relay_channel *c)
{
    return is_direct(c) ? direct_wants_turn(c) : !r->left && wants_read(r, c);
}

static bool wants_more(struct relay *r)
{
    for (size_t i = 0; i < r->count; i++)
        if (wants_turn(r, r->channels[i]))
            return !r->left || ++r->last_turns < LAST_TURNS;
    return false;
}

bool relay_turn(struct relay *r)
{
    bool more = false;

    if (wants_link(r))
        read_link(r);
    for (size_t n = 0; n < r->count && !r->broken; n++) {
        struct relay_channel *c = r->channels[(r->turn + n) % r->count];

        if (!c->gone)
            channel_turn(r, c);
    }
    r->turn++;
    flush(r);
    sweep(r);
    more = wants_more(r);
    r->broken = r->broken || (r->left && !more);
    return !r->broken && (more || wants_link(r));
}

void relay_done(struct relay *r)
{
    for (size_t i = 0; i < r->count; i++)
        relay_finish(r, r->channels[i], true);
    sweep(r);
    if (r->link_fd >= 0)
        (void)close(r->link_fd);
    if (r->epoll_fd >= 0)
        (void)close(r->epoll_fd);
    direct_done(r);
    free(r->in);
    free(r->out);
    *r = (struct relay){ .link_fd = -1, .epoll_fd = -1 };
}
