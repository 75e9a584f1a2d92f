/* SPDX-License-Identifier: Apache-2.0 */
#include "e2b/lease.h"

#include "base/fail.h"
#include "base/thread.h"
#include "e2b/builds.h"
#include "e2b/control.h"

#define LONGEST_MS  ((int64_t)BOX_MOST_S * 1000)
#define LOOK_MS     60000 /* at least so often: clocks are set */
#define STACK_BYTES ((size_t)256 << 10)

/* The session's own lease is the longest, where it is not that which ends it. */
static int renew(struct box *box, int64_t seconds, bool lengthen,
                 struct vial_error *err)
{
    int64_t ends_ms = control_now_ms() + seconds * 1000;

    if (lengthen && ends_ms <= atomic_load(&box->ends_ms))
        return 0;
    if (vial_session_renew(box_session(box),
                           box->auto_pause ? LONGEST_MS : seconds * 1000, err) < 0)
        return -1;
    (void)pthread_mutex_lock(&box->e2b->lock);
    atomic_store(&box->ends_ms, ends_ms);
    (void)pthread_cond_broadcast(&box->e2b->lease);
    (void)pthread_mutex_unlock(&box->e2b->lock);
    return 0;
}

int lease_renew(struct box *box, int64_t seconds, bool lengthen, struct vial_error *err)
{
    int rc;

    (void)pthread_mutex_lock(&box->leasing);
    rc = renew(box, seconds, lengthen, err);
    (void)pthread_mutex_unlock(&box->leasing);
    return rc;
}

int lease_wake(struct box *box, int64_t seconds, struct vial_error *err)
{
    if (seconds < CONTROL_USUAL_S && box->auto_resume)
        seconds = CONTROL_USUAL_S;
    if (vial_session_resume(box_session(box), err) < 0 ||
        lease_renew(box, seconds ? seconds : CONTROL_USUAL_S, false, err) < 0)
        return -1;
    atomic_store(&box->paused_ms, 0);
    return 0;
}

int lease_pause(struct box *box, struct vial_error *err)
{
    if (vial_session_pause(box_session(box), NULL, err) < 0)
        return -1;
    atomic_store(&box->paused_ms, control_now_ms());
    return 0;
}

static bool is_watched(const struct box *box)
{
    return box->auto_pause && !atomic_load(&box->paused_ms) &&
           !atomic_load(&box->dying);
}

/* With the lock held: one whose time is over, held; or NULL, and how long there is none
 * for sure. */
static struct box *find_over(struct e2b *e2b, int64_t *wait_ms)
{
    int64_t now_ms = control_now_ms();

    *wait_ms = LOOK_MS;
    for (struct box *b = e2b->boxes; b; b = b->next) {
        int64_t left_ms = atomic_load(&b->ends_ms) - now_ms;

        if (!is_watched(b))
            continue;
        if (left_ms <= 0) {
            b->users++;
            return b;
        }
        *wait_ms = left_ms < *wait_ms ? left_ms : *wait_ms;
    }
    return NULL;
}

static bool is_over(const struct box *box)
{
    return atomic_load(&box->ends_ms) <= control_now_ms();
}

/* BOX's lease was over; it may have been renewed since. */
static void end_lease(struct e2b *e2b, struct box *box)
{
    struct vial_error ignored = { 0 };
    bool good;

    (void)pthread_mutex_lock(&box->leasing);
    good = !is_watched(box) || !is_over(box) || lease_pause(box, &ignored) == 0;
    (void)pthread_mutex_unlock(&box->leasing);
    if (!good)
        (void)boxes_remove(e2b, box);
}

static void *watch(void *context)
{
    struct e2b *e2b = context;

    (void)pthread_mutex_lock(&e2b->lock);
    while (!e2b->closing) {
        int64_t wait_ms;
        struct box *box = find_over(e2b, &wait_ms);

        if (!box)
            thread_wait(&e2b->lease, &e2b->lock, wait_ms);
        (void)pthread_mutex_unlock(&e2b->lock);
        if (box)
            end_lease(e2b, box);
        box_release(box);
        builds_forget(e2b->builds);
        (void)pthread_mutex_lock(&e2b->lock);
    }
    (void)pthread_mutex_unlock(&e2b->lock);
    return NULL;
}

int leases_watch(struct e2b *e2b, struct vial_error *err)
{
    (void)pthread_mutex_lock(&e2b->lock);
    if (!e2b->has_thread)
        e2b->has_thread = thread_start(&e2b->thread, STACK_BYTES, watch, e2b) == 0;
    (void)pthread_cond_broadcast(&e2b->lease);
    (void)pthread_mutex_unlock(&e2b->lock);
    return e2b->has_thread ? 0 : fail_memory(err);
}

void leases_done(struct e2b *e2b)
{
    (void)pthread_mutex_lock(&e2b->lock);
    e2b->closing = true;
    (void)pthread_cond_broadcast(&e2b->lease);
    (void)pthread_mutex_unlock(&e2b->lock);
    if (e2b->has_thread)
        (void)pthread_join(e2b->thread, NULL);
}
