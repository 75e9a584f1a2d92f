/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/auto.h"
#include "base/fail.h"
#include "base/str.h"
#include "serve/bodies.h"
#include "serve/hold.h"
#include "serve/route.h"

/* Cells, and interpreters while they start, count like programs. Here that is held
 * already. */
static int run_cell(struct call *c, struct vial_context *context,
                    const struct blob *code, int64_t timeout_ms, char **json,
                    struct vial_error *err)
{
    const struct vial_watch watch = { .cancel_fd = -1,
                                      .stdin_fd = -1,
                                      .correlation = c->id };

    return vial_context_watch(context, code->data ? code->data : "", code->len,
                              timeout_ms, &watch, json, err);
}

static int open_context(struct call *c, struct hold *h, const char *language,
                        const char *name, struct vial_context **out,
                        struct vial_error *err)
{
    int rc;

    if (hold_start(c, err) < 0)
        return -1;
    rc = registered_context(h->session, language, name, out, err);
    hold_ended(c->caller);
    return rc;
}

/* An interpreter is named "python", or "python:mine" when there are several. *NAME is
 * where its own begins, when it is not open: *OUT NULL. */
static int look(struct call *c, struct hold *h, const char **name,
                struct vial_context **out, struct vial_error *err)
{
    char *colon = strchr(c->params[1], ':');

    if (hold_session(c, h, err) < 0)
        return -1;
    if (colon)
        *colon++ = '\0';
    *name = colon ? colon : "";
    *out = registered_open(h->session, c->params[1], *name);
    return 0;
}

/* One that is not open yet is started. It counts like a program until hold_ended. */
static int find(struct call *c, struct hold *h, struct vial_context **out,
                struct vial_error *err)
{
    const char *name;

    if (look(c, h, &name, out, err) < 0 || hold_start(c, err) < 0)
        return -1;
    if (*out || registered_context(h->session, c->params[1], name, out, err) == 0)
        return 0;
    hold_ended(c->caller);
    return -1;
}

static int run_in(struct call *c, struct hold *h, const struct blob *code,
                  int64_t timeout_ms, char **json, struct vial_error *err)
{
    struct vial_context *context;
    int rc;

    if (find(c, h, &context, err) < 0)
        return -1;
    rc = run_cell(c, context, code, timeout_ms, json, err);
    hold_ended(c->caller);
    return rc;
}

static int restart(struct call *c, struct hold *h, struct vial_error *err)
{
    struct vial_context *context;
    int rc;

    if (find(c, h, &context, err) < 0)
        return -1;
    rc = vial_context_restart(context, err);
    hold_ended(c->caller);
    return rc;
}

static int interrupt(struct call *c, struct hold *h, struct vial_error *err)
{
    struct vial_context *context;
    const char *name;

    if (look(c, h, &name, &context, err) < 0)
        return -1;
    if (context)
        return vial_context_interrupt(context, err);
    (void)fail(err, VIAL_E_CONTEXT, "interrupt '%s': no such interpreter is open",
               c->params[1]);
    return fail_remedy(err, "run a cell in it first");
}

void contexts_open(struct call *c)
{
    auto_hold struct hold h = { 0 };
    struct context_body body = { .name = "" };
    auto_str struct str id = { 0 };
    struct vial_context *context;
    struct vial_error err = { 0 };

    if (hold_session(c, &h, &err) < 0 || body_read(c, BODY_context, &body, &err) < 0 ||
        open_context(c, &h, body.language, body.name, &context, &err) < 0) {
        call_error(c, &err);
        return;
    }
    str_printf(&id, "%s%s%s", body.language, *body.name ? ":" : "", body.name);
    call_json(c, 201, json_pack("{s:s}", "context", str_ok(&id) ? id.data : ""));
}

void contexts_run(struct call *c)
{
    auto_hold struct hold h = { 0 };
    struct cell_body body = { 0 };
    struct vial_error err = { 0 };
    char *json = NULL;

    if (body_read(c, BODY_cell, &body, &err) < 0 ||
        run_in(c, &h, &body.code, body.timeout, &json, &err) < 0)
        call_error(c, &err);
    else
        call_long(c, 200, json);
}

void contexts_interrupt(struct call *c)
{
    auto_hold struct hold h = { 0 };
    struct vial_error err = { 0 };

    if (interrupt(c, &h, &err) < 0)
        call_error(c, &err);
    else
        call_done(c);
}

void contexts_restart(struct call *c)
{
    auto_hold struct hold h = { 0 };
    struct vial_error err = { 0 };

    if (restart(c, &h, &err) < 0)
        call_error(c, &err);
    else
        call_done(c);
}
