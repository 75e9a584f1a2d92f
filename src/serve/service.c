/* SPDX-License-Identifier: Apache-2.0 */
#include "serve/service.h"

#include <stdlib.h>
#include <string.h>
#include <sys/sysinfo.h>
#include <time.h>
#include <unistd.h>

#include "api/inside.h"
#include "base/auto.h"
#include "base/clock.h"
#include "base/fail.h"
#include "base/json.h"
#include "base/state.h"
#include "base/sys.h"
#include "mcp/http_transport.h"
#include "mcp/vial_server.h"
#include "model/result.h"
#include "serve/door.h"
#include "serve/face.h"
#include "serve/mcp_gate.h"
#include "serve/sessions_at.h"

#include "vial/vessels.h"
#include "vial/warm.h"

static void generation_free(struct generation *g)
{
    mcp_http_close(g->mcp_http);
    mcp_vial_close(g->mcp);
    vial_engine_close(g->engine);
    auth_done(&g->auth);
    settings_free(g->settings);
    free(g);
}

AUTO(generation, struct generation, generation_free)
#define auto_generation __attribute__((cleanup(auto_generation_)))

/* Settings with the command line's over them. */
static int read_settings(const struct serve_sources *sources, struct settings **out,
                         struct vial_error *err)
{
    const char *home = getenv("HOME"); /* NOLINT(concurrency-mt-unsafe): read only */
    auto_free char *state = state_path(home);
    const struct settings_sources from = {
        .preset = sources->preset,
        .config = sources->config,
        .share_dir = sources->share_dir[0] ? sources->share_dir : NULL,
        .project_dir = "/", /* where the daemon was started says nothing */
        .environ_ = environ,
        .home = home,
        .state = state,
        .serves = true,
    };
    struct settings *s;

    if (settings_load(&from, &s, err) < 0)
        return -1;
    if (sources->flags && block_read(&block_serve, &s->serve, sources->flags,
                                     "the command line", err) < 0) {
        settings_free(s);
        return -1;
    }
    *out = s;
    return 0;
}

static int generation_new(const struct serve_sources *sources, struct generation **out,
                          struct vial_error *err)
{
    auto_generation struct generation *g = calloc(1, sizeof(*g));

    if (!g)
        return fail_memory(err);
    g->users = 1;
    g->number = 1;
    if (read_settings(sources, &g->settings, err) < 0 ||
        auth_load(&g->auth, &g->settings->serve, sources->own, err) < 0)
        return -1;
    *out = ptr_take(&g);
    return 0;
}

enum { WARM_CALLER, WARM_ALL }; /* the setting's choices */

#define WARM_PART 8u /* of the host's memory, for vessels that wait */
#define WARM_MOST (UINT64_C(1) << 30)

static uint64_t warm_bytes(void)
{
    struct sysinfo host;
    uint64_t part = WARM_MOST;

    if (sysinfo(&host) == 0)
        part = (uint64_t)host.totalram * host.mem_unit / WARM_PART;
    return part < WARM_MOST ? part : WARM_MOST;
}

static int warm(struct generation *g, struct vial_error *err)
{
    const struct serve_settings *settings = &g->settings->serve;
    auto_strv struct strv languages = { 0 };
    bool on = serve_settings_warm(settings, &languages);
    const struct vial_warm_options options = {
        .languages = (const char *const *)languages.items,
        .memory_bytes = warm_bytes(),
        .by_caller = settings->warm_share == WARM_CALLER,
    };

    if (!on)
        return 0;
    return languages.failed ? fail_memory(err)
                            : vial_engine_warm(g->engine, &options, err);
}

static int enter_network(void *context, const char *caller, struct network_place *out,
                         struct vial_error *err)
{
    return gate_network_enter(context, caller, out, err);
}

static void leave_network(void *context, const char *caller,
                          const struct network_place *place)
{
    gate_network_leave(context, caller, place);
}

static int open_engine(struct serve *s, struct generation *g, struct vial_error *err)
{
    const struct vial_engine_options options = { .kept = s->sources.kept,
                                                 .budget = s->budget };
    const struct network_shares shares = { &s->gate, enter_network, leave_network };

    if (inside_open(&options, g->settings, &g->engine, err) < 0)
        return -1;
    inside_share(g->engine, &shares);
    return warm(g, err);
}

/* Host and Origin have been judged by the time a request gets there. */
static int open_mcp(struct serve *s, struct generation *g, struct vial_error *err)
{
    struct mcp_http_options options = { .any_host = true,
                                        .node =
                                            serve_settings_node(&g->settings->serve) };
    const struct mcp_gate gate = protocol_gate(s);

    if (mcp_vial_open(g->engine, s->registry, s->sources.preset, &gate, &g->mcp, err) <
        0)
        return -1;
    options.mcp = mcp_vial_core(g->mcp);
    return mcp_http_open(&options, &g->mcp_http, err);
}

#define LASTS_MS 1000 /* a run that goes on for so long gives its turn on */
#define LASTING  4u   /* so many times as many as have a turn may have done so */

static void apply(struct serve *s, const struct serve_settings *c)
{
    unsigned most = gate_most(c->concurrency);

    gate_set(&s->gate, most, (unsigned)c->queue, c->queue_timeout);
    /* A number that the operator named is kept to. */
    gate_last(&s->gate, c->concurrency ? 0 : LASTING * most, LASTS_MS);
    door_set(s, c);
    history_set(&s->history, (size_t)c->history, (size_t)c->history_output);
    vial_budget_set(s->budget, (uint64_t)c->output_memory, (uint64_t)c->output_disk);
    s->log.form = c->log;
}

static void tell_used(void *context, const char *owner, double cpu_ms)
{
    struct serve *s = context;
    struct caller *caller = gate_known(&s->gate, owner);

    if (caller)
        gate_used(&s->gate, caller, cpu_ms);
}

static int open_registry(struct serve *s, struct vial_error *err)
{
    const struct serve_settings *c = &s->now->settings->serve;
    const struct registry_options options = {
        .engine = s->now->engine,
        .sessions = (unsigned)c->sessions,
        .per_owner = (unsigned)c->caller_sessions,
        .shared = true,
        .used = tell_used,
        .context = s,
        .kept_bytes = (uint64_t)c->session_output,
    };

    return registry_open(&options, &s->registry, err);
}

static bool owner_of_key(void *context, const char *key, struct e2b_owner *out)
{
    struct serve *s = context;
    struct generation *gen = serve_use(s);
    struct identity who;
    bool known = auth_key(&gen->auth, key, &who);

    serve_unuse(s, gen);
    if (!known)
        return false;
    *out = (struct e2b_owner){ .quota = who.quota,
                               .sessions = (who.scopes & SCOPE_SESSION) != 0,
                               .images = (who.scopes & SCOPE_IMAGE) != 0 };
    memcpy(out->name, who.name, sizeof(out->name));
    (void)snprintf(out->part, sizeof(out->part), "%s", auth_token_name(&who));
    return true;
}

static int open_e2b(struct serve *s, struct vial_error *err)
{
    const struct e2b_options options = { .registry = s->registry,
                                         .gate = &s->gate,
                                         .owner = owner_of_key,
                                         .context = s,
                                         .node = s->node };

    return e2b_open(&options, &s->e2b, err);
}

static void not_recorded(void *context, const struct vial_error *err)
{
    struct serve *s = context;

    log_line(&s->log, "error", "audit", json_pack("{s:o}", "error", error_json(err)));
}

/* Without its log the daemon runs nothing, but answers: so it can say what is wrong. */
static void record_refusals(struct serve *s, const struct generation *g)
{
    const struct auditing *a = &g->settings->audit;
    const struct audit_options options = {
        .path = a->usual ? NULL : a->path,
        .rotate_bytes = (uint64_t)a->rotate,
        .keep_files = (unsigned)a->keep,
        .lazy = a->lazy,
    };
    struct vial_error err = { 0 };

    if (refusals_use(&s->refusals, &options, &err) < 0)
        not_recorded(s, &err);
}

static void swept(void *context, const char *driver, unsigned removed,
                  const struct vial_error *err)
{
    struct serve *s = context;

    metrics_swept(&s->metrics, driver, removed);
    if (err)
        log_line(&s->log, "warn", "cleanup",
                 json_pack("{s:s, s:o}", "driver", driver, "error", error_json(err)));
    else
        log_line(&s->log, "info", "cleanup",
                 json_pack("{s:s, s:i}", "driver", driver, "removed", (int)removed));
}

int serve_load(struct serve *s, const struct serve_sources *sources,
               struct vial_error *err)
{
    *s = (struct serve){ .sources = *sources,
                         .started_ns = clock_now_ns(),
                         .last_call_ns = clock_now_ns(),
                         .started_s = (int64_t)time(NULL),
                         .budget = vial_budget_new(0, 0) };
    if (!s->budget || pthread_mutex_init(&s->lock, NULL) != 0 ||
        keys_init(&s->keys) < 0 || metrics_init(&s->metrics) < 0 ||
        recent_init(&s->recent) < 0 || batches_init(&s->batches) < 0 ||
        compiled_cache_init(&s->compiled) < 0 ||
        refusals_init(&s->refusals, not_recorded, s) < 0)
        return fail_memory(err);
    if (gate_init(&s->gate, err) < 0 || history_init(&s->history, err) < 0 ||
        generation_new(sources, &s->now, err) < 0)
        return -1;
    (void)snprintf(s->node, sizeof(s->node), "%s",
                   serve_settings_node(&s->now->settings->serve));
    file_watch_begin(&s->watch, &s->now->settings->serve);
    sessions_at_load(s);
    apply(s, &s->now->settings->serve);
    return 0;
}

int serve_open(struct serve *s, struct vial_error *err)
{
    if (sys_random(s->port_key, sizeof(s->port_key)) < 0)
        return fail(err, VIAL_E_INTERNAL, "the kernel gives no random bytes");
    if (open_engine(s, s->now, err) < 0 || open_registry(s, err) < 0 ||
        open_mcp(s, s->now, err) < 0 || open_e2b(s, err) < 0 ||
        wires_open(s->now->settings->share_dir, &s->wires, err) < 0)
        return -1;
    if (health_open(s) < 0)
        return fail_memory(err);
    record_refusals(s, s->now);
    return vial_sweeper_open(s->now->engine, 0, swept, s, &s->sweeper, err);
}

static void close_mcp(struct serve *s)
{
    for (struct generation *g = s->now; g; g = g->next) {
        mcp_http_close(g->mcp_http);
        mcp_vial_close(g->mcp);
        g->mcp_http = NULL;
        g->mcp = NULL;
    }
}

void serve_done(struct serve *s)
{
    health_close(s);
    vial_sweeper_close(s->sweeper);
    close_mcp(s);
    wires_close(s->wires);
    compiled_cache_done(&s->compiled);
    callbacks_stop(&s->callbacks);
    e2b_close(s->e2b);
    registry_close(s->registry);
    while (s->now) {
        struct generation *next = s->now->next;

        generation_free(s->now);
        s->now = next;
    }
    refusals_done(&s->refusals);
    history_done(&s->history);
    gate_done(&s->gate);
    recent_done(&s->recent);
    batches_done(&s->batches);
    metrics_done(&s->metrics);
    keys_done(&s->keys);
    vial_budget_free(s->budget);
    (void)pthread_mutex_destroy(&s->lock);
}

/* Sessions keep the engine they were opened with, so older generations can go only
 * when there are none. Closing an engine takes a while, and nobody waits for it. */
static void forget_old(struct serve *s)
{
    size_t sessions = registry_reports(s->registry, NULL, false, NULL);
    struct generation *old = NULL;
    struct generation **at;

    (void)pthread_mutex_lock(&s->lock);
    at = &s->now->next;
    while (*at && sessions == 0) {
        struct generation *g = *at;

        if (g->users > 0) {
            at = &g->next;
            continue;
        }
        *at = g->next;
        g->next = old;
        old = g;
    }
    (void)pthread_mutex_unlock(&s->lock);
    while (old) {
        struct generation *next = old->next;

        generation_free(old);
        old = next;
    }
}

/* The front holds itself to the new policy at once; who could change the keeper's
 * could do away with it. */
static void tell_policy(const struct serve *s, const struct generation *old,
                        const struct generation *fresh)
{
    auto_json json_t *before = policy_json(&old->settings->policy);
    auto_json json_t *after = policy_json(&fresh->settings->policy);

    if (s->sources.kept && !json_equal(before, after))
        log_line(&s->log, "warn", "policy",
                 json_pack("{s:s}", "note",
                           "the keeper holds to the policy of its start as well; "
                           "restart the daemon to allow more"));
}

/* What the daemon has looked at only once, when it started. */
static void tell_unheeded(const struct serve *s, const struct generation *old,
                          const struct generation *fresh)
{
    static const char *const names[] = {
        "listen",          "user",  "keeper", "callbacks",      "sessions",
        "caller_sessions", "agent", "node",   "session_output", "sessions_at",
        "sessions_for"
    };
    auto_json json_t *before = block_json(&block_serve, &old->settings->serve);
    auto_json json_t *after = block_json(&block_serve, &fresh->settings->serve);
    auto_str struct str changed = { 0 };

    for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
        if (!json_equal(json_object_get(before, names[i]),
                        json_object_get(after, names[i])))
            str_printf(&changed, "%s%s", changed.len ? " " : "", names[i]);
    if (changed.len && str_ok(&changed))
        log_line(&s->log, "warn", "settings",
                 json_pack("{s:s, s:s}", "changed", changed.data, "note",
                           "these hold from the daemon's next start on; restart it"));
}

int serve_reload(struct serve *s, struct vial_error *err)
{
    auto_generation struct generation *fresh = NULL;
    struct vial_sweeper *sweeper = NULL;
    struct generation *g;
    struct generation *old;

    if (generation_new(&s->sources, &fresh, err) < 0 || !fresh ||
        open_engine(s, fresh, err) < 0 || open_mcp(s, fresh, err) < 0 ||
        vial_sweeper_open(fresh->engine, 0, swept, s, &sweeper, err) < 0)
        return -1;
    g = ptr_take(&fresh);
    tell_policy(s, s->now, g);
    tell_unheeded(s, s->now, g);
    record_refusals(s, g);
    vial_sweeper_close(s->sweeper);
    s->sweeper = sweeper;
    /* First: whoever uses an older generation may open sessions with this one, but
     * not the other way round. */
    registry_use(s->registry, g->engine);
    (void)pthread_mutex_lock(&s->lock);
    old = s->now;
    g->next = old;
    g->number = old->number + 1;
    s->now = g;
    (void)pthread_mutex_unlock(&s->lock);
    apply(s, &g->settings->serve);
    (void)pthread_mutex_lock(&s->lock);
    old->users--;
    (void)pthread_mutex_unlock(&s->lock);
    forget_old(s);
    return 0;
}

struct generation *serve_use(struct serve *s)
{
    struct generation *g;

    (void)pthread_mutex_lock(&s->lock);
    g = s->now;
    g->users++;
    (void)pthread_mutex_unlock(&s->lock);
    return g;
}

bool serve_e2b(struct serve *s, const struct web_request *req)
{
    struct generation *g;
    bool on;

    if (!e2b_concerns(req))
        return false;
    g = serve_use(s);
    on = g->settings->serve.e2b == 1;
    serve_unuse(s, g);
    return on;
}

void serve_unuse(struct serve *s, struct generation *g)
{
    (void)pthread_mutex_lock(&s->lock);
    g->users--;
    (void)pthread_mutex_unlock(&s->lock);
}
