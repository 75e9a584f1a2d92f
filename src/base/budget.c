/* SPDX-License-Identifier: Apache-2.0 */
#include "base/budget.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

struct account {
    struct account *next;
    uint64_t used[BUDGET_KINDS];
    char who[]; /* NUL-terminated */
};

struct vial_budget {
    pthread_mutex_t lock;
    unsigned users;
    uint64_t total[BUDGET_KINDS], used[BUDGET_KINDS];
    struct account *accounts; /* of those who have taken something */
};

struct vial_budget *budget_new(void)
{
    struct vial_budget *b = calloc(1, sizeof(*b));

    if (!b)
        return NULL;
    if (pthread_mutex_init(&b->lock, NULL) != 0) {
        free(b);
        return NULL;
    }
    b->users = 1;
    for (int kind = 0; kind < BUDGET_KINDS; kind++)
        b->total[kind] = UINT64_MAX;
    return b;
}

struct vial_budget *budget_ref(struct vial_budget *b)
{
    if (!b)
        return NULL;
    (void)pthread_mutex_lock(&b->lock);
    b->users++;
    (void)pthread_mutex_unlock(&b->lock);
    return b;
}

void budget_unref(struct vial_budget *b)
{
    bool last;

    if (!b)
        return;
    (void)pthread_mutex_lock(&b->lock);
    last = --b->users == 0;
    (void)pthread_mutex_unlock(&b->lock);
    if (!last)
        return;
    while (b->accounts) {
        struct account *next = b->accounts->next;

        free(b->accounts);
        b->accounts = next;
    }
    (void)pthread_mutex_destroy(&b->lock);
    free(b);
}

void budget_set(struct vial_budget *b, enum budget_kind kind, uint64_t bytes)
{
    if (!b)
        return;
    (void)pthread_mutex_lock(&b->lock);
    b->total[kind] = bytes;
    (void)pthread_mutex_unlock(&b->lock);
}

uint64_t budget_share(struct vial_budget *b, enum budget_kind kind)
{
    uint64_t share;

    if (!b)
        return UINT64_MAX;
    (void)pthread_mutex_lock(&b->lock);
    share = b->total[kind] == UINT64_MAX ? UINT64_MAX : b->total[kind] / 2;
    (void)pthread_mutex_unlock(&b->lock);
    return share;
}

static struct account **find(struct vial_budget *b, const char *who)
{
    struct account **at = &b->accounts;

    while (*at && strcmp((*at)->who, who) != 0)
        at = &(*at)->next;
    return at;
}

/* With the lock held. NULL: no memory. */
static struct account *open_account(struct vial_budget *b, const char *who)
{
    struct account **at = find(b, who);
    struct account *a = *at;
    size_t size = strlen(who) + 1;

    if (a)
        return a;
    a = calloc(1, sizeof(*a) + size);
    if (a)
        memcpy(a->who, who, size);
    *at = a;
    return a;
}

static void close_account(struct vial_budget *b, const char *who)
{
    struct account **at = find(b, who);
    struct account *a = *at;

    if (!a || a->used[BUDGET_MEMORY] || a->used[BUDGET_DISK])
        return;
    *at = a->next;
    free(a);
}

/* With the lock held: as much has to be left as WHO would have. */
static bool fits(const struct vial_budget *b, enum budget_kind kind, uint64_t own,
                 uint64_t bytes)
{
    uint64_t left = b->total[kind];

    if (left == UINT64_MAX)
        return true;
    if (b->used[kind] > left || bytes > left - b->used[kind])
        return false;
    left -= b->used[kind] + bytes;
    return own <= left && bytes <= left - own;
}

bool budget_take(struct vial_budget *b, enum budget_kind kind, const char *who,
                 uint64_t bytes)
{
    const char *name = who ? who : "";
    struct account *a;
    bool good;

    if (!b || bytes == 0)
        return true;
    (void)pthread_mutex_lock(&b->lock);
    a = open_account(b, name);
    good = a && fits(b, kind, a->used[kind], bytes);
    if (good) {
        a->used[kind] += bytes;
        b->used[kind] += bytes;
    }
    close_account(b, name);
    (void)pthread_mutex_unlock(&b->lock);
    return good;
}

void budget_give(struct vial_budget *b, enum budget_kind kind, const char *who,
                 uint64_t bytes)
{
    const char *name = who ? who : "";
    struct account *a;

    if (!b || bytes == 0)
        return;
    (void)pthread_mutex_lock(&b->lock);
    a = *find(b, name);
    if (a) {
        a->used[kind] -= bytes;
        b->used[kind] -= bytes;
    }
    close_account(b, name);
    (void)pthread_mutex_unlock(&b->lock);
}

uint64_t budget_used(struct vial_budget *b, enum budget_kind kind)
{
    uint64_t used;

    if (!b)
        return 0;
    (void)pthread_mutex_lock(&b->lock);
    used = b->used[kind];
    (void)pthread_mutex_unlock(&b->lock);
    return used;
}
