/* SPDX-License-Identifier: Apache-2.0 */
#include "e2b/volume_seen.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "api/inside.h"
#include "base/auto.h"
#include "base/fail.h"
#include "base/str.h"
#include "base/thread.h"
#include "e2b/control.h"

#define KEYS    4096u
#define KEY_MS  ((int64_t)BOX_MOST_S * 1000)
#define WAIT_MS 5000
#define LOOK_MS 200
#define BEARER  "Bearer "
#define ID_PART '~' /* in an id, which is a part of a path; in no name */

const char *volume_shown(const struct ask *a, const char *name)
{
    size_t len = strlen(a->owner.part);

    return len > 0 && strncmp(name, a->owner.part, len) == 0 && name[len] == '/'
               ? name + len + 1
               : name;
}

void volume_id(const char *name, char out[VOLUME_NAME])
{
    char *slash;

    (void)snprintf(out, VOLUME_NAME, "%s", name);
    slash = strchr(out, '/');
    if (slash)
        *slash = ID_PART;
}

/* 1; 0: there is none that A's owner may read; -1 with ERR. */
static int look(struct ask *a, const char *name, struct volume_seen *out,
                struct vial_error *err)
{
    const struct policy *p = &a->turn->settings->policy;
    auto_json json_t *row = NULL;

    if (!volume_name_ok(name) ||
        volume_check_policy(p, a->owner.part, name, false, NULL) < 0)
        return 0;
    if (inside_volume(a->turn->engine, name, &row, err) < 0) {
        if (!fail_is(err, VIAL_E_VOLUME))
            return -1;
        fail_clear(err);
        return 0;
    }
    (void)snprintf(out->name, sizeof(out->name), "%s", name);
    out->own = volume_shown(a, name) != name;
    out->writable = volume_check_policy(p, a->owner.part, name, true, NULL) == 0;
    return 1;
}

static int found(int rc, const char *given, struct vial_error *err)
{
    if (rc != 0)
        return rc < 0 ? -1 : 0;
    return fail(err, VIAL_E_VOLUME, "volume '%.140s' not found", given);
}

int volume_by_name(struct ask *a, const char *given, struct volume_seen *out,
                   struct vial_error *err)
{
    auto_str struct str own = { 0 };
    int rc = 0;

    if (volume_check_said(&a->turn->settings->policy, err) < 0)
        return -1;
    str_printf(&own, "%s/%s", a->owner.part, given);
    if (str_ok(&own) && !strchr(given, '/'))
        rc = look(a, own.data, out, err);
    if (rc == 0)
        rc = look(a, given, out, err);
    return found(rc, given, err);
}

int volume_by_id(struct ask *a, const char *id, struct volume_seen *out,
                 struct vial_error *err)
{
    char name[VOLUME_NAME];
    char *mark;

    if (volume_check_said(&a->turn->settings->policy, err) < 0)
        return -1;
    if (strlen(id) >= sizeof(name))
        return found(0, id, err);
    (void)snprintf(name, sizeof(name), "%s", id);
    mark = strchr(name, ID_PART);
    if (mark)
        *mark = '/';
    return found(look(a, name, out, err), id, err);
}

json_t *volume_mount(const struct volume_seen *v, const char *at,
                     struct vial_error *err)
{
    json_t *text;

    if (strchr(at, ':')) {
        (void)fail(err, VIAL_E_VALUE, "a volume cannot be at a path with ':' in it");
        return NULL;
    }
    text = json_sprintf("%s:%s:%s", v->name, at, v->writable ? "rw" : "ro");
    if (!text)
        (void)fail(err, VIAL_E_VALUE, "'%.128s' is not a path", at);
    return text;
}

/* With the lock held: what holds no longer goes. */
static void forget_old(struct e2b *e2b, const char *name)
{
    int64_t now_ms = control_now_ms();

    for (struct volume_key **at = &e2b->volume_keys; *at;) {
        struct volume_key *k = *at;

        if (k->ends_ms > now_ms && (!name || strcmp(k->name, name) != 0)) {
            at = &k->next;
            continue;
        }
        *at = k->next;
        free(k);
    }
}

/* With the lock held: one more has a place; the owner's oldest makes room for it. */
static bool make_room(struct e2b *e2b, const char *owner)
{
    struct volume_key **oldest = NULL;
    struct volume_key *k;
    unsigned taken = 0;
    unsigned own = 0;

    for (struct volume_key **at = &e2b->volume_keys; *at; at = &(*at)->next) {
        bool is_own = strcmp((*at)->owner.name, owner) == 0;

        taken++;
        own += is_own;
        if (is_own)
            oldest = at;
    }
    if (gate_leaves_some(KEYS, taken, own))
        return true;
    if (!oldest)
        return false;
    k = *oldest;
    *oldest = k->next;
    free(k);
    return true;
}

/* With the lock held. */
static struct volume_key *add_key(struct ask *a, const char *name)
{
    struct e2b *e2b = a->e2b;
    struct volume_key *k = NULL;

    if (make_room(e2b, a->owner.name))
        k = calloc(1, sizeof(*k));
    if (!k || box_make_token(k->token) < 0) {
        free(k);
        return NULL;
    }
    (void)snprintf(k->name, sizeof(k->name), "%s", name);
    k->caller = a->caller;
    k->next = e2b->volume_keys;
    e2b->volume_keys = k;
    return k;
}

int volume_key_tell(struct ask *a, const char *name, char token[BOX_TOKEN],
                    struct vial_error *err)
{
    struct e2b *e2b = a->e2b;
    struct volume_key *k;

    (void)pthread_mutex_lock(&e2b->lock);
    forget_old(e2b, NULL);
    k = e2b->volume_keys;
    while (k &&
           (strcmp(k->name, name) != 0 || strcmp(k->owner.name, a->owner.name) != 0))
        k = k->next;
    if (!k)
        k = add_key(a, name);
    if (k) {
        k->owner = a->owner;
        k->ends_ms = control_now_ms() + KEY_MS;
        memcpy(token, k->token, BOX_TOKEN);
    }
    (void)pthread_mutex_unlock(&e2b->lock);
    return k ? 0 : fail(err, VIAL_E_RATE, "too many volumes are being used");
}

bool volume_key_of(struct e2b *e2b, const struct web_request *req,
                   struct volume_key *out)
{
    const char *given = web_header(req, "Authorization");
    int64_t now_ms = control_now_ms();
    bool holds = false;

    if (!given || strncasecmp(given, BEARER, strlen(BEARER)) != 0 ||
        web_header_repeated(req, "Authorization"))
        return false;
    (void)pthread_mutex_lock(&e2b->lock);
    for (struct volume_key *k = e2b->volume_keys; k && !holds; k = k->next) {
        holds = k->ends_ms > now_ms && box_same(k->token, given + strlen(BEARER));
        if (holds)
            *out = *k;
    }
    (void)pthread_mutex_unlock(&e2b->lock);
    return holds;
}

void volume_key_count(struct e2b *e2b, const struct volume_key *key, bool begins)
{
    (void)pthread_mutex_lock(&e2b->lock);
    for (struct volume_key *k = e2b->volume_keys; k; k = k->next)
        if (box_same(k->token, key->token))
            k->calls += begins ? 1 : k->calls > 0 ? -1u : 0;
    (void)pthread_cond_broadcast(&e2b->called);
    (void)pthread_mutex_unlock(&e2b->lock);
}

static bool is_called(const struct e2b *e2b, const char *name)
{
    for (const struct volume_key *k = e2b->volume_keys; k; k = k->next)
        if (k->calls > 0 && strcmp(k->name, name) == 0)
            return true;
    return false;
}

void volume_keys_wait(struct e2b *e2b, const char *name)
{
    int64_t until_ms = control_now_ms() + WAIT_MS;

    (void)pthread_mutex_lock(&e2b->lock);
    while (is_called(e2b, name) && control_now_ms() < until_ms)
        thread_wait(&e2b->called, &e2b->lock, LOOK_MS);
    (void)pthread_mutex_unlock(&e2b->lock);
}

void volume_keys_drop(struct e2b *e2b, const char *name)
{
    (void)pthread_mutex_lock(&e2b->lock);
    forget_old(e2b, name);
    (void)pthread_mutex_unlock(&e2b->lock);
}

void volume_keys_done(struct e2b *e2b)
{
    while (e2b->volume_keys) {
        struct volume_key *k = e2b->volume_keys;

        e2b->volume_keys = k->next;
        free(k);
    }
}
