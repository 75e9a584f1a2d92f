/* SPDX-License-Identifier: Apache-2.0 */
#include "serve/sessions_at.h"

#include <stdio.h>
#include <string.h>

#include "base/auto.h"
#include "base/fail.h"
#include "base/str.h"
#include "http/http.h"
#include "serve/cors.h"
#include "serve/ports.h"
#include "serve/route.h"
#include "web/forward.h"

#define CONNECT_MS   5000
#define PORTS_CALLER "ports" /* no token and no user is called so */

/* Two daemons may read the same settings: the one that is told whom it has sessions for
 * has them. */
void sessions_at_load(struct serve *s)
{
    const struct serve_settings *c = &s->now->settings->serve;

    if (c->sessions_at && c->sessions_for.count == 0)
        (void)snprintf(s->sessions_at, sizeof(s->sessions_at), "%s",
                       c->sessions_at + strlen("unix:"));
}

static bool is_or_below(const char *path, const char *root)
{
    size_t len = strlen(root);

    return strncmp(path, root, len) == 0 && (path[len] == '/' || path[len] == '\0');
}

bool sessions_at_concerns(const struct serve *s, const struct web_request *req)
{
    const char *path = web_path(req);

    return s->sessions_at[0] &&
           (is_or_below(path, "/v1/sessions") || is_or_below(path, "/v1/snapshots") ||
            strcmp(path, "/mcp") == 0);
}

struct caller *sessions_at_caller(struct serve *s, const struct quota *quota,
                                  const struct web_request *req)
{
    if (!sessions_at_concerns(s, req) || !port_has_token(req))
        return NULL;
    return gate_unknown(&s->gate, PORTS_CALLER, quota);
}

/* A port's token is judged by who has made it. */
static int admit(struct call *c, struct vial_error *err)
{
    if (!port_has_token(c->web))
        return route_admit(c, SCOPE_SESSION, web_method(c->web), web_path(c->web), err);
    (void)snprintf(c->who.name, sizeof(c->who.name), PORTS_CALLER);
    return 0;
}

static int say_why(const struct call *c, const struct vial_error *why,
                   struct vial_error *err)
{
    (void)fail(err, VIAL_E_DAEMON,
               "the daemon that has the sessions, at '%s', does not "
               "answer",
               c->serve->sessions_at);
    (void)fail_cause(err, "%s", why->cause[0] ? why->cause : why->message);
    return fail_remedy(err, "see whether it runs, and whether 'serve.sessions_for' of "
                            "its settings names this daemon's user");
}

static int pass_on(struct call *c, struct vial_error *err)
{
    static const char *const ours[] = { "Authorization", AUTH_FOR, NULL };
    bool by_port = port_has_token(c->web);
    const char *host = web_header(c->web, "Host");
    const char *const added[] = { "X-Request-Id", c->id, by_port ? NULL : AUTH_FOR,
                                  c->who.name, NULL };
    struct vial_error why = { 0 };
    auto_str struct str target = { 0 };
    auto_fd int fd = http_unix_connect(c->serve->sessions_at, CONNECT_MS, -1, &why);
    struct web_forward how = {
        .fd = fd,
        .host = host ? host : "localhost",
        .prefix = "",
        .ours = true,
        .mark = SESSIONS_MARK,
        .added = added,
        .kept = by_port ? ours + 1 : ours,
    };

    if (fd < 0)
        return say_why(c, &why, err);
    str_printf(&target, SESSIONS_PATH "%s", web_target(c->web));
    if (!str_ok(&target))
        return fail_memory(err);
    how.target = target.data;
    if (web_forward(c->web, &how, &c->status, &why) == 0)
        return 0;
    return say_why(c, &why, err);
}

bool sessions_at_answer(struct call *c)
{
    struct vial_error err = { 0 };

    if (!sessions_at_concerns(c->serve, c->web))
        return false;
    if (admit(c, &err) < 0 || pass_on(c, &err) < 0) {
        cors_allow(c); /* an answer that is passed on says it itself */
        call_error(c, &err);
    }
    return true;
}

bool sessions_at_answers(const struct serve *s)
{
    struct vial_error why;
    auto_fd int fd = http_unix_connect(s->sessions_at, CONNECT_MS, -1, &why);

    return fd >= 0;
}
