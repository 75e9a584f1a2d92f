/* SPDX-License-Identifier: Apache-2.0 */
#include "serve/health.h"

#include "base/auto.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/thread.h"
#include "model/doctor.h"
#include "model/result.h"
#include "serve/service.h"
#include "serve/sessions_at.h"

#define MOMENT_MS 30                 /* who asks waits for as long as this */
#define FIRST_MS  5000               /* or this, if nothing was seen yet */
#define FRESH_NS  INT64_C(250000000) /* what was seen is good for as long as this */

static struct vial_doctor *look_at_drivers(struct serve *s)
{
    struct generation *gen = serve_use(s);
    struct vial_doctor *doctor = NULL;

    if (vial_doctor_look(gen->engine, &doctor, NULL) < 0)
        doctor = NULL;
    serve_unuse(s, gen);
    return doctor;
}

static void *look(void *context)
{
    struct serve *s = context;
    struct health *r = &s->health;

    (void)pthread_mutex_lock(&r->lock);
    while (!r->ending) {
        struct vial_doctor *doctor;
        struct keeper_health keeper;
        struct vial_error err;
        bool answers, sessions;

        if (!r->wanted) {
            (void)pthread_cond_wait(&r->changed, &r->lock);
            continue;
        }
        r->wanted = false;
        (void)pthread_mutex_unlock(&r->lock);
        doctor = look_at_drivers(s);
        answers = s->sources.kept && keeper_health(&keeper, &err) == 0;
        sessions = s->sessions_at[0] && sessions_at_answers(s);
        (void)pthread_mutex_lock(&r->lock);
        vial_doctor_free(r->doctor);
        r->doctor = doctor;
        r->keeper_answers = answers;
        r->sessions_answer = sessions;
        if (answers)
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
    vial_doctor_free(r->doctor);
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

/* Each driver: whether it can be used now, its engine's version, and if not, why. */
static json_t *drivers_json(const struct vial_doctor *doctor)
{
    json_t *list = json_array();

    for (size_t i = 0; i < doctor->driver_count; i++) {
        const struct vial_driver *d = &doctor->drivers[i];

        (void)json_array_append_new(list, json_pack("{s:b, s:s, s:s?, s:o}", "ready",
                                                    d->usable, "name", d->name,
                                                    "version", d->version, "error",
                                                    error_json(&d->error)));
    }
    return list;
}

/* The process that opens vessels; null when it does not answer. */
static json_t *keeper_json(const struct health *r)
{
    if (!r->keeper_answers)
        return json_null();
    return json_pack("{s:i, s:i, s:i}", "pid", (int)r->keeper.pid, "vessels",
                     (int)r->keeper.vessels, "restarts", (int)r->keeper.restarts);
}

static json_t *seen_json(const struct health *r, const struct serve *s)
{
    const struct vial_doctor *d = r->doctor;

    return json_pack("{s:o, s:o*, s:o*, s:o*, s:o*}", "engine",
                     d ? doctor_automatic_json(d) : json_null(), "needed",
                     d ? doctor_needed_json(d) : NULL, "drivers",
                     d ? drivers_json(d) : NULL, "keeper",
                     s->sources.kept ? keeper_json(r) : NULL, "sessions",
                     s->sessions_at[0] ? json_pack("{s:s, s:b}", "at", s->sessions_at,
                                                   "answers", r->sessions_answer)
                                       : NULL);
}

bool health_see(struct serve *s, json_t **out)
{
    struct health *r = &s->health;
    bool ready;

    (void)pthread_mutex_lock(&r->lock);
    if (!r->looks || clock_now_ns() - r->looked_ns > FRESH_NS) {
        r->wanted = true;
        (void)pthread_cond_broadcast(&r->changed);
        if (!r->waiting)
            wait_a_moment(r);
    }
    ready = r->doctor && r->doctor->takes;
    if (out)
        *out = seen_json(r, s);
    (void)pthread_mutex_unlock(&r->lock);
    return ready;
}
