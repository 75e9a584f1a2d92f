/* SPDX-License-Identifier: Apache-2.0 */

/* What a preset's tools do. */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/fail.h"
#include "base/json.h"
#include "base/state.h"
#include "base/str.h"
#include "base/text.h"
#include "mcp/preset.h"
#include "mcp/tools.h"
#include "model/request.h"
#include "model/vessel_list.h"
#include "settings/project.h"

static int64_t limit_of(const struct preset_job *job, const struct vial_request *req)
{
    int64_t asked = request_amount(req, FIELD_ID_timeout);

    return asked ? asked : job->tool->world->timeout_ms;
}

static void tell_notice(void *context, const char *text)
{
    mcp_call_log(context, "warning", json_pack("{s:s?}", "message", text));
}

static int run(struct preset_job *job, bool keep, const struct vial_request *req,
               struct vial_result **out, struct vial_error *err)
{
    struct mcp_call *call = job->call;
    struct vial_watch watch = {
        .stdin_fd = -1, .output = tool_pass_on, .notice = tell_notice, .context = call
    };
    void *begun =
        mcp_run_begin(call, request_has(req, language) ? req->language : NULL, &watch);
    int rc = keep ? preset_run_kept(job, req, &watch, out, err)
                  : vial_run(call->engine, req, &watch, out, err);

    mcp_run_end(call, begun, rc == 0 ? *out : NULL);
    return rc;
}

static int do_run(struct preset_job *job, struct vial_error *err)
{
    bool keep = job->tool->world->settings->keep.alive &&
                json_is_true(json_object_get(job->tool->tool, "keep"));
    auto_ask struct vial_request *req = NULL;
    auto_result struct vial_result *result = NULL;
    int rc;

    if (preset_request(job, &req, err) < 0)
        return -1;
    rc = run(job, keep, req, &result, err);
    if (rc == 0)
        preset_tell_result(job, result, limit_of(job, req));
    return rc;
}

/* Sessions. */

static int open_session(struct preset_job *job, const struct vial_request *req,
                        struct registered **out, struct vial_error *err)
{
    struct mcp_call *call = job->call;
    const struct vial_watch watch = { .cancel_fd = call->cancel_fd,
                                      .stdin_fd = -1,
                                      .caller = call->owner[0] ? call->owner : NULL,
                                      .pulling = mcp_tell_pull,
                                      .context = call };
    const struct vial_session_options options = {
        .idle_ms = TOOL_IDLE_MS,
        .lease_ms = TOOL_LEASE_MS,
        .caller = call->owner[0] ? call->owner : NULL,
        .correlation = call->correlation,
        .watch = &watch,
    };

    return registry_start(call->registry, call->owner, req, &options, out, err);
}

static int set_timeout(struct vial_request *req, int64_t ms, struct vial_error *err)
{
    char text[32];

    (void)snprintf(text, sizeof text, "%lldms", (long long)ms);
    return vial_request_set(req, "timeout", text, err);
}

/* The session's name, which becomes the container's: each fault in its own words. */
static int check_name(const struct preset_job *job, struct vial_error *err)
{
    json_t *parameters = json_object_get(job->tool->tool, "parameters");
    size_t most = (size_t)fields[FIELD_ID_session].max;

    for (void *at = json_object_iter(parameters); at;
         at = json_object_iter_next(parameters, at)) {
        const char *name = json_object_iter_key(at);
        const json_t *value = json_object_get(job->call->arguments, name);

        if (!value ||
            !str_eq(preset_text(json_object_iter_value(at), "field"), "session"))
            continue;
        if (json_string_length(value) == 0)
            (void)fail(err, VIAL_E_VALUE, "'%s' is empty", name);
        else if (json_string_length(value) > most)
            (void)fail(err, VIAL_E_VALUE, "'%s' has %zu bytes, more than %zu", name,
                       json_string_length(value), most);
        else
            continue;
        return fail_remedy(err, "give a name of 1 to %zu bytes", most);
    }
    return 0;
}

static int do_open(struct preset_job *job, struct vial_error *err)
{
    struct vial_session_report now;
    auto_ask struct vial_request *req = NULL;
    struct registered *held = NULL;

    if (check_name(job, err) < 0 || preset_request(job, &req, err) < 0 ||
        /* a single program may ask for as much time as the policy allows */
        set_timeout(req, job->tool->world->max_timeout_ms, err) < 0 ||
        open_session(job, req, &held, err) < 0)
        return -1;
    vial_session_look(held->session, &now);
    preset_tell_stand_in(job, now.driver, now.wanted_driver);
    if (now.wanted_driver[0])
        tell_notice(job->call, preset_text(job->values, "warning"));
    preset_tell(job, "id", json_string(held->id));
    (void)json_object_set_new(job->flags, "id", json_true());
    registry_release(job->call->registry, held);
    return 0;
}

static int do_exec(struct preset_job *job, struct registered *held,
                   struct vial_error *err)
{
    const struct mcp_call *call = job->call;
    const struct vial_watch watch = { .cancel_fd = call->cancel_fd,
                                      .stdin_fd = -1,
                                      .output = tool_pass_on,
                                      .context = job->call,
                                      .caller = call->owner[0] ? call->owner : NULL,
                                      .correlation = call->correlation };
    auto_ask struct vial_request *req = NULL;
    auto_result struct vial_result *result = NULL;

    if (preset_request(job, &req, err) < 0)
        return -1;
    /* The session's own time-out is the most that any program may have. */
    if (!request_has(req, timeout) &&
        set_timeout(req, job->tool->world->timeout_ms, err) < 0)
        return -1;
    if (vial_session_run(held->session, req, &watch, &result, err) < 0)
        return -1;
    preset_tell_result(job, result, limit_of(job, req));
    return 0;
}

/* File tools answer like commands that ended well. */
static void tell_text(struct preset_job *job, const char *data, size_t len)
{
    struct vial_result result = { .verdict = VIAL_OK };
    struct blob copy = { 0 };

    if (blob_set(&copy, data, len) < 0)
        return;
    result.out = (struct vial_stream){ .data = copy.data, .len = len };
    preset_tell_result(job, &result, 0);
    blob_done(&copy);
}

/* A path is relative to the working directory, however it begins; that directory's own
 * name in front says nothing more. */
static const char *path_of(const struct preset_job *job)
{
    const char *path = preset_part(job, "path");
    char workdir[32];
    size_t len;

    if (!path)
        return "";
    request_choice(&job->tool->world->settings->defaults, FIELD_ID_workdir, workdir);
    len = strlen(workdir);
    if (len > 0 && strncmp(path, workdir, len) == 0 &&
        (path[len] == '/' || path[len] == '\0'))
        path += len;
    path += strspn(path, "/");
    while (str_starts(path, "./"))
        path += 2;
    return strcmp(path, ".") == 0 ? "" : path;
}

static int do_read(struct preset_job *job, struct registered *held,
                   struct vial_error *err)
{
    auto_free char *data = NULL;
    size_t len = 0;

    if (vial_session_get(held->session, path_of(job), 0, 0, &data, &len, err) < 0)
        return -1;
    tell_text(job, data, len);
    return 0;
}

static int do_write(struct preset_job *job, struct registered *held,
                    struct vial_error *err)
{
    const json_t *content = preset_value(job, "content");

    if (vial_session_put(held->session, path_of(job), json_string_value(content),
                         json_string_length(content), 0, err) < 0)
        return -1;
    tell_text(job, "", 0);
    return 0;
}

static int do_list(struct preset_job *job, struct registered *held,
                   struct vial_error *err)
{
    struct vial_entries entries = { 0 };
    auto_str struct str text = { 0 };

    if (vial_session_list(held->session, path_of(job), false, &entries, err) < 0)
        return -1;
    for (size_t i = 0; i < entries.count; i++) {
        const struct vial_entry *e = &entries.items[i];

        str_printf(&text, "%c %04o %10llu %s\n", e->type == 'f' ? '-' : e->type,
                   e->mode & 07777u, (unsigned long long)e->size, e->path);
    }
    vial_entries_free(&entries);
    if (text.failed)
        return fail_memory(err);
    tell_text(job, text.data ? text.data : "", text.len);
    return 0;
}

/* In the session that the argument names. */
static int in_session(struct preset_job *job,
                      int (*verb)(struct preset_job *, struct registered *,
                                  struct vial_error *),
                      struct vial_error *err)
{
    struct mcp_call *call = job->call;
    const char *id = preset_part(job, "id");
    struct registered *held = NULL;
    int rc;

    if (registry_take(call->registry, call->owner, id ? id : "", &held, err) < 0)
        return -1;
    rc = vial_session_renew(held->session, 0, err); /* use is what a lease is for */
    if (rc == 0)
        rc = verb(job, held, err);
    registry_release(call->registry, held);
    return rc;
}

/* Never fails: what is gone already is good, and all else is logged. */
static int do_close(struct preset_job *job, struct vial_error *err)
{
    struct mcp_call *call = job->call;
    const char *id = preset_part(job, "id");

    if (registry_stop(call->registry, call->owner, id ? id : "", err) < 0)
        mcp_call_log(
            call, "warning",
            json_pack("{s:s, s:s}", "code", err->code, "message", err->message));
    preset_tell(job, "done", json_true());
    return 0;
}

/* Vessels of all callers on this host that are named as this preset names them. */

static int do_vessels(struct preset_job *job, struct vial_error *err)
{
    const char *prefix = job->tool->world->settings->defaults.prefix;
    auto_vessels struct vial_vessels list = { 0 };
    auto_str struct str lines = { 0 };

    if (vial_vessel_list(job->call->engine, prefix, &list, err) < 0)
        return -1;
    for (size_t i = 0; i < list.count; i++) {
        const struct vial_vessel *v = &list.items[i];
        const char *name = v->name ? v->name : v->vessel;

        str_printf(&lines, "%s %s %s\n", name ? name : "-", v->driver,
                   v->orphan ? "orphan" : "running");
    }
    preset_tell(job, "list", json_string(lines.len ? lines.data : "none"));
    preset_tell(job, "items", vessels_json(&list));
    return 0;
}

static int do_cleanup(struct preset_job *job, struct vial_error *err)
{
    unsigned removed = 0;

    if (vial_cleanup(job->call->engine, &removed, err) < 0)
        return -1;
    preset_tell(job, "removed", json_integer(removed));
    return 0;
}

static int perform(struct preset_job *job, struct vial_error *err)
{
    static const struct {
        const char *name;
        int (*alone)(struct preset_job *, struct vial_error *);
        int (*inside)(struct preset_job *, struct registered *, struct vial_error *);
    } verbs[] = {
        { "run", do_run, NULL },         { "open", do_open, NULL },
        { "exec", NULL, do_exec },       { "read", NULL, do_read },
        { "write", NULL, do_write },     { "list", NULL, do_list },
        { "close", do_close, NULL },     { "vessels", do_vessels, NULL },
        { "cleanup", do_cleanup, NULL },
    };
    const char *does = preset_text(job->tool->tool, "does");

    for (size_t i = 0; i < sizeof verbs / sizeof *verbs; i++) {
        if (!str_eq(verbs[i].name, does))
            continue;
        return verbs[i].alone ? verbs[i].alone(job, err)
                              : in_session(job, verbs[i].inside, err);
    }
    return fail(err, VIAL_E_INTERNAL, "tool that does '%s'", does);
}

static void finish(struct preset_job *job, struct mcp_answer *answer)
{
    preset_answer(job, answer);
    json_decref(job->values);
    json_decref(job->images);
    str_done(&job->notes);
    json_decref(job->flags);
}

static struct preset_job job_of(const struct mcp_tool *tool, struct mcp_call *call)
{
    return (struct preset_job){ .tool = tool->data,
                                .call = call,
                                .values = json_object(),
                                .flags = json_object() };
}

void preset_refuse(const struct mcp_tool *tool, struct mcp_call *call,
                   const struct vial_error *err, struct mcp_answer *answer)
{
    struct preset_job job = job_of(tool, call);

    preset_tell_error(&job, err);
    finish(&job, answer);
}

void preset_call(const struct mcp_tool *tool, struct mcp_call *call,
                 struct mcp_answer *answer)
{
    struct preset_job job = job_of(tool, call);
    struct vial_error err = { 0 };

    if (perform(&job, &err) < 0)
        preset_tell_error(&job, &err);
    finish(&job, answer);
}
