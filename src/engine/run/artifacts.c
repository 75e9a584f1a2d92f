/* SPDX-License-Identifier: Apache-2.0 */

/*
 * What a program made: the files below a directory that were not there before it
 * started, or differ since. The directory is listed before and after, one LIST at a
 * time; what differs is read to be hashed; images and tables of moderate size are kept.
 */

#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/fail.h"
#include "base/path.h"
#include "base/sha256.h"
#include "engine/run/run.h"
#include "model/result.h"

#define ENTRIES_MAX 20000u
#define ANSWER_MAX  ((size_t)4 << 20)     /* bytes of one directory's listing */
#define COUNT_MAX   256u                  /* artifacts in a result */
#define HASHED_MAX  (UINT64_C(256) << 20) /* bytes of all of them together */
#define IMAGE_MAX   (UINT64_C(4) << 20)
#define TABLE_MAX   (UINT64_C(64) << 10)
#define INLINED_MAX (UINT64_C(16) << 20) /* of all that are kept */
#define PATH_MOST   4096u

struct seen {
    char *path; /* below the directory */
    char type;
    uint64_t size, mtime_ns;
};

struct listing {
    struct seen *items;
    size_t count, cap;
};

struct artifacts {
    struct listing before, now;
    bool after;        /* the program has run */
    bool reading;      /* files, no longer directories */
    uint32_t channel;  /* of the LIST or GET under way, or 0 */
    size_t next;       /* entry of `now`: the next directory, or file */
    char *dir;         /* being listed, below the directory */
    struct str answer; /* a listing, or an image */
    bool keep;         /* the file being read is wanted whole */
    uint64_t hashed, inlined;
    uint64_t size, told; /* of the file being read: what came, and what it was to be */
    struct sha256 hash;
    struct vial_artifact *items;
    size_t count;
    bool truncated;
};

static void listing_done(struct listing *l)
{
    for (size_t i = 0; i < l->count; i++)
        free(l->items[i].path);
    free(l->items);
    *l = (struct listing){ 0 };
}

void artifacts_free(struct artifacts *a)
{
    listing_done(&a->before);
    listing_done(&a->now);
    for (size_t i = 0; i < a->count; i++) {
        free(a->items[i].path);
        free(a->items[i].data);
    }
    free(a->items);
    free(a->dir);
    str_done(&a->answer);
    free(a);
}

bool artifacts_owns(const struct run *r, uint32_t channel)
{
    return r->artifacts->channel == channel;
}

static int compare(const void *a, const void *b)
{
    const struct seen *x = a;
    const struct seen *y = b;

    return strcmp(x->path, y->path);
}

static char *join(const char *dir, const char *name)
{
    struct str path = { 0 };

    str_puts(&path, dir);
    str_puts(&path, *dir && *name ? "/" : "");
    str_puts(&path, name);
    return str_take(&path);
}

static int add_seen(struct listing *l, const char *dir, const struct list_entry *e)
{
    if (l->count == l->cap) {
        size_t cap = l->cap ? 2 * l->cap : 64;
        struct seen *grown = reallocarray(l->items, cap, sizeof *grown);

        if (!grown)
            return -1;
        l->items = grown;
        l->cap = cap;
    }
    l->items[l->count] = (struct seen){ .path = join(dir, e->name),
                                        .type = (char)e->type,
                                        .size = e->size,
                                        .mtime_ns = e->mtime_ns };
    return l->items[l->count].path ? (int)(l->count++, 0) : -1;
}

static void give_up(struct run *r)
{
    struct vial_error err = { 0 };

    (void)fail_memory(&err);
    run_fail(r, RUN_FAILED, &err);
}

/* What makes no sense, or is too much, is left out and marked. */
static void take_listing(struct run *r)
{
    struct artifacts *a = r->artifacts;
    struct unpack u = { .data = (const uint8_t *)a->answer.data, .len = a->answer.len };

    while (u.at < u.len && a->now.count < ENTRIES_MAX) {
        struct list_entry e;
        int rc;

        if (list_entry_read(&u, &e) < 0)
            break;
        rc = add_seen(&a->now, a->dir, &e);
        list_entry_done(&e);
        if (rc < 0) {
            give_up(r);
            return;
        }
    }
    a->truncated = a->truncated || u.at < u.len;
}

static void list_dir(struct run *r, const char *dir)
{
    struct artifacts *a = r->artifacts;
    auto_free char *path = join(r->plan->artifacts, dir);
    struct vial_error err = { 0 };

    free(a->dir);
    a->dir = strdup(dir);
    a->answer.len = 0;
    if (!path || !a->dir)
        give_up(r);
    else if (strlen(path) >= PATH_MOST)
        a->truncated = true;
    else if (link_list(r->talk.link, path, &a->channel, &err) < 0)
        run_fail(r, RUN_FAILED, &err);
}

static bool is_new(const struct artifacts *a, const struct seen *s)
{
    const struct seen *old =
        a->before.count
            ? bsearch(s, a->before.items, a->before.count, sizeof *s, compare)
            : NULL;

    return s->type == 'f' && !(old && old->type == 'f' && old->size == s->size &&
                               old->mtime_ns == s->mtime_ns);
}

static int add_artifact(struct artifacts *a, const struct seen *s)
{
    struct vial_artifact *grown =
        reallocarray(a->items, a->count + 1, sizeof *a->items);

    if (!grown)
        return -1;
    a->items = grown;
    a->items[a->count] = (struct vial_artifact){ .path = strdup(s->path),
                                                 .media = path_media(s->path),
                                                 .size = s->size };
    return a->items[a->count].path ? (int)(a->count++, 0) : -1;
}

/* Whether it comes with its content. */
static bool is_kept(const struct seen *s)
{
    const char *media = path_media(s->path);

    return (str_starts(media, "image/") && s->size <= IMAGE_MAX) ||
           (strcmp(media, "text/csv") == 0 && s->size <= TABLE_MAX);
}

/* False when it is left unread. */
static bool read_file(struct run *r, const struct seen *s)
{
    struct artifacts *a = r->artifacts;
    auto_free char *path = join(r->plan->artifacts, s->path);
    const struct get_message m = { .path = path, .len = s->size };
    struct vial_error err = { 0 };

    if (add_artifact(a, s) < 0 || !path) {
        give_up(r);
        return true;
    }
    if (s->size > HASHED_MAX - a->hashed || strlen(path) >= PATH_MOST) {
        a->truncated = true;
        return false;
    }
    a->keep = is_kept(s) && a->inlined + s->size <= INLINED_MAX;
    a->answer.len = 0;
    a->size = 0;
    a->told = s->size;
    sha256_init(&a->hash);
    if (link_get(r->talk.link, &m, &a->channel, &err) < 0)
        run_fail(r, RUN_FAILED, &err);
    return true;
}

static void read_next(struct run *r)
{
    struct artifacts *a = r->artifacts;

    while (r->end == RUN_GOING && a->next < a->now.count) {
        const struct seen *s = &a->now.items[a->next++];

        if (!is_new(a, s))
            continue;
        if (a->count == COUNT_MAX) {
            a->truncated = true;
            break;
        }
        if (read_file(r, s))
            return;
    }
    if (r->end == RUN_GOING)
        run_go_on(r);
}

/* Directories are found while they are listed. */
static void list_next(struct run *r)
{
    struct artifacts *a = r->artifacts;

    while (r->end == RUN_GOING && a->next < a->now.count) {
        const struct seen *s = &a->now.items[a->next++];

        if (s->type == 'd')
            list_dir(r, s->path);
        if (a->channel)
            return;
    }
    if (r->end != RUN_GOING)
        return;
    if (a->now.count > 1)
        qsort(a->now.items, a->now.count, sizeof *a->now.items, compare);
    a->next = 0;
    if (a->after) {
        a->reading = true;
        read_next(r);
        return;
    }
    a->before = a->now;
    a->now = (struct listing){ 0 };
    run_go_on(r);
}

void artifacts_before(struct run *r)
{
    r->artifacts = calloc(1, sizeof *r->artifacts);
    if (!r->artifacts)
        give_up(r);
    else
        list_dir(r, "");
}

void artifacts_after(struct run *r)
{
    (void)run_set_due(r, RUN_FETCH_MS);
    r->artifacts->after = true;
    r->artifacts->truncated = false;
    list_dir(r, "");
}

/* More than was told, and asked for: no guest of ours does that. */
static void drop_file(struct run *r)
{
    struct artifacts *a = r->artifacts;

    link_close_channel(r->talk.link, a->channel);
    a->channel = 0;
    a->hashed += a->size;
    a->truncated = true;
    str_done(&a->answer);
    free(a->items[--a->count].path);
    read_next(r);
}

static void take_file(struct run *r, const uint8_t *data, size_t len)
{
    struct artifacts *a = r->artifacts;

    if (len > a->told - a->size) {
        drop_file(r);
        return;
    }
    sha256_add(&a->hash, data, len);
    a->size += len;
    if (a->keep && !result_charge(r->result, len)) {
        a->keep = false; /* it is told without its content, as a large one is */
        str_done(&a->answer);
    }
    if (a->keep)
        str_add(&a->answer, data, len);
}

void artifacts_data(struct run *r, const uint8_t *data, size_t len)
{
    struct artifacts *a = r->artifacts;

    if (a->reading)
        take_file(r, data, len);
    else if (a->answer.len + len <= ANSWER_MAX)
        str_add(&a->answer, data, len);
    else
        a->truncated = true;
}

static void end_file(struct artifacts *a, int error)
{
    struct vial_artifact *item = &a->items[a->count - 1];

    a->hashed += a->size;
    if (error) { /* gone since, or a link by now */
        free(item->path);
        a->count--;
        return;
    }
    item->size = a->size; /* what was hashed is what counts */
    sha256_text(&a->hash, item->sha256);
    if (!a->keep || a->answer.failed || a->answer.len != a->size)
        return;
    a->inlined += a->size;
    item->data = str_take(&a->answer);
    a->answer = (struct str){ 0 };
}

void artifacts_done(struct run *r, int error)
{
    struct artifacts *a = r->artifacts;

    a->channel = 0;
    if (a->reading) {
        end_file(a, error);
        read_next(r);
        return;
    }
    if (error == 0) /* else there is no such directory (yet) */
        take_listing(r);
    list_next(r);
}

void artifacts_give(struct run *r, struct vial_result *result)
{
    struct artifacts *a = r->artifacts;

    result->artifacts = a->items;
    result->artifact_count = a->count;
    result->artifacts_truncated = a->truncated || (a->after && a->channel);
    a->items = NULL;
    a->count = 0;
}
