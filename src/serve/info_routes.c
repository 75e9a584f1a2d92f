/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/fail.h"
#include "base/unit.h"
#include "keeper/front/start_keeper.h"
#include "model/vessel_list.h"
#include "serve/job.h"
#include "serve/route.h"

#include "vial/warm.h"

#define COUNT_NS (INT64_C(10) * 1000000000) /* vessels are counted no more often */

static void give(struct call *c, int rc, char *json, const struct vial_error *err)
{
    if (rc < 0)
        call_error(c, err);
    else
        call_given(c, 200, json);
}

void info_plan(struct call *c)
{
    auto_vial_request struct vial_request *req = NULL;
    struct vial_error err = { 0 };
    char *json = NULL;
    size_t len;
    const char *body = web_body(c->web, &len);
    int rc = job_request(c, body, len, &req, &err);

    if (rc == 0)
        rc = vial_plan(c->gen->engine, req, &json, &err);
    give(c, rc, json, &err);
}

void info_languages(struct call *c)
{
    struct vial_error err = { 0 };
    char *json = NULL;
    int rc = vial_languages(c->gen->engine, &json, &err);

    give(c, rc, json, &err);
}

void info_doctor(struct call *c)
{
    struct vial_error err = { 0 };
    char *json = NULL;
    int rc = vial_doctor(c->gen->engine, &json, &err);

    give(c, rc, json, &err);
}

void info_config(struct call *c)
{
    call_json(c, 200, settings_json(c->gen->settings));
}

void info_vessels(struct call *c)
{
    struct vial_error err = { 0 };
    char *json = NULL;
    int rc = vial_vessels(c->gen->engine, &json, &err);

    give(c, rc, json, &err);
}

void info_version(struct call *c)
{
    json_t *scopes = json_array();
    static const char *const names[] = { "read", "run", "session", "image", "admin" };

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (c->who.scopes & auth_scope(names[i]))
            (void)json_array_append_new(scopes, json_string(names[i]));
    call_json(c, 200,
              json_pack("{s:s, s:s, s:o, s:s?}", "version", vial_version(), "caller",
                        c->who.name, "scopes", scopes, "preset",
                        vial_preset_name(c->gen->engine)));
}

void info_schema(struct call *c)
{
    struct vial_error err = { 0 };
    char *json = NULL;

    if (vial_schema(c->params[0], &json, &err) < 0) {
        (void)fail_as(&err, VIAL_E_ROUTE);
        call_error(c, &err);
        return;
    }
    call_given(c, 200, json);
}

void info_health(struct call *c)
{
    call_json(c, 200, json_pack("{s:s}", "status", "ok"));
}

static json_t *capacity_json(struct call *c)
{
    const struct serve_settings *settings = &c->gen->settings->serve;
    size_t sessions = registry_reports(c->serve->registry, NULL, true, NULL);
    unsigned running, waiting;

    gate_count(&c->serve->gate, &running, &waiting);
    return json_pack("{s:s, s:i, s:i, s:i, s:I, s:i, s:I}", "node", c->serve->node,
                     "running", (int)running, "most",
                     (int)gate_most(settings->concurrency), "waiting", (int)waiting,
                     "queue", (json_int_t)settings->queue, "sessions", (int)sessions,
                     "sessions_most", (json_int_t)settings->sessions);
}

/* Whether the driver that the settings ask for is here, or who may stand in for it;
 * whoever is not known learns no more than yes or no. */
void info_ready(struct call *c)
{
    auto_json json_t *seen = NULL;
    bool good = health_see(c->serve, c->who.scopes ? &seen : NULL);
    json_t *answer;

    good = good && !c->serve->draining;
    answer = json_pack("{s:s}", "status",
                       good                 ? "ready"
                       : c->serve->draining ? "draining"
                                            : "not ready");
    if (answer && seen) {
        (void)json_object_update(answer, seen);
        (void)json_object_set_new(answer, "capacity", capacity_json(c));
    }
    call_json(c, good ? 200 : 503, answer);
}

/* With docker's socket in between this can take a while, so it is not done for every
 * scrape. */
static void count_vessels(struct call *c)
{
    struct serve *s = c->serve;
    struct vial_error err = { 0 };
    auto_vessels struct vial_vessels list = { 0 };
    unsigned orphans = 0;
    bool due;

    (void)pthread_mutex_lock(&s->lock);
    due = s->counted_ns == 0 || clock_now_ns() - s->counted_ns > COUNT_NS;
    if (due)
        s->counted_ns = clock_now_ns();
    (void)pthread_mutex_unlock(&s->lock);
    if (!due || vial_vessel_list(c->gen->engine, NULL, &list, &err) < 0)
        return;
    for (size_t i = 0; i < list.count; i++)
        orphans += list.items[i].orphan;
    (void)pthread_mutex_lock(&s->lock);
    s->vessels = (unsigned)list.count;
    s->orphans = orphans;
    (void)pthread_mutex_unlock(&s->lock);
}

void info_metrics(struct call *c)
{
    struct serve *s = c->serve;
    struct metrics_gauges g = { .started_s = s->started_s, .version = vial_version() };
    struct keeper_health keeper;
    struct vial_error err;
    auto_str struct str out = { 0 };

    count_vessels(c);
    gate_count(&s->gate, &g.running, &g.waiting);
    g.sessions = (unsigned)registry_reports(s->registry, NULL, true, NULL);
    g.pooled = vial_warm_waiting(c->gen->engine);
    vial_budget_look(s->budget, &g.output_memory, &g.output_disk);
    if (s->sources.kept && keeper_health(&keeper, &err) == 0)
        g.keeper_restarts = keeper.restarts;
    (void)pthread_mutex_lock(&s->lock);
    g.vessels = s->vessels;
    g.orphans = s->orphans;
    for (size_t i = 0; i < s->listener_count; i++) {
        struct web_counts counts;

        web_count(s->listeners[i], &counts);
        g.connections += counts.connections;
        g.handlers += counts.handlers;
    }
    (void)pthread_mutex_unlock(&s->lock);
    metrics_write(&s->metrics, &g, &out);
    call_text(c, 200, "text/plain; version=0.0.4", str_ok(&out) ? out.data : "",
              out.len);
}
