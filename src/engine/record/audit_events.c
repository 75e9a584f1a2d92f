/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/record/audit_events.h"

#include <string.h>
#include <unistd.h>

#include "base/fail.h"
#include "base/json.h"
#include "base/sha256.h"
#include "keeper/client/client.h"
#include "model/result.h"

#define CODE_MAX ((size_t)12 << 10) /* bytes of a program's text in a record */
/* Bytes of what is said about a plan's arguments. */
#define PLAN_MAX  ((size_t)8 << 10)
#define ENTRY_MAX 64 /* entries of a list */

static void hash_text(const void *data, size_t len, char out[65])
{
    struct sha256 h;

    sha256_init(&h);
    sha256_add(&h, data, len);
    sha256_text(&h, out);
}

static int hash_policy(struct vial_engine *e, struct vial_error *err)
{
    auto_json json_t *policy = policy_json(&e->settings->policy);
    auto_free char *text =
        policy ? json_dumps(policy, JSON_COMPACT | JSON_SORT_KEYS) : NULL;

    if (!text)
        return fail_memory(err);
    hash_text(text, strlen(text), e->policy_hash);
    return 0;
}

void record_open(struct vial_engine *e, const char *path)
{
    const struct auditing *a = &e->settings->audit;
    const struct audit_options options = {
        .path = a->path ? a->path : path,
        .rotate_bytes = (uint64_t)a->rotate,
        .keep_files = (unsigned)a->keep,
        .lazy = a->lazy,
    };

    /* A process that has given up its rights has no state directory: a daemon with a
     * keeper records where its own settings say. */
    if (a->usual && e->drivers == kept_drivers)
        return;
    if (options.path && hash_policy(e, &e->audit_error) == 0 &&
        auditing_make_place(a, &e->audit_error) == 0)
        (void)audit_open(&options, &e->audit, &e->audit_error);
}

/* LEN bytes of TEXT as JSON, without secrets. */
static json_t *plain(const char *text, size_t len)
{
    auto_str struct str safe = { 0 };
    json_t *value;

    audit_redact(&safe, text, len);
    if (!str_ok(&safe))
        return NULL;
    value = json_stringn(safe.data ? safe.data : "", safe.len);
    return value ? value : json_string("(not text)");
}

/* As many entries as fit, and "…" for the rest. */
static json_t *plain_list(const struct strv *list, bool names_only)
{
    json_t *array = json_array();
    size_t room = PLAN_MAX;

    for (size_t i = 0; i < list->count; i++) {
        size_t len = names_only ? strcspn(list->items[i], "=") : strlen(list->items[i]);

        if (i == ENTRY_MAX || len > room) {
            (void)json_array_append_new(array, json_string("…"));
            break;
        }
        room -= len;
        (void)json_array_append_new(array, plain(list->items[i], len));
    }
    return array;
}

static json_t *caller_json(const struct run *r)
{
    const struct vial_watch *w = r->watch;

    return json_pack("{s:I, s:I, s:s?, s:s?}", "uid", (json_int_t)getuid(), "pid",
                     (json_int_t)getpid(), "name", w->caller, "correlation",
                     r->correlation[0] ? r->correlation : NULL);
}

void record_add_code(const struct vial_engine *e, const char *code, size_t len,
                     json_t *into)
{
    char hash[65];

    hash_text(code, len, hash);
    (void)json_object_set_new(into, "code_sha256", json_string(hash));
    (void)json_object_set_new(into, "code_bytes", json_integer((json_int_t)len));
    if (e->settings->audit.code_text && len <= CODE_MAX)
        (void)json_object_set_new(into, "code", plain(code, len));
}

/* The members that both records have. */
static json_t *common(const struct run *r, const struct vial_request *req,
                      const char *event, const char *id)
{
    const struct vial_engine *e = r->engine;
    json_t *record = json_pack("{s:s, s:s, s:o, s:s, s:s?}", "event", event, "run", id,
                               "caller", caller_json(r), "policy", e->policy_hash,
                               "preset", e->settings->preset);

    if (!record)
        return NULL;
    if (r->plan && r->plan->language)
        (void)json_object_set_new(record, "language", json_string(r->plan->language));
    else if (request_has(req, language) && req->language)
        (void)json_object_set_new(record, "language",
                                  plain(req->language, strlen(req->language)));
    if (request_has(req, code))
        record_add_code(e, req->code.data, req->code.len, record);
    return record;
}

static json_t *mounts_json(const struct plan *plan)
{
    json_t *array = json_array();

    for (size_t i = 0; i < plan->mount_count; i++)
        (void)json_array_append_new(
            array, json_pack("{s:s, s:s, s:s}", "source", plan->mounts[i].source,
                             "target", plan->mounts[i].target, "mode",
                             plan->mounts[i].writable ? "rw" : "ro"));
    return array;
}

json_t *record_list(const struct strv *list)
{
    return plain_list(list, false);
}

void record_add_plan(const struct plan *plan, json_t *into)
{
    auto_json json_t *whole = plan_json(plan);
    static const char *const copied[] = { "driver",  "limits",  "network", "image",
                                          "seccomp", "require", "session", "task" };

    for (size_t i = 0; i < sizeof(copied) / sizeof(*copied); i++)
        (void)json_object_set(into, copied[i], json_object_get(whole, copied[i]));
    (void)json_object_set_new(into, "argv", plain_list(&plan->argv, false));
    (void)json_object_set_new(into, "env_names", plain_list(&plan->env, true));
    (void)json_object_set_new(into, "files_in",
                              json_integer((json_int_t)plan->file_count));
    (void)json_object_set_new(into, "mounts", mounts_json(plan));
}

/* Without a log all may run, unless there should be one. */
static int refuse_blind(const struct vial_engine *e, struct vial_error *err)
{
    if (!*e->audit_error.code)
        return 0;
    if (err)
        *err = e->audit_error;
    return -1;
}

int record_begin(struct run *r, const struct vial_request *req, struct vial_error *err)
{
    auto_json json_t *record = NULL;

    if (!r->engine->audit)
        return refuse_blind(r->engine, err);
    record = common(r, req, "begin", r->plan->id);
    if (!record)
        return fail_memory(err);
    record_add_plan(r->plan, record);
    if (audit_reserve(r->engine->audit, 1, err) < 0)
        return -1;
    return audit_append(r->engine->audit, record, err);
}

/* The result's own form, without its output. */
static void add_result(const struct vial_result *result, json_t *into)
{
    static const char *const left_out[] = { "id", "timing", "artifacts" };
    auto_json json_t *whole = result_brief(result);
    json_t *files = json_array();

    for (size_t i = 0; i < result->file_count && i < ENTRY_MAX; i++)
        (void)json_array_append_new(
            files, plain(result->files[i].path, strlen(result->files[i].path)));
    for (size_t i = 0; i < sizeof(left_out) / sizeof(*left_out); i++)
        (void)json_object_del(whole, left_out[i]);
    (void)json_object_update(into, whole);
    (void)json_object_set_new(into, "files_out", files);
}

void record_refused(struct vial_engine *e, json_t *who, uint64_t count)
{
    if (who)
        (void)json_object_set_new(who, "count", json_integer((json_int_t)count));
    (void)record_event(e, "network.refused", who, NULL);
}

void record_cleanup(struct vial_engine *e, const char *driver, unsigned count,
                    const struct vial_error *why)
{
    json_t *detail = NULL;

    if (e->audit)
        detail =
            json_pack("{s:s, s:i, s:{s:I, s:I}, s:o*}", "driver", driver, "removed",
                      (int)count, "caller", "uid", (json_int_t)getuid(), "pid",
                      (json_int_t)getpid(), "error", why ? error_json(why) : NULL);
    (void)record_event(e, "cleanup", detail, NULL);
}

void record_end(struct run *r, const struct vial_request *req,
                struct vial_result *result)
{
    if (r->engine->audit && result->network_refused)
        record_refused(
            r->engine,
            json_pack("{s:s, s:o}", "run", result->id, "caller", caller_json(r)),
            result->network_refused);
    record_result(r, req, result);
}

void record_result(struct run *r, const struct vial_request *req,
                   struct vial_result *result)
{
    auto_json json_t *record = NULL;
    struct vial_error err = { 0 };

    if (!r->engine->audit)
        return;
    record = common(r, req, "run", result->id);
    if (!record)
        (void)fail_memory(&err);
    else
        add_result(result, record);
    if ((!record || audit_append(r->engine->audit, record, &err) < 0) &&
        !*result->error.code)
        result->error = err;
}

int record_event(struct vial_engine *e, const char *event, json_t *detail,
                 struct vial_error *err)
{
    auto_json json_t *record = NULL;

    if (e->audit)
        record = json_pack("{s:s, s:s}", "event", event, "policy", e->policy_hash);
    if (record && detail)
        (void)json_object_update(record, detail);
    json_decref(detail);
    if (!e->audit)
        return refuse_blind(e, err);
    return record ? audit_append(e->audit, record, err) : fail_memory(err);
}

/* SESSION is our number for it in every record, LABEL what its caller calls it. */
static json_t *of_session(const struct vial_session *s)
{
    return json_pack("{s:s, s:s*, s:{s:I, s:I, s:s?, s:s?}}", "session", s->report.id,
                     "label", s->plan ? s->plan->label_session : NULL, "caller", "uid",
                     (json_int_t)getuid(), "pid", (json_int_t)getpid(), "name",
                     s->options.caller, "correlation", s->options.correlation);
}

/* Members of MORE, which is taken. Either may be NULL, for want of memory: what is left
 * of a record is written in any case. */
static void add(json_t *detail, json_t *more)
{
    if (detail && more)
        (void)json_object_update(detail, more);
    json_decref(more);
}

int record_session_event(struct vial_session *s, const char *event, json_t *more,
                         struct vial_error *err)
{
    json_t *detail = of_session(s);

    add(detail, more);
    return record_event(s->engine, event, detail, err);
}

int record_session_begin(struct vial_session *s, struct vial_error *err)
{
    auto_json json_t *own = NULL;
    json_t *detail;

    if (!s->engine->audit)
        return record_event(s->engine, "", NULL, err);
    if (audit_reserve(s->engine->audit, 1, err) < 0)
        return -1;
    own = of_session(s);
    detail = own ? json_object() : NULL;
    if (!detail)
        return fail_memory(err);
    record_add_plan(s->plan, detail);
    (void)json_object_update(detail, own); /* last: a plan's session is the label */
    return record_event(s->engine, "session.begin", detail, err);
}

void record_session_refused(struct vial_session *s, const struct vial_error *why)
{
    json_t *detail = of_session(s);

    if (detail && why)
        (void)json_object_set_new(detail, "error", error_json(why));
    (void)record_event(s->engine, "session.refused", detail, NULL);
}

void record_session_end(struct vial_session *s)
{
    json_t *detail = of_session(s);

    add(detail,
        json_pack("{s:s, s:I, s:s, s:s, s:o}", "outcome", vial_outcome_name(s->outcome),
                  "execs", (json_int_t)s->report.execs, "vessel", s->report.vessel_id,
                  "level", s->report.level, "error", error_json(&s->error)));
    (void)record_event(s->engine, "session.end", detail, NULL);
}

static json_t *of_exec(const struct vial_exec *x, const char *correlation)
{
    json_t *detail = of_session(x->session);

    if (detail)
        (void)json_object_set_new(detail, "exec", json_integer((json_int_t)x->number));
    if (detail && correlation)
        (void)json_object_set_new(json_object_get(detail, "caller"), "correlation",
                                  json_string(correlation));
    return detail;
}

int record_exec_begin(struct vial_exec *x, const struct strv *argv,
                      struct vial_error *err)
{
    json_t *detail;

    if (!x->session->engine->audit)
        return 0;
    if (audit_reserve(x->session->engine->audit, 1, err) < 0)
        return -1;
    detail = of_exec(x, x->correlation);
    if (detail)
        (void)json_object_set_new(detail, "argv", record_list(argv));
    return record_event(x->session->engine, "exec.begin", detail, err);
}

void record_exec_end(struct vial_exec *x)
{
    const struct vial_exec_status *st = &x->status;
    json_t *detail;

    if (!x->session->engine->audit)
        return;
    if (st->network_refused)
        record_refused(x->session->engine, of_exec(x, x->correlation),
                       st->network_refused);
    detail = of_exec(x, x->correlation);
    add(detail, json_pack("{s:s, s:i, s:f, s:I, s:I}", "verdict",
                          vial_verdict_name(st->verdict), "exit_code", st->exit_code,
                          "duration_ms", st->duration_ms, "stdout_bytes",
                          (json_int_t)x->spool[0].end, "stderr_bytes",
                          (json_int_t)x->spool[1].end));
    if (x->network)
        add(detail, json_pack("{s:o}", "network", network_json(x->network)));
    (void)record_event(x->session->engine, "exec.end", detail, NULL);
}

static json_t *of_cell(const struct recorded_cell *cell)
{
    json_t *detail = of_exec(cell->exec, cell->correlation);

    if (!detail)
        return NULL;
    (void)json_object_set_new(detail, "cell", json_integer((json_int_t)cell->number));
    (void)json_object_set_new(detail, "language", json_string(cell->language));
    record_add_code(cell->exec->session->engine, cell->code, cell->len, detail);
    return detail;
}

int record_cell_begin(const struct recorded_cell *cell, struct vial_error *err)
{
    struct vial_engine *e = cell->exec->session->engine;

    if (!e->audit)
        return 0;
    if (audit_reserve(e->audit, 1, err) < 0)
        return -1;
    return record_event(e, "cell.begin", of_cell(cell), err);
}

void record_cell_end(const struct recorded_cell *cell, const struct cell_end *end)
{
    struct vial_engine *e = cell->exec->session->engine;
    json_t *detail;

    if (!e->audit)
        return;
    detail = of_cell(cell);
    add(detail,
        json_pack("{s:s, s:f, s:I, s:I}", "outcome", end->outcome, "duration_ms",
                  end->duration_ms, "stdout_bytes", (json_int_t)end->out_bytes,
                  "stderr_bytes", (json_int_t)end->err_bytes));
    if (end->error)
        add(detail, json_pack("{s:o}", "error", error_json(end->error)));
    (void)record_event(e, "cell.end", detail, NULL);
}

int record_commit_begin(struct vial_session *s, struct vial_error *err)
{
    return s->engine->audit ? audit_reserve(s->engine->audit, 1, err) : 0;
}

void record_commit_end(struct vial_session *s, const struct vial_commit_report *done,
                       const struct vial_error *why)
{
    json_t *detail = s->engine->audit ? of_session(s) : NULL;

    if (why)
        add(detail,
            json_pack("{s:o, s:s}", "error", error_json(why), "outcome", "failed"));
    else
        add(detail,
            json_pack("{s:{s:I, s:I, s:I}, s:s}", "changes", "added",
                      (json_int_t)done->added, "modified", (json_int_t)done->modified,
                      "deleted", (json_int_t)done->deleted, "outcome", "completed"));
    (void)record_event(s->engine, "workspace.commit", detail, NULL);
}
