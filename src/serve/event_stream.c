/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/fail.h"
#include "base/text.h"
#include "model/result.h"
#include "serve/http_call.h"

#define FULL_BYTES ((size_t)4 << 20)
#define FREE_BYTES (2 * WEB_QUEUE_BYTES) /* which nobody pays for */

static bool accepts(const struct call *c, const char *type)
{
    const char *accept = web_header(c->web, "Accept");

    return accept && strstr(accept, type);
}

int stream_wanted(struct call *c, enum stream_form *out, struct vial_error *err)
{
    const char *wish = web_query(c->web, "stream");

    *out = STREAM_NONE;
    if (wish && strcmp(wish, "0") != 0 && strcmp(wish, "1") != 0 &&
        strcmp(wish, "ndjson") != 0 && strcmp(wish, "sse") != 0)
        return fail(err, VIAL_E_VALUE, "'stream' is neither ndjson nor sse");
    if (wish ? strcmp(wish, "sse") == 0 : accepts(c, "text/event-stream"))
        *out = STREAM_SSE;
    else if (wish ? strcmp(wish, "0") != 0 : accepts(c, "application/x-ndjson"))
        *out = STREAM_NDJSON;
    return 0;
}

int stream_start(struct stream *s, struct call *c, enum stream_form form)
{
    *s = (struct stream){ .call = c, .form = form };
    (void)web_set_header(c->web, "Cache-Control", "no-store");
    c->status = 200;
    return web_start(c->web, 200,
                     form == STREAM_SSE ? "text/event-stream" : "application/x-ndjson");
}

void stream_live(struct stream *s)
{
    s->live = true;
    s->taken_ns = clock_now_ns();
}

bool stream_room(struct stream *s)
{
    struct web_request *web = s->call->web;
    int64_t now_ns = clock_now_ns();
    uint64_t taken;
    size_t queued;

    web_room_clear(web);
    queued = web_queued(web, &taken);
    if (taken != s->taken) {
        s->taken = taken;
        s->taken_ns = now_ns;
    }
    if (queued < WEB_QUEUE_BYTES) {
        s->stalled = false;
        return true;
    }
    if (now_ns - s->taken_ns > s->call->gen->settings->serve.slow * 1000000)
        s->stalled = true;
    return s->stalled;
}

/* For the queue and a result behind it, which may stay when all else is done. */
static bool pays(struct stream *s)
{
    s->paid = s->paid || web_pay(s->call->web, 2 * FULL_BYTES);
    return s->paid;
}

/* More than a program can have written before it waits: its reader is not waited for.
 */
static bool is_full(struct stream *s)
{
    uint64_t taken;
    size_t queued = web_queued(s->call->web, &taken);

    return s->stalled || queued > FULL_BYTES || (queued > FREE_BYTES && !pays(s));
}

static int write_on(const struct stream *s, const void *data, size_t len)
{
    return s->live ? web_push(s->call->web, data, len)
                   : web_write(s->call->web, data, len);
}

static int add_text(void *context, const void *data, size_t len)
{
    str_add(context, data, len);
    return 0;
}

/* As one line, which is written whole. Takes TOLD. */
static int send_event(struct stream *s, const char *event, json_t *told,
                      const struct json_larges *larges)
{
    auto_json json_t *all = json_pack("{s:s}", "event", event);
    auto_str struct str line = { 0 };
    const struct json_sink to = { add_text, &line };

    if (all && told)
        (void)json_object_update(all, told);
    json_decref(told);
    if (s->form == STREAM_SSE)
        str_printf(&line, "event: %s\ndata: ", event);
    if (!all || json_write(all, larges, JSON_STYLE_COMPACT, &to) < 0)
        return -1;
    str_puts(&line, s->form == STREAM_SSE ? "\n\n" : "\n");
    return str_ok(&line) ? write_on(s, line.data, line.len) : -1;
}

int stream_event(struct stream *s, const char *event, json_t *told)
{
    return send_event(s, event, told, NULL);
}

int stream_pull(struct stream *s, const char *layer, const char *status,
                unsigned long long current, unsigned long long total)
{
    return stream_event(s, "progress",
                        json_pack("{s:s, s:s, s:I, s:I}", "layer", layer, "status",
                                  status, "current", (json_int_t)current, "total",
                                  (json_int_t)total));
}

static int send_piece(struct stream *s, int stream, int64_t offset, const char *data,
                      size_t len)
{
    auto_larges struct json_larges larges = { 0 };
    json_t *told = json_object();
    bool text = text_is_utf8(data, len);

    if (offset >= 0)
        (void)json_object_set_new(told, "offset", json_integer(offset));
    if (json_object_set_new(told, text ? "data" : "base64",
                            json_large(&larges, data, len, !text)) < 0) {
        json_decref(told);
        return -1;
    }
    return send_event(s, stream == 1 ? "stdout" : "stderr", told, &larges);
}

/* Tells the client what it has missed so far. */
static int tell_missed(struct stream *s, int stream)
{
    uint64_t missed = s->missed[stream - 1];

    s->missed[stream - 1] = 0;
    if (missed == 0)
        return 0;
    return stream_event(
        s, "gap",
        json_pack("{s:i, s:I}", "stream", stream, "bytes", (json_int_t)missed));
}

int stream_output(struct stream *s, int stream, int64_t offset, const void *data,
                  size_t len)
{
    size_t i = stream == 1 ? 0 : 1;
    auto_str struct str all = { 0 };
    size_t keep;

    if (s->live && is_full(s)) {
        s->missed[i] += len + s->held_len[i];
        s->held_len[i] = 0;
        return 0;
    }
    if (tell_missed(s, stream) < 0)
        return -1;
    if (offset >= 0)
        offset -= (int64_t)s->held_len[i];
    str_add(&all, s->held[i], s->held_len[i]);
    str_add(&all, data, len);
    s->held_len[i] = 0;
    if (!str_ok(&all))
        return -1;
    keep = text_unfinished(all.data, all.len);
    if (keep) {
        memcpy(s->held[i], all.data + all.len - keep, keep);
        s->held_len[i] = keep;
    }
    return all.len > keep ? send_piece(s, stream, offset, all.data, all.len - keep) : 0;
}

/* Bytes that never became a character. */
static void flush(struct stream *s, int stream)
{
    size_t i = stream == 1 ? 0 : 1;
    size_t len = s->held_len[i];

    s->held_len[i] = 0;
    if (len)
        (void)send_piece(s, stream, -1, s->held[i], len);
}

/* A client that reads is waited for again, as is one with a large result. */
static void calm(struct stream *s, const struct vial_result *result)
{
    flush(s, 1);
    flush(s, 2);
    (void)tell_missed(s, 1);
    (void)tell_missed(s, 2);
    s->live = s->live && is_full(s) && pays(s) &&
              (!result || result_held(result) < FULL_BYTES);
}

static int put_on(void *context, const void *data, size_t len)
{
    return write_on(context, data, len);
}

int stream_result(struct stream *s, json_t *more, const struct vial_result *result)
{
    static const char mark[] = "event: result\ndata: ";
    auto_larges struct json_larges larges = { 0 };
    auto_json json_t *all = json_pack("{s:s}", "event", "result");
    const struct json_sink to = { put_on, s };
    bool sse = s->form == STREAM_SSE;

    calm(s, result);
    (void)json_object_update(all, more);
    json_decref(more);
    if (json_object_set_new(all, "result", result_tree(result, false, &larges)) < 0)
        return -1;
    if (sse && write_on(s, mark, sizeof(mark) - 1) < 0)
        return -1;
    if (json_write(all, &larges, JSON_STYLE_COMPACT, &to) < 0)
        return -1;
    return write_on(s, "\n\n", sse ? 2 : 1);
}

int stream_last(struct stream *s, const char *event, json_t *told)
{
    int rc;

    calm(s, NULL);
    rc = stream_event(s, event, told);
    stream_end(s);
    return rc;
}

void stream_end(struct stream *s)
{
    web_end(s->call->web);
}
