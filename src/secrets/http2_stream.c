/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "secrets/http2.h"

struct stream *stream_find(const struct http2 *h, const struct end *by, int32_t id)
{
    struct stream *s = id ? h->streams : NULL;

    while (s && (by == &h->client ? s->id : s->up) != id)
        s = s->next;
    return s;
}

void stream_free(struct http2 *h, struct stream *s)
{
    struct stream **at = &h->streams;

    while (*at != s)
        at = &(*at)->next;
    *at = s->next;
    h->count--;
    free(s->ask.data);
    free(s->answer.data);
    scrub_done(&s->scrub);
    str_done(&s->trailers);
    free(s);
}

/* Room is for what waits, not for what once did: that is bounded by the windows of all
 * streams, each of which may have been full. */
static void flow_rest(struct flow *f)
{
    size_t cap = f->cap;
    uint8_t *less = NULL;

    while (cap > f->len && f->len <= cap / 4)
        cap /= 2;
    if (cap == f->cap)
        return;
    if (cap && f->at)
        memmove(f->data, f->data + f->at, f->len);
    f->at = 0;
    less = cap ? realloc(f->data, cap) : NULL;
    if (!cap)
        free(f->data);
    if (!cap || less) {
        f->data = less;
        f->cap = cap;
    }
}

/* What nobody will take any more counts as taken. */
static void let_go(const struct end *from, struct flow *f, int32_t id)
{
    if (id)
        (void)nghttp2_session_consume(from->session, id, f->owed);
    else if (from->session)
        (void)nghttp2_session_consume_connection(from->session, f->owed);
    f->owed = f->len = 0;
    flow_rest(f);
}

static void free_if_over(struct http2 *h, struct stream *s)
{
    if (!s->id && !s->up)
        stream_free(h, s);
}

/* The host is asked no more, and not heard. */
static void drop_host(struct http2 *h, struct stream *s)
{
    int32_t up = s->up;

    s->up = 0;
    let_go(&h->client, &s->ask, s->id);
    let_go(&h->host, &s->answer, 0);
    if (up)
        (void)nghttp2_submit_rst_stream(h->host.session, NGHTTP2_FLAG_NONE, up,
                                        NGHTTP2_CANCEL);
}

static void reset_client(struct http2 *h, int32_t id, uint32_t error)
{
    if (id)
        (void)nghttp2_submit_rst_stream(h->client.session, NGHTTP2_FLAG_NONE, id,
                                        error);
}

static void wake(const struct end *to, int32_t id, struct flow *f)
{
    if (f->waits && id && to->session)
        (void)nghttp2_session_resume_data(to->session, id);
    f->waits = false;
}

static bool flow_put(struct flow *f, const void *data, size_t len)
{
    if (!len)
        return true;
    if (f->at && f->at + f->len + len > f->cap) {
        memmove(f->data, f->data + f->at, f->len);
        f->at = 0;
    }
    if (f->len + len > f->cap) {
        size_t cap = 2 * f->cap > f->len + len ? 2 * f->cap : f->len + len;
        uint8_t *more = realloc(f->data, cap);

        if (!more)
            return false;
        f->data = more;
        f->cap = cap;
    }
    memcpy(f->data + f->at + f->len, data, len);
    f->len += len;
    return true;
}

/* As the library wants them; they point into P. */
static size_t as_fields(const struct pairs *p, nghttp2_nv out[PAIRS_MOST])
{
    for (size_t i = 0; i < p->count; i++)
        out[i] = (nghttp2_nv){ .name = (uint8_t *)(uintptr_t)p->all[i].name,
                               .value = (uint8_t *)(uintptr_t)p->all[i].value,
                               .namelen = strlen(p->all[i].name),
                               .valuelen = strlen(p->all[i].value),
                               .flags = p->all[i].secret ? NGHTTP2_NV_FLAG_NO_INDEX
                                                         : NGHTTP2_NV_FLAG_NONE };
    return p->count;
}

/* NOLINTNEXTLINE(readability-function-size): the library's */
static ssize_t give(nghttp2_session *session, int32_t id, uint8_t *room, size_t len,
                    uint32_t *flags, nghttp2_data_source *source, void *to)
{
    (void)session;
    (void)source;
    return stream_give(to, id, room, len, flags);
}

static const nghttp2_data_provider giver = { .read_callback = give };

static int send_answer(struct http2 *h, const struct stream *s, const struct pairs *p,
                       bool ends)
{
    nghttp2_nv fields[PAIRS_MOST];
    size_t count = as_fields(p, fields);

    return nghttp2_submit_response(h->client.session, s->id, fields, count,
                                   ends ? NULL : &giver);
}

/* The client is told in HTTP if nothing of an answer has gone to it; else the stream is
 * reset. Who asks what may not be asked spends patience. */
static void refuse(struct http2 *h, struct stream *s, const struct refusal *why)
{
    struct pairs p = { 0 };
    char status[8], length[24];

    exchange_blame(h->e, why->verdict);
    h->client.patience -= why->verdict == GATE_REQUEST ? PATIENCE_REQUEST : 0;
    drop_host(h, s);
    s->answer.ended = true;
    if (!s->id || s->has_answer) {
        reset_client(h, s->id, NGHTTP2_INTERNAL_ERROR);
        return;
    }
    (void)snprintf(status, sizeof status, "%d", why->status);
    (void)snprintf(length, sizeof length, "%zu", strlen(why->why) + 7);
    pairs_add(&p, ":status", status, false);
    pairs_add(&p, "content-type", "text/plain", false);
    pairs_add(&p, "content-length", length, false);
    s->has_answer = true;
    if (!flow_put(&s->answer, "vial: ", 6) ||
        !flow_put(&s->answer, why->why, strlen(why->why)) ||
        !flow_put(&s->answer, "\n", 1) || send_answer(h, s, &p, false) < 0)
        reset_client(h, s->id, NGHTTP2_INTERNAL_ERROR);
}

/* Judged as one of HTTP/1.1, since it is written as such. */
static bool judge(const struct http2 *h, struct stream *s, const struct str *text,
                  struct str *out, struct refusal *wrong)
{
    struct head head = { 0 };
    bool good = head_end((const uint8_t *)text->data, text->len) == (long)text->len &&
                head_parse((const uint8_t *)text->data, text->len, &head) &&
                request_head_pass(h->e->held, h->e->to, &head, &s->asked, &s->scrub,
                                  out, wrong);

    s->to_head = good && strncmp(head.first, "HEAD ", 5) == 0;
    head_done(&head);
    return good;
}

static bool send_request(const struct http2 *h, struct stream *s,
                         const struct str *text, bool ends)
{
    nghttp2_nv fields[PAIRS_MOST];
    struct pairs p = { 0 };
    struct head head = { 0 };
    bool good = head_parse((const uint8_t *)text->data, text->len, &head) &&
                pairs_of_request(&head, &s->scrub, h->client.coming.wants_trailers, &p);

    if (good)
        s->up =
            nghttp2_submit_request(h->host.session, NULL, fields, as_fields(&p, fields),
                                   ends ? NULL : &giver, NULL);
    if (head.text)
        gnutls_memset(head.text, 0, text->len);
    head_done(&head);
    if (good && s->up > 0)
        return true;
    s->up = 0;
    return false;
}

static struct stream *stream_new(struct http2 *h, int32_t id, bool ends)
{
    struct stream *s = calloc(1, sizeof *s);

    if (!s)
        return NULL;
    *s = (struct stream){ .id = id, .next = h->streams };
    s->scrub.held = h->e->held;
    s->ask.ended = ends;
    h->streams = s;
    h->count++;
    return s;
}

/* Whether the host takes one more now. */
static bool is_welcome(const struct http2 *h)
{
    size_t asked = 0;

    for (const struct stream *s = h->streams; s; s = s->next)
        asked += s->up != 0;
    return !h->leaving && !h->host_gone && h->count < (size_t)2 * STREAMS_MOST &&
           asked < nghttp2_session_get_remote_settings(
                       h->host.session, NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS) &&
           nghttp2_session_check_request_allowed(h->host.session);
}

void stream_ask(struct http2 *h, int32_t id, bool ends)
{
    auto_str struct str text = { 0 }, out = { 0 };
    struct refusal wrong = { 400, "the request's head is not HTTP/2", GATE_REQUEST };
    struct stream *s = NULL;

    if (!h->why.why && !is_welcome(h)) { /* nothing was done: it may be asked again */
        reset_client(h, id, NGHTTP2_REFUSED_STREAM);
        return;
    }
    s = stream_new(h, id, ends);
    if (!s)
        reset_client(h, id, NGHTTP2_INTERNAL_ERROR);
    else if (h->why.why)
        refuse(h, s, &h->why);
    else if (!told_head_request(&h->client.coming, ends, &text, &wrong) ||
             !judge(h, s, &text, &out, &wrong))
        refuse(h, s, &wrong);
    else if (ends && s->asked.left)
        refuse(h, s,
               &(struct refusal){ 400, "the request's body is not as it says",
                                  GATE_REQUEST });
    else if (!send_request(h, s, &out, ends))
        refuse(
            h, s,
            &(struct refusal){ 431, "the request's head is too large", GATE_REQUEST });
    if (out.data)
        gnutls_memset(out.data, 0, out.len);
}

void stream_trailed(struct http2 *h, int32_t id)
{
    struct stream *s = stream_find(h, &h->client, id);

    if (s)
        refuse(h, s,
               &(struct refusal){ 400, "a request's trailers are not passed on",
                                  GATE_REQUEST });
}

/* TEXT is an answer's head, or its trailers; *OUT: the same without values. */
static bool pass_answer(const struct http2 *h, struct stream *s, const struct str *text,
                        struct response *r, struct str *out, struct refusal *wrong)
{
    bool trailers = s->has_answer;
    struct body none = { 0 };
    struct head head = { 0 };
    bool good =
        head_end((const uint8_t *)text->data, text->len) == (long)text->len &&
        head_parse((const uint8_t *)text->data, text->len, &head) &&
        response_head_pass(&head, s->to_head || trailers, h->e->max_response,
                           trailers ? &none : &s->answered, &s->scrub, r, out, wrong);

    head_done(&head);
    return good;
}

static bool send_head(struct http2 *h, struct stream *s, const struct str *text,
                      const struct response *r, bool ends)
{
    nghttp2_nv fields[PAIRS_MOST];
    struct pairs p = { 0 };
    struct head head = { 0 };
    bool good = head_parse((const uint8_t *)text->data, text->len, &head) &&
                pairs_of_answer(&head, &p);

    if (good && r->status >= 200) {
        good = send_answer(h, s, &p, ends) == 0;
        s->has_answer = good;
    } else if (good) {
        good = nghttp2_submit_headers(h->client.session, NGHTTP2_FLAG_NONE, s->id, NULL,
                                      fields, as_fields(&p, fields), NULL) == 0;
    }
    head_done(&head);
    return good;
}

static bool put_scrubbed(struct http2 *h, struct stream *s, const void *data,
                         size_t len, bool end)
{
    auto_str struct str out = { 0 };
    bool good = scrub_add(&s->scrub, data, len, end, &out) == 0 &&
                flow_put(&s->answer, out.data, out.len);

    wake(&h->client, s->id, &s->answer);
    return good;
}

void stream_answer(struct http2 *h, struct stream *s, bool ends)
{
    auto_str struct str text = { 0 }, out = { 0 };
    struct refusal wrong = { 502, "the host's answer is not HTTP/2", GATE_RESPONSE };
    struct told_head *said = &h->host.coming;
    struct response r = { 0 };
    bool good;

    if (s->has_answer)
        good = ends && put_scrubbed(h, s, NULL, 0, true) &&
               told_head_trailers(said, &text) &&
               pass_answer(h, s, &text, &r, &s->trailers, &wrong);
    else
        good = told_head_answer(said, ends, &text) &&
               pass_answer(h, s, &text, &r, &out, &wrong) &&
               (r.status >= 200 || (!ends && s->interim++ < INTERIM_MAX)) &&
               send_head(h, s, &out, &r, ends);
    if (!good)
        refuse(h, s, &wrong);
}

static void data_of_client(struct http2 *h, struct stream *s, const uint8_t *data,
                           size_t len)
{
    s->ask.owed += len;
    if (!s->up) { /* it was refused, or answered already; clients want to say all */
        let_go(&h->client, &s->ask, s->id);
        s->unread += len;
        if (s->unread > UNREAD_MOST)
            reset_client(h, s->id, NGHTTP2_NO_ERROR);
    } else if (!body_count(&s->asked, len) || !flow_put(&s->ask, data, len)) {
        refuse(h, s,
               &(struct refusal){ 413, "the request's body is larger than it may be",
                                  GATE_REQUEST });
    } else {
        wake(&h->host, s->up, &s->ask);
    }
}

static void data_of_host(struct http2 *h, struct stream *s, const uint8_t *data,
                         size_t len)
{
    s->answer.owed += len;
    if (!s->has_answer || !body_count(&s->answered, len) ||
        !put_scrubbed(h, s, data, len, false))
        refuse(h, s,
               &(struct refusal){ 502, "the answer's body is not as it may be",
                                  GATE_RESPONSE });
}

void stream_data(struct end *from, int32_t id, const uint8_t *data, size_t len)
{
    struct http2 *h = from->of;
    struct stream *s = stream_find(h, from, id);

    if (!s)
        (void)nghttp2_session_consume(from->session, id, len);
    else if (from == &h->client)
        data_of_client(h, s, data, len);
    else
        data_of_host(h, s, data, len);
}

void stream_ends(struct end *from, int32_t id)
{
    struct http2 *h = from->of;
    struct stream *s = stream_find(h, from, id);

    if (!s)
        return;
    if (from == &h->client) {
        s->ask.ended = true;
        wake(&h->host, s->up, &s->ask);
    } else {
        bool whole = s->answered.kind != BODY_LENGTH || !s->answered.left;

        if (!whole || !put_scrubbed(h, s, NULL, 0, true)) {
            refuse(h, s, &(struct refusal){ 502, "", GATE_RESPONSE });
            return;
        }
        s->answer.ended = true;
        wake(&h->client, s->id, &s->answer);
    }
}

static void client_gone(struct http2 *h, struct stream *s)
{
    s->id = 0;
    drop_host(h, s);
    stream_free(h, s);
}

/* Its answer may still be on its way to the client. */
static void host_left(struct http2 *h, struct stream *s, uint32_t error)
{
    s->up = 0;
    let_go(&h->client, &s->ask, s->id);
    if (!s->answer.ended)
        reset_client(h, s->id, error ? error : (uint32_t)NGHTTP2_INTERNAL_ERROR);
    free_if_over(h, s);
}

void stream_gone(struct end *from, int32_t id, uint32_t error)
{
    struct http2 *h = from->of;
    struct stream *s = stream_find(h, from, id);

    if (!s)
        return;
    if (from == &h->client)
        client_gone(h, s);
    else
        host_left(h, s, error);
}

static void send_trailers(const struct http2 *h, const struct stream *s,
                          uint32_t *flags)
{
    nghttp2_nv fields[PAIRS_MOST];
    struct pairs p = { 0 };
    struct head head = { 0 };

    if (head_parse((const uint8_t *)s->trailers.data, s->trailers.len, &head) &&
        pairs_of_trailers(&head, &p) && p.count &&
        nghttp2_submit_trailer(h->client.session, s->id, fields,
                               as_fields(&p, fields)) == 0)
        *flags |= NGHTTP2_DATA_FLAG_NO_END_STREAM;
    head_done(&head);
}

static ssize_t end_or_wait(const struct http2 *h, const struct stream *s,
                           const struct end *to, struct flow *f, uint32_t *flags)
{
    if (!f->ended) {
        f->waits = true;
        return NGHTTP2_ERR_DEFERRED;
    }
    *flags |= NGHTTP2_DATA_FLAG_EOF;
    if (to == &h->client && s->trailers.len)
        send_trailers(h, s, flags);
    return 0;
}

ssize_t stream_give(struct end *to, int32_t id, uint8_t *room, size_t len,
                    uint32_t *flags)
{
    struct http2 *h = to->of;
    struct stream *s = stream_find(h, to, id);
    bool answer = to == &h->client;
    struct flow *f = s ? answer ? &s->answer : &s->ask : NULL;
    struct end *from = answer ? &h->host : &h->client;
    int32_t sender = s ? answer ? s->up : s->id : 0;
    size_t n = f && f->len < len ? f->len : len;
    size_t back = f && f->owed < n ? f->owed : n;

    if (!f)
        return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
    if (!n)
        return end_or_wait(h, s, to, f, flags);
    memcpy(room, f->data + f->at, n);
    f->at += n;
    f->len -= n;
    f->owed -= back;
    flow_rest(f);
    to->patience += 2; /* it may say twice that it has taken this */
    if (from->session && sender)
        (void)nghttp2_session_consume(from->session, sender, back);
    else if (from->session)
        (void)nghttp2_session_consume_connection(from->session, back);
    return (ssize_t)n;
}
