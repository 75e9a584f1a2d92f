/* SPDX-License-Identifier: Apache-2.0 */
#include "registry/registry.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/fail.h"
#include "base/str.h"

#define SESSIONS     1024u
#define LOOK_NS      INT64_C(2000000000)
#define KEEP_MS      (INT64_C(5) * 60 * 1000)
#define EXECS_KEPT   256u
#define CONTEXTS_MAX 16u

struct numbered {
    struct vial_exec *exec;
    unsigned number, users;
};

struct named {
    char *language, *name;
    struct vial_context *context;
};

struct entry {
    struct registered public; /* first: the two have one address */
    struct entry *next;
    char id[24];
    char *owner;
    unsigned holders;
    int64_t ended_ns;  /* when its end was first seen; 0: it is open */
    int64_t looked_ns; /* when that was last looked at */

    pthread_mutex_t lock; /* for what follows */
    struct numbered execs[EXECS_KEPT];
    unsigned exec_count, last_number;
    struct named contexts[CONTEXTS_MAX];
    unsigned context_count;
};

struct registry {
    struct registry_options options;
    pthread_mutex_t lock;
    pthread_cond_t released;
    struct entry *entries;
    unsigned opening; /* counted, but not yet in the list */
};

static struct entry *entry_of(struct registered *held)
{
    return (struct entry *)held;
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
    if (r->options.per_owner == 0)
        r->options.per_owner = r->options.sessions;
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

static void entry_free(struct entry *e)
{
    /* Its contexts' cells, if any, have to end before they can be given back. */
    vial_session_kill(e->public.session, VIAL_SESSION_COMPLETED);
    for (unsigned i = 0; i < e->context_count; i++) {
        vial_context_close(e->contexts[i].context);
        free(e->contexts[i].language);
        free(e->contexts[i].name);
    }
    vial_session_free(e->public.session); /* and its execs */
    (void)pthread_mutex_destroy(&e->lock);
    free(e->owner);
    free(e);
}

/* Whether E is open; notes when it was first seen not to be. */
static bool is_open(struct entry *e)
{
    struct vial_session_report report;

    if (e->ended_ns)
        return false;
    vial_session_look(e->public.session, &report);
    e->looked_ns = clock_now_ns();
    if (report.outcome != VIAL_SESSION_OPEN)
        e->ended_ns = e->looked_ns;
    return !e->ended_ns;
}

/* The same, a moment ago: a look reads the vessel's counters, and a thousand of them
 * would take longer than opening a session does. */
static bool seems_open(struct entry *e)
{
    if (!e->ended_ns && clock_now_ns() - e->looked_ns < LOOK_NS)
        return true;
    return is_open(e);
}

/* Takes those out whose time is over, as a list to be freed without the lock. */
static struct entry *take_stale(struct registry *r)
{
    int64_t before_ns = clock_now_ns() - r->options.keep_ended_ms * 1000000;
    struct entry *stale = NULL;

    for (struct entry **at = &r->entries; *at;) {
        struct entry *e = *at;

        if (seems_open(e) || e->holders > 0 || e->ended_ns > before_ns) {
            at = &e->next;
            continue;
        }
        *at = e->next;
        e->next = stale;
        stale = e;
    }
    return stale;
}

static void free_list(struct entry *e)
{
    while (e) {
        struct entry *next = e->next;

        entry_free(e);
        e = next;
    }
}

static void forget_stale(struct registry *r)
{
    struct entry *stale;

    (void)pthread_mutex_lock(&r->lock);
    stale = take_stale(r);
    (void)pthread_mutex_unlock(&r->lock);
    free_list(stale);
}

void registry_close(struct registry *registry)
{
    struct entry *all;

    if (!registry)
        return;
    (void)pthread_mutex_lock(&registry->lock);
    for (struct entry *e = registry->entries; e; e = e->next)
        vial_session_kill(e->public.session, VIAL_SESSION_FAILED);
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

static void count_open(struct registry *r, const char *owner,
                       bool (*judge)(struct entry *e), unsigned *open, unsigned *own)
{
    *open = *own = 0;
    for (struct entry *e = r->entries; e; e = e->next)
        if (judge(e)) {
            (*open)++;
            *own += str_eq(e->owner, owner);
        }
}

/* Reserves a place, so that no two callers get the last one. */
static int reserve(struct registry *r, const char *owner, struct vial_error *err)
{
    unsigned open, own;
    int rc = 0;

    (void)pthread_mutex_lock(&r->lock);
    count_open(r, owner, seems_open, &open, &own);
    if (open + r->opening >= r->options.sessions || own >= r->options.per_owner)
        count_open(r, owner, is_open, &open, &own);
    if (open + r->opening >= r->options.sessions)
        rc = fail_full(r->options.sessions, "all", err);
    else if (own >= r->options.per_owner)
        rc = fail_full(r->options.per_owner, "this caller's", err);
    else
        r->opening++;
    (void)pthread_mutex_unlock(&r->lock);
    return rc;
}

static struct entry *entry_new(const char *owner)
{
    struct entry *e = calloc(1, sizeof *e);

    if (!e)
        return NULL;
    e->owner = strdup(owner);
    if (!e->owner) {
        free(e);
        return NULL;
    }
    (void)pthread_mutex_init(&e->lock, NULL);
    e->public.id = e->id;
    e->public.owner = e->owner;
    e->holders = 1;
    return e;
}

static int open_entry(struct registry *r, const char *owner,
                      const struct vial_request *req,
                      const struct vial_session_options *options, struct entry **out,
                      struct vial_error *err)
{
    struct vial_session_report report;
    struct entry *e = entry_new(owner);

    if (!e)
        return fail_memory(err);
    if (vial_session_open(engine_of(r), req, options, &e->public.session, err) < 0) {
        (void)pthread_mutex_destroy(&e->lock);
        free(e->owner);
        free(e);
        return -1;
    }
    vial_session_look(e->public.session, &report);
    (void)memcpy(e->id, report.id, sizeof e->id);
    *out = e;
    return 0;
}

int registry_start(struct registry *registry, const char *owner,
                   const struct vial_request *req,
                   const struct vial_session_options *options, struct registered **out,
                   struct vial_error *err)
{
    struct entry *e = NULL;
    int rc;

    forget_stale(registry);
    if (reserve(registry, owner, err) < 0)
        return -1;
    rc = open_entry(registry, owner, req, options, &e, err);
    (void)pthread_mutex_lock(&registry->lock);
    registry->opening--;
    if (rc == 0 && e) {
        e->next = registry->entries;
        registry->entries = e;
        *out = &e->public;
    }
    (void)pthread_mutex_unlock(&registry->lock);
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

int registry_take(struct registry *registry, const char *owner, const char *id,
                  struct registered **out, struct vial_error *err)
{
    struct entry *e;

    forget_stale(registry);
    (void)pthread_mutex_lock(&registry->lock);
    e = find(registry, owner, id);
    if (e) {
        e->holders++;
        *out = &e->public;
    }
    (void)pthread_mutex_unlock(&registry->lock);
    if (e)
        return 0;
    (void)fail(err, VIAL_E_SESSION, "there is no session '%.64s'", id);
    return fail_remedy(err, "list the sessions, or start one");
}

void registry_release(struct registry *registry, struct registered *held)
{
    if (!held)
        return;
    (void)pthread_mutex_lock(&registry->lock);
    entry_of(held)->holders--;
    (void)pthread_cond_broadcast(&registry->released);
    (void)pthread_mutex_unlock(&registry->lock);
}

int registry_stop(struct registry *registry, const char *owner, const char *id,
                  struct vial_error *err)
{
    struct registered *held = NULL;

    if (registry_take(registry, owner, id, &held, err) < 0 || !held)
        return -1;
    vial_session_close(held->session, VIAL_SESSION_COMPLETED);
    registry_release(registry, held);
    return 0;
}

/* An open session of OWNER, held; NULL: none is left. */
static bool has_ended(struct vial_exec *exec)
{
    struct vial_exec_status status;

    vial_exec_wait(exec, 0, &status);
    return !status.running;
}

/* With the entry's lock held: the oldest that nobody uses any more goes. */
static void make_room(struct entry *e)
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
    struct entry *e = entry_of(held);
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

static struct numbered *find_exec(struct entry *e, unsigned number)
{
    for (unsigned i = 0; i < e->exec_count; i++)
        if (e->execs[i].number == number)
            return &e->execs[i];
    return NULL;
}

struct vial_exec *registered_exec(struct registered *held, unsigned number)
{
    struct entry *e = entry_of(held);
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
    struct entry *e = entry_of(held);
    struct numbered *found;

    (void)pthread_mutex_lock(&e->lock);
    found = find_exec(e, number);
    if (found && found->users > 0)
        found->users--;
    (void)pthread_mutex_unlock(&e->lock);
}

/* With the entry's lock held. */
static int open_context(struct entry *e, const char *language, const char *name,
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
    if (vial_context_open(e->public.session, language, out, err) < 0)
        return -1;
    e->contexts[e->context_count++] =
        (struct named){ .language = ptr_take(&language_copy),
                        .name = ptr_take(&name_copy),
                        .context = *out };
    return 0;
}

int registered_context(struct registered *held, const char *language, const char *name,
                       struct vial_context **out, struct vial_error *err)
{
    struct entry *e = entry_of(held);
    bool found = false;
    int rc = 0;

    (void)pthread_mutex_lock(&e->lock);
    for (unsigned i = 0; i < e->context_count && !found; i++)
        if (strcmp(e->contexts[i].language, language) == 0 &&
            strcmp(e->contexts[i].name, name) == 0) {
            *out = e->contexts[i].context;
            found = true;
        }
    if (!found)
        rc = open_context(e, language, name, out, err);
    (void)pthread_mutex_unlock(&e->lock);
    return rc;
}

static json_t *entry_json(struct entry *e)
{
    struct vial_session_report report;

    vial_session_look(e->public.session, &report);
    return json_pack("{s:s, s:s, s:s, s:s, s:I, s:f}", "id", e->id, "outcome",
                     vial_outcome_name(report.outcome), "driver", report.driver,
                     "level", report.level, "execs", (json_int_t)report.execs, "age_ms",
                     report.duration_ms);
}

json_t *registry_list(struct registry *registry, const char *owner)
{
    json_t *list = json_array();
    int rc = list ? 0 : -1;

    forget_stale(registry);
    (void)pthread_mutex_lock(&registry->lock);
    for (struct entry *e = registry->entries; e && rc == 0; e = e->next)
        if (!owner || strcmp(e->owner, owner) == 0)
            rc = json_array_insert_new(list, 0, entry_json(e)); /* oldest first */
    (void)pthread_mutex_unlock(&registry->lock);
    if (rc == 0)
        return list;
    json_decref(list);
    return NULL;
}
