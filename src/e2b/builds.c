/* SPDX-License-Identifier: Apache-2.0 */
#include "e2b/builds.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fail.h"
#include "base/thread.h"
#include "e2b/control.h"
#include "e2b/lease.h"

#define BUILDS   64u  /* that are known at once */
#define FILES    256u /* archives that are kept at once: each has a descriptor */
#define WAITS_MS 3600000
#define KNOWN_MS 600000 /* since it ended */

int builds_open(struct builds **out)
{
    *out = calloc(1, sizeof(**out));
    if (!*out)
        return -1;
    (void)pthread_mutex_init(&(*out)->lock, NULL);
    thread_cond_init(&(*out)->changed);
    return 0;
}

static void forget_files(struct build *b)
{
    while (b->files) {
        struct build_files *f = b->files;

        b->files = f->next;
        if (f->fd >= 0) {
            (void)close(f->fd);
            gate_give(b->caller->gate, b->caller, GATE_BODIES, f->bytes);
        }
        free(f);
    }
}

static void build_free(struct build *b)
{
    forget_files(b);
    saved_done(&b->saved);
    for (size_t i = 0; i < b->log_count; i++)
        free(b->log[i].text);
    free(b->log);
    free(b->why);
    free(b->step);
    free(b);
}

/* With the lock held. */
static void let_go(struct build *b)
{
    if (--b->users == 0)
        build_free(b);
}

void build_release(struct build *b)
{
    struct builds *builds = b ? b->builds : NULL;

    if (!b)
        return;
    (void)pthread_mutex_lock(&builds->lock);
    let_go(b);
    (void)pthread_mutex_unlock(&builds->lock);
}

void builds_close(struct builds *builds)
{
    if (!builds)
        return;
    (void)pthread_mutex_lock(&builds->lock);
    builds->closing = true;
    for (struct build *b = builds->list; b; b = b->next)
        if (b->box)
            vial_session_kill(box_session(b->box), VIAL_SESSION_FAILED);
    while (builds->running > 0)
        (void)pthread_cond_wait(&builds->changed, &builds->lock);
    while (builds->list) {
        struct build *b = builds->list;

        builds->list = b->next;
        let_go(b);
    }
    (void)pthread_mutex_unlock(&builds->lock);
    (void)pthread_cond_destroy(&builds->changed);
    (void)pthread_mutex_destroy(&builds->lock);
    free(builds);
}

static bool is_over(const struct build *b)
{
    return b->state == BUILD_READY || b->state == BUILD_FAILED;
}

static bool is_old(const struct build *b, int64_t now_ms)
{
    int64_t most_ms = is_over(b)                ? KNOWN_MS
                      : b->state == BUILD_WAITS ? WAITS_MS
                                                : INT64_MAX;

    return now_ms - b->since_ms > most_ms;
}

/* With the lock held: the one at *AT leaves the table. */
static void drop(struct build **at)
{
    struct build *b = *at;

    *at = b->next;
    let_go(b);
}

static void forget_old(struct builds *all)
{
    int64_t now_ms = control_now_ms();
    struct build **at = &all->list;

    while (*at)
        if (is_old(*at, now_ms))
            drop(at);
        else
            at = &(*at)->next;
}

void builds_forget(struct builds *builds)
{
    (void)pthread_mutex_lock(&builds->lock);
    forget_old(builds);
    (void)pthread_mutex_unlock(&builds->lock);
}

/* One more of OWNER's has a place: his own that are over make room for it, the oldest
 * first. */
static bool make_room(struct builds *all, const char *owner)
{
    for (;;) {
        struct build **oldest = NULL;
        unsigned taken = 0;
        unsigned own = 0;

        for (struct build **at = &all->list; *at; at = &(*at)->next) {
            bool is_own = strcmp((*at)->owner, owner) == 0;

            taken++;
            own += is_own;
            if (is_own && is_over(*at))
                oldest = at;
        }
        if (gate_leaves_some(BUILDS, taken, own))
            return true;
        if (!oldest)
            return false;
        drop(oldest);
    }
}

struct build *builds_add(struct ask *a, struct saved *saved, struct vial_error *err)
{
    struct builds *all = a->e2b->builds;
    struct build *b = calloc(1, sizeof(*b));

    if (!b || leases_watch(a->e2b, err) < 0) {
        (void)fail_memory(err);
        free(b);
        return NULL;
    }
    b->builds = all;
    b->e2b = a->e2b;
    b->users = 2;
    b->caller = a->caller;
    b->since_ms = control_now_ms();
    (void)snprintf(b->owner, sizeof(b->owner), "%s", a->owner.name);
    (void)pthread_mutex_lock(&all->lock);
    forget_old(all);
    if (make_room(all, b->owner)) {
        b->saved = *saved;
        *saved = (struct saved){ 0 };
        b->next = all->list;
        all->list = b;
    } else {
        free(b);
        b = NULL;
        (void)fail(err, VIAL_E_RATE, "too many templates are being built");
    }
    (void)pthread_mutex_unlock(&all->lock);
    return b;
}

struct build *builds_find(struct e2b *e2b, const char *owner, const char *name,
                          const char *id)
{
    struct builds *all = e2b->builds;
    struct build *found = NULL;

    (void)pthread_mutex_lock(&all->lock);
    forget_old(all);
    for (struct build *b = all->list; b && !found; b = b->next)
        if (strcmp(b->owner, owner) == 0 && strcmp(b->saved.name, name) == 0 &&
            (id ? strcmp(b->saved.build, id) == 0 : b->state == BUILD_WAITS))
            found = b;
    if (found)
        found->users++;
    (void)pthread_mutex_unlock(&all->lock);
    return found;
}

static struct build_files *find_hash(struct build *b, const char *hash)
{
    struct build_files *f = b->files;

    while (f && strcmp(f->hash, hash) != 0)
        f = f->next;
    return f;
}

/* With the lock held. */
static struct build_files *add_place(struct build *b, const char *hash)
{
    struct build_files *f = calloc(1, sizeof(*f));
    unsigned count = 0;

    for (struct build_files *i = b->files; i; i = i->next)
        count++;
    if (!f || count >= BUILD_STEPS || box_make_token(f->token) < 0) {
        free(f);
        return NULL;
    }
    (void)snprintf(f->hash, sizeof(f->hash), "%s", hash);
    f->fd = -1;
    f->next = b->files;
    b->files = f;
    return f;
}

int builds_link(struct build *b, const char *hash, bool *present, char token[BOX_TOKEN],
                struct vial_error *err)
{
    struct build_files *f;

    build_lock(b);
    f = find_hash(b, hash);
    f = f ? f : add_place(b, hash);
    if (f) {
        *present = f->fd >= 0;
        memcpy(token, f->token, BOX_TOKEN);
    }
    build_unlock(b);
    return f ? 0 : fail(err, VIAL_E_RATE, "a build copies from %u places", BUILD_STEPS);
}

/* With the lock held. All are compared, so that the time says nothing. */
static struct build_files *find_token(struct builds *all, const char *token,
                                      struct build **whose)
{
    struct build_files *found = NULL;
    int64_t now_ms = control_now_ms();

    for (struct build *b = all->list; b; b = b->next)
        for (struct build_files *f = b->files; f; f = f->next)
            if (box_same(f->token, token) && !is_old(b, now_ms)) {
                found = f;
                *whose = b;
            }
    return found;
}

struct caller *builds_caller(struct e2b *e2b, const char *token)
{
    struct builds *all = e2b->builds;
    struct build *b = NULL;
    struct caller *caller = NULL;

    (void)pthread_mutex_lock(&all->lock);
    if (find_token(all, token, &b))
        caller = b->caller;
    (void)pthread_mutex_unlock(&all->lock);
    return caller;
}

/* With the lock held: whether B's owner may have one more archive kept. */
static bool has_place(const struct build *b)
{
    unsigned taken = 0;
    unsigned own = 0;

    for (const struct build *i = b->builds->list; i; i = i->next)
        for (const struct build_files *f = i->files; f; f = f->next) {
            taken += f->fd >= 0;
            own += f->fd >= 0 && strcmp(i->owner, b->owner) == 0;
        }
    return gate_leaves_some(FILES, taken, own);
}

/* With the lock held. What lies there counts for who brought it, as bodies do. */
static unsigned keep(struct build *b, struct build_files *f, int fd, size_t bytes,
                     const char **why)
{
    int copy;

    *why = "the build has begun";
    if (b->state != BUILD_WAITS)
        return 409;
    *why = "too much is uploaded at once";
    if ((f->fd < 0 && !has_place(b)) ||
        !gate_take(b->caller->gate, b->caller, GATE_BODIES, bytes))
        return 429;
    copy = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    if (copy < 0) {
        gate_give(b->caller->gate, b->caller, GATE_BODIES, bytes);
        *why = "no descriptor is left";
        return 503;
    }
    if (f->fd >= 0) {
        (void)close(f->fd);
        gate_give(b->caller->gate, b->caller, GATE_BODIES, f->bytes);
    }
    f->fd = copy;
    f->bytes = bytes;
    return 200;
}

unsigned builds_put(struct e2b *e2b, const char *token, int fd, size_t bytes,
                    const char **why)
{
    struct builds *all = e2b->builds;
    struct build *b = NULL;
    struct build_files *f;
    unsigned status = 403;

    *why = "the address is not known any more";
    (void)pthread_mutex_lock(&all->lock);
    f = find_token(all, token, &b);
    if (f)
        status = keep(b, f, fd, bytes, why);
    (void)pthread_mutex_unlock(&all->lock);
    return status;
}

int build_file(struct build *b, const char *hash)
{
    struct build_files *f;
    int fd;

    build_lock(b);
    f = find_hash(b, hash);
    fd = f ? f->fd : -1;
    build_unlock(b);
    return fd;
}

bool build_begin(struct build *b)
{
    bool begins;

    build_lock(b);
    begins = b->state == BUILD_WAITS && !b->builds->closing;
    if (begins) {
        b->state = BUILD_RUNS;
        b->since_ms = control_now_ms();
        b->users++; /* until it is over */
        b->builds->running++;
    }
    build_unlock(b);
    return begins;
}

bool build_enter(struct build *b, struct box *box)
{
    bool enters;

    build_lock(b);
    enters = !b->builds->closing;
    if (enters)
        b->box = box;
    build_unlock(b);
    return enters;
}

void build_leave(struct build *b)
{
    build_lock(b);
    b->box = NULL;
    build_unlock(b);
}

/* With the lock held: it does not run any more. */
static void stop_running(struct build *b)
{
    b->since_ms = control_now_ms();
    b->builds->running--;
    (void)pthread_cond_broadcast(&b->builds->changed);
    let_go(b);
}

void build_put_back(struct build *b)
{
    struct builds *all = b->builds;

    (void)pthread_mutex_lock(&all->lock);
    b->state = BUILD_WAITS;
    stop_running(b);
    (void)pthread_mutex_unlock(&all->lock);
}

void build_end(struct build *b, const char *step, const char *why)
{
    struct builds *all = b->builds;

    (void)pthread_mutex_lock(&all->lock);
    b->state = why ? BUILD_FAILED : BUILD_READY;
    b->why = why ? strdup(why) : NULL;
    b->step = step ? strdup(step) : NULL;
    forget_files(b);
    stop_running(b);
    (void)pthread_mutex_unlock(&all->lock);
}
