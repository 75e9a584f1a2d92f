/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/pool/zygote_holder.h"

#include <stdlib.h>

#include "base/clock.h"
#include "base/fail.h"

void zygote_holder_init(struct zygote_holder *n)
{
    *n = (struct zygote_holder){ 0 };
    (void)pthread_mutex_init(&n->lock, NULL);
}

static struct shared_zygote *start(const struct zygote_holder_needs *needs,
                                   struct vial_error *err)
{
    struct shared_zygote *shared = calloc(1, sizeof *shared);

    if (!shared) {
        (void)fail_memory(err);
        return NULL;
    }
    shared->driver = needs->driver;
    shared->users = 1;
    if (needs->driver->zygote_open(needs->plan, &needs->options, &shared->zygote,
                                   err) == 0)
        return shared;
    free(shared);
    return NULL;
}

/* Under the lock: who needs one too waits for it. */
static void have(struct zygote_holder *n, const struct zygote_holder_needs *needs,
                 struct vial_error *err)
{
    if (n->shared || !backoff_is_over(&n->pause))
        return;
    n->shared = start(needs, err);
    if (n->shared)
        (void)atomic_fetch_add(&n->zygotes, 1);
    else
        backoff_begin(&n->pause);
}

void zygote_holder_have(struct zygote_holder *n,
                        const struct zygote_holder_needs *needs, struct vial_error *err)
{
    (void)pthread_mutex_lock(&n->lock);
    have(n, needs, err);
    (void)pthread_mutex_unlock(&n->lock);
}

void zygote_holder_close(struct shared_zygote *last)
{
    if (!last)
        return;
    last->driver->zygote_close(last->zygote);
    free(last);
}

/* Asked without the lock: the zygote takes one order after the other, and its children
 * get ready side by side. */
static void let_go(struct zygote_holder *n, struct shared_zygote *shared, bool failed)
{
    bool last = false;

    (void)pthread_mutex_lock(&n->lock);
    shared->users--;
    if (!failed) {
        backoff_forget(&n->pause);
    } else if (n->shared == shared) {
        n->shared = NULL;
        shared->users--;
    }
    last = shared->users == 0;
    (void)pthread_mutex_unlock(&n->lock);
    if (last)
        zygote_holder_close(shared);
}

int zygote_holder_fork_into(struct zygote_holder *n,
                            const struct zygote_holder_needs *needs, struct ready *r,
                            struct vial_error *err)
{
    struct shared_zygote *shared = NULL;
    int rc = 0;

    (void)pthread_mutex_lock(&n->lock);
    have(n, needs, err);
    shared = n->shared;
    if (shared)
        shared->users++;
    (void)pthread_mutex_unlock(&n->lock);
    if (!shared)
        return 0;
    rc = ready_fork_into(r, shared->zygote, err);
    let_go(n, shared, rc < 0);
    return rc;
}

void zygote_holder_put_off(struct zygote_holder *n)
{
    (void)pthread_mutex_lock(&n->lock);
    backoff_begin(&n->pause);
    (void)pthread_mutex_unlock(&n->lock);
}

bool zygote_holder_is_alive(const struct zygote_holder *n)
{
    return n->shared != NULL;
}

void zygote_holder_done(struct zygote_holder *n)
{
    (void)pthread_mutex_destroy(&n->lock);
}

#define FIRST_MS   100
#define LONGEST_MS 5000
#define MS_NS      INT64_C(1000000)

void backoff_begin(struct backoff *p)
{
    p->ms = p->ms ? p->ms * 2 : FIRST_MS;
    if (p->ms > LONGEST_MS)
        p->ms = LONGEST_MS;
    p->until_ns = clock_now_ns() + p->ms * MS_NS;
}

void backoff_forget(struct backoff *p)
{
    p->ms = 0;
}

bool backoff_is_over(const struct backoff *p)
{
    return clock_now_ns() >= p->until_ns;
}
