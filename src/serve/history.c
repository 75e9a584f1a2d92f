/* SPDX-License-Identifier: Apache-2.0 */
#include "serve/history.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "base/fail.h"
#include "model/result.h"
#include "model/value.h"

int history_init(struct history *h, struct vial_error *err)
{
    *h = (struct history){ .most = 200, .keep_bytes = 16384 };
    h->ready_fd = eventfd(1, EFD_CLOEXEC | EFD_NONBLOCK);
    if (h->ready_fd < 0)
        return fail_sys(err, "open an eventfd");
    return pthread_mutex_init(&h->lock, NULL) == 0 ? 0 : fail_memory(err);
}

static void release(struct record *r)
{
    json_decref(r->asked);
    json_decref(r->result);
    str_done(&r->out);
    str_done(&r->err);
    free(r);
}

void history_done(struct history *h)
{
    while (h->newest) {
        struct record *next = h->newest->next;

        release(h->newest);
        h->newest = next;
    }
    (void)close(h->ready_fd);
    (void)pthread_mutex_destroy(&h->lock);
}

/* With the lock held. Those that run are kept, whatever their number. */
static void trim(struct history *h)
{
    struct record **at = &h->newest;
    size_t seen = 0;

    while (h->count > h->most && *at) {
        struct record *r = *at;

        if (r->running || seen++ < h->most) {
            at = &r->next;
            continue;
        }
        *at = r->next;
        release(r);
        h->count--;
    }
}

/* With the lock held, when one more of CALLER's has ended: if that is one too many, the
 * oldest is forgotten; but one who has more than a half makes only its own be. */
static void make_room(struct history *h, const char *caller)
{
    struct record **oldest = NULL;
    struct record **own = NULL;
    size_t ended = 0;
    size_t owned = 0;
    struct record *r;

    if (h->count <= h->most)
        return;
    for (struct record **at = &h->newest; *at; at = &(*at)->next) {
        if ((*at)->running)
            continue;
        oldest = at;
        ended++;
        if (strcmp((*at)->caller, caller) == 0) {
            own = at;
            owned++;
        }
    }
    if (ended <= h->most)
        return;
    oldest = owned > h->most / 2 ? own : oldest;
    r = *oldest;
    *oldest = r->next;
    release(r);
    h->count--;
}

void history_set(struct history *h, size_t most, size_t keep_bytes)
{
    (void)pthread_mutex_lock(&h->lock);
    h->most = most;
    h->keep_bytes = keep_bytes;
    trim(h);
    (void)pthread_mutex_unlock(&h->lock);
}

struct record *history_begin(struct history *h, const char *request, const char *caller,
                             const char *what, int cancel_fd)
{
    struct record *r = calloc(1, sizeof(*r));
    struct timespec now;

    if (!r)
        return NULL;
    (void)clock_gettime(CLOCK_REALTIME, &now);
    r->started_ms = (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
    r->running = true;
    r->cancel_fd = cancel_fd;
    (void)snprintf(r->request, sizeof(r->request), "%s", request);
    (void)snprintf(r->caller, sizeof(r->caller), "%s", caller);
    (void)snprintf(r->what, sizeof(r->what), "%s", what);
    (void)pthread_mutex_lock(&h->lock);
    r->next = h->newest;
    h->newest = r;
    h->count++;
    (void)pthread_mutex_unlock(&h->lock);
    return r;
}

void history_asked(struct history *h, struct record *r, json_t *asked)
{
    if (!r) {
        json_decref(asked);
        return;
    }
    (void)pthread_mutex_lock(&h->lock);
    r->asked = asked;
    (void)pthread_mutex_unlock(&h->lock);
}

static void keep(const struct history *h, struct str *into, const void *data,
                 size_t len)
{
    size_t room = h->keep_bytes > into->len ? h->keep_bytes - into->len : 0;

    str_add(into, data, len < room ? len : room);
}

void history_output(struct history *h, struct record *r, int stream, const void *data,
                    size_t len)
{
    if (!r)
        return;
    (void)pthread_mutex_lock(&h->lock);
    keep(h, stream == 1 ? &r->out : &r->err, data, len);
    (void)pthread_mutex_unlock(&h->lock);
}

void history_end(struct history *h, struct record *r, const struct vial_result *result)
{
    json_t *json = r ? result_brief(result) : NULL;

    if (!r)
        return;
    (void)pthread_mutex_lock(&h->lock);
    if (!r->out.len && !r->err.len) {
        keep(h, &r->out, result->out.data ? result->out.data : "", result->out.len);
        keep(h, &r->err, result->err.data ? result->err.data : "", result->err.len);
    }
    (void)snprintf(r->id, sizeof(r->id), "%s", result->id);
    r->result = json;
    r->running = false;
    r->cancel_fd = -1;
    make_room(h, r->caller);
    (void)pthread_mutex_unlock(&h->lock);
}

static json_t *row(const struct record *r)
{
    json_t *verdict = json_object_get(r->result, "verdict");
    json_t *exit_code = json_object_get(r->result, "exit_code");
    json_t *ms = json_object_get(r->result, "duration_ms");

    /* WHAT is the caller's, and may have been cut within a character. */
    return json_pack(
        "{s:s, s:o, s:s, s:o, s:I, s:s, s:O?, s:O?, s:O?}", "request", r->request, "id",
        r->id[0] ? json_string(r->id) : json_null(), "caller", r->caller, "what",
        value_text_json(r->what, strlen(r->what)), "started_ms",
        (json_int_t)r->started_ms, "state", r->running ? "running" : "ended", "verdict",
        verdict, "exit_code", exit_code, "duration_ms", ms);
}

static bool is_seen(const struct record *r, const char *caller)
{
    return !caller || strcmp(r->caller, caller) == 0;
}

json_t *history_list(struct history *h, const char *caller, size_t limit)
{
    json_t *list = json_array();

    (void)pthread_mutex_lock(&h->lock);
    for (struct record *r = h->newest; r && json_array_size(list) < limit; r = r->next)
        if (is_seen(r, caller))
            (void)json_array_append_new(list, row(r));
    (void)pthread_mutex_unlock(&h->lock);
    return list;
}

static bool is_called(const struct record *r, const char *id)
{
    return strcmp(r->request, id) == 0 || (r->id[0] && strcmp(r->id, id) == 0);
}

static bool is_meant(const struct record *r, const struct history_wish *wish)
{
    return is_called(r, wish->id) && (!wish->running || r->running);
}

/* With the lock held: the newest of CALLER's, or of anybody's but CALLER's. */
static struct record *newest(struct record *r, const struct history_wish *wish,
                             const char *caller, bool others)
{
    while (r && !(is_meant(r, wish) && (strcmp(r->caller, caller) == 0) != others))
        r = r->next;
    return r;
}

/* With the lock held. What a caller called a request is a name among its own: two
 * callers may have the same, and one must not be taken for the other. */
static struct record *look_up(struct history *h, const struct history_wish *wish,
                              struct vial_error *err)
{
    struct record *r = newest(h->newest, wish, wish->caller, false);
    struct record *other;

    if (!r && wish->others)
        r = newest(h->newest, wish, wish->caller, true);
    if (!r) {
        (void)fail(err, VIAL_E_ROUTE,
                   "there is no such run, or none that is remembered");
        (void)fail_remedy(err, "'vial logs', or GET /v1/runs, lists those that are");
        return NULL;
    }
    other = strcmp(r->caller, wish->caller) == 0
                ? NULL
                : newest(r->next, wish, r->caller, true);
    if (!other)
        return r;
    (void)fail(err, VIAL_E_CONFLICT, "both '%s' and '%s' have a run '%.72s'", r->caller,
               other->caller, wish->id);
    (void)fail_remedy(err, "say whose is meant: ?caller=NAME");
    return NULL;
}

static json_t *kept(const struct str *s)
{
    return value_text_json(s->data ? s->data : "", s->len);
}

json_t *history_find(struct history *h, const struct history_wish *wish,
                     struct vial_error *err)
{
    json_t *json = NULL;
    struct record *r;

    (void)pthread_mutex_lock(&h->lock);
    r = look_up(h, wish, err);
    if (r) {
        json = row(r);
        (void)json_object_set_new(json, "stdout", kept(&r->out));
        (void)json_object_set_new(json, "stderr", kept(&r->err));
        (void)json_object_set(json, "asked", r->asked ? r->asked : json_null());
        (void)json_object_set(json, "result", r->result ? r->result : json_null());
    }
    (void)pthread_mutex_unlock(&h->lock);
    return json;
}

/* From now on the set has a member that is always readable, and so is itself. */
static void end_run(const struct history *h, const struct record *r)
{
    struct epoll_event event = { .events = EPOLLIN };

    (void)epoll_ctl(r->cancel_fd, EPOLL_CTL_ADD, h->ready_fd, &event);
}

void history_cancel_all(struct history *h)
{
    (void)pthread_mutex_lock(&h->lock);
    for (struct record *r = h->newest; r; r = r->next)
        if (r->running && r->cancel_fd >= 0)
            end_run(h, r);
    (void)pthread_mutex_unlock(&h->lock);
}

int history_cancel(struct history *h, const struct history_wish *wish,
                   struct vial_error *err)
{
    struct history_wish running = *wish;
    struct record *r;
    int rc = -1;

    running.running = true;
    (void)pthread_mutex_lock(&h->lock);
    r = look_up(h, &running, err);
    if (r && r->cancel_fd < 0) {
        (void)fail(err, VIAL_E_BUSY, "no descriptor was left to cancel this run by");
    } else if (r) {
        end_run(h, r);
        rc = 0;
    }
    (void)pthread_mutex_unlock(&h->lock);
    return rc;
}
