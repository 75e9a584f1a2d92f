/* SPDX-License-Identifier: Apache-2.0 */
#include "serve/http_call.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/budget.h"
#include "base/fail.h"
#include "base/str.h"
#include "base/unit.h"
#include "model/result.h"
#include "model/value.h"

#define JSON_TYPE "application/json"
#define SMALL     (64u << 10) /* of output: such a result is sent as a whole */
#define PIECE     ((size_t)64 << 10)

void call_note(struct call *c, const char *name, const char *value)
{
    if (!c->notes)
        c->notes = json_object();
    (void)json_object_set_new(c->notes, name, json_string(value));
}

int call_body(struct call *c, struct vial_error *err)
{
    size_t len;
    const char *text = web_body(c->web, &len);

    if (len == 0) {
        c->body = json_object();
        return c->body ? 0 : fail_memory(err);
    }
    if (json_parse(text, len, "body", &c->body, err) < 0)
        return -1;
    if (json_is_object(c->body))
        return 0;
    return fail(err, VIAL_E_VALUE, "the body is not a JSON object");
}

static bool is_listed(const char *known, const char *name)
{
    return *known && value_choice(known, name, strlen(name)) >= 0;
}

int call_query(struct call *c, const char *known, struct vial_error *err)
{
    const char *name;

    for (size_t i = 0; (name = web_query_name(c->web, i)); i++) {
        struct shown shown;

        if (is_listed(known, name))
            continue;
        shown = value_show(name, strlen(name));
        (void)fail(err, VIAL_E_FIELD, "unknown parameter '%s'", shown.text);
        return *known ? fail_remedy(err, "known parameters: %s", known)
                      : fail_remedy(err, "there are no parameters here");
    }
    return 0;
}

bool call_flag(const struct call *c, const char *name)
{
    const char *value = web_query(c->web, name);

    return value && strcmp(value, "0") != 0 && strcmp(value, "false") != 0;
}

int call_number(const struct call *c, const char *name, int64_t *out,
                struct vial_error *err)
{
    const char *text = web_query(c->web, name);

    if (!text || unit_parse_count(text, out) == 0)
        return 0;
    return fail(err, VIAL_E_VALUE, "'%s' is not a number", name);
}

void call_text(struct call *c, unsigned status, const char *type, const char *text,
               size_t len)
{
    c->status = status;
    (void)web_reply(c->web, status, type, text, len);
}

void call_given(struct call *c, unsigned status, char *json)
{
    if (!json) {
        call_text(c, 500, NULL, "", 0);
        return;
    }
    c->status = status;
    (void)web_give(c->web, status, JSON_TYPE, json, strlen(json));
}

static void send_pieces(struct call *c, unsigned status, const char *text, size_t len)
{
    size_t at = 0;

    c->status = status;
    if (web_start(c->web, status, JSON_TYPE) < 0)
        return;
    while (at < len) {
        size_t part = len - at < PIECE ? len - at : PIECE;

        if (web_write(c->web, text + at, part) < 0) {
            web_abort(c->web);
            return;
        }
        at += part;
    }
    web_end(c->web);
}

void call_long(struct call *c, unsigned status, char *json)
{
    size_t len = json ? strlen(json) : 0;
    struct vial_error err = { 0 };

    if (len <= WEB_QUEUE_BYTES) {
        call_given(c, status, json);
        return;
    }
    if (budget_take(c->serve->budget, BUDGET_MEMORY, c->who.name, len)) {
        send_pieces(c, status, json, len);
        budget_give(c->serve->budget, BUDGET_MEMORY, c->who.name, len);
    } else {
        (void)fail(&err, VIAL_E_BUSY, "there is no memory left for this answer");
        (void)fail_remedy(&err, "try again when other answers were read");
        call_error(c, &err);
    }
    free(json);
}

/* The answer that is sent, and a copy of it while it is not too long. */
struct telling {
    struct call *call;
    struct str *copy; /* or NULL */
    bool small;       /* it goes out as a whole, behind this */
    bool gone;        /* the client: only the copy goes on */
};

static int tell(void *context, const void *data, size_t len)
{
    struct telling *t = context;

    if (t->copy && !t->small && t->copy->len + len > CALL_COPY) {
        str_done(t->copy);
        t->copy = NULL;
    }
    if (t->copy)
        str_add(t->copy, data, len);
    if (t->small)
        return 0;
    t->gone = t->gone || web_write(t->call->web, data, len) < 0;
    return t->gone && !t->copy ? -1 : 0;
}

static void answer_small(struct call *c, unsigned status, const struct str *text)
{
    if (str_ok(text))
        call_text(c, status, JSON_TYPE, text->data, text->len);
    else
        call_text(c, 500, NULL, "", 0);
}

/* Before the client can ask again: it shall be told the same. */
static void keep(struct call *c, const char *key, unsigned status,
                 const struct str *text)
{
    if (key && text && text->len <= CALL_COPY && str_ok(text))
        keys_end(&c->serve->keys, c->who.name, key, status, text->data, text->len);
    else if (key)
        keys_drop(&c->serve->keys, c->who.name, key);
}

void call_tree(struct call *c, unsigned status, const struct call_tree *tree,
               const char *key)
{
    auto_str struct str text = { 0 };
    struct telling t = { .call = c, .small = tree->bytes <= SMALL };
    const struct json_sink to = { tell, &t };
    bool good = tree->json != NULL;

    if (t.small || key)
        t.copy = &text;
    if (good && !t.small)
        good = web_start(c->web, status, JSON_TYPE) == 0;
    good = good && json_write(tree->json, tree->larges, tree->style, &to) == 0;
    keep(c, key, status, good ? t.copy : NULL);
    c->status = status;
    if (good && t.small)
        answer_small(c, status, &text);
    else if (good)
        web_end(c->web);
    else if (t.small || !tree->json)
        call_text(c, 500, NULL, "", 0);
    else
        web_abort(c->web);
}

void call_result(struct call *c, unsigned status, const struct vial_result *result,
                 const char *key)
{
    auto_larges struct json_larges larges = { 0 };
    auto_json json_t *json = result_tree(result, call_flag(c, "raw"), &larges);
    const struct call_tree tree = { .json = json,
                                    .larges = &larges,
                                    .bytes = result_held(result),
                                    .style = JSON_STYLE_SPACED };

    call_tree(c, status, &tree, key);
}

void call_json(struct call *c, unsigned status, json_t *value)
{
    char *text =
        value ? json_dumps(value, JSON_COMPACT | JSON_REAL_PRECISION(12)) : NULL;

    json_decref(value);
    call_given(c, status, text);
}

void call_done(struct call *c)
{
    call_text(c, 204, NULL, "", 0);
}

unsigned call_status_of(const struct vial_error *err)
{
    static const struct {
        enum fail_code code;
        unsigned status;
    } table[] = {
        { VIAL_E_JSON, 400 },
        { VIAL_E_FIELD, 400 },
        { VIAL_E_VALUE, 400 },
        { VIAL_E_USAGE, 400 },
        { VIAL_E_PATH, 400 },
        { VIAL_E_TAR, 400 },
        { VIAL_E_HTTP, 400 },
        { VIAL_E_AUTH, 401 },
        { VIAL_E_SCOPE, 403 },
        { VIAL_E_HOST, 403 },
        { VIAL_E_CAP, 403 },
        { VIAL_E_POLICY, 403 },
        { VIAL_E_MOUNT, 403 },
        { VIAL_E_MOUNT_OUTSIDE, 403 },
        { VIAL_E_ROUTE, 404 },
        { VIAL_E_SESSION, 404 },
        { VIAL_E_NO_FILE, 404 },
        { VIAL_E_IMAGE, 404 },
        { VIAL_E_IDEMPOTENCY, 409 },
        { VIAL_E_CONTEXT, 409 },
        { VIAL_E_PAUSED, 409 },
        { VIAL_E_WORKSPACE, 409 },
        { VIAL_E_CONFLICT, 409 },
        { VIAL_E_PORT, 502 },
        { VIAL_E_AUDIT, 507 },
        { VIAL_E_NAME_TAKEN, 409 },
        { VIAL_E_OFFSET, 416 },
        { VIAL_E_LANGUAGE, 422 },
        { VIAL_E_INTERPRETER, 422 },
        { VIAL_E_PRESET, 422 },
        { VIAL_E_DRIVER, 422 },
        { VIAL_E_ISOLATION, 422 },
        { VIAL_E_LIMITS, 422 },
        { VIAL_E_UNSUPPORTED, 422 },
        { VIAL_E_CWD, 422 },
        { VIAL_E_EXEC, 422 },
        { VIAL_E_FILE, 422 },
        { VIAL_E_RATE, 429 },
        { VIAL_E_CANCELLED, 499 },
        { VIAL_E_PULL, 502 },
        { VIAL_E_BUSY, 503 },
        { VIAL_E_KEEPER, 503 },
        { VIAL_E_DAEMON, 503 },
        { VIAL_E_ENGINE_MISSING, 503 },
        { VIAL_E_ENGINE_DOWN, 503 },
        { VIAL_E_ENGINE_ACCESS, 503 },
        { VIAL_E_ENGINE_TIMEOUT, 504 },
        { VIAL_E_ENGINE_SPACE, 507 },
        { VIAL_E_QUOTA, 507 },
    };

    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++)
        if (fail_is(err, table[i].code))
            return table[i].status;
    return 500;
}

static void count_refusal(struct call *c, unsigned status)
{
    struct metrics *m = &c->serve->metrics;

    if (status == 401)
        metrics_add(m, &m->refused_auth, 1);
    else if (status == 403)
        metrics_add(m, &m->refused_scope, 1);
    else if (status == 429)
        metrics_add(m, &m->refused_rate, 1);
    else if (status == 503)
        metrics_add(m, &m->refused_busy, 1);
}

/* The kernel says who a stranger on the unix socket is. */
static const char *name_of(const struct call *c, char *out, size_t size)
{
    pid_t pid;
    uid_t uid;

    if (c->who.name[0] || !web_peer(c->web, &pid, &uid))
        return c->who.name;
    (void)snprintf(out, size, "uid:%u", (unsigned)uid);
    return out;
}

void call_refused(struct call *c, const struct vial_error *err)
{
    char name[32];
    const struct refusal what = { .caller = name_of(c, name, sizeof(name)),
                                  .address = web_address(c->web),
                                  .request = c->id,
                                  .method = web_method(c->web),
                                  .path = web_path(c->web),
                                  .status = call_status_of(err),
                                  .why = err };

    if (refusals_is_one(what.status))
        refusals_record(&c->serve->refusals, &what);
}

void serve_refused(void *context, const struct web_request *req, unsigned status)
{
    struct serve *s = context;
    char name[32] = "";
    pid_t pid;
    uid_t uid;

    if (web_peer(req, &pid, &uid))
        (void)snprintf(name, sizeof(name), "uid:%u", (unsigned)uid);
    refusals_count(&s->refusals, name[0] ? name : web_address(req),
                   fail_code_text(status == 503 ? VIAL_E_BUSY : VIAL_E_HTTP));
}

unsigned call_turned_away(struct call *c, const struct vial_error *err)
{
    unsigned status = call_status_of(err);

    count_refusal(c, status);
    call_refused(c, err);
    call_note(c, "code", err->code);
    return status;
}

void call_refuse(struct call *c, const struct vial_error *err, unsigned retry_s)
{
    unsigned status = call_turned_away(c, err);
    char seconds[16];

    if (retry_s) {
        (void)snprintf(seconds, sizeof(seconds), "%u", retry_s);
        (void)web_set_header(c->web, "Retry-After", seconds);
    }
    if (status == 401)
        (void)web_set_header(c->web, "WWW-Authenticate", "Bearer realm=\"vial\"");
    call_json(c, status, json_pack("{s:o}", "error", error_json(err)));
}

void call_error(struct call *c, const struct vial_error *err)
{
    unsigned status = call_status_of(err);
    unsigned retry_s = c->retry_s ? c->retry_s : 1;

    call_refuse(c, err, status == 503 || status == 429 ? retry_s : 0);
}
