/* SPDX-License-Identifier: Apache-2.0 */
#include "e2b/control.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/fail.h"
#include "e2b/lease.h"

#define CLIENT_ID   "vial"
#define REFRESH_MAX 3600

int64_t control_now_ms(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

void control_stamp(int64_t ms, char out[CONTROL_STAMP])
{
    time_t seconds = (time_t)(ms / 1000);
    struct tm parts;
    char text[24];

    (void)gmtime_r(&seconds, &parts);
    (void)strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%S", &parts);
    (void)snprintf(out, CONTROL_STAMP, "%s.%03dZ", text, (int)(ms % 1000));
}

int control_seconds(json_t *value, int64_t least, int64_t *out, struct vial_error *err)
{
    int64_t seconds = json_integer_value(value);

    if (!json_is_integer(value))
        return fail(err, VIAL_E_VALUE, "'timeout' is not a whole number of seconds");
    if (seconds < least)
        return fail(err, VIAL_E_VALUE, "Timeout must be greater than 0");
    if (seconds > BOX_MOST_S)
        return fail(err, VIAL_E_VALUE, "Timeout cannot be greater than %d hours",
                    BOX_MOST_S / 3600);
    *out = seconds;
    return 0;
}

const char *control_domain(const struct ask *a)
{
    const char *domain = a->turn->settings->serve.e2b_domain;

    return domain && *domain ? domain : NULL;
}

json_t *control_sandbox(const struct ask *a, const struct box *box)
{
    return json_pack(
        "{s:s, s:s, s:s, s:s, s:s*, s:s*, s:s?}", "templateID", box->template_name,
        "sandboxID", box->id, "clientID", CLIENT_ID, "envdVersion", CONTROL_ENVD,
        "envdAccessToken", box->token[0] ? box->token : NULL, "trafficAccessToken",
        box->traffic[0] ? box->traffic : NULL, "domain", control_domain(a));
}

json_t *control_listed(const struct box *box)
{
    int64_t paused_ms = atomic_load(&box->paused_ms);
    char started[CONTROL_STAMP];
    char ends[CONTROL_STAMP];

    control_stamp(box->started_ms, started);
    control_stamp(paused_ms ? paused_ms : atomic_load(&box->ends_ms), ends);
    return json_pack(
        "{s:s, s:s, s:s, s:s, s:s, s:I, s:I, s:I, s:s, s:s, s:s, s:O, s:O*}",
        "templateID", box->template_name, "alias", box->template_name, "sandboxID",
        box->id, "clientID", CLIENT_ID, "startedAt", started, "cpuCount",
        (json_int_t)((box->cpus_milli + 999) / 1000), "memoryMB",
        (json_int_t)(box->memory_bytes >> 20), "diskSizeMB",
        (json_int_t)(box->disk_bytes >> 20), "state", paused_ms ? "paused" : "running",
        "envdVersion", CONTROL_ENVD, "endAt", ends, "metadata", box->metadata,
        "volumeMounts", box->mounts);
}

json_t *control_detail(const struct ask *a, struct box *box)
{
    auto_control_egress struct control_egress egress = control_egress(box);
    json_t *json = control_listed(box);
    json_t *more =
        json_pack("{s:s*, s:s?, s:b, s:{s:s, s:b}}", "envdAccessToken",
                  box->token[0] ? box->token : NULL, "domain", control_domain(a),
                  "allowInternetAccess", egress.online, "lifecycle", "onTimeout",
                  box->auto_pause ? "pause" : "kill", "autoResume", box->auto_resume);

    if (more && egress.network)
        (void)json_object_set(more, "network", egress.network);
    if (!json || !more || json_object_update(json, more) < 0) {
        json_decref(json);
        json = NULL;
    }
    json_decref(more);
    return json;
}

struct box *control_own(struct ask *a)
{
    struct box *box = boxes_find(a->e2b, a->arg);

    if (box && strcmp(box->owner, a->owner.name) != 0) {
        box_release(box);
        box = NULL;
    }
    if (box)
        (void)snprintf(a->turn->sandbox, sizeof(a->turn->sandbox), "%s", box->id);
    else
        ask_refuse(a, 404, "sandbox '%.64s' not found", a->arg);
    return box;
}

static void get(struct ask *a)
{
    auto_box struct box *box = control_own(a);

    if (box)
        ask_json(a, 200, control_detail(a, box));
}

static void kill_box(struct ask *a)
{
    auto_box struct box *box = control_own(a);

    if (!box)
        return;
    if (boxes_remove(a->e2b, box))
        ask_done(a);
    else
        ask_refuse(a, 404, "sandbox '%s' not found", box->id);
}

static void set_timeout(struct ask *a)
{
    auto_box struct box *box = control_own(a);
    auto_json json_t *body = NULL;
    struct vial_error err = { 0 };
    int64_t seconds = 0;

    if (!box)
        return;
    if (ask_body(a, &body, &err) < 0 ||
        control_seconds(json_object_get(body, "timeout"), 0, &seconds, &err) < 0 ||
        (seconds > 0 && lease_renew(box, seconds, false, &err) < 0)) {
        ask_error(a, &err);
        return;
    }
    if (seconds == 0)
        (void)boxes_remove(a->e2b, box);
    ask_done(a);
}

static void refresh(struct ask *a)
{
    auto_box struct box *box = control_own(a);
    auto_json json_t *body = NULL;
    struct vial_error err = { 0 };
    int64_t seconds = 60;
    json_t *given;

    if (!box)
        return;
    if (ask_body(a, &body, &err) == 0 && (given = json_object_get(body, "duration")) &&
        !json_is_null(given))
        (void)!control_seconds(given, 0, &seconds, &err);
    if (!err.code[0] && seconds > REFRESH_MAX)
        (void)fail(&err, VIAL_E_VALUE, "'duration' is more than %d", REFRESH_MAX);
    if (err.code[0] || lease_renew(box, seconds, true, &err) < 0)
        ask_error(a, &err);
    else
        ask_done(a);
}

static int read_connect(struct ask *a, int64_t *seconds, struct vial_error *err)
{
    auto_json json_t *body = NULL;
    json_t *timeout;

    if (ask_body(a, &body, err) < 0)
        return -1;
    timeout = json_object_get(body, "timeout");
    *seconds = 0;
    return !timeout || json_is_null(timeout)
               ? 0
               : control_seconds(timeout, 1, seconds, err);
}

/* AWAKE is what one that runs gets. */
static void answer_awake(struct ask *a, unsigned awake)
{
    auto_box struct box *box = control_own(a);
    struct vial_error err = { 0 };
    int64_t seconds;
    bool paused;
    int rc;

    if (!box)
        return;
    paused = atomic_load(&box->paused_ms) != 0;
    if (!paused && awake != 200) {
        ask_refuse(a, awake, "sandbox '%s' is running", box->id);
        return;
    }
    rc = read_connect(a, &seconds, &err);
    if (rc == 0 && !paused && seconds)
        rc = lease_renew(box, seconds, true, &err);
    /* Its lease may just have ended. */
    paused = paused || atomic_load(&box->paused_ms) != 0;
    if (rc == 0 && paused)
        rc = lease_wake(box, seconds, &err);
    if (rc < 0)
        ask_error(a, &err);
    else
        ask_json(a, paused ? 201 : 200, control_sandbox(a, box));
}

static void connect_box(struct ask *a)
{
    answer_awake(a, 200);
}

static void resume(struct ask *a)
{
    answer_awake(a, 409);
}

/* Its memory stays where it is: a paused sandbox lives as long as the server does. */
static void pause_box(struct ask *a)
{
    auto_box struct box *box = control_own(a);
    auto_json json_t *body = NULL;
    struct vial_error err = { 0 };

    if (!box)
        return;
    if (atomic_load(&box->paused_ms)) {
        ask_refuse(a, 409, "sandbox '%s' is already paused", box->id);
        return;
    }
    if (ask_body(a, &body, &err) == 0 && json_is_false(json_object_get(body, "memory")))
        (void)fail(&err, VIAL_E_UNSUPPORTED,
                   "'memory: false' is not supported by this server");
    if (err.code[0] || lease_pause(box, &err) < 0)
        ask_error(a, &err);
    else
        ask_done(a);
}

static void logs(struct ask *a)
{
    auto_box struct box *box = control_own(a);

    if (box)
        ask_json(a, 200, json_pack("{s:[], s:[]}", "logs", "logEntries"));
}

static void no_templates(struct ask *a)
{
    ask_refuse(a, 501,
               "this call for templates is not supported by this server; build them "
               "by Template.build");
}

static void no_secrets(struct ask *a)
{
    ask_refuse(a, 501,
               "secrets are not supported by this server; "
               "pass them as 'envs' to the commands that need them");
}

static void unknown(struct ask *a)
{
    ask_refuse(a, 501, "this call is not supported by this server");
}

/* The first that fits. */
static const struct {
    const char *method, *path;
    ask_handler *handler;
} routes[] = {
    { "POST", "/v2/sandboxes", control_create },
    { "POST", "/sandboxes", control_create },
    { "GET", "/v2/sandboxes", control_list },
    { "GET", "/sandboxes", control_list },
    { "GET", "/sandboxes/metrics", control_all_metrics },
    { "GET", "/sandboxes/{}", get },
    { "DELETE", "/sandboxes/{}", kill_box },
    { "POST", "/v2/sandboxes/{}/connect", connect_box },
    { "POST", "/sandboxes/{}/connect", connect_box },
    { "POST", "/sandboxes/{}/timeout", set_timeout },
    { "POST", "/sandboxes/{}/refreshes", refresh },
    { "POST", "/sandboxes/{}/resume", resume },
    { "POST", "/sandboxes/{}/pause", pause_box },
    { "POST", "/sandboxes/{}/fork", control_fork },
    { "PUT", "/sandboxes/{}/network", control_update_network },
    { "POST", "/sandboxes/{}/snapshots", control_snapshot },
    { "GET", "/snapshots", control_snapshots },
    { "GET", "/sandboxes/{}/metrics", control_metrics },
    { "GET", "/sandboxes/{}/logs", logs },
    { "GET", "/v2/sandboxes/{}/logs", logs },
    { "GET", "/templates/aliases/{}", control_template_alias },
    { "POST", "/templates/tags", control_tags_assign },
    { "DELETE", "/templates/tags", control_tags_remove },
    { "DELETE", "/templates/{}", control_template_delete },
    { "POST", "/v3/templates", control_build_request },
    { "POST", "/v2/templates", control_build_request },
    { "GET", "/templates", control_templates },
    { "GET", "/v2/templates", control_templates },
    { "GET", "/templates/{}/tags", control_template_tags },
    { "GET", "/templates/{}/files/{}", control_build_files },
    { "POST", "/v2/templates/{}/builds/{}", control_build_start },
    { "GET", "/templates/{}/builds/{}/status", control_build_status },
    { "POST", "/volumes", control_volume_create },
    { "GET", "/volumes", control_volumes },
    { "GET", "/volumes/{}", control_volume_get },
    { "DELETE", "/volumes/{}", control_volume_delete },
};

static ask_handler *missing(const char *path)
{
    static const struct {
        const char *root;
        ask_handler *handler;
    } roots[] = {
        { "/templates", no_templates },
        { "/v2/templates", no_templates },
        { "/v3/templates", no_templates },
        { "/secrets", no_secrets },
    };

    for (size_t i = 0; i < sizeof(roots) / sizeof(roots[0]); i++)
        if (strncmp(path, roots[i].root, strlen(roots[i].root)) == 0)
            return roots[i].handler;
    return unknown;
}

void control_handle(struct ask *a)
{
    char args[2][ASK_ARG];

    /* A client that only creates would leave all of its ended ones behind. */
    boxes_forget_ended(a->e2b);
    for (size_t i = 0; i < sizeof(routes) / sizeof(routes[0]); i++)
        if (strcmp(web_method(a->web), routes[i].method) == 0 &&
            ask_matches(a, routes[i].path, args)) {
            routes[i].handler(a);
            return;
        }
    missing(a->path)(a);
}
