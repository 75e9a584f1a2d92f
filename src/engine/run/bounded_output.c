/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/run/bounded_output.h"

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

void outputs_begin(struct output both[2], const struct plan *plan)
{
    outputs_done(both);
    for (int i = 0; i < 2; i++)
        output_init(&both[i], plan->keep, (size_t)plan->limits.output_bytes,
                    plan->output_note);
}

void outputs_done(struct output both[2])
{
    output_done(&both[0]);
    output_done(&both[1]);
}

size_t output_allowed(const struct plan *plan, uint64_t written, size_t len)
{
    uint64_t max = (uint64_t)plan->limits.output_max;

    if (max == 0 || written + len <= max)
        return len;
    return written < max ? (size_t)(max - written) : 0;
}

/* The notice is not longer: a number has at most 20 digits, what it replaces 6. */
static size_t notice_room(const struct output *o)
{
    return 64 + (o->note ? 4 * strlen(o->note) : 0);
}

static char *ring_of(const struct output *o)
{
    return o->data + o->head_limit + notice_room(o);
}

static bool grow(struct output *o, size_t need)
{
    char *data;

    if (need <= o->size)
        return true;
    data = o->failed ? NULL : realloc(o->data, need);
    if (!data) {
        o->failed = true;
        return false;
    }
    o->data = data;
    o->size = need;
    return true;
}

/* Doubled each time, but never beyond what may be kept. */
static bool grow_head(struct output *o, size_t more)
{
    size_t need = o->head_len + more;
    size_t twice = o->size * 2 < o->head_limit ? o->size * 2 : o->head_limit;

    if (need <= o->size)
        return true;
    return grow(o, need > twice ? need : twice);
}

/* LEN <= tail_limit. */
static void put_in_ring(struct output *o, const char *data, size_t len)
{
    char *ring = ring_of(o);
    size_t first = o->tail_limit - o->tail_at;

    if (first > len)
        first = len;
    memcpy(ring + o->tail_at, data, first);
    memcpy(ring, data + first, len - first);
    o->tail_at = (o->tail_at + len) % o->tail_limit;
    o->tail_len += len;
    if (o->tail_len > o->tail_limit)
        o->tail_len = o->tail_limit;
}

static void add_to_tail(struct output *o, const char *data, size_t len)
{
    if (len == 0 || o->tail_limit == 0 ||
        !grow(o, o->head_limit + notice_room(o) + o->tail_limit + 1))
        return;
    if (len > o->tail_limit) {
        data += len - o->tail_limit;
        len = o->tail_limit;
    }
    put_in_ring(o, data, len);
}

void output_add(struct output *o, const void *data, size_t len)
{
    const char *bytes = data;
    size_t room = output_room(o);
    size_t first = len < room ? len : room;

    o->total += len;
    if (first > 0 && grow_head(o, first)) {
        memcpy(o->data + o->head_len, bytes, first);
        o->head_len += first;
    }
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
    return o->head_limit - o->head_len;
}

size_t output_room_text(const struct output *o, const char *text, size_t len)
{
    if (len <= output_room(o))
        return len;
    len = output_room(o);
    while (len > 0 && ((unsigned char)text[len] & 0xc0) == 0x80)
        len--;
    return len;
}

void output_close(struct output *o)
{
    o->head_limit = o->head_len;
}

static uint64_t missing_of(const struct output *o)
{
    return o->total - o->head_len - o->tail_len;
}

bool output_is_cut(const struct output *o)
{
    return missing_of(o) > 0 && !weaken("output");
}

void output_head(const struct output *o, output_piece *give, void *context)
{
    if (o->head_len > 0)
        give(context, o->data, o->head_len);
}

void output_rest(const struct output *o, output_piece *give, void *context)
{
    size_t start = o->tail_len < o->tail_limit ? 0 : o->tail_at;
    auto_str struct str notice = { 0 };

    if (missing_of(o) > 0)
        add_notice(&notice, o, missing_of(o));
    if (str_ok(&notice) && notice.len > 0)
        give(context, notice.data, notice.len);
    if (o->tail_len > start)
        give(context, ring_of(o) + start, o->tail_len - start);
    if (start > 0)
        give(context, ring_of(o), start);
}

static void reverse(char *from, char *to)
{
    while (from < --to) {
        char c = *from;

        *from++ = *to;
        *to = c;
    }
}

/* The oldest byte first, in place. */
static void unroll(struct output *o)
{
    char *ring = ring_of(o);

    if (o->tail_len < o->tail_limit || o->tail_at == 0)
        return;
    reverse(ring, ring + o->tail_at);
    reverse(ring + o->tail_at, ring + o->tail_len);
    reverse(ring, ring + o->tail_len);
    o->tail_at = 0;
}

/* Head, notice and tail one behind the other; their length, or -1. */
static ssize_t join(struct output *o)
{
    auto_str struct str notice = { 0 };
    size_t len;

    if (missing_of(o) > 0)
        add_notice(&notice, o, missing_of(o));
    len = o->head_len + notice.len + o->tail_len;
    if (!str_ok(&notice) || !grow(o, len + 1))
        return -1;
    if (o->tail_len > 0) {
        unroll(o);
        memmove(o->data + o->head_len + notice.len, ring_of(o), o->tail_len);
    }
    if (notice.len > 0)
        memcpy(o->data + o->head_len, notice.data, notice.len);
    o->data[len] = '\0';
    return (ssize_t)len;
}

int output_take(struct output *o, struct vial_stream *out)
{
    bool cut = output_is_cut(o);
    ssize_t len = o->failed ? -1 : join(o);
    char *fitting;

    if (len < 0)
        return -1;
    fitting = realloc(o->data, (size_t)len + 1);
    out->data = fitting ? fitting : o->data;
    o->data = NULL;
    o->size = 0;
    out->len = (size_t)len;
    out->total_bytes = o->total;
    out->truncated = cut;
    for (size_t i = 0; weaken("bytes") && i < out->len; i++)
        out->data[i] = (char)(out->data[i] & 0x7f);
    return 0;
}

void output_done(struct output *o)
{
    free(o->data);
    *o = (struct output){ 0 };
}
