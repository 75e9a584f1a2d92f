/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/nursery.h"

#include <stdlib.h>

#include "base/fail.h"

void nursery_init(struct nursery *n)
{
    *n = (struct nursery){ 0 };
    (void)pthread_mutex_init(&n->lock, NULL);
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
    if (n->nurse || !pause_is_over(&n->pause))
        return;
    n->nurse = start(needs, err);
    if (n->nurse)
        (void)atomic_fetch_add(&n->zygotes, 1);
    else
        pause_begin(&n->pause);
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
        pause_forget(&n->pause);
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
    pause_begin(&n->pause);
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
