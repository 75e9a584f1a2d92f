/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/str.h"
#include "e2b/filesystem.h"
#include "model/value.h"

#define LOOK_MS   200
#define WATCHES   8u    /* of one sandbox that are fetched from */
#define EVENTS    4096u /* that one answer has at most */
#define TOLD      3u    /* events of theirs that one of ours is, at most */
#define HALF      ".vial-"
#define KEEPALIVE "{\"keepalive\":{}}"

/* One that a client made to fetch from. */
struct watch {
    struct watch *next;
    struct vial_watcher *watcher;
    char id[16];
    char *path;
    bool deep, entries;
    pthread_mutex_t lock; /* who has it fetches, or gives the watcher back */
    unsigned users;       /* the list is one of them */
};

static void watch_free(struct watch *w)
{
    vial_watcher_free(w->watcher);
    (void)pthread_mutex_destroy(&w->lock);
    free(w->path);
    free(w);
}

void watches_done(struct box *box)
{
    while (box->watches) {
        struct watch *next = box->watches->next;

        watch_free(box->watches);
        box->watches = next;
    }
}

static int open_watch(struct ask *a, const json_t *message, struct watch *w,
                      struct connect_error *e)
{
    auto_str struct str path = { 0 };
    struct vial_error err = { 0 };
    int there;

    w->deep = json_is_true(json_object_get(message, "recursive"));
    w->entries = json_is_true(connect_member(message, "includeEntry", "include_entry"));
    if (connect_user(a, &a->root, e) < 0 ||
        message_path(a, message, "path", &path, e) < 0)
        return -1;
    there = entry_is_dir(a, path.data, e);
    if (there == 0)
        return connect_fail(e, CONNECT_INVALID, "path is not a directory: %.256s",
                            path.data);
    if (there < 0)
        return -1;
    if (*box_name(path.data) == '/')
        return connect_fail(e, CONNECT_UNIMPLEMENTED,
                            "only what lies below " BOX_HOME " can be watched");
    if (vial_session_watch(box_session(a->box), box_name(path.data),
                           VIAL_WATCH_DEEP | VIAL_WATCH_ATTRIBUTES, &w->watcher,
                           &err) < 0)
        return connect_from(e, &err);
    w->path = str_take(&path);
    return w->path ? 0 : connect_fail(e, CONNECT_INTERNAL, "out of memory");
}

static json_t *event_json(const struct ask *a, const struct watch *w, const char *name,
                          const char *type, bool there)
{
    json_t *json = json_pack("{s:o, s:s}", "name", value_text_json(name, strlen(name)),
                             "type", type);
    auto_str struct str path = { 0 };
    struct connect_error ignored;
    json_t *entry = NULL;

    if (!json || !w->entries || !there)
        return json;
    str_printf(&path, "%s/%s", w->path, name);
    if (str_ok(&path) && entry_stat(a, path.data, &entry, &ignored) == 0)
        (void)json_object_set_new(json, "entry", entry);
    return json;
}

/* ".vial-N", as a file is called until it was written whole (guest/file_ops.c). */
static bool is_half(const char *path)
{
    const char *slash = strrchr(path, '/');
    const char *name = slash ? slash + 1 : path;
    size_t len = strlen(HALF);

    return strncmp(name, HALF, len) == 0 && name[len] &&
           strspn(name + len, "0123456789") == strlen(name + len);
}

/* A file that a client wrote has taken its place. E2B's server makes it, gives it to
 * its user, and writes. */
static size_t tell_put(const struct ask *a, const struct watch *w, const char *path,
                       json_t *out[TOLD])
{
    out[0] = event_json(a, w, path, "EVENT_TYPE_CREATE", true);
    out[1] = event_json(a, w, path, "EVENT_TYPE_CHMOD", true);
    out[2] = event_json(a, w, path, "EVENT_TYPE_WRITE", true);
    return 3;
}

/* What one event of vial's is in their words: none, one or more. */
static size_t tell(const struct ask *a, const struct watch *w,
                   const struct vial_event *v, json_t *out[TOLD])
{
    static const char *const names[] = {
        [VIAL_EVENT_CREATED] = "EVENT_TYPE_CREATE",
        [VIAL_EVENT_WRITTEN] = "EVENT_TYPE_WRITE",
        [VIAL_EVENT_REMOVED] = "EVENT_TYPE_REMOVE",
        [VIAL_EVENT_MOVED] = "EVENT_TYPE_RENAME",
        [VIAL_EVENT_ATTRIBUTES] = "EVENT_TYPE_CHMOD",
    };
    bool here = w->deep || !strchr(v->path, '/');
    bool from = v->from[0] && (w->deep || !strchr(v->from, '/'));
    size_t n = 0;

    if (v->kind == VIAL_EVENT_GAP || (!here && !from) || is_half(v->path))
        return 0;
    if (v->kind == VIAL_EVENT_MOVED && is_half(v->from))
        return here ? tell_put(a, w, v->path, out) : 0;
    if (v->kind == VIAL_EVENT_MOVED) {
        if (from)
            out[n++] = event_json(a, w, v->from, names[VIAL_EVENT_MOVED], false);
        if (here)
            out[n++] = event_json(a, w, v->path, names[VIAL_EVENT_CREATED], true);
        return n;
    }
    if (here && (size_t)v->kind < sizeof names / sizeof *names)
        out[n++] =
            event_json(a, w, v->path, names[v->kind], v->kind != VIAL_EVENT_REMOVED);
    return n;
}

/* The next event goes into the stream; -1: it is over. */
static int pass_on(struct ask *a, struct connect_stream *s, const struct watch *w,
                   struct vial_event *event)
{
    struct vial_error err;
    json_t *told[TOLD];
    size_t n = 0;
    int rc = vial_watcher_next(w->watcher, LOOK_MS, event, &err);

    if (rc < 0)
        return -1;
    if (rc > 0)
        n = tell(a, w, event, told);
    for (size_t i = 0; i < n; i++)
        if (connect_send(s, json_pack("{s:o}", "filesystem", told[i])) < 0)
            return -1;
    return 0;
}

static void run_stream(struct ask *a, struct connect_stream *s, const struct watch *w)
{
    auto_free struct vial_event *event = malloc(sizeof(*event));
    int rc = event ? connect_send(s, json_pack("{s:{}}", "start")) : -1;

    while (rc == 0 && !ask_is_gone(a) && box_lives(a->box))
        rc = pass_on(a, s, w, event) < 0 || connect_keep_alive(s, KEEPALIVE) < 0 ? -1
                                                                                 : 0;
    connect_cut(s);
}

void watch_stream(struct ask *a)
{
    auto_json json_t *message = NULL;
    struct watch w = { 0 };
    struct connect_error e = { 0 };
    struct connect_stream s;
    size_t at = 0;
    int rc = connect_frame(a, &at, &message, &e);

    if (rc == 0)
        rc = connect_fail(&e, CONNECT_INVALID, "there is no message");
    if (rc > 0)
        rc = open_watch(a, message, &w, &e);
    if (connect_start(&s, a) == 0) {
        if (rc < 0)
            connect_end(&s, &e);
        else
            run_stream(a, &s, &w);
    }
    vial_watcher_free(w.watcher);
    free(w.path);
}

static bool enlist(struct box *box, struct watch *w)
{
    unsigned count = 0;

    (void)pthread_mutex_lock(&box->lock);
    for (const struct watch *other = box->watches; other; other = other->next)
        count++;
    if (count < WATCHES) {
        (void)snprintf(w->id, sizeof(w->id), "w%u", ++box->last_number);
        w->next = box->watches;
        box->watches = w;
    }
    (void)pthread_mutex_unlock(&box->lock);
    return count < WATCHES;
}

int watch_create(struct ask *a, const json_t *message, json_t **out,
                 struct connect_error *e)
{
    struct watch *w = calloc(1, sizeof(*w));
    int rc = w ? 0 : connect_fail(e, CONNECT_INTERNAL, "out of memory");

    if (!w)
        return rc;
    (void)pthread_mutex_init(&w->lock, NULL);
    w->users = 1;
    rc = open_watch(a, message, w, e);
    if (rc == 0 && !enlist(a->box, w))
        rc =
            connect_fail(e, CONNECT_EXHAUSTED, "this sandbox has %u watchers", WATCHES);
    if (rc == 0)
        *out = json_pack("{s:s}", "watcherId", w->id);
    else
        watch_free(w);
    return rc;
}

/* TAKE: it leaves the list, and the list's use is the caller's. */
static struct watch *find(struct ask *a, const json_t *message, bool take,
                          struct connect_error *e)
{
    const char *id =
        json_string_value(connect_member(message, "watcherId", "watcher_id"));
    struct watch **at = &a->box->watches;
    struct watch *found;

    (void)pthread_mutex_lock(&a->box->lock);
    while (*at && !str_eq((*at)->id, id))
        at = &(*at)->next;
    found = *at;
    if (found && take)
        *at = found->next;
    else if (found)
        found->users++;
    (void)pthread_mutex_unlock(&a->box->lock);
    if (!found)
        (void)connect_fail(e, CONNECT_NOT_FOUND, "watcher with id %.64s not found",
                           id ? id : "");
    return found;
}

static void release(struct box *box, struct watch *w)
{
    bool last;

    (void)pthread_mutex_lock(&box->lock);
    last = --w->users == 0;
    (void)pthread_mutex_unlock(&box->lock);
    if (last)
        watch_free(w);
}

static json_t *fetch(const struct ask *a, struct watch *w)
{
    auto_free struct vial_event *event = malloc(sizeof(*event));
    json_t *list = json_array();
    struct vial_error err;
    json_t *told[TOLD];

    (void)pthread_mutex_lock(&w->lock);
    while (event && json_array_size(list) < EVENTS &&
           vial_watcher_next(w->watcher, 0, event, &err) > 0) {
        size_t n = tell(a, w, event, told);

        for (size_t i = 0; i < n; i++)
            (void)json_array_append_new(list, told[i]);
    }
    (void)pthread_mutex_unlock(&w->lock);
    return list;
}

int watch_events(struct ask *a, const json_t *message, json_t **out,
                 struct connect_error *e)
{
    struct watch *w = find(a, message, false, e);

    if (!w)
        return -1;
    *out = json_pack("{s:o}", "events", fetch(a, w));
    release(a->box, w);
    return 0;
}

int watch_remove(struct ask *a, const json_t *message, json_t **out,
                 struct connect_error *e)
{
    struct watch *w = find(a, message, true, e);

    *out = NULL;
    if (!w)
        return -1;
    release(a->box, w);
    return 0;
}
