/* SPDX-License-Identifier: Apache-2.0 */

/* A request's program in a session, from its plan to its result. */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/fail.h"
#include "engine/session/keep_call.h"
#include "model/field_type.h"
#include "model/language.h"
#include "model/result.h"

/* The session's variables, and over them the request's. */
static int join_env(const struct plan *open, const struct vial_request *req,
                    struct strv *out, struct vial_error *err)
{
    const struct strv *from[] = { &open->env, &req->env };

    for (size_t list = 0; list < 2; list++)
        for (size_t i = list ? 0 : open->env_own; i < from[list]->count; i++) {
            const char *entry = from[list]->items[i];
            size_t len = strcspn(entry, "=");

            if (field_put_env(out, entry, len, entry + len + 1) < 0)
                return fail_memory(err);
        }
    return 0;
}

/* What a run of its own would have from the settings, it has from the session. */
static int complete(const struct vial_session *s, const struct vial_request *req,
                    struct vial_request *whole, struct vial_error *err)
{
    const struct plan *open = s->plan;
    struct strv env = { 0 };

    if (kept_call_check(req, err) < 0 || request_fill(whole, req, err) < 0 ||
        request_set_text(whole, FIELD_ID_driver, s->driver->name,
                         strlen(s->driver->name), "session", err) < 0)
        return -1;
    if (open->image && request_set_text(whole, FIELD_ID_image, open->image,
                                        strlen(open->image), "session", err) < 0)
        return -1;
    if (join_env(open, req, &env, err) < 0) {
        strv_done(&env);
        return -1;
    }
    strv_done(&whole->env);
    whole->env = env;
    whole->set |= FIELD_BIT(FIELD_ID_env);
    if (!request_has(whole, timeout))
        whole->timeout = open->limits.wall_ms;
    whole->set |= FIELD_BIT(FIELD_ID_timeout);
    return 0;
}

int session_check_profile(const struct vial_session *s, const struct language *l,
                          struct vial_error *err)
{
    if (!l->seccomp_file || str_eq(l->seccomp_file, s->plan->seccomp_file))
        return 0;
    (void)fail(err, VIAL_E_UNSUPPORTED,
               "language '%s' has a seccomp profile of its own, which this session was "
               "opened without",
               l->name);
    return fail_remedy(err, "run it in a vessel of its own");
}

static int check_language(const struct vial_session *s, const struct plan *plan,
                          struct vial_error *err)
{
    const struct language *l = NULL;

    if (!plan->language)
        return 0;
    if (language_find(&s->engine->settings->languages, plan->language, &l, err) < 0)
        return -1;
    return session_check_profile(s, l, err);
}

static int replace(char **text, const char *with, struct vial_error *err)
{
    char *copy = strdup(with);

    if (!copy)
        return fail_memory(err);
    free(*text);
    *text = copy;
    return 0;
}

static int make_plan(const struct vial_session *s, const struct vial_request *req,
                     struct plan **out, struct vial_error *err)
{
    auto_request struct vial_request whole = { 0 };
    auto_plan struct plan *plan = NULL;
    const struct driver *driver = NULL;

    if (complete(s, req, &whole, err) < 0 ||
        engine_plan(s->engine, &whole, &driver, &plan, err) < 0 ||
        check_language(s, plan, err) < 0 ||
        replace(&plan->workdir, s->plan->workdir, err) < 0)
        return -1;
    if (!request_has(req, cwd) && replace(&plan->cwd, s->plan->cwd, err) < 0)
        return -1;
    *out = ptr_take(&plan);
    return 0;
}

int vial_session_run(struct vial_session *session, const struct vial_request *req,
                     const struct vial_watch *watch, struct vial_result **out,
                     struct vial_error *err)
{
    static const struct vial_watch nobody = { .cancel_fd = -1, .stdin_fd = -1 };
    auto_plan struct plan *plan = NULL;
    struct kept_call c = { .session = session, .watch = watch ? watch : &nobody };
    struct vial_result *r;
    int rc;

    if (make_plan(session, req, &plan, err) < 0)
        return -1;
    c.plan = plan;
    r = kept_call_result(plan);
    if (!r)
        return fail_memory(err);
    rc = engine_reserve(session->engine, plan, c.watch, r, err);
    if (rc == 0)
        rc = kept_call_run(&c, r, err);
    result_settle(r);
    if (rc == 0)
        *out = r;
    else
        vial_result_free(r);
    return rc;
}
