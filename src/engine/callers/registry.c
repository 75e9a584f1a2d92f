/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/callers/registry.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/fail.h"
#include "base/str.h"
#include "engine/callers/gate.h"

#define SESSIONS     1024u
#define LOOK_NS      INT64_C(2000000000) /* for so long what was used counts as known */
#define BATCH        64u                 /* sessions that are looked at in one go */
#define KEEP_MS      (INT64_C(5) * 60 * 1000)
#define EXECS_KEPT   256u
#define CONTEXTS_MAX 16u
#define ENDED_WHOLE  16u  /* of one owner's: by themselves, and still to be read */
#define ENDED_KNOWN  256u /* of one owner's: how they ended, and no more */

struct numbered {
    struct vial_exec *exec;
    unsigned number, users;
};

struct named {
    char *language, *name;
    struct vial_context *context;
};

/* The part of an entry that costs memory and descriptors; it goes before the entry
 * does. */
struct live {
    struct live *next; /* of those to be given back */
    struct vial_session *session;
    pthread_mutex_t lock; /* for what follows */
    struct numbered execs[EXECS_KEPT];
    unsigned exec_count, last_number;
    struct named contexts[CONTEXTS_MAX];
    unsigned context_count;
};

/*
 *   opening -> open -> ended -> known -> forgotten
 *
 * One that is stopped by its owner is known only, as soon as nobody holds it; one that
 * ended by itself can be read until its time is over or there are too many.
 */
struct entry {
    struct registered public; /* first: the two have one address */
    struct entry *next;
    char id[24];
    char *owner;
    unsigned holders;
    bool stopped;      /* by its owner */
    int64_t ended_ns;  /* when its end was first seen; 0: it is open */
    int64_t looked_ns; /* when that was last looked at */
    double cpu_ms;     /* that was told of */
    struct live *live; /* NULL: it is known only, by what follows */
    struct vial_session_report report;
};

struct registry {
    struct registry_options options;
    pthread_mutex_t lock;
    pthread_cond_t released;
    struct entry *entries;
    struct entry *opening; /* they have their places already */
};

static struct live *live_of(struct registered *held)
{
    return ((struct entry *)held)->live;
}

int registry_open(const struct registry_options *options, struct registry **out,
                  struct vial_error *err)
{
    struct registry *r = calloc(1, sizeof *r);

    if (!r)
        return fail_memory(err);
    r->options = *options;
    if (r->options.sessions == 0)
        r->options.sessions = SESSIONS;
    if (r->options.keep_ended_ms == 0)
        r->options.keep_ended_ms = KEEP_MS;
    (void)pthread_mutex_init(&r->lock, NULL);
    (void)pthread_cond_init(&r->released, NULL);
    *out = r;
    return 0;
}

void registry_use(struct registry *r, struct vial_engine *engine)
{
    (void)pthread_mutex_lock(&r->lock);
    r->options.engine = engine;
    (void)pthread_mutex_unlock(&r->lock);
}

static struct vial_engine *engine_of(struct registry *r)
{
    struct vial_engine *engine;

    (void)pthread_mutex_lock(&r->lock);
    engine = r->options.engine;
    (void)pthread_mutex_unlock(&r->lock);
    return engine;
}

static void live_free(struct live *l)
{
    while (l) {
        struct live *next = l->next;

        /* Its contexts' cells, if any, have to end before they can be given back. */
        if (l->session)
            vial_session_kill(l->session, VIAL_SESSION_COMPLETED);
        for (unsigned i = 0; i < l->context_count; i++) {
            vial_context_close(l->contexts[i].context);
            free(l->contexts[i].language);
            free(l->contexts[i].name);
        }
        vial_session_free(l->session); /* and its execs */
        (void)pthread_mutex_destroy(&l->lock);
        free(l);
        l = next;
    }
}

static void entry_free(struct entry *e)
{
    live_free(e->live);
    free(e->owner);
    free(e);
}

/* With the lock held: what E has used, as REPORT says, is told. */
static void note(struct registry *r, struct entry *e,
                 const struct vial_session_report *report)
{
    double cpu_ms = report->usage.cpu_user_ms + report->usage.cpu_system_ms;

    if (!e->ended_ns || report->outcome != VIAL_SESSION_OPEN) /* not an older one */
        e->report = *report;
    if (cpu_ms <= e->cpu_ms)
        return;
    if (r->options.used)
        r->options.used(r->options.context, e->owner, cpu_ms - e->cpu_ms);
    e->cpu_ms = cpu_ms;
}

/* With the lock held: E has ended, as REPORT says. */
static void note_end(struct registry *r, struct entry *e,
                     const struct vial_session_report *report)
{
    note(r, e, report);
    if (!e->ended_ns)
        e->ended_ns = clock_now_ns();
}

/* With the lock held, for one that has ended and is held by nobody: what it costs, to
 * be given back without the lock. */
static struct live *detach(struct entry *e)
{
    e->public.session = NULL;
    return ptr_take(&e->live);
}

/* With the lock held. Whether E is open; notes when it was first seen not to be. No
 * vessel is asked, and no session waited for: a slow one would hold up all callers. */
static bool is_open(struct registry *r, struct entry *e)
{
    struct vial_session_report report;

    if (!e->ended_ns && vial_session_ended(e->live->session, &report))
        note_end(r, e, &report);
    return !e->ended_ns;
}

/* With the lock held, for one that is not open: whether it can be given back without
 * a wait. If so, all that it used is noted. */
static bool is_idle(struct registry *r, struct entry *e)
{
    struct vial_session_report report;

    if (!e->live)
        return true;
    if (!vial_session_ended(e->live->session, &report))
        return false;
    note_end(r, e, &report);
    return true;
}

/* Open ones of OWNER's (NULL: of all) that were not looked at since BEFORE_NS: they are
 * held. */
static size_t hold_some(struct registry *r, const char *owner, int64_t before_ns,
                        struct entry *out[BATCH])
{
    size_t count = 0;

    (void)pthread_mutex_lock(&r->lock);
    for (struct entry *e = r->entries; e && count < BATCH; e = e->next) {
        if ((owner && strcmp(e->owner, owner) != 0) || e->ended_ns || e->stopped ||
            !e->live || e->looked_ns >= before_ns)
            continue;
        e->looked_ns = clock_now_ns();
        e->holders++;
        out[count++] = e;
    }
    (void)pthread_mutex_unlock(&r->lock);
    return count;
}

/* Asks each vessel what it has used, which takes its time: without the lock, and for
 * whoever asks about their own sessions. */
static void refresh(struct registry *r, const char *owner, int64_t before_ns)
{
    struct entry *held[BATCH];
    size_t count;

    do {
        count = hold_some(r, owner, before_ns, held);
        for (size_t i = 0; i < count; i++) {
            struct vial_session_report report;

            vial_session_look(held[i]->live->session, &report);
            (void)pthread_mutex_lock(&r->lock);
            note(r, held[i], &report);
            (void)pthread_mutex_unlock(&r->lock);
            registry_release(r, &held[i]->public);
        }
    } while (count == BATCH);
}

static void free_list(struct entry *e)
{
    while (e) {
        struct entry *next = e->next;

        entry_free(e);
        e = next;
    }
}

/* Things that are to be given back without the lock. */
struct stale {
    struct entry *entries;
    struct live *lives;
};

/* With the lock held. How many of OWNER's have ended before E, in the order of the
 * list, are in WHOLE and KNOWN. True: E is forgotten. */
static bool is_stale(struct registry *r, struct entry *e, const char *owner,
                     unsigned *whole, unsigned *known, struct stale *out)
{
    int64_t before_ns = clock_now_ns() - r->options.keep_ended_ms * 1000000;
    struct live *live;

    if (is_open(r, e) || e->holders > 0 || !is_idle(r, e))
        return false;
    if (e->ended_ns <= before_ns)
        return true;
    if (!owner || strcmp(e->owner, owner) != 0)
        return false;
    if (e->live && ++*whole > ENDED_WHOLE) {
        live = detach(e);
        live->next = out->lives;
        out->lives = live;
    }
    return ++*known > ENDED_KNOWN;
}

/* Forgets entries whose time is over, and of OWNER's (or NULL) those that are too many,
 * oldest first. */
static void forget_stale(struct registry *r, const char *owner)
{
    struct stale stale = { 0 };
    unsigned whole = 0;
    unsigned known = 0;

    (void)pthread_mutex_lock(&r->lock);
    for (struct entry **at = &r->entries; *at;) {
        struct entry *e = *at;

        if (!is_stale(r, e, owner, &whole, &known, &stale)) {
            at = &e->next;
            continue;
        }
        *at = e->next;
        e->next = stale.entries;
        stale.entries = e;
    }
    (void)pthread_mutex_unlock(&r->lock);
    free_list(stale.entries);
    live_free(stale.lives);
}

void registry_close(struct registry *registry)
{
    struct entry *all;

    if (!registry)
        return;
    (void)pthread_mutex_lock(&registry->lock);
    for (struct entry *e = registry->entries; e; e = e->next)
        if (e->live)
            vial_session_kill(e->live->session, VIAL_SESSION_FAILED);
    for (struct entry *e = registry->entries; e; e = e->next)
        while (e->holders > 0)
            (void)pthread_cond_wait(&registry->released, &registry->lock);
    all = ptr_take(&registry->entries);
    (void)pthread_mutex_unlock(&registry->lock);
    free_list(all);
    (void)pthread_cond_destroy(&registry->released);
    (void)pthread_mutex_destroy(&registry->lock);
    free(registry);
}

static int fail_full(unsigned most, const char *whose, struct vial_error *err)
{
    (void)fail(err, VIAL_E_BUSY, "start a session: %s %u are open", whose, most);
    return fail_remedy(err,
                       "stop one that is no longer needed, or wait until one ends");
}

static void count_open(struct registry *r, const char *owner, unsigned *open,
                       unsigned *own)
{
    *open = *own = 0;
    for (struct entry *e = r->opening; e; e = e->next) {
        (*open)++;
        *own += str_eq(e->owner, owner);
    }
    for (struct entry *e = r->entries; e; e = e->next)
        if (is_open(r, e)) {
            (*open)++;
            *own += str_eq(e->owner, owner);
        }
}

/* One more, behind OWN of OPEN. */
static bool may_have(const struct registry *r, unsigned open, unsigned own)
{
    if (r->options.per_owner)
        return own < r->options.per_owner;
    return !r->options.shared || gate_leaves_some(r->options.sessions, open, own);
}

/* Gives E its place, so that no two callers get the last one. */
static int reserve(struct registry *r, struct entry *e, struct vial_error *err)
{
    unsigned open, own;
    int rc = 0;

    (void)pthread_mutex_lock(&r->lock);
    count_open(r, e->owner, &open, &own);
    if (open >= r->options.sessions) {
        rc = fail_full(r->options.sessions, "all", err);
    } else if (!may_have(r, open, own)) {
        rc = fail_full(own, "this caller's", err);
    } else {
        e->next = r->opening;
        r->opening = e;
    }
    (void)pthread_mutex_unlock(&r->lock);
    return rc;
}

/* E is open now and stands in the list, or it failed to and is nowhere. */
static void settle(struct registry *r, struct entry *e, bool open)
{
    struct entry **at = &r->opening;

    (void)pthread_mutex_lock(&r->lock);
    while (*at != e)
        at = &(*at)->next;
    *at = e->next;
    if (open) {
        e->next = r->entries;
        r->entries = e;
    }
    (void)pthread_mutex_unlock(&r->lock);
}

static struct entry *entry_new(const char *owner)
{
    struct entry *e = calloc(1, sizeof *e);

    if (!e)
        return NULL;
    e->owner = strdup(owner);
    e->live = calloc(1, sizeof *e->live);
    if (!e->owner || !e->live) {
        free(e->owner);
        free(e->live);
        free(e);
        return NULL;
    }
    (void)pthread_mutex_init(&e->live->lock, NULL);
    e->public.id = e->id;
    e->public.owner = e->owner;
    e->holders = 1;
    return e;
}

static int open_entry(struct registry *r, struct entry *e,
                      const struct vial_request *req,
                      const struct vial_session_options *options,
                      struct vial_error *err)
{
    struct vial_session_options o = { 0 };

    if (options)
        o = *options;
    o.kept_bytes = o.kept_bytes ? o.kept_bytes : r->options.kept_bytes;
    if (vial_session_open(engine_of(r), req, &o, &e->live->session, err) < 0)
        return -1;
    vial_session_look(e->live->session, &e->report);
    e->looked_ns = clock_now_ns();
    (void)memcpy(e->id, e->report.id, sizeof e->id);
    e->public.session = e->live->session;
    return 0;
}

int registry_start(struct registry *registry, const char *owner,
                   const struct vial_request *req,
                   const struct vial_session_options *options, struct registered **out,
                   struct vial_error *err)
{
    struct entry *e = entry_new(owner);
    int rc;

    if (!e)
        return fail_memory(err);
    forget_stale(registry, owner);
    rc = reserve(registry, e, err);
    if (rc == 0) {
        rc = open_entry(registry, e, req, options, err);
        settle(registry, e, rc == 0);
    }
    if (rc == 0)
        *out = &e->public;
    else
        entry_free(e);
    return rc;
}

/* With the lock held. An id of another owner's does not exist. */
static struct entry *find(struct registry *r, const char *owner, const char *id)
{
    for (struct entry *e = r->entries; e; e = e->next)
        if (strcmp(e->id, id) == 0 && strcmp(e->owner, owner) == 0)
            return e;
    return NULL;
}

bool registry_owner(struct registry *registry, const char *id, char *out, size_t size)
{
    struct entry *e;

    (void)pthread_mutex_lock(&registry->lock);
    e = registry->entries;
    while (e && (strcmp(e->id, id) != 0 || e->stopped))
        e = e->next;
    if (e)
        (void)snprintf(out, size, "%s", e->owner);
    (void)pthread_mutex_unlock(&registry->lock);
    return e != NULL;
}

static int fail_unknown(const char *id, struct vial_error *err)
{
    (void)fail(err, VIAL_E_SESSION, "there is no session '%.64s'", id);
    return fail_remedy(err, "list the sessions, or start one");
}

int registry_take(struct registry *registry, const char *owner, const char *id,
                  struct registered **out, struct vial_error *err)
{
    struct entry *e;
    bool live;

    forget_stale(registry, owner);
    refresh(registry, owner, clock_now_ns() - LOOK_NS);
    (void)pthread_mutex_lock(&registry->lock);
    e = find(registry, owner, id);
    live = e && e->live && !e->stopped;
    if (live) {
        e->holders++;
        *out = &e->public;
    }
    (void)pthread_mutex_unlock(&registry->lock);
    if (live)
        return 0;
    if (!e)
        return fail_unknown(id, err);
    (void)fail(err, VIAL_E_SESSION, "session '%.64s' has ended, and is given back", id);
    return fail_remedy(err, "start another one");
}

int registry_look(struct registry *registry, const char *owner, const char *id,
                  struct vial_session_report *out, struct vial_error *err)
{
    struct entry *e;
    struct live *live = NULL;

    forget_stale(registry, owner);
    (void)pthread_mutex_lock(&registry->lock);
    e = find(registry, owner, id);
    if (e && e->live) {
        live = e->live;
        e->holders++;
    } else if (e) {
        *out = e->report;
    }
    (void)pthread_mutex_unlock(&registry->lock);
    if (!e)
        return fail_unknown(id, err);
    if (live) {
        vial_session_look(live->session, out);
        registry_release(registry, &e->public);
    }
    return 0;
}

void registry_release(struct registry *registry, struct registered *held)
{
    struct entry *e = (struct entry *)held;
    struct live *live = NULL;

    if (!held)
        return;
    (void)pthread_mutex_lock(&registry->lock);
    if (--e->holders == 0 && e->stopped)
        live = detach(e);
    (void)pthread_cond_broadcast(&registry->released);
    (void)pthread_mutex_unlock(&registry->lock);
    live_free(live);
}

int registry_stop(struct registry *registry, const char *owner, const char *id,
                  struct vial_error *err)
{
    struct vial_session_report report;
    struct entry *e;
    struct live *live = NULL;

    (void)pthread_mutex_lock(&registry->lock);
    e = find(registry, owner, id);
    if (e && e->live) {
        live = e->live;
        e->holders++;
        e->stopped = true;
    }
    (void)pthread_mutex_unlock(&registry->lock);
    if (!e)
        return fail_unknown(id, err);
    if (live) {
        vial_session_close(live->session, VIAL_SESSION_COMPLETED);
        vial_session_look(live->session, &report);
        (void)pthread_mutex_lock(&registry->lock);
        note_end(registry, e, &report);
        (void)pthread_mutex_unlock(&registry->lock);
        registry_release(registry, &e->public);
    }
    return 0;
}

static bool has_ended(struct vial_exec *exec)
{
    struct vial_exec_status status;

    vial_exec_wait(exec, 0, &status);
    return !status.running;
}

/* With the session's lock held: the oldest that nobody uses any more goes. */
static void make_room(struct live *e)
{
    for (unsigned i = 0; i < e->exec_count; i++) {
        if (e->execs[i].users > 0 || !has_ended(e->execs[i].exec))
            continue;
        vial_exec_free(e->execs[i].exec);
        e->exec_count--;
        memmove(&e->execs[i], &e->execs[i + 1],
                (e->exec_count - i) * sizeof e->execs[i]);
        return;
    }
}

int registered_add_exec(struct registered *held, struct vial_exec *exec,
                        unsigned *number, struct vial_error *err)
{
    struct live *e = live_of(held);
    int rc = 0;

    (void)pthread_mutex_lock(&e->lock);
    if (e->exec_count == EXECS_KEPT)
        make_room(e);
    if (e->exec_count == EXECS_KEPT) {
        rc = fail(err, VIAL_E_BUSY, "start a program: %u of this session are in use",
                  EXECS_KEPT);
    } else {
        *number = ++e->last_number;
        e->execs[e->exec_count++] =
            (struct numbered){ .exec = exec, .number = *number, .users = 1 };
    }
    (void)pthread_mutex_unlock(&e->lock);
    return rc;
}

static struct numbered *find_exec(struct live *e, unsigned number)
{
    for (unsigned i = 0; i < e->exec_count; i++)
        if (e->execs[i].number == number)
            return &e->execs[i];
    return NULL;
}

struct vial_exec *registered_exec(struct registered *held, unsigned number)
{
    struct live *e = live_of(held);
    struct vial_exec *exec = NULL;
    struct numbered *found;

    (void)pthread_mutex_lock(&e->lock);
    found = find_exec(e, number);
    if (found) {
        found->users++;
        exec = found->exec;
    }
    (void)pthread_mutex_unlock(&e->lock);
    return exec;
}

void registered_exec_done(struct registered *held, unsigned number)
{
    struct live *e = live_of(held);
    struct numbered *found;

    (void)pthread_mutex_lock(&e->lock);
    found = find_exec(e, number);
    if (found && found->users > 0)
        found->users--;
    (void)pthread_mutex_unlock(&e->lock);
}

/* With the session's lock held. */
static int open_context(struct live *e, const char *language, const char *name,
                        struct vial_context **out, struct vial_error *err)
{
    auto_free char *language_copy = strdup(language);
    auto_free char *name_copy = strdup(name);

    if (!language_copy || !name_copy)
        return fail_memory(err);
    if (e->context_count == CONTEXTS_MAX) {
        (void)fail(err, VIAL_E_BUSY, "open a context: %u of this session are open",
                   CONTEXTS_MAX);
        return fail_remedy(err, "use one of them, or another session");
    }
    if (vial_context_open(e->session, language, out, err) < 0)
        return -1;
    e->contexts[e->context_count++] =
        (struct named){ .language = ptr_take(&language_copy),
                        .name = ptr_take(&name_copy),
                        .context = *out };
    return 0;
}

/* With its lock held. */
static struct vial_context *find_context(const struct live *e, const char *language,
                                         const char *name)
{
    for (unsigned i = 0; i < e->context_count; i++)
        if (strcmp(e->contexts[i].language, language) == 0 &&
            strcmp(e->contexts[i].name, name) == 0)
            return e->contexts[i].context;
    return NULL;
}

struct vial_context *registered_open(struct registered *held, const char *language,
                                     const char *name)
{
    struct live *e = live_of(held);
    struct vial_context *found;

    (void)pthread_mutex_lock(&e->lock);
    found = find_context(e, language, name);
    (void)pthread_mutex_unlock(&e->lock);
    return found;
}

int registered_context(struct registered *held, const char *language, const char *name,
                       struct vial_context **out, struct vial_error *err)
{
    struct live *e = live_of(held);
    int rc = 0;

    (void)pthread_mutex_lock(&e->lock);
    *out = find_context(e, language, name);
    if (!*out)
        rc = open_context(e, language, name, out, err);
    (void)pthread_mutex_unlock(&e->lock);
    return rc;
}

static bool is_wanted(const struct entry *e, const char *owner, bool only_open)
{
    return (!owner || strcmp(e->owner, owner) == 0) &&
           (!only_open || e->report.outcome == VIAL_SESSION_OPEN);
}

size_t registry_reports(struct registry *registry, const char *owner, bool only_open,
                        struct vial_session_report **out)
{
    size_t count = 0, at;

    refresh(registry, owner, clock_now_ns());
    forget_stale(registry, owner);
    (void)pthread_mutex_lock(&registry->lock);
    for (const struct entry *e = registry->entries; e; e = e->next)
        count += is_wanted(e, owner, only_open);
    if (out)
        *out = calloc(count ? count : 1, sizeof **out);
    at = out && *out ? count : 0;
    for (const struct entry *e = registry->entries; e && at > 0; e = e->next)
        if (is_wanted(e, owner, only_open))
            (*out)[--at] = e->report; /* the newest come first here */
    (void)pthread_mutex_unlock(&registry->lock);
    return out && !*out ? 0 : count;
}

json_t *registry_list(struct registry *registry, const char *owner)
{
    auto_free struct vial_session_report *all = NULL;
    size_t count = registry_reports(registry, owner, false, &all);
    json_t *list = all ? json_array() : NULL;

    for (size_t i = 0; list && i < count; i++)
        if (json_array_append_new(
                list, json_pack("{s:s, s:s, s:b, s:s, s:s, s:I, s:f}", "id", all[i].id,
                                "outcome", vial_outcome_name(all[i].outcome), "paused",
                                all[i].paused, "driver", all[i].driver, "level",
                                all[i].level, "execs", (json_int_t)all[i].execs,
                                "age_ms", all[i].duration_ms)) < 0) {
            json_decref(list);
            return NULL;
        }
    return list;
}
