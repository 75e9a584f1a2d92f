/* SPDX-License-Identifier: Apache-2.0 */
#include "serve/job.h"

#include <string.h>

#include "api/inside.h"
#include "base/auto.h"
#include "base/clock.h"
#include "base/fail.h"
#include "base/str.h"
#include "model/request.h"
#include "model/value.h"
#include "model/volume.h"

/* Paths of this host are for those who could use them anyway, unless the operator
 * has said which ones there are. */
static int check_paths(const struct call *c, const struct vial_request *req,
                       struct vial_error *err)
{
    static const enum field_id host_fields[] = { FIELD_ID_mounts, FIELD_ID_workspace,
                                                 FIELD_ID_rootfs, FIELD_ID_venv };
    const struct policy *policy = &c->gen->settings->policy;
    bool roots = (policy->set >> POLICY_ID_mount_roots) & 1u;

    if (c->who.local)
        return 0;
    for (size_t i = 0; i < sizeof(host_fields) / sizeof(host_fields[0]); i++) {
        enum field_id id = host_fields[i];

        if (!((req->set >> id) & 1u) || (roots && id != FIELD_ID_rootfs))
            continue;
        (void)fail(err, VIAL_E_POLICY, "'%s' names a path of the server's host",
                   fields[id].name);
        return fail_remedy(err, "the operator can allow some by the policy's "
                                "'mount_roots'; files can be sent along");
    }
    return 0;
}

int job_volumes_said(const struct call *c, struct vial_error *err)
{
    return c->who.local ? 0 : volume_check_said(&c->gen->settings->policy, err);
}

/* Of volumes the same: the policy says which, and knows some by who asks. */
static int check_volumes(const struct call *c, const struct vial_request *req,
                         struct vial_error *err)
{
    const struct policy *policy = &c->gen->settings->policy;
    const char *token = auth_token_name(&c->who);

    for (size_t i = 0; i < req->volumes.count; i++) {
        auto_volume_wish struct volume_wish wish = { 0 };

        if (volume_parse(req->volumes.items[i], &wish, err) < 0 ||
            volume_check_policy(policy, token, wish.name, wish.writable, err) < 0)
            return -1;
    }
    return req->volumes.count == 0 ? 0 : job_volumes_said(c, err);
}

/* A driver that isolates nothing makes a caller the daemon's user. */
static int check_driver(const struct call *c, const struct vial_request *req,
                        struct vial_error *err)
{
    const struct policy *policy = &c->gen->settings->policy;
    char driver[32];
    bool far;

    request_choice(req, FIELD_ID_driver, driver);
    far = inside_is_far(c->gen->engine, driver);
    if (c->who.local || (!far && strcmp(driver, "process") != 0) ||
        ((policy->set >> POLICY_ID_drivers) & 1u))
        return 0;
    (void)fail(err, VIAL_E_POLICY,
               far ? "the driver '%s' uses the operator's account"
                   : "the driver '%s' isolates nothing",
               driver);
    return fail_remedy(err, "the operator can allow it by the policy's 'drivers'");
}

int job_check(struct call *c, struct vial_request *req, struct vial_error *err)
{
    auto_strv struct strv named = { 0 };

    if (check_paths(c, req, err) < 0 || check_driver(c, req, err) < 0 ||
        check_volumes(c, req, err) < 0)
        return -1;
    /* A container that waited was made without labels: where the operator wants some to
     * wait, the log alone tells which of them a request had. */
    (void)serve_settings_warm(&c->gen->settings->serve, &named);
    if (((req->set >> FIELD_ID_session) & 1u) || named.count > 0)
        return 0;
    return vial_request_set(req, "session", c->id, err);
}

int job_request(struct call *c, const char *json, size_t len, struct vial_request **out,
                struct vial_error *err)
{
    auto_vial_request struct vial_request *req = NULL;

    if (vial_request_parse(json, len, &req, err) < 0 || job_check(c, req, err) < 0)
        return -1;
    *out = ptr_take(&req);
    return 0;
}

int job_decode(struct call *c, json_t *object, struct vial_request **out,
               struct vial_error *err)
{
    auto_vial_request struct vial_request *req = NULL;

    if (vial_request_new(&req, err) < 0 ||
        request_decode(req, object, 0, "request", err) < 0 ||
        job_check(c, req, err) < 0)
        return -1;
    *out = ptr_take(&req);
    return 0;
}

static const char *what(const struct vial_request *req)
{
    if (req->language)
        return req->language;
    return req->command.count ? req->command.items[0] : "";
}

static bool is_small(enum field_type type)
{
    return type != FIELD_TEXT && type != FIELD_LIST && type != FIELD_FILES &&
           type != FIELD_MAP && type != FIELD_MOUNTS;
}

/* The program's text, or the command's words; at most MOST bytes. */
static json_t *program(const struct vial_request *req, size_t most)
{
    auto_str struct str words = { 0 };

    if (req->code.data)
        return value_text_json(req->code.data,
                               req->code.len < most ? req->code.len : most);
    for (size_t i = 0; i < req->command.count && words.len < most; i++)
        str_printf(&words, "%s%.*s", i ? " " : "", (int)(most - words.len),
                   req->command.items[i]);
    return value_text_json(words.data ? words.data : "", words.len);
}

/* What a run's details show of its request: no input, files or variables, which may be
 * large or secret. */
static json_t *asked(const struct vial_request *req, size_t most)
{
    json_t *object = json_object();

    for (int id = 0; id < FIELD_ID__COUNT; id++)
        if (((req->set >> id) & 1u) && is_small(fields[id].type))
            (void)json_object_set_new(object, fields[id].name,
                                      request_field_json(req, (enum field_id)id));
    (void)json_object_set_new(object, "program", program(req, most));
    return object;
}

static int take_output(void *context, int stream, const void *data, size_t len)
{
    struct job *job = context;

    history_output(&job->call->serve->history, job->record, stream, data, len);
    return job->output(job->context, stream, data, len);
}

static bool has_room(void *context)
{
    const struct job *job = context;

    return job->room(job->context);
}

static int tell_pull(void *context, const char *layer, const char *status,
                     unsigned long long current, unsigned long long total)
{
    struct job *job = context;

    return job->pulling(job->context, layer, status, current, total);
}

static void tell(const struct log *log, const char *request, const char *caller,
                 const struct vial_result *r)
{
    json_t *told = json_pack("{s:s, s:s, s:s, s:s, s:s, s:f, s:f}", "request", request,
                             "run", r->id, "vessel", r->vessel_id, "caller", caller,
                             "verdict", vial_verdict_name(r->verdict), "ms",
                             r->duration_ms, "queue_ms", r->timing.queue_ms);

    if (told && r->vessel_id[0])
        (void)json_object_update_new(
            told,
            json_pack("{s:s, s:s, s:i, s:f, s:f, s:f}", "driver", r->driver, "start",
                      r->start, "exit_code", r->exit_code, "open_ms", r->timing.open_ms,
                      "run_ms", r->timing.run_ms, "close_ms", r->timing.close_ms));

    if (r->error.code[0])
        (void)json_object_set_new(told, "code", json_string(r->error.code));
    if (r->usage.throttled_ms > 0)
        (void)json_object_set_new(told, "throttled_ms",
                                  json_real(r->usage.throttled_ms));
    if (r->network_refused)
        (void)json_object_set_new(told, "network_refused",
                                  json_integer((json_int_t)r->network_refused));
    if (r->network)
        (void)json_object_update_new(
            told, json_pack("{s:I, s:I}", "gate_made", (json_int_t)r->network->made,
                            "gate_refused", (json_int_t)r->network->refused));
    if (r->limits_hit)
        (void)json_object_set_new(told, "limits_hit",
                                  json_integer((json_int_t)r->limits_hit));
    log_line(log,
             r->verdict == VIAL_FAILED   ? "error"
             : r->verdict == VIAL_DENIED ? "warn"
                                         : "info",
             "run", told);
}

void job_account(struct serve *s, const char *request, const char *caller,
                 struct record *record, const struct vial_result *result)
{
    history_end(&s->history, record, result);
    metrics_run(&s->metrics, result);
    recent_add(&s->recent, clock_now_ns() / 1000000, result->duration_ms);
    tell(&s->log, request, caller, result);
}

static void take_notice(void *context, const char *text)
{
    const struct job *job = context;

    job->notice(job->context, text);
}

int job_run(struct job *job, struct vial_result **out, unsigned *retry_s,
            struct vial_error *err)
{
    struct serve *s = job->call->serve;
    struct gate_pass pass = { 0 };
    struct vial_watch watch = {
        .cancel_fd = job->cancel_fd,
        .stdin_fd = job->piped ? job->stdin_fd : -1,
        .output = job->output ? take_output : NULL,
        .context = job,
        .room = job->room ? has_room : NULL,
        .room_fd = job->room_fd,
        .live_only = job->output != NULL,
        .caller = job->call->who.name,
        .correlation = job->call->id,
        .pulling = job->pulling ? tell_pull : NULL,
        .local_images = !(job->call->who.scopes & SCOPE_IMAGE),
        .notice = job->notice ? take_notice : NULL,
    };
    struct vial_result *r = NULL;
    int rc;

    if (!job->in_turn &&
        gate_enter_within(&s->gate, job->call->caller, job->cancel_fd,
                          job->patience_ms ? job->patience_ms : INT64_MAX, &pass,
                          err) < 0) {
        *retry_s = pass.retry_s;
        return -1;
    }
    job->record = history_begin(&s->history, job->call->id, job->call->who.name,
                                what(job->req), job->cancel_fd);
    history_asked(&s->history, job->record, asked(job->req, s->history.keep_bytes));
    watch.queued_ms = pass.queue_ms;
    rc = vial_run(job->call->gen->engine, job->req, &watch, &r, err);
    if (!job->in_turn)
        gate_leave(&s->gate, &pass,
                   rc == 0 ? r->usage.cpu_user_ms + r->usage.cpu_system_ms : 0);
    if (rc < 0) {
        struct vial_result none = { .verdict = VIAL_FAILED, .error = *err };

        history_end(&s->history, job->record, &none);
        return -1;
    }
    job_account(s, job->call->id, job->call->who.name, job->record, r);
    if (job->batch)
        batches_add(&s->batches, job->call->who.name, job->batch,
                    clock_now_ns() / 1000000, r->verdict);
    *out = r;
    return 0;
}

int job_batch(const struct call *c, const char **out, struct vial_error *err)
{
    *out = web_query(c->web, "batch");
    if (!*out || batches_is_name(*out))
        return 0;
    return fail(err, VIAL_E_VALUE,
                "'batch' is not a name of letters, digits, '.', '_' and '-'");
}

unsigned job_status(const struct vial_result *result)
{
    if (result->verdict != VIAL_DENIED)
        return 200;
    return call_status_of(&result->error);
}
