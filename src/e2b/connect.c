/* SPDX-License-Identifier: Apache-2.0 */
#define VIAL_CONNECT_ITSELF
#include "e2b/connect.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/fail.h"
#include "base/str.h"
#include "base/text.h"
#include "base/unit.h"
#include "e2b/protobuf.h"
#include "http/connect_envelope.h"

#define QUIET_MS      90000
#define QUIET_LEAST_S 1
#define STREAM_JSON   "application/connect+json"
#define STREAM_PROTO  "application/connect+proto"

static const struct {
    const char *name;
    unsigned status;
} codes[] = {
    [CONNECT_INVALID] = { "invalid_argument", 400 },
    [CONNECT_UNAUTHENTICATED] = { "unauthenticated", 401 },
    [CONNECT_DENIED] = { "permission_denied", 403 },
    [CONNECT_NOT_FOUND] = { "not_found", 404 },
    [CONNECT_EXISTS] = { "already_exists", 409 },
    [CONNECT_EXHAUSTED] = { "resource_exhausted", 429 },
    [CONNECT_DEADLINE] = { "deadline_exceeded", 504 },
    [CONNECT_UNIMPLEMENTED] = { "unimplemented", 501 },
    [CONNECT_INTERNAL] = { "internal", 500 },
    [CONNECT_UNAVAILABLE] = { "unavailable", 503 },
};

int connect_fail(struct connect_error *e, enum connect_code code, const char *format,
                 ...)
{
    va_list args;

    e->code = code;
    va_start(args, format);
    (void)vsnprintf(e->message, sizeof(e->message), format, args);
    va_end(args);
    return -1;
}

int connect_from(struct connect_error *e, const struct vial_error *err)
{
    static const struct {
        enum fail_code code;
        enum connect_code as;
    } table[] = {
        { VIAL_E_JSON, CONNECT_INVALID },
        { VIAL_E_FIELD, CONNECT_INVALID },
        { VIAL_E_VALUE, CONNECT_INVALID },
        { VIAL_E_PATH, CONNECT_INVALID },
        { VIAL_E_CWD, CONNECT_INVALID },
        { VIAL_E_EXEC, CONNECT_INVALID },
        { VIAL_E_CAP, CONNECT_INVALID },
        { VIAL_E_NO_FILE, CONNECT_NOT_FOUND },
        { VIAL_E_NAME_TAKEN, CONNECT_EXISTS },
        { VIAL_E_RATE, CONNECT_EXHAUSTED },
        { VIAL_E_BUSY, CONNECT_EXHAUSTED },
        { VIAL_E_QUOTA, CONNECT_EXHAUSTED },
        { VIAL_E_SESSION, CONNECT_UNAVAILABLE },
        { VIAL_E_UNSUPPORTED, CONNECT_UNIMPLEMENTED },
    };
    enum connect_code code = CONNECT_INTERNAL;

    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++)
        if (fail_is(err, table[i].code))
            code = table[i].as;
    if (code == CONNECT_INTERNAL &&
        (err->sys == EACCES || err->sys == EPERM || err->sys == EROFS))
        code = CONNECT_DENIED;
    e->code = code;
    ask_words(err, e->message);
    return -1;
}

static bool is_type(const struct ask *a, const char *type)
{
    const char *given = web_header(a->web, "Content-Type");
    size_t len = strlen(type);

    return given && strncasecmp(given, type, len) == 0 &&
           (given[len] == '\0' || given[len] == ';' || given[len] == ' ');
}

bool connect_is_stream(struct ask *a, bool *refused)
{
    const char *packed = web_header(a->web, "Connect-Content-Encoding");

    bool plain = !packed || strcasecmp(packed, "identity") == 0;

    *refused = false;
    a->proto = is_type(a, "application/proto") || is_type(a, STREAM_PROTO);
    if (plain && (is_type(a, STREAM_JSON) || is_type(a, STREAM_PROTO)))
        return true;
    if (is_type(a, "application/json") || is_type(a, "application/proto"))
        return false;
    *refused = true;
    ask_refuse(a, 415,
               "send application/json, application/connect+json, or the same with "
               "'proto'");
    return false;
}

static int parse_proto(struct ask *a, const char *data, size_t len, json_t **out,
                       struct connect_error *e)
{
    const struct proto_message *takes, *gives;

    if (!proto_method(a->path, &takes, &gives))
        return connect_fail(e, CONNECT_UNIMPLEMENTED, "there is no method '%.64s'",
                            a->path);
    *out = proto_read(takes, data, len);
    return *out ? 0 : connect_fail(e, CONNECT_INVALID, "the message cannot be read");
}

static int parse(struct ask *a, const char *text, size_t len, json_t **out,
                 struct connect_error *e)
{
    struct vial_error err = { 0 };

    if (a->proto)
        return parse_proto(a, text, len, out, e);
    if (json_parse(text, len, "message", out, &err) < 0)
        return connect_from(e, &err);
    if (json_is_object(*out))
        return 0;
    json_decref(*out);
    *out = NULL;
    return connect_fail(e, CONNECT_INVALID, "the message is not an object");
}

int connect_message(struct ask *a, json_t **out, struct connect_error *e)
{
    size_t len;
    const char *text = web_body(a->web, &len);

    return len || a->proto ? parse(a, text, len, out, e) : parse(a, "{}", 2, out, e);
}

int connect_frame(struct ask *a, size_t *at, json_t **out, struct connect_error *e)
{
    size_t len;
    const char *body = web_body(a->web, &len);
    struct connect_head head = { 0 };

    if (len - *at >= CONNECT_HEAD)
        head = connect_head_read(body + *at);
    if (*at == len || (head.flags & CONNECT_LAST))
        return 0;
    if (len - *at < CONNECT_HEAD || head.len > len - *at - CONNECT_HEAD)
        return connect_fail(e, CONNECT_INVALID, "a frame is cut short");
    if (head.flags & CONNECT_PACKED)
        return connect_fail(e, CONNECT_UNIMPLEMENTED,
                            "compressed frames are not understood");
    *at += CONNECT_HEAD + head.len;
    return parse(a, body + *at - head.len, head.len, out, e) < 0 ? -1 : 1;
}

/* Takes VALUE. Errors, and what ends a stream, are JSON in any case. */
static int pack_answer(const struct ask *a, json_t *value, struct str *out)
{
    const struct proto_message *takes, *gives;

    if (value && proto_method(a->path, &takes, &gives))
        proto_write(gives, value, out);
    else
        out->failed = true;
    json_decref(value);
    return out->failed ? -1 : 0;
}

void connect_answer(struct ask *a, json_t *value)
{
    auto_str struct str packed = { 0 };

    if (!a->proto) {
        ask_json(a, 200, value);
        return;
    }
    if (pack_answer(a, value, &packed) < 0) {
        ask_refuse(a, 500, "out of memory");
        return;
    }
    a->turn->status = 200;
    (void)web_reply(a->web, 200, "application/proto", packed.data ? packed.data : "",
                    packed.len);
}

static json_t *error_json_of(const struct connect_error *e)
{
    auto_str struct str repaired = { 0 };

    text_repair(&repaired, e->message, strlen(e->message));
    return json_pack("{s:s, s:s}", "code", codes[e->code].name, "message",
                     str_ok(&repaired) && repaired.data ? repaired.data : "");
}

void connect_refuse(struct ask *a, const struct connect_error *e)
{
    ask_json(a, codes[e->code].status, error_json_of(e));
}

static int64_t quiet_ms(const struct ask *a)
{
    const char *text = web_header(a->web, "Keepalive-Ping-Interval");
    int64_t seconds;

    if (!text || unit_parse_count(text, &seconds) < 0 || seconds < QUIET_LEAST_S ||
        seconds > QUIET_MS / 1000)
        return QUIET_MS;
    return seconds * 1000;
}

int connect_start(struct connect_stream *s, struct ask *a)
{
    *s = (struct connect_stream){ .ask = a,
                                  .quiet_ms = quiet_ms(a),
                                  .sent_ns = clock_now_ns() };
    a->turn->status = 200;
    s->started = web_start(a->web, 200, a->proto ? STREAM_PROTO : STREAM_JSON) == 0;
    return s->started ? 0 : -1;
}

/* Takes VALUE. */
static int dump_json(json_t *value, struct str *out)
{
    auto_free char *text = value ? json_dumps(value, JSON_COMPACT) : NULL;

    json_decref(value);
    if (text)
        str_puts(out, text);
    return text ? 0 : -1;
}

static int send_frame(struct connect_stream *s, unsigned flags, json_t *message)
{
    auto_str struct str body = { 0 };
    auto_str struct str frame = { 0 };
    int rc = s->ask->proto && !flags ? pack_answer(s->ask, message, &body)
                                     : dump_json(message, &body);

    if (rc < 0)
        return -1;
    connect_put(&frame, flags, body.data ? body.data : "", body.len);
    frame.failed = frame.failed || body.failed;
    s->sent_ns = clock_now_ns();
    return str_ok(&frame) ? web_write(s->ask->web, frame.data, frame.len) : -1;
}

int connect_send(struct connect_stream *s, json_t *message)
{
    return send_frame(s, 0, message);
}

int connect_keep_alive(struct connect_stream *s, const char *form)
{
    if (clock_ms_between(s->sent_ns, clock_now_ns()) < (double)s->quiet_ms)
        return 0;
    return connect_send(s, json_loads(form, 0, NULL));
}

void connect_end(struct connect_stream *s, const struct connect_error *e)
{
    json_t *last = e ? json_pack("{s:o}", "error", error_json_of(e)) : json_object();

    if (send_frame(s, CONNECT_LAST, last) == 0)
        web_end(s->ask->web);
    else
        web_abort(s->ask->web);
}

void connect_cut(struct connect_stream *s)
{
    web_abort(s->ask->web);
}

int connect_check_user(const struct ask *a, const char *name, bool *root,
                       struct connect_error *e)
{
    if (!*name || strcmp(name, BOX_USER) == 0)
        return 0;
    if (strcmp(name, BOX_ROOT) != 0)
        return connect_fail(e, CONNECT_UNAUTHENTICATED, "invalid username: '%.64s'",
                            name);
    if (!a->box->has_root)
        return connect_fail(e, CONNECT_UNAUTHENTICATED,
                            "invalid username: 'root': this sandbox has no root user; "
                            "the server's operator sets 'sudo: nopasswd' for templates "
                            "that have an image");
    *root = true;
    return 0;
}

/* "Basic dXNlcjo=" -> "user" */
int connect_user(struct ask *a, bool *root, struct connect_error *e)
{
    const char *given = web_header(a->web, "Authorization");
    struct blob name = { 0 };
    int rc = 0;

    if (!given || strncasecmp(given, "Basic ", 6) != 0)
        return 0;
    if (text_unbase64(given + 6, strlen(given + 6), &name) == 0 && name.data) {
        name.data[strcspn(name.data, ":")] = '\0';
        rc = connect_check_user(a, name.data, root, e);
    }
    blob_done(&name);
    return rc;
}

json_t *connect_member(const json_t *object, const char *camel, const char *snake)
{
    json_t *value = json_object_get(object, camel);

    return value ? value : json_object_get(object, snake);
}

json_t *connect_bytes(const void *data, size_t len)
{
    auto_str struct str text = { 0 };

    text_base64(&text, data, len);
    return str_ok(&text) ? json_stringn(text.data ? text.data : "", text.len) : NULL;
}
