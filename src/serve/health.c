/* SPDX-License-Identifier: Apache-2.0 */
#include "serve/health.h"

#include "base/auto.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/thread.h"
#include "keeper/front/start_keeper.h"
#include "serve/service.h"

#define MOMENT_MS 30                 /* who asks waits for as long as this */
#define FIRST_MS  5000               /* or this, if nothing was seen yet */
#define FRESH_NS  INT64_C(250000000) /* what was seen is good for as long as this */

/* How the process that opens vessels fares; null when it does not answer. */
static json_t *look_at_keeper(const struct serve *s)
{
    struct keeper_health health;
    struct vial_error err;

    if (!s->sources.kept || keeper_health(&health, &err) < 0)
        return json_null();
    return json_pack("{s:i, s:i, s:i}", "pid", (int)health.pid, "vessels",
                     (int)health.vessels, "restarts", (int)health.restarts);
}

static json_t *look_at_drivers(struct serve *s)
{
    struct generation *gen = serve_use(s);
    struct vial_error err = { 0 };
    auto_free char *text = NULL;
    json_t *doctor = NULL;

    if (vial_doctor(gen->engine, &text, &err) == 0)
        doctor = json_loads(text, 0, NULL);
    serve_unuse(s, gen);
    return doctor ? doctor : json_object();
}

static void *look(void *context)
{
    struct serve *s = context;
    struct health *r = &s->health;

    (void)pthread_mutex_lock(&r->lock);
    while (!r->ending) {
        json_t *doctor, *keeper;

        if (!r->wanted) {
            (void)pthread_cond_wait(&r->changed, &r->lock);
            continue;
        }
        r->wanted = false;
        (void)pthread_mutex_unlock(&r->lock);
        doctor = look_at_drivers(s);
        keeper = look_at_keeper(s);
        (void)pthread_mutex_lock(&r->lock);
        json_decref(r->doctor);
        json_decref(r->keeper);
        r->doctor = doctor;
        r->keeper = keeper;
        r->looked_ns = clock_now_ns();
        r->looks++;
        (void)pthread_cond_broadcast(&r->changed);
    }
    (void)pthread_mutex_unlock(&r->lock);
    return NULL;
}

int health_open(struct serve *s)
{
    struct health *r = &s->health;

    if (pthread_mutex_init(&r->lock, NULL) != 0)
        return -1;
    thread_cond_init(&r->changed);
    r->wanted = true;
    r->going = thread_start(&r->thread, THREAD_STACK, look, s) == 0;
    return r->going ? 0 : -1;
}

void health_close(struct serve *s)
{
    struct health *r = &s->health;

    if (!r->going)
        return;
    (void)pthread_mutex_lock(&r->lock);
    r->ending = true;
    (void)pthread_cond_broadcast(&r->changed);
    (void)pthread_mutex_unlock(&r->lock);
    (void)pthread_join(r->thread, NULL);
    json_decref(r->doctor);
    json_decref(r->keeper);
    (void)pthread_cond_destroy(&r->changed);
    (void)pthread_mutex_destroy(&r->lock);
}

/* With the lock held. One waits at a time: others would take the threads that answer.
 */
static void wait_a_moment(struct health *r)
{
    unsigned before = r->looks;
    int64_t until_ns =
        clock_now_ns() + (int64_t)(r->looks ? MOMENT_MS : FIRST_MS) * 1000000;

    r->waiting++;
    while (r->looks == before && clock_now_ns() < until_ns)
        thread_wait(&r->changed, &r->lock, (until_ns - clock_now_ns()) / 1000000 + 1);
    r->waiting--;
}

void health_see(struct serve *s, json_t **doctor, json_t **keeper)
{
    struct health *r = &s->health;

    (void)pthread_mutex_lock(&r->lock);
    if (!r->looks || clock_now_ns() - r->looked_ns > FRESH_NS) {
        r->wanted = true;
        (void)pthread_cond_broadcast(&r->changed);
        if (!r->waiting)
            wait_a_moment(r);
    }
    *doctor = json_deep_copy(r->doctor);
    *keeper = json_deep_copy(r->keeper);
    (void)pthread_mutex_unlock(&r->lock);
}
