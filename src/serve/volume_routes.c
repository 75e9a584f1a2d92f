/* SPDX-License-Identifier: Apache-2.0 */

/* Volumes of a daemon's callers. Who may have one is the policy's to say, as for those
 * that a request names; who makes and removes it: its owner, whose name it begins with,
 * and an administrator. */

#include <string.h>

#include "api/inside.h"
#include "base/auto.h"
#include "base/fail.h"
#include "base/json.h"
#include "base/str.h"
#include "model/volume.h"
#include "serve/bodies.h"
#include "serve/job.h"
#include "serve/route.h"

static bool is_admin(const struct call *c)
{
    return c->who.scopes & SCOPE_ADMIN;
}

static bool is_own(const struct call *c, const char *name)
{
    const char *token = auth_token_name(&c->who);
    size_t len = strlen(token);

    return len > 0 && strncmp(name, token, len) == 0 && name[len] == '/';
}

/* An administrator may be anybody. */
static int check_use(const struct call *c, const char *name, bool writable,
                     struct vial_error *err)
{
    const struct policy *p = &c->gen->settings->policy;

    if (!volume_name_ok(name)) {
        (void)fail(err, VIAL_E_VALUE, "'%.80s' is no name of a volume", name);
        return fail_remedy(err, "a name is one or two parts, with '/' between them, of "
                                "letters, digits, '.', '_' and '-'");
    }
    return job_volumes_said(c, err) < 0
               ? -1
               : volume_check_policy(p, is_admin(c) ? NULL : auth_token_name(&c->who),
                                     name, writable, err);
}

static int check_owner(const struct call *c, const char *name, struct vial_error *err)
{
    const char *token = auth_token_name(&c->who);

    if (is_admin(c) || is_own(c, name))
        return check_use(c, name, true, err);
    (void)fail(err, VIAL_E_POLICY, "volume '%.140s' is not its caller's own", name);
    if (!token[0])
        return fail_remedy(err, "volumes of one's own are for callers with a token");
    return fail_remedy(err, "call it '%.64s/NAME', or ask an administrator", token);
}

/* The keeper has few places for this, of which each caller leaves others some. */
static void in_turn(struct call *c, void (*handle)(struct call *c))
{
    struct gate *gate = &c->serve->gate;
    struct caller *caller = c->caller;
    struct vial_error err = { 0 };

    if (gate_take_volumes(gate, caller, &err) < 0) {
        call_error(c, &err);
        return;
    }
    handle(c);
    gate_give(gate, caller, GATE_VOLUMES, 1);
}

static void list(struct call *c)
{
    struct vial_error err = { 0 };
    auto_json json_t *mine = json_array();
    auto_json json_t *all = NULL;
    json_t *row;
    size_t i;

    if (job_volumes_said(c, &err) < 0 ||
        inside_volumes(c->gen->engine, &all, &err) < 0) {
        call_error(c, &err);
        return;
    }
    json_array_foreach(all, i, row)
    {
        const char *name = json_string_value(json_object_get(row, "name"));

        if (check_use(c, name, false, NULL) == 0)
            (void)json_array_append(mine, row);
    }
    call_json(c, 200, ptr_take(&mine));
}

/* Answers with NAME as it is now. */
static void answer(struct call *c, unsigned status, const char *name)
{
    struct vial_error err = { 0 };
    json_t *row = NULL;

    if (inside_volume(c->gen->engine, name, &row, &err) < 0)
        call_error(c, &err);
    else
        call_json(c, status, row);
}

static void look(struct call *c)
{
    struct vial_error err = { 0 };

    if (check_use(c, c->params[0], false, &err) < 0)
        call_error(c, &err);
    else
        answer(c, 200, c->params[0]);
}

static int read_wanted(struct call *c, struct inside_volume *out,
                       struct vial_error *err)
{
    struct volume_body body = { 0 };

    if (body_read(c, BODY_volume, &body, err) < 0)
        return -1;
    *out = (struct inside_volume){ .name = body.name,
                                   .many = str_eq(body.writers, "many"),
                                   .size = body.size };
    if (!body.writers || out->many || str_eq(body.writers, "one"))
        return 0;
    (void)fail(err, VIAL_E_VALUE, "writers '%.40s' is not one or many", body.writers);
    return fail_remedy(err, "leave it out for one");
}

static void create(struct call *c)
{
    struct inside_volume wanted = { 0 };
    struct vial_error err = { 0 };

    if (read_wanted(c, &wanted, &err) < 0 || check_owner(c, wanted.name, &err) < 0 ||
        inside_volume_create(c->gen->engine, c->who.name, &wanted, &err) < 0)
        call_error(c, &err);
    else
        answer(c, 201, wanted.name);
}

static void remove_named(struct call *c)
{
    struct vial_error err = { 0 };

    if (check_owner(c, c->params[0], &err) < 0 ||
        inside_volume_remove(c->gen->engine, c->who.name, c->params[0], &err) < 0)
        call_error(c, &err);
    else
        call_done(c);
}

void volumes_list(struct call *c)
{
    in_turn(c, list);
}

void volumes_get(struct call *c)
{
    in_turn(c, look);
}

void volumes_create(struct call *c)
{
    in_turn(c, create);
}

void volumes_remove(struct call *c)
{
    in_turn(c, remove_named);
}
