/* SPDX-License-Identifier: Apache-2.0 */
#include "serve/route.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/fail.h"
#include "base/sys.h"
#include "serve/cors.h"
#include "serve/face.h"
#include "serve/ports.h"
#include "serve/sessions_at.h"

const struct route routes[] = {
#define ROUTE(method, path, scope, handler, query, takes, gives, summary)              \
    { method, path, scope, handler, #handler, query, takes, gives, summary },
#include "serve/routes.def"
#undef ROUTE
    { 0 },
};

static bool give_param(struct call *c, size_t *index, const char *text, size_t len)
{
    if (*index >= CALL_PARAMS || len == 0)
        return false;
    c->params[*index] = strndup(text, len);
    return c->params[(*index)++] != NULL;
}

void route_forget(struct call *c)
{
    for (size_t i = 0; i < CALL_PARAMS; i++) {
        free(c->params[i]);
        c->params[i] = NULL;
    }
}

bool route_matches(struct call *c, const char *pattern, const char *path)
{
    size_t index = 0;

    route_forget(c);
    while (*pattern) {
        if (strncmp(pattern, "{*}", 3) == 0)
            return give_param(c, &index, path, strlen(path));
        if (strncmp(pattern, "{}", 2) == 0) {
            size_t len = strcspn(path, "/");

            if (!give_param(c, &index, path, len))
                return false;
            pattern += 2;
            path += len;
        } else if (*pattern++ != *path++) {
            return false;
        }
    }
    return *path == '\0';
}

/* The route, or NULL with ERR filled and, for a known path, *ALLOW. */
static const struct route *find(struct call *c, struct str *allow,
                                struct vial_error *err)
{
    const char *method = web_method(c->web);
    const char *path = web_path(c->web);

    if (strcmp(method, "HEAD") == 0)
        method = "GET";
    for (const struct route *r = routes; r->path; r++) {
        if (!route_matches(c, r->path, path))
            continue;
        if (strcmp(r->method, method) == 0)
            return r;
        str_printf(allow, "%s%s", allow->len ? ", " : "", r->method);
    }
    if (allow->len)
        (void)fail(err, VIAL_E_ROUTE, "this path does not take that method");
    else
        (void)fail(err, VIAL_E_ROUTE, "there is nothing under this path");
    (void)fail_remedy(err, "see /v1/openapi.json");
    return NULL;
}

/* The client's own id, if it is harmless; else one of ours. */
static void name_call(struct call *c)
{
    const char *given = web_header(c->web, "X-Request-Id");
    size_t len = given ? strlen(given) : 0;

    if (len > 0 && len <= 64 &&
        strspn(given, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                      "0123456789-_.") == len)
        (void)snprintf(c->id, sizeof(c->id), "%s", given);
    else
        sys_make_id_on(serve_settings_node(&c->gen->settings->serve), 'q', c->id);
    (void)web_set_header(c->web, "X-Request-Id", c->id);
}

/* Owners of sessions learn from any answer how long they have. */
static void tell_end(struct call *c)
{
    int64_t left_ns = atomic_load(&c->serve->ends_ns) - clock_now_ns();
    char seconds[16];

    if (!c->serve->draining || sessions_at_concerns(c->serve, c->web))
        return;
    (void)snprintf(seconds, sizeof(seconds), "%d",
                   left_ns > 0 ? (int)(left_ns / 1000000000) : 0);
    (void)web_set_header(c->web, "Vial-Ends-In", seconds);
}

int route_admit(struct call *c, unsigned scope, const char *method, const char *path,
                struct vial_error *err)
{
    if (scope == SCOPE_NONE) {
        struct vial_error unknown;

        (void)auth_check(&c->gen->auth, c->web, &c->who, &unknown);
        return 0;
    }
    if (auth_check(&c->gen->auth, c->web, &c->who, err) < 0)
        return -1;
    if (!(c->who.scopes & scope))
        return fail(err, VIAL_E_SCOPE, "'%s' may not use %s %s", c->who.name, method,
                    path);
    c->caller = gate_caller(&c->serve->gate, c->who.name, &c->who.quota);
    return c->caller ? 0 : fail_memory(err);
}

static void answer(struct call *c)
{
    auto_str struct str allow = { 0 };
    struct vial_error err = { 0 };
    const struct route *r = find(c, &allow, &err);

    if (!r) {
        struct vial_error unknown = { 0 };

        /* A stranger does not learn which paths there are, either. */
        if (auth_check(&c->gen->auth, c->web, &c->who, &unknown) < 0) {
            call_error(c, &unknown);
        } else if (allow.len) {
            (void)web_set_header(c->web, "Allow", allow.data);
            call_json(c, 405,
                      json_pack("{s:{s:s, s:s, s:s, s:s}}", "error", "code", err.code,
                                "message", err.message, "cause", "", "remedy",
                                err.remedy));
        } else {
            call_error(c, &err);
        }
        return;
    }
    if (route_admit(c, r->scope, r->method, r->path, &err) < 0 ||
        call_query(c, r->query, &err) < 0)
        call_error(c, &err);
    else
        r->handler(c);
}

static void answer_e2b(struct call *c)
{
    struct e2b_turn turn = { .settings = c->gen->settings,
                             .engine = c->gen->engine,
                             .correlation = c->id };

    e2b_handle(c->serve->e2b, c->web, &turn);
    c->status = turn.status;
    (void)snprintf(c->who.name, sizeof(c->who.name), "%s", turn.who);
    if (turn.sandbox[0])
        call_note(c, "sandbox", turn.sandbox);
}

static void tell(struct call *c)
{
    double ms = clock_ms_between(c->began_ns, clock_now_ns());
    const char *path = web_path(c->web);
    json_t *told;

    metrics_http(&c->serve->metrics, c->status);
    if (c->status < 400 &&
        (strcmp(path, "/healthz") == 0 || strcmp(path, "/readyz") == 0))
        return;
    told = json_pack("{s:s, s:s, s:s+, s:i, s:f, s:s}", "request", c->id, "method",
                     web_method(c->web), "path", path, "", "status", (int)c->status,
                     "ms", ms, "caller", c->who.name);
    if (told && c->notes)
        (void)json_object_update(told, c->notes);
    log_line(&c->serve->log,
             c->status >= 500   ? "error"
             : c->status >= 400 ? "warn"
                                : "info",
             "http", told);
}

static void count_call(struct serve *s, int change)
{
    (void)pthread_mutex_lock(&s->lock);
    s->calls = (unsigned)((int)s->calls + change);
    s->last_call_ns = clock_now_ns();
    (void)pthread_mutex_unlock(&s->lock);
}

void serve_handle(void *context, struct web_request *req)
{
    struct serve *s = context;
    struct call c = { .serve = s, .web = req, .began_ns = clock_now_ns() };

    count_call(s, 1);
    c.gen = serve_use(s);
    name_call(&c);
    tell_end(&c);
    if (serve_e2b(s, req))
        answer_e2b(&c);
    else if (!cors_answer(&c) && !sessions_at_answer(&c) && !port_answer(&c) &&
             !face_answer(&c))
        answer(&c);
    tell(&c);
    route_forget(&c);
    json_decref(c.notes);
    json_decref(c.body);
    serve_unuse(s, c.gen);
    count_call(s, -1);
}
