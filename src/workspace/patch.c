/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The shortest edit between two lists of lines, after E. W. Myers, "An O(ND)
 * Difference Algorithm and Its Variations" (1986). Where it would have more than
 * EDITS_MAX steps, all that differs is one piece: right, though not short.
 */
#include "workspace/patch.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define EDITS_MAX 1500
#define AROUND    3

struct line {
    const char *text;
    size_t len; /* with its newline */
};

struct lines {
    struct line *items;
    size_t count;
};

/* The lines that differ: keep[i] false means deleted (old) or added (new). */
struct script {
    struct lines old, new;
    bool *same_old, *same_new;
};

bool patch_is_text(const struct blob *b)
{
    return b->len == 0 || !memchr(b->data, '\0', b->len);
}

static int split(const struct blob *b, struct lines *out)
{
    size_t at = 0;
    size_t count = 0;

    for (size_t i = 0; i < b->len; i++)
        count += b->data[i] == '\n';
    out->items = calloc(count + 1, sizeof(*out->items));
    if (!out->items)
        return -1;
    while (at < b->len) {
        const char *end = memchr(b->data + at, '\n', b->len - at);
        size_t len = end ? (size_t)(end - (b->data + at)) + 1 : b->len - at;

        out->items[out->count++] = (struct line){ b->data + at, len };
        at += len;
    }
    return 0;
}

static bool equal(const struct line *a, const struct line *b)
{
    return a->len == b->len && memcmp(a->text, b->text, a->len) == 0;
}

/* The part of both that lies between a common beginning and end. */
struct middle {
    const struct line *old, *new;
    long old_count, new_count;
    bool *same_old, *same_new;
};

static struct middle cut_ends(struct script *s)
{
    size_t head = 0;
    size_t tail = 0;
    size_t least = s->old.count < s->new.count ? s->old.count : s->new.count;

    while (head < least && equal(&s->old.items[head], &s->new.items[head]))
        head++;
    while (tail < least - head && equal(&s->old.items[s->old.count - 1 - tail],
                                        &s->new.items[s->new.count - 1 - tail]))
        tail++;
    for (size_t i = 0; i < s->old.count; i++)
        s->same_old[i] = i < head || i >= s->old.count - tail;
    for (size_t i = 0; i < s->new.count; i++)
        s->same_new[i] = i < head || i >= s->new.count - tail;
    return (struct middle){ s->old.items + head,
                            s->new.items + head,
                            (long)(s->old.count - head - tail),
                            (long)(s->new.count - head - tail),
                            s->same_old + head,
                            s->same_new + head };
}

/* FURTHEST[k] after D steps, kept for each D: row D begins at D * D and holds the
 * diagonals -D … D. */
static long *row_of(long *rows, long d)
{
    return rows + d * d + d;
}

static long slide(const struct middle *m, long x, long k)
{
    while (x < m->old_count && x - k < m->new_count &&
           equal(&m->old[x], &m->new[x - k]))
        x++;
    return x;
}

/* Whether diagonal K is reached from K + 1, by a line of the new text. */
static bool comes_down(const long *before, long d, long k)
{
    return k == -d || (k != d && before[k - 1] < before[k + 1]);
}

static bool step(const struct middle *m, long *rows, long d)
{
    const long *before = d > 0 ? row_of(rows, d - 1) : NULL;
    long *now = row_of(rows, d);

    for (long k = -d; k <= d; k += 2) {
        long x = 0;

        if (d > 0)
            x = comes_down(before, d, k) ? before[k + 1] : before[k - 1] + 1;
        now[k] = slide(m, x, k);
        if (now[k] >= m->old_count && now[k] - k >= m->new_count)
            return true;
    }
    return false;
}

/* From the end back to the beginning, marking the lines that are in both. */
static void trace_back(const struct middle *m, long *rows, long d)
{
    long x = m->old_count;
    long y = m->new_count;

    for (; d >= 0; d--) {
        long k = x - y;
        const long *before = d > 0 ? row_of(rows, d - 1) : NULL;
        bool down = d > 0 && comes_down(before, d, k);
        long from = d == 0 ? 0 : down ? before[k + 1] : before[k - 1];
        long start = d == 0 || down ? from : from + 1;

        while (x > start && y > 0 && x - 1 >= 0) {
            m->same_old[--x] = true;
            m->same_new[--y] = true;
        }
        if (d > 0) {
            x = from;
            y = from - (down ? k + 1 : k - 1);
        }
    }
}

static void compare_middle(const struct middle *m)
{
    long most = m->old_count + m->new_count;
    long *rows = NULL;

    if (m->old_count == 0 || m->new_count == 0)
        return;
    most = most < EDITS_MAX ? most : EDITS_MAX;
    rows = calloc((size_t)((most + 1) * (most + 1)), sizeof(*rows));
    for (long d = 0; rows && d <= most; d++) {
        if (step(m, rows, d)) {
            trace_back(m, rows, d);
            break;
        }
    }
    free(rows);
}

static void put_line(struct str *out, char mark, const struct line *l)
{
    str_putc(out, mark);
    str_add(out, l->text, l->len);
    if (l->text[l->len - 1] != '\n')
        str_puts(out, "\n\\ No newline at end of file\n");
}

static void put_start(struct str *out, char sign, size_t first, size_t count)
{
    /* An empty range is named by the line before it. */
    str_printf(out, "%c%zu", sign, count ? first + 1 : first);
    if (count != 1)
        str_printf(out, ",%zu", count);
}

/* Lines OLD_AT … OLD_END and NEW_AT … NEW_END as one hunk. */
struct hunk {
    size_t old_at, old_end, new_at, new_end;
};

static void put_hunk(struct str *out, const struct script *s, const struct hunk *h)
{
    size_t i = h->old_at;
    size_t j = h->new_at;

    str_puts(out, "@@ ");
    put_start(out, '-', h->old_at, h->old_end - h->old_at);
    str_putc(out, ' ');
    put_start(out, '+', h->new_at, h->new_end - h->new_at);
    str_puts(out, " @@\n");
    while (i < h->old_end || j < h->new_end) {
        if (i < h->old_end && !s->same_old[i]) {
            put_line(out, '-', &s->old.items[i++]);
        } else if (j < h->new_end && !s->same_new[j]) {
            put_line(out, '+', &s->new.items[j++]);
        } else {
            put_line(out, ' ', &s->old.items[i++]);
            j++;
        }
    }
}

/* Walks over lines that are the same, at most MAX of them; how many there were. */
static size_t pass_same(const struct script *s, size_t *i, size_t *j, size_t max)
{
    size_t n = 0;

    while (n < max && *i < s->old.count && *j < s->new.count && s->same_old[*i] &&
           s->same_new[*j]) {
        (*i)++;
        (*j)++;
        n++;
    }
    return n;
}

static void pass_different(const struct script *s, size_t *i, size_t *j)
{
    while (*i < s->old.count && !s->same_old[*i])
        (*i)++;
    while (*j < s->new.count && !s->same_new[*j])
        (*j)++;
}

static void put_hunks(struct str *out, const struct script *s)
{
    size_t i = 0;
    size_t j = 0;

    for (;;) {
        struct hunk h = { 0 };
        size_t same = 0;

        same = pass_same(s, &i, &j, SIZE_MAX);
        if (i >= s->old.count && j >= s->new.count)
            return;
        same = same < AROUND ? same : AROUND;
        h.old_at = i - same;
        h.new_at = j - same;
        do {
            pass_different(s, &i, &j);
            h.old_end = i;
            h.new_end = j;
            same = pass_same(s, &i, &j, (size_t)2 * AROUND + 1);
        } while (same > 0 && same <= (size_t)2 * AROUND &&
                 (i < s->old.count || j < s->new.count));
        same = same < AROUND ? same : AROUND;
        h.old_end += same;
        h.new_end += same;
        put_hunk(out, s, &h);
        i = h.old_end;
        j = h.new_end;
    }
}

void patch_hunks(struct str *out, const struct blob *before, const struct blob *after)
{
    struct script s = { 0 };

    if (split(before, &s.old) == 0 && split(after, &s.new) == 0) {
        s.same_old = calloc(s.old.count + 1, 1);
        s.same_new = calloc(s.new.count + 1, 1);
    }
    if (s.same_old && s.same_new) {
        struct middle m = cut_ends(&s);

        compare_middle(&m);
        put_hunks(out, &s);
    } else {
        out->failed = true;
    }
    free(s.old.items);
    free(s.new.items);
    free(s.same_old);
    free(s.same_new);
}
