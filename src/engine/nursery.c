/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/nursery.h"

#include <stdlib.h>

#include "base/clock.h"
#include "base/fail.h"

#define PAUSE_MS  100 /* after the first failure; doubles with each */
#define PAUSE_MAX 5000
#define MS_NS     INT64_C(1000000)

void nursery_init(struct nursery *n)
{
    *n = (struct nursery){ 0 };
    (void)pthread_mutex_init(&n->lock, NULL);
}

static void put_off(struct nursery *n)
{
    n->pause_ms = n->pause_ms ? n->pause_ms * 2 : PAUSE_MS;
    if (n->pause_ms > PAUSE_MAX)
        n->pause_ms = PAUSE_MAX;
    n->retry_ns = clock_now_ns() + n->pause_ms * MS_NS;
}

static struct nurse *start(const struct nursery_needs *needs, struct vial_error *err)
{
    struct nurse *nurse = calloc(1, sizeof *nurse);

    if (!nurse) {
        (void)fail_memory(err);
        return NULL;
    }
    nurse->driver = needs->driver;
    nurse->users = 1;
    if (needs->driver->zygote_open(needs->plan, &needs->options, &nurse->zygote, err) ==
        0)
        return nurse;
    free(nurse);
    return NULL;
}

/* Under the lock: who needs one too waits for it. */
static void have(struct nursery *n, const struct nursery_needs *needs,
                 struct vial_error *err)
{
    if (n->nurse || clock_now_ns() < n->retry_ns)
        return;
    n->nurse = start(needs, err);
    if (n->nurse)
        (void)atomic_fetch_add(&n->zygotes, 1);
    else
        put_off(n);
}

void nursery_have(struct nursery *n, const struct nursery_needs *needs,
                  struct vial_error *err)
{
    (void)pthread_mutex_lock(&n->lock);
    have(n, needs, err);
    (void)pthread_mutex_unlock(&n->lock);
}

void nursery_close(struct nurse *last)
{
    if (!last)
        return;
    last->driver->zygote_close(last->zygote);
    free(last);
}

/* Asked without the lock: the zygote takes one order after the other, and its children
 * get ready side by side. */
static void let_go(struct nursery *n, struct nurse *nurse, bool failed)
{
    bool last = false;

    (void)pthread_mutex_lock(&n->lock);
    nurse->users--;
    if (!failed) {
        n->pause_ms = 0;
    } else if (n->nurse == nurse) {
        n->nurse = NULL;
        nurse->users--;
    }
    last = nurse->users == 0;
    (void)pthread_mutex_unlock(&n->lock);
    if (last)
        nursery_close(nurse);
}

int nursery_hatch(struct nursery *n, const struct nursery_needs *needs, struct ready *r,
                  struct vial_error *err)
{
    struct nurse *nurse = NULL;
    int rc = 0;

    (void)pthread_mutex_lock(&n->lock);
    have(n, needs, err);
    nurse = n->nurse;
    if (nurse)
        nurse->users++;
    (void)pthread_mutex_unlock(&n->lock);
    if (!nurse)
        return 0;
    rc = ready_hatch(r, nurse->zygote, err);
    let_go(n, nurse, rc < 0);
    return rc;
}

void nursery_put_off(struct nursery *n)
{
    (void)pthread_mutex_lock(&n->lock);
    put_off(n);
    (void)pthread_mutex_unlock(&n->lock);
}

bool nursery_is_alive(const struct nursery *n)
{
    return n->nurse != NULL;
}

void nursery_done(struct nursery *n)
{
    (void)pthread_mutex_destroy(&n->lock);
}
