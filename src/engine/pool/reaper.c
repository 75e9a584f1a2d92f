/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/pool/reaper.h"

#include "base/fail.h"
#include "base/thread.h"
#include "engine/pool/stock.h"

/* Without a user, FROM may be freed. */
static void destroy(struct vessel *v, struct stock *from)
{
    stock_count_over(from);
    (v->driver->leave ? v->driver->leave : v->driver->close)(v);
    (void)atomic_fetch_sub(&from->users, 1);
}

static void *work(void *context)
{
    struct reaper *r = context;

    (void)pthread_mutex_lock(&r->lock);
    for (;;) {
        struct vessel *v = NULL;
        struct stock *from = NULL;

        while (r->count == 0 && !r->stopping)
            (void)pthread_cond_wait(&r->changed, &r->lock);
        if (r->count == 0)
            break;
        v = r->waiting[--r->count].vessel;
        from = r->waiting[r->count].from;
        (void)pthread_mutex_unlock(&r->lock);
        destroy(v, from);
        (void)pthread_mutex_lock(&r->lock);
    }
    (void)pthread_mutex_unlock(&r->lock);
    return NULL;
}

int reaper_start(struct reaper *r, struct vial_error *err)
{
    int rc = 0;

    *r = (struct reaper){ 0 };
    (void)pthread_mutex_init(&r->lock, NULL);
    (void)pthread_cond_init(&r->changed, NULL);
    rc = thread_start(&r->thread, THREAD_STACK, work, r);
    if (rc != 0)
        return fail_sys_rc(err, -rc, "start a thread");
    r->started = true;
    return 0;
}

void reaper_give(struct reaper *r, struct vessel *v, struct stock *from)
{
    bool taken = false;

    if (v->driver->leave) {
        destroy(v, from); /* at once, since it costs nothing */
        return;
    }
    (void)pthread_mutex_lock(&r->lock);
    taken = r->count < REAPER_MAX;
    if (taken)
        r->waiting[r->count++] = (__typeof__(r->waiting[0])){ v, from };
    (void)pthread_cond_signal(&r->changed);
    (void)pthread_mutex_unlock(&r->lock);
    if (!taken)
        destroy(v, from);
}

void reaper_stop(struct reaper *r)
{
    if (r->started) {
        (void)pthread_mutex_lock(&r->lock);
        r->stopping = true;
        (void)pthread_cond_signal(&r->changed);
        (void)pthread_mutex_unlock(&r->lock);
        (void)pthread_join(r->thread, NULL);
    }
    (void)pthread_mutex_destroy(&r->lock);
    (void)pthread_cond_destroy(&r->changed);
}
