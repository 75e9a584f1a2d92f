/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Keep-alive: calls of one caller share a session, until it has had so many of them
 * or was idle for so long; then it is ended, and the next call begins a new one.
 * Nothing survives that. The session ends with the server.
 */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/fail.h"
#include "base/json.h"
#include "mcp/own.h"
#include "mcp/preset.h"
#include "model/request.h"

#define INLINE_MAX (96u << 10) /* code that fits into one argument */

static bool is_due(const struct preset_world *w, const char *owner, int64_t now_ms)
{
    return strcmp(w->kept_owner, owner) != 0 || w->kept_calls >= w->executions ||
           now_ms - w->kept_last_ms > w->idle_ms;
}

static void forget(struct preset_world *w, struct registry *registry)
{
    if (w->kept_id)
        (void)!registry_stop(registry, w->kept_owner, w->kept_id, NULL);
    free(ptr_take(&w->kept_id));
    free(ptr_take(&w->kept_owner));
}

/* The session that is there, if it lives and is not due. */
static struct registered *take_kept(struct preset_world *w, struct mcp_call *call,
                                    int64_t now_ms)
{
    struct vial_session_report report;
    struct registered *held = NULL;

    if (!w->kept_id)
        return NULL;
    if (!is_due(w, call->owner, now_ms) &&
        registry_take(call->registry, call->owner, w->kept_id, &held, NULL) == 0) {
        vial_session_look(held->session, &report);
        if (report.outcome == VIAL_SESSION_OPEN)
            return held;
        registry_release(call->registry, held);
    }
    forget(w, call->registry);
    return NULL;
}

static int begin(struct preset_job *job, struct registered **out,
                 struct vial_error *err)
{
    struct preset_world *w = job->tool->world;
    auto_ask struct vial_request *req = NULL;
    char most[32];

    (void)snprintf(most, sizeof most, "%lldms", (long long)w->max_timeout_ms);
    if (vial_request_new(&req, err) < 0 ||
        vial_request_set(req, "timeout", most, err) < 0 ||
        preset_open(job, req, out, err) < 0)
        return -1;
    w->kept_id = strdup((*out)->id);
    w->kept_owner = strdup(job->call->owner);
    w->kept_calls = 0;
    if (w->kept_id && w->kept_owner)
        return 0;
    forget(w, job->call->registry);
    registry_release(job->call->registry, ptr_take(out));
    return fail_memory(err);
}

static int take(struct preset_job *job, struct registered **out, struct vial_error *err)
{
    struct preset_world *w = job->tool->world;
    int64_t now_ms = clock_now_ns() / 1000000;
    int rc = 0;

    (void)pthread_mutex_lock(&w->lock);
    *out = take_kept(w, job->call, now_ms);
    if (!*out)
        rc = begin(job, out, err);
    if (rc == 0) {
        w->kept_calls++;
        w->kept_last_ms = now_ms;
    }
    (void)pthread_mutex_unlock(&w->lock);
    return rc;
}

/* Code as one argument or, when it is long, as a file. */
static int exec_code(struct preset_job *job, struct registered *held,
                     const struct vial_request *req, int64_t timeout_ms,
                     struct vial_result **out, struct vial_error *err)
{
    const json_t *keep = json_object_get(job->tool->world->block, "keep");
    const char *program = json_string_value(
        json_object_get(json_object_get(keep, "programs"), req->language));
    bool fits = req->code.len < INLINE_MAX;
    char file[40];
    const char *const inline_argv[] = { program, "-c", req->code.data, NULL };
    const char *const file_argv[] = { program, file, NULL };
    struct own_program p = { .argv = fits ? inline_argv : file_argv,
                             .timeout_ms = timeout_ms };

    if (!program)
        return fail(err, VIAL_E_LANGUAGE, "language '%s' is not kept alive",
                    req->language);
    (void)snprintf(file, sizeof file, "code-%lld", (long long)clock_now_ns());
    if (!fits && vial_session_put(held->session, file, req->code.data, req->code.len, 0,
                                  err) < 0)
        return -1;
    return own_exec(job->call, held, &p, out, err);
}

int preset_run_kept(struct preset_job *job, const struct vial_request *req,
                    int64_t timeout_ms, struct vial_result **out,
                    struct vial_error *err)
{
    struct registered *held = NULL;
    int rc;

    if (timeout_ms > job->tool->world->max_timeout_ms) {
        (void)fail(err, VIAL_E_CAP, "timeout %lld s exceeds the policy's max_timeout",
                   (long long)timeout_ms / 1000);
        return fail_remedy(err, "ask for less");
    }
    if (take(job, &held, err) < 0)
        return -1;
    rc = exec_code(job, held, req, timeout_ms, out, err);
    registry_release(job->call->registry, held);
    return rc;
}
