/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/output.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "wire/weaken.h"

void output_init(struct output *o, enum plan_keep keep, size_t limit, const char *note)
{
    limit *= weaken("output") ? 2 : 1;
    *o = (struct output){ .keep = keep, .limit = limit, .note = note };
    if (keep == KEEP_HEAD)
        o->head_limit = limit;
    else if (keep == KEEP_TAIL)
        o->tail_limit = limit;
    else {
        o->head_limit = limit - limit / 2;
        o->tail_limit = limit / 2;
    }
}

/* LEN <= tail_limit. */
static void put_in_ring(struct output *o, const char *data, size_t len)
{
    size_t first = o->tail_limit - o->tail_at;

    if (first > len)
        first = len;
    memcpy(o->tail + o->tail_at, data, first);
    memcpy(o->tail, data + first, len - first);
    o->tail_at = (o->tail_at + len) % o->tail_limit;
    o->tail_len += len;
    if (o->tail_len > o->tail_limit)
        o->tail_len = o->tail_limit;
}

static void add_to_tail(struct output *o, const char *data, size_t len)
{
    if (len == 0 || o->tail_limit == 0 || o->failed)
        return;
    if (!o->tail)
        o->tail = malloc(o->tail_limit);
    if (!o->tail) {
        o->failed = true;
        return;
    }
    if (len > o->tail_limit) {
        data += len - o->tail_limit;
        len = o->tail_limit;
    }
    put_in_ring(o, data, len);
}

void output_add(struct output *o, const void *data, size_t len)
{
    const char *bytes = data;
    size_t room = o->head_limit - o->head.len;
    size_t first = len < room ? len : room;

    o->total += len;
    if (first > 0)
        str_add(&o->head, bytes, first);
    add_to_tail(o, bytes + first, len - first);
}

static void add_note(struct str *s, const struct output *o, uint64_t missing)
{
    for (const char *at = o->note; *at;) {
        if (str_starts(at, "{limit}")) {
            str_printf(s, "%zu", o->limit);
            at += strlen("{limit}");
        } else if (str_starts(at, "{left}")) {
            str_printf(s, "%" PRIu64, missing);
            at += strlen("{left}");
        } else {
            str_putc(s, *at++);
        }
    }
    if (o->tail_limit > 0)
        str_putc(s, '\n');
}

static void add_notice(struct str *s, const struct output *o, uint64_t missing)
{
    if (o->head_limit > 0)
        str_putc(s, '\n');
    if (o->note) {
        add_note(s, o, missing);
        return;
    }
    str_printf(s, "[… %" PRIu64 " bytes left out …]\n", missing);
}

size_t output_room(const struct output *o)
{
    return o->head_limit - o->head.len;
}

static uint64_t missing_of(const struct output *o)
{
    return o->total - o->head.len - o->tail_len;
}

bool output_is_cut(const struct output *o)
{
    return missing_of(o) > 0;
}

void output_rest(const struct output *o, struct str *out)
{
    size_t start = o->tail_len < o->tail_limit ? 0 : o->tail_at;

    if (missing_of(o) > 0)
        add_notice(out, o, missing_of(o));
    if (o->tail_len > 0) {
        str_add(out, o->tail + start, o->tail_len - start);
        str_add(out, o->tail, start);
    }
}

int output_take(struct output *o, struct vial_stream *out)
{
    struct str s = o->head;
    auto_str struct str rest = { 0 };
    uint64_t missing = missing_of(o);
    size_t len;
    char *data;

    output_rest(o, &rest);
    o->head = (struct str){ 0 };
    if (rest.len > 0)
        str_add(&s, rest.data, rest.len);
    len = s.len;
    data = o->failed || !str_ok(&rest) ? NULL : str_take(&s);
    str_done(&s);
    if (!data)
        return -1;
    out->data = data;
    out->len = len;
    out->total_bytes = o->total;
    out->truncated = missing > 0 && !weaken("output");
    for (size_t i = 0; weaken("bytes") && i < len; i++)
        data[i] = (char)(data[i] & 0x7f);
    return 0;
}

void output_done(struct output *o)
{
    str_done(&o->head);
    free(o->tail);
    *o = (struct output){ 0 };
}
