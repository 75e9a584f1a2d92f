/* SPDX-License-Identifier: Apache-2.0 */

/* A sandbox is opened. Each member of the body is done or refused by its name. */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/fail.h"
#include "base/str.h"
#include "e2b/control.h"
#include "e2b/control_network.h"
#include "e2b/lease.h"
#include "e2b/notebook.h"
#include "model/plan.h"
#include "model/value.h"

#include "vial/request.h"

typedef int reader(struct wish *w, const char *name, json_t *value,
                   struct vial_error *err);

static int refuse(const char *name, struct vial_error *err)
{
    return fail(err, VIAL_E_UNSUPPORTED, "'%s' is not supported by this server", name);
}

static int wrong(const char *name, const char *what, struct vial_error *err)
{
    return fail(err, VIAL_E_VALUE, "'%s' is not %s", name, what);
}

static int read_template(struct wish *w, const char *name, json_t *value,
                         struct vial_error *err)
{
    w->template_name = value_string(value);
    return w->template_name ? 0 : wrong(name, "a text", err);
}

static int read_timeout(struct wish *w, const char *name, json_t *value,
                        struct vial_error *err)
{
    (void)name;
    return control_seconds(value, 1, &w->seconds, err);
}

static int read_metadata(struct wish *w, const char *name, json_t *value,
                         struct vial_error *err)
{
    w->metadata = value;
    return ask_check_words(name, value, err);
}

static int read_env(struct wish *w, const char *name, json_t *value,
                    struct vial_error *err)
{
    w->env = value;
    return ask_check_words(name, value, err);
}

static int read_secure(struct wish *w, const char *name, json_t *value,
                       struct vial_error *err)
{
    if (!json_is_boolean(value))
        return wrong(name, "true or false", err);
    w->open = json_is_false(value);
    return 0;
}

static int read_internet(struct wish *w, const char *name, json_t *value,
                         struct vial_error *err)
{
    (void)name;
    return network_read_internet(&w->network, value, err);
}

static bool is_empty(const json_t *value)
{
    return (json_is_array(value) && json_array_size(value) == 0) ||
           (json_is_object(value) && json_object_size(value) == 0) ||
           json_is_false(value) || json_is_null(value);
}

/* What it asks for is not there; only its absence, in all forms, is. */
static int read_missing(struct wish *w, const char *name, json_t *value,
                        struct vial_error *err)
{
    (void)w;
    return is_empty(value) ? 0 : refuse(name, err);
}

static int read_memory(struct wish *w, const char *name, json_t *value,
                       struct vial_error *err)
{
    (void)w;
    return json_is_true(value) ? 0 : refuse(name, err);
}

static int read_pause(struct wish *w, const char *name, json_t *value,
                      struct vial_error *err)
{
    w->auto_pause = json_is_true(value);
    return json_is_boolean(value) ? 0 : wrong(name, "true or false", err);
}

static int read_resume(struct wish *w, const char *name, json_t *value,
                       struct vial_error *err)
{
    json_t *enabled = json_object_get(value, "enabled");

    w->auto_resume = json_is_true(enabled);
    return json_is_boolean(enabled) ? 0
                                    : wrong(name, "{\"enabled\": true or false}", err);
}

static int read_network(struct wish *w, const char *name, json_t *value,
                        struct vial_error *err)
{
    (void)name;
    return network_read(&w->network, value, err);
}

static int read_mounts(struct wish *w, const char *name, json_t *value,
                       struct vial_error *err)
{
    w->mounts = value;
    return json_is_array(value) ? 0 : wrong(name, "a list", err);
}

static const struct {
    const char *name;
    reader *read;
} members[] = {
    { "templateID", read_template },
    { "timeout", read_timeout },
    { "metadata", read_metadata },
    { "envVars", read_env },
    { "secure", read_secure },
    { "allow_internet_access", read_internet },
    { "network", read_network },
    { "autoPause", read_pause },
    { "autoPauseMemory", read_memory },
    { "autoResume", read_resume },
    { "volumeMounts", read_mounts },
    { "mcp", read_missing },
    { "iam", read_missing },
};

static int read_member(struct wish *w, const char *name, json_t *value,
                       struct vial_error *err)
{
    struct shown shown = value_show(name, strlen(name));

    if (json_is_null(value))
        return 0;
    for (size_t i = 0; i < sizeof(members) / sizeof(members[0]); i++)
        if (strcmp(members[i].name, name) == 0)
            return members[i].read(w, name, value, err);
    return refuse(shown.text, err);
}

static int read_wish(json_t *body, struct wish *w, struct vial_error *err)
{
    const char *name;
    json_t *value;

    *w = (struct wish){ .seconds = CONTROL_USUAL_S };
    json_object_foreach(body, name,
                        value) if (read_member(w, name, value, err) < 0) return -1;
    if (!w->template_name)
        return wrong("templateID", "given", err);
    return network_check(&w->network, err);
}

static json_t *env_of(const struct box *box, const struct wish *w)
{
    json_t *env =
        json_pack("{s:s, s:s, s:s, s:s, s:s, s:s}", "HOME", BOX_HOME, "USER", BOX_USER,
                  "LOGNAME", BOX_USER, "E2B_SANDBOX", "true", "E2B_SANDBOX_ID", box->id,
                  "E2B_TEMPLATE_ID", w->template_name);

    if (env && w->env && json_object_update(env, w->env) < 0) {
        json_decref(env);
        return NULL;
    }
    return env;
}

/* The client has no word for it: the operator's defaults have. */
static bool has_root(const struct settings *settings, const struct wish *w)
{
    char sudo[32];

    request_choice(&settings->defaults, FIELD_ID_sudo, sudo);
    return *w->image && strcmp(sudo, "nopasswd") == 0;
}

bool control_may_write(const struct settings *settings)
{
    const struct vial_request *d = &settings->defaults;
    bool said = request_has(d, root_mode) && !((d->builtin >> FIELD_ID_root_mode) & 1u);

    return !said && !strv_has(&settings->policy.require, "ro_root") &&
           policy_check_list(&settings->policy, POLICY_ID_privileges, "privilege", "rw",
                             NULL) == 0;
}

/* E2B's sandboxes can be written to everywhere, and be saved. */
static void ask_for_image(const struct settings *settings, const struct wish *w,
                          json_t *json)
{
    (void)json_object_set_new(json, "image", json_string(w->image));
    if (control_may_write(settings))
        (void)json_object_set_new(json, "root_mode", json_string("rw"));
    if (w->saved)
        (void)json_object_set_new(json, "pull", json_string("never"));
    if (w->milli_cpus)
        (void)json_object_set_new(json, "cpus",
                                  json_real((double)w->milli_cpus / 1000));
    if (w->memory_mb)
        (void)json_object_set_new(json, "memory",
                                  json_sprintf("%lldm", (long long)w->memory_mb));
}

/* The caller's words go into texts alone; all else is the operator's. */
static int make_request(const struct settings *settings, struct box *box,
                        const struct wish *w, struct vial_request **out,
                        struct vial_error *err)
{
    int64_t most_ms = settings->policy.max_timeout;
    auto_json json_t *json = NULL;
    auto_free char *text = NULL;
    auto_network_rules struct network_rules rules = { 0 };
    char timeout[32];

    if (most_ms > (int64_t)BOX_MOST_S * 1000)
        most_ms = (int64_t)BOX_MOST_S * 1000;
    (void)snprintf(timeout, sizeof(timeout), "%lldms", (long long)most_ms);
    box->most_ms = most_ms;
    box->env = env_of(box, w);
    json = json_pack("{s:s, s:s, s:O}", "workdir", BOX_HOME, "timeout", timeout, "env",
                     box->env);
    if (json && *w->image)
        ask_for_image(settings, w, json);
    if (json && json_array_size(w->volumes) > 0)
        (void)json_object_set(json, "volumes", w->volumes);
    if (json && (network_rules(&w->network, settings, &rules, err) < 0 ||
                 network_ask(&rules, settings, json, err) < 0))
        return -1;
    box->gated = rules.gated;
    box->online = rules.online;
    box->denied = json_incref(rules.deny);
    text = json ? json_dumps(json, JSON_COMPACT) : NULL;
    if (!text)
        return fail_memory(err);
    return vial_request_parse(text, strlen(text), out, err);
}

static int fill(struct ask *a, struct box *box, const struct wish *w,
                struct vial_error *err)
{
    const struct vial_request *d = &a->turn->settings->defaults;

    (void)snprintf(box->owner, sizeof(box->owner), "%s", a->owner.name);
    box->caller = a->caller;
    box->template_name = strdup(w->template_name);
    box->metadata = w->metadata ? json_incref(w->metadata) : json_object();
    box->network = w->network.given ? json_deep_copy(w->network.given) : NULL;
    box->asked_env = json_incref(w->env);
    box->mounts = json_incref(w->mounts);
    box->closed = w->network.closed;
    box->lease_s = w->seconds;
    box->auto_pause = w->auto_pause;
    box->auto_resume = w->auto_resume;
    box->has_image = *w->image != '\0';
    box->has_root = has_root(a->turn->settings, w);
    box->cpus_milli = w->milli_cpus ? w->milli_cpus : d->cpus;
    box->memory_bytes = w->memory_mb ? w->memory_mb << 20 : d->memory;
    box->disk_bytes = d->disk;
    if (w->open)
        box->token[0] = '\0';
    if (!w->network.guarded)
        box->traffic[0] = '\0';
    return box->template_name && box->metadata && notebooks_begin(box) == 0
               ? 0
               : fail_memory(err);
}

static void release_request(struct vial_request **req)
{
    vial_request_free(*req);
}

static int open_session(struct ask *a, struct box *box, const struct wish *w,
                        struct vial_error *err)
{
    __attribute__((cleanup(release_request))) struct vial_request *req = NULL;
    const struct vial_watch watch = { .cancel_fd = web_gone_fd(a->web),
                                      .stdin_fd = -1,
                                      .caller = a->owner.name,
                                      .local_images =
                                          !a->owner.images || w->saved || w->fork };
    const struct vial_session_options options = {
        .idle_ms = (int64_t)BOX_MOST_S * 1000,
        .lease_ms = w->auto_pause ? (int64_t)BOX_MOST_S * 1000 : w->seconds * 1000,
        .caller = a->owner.name,
        .correlation = a->turn->correlation,
        .watch = &watch,
    };
    struct gate *gate = a->e2b->options.gate;
    struct gate_pass pass = { 0 };
    int rc;

    if (make_request(a->turn->settings, box, w, &req, err) < 0)
        return -1;
    /* Opening a vessel is work like a run, and waits for its turn like one. */
    rc = gate_enter(gate, a->caller, web_gone_fd(a->web), &pass, err);
    a->retry_s = pass.retry_s;
    if (rc < 0)
        return -1;
    rc = registry_start(a->e2b->options.registry, a->owner.name, req, &options,
                        &box->held, err);
    gate_leave(gate, &pass, 0);
    if (rc < 0)
        return -1;
    (void)snprintf(box->session, sizeof(box->session), "%s", box->held->id);
    box->started_ms = control_now_ms();
    atomic_store(&box->ends_ms, box->started_ms + w->seconds * 1000);
    return 0;
}

struct box *control_open_apart(struct ask *a, const struct wish *w,
                               struct vial_error *err)
{
    auto_box struct box *box = box_new(a->e2b);
    struct box *made = box;

    if (!box) {
        (void)fail_memory(err);
        return NULL;
    }
    if (fill(a, box, w, err) < 0 || open_session(a, box, w, err) < 0)
        return NULL;
    box = NULL;
    return made;
}

void control_close_apart(struct box *box)
{
    struct vial_error ignored;

    (void)registry_stop(box->e2b->options.registry, box->owner, box->session, &ignored);
    box_release(box);
}

struct box *control_open(struct ask *a, const struct wish *w, struct vial_error *err)
{
    auto_box struct box *box = control_open_apart(a, w, err);
    struct box *made = box;

    if (!box)
        return NULL;
    boxes_add(a->e2b, box);
    if (box->auto_pause && leases_watch(box->e2b, err) < 0) {
        (void)boxes_remove(a->e2b, box);
        return NULL;
    }
    box = NULL;
    return made;
}

/* The operator's names come first: nobody's own takes their place. */
int control_find_template(struct ask *a, struct wish *w, struct saved_list *saved,
                          struct vial_error *err)
{
    if (template_find(a->turn->settings, w->template_name, &w->image))
        return 0;
    if (saved_read(a->turn->engine, a->owner.name, saved, err) < 0)
        return -1;
    w->saved = saved_find(saved, w->template_name);
    if (!w->saved)
        return fail(err, VIAL_E_IMAGE, "template '%.128s' not found", w->template_name);
    w->image = w->saved->image;
    w->milli_cpus = w->saved->milli_cpus;
    w->memory_mb = w->saved->memory_mb;
    return 0;
}

void control_create(struct ask *a)
{
    auto_json json_t *body = NULL;
    auto_box struct box *box = NULL;
    auto_json json_t *volumes = NULL;
    auto_saved_list struct saved_list saved = { 0 };
    struct vial_error err = { 0 };
    struct wish w;

    if (ask_body(a, &body, &err) == 0 && read_wish(body, &w, &err) == 0 &&
        control_find_template(a, &w, &saved, &err) == 0 &&
        control_mounts(a, &w, &volumes, &err) == 0)
        box = control_open(a, &w, &err);
    if (!box) {
        ask_error(a, &err);
        return;
    }
    (void)snprintf(a->turn->sandbox, sizeof(a->turn->sandbox), "%s", box->id);
    ask_json(a, 201, control_sandbox(a, box));
}
