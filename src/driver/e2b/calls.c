/* SPDX-License-Identifier: Apache-2.0 */
#include "driver/e2b/calls.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/text.h"
#include "http/connect_envelope.h"

#define KEEPALIVE_S "30" /* a stream that is quiet for longer is dead */

void e2b_call_done(struct e2b_call *c)
{
    str_done(&c->target);
    str_done(&c->headers);
    str_done(&c->body);
}

static void begin(struct e2b_call *out, const char *method, const char *about)
{
    *out = (struct e2b_call){ .method = method, .about = about };
}

static void header(struct e2b_call *c, const char *name, const char *value)
{
    str_printf(&c->headers, "%s: %s\r\n", name, value);
}

/* BODY is taken; NULL: there was no memory for it. */
static void put_json(struct e2b_call *c, json_t *body)
{
    auto_free char *text = body ? json_dumps(body, JSON_COMPACT) : NULL;

    json_decref(body);
    c->type = "application/json";
    if (text)
        str_puts(&c->body, text);
    else
        c->failed = true;
}

static void control(struct e2b_call *out, const struct e2b_endpoint *e,
                    const char *method, const char *about)
{
    begin(out, method, about);
    header(out, "X-API-Key", e->key);
}

/* A target below a sandbox; its id needs no escaping. */
static void control_box(struct e2b_call *out, const struct e2b_endpoint *e,
                        const char *method, const char *about, const char *id,
                        const char *below)
{
    control(out, e, method, about);
    out->scope = E2B_OF_SANDBOX;
    str_printf(&out->target, "/sandboxes/%s%s", id, below);
}

static json_t *metadata(const struct e2b_wish *w)
{
    return json_pack("{s:s, s:s, s:s, s:s, s:s*, s:s*}", E2B_MANAGED, "vessel",
                     E2B_OWNER, w->owner, E2B_HOST, w->host, E2B_VESSEL, w->vessel,
                     E2B_SESSION, w->session, E2B_TASK, w->task);
}

void e2b_call_create(struct e2b_call *out, const struct e2b_endpoint *e,
                     const struct e2b_wish *w)
{
    control(out, e, "POST", "create the sandbox");
    str_puts(&out->target, "/sandboxes");
    out->again = E2B_AGAIN_UNBEGUN; /* a second sandbox would be nobody's */
    put_json(out,
             json_pack("{s:s, s:I, s:b, s:b, s:b, s:o}", "templateID", e->template_name,
                       "timeout", (json_int_t)w->lease_s, "secure", 1, "autoPause", 0,
                       "allow_internet_access", w->internet, "metadata", metadata(w)));
}

void e2b_call_renew(struct e2b_call *out, const struct e2b_endpoint *e, const char *id,
                    int64_t lease_s)
{
    control_box(out, e, "POST", "renew the sandbox's lease", id, "/timeout");
    put_json(out, json_pack("{s:I}", "timeout", (json_int_t)lease_s));
}

void e2b_call_kill(struct e2b_call *out, const struct e2b_endpoint *e, const char *id)
{
    control_box(out, e, "DELETE", "end the sandbox", id, "");
}

void e2b_call_look(struct e2b_call *out, const struct e2b_endpoint *e, const char *id)
{
    control_box(out, e, "GET", "look at the sandbox", id, "");
}

void e2b_call_list(struct e2b_call *out, const struct e2b_endpoint *e)
{
    control(out, e, "GET", "list the sandboxes");
    /* "vial=vessel", as one value of a query. */
    str_puts(&out->target, "/sandboxes?metadata=" E2B_MANAGED "%3Dvessel");
}

static void inside(struct e2b_call *out, const struct e2b_box *box, const char *about)
{
    begin(out, "POST", about);
    out->scope = E2B_IN_SANDBOX;
    header(out, "E2b-Sandbox-Id", box->id);
    str_printf(&out->headers, "E2b-Sandbox-Port: %u\r\n", ENVD_PORT);
    if (box->token[0])
        header(out, "X-Access-Token", box->token);
    if (box->traffic[0])
        header(out, "E2B-Traffic-Access-Token", box->traffic);
}

void e2b_call_upload(struct e2b_call *out, const struct e2b_box *box, const char *path,
                     const struct blob *content)
{
    inside(out, box, "bring the guest");
    str_puts(&out->target, "/files?path=");
    http_escape(&out->target, path);
    out->type = "application/octet-stream";
    str_add(&out->body, content->data, content->len);
}

/* One message of a stream, in its envelope. */
static void put_frame(struct e2b_call *c, json_t *message)
{
    auto_str struct str text = { 0 };

    put_json(c, message);
    text = c->body;
    c->body = (struct str){ 0 };
    c->failed = c->failed || text.failed;
    connect_put(&c->body, 0, text.data ? text.data : "", text.len);
    c->type = "application/connect+json";
}

void e2b_call_start(struct e2b_call *out, const struct e2b_box *box,
                    const char *const *argv)
{
    json_t *args = json_array();

    inside(out, box, "run the guest");
    str_puts(&out->target, "/process.Process/Start");
    header(out, "Connect-Protocol-Version", "1");
    header(out, "Keepalive-Ping-Interval", KEEPALIVE_S);
    for (size_t i = 1; argv[i]; i++)
        (void)json_array_append_new(args, json_string(argv[i]));
    put_frame(out, json_pack("{s:{s:s, s:o}, s:b}", "process", "cmd", argv[0], "args",
                             args, "stdin", 1));
}

void e2b_call_input(struct e2b_call *out, const struct e2b_box *box, uint32_t pid,
                    const void *data, size_t len)
{
    auto_str struct str coded = { 0 };

    inside(out, box, "talk to the guest");
    str_puts(&out->target, "/process.Process/SendInput");
    out->again = E2B_AGAIN_NEVER; /* the guest would hear it twice */
    header(out, "Connect-Protocol-Version", "1");
    text_base64(&coded, data, len);
    put_json(out, str_ok(&coded)
                      ? json_pack("{s:{s:I}, s:{s:s}}", "process", "pid",
                                  (json_int_t)pid, "input", "stdin", coded.data)
                      : NULL);
}
