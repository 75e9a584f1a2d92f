/* SPDX-License-Identifier: Apache-2.0 */
#include "serve/keys.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/fail.h"
#include "model/value.h"

#define KEPT_NS    (INT64_C(600) * 1000000000)
#define KEPT_MOST  4096u
#define KEPT_BYTES ((size_t)64 << 20)

int keys_init(struct keys *k)
{
    *k = (struct keys){ 0 };
    return pthread_mutex_init(&k->lock, NULL) == 0 ? 0 : -1;
}

static void unlink_at(struct keys *k, struct key_entry **at)
{
    struct key_entry *e = *at;

    *at = e->next;
    k->count--;
    k->bytes -= e->body.len;
    blob_done(&e->body);
    free(e);
}

void keys_done(struct keys *k)
{
    while (k->first)
        unlink_at(k, &k->first);
    (void)pthread_mutex_destroy(&k->lock);
}

static struct key_entry **find(struct keys *k, const char *caller, const char *key)
{
    struct key_entry **at = &k->first;

    while (*at && (strcmp((*at)->key, key) != 0 || strcmp((*at)->caller, caller) != 0))
        at = &(*at)->next;
    return at;
}

struct kept {
    size_t count, bytes;
};

/* Whether there is no room for E behind these, of PART of all. */
static bool is_much(const struct kept *k, const struct key_entry *e, size_t part)
{
    return k->count >= KEPT_MOST / part || k->bytes + e->body.len > KEPT_BYTES / part;
}

static void keep(struct kept *k, const struct key_entry *e)
{
    k->count++;
    k->bytes += e->body.len;
}

/* With the lock held: forgets what is old, and the oldest while there is too much of
 * CALLER's, who may have a half, or of all. What is under way is never forgotten. */
static void trim(struct keys *k, const char *caller)
{
    int64_t oldest_ns = clock_now_ns() - KEPT_NS;
    struct key_entry **at = &k->first;
    struct kept all = { 0 };
    struct kept own = { 0 };

    while (*at) {
        bool is_own = strcmp((*at)->caller, caller) == 0;
        bool much = is_much(&all, *at, 1) || (is_own && is_much(&own, *at, 2));

        if ((*at)->status && (much || (*at)->at_ns < oldest_ns)) {
            unlink_at(k, at);
            continue;
        }
        keep(&all, *at);
        if (is_own)
            keep(&own, *at);
        at = &(*at)->next;
    }
}

static enum keys_state refuse(struct vial_error *err, const char *what)
{
    (void)fail(err, VIAL_E_IDEMPOTENCY, "%s", what);
    return KEYS_REFUSED;
}

static enum keys_state add(struct keys *k, const char *caller, const char *key,
                           const char *hash, struct vial_error *err)
{
    struct key_entry *e = calloc(1, sizeof(*e));

    if (!e) {
        (void)fail_memory(err);
        return KEYS_REFUSED;
    }
    (void)snprintf(e->caller, sizeof(e->caller), "%s", caller);
    (void)snprintf(e->key, sizeof(e->key), "%s", key);
    (void)snprintf(e->hash, sizeof(e->hash), "%s", hash);
    e->at_ns = clock_now_ns();
    e->next = k->first;
    k->first = e;
    k->count++;
    return KEYS_NEW;
}

static enum keys_state judge(struct keys *k, const char *caller, const char *key,
                             const char *hash, struct key_entry **found,
                             struct vial_error *err)
{
    *found = *find(k, caller, key);
    if (!*found)
        return add(k, caller, key, hash, err);
    if (strcmp((*found)->hash, hash) != 0)
        return refuse(err, "the key was used for another request");
    if (!(*found)->status)
        return refuse(err, "the run of this key goes on");
    return KEYS_KNOWN;
}

enum keys_state keys_begin(struct keys *k, const char *caller, const char *key,
                           const char *hash, struct keys_answer *out,
                           struct vial_error *err)
{
    struct key_entry *found;
    enum keys_state state;

    if (!*key || strlen(key) >= sizeof(found->key) ||
        !value_is_plain(key, strlen(key))) {
        (void)fail(err, VIAL_E_VALUE,
                   "the idempotency key is not plain text of 1 to "
                   "255 bytes");
        return KEYS_REFUSED;
    }
    (void)pthread_mutex_lock(&k->lock);
    trim(k, caller);
    state = judge(k, caller, key, hash, &found, err);
    if (state == KEYS_KNOWN) {
        out->status = found->status;
        if (blob_set(&out->body, found->body.data, found->body.len) < 0) {
            (void)fail_memory(err);
            state = KEYS_REFUSED;
        }
    }
    (void)pthread_mutex_unlock(&k->lock);
    return state;
}

void keys_end(struct keys *k, const char *caller, const char *key, unsigned status,
              const char *body, size_t len)
{
    struct key_entry **at;

    (void)pthread_mutex_lock(&k->lock);
    at = find(k, caller, key);
    if (*at && blob_set(&(*at)->body, body, len) == 0) {
        (*at)->status = status;
        (*at)->at_ns = clock_now_ns();
        k->bytes += len;
    } else if (*at) {
        unlink_at(k, at);
    }
    trim(k, caller);
    (void)pthread_mutex_unlock(&k->lock);
}

void keys_drop(struct keys *k, const char *caller, const char *key)
{
    struct key_entry **at;

    (void)pthread_mutex_lock(&k->lock);
    at = find(k, caller, key);
    if (*at)
        unlink_at(k, at);
    (void)pthread_mutex_unlock(&k->lock);
}
