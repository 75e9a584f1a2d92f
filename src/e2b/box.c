/* SPDX-License-Identifier: Apache-2.0 */
#include "e2b/box.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/fail.h"
#include "base/sys.h"
#include "base/thread.h"
#include "e2b/builds.h"
#include "e2b/lease.h"
#include "e2b/volume_seen.h"

#define ID_LETTERS 20 /* of 32 kinds: 100 bits */

int e2b_open(const struct e2b_options *options, struct e2b **out,
             struct vial_error *err)
{
    struct e2b *e = calloc(1, sizeof(*e));

    if (!e || pthread_mutex_init(&e->lock, NULL) != 0) {
        free(e);
        return fail_memory(err);
    }
    thread_cond_init(&e->lease);
    thread_cond_init(&e->called);
    if (builds_open(&e->builds) < 0) {
        e2b_close(e);
        return fail_memory(err);
    }
    e->options = *options;
    *out = e;
    return 0;
}

static void box_free(struct box *box)
{
    procs_done(box);
    watches_done(box);
    notebooks_done(box);
    if (box->held)
        registry_release(box->e2b->options.registry, box->held);
    json_decref(box->metadata);
    json_decref(box->env);
    json_decref(box->network);
    json_decref(box->denied);
    json_decref(box->egress);
    json_decref(box->asked_env);
    json_decref(box->mounts);
    free(box->template_name);
    (void)pthread_cond_destroy(&box->changed);
    (void)pthread_mutex_destroy(&box->lock);
    (void)pthread_mutex_destroy(&box->leasing);
    free(box);
}

void e2b_close(struct e2b *e2b)
{
    if (!e2b)
        return;
    leases_done(e2b);
    builds_close(e2b->builds);
    volume_keys_done(e2b);
    while (e2b->boxes)
        (void)boxes_remove(e2b, e2b->boxes);
    (void)pthread_cond_destroy(&e2b->lease);
    (void)pthread_cond_destroy(&e2b->called);
    (void)pthread_mutex_destroy(&e2b->lock);
    free(e2b);
}

/* Letters and digits that cannot be told apart from random ones. */
static int make_id(const char *node, char out[BOX_ID])
{
    static const char letters[] = "0123456789abcdefghijklmnopqrstuv";
    unsigned char bytes[ID_LETTERS];

    if (sys_random(bytes, sizeof(bytes)) < 0)
        return -1;
    out[0] = 'i';
    for (size_t i = 0; i < sizeof(bytes); i++)
        out[i + 1] = letters[bytes[i] & 31];
    (void)snprintf(out + ID_LETTERS + 1, BOX_ID - ID_LETTERS - 1, "%s", node);
    return 0;
}

int box_make_token(char out[BOX_TOKEN])
{
    unsigned char bytes[20];

    if (sys_random(bytes, sizeof(bytes)) < 0)
        return -1;
    for (size_t i = 0; i < sizeof(bytes); i++)
        (void)snprintf(out + 2 * i, 3, "%02x", bytes[i]);
    return 0;
}

struct box *box_new(struct e2b *e2b)
{
    struct box *box = calloc(1, sizeof(*box));

    if (!box)
        return NULL;
    box->e2b = e2b;
    box->users = 1;
    (void)pthread_mutex_init(&box->lock, NULL);
    (void)pthread_mutex_init(&box->leasing, NULL);
    thread_cond_init(&box->changed);
    if (make_id(e2b->options.node, box->id) == 0 && box_make_token(box->token) == 0 &&
        box_make_token(box->traffic) == 0)
        return box;
    box_free(box);
    return NULL;
}

struct vial_session *box_session(const struct box *box)
{
    return box->held->session;
}

bool box_lives(struct box *box)
{
    struct vial_session_report report;

    return !atomic_load(&box->dying) && !vial_session_ended(box_session(box), &report);
}

void boxes_add(struct e2b *e2b, struct box *box)
{
    (void)pthread_mutex_lock(&e2b->lock);
    box->users++;
    box->next = e2b->boxes;
    e2b->boxes = box;
    (void)pthread_mutex_unlock(&e2b->lock);
}

void box_release(struct box *box)
{
    bool last;

    if (!box)
        return;
    (void)pthread_mutex_lock(&box->e2b->lock);
    last = --box->users == 0;
    (void)pthread_mutex_unlock(&box->e2b->lock);
    if (last)
        box_free(box);
}

/* With the lock held: those whose sessions have ended leave the table. The list of
 * what is to be released without the lock. */
static struct box *take_ended(struct e2b *e2b)
{
    struct box *ended = NULL;

    for (struct box **at = &e2b->boxes; *at;) {
        struct box *box = *at;

        if (box_lives(box)) {
            at = &box->next;
            continue;
        }
        *at = box->next;
        box->next = ended;
        ended = box;
    }
    return ended;
}

static void release_all(struct box *list)
{
    while (list) {
        struct box *next = list->next;

        box_release(list);
        list = next;
    }
}

struct box *boxes_find(struct e2b *e2b, const char *id)
{
    struct box *found;

    (void)pthread_mutex_lock(&e2b->lock);
    for (found = e2b->boxes; found && !box_same(found->id, id); found = found->next)
        ;
    if (found && !box_lives(found))
        found = NULL;
    if (found)
        found->users++;
    (void)pthread_mutex_unlock(&e2b->lock);
    return found;
}

void boxes_forget_ended(struct e2b *e2b)
{
    struct box *ended;

    (void)pthread_mutex_lock(&e2b->lock);
    ended = take_ended(e2b);
    (void)pthread_mutex_unlock(&e2b->lock);
    release_all(ended);
}

struct box **boxes_of(struct e2b *e2b, const char *owner, size_t *count)
{
    struct box **out;
    size_t n = 0;

    *count = 0;
    (void)pthread_mutex_lock(&e2b->lock);
    for (struct box *b = e2b->boxes; b; b = b->next)
        n += strcmp(b->owner, owner) == 0;
    out = calloc(n + 1, sizeof(struct box *));
    for (struct box *b = e2b->boxes; out && b; b = b->next)
        if (strcmp(b->owner, owner) == 0 && box_lives(b)) {
            b->users++;
            out[(*count)++] = b;
        }
    (void)pthread_mutex_unlock(&e2b->lock);
    return out;
}

struct box *boxes_signed(struct e2b *e2b, const struct web_request *req)
{
    struct box *found = NULL;
    struct signature s;

    if (!signature_read(req, &s))
        return NULL;
    (void)pthread_mutex_lock(&e2b->lock);
    for (struct box *b = e2b->boxes; b && !found; b = b->next)
        if (b->token[0] && box_lives(b) && signature_fits(&s, b))
            found = b;
    if (found)
        found->users++;
    (void)pthread_mutex_unlock(&e2b->lock);
    return found;
}

bool boxes_remove(struct e2b *e2b, struct box *box)
{
    struct vial_error err;
    struct box **at;
    bool ours;

    (void)pthread_mutex_lock(&e2b->lock);
    for (at = &e2b->boxes; *at && *at != box; at = &(*at)->next)
        ;
    ours = *at != NULL;
    if (ours)
        *at = box->next;
    atomic_store(&box->dying, true);
    (void)pthread_mutex_unlock(&e2b->lock);
    if (!ours)
        return false;
    (void)registry_stop(e2b->options.registry, box->owner, box->session, &err);
    box_release(box);
    return true;
}

bool box_same(const char *secret, const char *text)
{
    size_t len = strlen(secret);
    unsigned char differ = 0;

    if (strlen(text) != len)
        return false;
    for (size_t i = 0; i < len; i++)
        differ |= (unsigned char)(secret[i] ^ text[i]);
    return differ == 0;
}
