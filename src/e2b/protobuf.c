/* SPDX-License-Identifier: Apache-2.0 */
#include "e2b/protobuf.h"

#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/auto.h"
#include "base/text.h"

#define ELEMENTS                                                                       \
    8192u /* of lists and maps in one message: each costs far more here                \
           */

enum kind {
    TEXT,
    BYTES, /* base64 in JSON */
    BOOL,
    UINT,
    SINT,
    INT64, /* text in JSON */
    ENUM,
    TIME,  /* RFC 3339 in JSON */
    TEXTS, /* a map from texts to texts */
    MESSAGE
};

struct field {
    unsigned number;
    const char *name;
    enum kind kind;
    const struct proto_message *message; /* of MESSAGE */
    const char *const *names;            /* of ENUM, in order, NULL behind them */
    bool many;
};

struct proto_message {
    struct field fields[12]; /* a number of 0 ends them */
};

/* clang-format off */
static const char *const signals[] = { "SIGNAL_UNSPECIFIED", NULL };
static const char *const file_types[] = { "FILE_TYPE_UNSPECIFIED", "FILE_TYPE_FILE", "FILE_TYPE_DIRECTORY", "FILE_TYPE_SYMLINK", NULL };
static const char *const event_types[] = { "EVENT_TYPE_UNSPECIFIED", "EVENT_TYPE_CREATE", "EVENT_TYPE_WRITE", "EVENT_TYPE_REMOVE", "EVENT_TYPE_RENAME", "EVENT_TYPE_CHMOD", NULL };

#define M(...) { { __VA_ARGS__ } }
#define OF(n, name, m) { n, name, MESSAGE, &(m), NULL, false }
#define MANY(n, name, m) { n, name, MESSAGE, &(m), NULL, true }
#define F(n, name, kind) { n, name, kind, NULL, NULL, false }
#define LIST(n, name, kind) { n, name, kind, NULL, NULL, true }
#define NAMED(n, name, names) { n, name, ENUM, NULL, names, false }

static const struct proto_message nothing = M(F(0, NULL, TEXT));
static const struct proto_message config = M(F(1, "cmd", TEXT), LIST(2, "args", TEXT), F(3, "envs", TEXTS), F(4, "cwd", TEXT));
static const struct proto_message selector = M(F(1, "pid", UINT), F(2, "tag", TEXT));
static const struct proto_message size = M(F(1, "cols", UINT), F(2, "rows", UINT));
static const struct proto_message pty = M(OF(1, "size", size));
static const struct proto_message info = M(OF(1, "config", config), F(2, "pid", UINT), F(3, "tag", TEXT));
static const struct proto_message infos = M(MANY(1, "processes", info));
static const struct proto_message start = M(OF(1, "process", config), OF(2, "pty", pty), F(3, "tag", TEXT), F(4, "stdin", BOOL));
static const struct proto_message by_selector = M(OF(1, "process", selector));
static const struct proto_message update = M(OF(1, "process", selector), OF(2, "pty", pty));
static const struct proto_message input = M(F(1, "stdin", BYTES), F(2, "pty", BYTES));
static const struct proto_message send_input = M(OF(1, "process", selector), OF(2, "input", input));
static const struct proto_message more_input = M(OF(2, "input", input));
static const struct proto_message stream_input = M(OF(1, "start", by_selector), OF(2, "data", more_input), OF(3, "keepalive", nothing));
static const struct proto_message send_signal = M(OF(1, "process", selector), NAMED(2, "signal", signals));
static const struct proto_message started = M(F(1, "pid", UINT));
static const struct proto_message output = M(F(1, "stdout", BYTES), F(2, "stderr", BYTES), F(3, "pty", BYTES));
static const struct proto_message ended = M(F(1, "exitCode", SINT), F(2, "exited", BOOL), F(3, "status", TEXT), F(4, "error", TEXT));
static const struct proto_message event = M(OF(1, "start", started), OF(2, "data", output), OF(3, "end", ended), OF(4, "keepalive", nothing));
static const struct proto_message event_answer = M(OF(1, "event", event));

static const struct proto_message path = M(F(1, "path", TEXT));
static const struct proto_message move = M(F(1, "source", TEXT), F(2, "destination", TEXT));
static const struct proto_message list = M(F(1, "path", TEXT), F(2, "depth", UINT));
static const struct proto_message watch = M(F(1, "path", TEXT), F(2, "recursive", BOOL), F(3, "includeEntry", BOOL), F(4, "allowNetworkMounts", BOOL));
static const struct proto_message watcher = M(F(1, "watcherId", TEXT));
static const struct proto_message entry = M(F(1, "name", TEXT), NAMED(2, "type", file_types), F(3, "path", TEXT), F(4, "size", INT64), F(5, "mode", UINT), F(6, "permissions", TEXT), F(7, "owner", TEXT), F(8, "group", TEXT), F(9, "modifiedTime", TIME), F(10, "symlinkTarget", TEXT), F(11, "metadata", TEXTS));
static const struct proto_message entry_answer = M(OF(1, "entry", entry));
static const struct proto_message entries = M(MANY(1, "entries", entry));
static const struct proto_message change = M(F(1, "name", TEXT), NAMED(2, "type", event_types), OF(3, "entry", entry));
static const struct proto_message changes = M(MANY(1, "events", change));
static const struct proto_message watch_answer = M(OF(1, "start", nothing), OF(2, "filesystem", change), OF(3, "keepalive", nothing));

static const struct {
    const char *path;
    const struct proto_message *takes, *gives;
} methods[] = {
    { "/process.Process/List", &nothing, &infos },
    { "/process.Process/Start", &start, &event_answer },
    { "/process.Process/Connect", &by_selector, &event_answer },
    { "/process.Process/Update", &update, &nothing },
    { "/process.Process/SendInput", &send_input, &nothing },
    { "/process.Process/StreamInput", &stream_input, &nothing },
    { "/process.Process/SendSignal", &send_signal, &nothing },
    { "/process.Process/CloseStdin", &by_selector, &nothing },
    { "/filesystem.Filesystem/Stat", &path, &entry_answer },
    { "/filesystem.Filesystem/MakeDir", &path, &entry_answer },
    { "/filesystem.Filesystem/Move", &move, &entry_answer },
    { "/filesystem.Filesystem/ListDir", &list, &entries },
    { "/filesystem.Filesystem/Remove", &path, &nothing },
    { "/filesystem.Filesystem/WatchDir", &watch, &watch_answer },
    { "/filesystem.Filesystem/CreateWatcher", &watch, &watcher },
    { "/filesystem.Filesystem/GetWatcherEvents", &watcher, &changes },
    { "/filesystem.Filesystem/RemoveWatcher", &watcher, &nothing },
};
/* clang-format on */

bool proto_method(const char *name, const struct proto_message **takes,
                  const struct proto_message **gives)
{
    for (size_t i = 0; i < sizeof(methods) / sizeof(methods[0]); i++)
        if (strcmp(methods[i].path, name) == 0) {
            *takes = methods[i].takes;
            *gives = methods[i].gives;
            return true;
        }
    return false;
}

/* What is left to read. BAD stays once it is set. */
struct bytes {
    const unsigned char *at, *end;
    unsigned *elements; /* so many more */
    bool bad;
};

static uint64_t take_number(struct bytes *b)
{
    uint64_t value = 0;

    for (unsigned shift = 0; shift < 64 && b->at < b->end; shift += 7) {
        unsigned char c = *b->at++;

        value |= (uint64_t)(c & 0x7f) << shift;
        if (!(c & 0x80))
            return value;
    }
    b->bad = true;
    return 0;
}

static struct bytes take_bytes(struct bytes *b)
{
    uint64_t len = take_number(b);
    struct bytes part = { b->at, b->at, b->elements, false };

    if (b->bad || len > (uint64_t)(b->end - b->at)) {
        b->bad = true;
        return part;
    }
    part.end = b->at += len;
    return part;
}

/* Of a field that is not known here. */
static void skip(struct bytes *b, unsigned wire)
{
    size_t fixed = wire == 1 ? 8 : 4;

    if (wire == 0)
        (void)take_number(b);
    else if (wire == 2)
        (void)take_bytes(b);
    else if ((wire == 1 || wire == 5) && (size_t)(b->end - b->at) >= fixed)
        b->at += fixed;
    else
        b->bad = true;
}

static json_t *text_of(const struct bytes *b)
{
    return json_stringn((const char *)b->at, (size_t)(b->end - b->at));
}

static json_t *base64_of(const struct bytes *b)
{
    auto_str struct str text = { 0 };

    text_base64(&text, b->at, (size_t)(b->end - b->at));
    return text.failed ? NULL : json_stringn(text.data ? text.data : "", text.len);
}

static json_t *number_of(const struct field *f, uint64_t value)
{
    size_t count = 0;

    while (f->names && f->names[count])
        count++;
    switch (f->kind) {
    case BOOL:
        return json_boolean(value != 0);
    case SINT:
        return json_integer((json_int_t)(value >> 1) ^ -(json_int_t)(value & 1));
    case INT64:
        return json_sprintf("%" PRId64, (int64_t)value);
    case ENUM:
        return value < count ? json_string(f->names[value])
                             : json_integer((json_int_t)(value & INT32_MAX));
    case UINT:
    case TEXT: /* and what follows is never a number */
    case BYTES:
    case TIME:
    case TEXTS:
    case MESSAGE:
        break;
    }
    return json_integer((json_int_t)(value & UINT32_MAX));
}

/* A row of a map. */
static void read_pair(struct bytes b, json_t *map, bool *bad)
{
    json_t *parts[2] = { json_string(""), json_string("") };

    while (b.at < b.end && !b.bad) {
        uint64_t tag = take_number(&b);
        struct bytes part;

        if ((tag & 7) != 2 || tag >> 3 < 1 || tag >> 3 > 2) {
            skip(&b, tag & 7);
            continue;
        }
        part = take_bytes(&b);
        json_decref(parts[(tag >> 3) - 1]);
        parts[(tag >> 3) - 1] = b.bad ? NULL : text_of(&part);
    }
    if (b.bad || !parts[0] || !parts[1] ||
        strlen(json_string_value(parts[0])) != json_string_length(parts[0]) ||
        json_object_set(map, json_string_value(parts[0]), parts[1]) < 0)
        *bad = true;
    json_decref(parts[0]);
    json_decref(parts[1]);
}

static json_t *read_message(const struct proto_message *m, struct bytes b);

static json_t *part_of(const struct field *f, struct bytes part)
{
    if (f->kind == MESSAGE)
        return read_message(f->message, part);
    return f->kind == BYTES ? base64_of(&part) : text_of(&part);
}

static json_t *member(json_t *object, const char *name, bool many)
{
    json_t *there = json_object_get(object, name);

    if (there)
        return there;
    (void)json_object_set_new(object, name, many ? json_array() : json_object());
    return json_object_get(object, name);
}

/* Takes VALUE. */
static int keep(const struct field *f, json_t *value, json_t *out)
{
    return f->many ? json_array_append_new(member(out, f->name, true), value)
                   : json_object_set_new(out, f->name, value);
}

static void read_long(const struct field *f, struct bytes *b, json_t *out)
{
    struct bytes part = take_bytes(b);

    if (b->bad)
        return;
    if ((f->many || f->kind == TEXTS) && (*b->elements)-- == 0)
        b->bad = true;
    else if (f->kind == TEXTS)
        read_pair(part, member(out, f->name, false), &b->bad);
    else
        b->bad = keep(f, part_of(f, part), out) < 0;
}

static void read_field(const struct proto_message *m, struct bytes *b, json_t *out)
{
    uint64_t tag = take_number(b);
    const struct field *f = m->fields;
    bool is_long;

    while (f->number && f->number != tag >> 3)
        f++;
    is_long =
        f->kind == TEXT || f->kind == BYTES || f->kind == TEXTS || f->kind == MESSAGE;
    if (!f->number || f->kind == TIME)
        skip(b, tag & 7);
    else if ((tag & 7) != (is_long ? 2 : 0))
        b->bad = true;
    else if (is_long)
        read_long(f, b, out);
    else
        b->bad = keep(f, number_of(f, take_number(b)), out) < 0 || b->bad;
}

/* As deep as the tables, which have no circle. */
static json_t *read_message(const struct proto_message *m, struct bytes b)
{
    json_t *out = json_object();

    while (out && b.at < b.end && !b.bad)
        read_field(m, &b, out);
    if (!b.bad)
        return out;
    json_decref(out);
    return NULL;
}

json_t *proto_read(const struct proto_message *m, const void *data, size_t len)
{
    unsigned elements = ELEMENTS;
    const unsigned char *at = data;

    return read_message(m, (struct bytes){ at, at + len, &elements, false });
}

static void put_number(struct str *out, uint64_t value)
{
    for (; value > 0x7f; value >>= 7)
        str_putc(out, (char)(value | 0x80));
    str_putc(out, (char)value);
}

static void put_bytes(struct str *out, unsigned number, const void *data, size_t len)
{
    put_number(out, (uint64_t)number << 3 | 2);
    put_number(out, len);
    str_add(out, data, len);
}

static void put_varint(struct str *out, unsigned number, uint64_t value)
{
    put_number(out, (uint64_t)number << 3);
    put_number(out, value);
}

static void put_text(struct str *out, unsigned number, const json_t *value)
{
    if (json_is_string(value))
        put_bytes(out, number, json_string_value(value), json_string_length(value));
}

static void put_base64(struct str *out, unsigned number, const json_t *value)
{
    struct blob bytes = { 0 };

    if (json_is_string(value) &&
        text_unbase64(json_string_value(value), json_string_length(value), &bytes) == 0)
        put_bytes(out, number, bytes.data ? bytes.data : "", bytes.len);
    blob_done(&bytes);
}

/* "2026-11-19T15:00:00.000000001Z" */
static void put_time(struct str *out, unsigned number, const json_t *value)
{
    const char *text = json_string_value(value);
    auto_str struct str stamp = { 0 };
    struct tm parts = { 0 };
    const char *rest = text ? strptime(text, "%Y-%m-%dT%H:%M:%S", &parts) : NULL;

    if (!rest)
        return;
    put_varint(&stamp, 1, (uint64_t)timegm(&parts));
    if (*rest == '.')
        put_varint(&stamp, 2, strtoull(rest + 1, NULL, 10));
    out->failed = out->failed || stamp.failed;
    put_bytes(out, number, stamp.data, stamp.len);
}

static uint64_t index_of(const char *const *names, const char *name)
{
    for (uint64_t i = 0; name && names[i]; i++)
        if (strcmp(names[i], name) == 0)
            return i;
    return 0;
}

static void put_pairs(struct str *out, unsigned number, const json_t *map)
{
    const char *key;
    json_t *value;

    json_object_foreach((json_t *)(uintptr_t)map, key, value)
    {
        auto_str struct str pair = { 0 };

        put_bytes(&pair, 1, key, strlen(key));
        put_text(&pair, 2, value);
        out->failed = out->failed || pair.failed;
        put_bytes(out, number, pair.data, pair.len);
    }
}

static void put_message(struct str *out, const struct field *f, const json_t *value)
{
    auto_str struct str inner = { 0 };

    proto_write(f->message, value, &inner);
    out->failed = out->failed || inner.failed;
    put_bytes(out, f->number, inner.data ? inner.data : "", inner.len);
}

static void put_value(struct str *out, const struct field *f, const json_t *value)
{
    json_int_t number = json_integer_value(value);

    switch (f->kind) {
    case TEXT:
        put_text(out, f->number, value);
        break;
    case BYTES:
        put_base64(out, f->number, value);
        break;
    case BOOL:
        put_varint(out, f->number, json_is_true(value));
        break;
    case UINT:
        put_varint(out, f->number, (uint64_t)number);
        break;
    case SINT:
        put_varint(out, f->number, (uint64_t)number << 1 ^ (uint64_t)(number >> 63));
        break;
    case INT64:
        if (json_is_string(value))
            put_varint(out, f->number, strtoull(json_string_value(value), NULL, 10));
        break;
    case ENUM:
        put_varint(out, f->number, index_of(f->names, json_string_value(value)));
        break;
    case TIME:
        put_time(out, f->number, value);
        break;
    case TEXTS:
        put_pairs(out, f->number, value);
        break;
    case MESSAGE:
        put_message(out, f, value);
        break;
    }
}

void proto_write(const struct proto_message *m, const json_t *value, struct str *out)
{
    for (const struct field *f = m->fields; f->number; f++) {
        const json_t *given = json_object_get(value, f->name);

        if (!given || json_is_null(given))
            continue;
        if (!f->many)
            put_value(out, f, given);
        for (size_t i = 0; f->many && i < json_array_size(given); i++)
            put_value(out, f, json_array_get(given, i));
    }
}
