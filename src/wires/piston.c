/* SPDX-License-Identifier: Apache-2.0 */

/* Piston's routes. */

#include <string.h>

#include "base/auto.h"
#include "base/fail.h"
#include "model/value.h"
#include "wires/faces.h"
#include "wires/piston_connect.h"
#include "wires/piston_words.h"
#include "wires/verdict_words.h"
#include "wires/wires.h"

static void refuse(struct call *c, unsigned status, const struct vial_error *err)
{
    if (status == 429)
        status = 503;
    if (status == 503)
        wires_try_later(c);
    if (status == 403 || status == 422)
        status = 400; /* what the request is at fault for */
    call_json(c, status == 499 ? 500 : status,
              json_pack("{s:s}", "message", err->message));
}

/* isolate's words. */
static json_t *message_of(const struct stage *s)
{
    switch (s->verdict) {
    case VIAL_OK:
        return json_null();
    case VIAL_NONZERO:
        return json_sprintf("Exited with error status %d", s->exit_code);
    case VIAL_SIGNAL:
        return json_sprintf("Caught fatal signal %d", s->signal);
    case VIAL_TIMEOUT:
        return json_string("Time limit exceeded (wall clock)");
    case VIAL_CPU_TIMEOUT:
        return json_string("Time limit exceeded");
    case VIAL_OOM:
        return json_string("Memory limit exceeded");
    case VIAL_OUTPUT_LIMIT:
        return json_string(s->loud_err ? "stderr length exceeded"
                                       : "stdout length exceeded");
    case VIAL_DISK:
    case VIAL_PIDS:
        return json_string("Caught fatal signal 9");
    case VIAL_DENIED:
    case VIAL_CANCELLED:
    case VIAL_FAILED:
        break;
    }
    return json_string(s->error.message);
}

static const char *status_of(const struct stage *s)
{
    return s->verdict == VIAL_OUTPUT_LIMIT && s->loud_err
               ? "EL"
               : verdict_words[s->verdict].piston;
}

static json_t *text_of(struct json_larges *l, const struct str *s)
{
    return json_large(l, s->data ? s->data : "", s->len, false);
}

static json_t *stage_json(struct json_larges *l, const struct stage *s)
{
    return json_pack("{s:o, s:o, s:o, s:o, s:o, s:o, s:s?, s:I, s:I, s:I}", "stdout",
                     text_of(l, &s->out), "stderr", text_of(l, &s->err), "output",
                     text_of(l, &s->both), "code", piston_code(s), "signal",
                     piston_signal(s), "message", message_of(s), "status", status_of(s),
                     "cpu_time", (json_int_t)(s->cpu_ms + 0.5), "wall_time",
                     (json_int_t)(s->wall_ms + 0.5), "memory",
                     (json_int_t)s->memory_bytes);
}

static void send(struct call *c, const struct piston_runtime *r,
                 const struct outcome *o)
{
    auto_larges struct json_larges larges = { 0 };
    const struct stage *last = o->run.there ? &o->run : &o->compile;
    auto_json json_t *json =
        json_pack("{s:o, s:s, s:s}", "run", stage_json(&larges, last), "language",
                  r->name, "version", r->version);
    const struct call_tree tree = { .json = json,
                                    .larges = &larges,
                                    .bytes = 2 * (last->out.len + last->err.len),
                                    .style = JSON_STYLE_COMPACT };

    if (o->compile.there)
        (void)json_object_set_new(json, "compile", stage_json(&larges, &o->compile));
    call_tree(c, 200, &tree, NULL);
}

/* The body, whatever its type is said to be. */
static bool read_body(struct call *c)
{
    struct vial_error err;

    if (call_body(c, &err) == 0)
        return true;
    call_json(
        c, 415,
        json_pack("{s:s}", "message", "requests must be of type application/json"));
    return false;
}

static void execute(struct call *c)
{
    auto_outcome struct outcome o = { 0 };
    struct program p = { .call = c,
                         .in_order = true,
                         .cancel_fd = web_gone_fd(c->web) };
    struct piston_runtime runtime;
    struct vial_error err = { 0 };
    const struct stage *last;

    if (!read_body(c))
        return;
    if (piston_job(c, c->body, &runtime, &p, &err) < 0 ||
        program_run(&p, &o, &err) < 0) {
        face_refuse(c, &face_piston, &err);
    } else {
        last = o.run.there ? &o.run : &o.compile;
        if (verdict_words[last->verdict].by == BY_OTHERS)
            call_json(c, 500, json_pack("{s:o}", "message", message_of(last)));
        else
            send(c, &runtime, &o);
    }
    vial_request_free(p.req);
}

static json_t *tell_runtime(const struct piston_runtime *r)
{
    json_t *told =
        json_pack("{s:s, s:s, s:O}", "language", r->name, "version", r->version,
                  "aliases", json_object_get(r->entry, "aliases"));
    json_t *runtime = json_object_get(r->entry, "runtime");

    if (told && runtime)
        (void)json_object_set(told, "runtime", runtime);
    return told;
}

static void runtimes(struct call *c)
{
    call_json(c, 200, piston_list(c, tell_runtime));
}

static json_t *tell_package(const struct piston_runtime *r)
{
    return json_pack("{s:s, s:s, s:b}", "language", r->name, "language_version",
                     r->version, "installed", 1);
}

static void packages(struct call *c)
{
    call_json(c, 200, piston_list(c, tell_package));
}

/* What is here is as good as installed. */
static void install(struct call *c)
{
    struct piston_runtime r;
    struct vial_error err = { 0 };
    const char *language, *version;

    if (!read_body(c))
        return;
    language = value_string(json_object_get(c->body, "language"));
    version = value_string(json_object_get(c->body, "version"));
    if (language && version && piston_find(c, language, version, &r)) {
        call_json(c, 200,
                  json_pack("{s:s, s:s}", "language", r.name, "version", r.version));
        return;
    }
    (void)fail(&err, VIAL_E_ROUTE, "Requested package %.60s-%.40s does not exist",
               language ? language : "", version ? version : "");
    face_refuse(c, &face_piston, &err);
}

static void uninstall(struct call *c)
{
    call_json(c, 403,
              json_pack("{s:s}", "message",
                        "languages are the host's: its packages have them"));
}

static const struct face_route routes_here[] = {
    { "GET", "/runtimes", SCOPE_RUN, runtimes },
    { "POST", "/execute", SCOPE_RUN, execute },
    { "GET", "/connect", SCOPE_RUN, piston_connect },
    { "GET", "/packages", SCOPE_RUN, packages },
    { "POST", "/packages", SCOPE_RUN, install },
    { "DELETE", "/packages", SCOPE_RUN, uninstall },
    { 0 },
};

static const char *const bases[] = { "/api/v2/piston", "/api/v2", NULL };

const struct face face_piston = {
    .name = "piston",
    .bases = bases,
    .routes = routes_here,
    .refuse = refuse,
};
