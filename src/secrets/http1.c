/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "secrets/secrets.h"

/* The client is told in HTTP if nothing of an answer has gone to it; else it sees the
 * connection break. */
void http1_refuse(struct exchange *e, const struct refusal *why)
{
    char text[512];
    int len;

    exchange_blame(e, why->verdict);
    if (e->closing || e->one.answering == ANSWER_BODY || !side_has_room(&e->client)) {
        e->over = true;
        return;
    }
    len = snprintf(text, sizeof text,
                   "HTTP/1.1 %d Refused\r\nContent-Type: text/plain\r\n"
                   "Content-Length: %zu\r\nConnection: close\r\n\r\nvial: %s\n",
                   why->status, strlen(why->why) + 7, why->why);
    side_put(&e->client, text, (size_t)len);
    e->closing = true;
}

static void put_piece(struct side *to, const struct body *b, const void *data,
                      size_t len)
{
    char size[24];

    if (!len)
        return;
    if (b->kind == BODY_CHUNKED)
        side_put(to, size, (size_t)snprintf(size, sizeof size, "%zx\r\n", len));
    side_put(to, data, len);
    if (b->kind == BODY_CHUNKED)
        side_put(to, "\r\n", 2);
}

static void put_end(struct side *to, const struct body *b)
{
    if (b->kind == BODY_CHUNKED)
        side_put(to, "0\r\n\r\n", 5);
}

static bool ask_head(struct exchange *e)
{
    auto_str struct str out = { 0 };
    struct refusal wrong = { 400, "the request's head is not HTTP/1.1", GATE_REQUEST };
    long len = head_end(e->client.in, e->client.in_len);
    struct head h = { 0 };
    bool good;

    if (len == HEAD_MORE)
        return false;
    if (e->server.in_len) { /* it would be taken for the answer to this one */
        http1_refuse(e, &(struct refusal){ 502, "the host answers what nobody asked",
                                           GATE_RESPONSE });
        return true;
    }
    good = len > 0 && head_parse(e->client.in, (size_t)len, &h) &&
           request_head_pass(e->held, e->to, &h, &e->one.asked, &e->one.scrub, &out,
                             &wrong);
    if (good) {
        side_put(&e->server, out.data, out.len);
        e->one.to_head = strncmp(h.first, "HEAD ", 5) == 0;
        e->one.last = head_lists(&h, "Connection", "close");
        e->one.asking = ASK_BODY;
        e->one.answering = ANSWER_HEAD;
        e->one.interim = 0;
        side_eat(&e->client, (size_t)len);
    }
    if (out.data)
        gnutls_memset(out.data, 0, out.len);
    head_done(&h);
    if (!good)
        http1_refuse(e, &wrong);
    return true;
}

static bool ask_body(struct exchange *e)
{
    size_t used = 0, size = 0;
    enum body_step step =
        body_next(&e->one.asked, e->client.in, e->client.in_len, &used, &size);

    if (step == BODY_DATA)
        put_piece(&e->server, &e->one.asked, e->client.in + used - size, size);
    if (used)
        side_eat(&e->client, used);
    if (step == BODY_END) {
        put_end(&e->server, &e->one.asked);
        e->one.asking = ASK_DONE;
    }
    if (step == BODY_BAD)
        http1_refuse(e, &(struct refusal){ 400, "the request's body is not as it says",
                                           GATE_REQUEST });
    return step != BODY_MORE || used;
}

bool http1_ask(struct exchange *e)
{
    if (!e->client.ready || !e->server.ready || e->closing ||
        e->one.asking == ASK_DONE || !side_has_room(&e->server) || e->server.ended)
        return false;
    if (e->one.asking == ASK_HEAD)
        return e->client.in_len > 0 && ask_head(e);
    return ask_body(e);
}

/* The next request may come, if both ends want to go on. */
static void answer_over(struct exchange *e)
{
    e->one.answering = ANSWER_NONE;
    if (e->one.last || e->one.asking != ASK_DONE)
        e->closing = true;
    e->one.asking = ASK_HEAD;
}

static bool answer_head(struct exchange *e)
{
    auto_str struct str out = { 0 };
    struct refusal wrong = { 502, "the host's answer is not HTTP/1.1", GATE_RESPONSE };
    long len = head_end(e->server.in, e->server.in_len);
    struct response r = { 0 };
    struct head h = { 0 };
    bool good;

    if (len == HEAD_MORE)
        return false;
    good = len > 0 && head_parse(e->server.in, (size_t)len, &h) &&
           response_head_pass(&h, e->one.to_head, e->max_response, &e->one.answered,
                              &e->one.scrub, &r, &out, &wrong) &&
           (r.status >= 200 || e->one.interim++ < INTERIM_MAX);
    head_done(&h);
    if (!good) {
        http1_refuse(e, &wrong);
        return true;
    }
    side_eat(&e->server, (size_t)len);
    side_put(&e->client, out.data, out.len);
    e->one.last = e->one.last || r.closes;
    if (r.status >= 200)
        e->one.answering = ANSWER_BODY;
    return true;
}

static void put_scrubbed(struct exchange *e, const void *data, size_t len, bool end)
{
    auto_str struct str out = { 0 };

    if (scrub_add(&e->one.scrub, data, len, end, &out) < 0)
        e->over = true;
    else
        put_piece(&e->client, &e->one.answered, out.data, out.len);
}

static bool answer_body(struct exchange *e)
{
    size_t used = 0, size = 0;
    enum body_step step =
        body_next(&e->one.answered, e->server.in, e->server.in_len, &used, &size);

    if (step == BODY_MORE && !used && e->server.ended &&
        e->one.answered.kind == BODY_TO_END && !e->server.cut)
        step = BODY_END;
    if (step == BODY_DATA)
        put_scrubbed(e, e->server.in + used - size, size, false);
    if (used)
        side_eat(&e->server, used);
    if (step == BODY_END) {
        put_scrubbed(e, NULL, 0, true);
        put_end(&e->client, &e->one.answered);
        answer_over(e);
    }
    if (step == BODY_BAD)
        http1_refuse(e, &(struct refusal){ 502, "", GATE_RESPONSE });
    return step != BODY_MORE || used;
}

bool http1_answer(struct exchange *e)
{
    if (e->closing || e->one.answering == ANSWER_NONE || !side_has_room(&e->client))
        return false;
    if (e->one.answering == ANSWER_HEAD)
        return e->server.in_len > 0 && answer_head(e);
    return answer_body(e);
}

/* Nobody is left to hear or to answer. */
bool http1_is_lost(const struct exchange *e)
{
    if (e->server.ready && e->server.failed)
        return true;
    if (e->client.ended && e->one.asking != ASK_DONE && !e->server.out_len)
        return e->server.ready || e->server.failed;
    return e->server.ended && !e->client.out_len;
}
