/* SPDX-License-Identifier: Apache-2.0 */

/* Volumes are made, listed and removed, and shown in sandboxes. */

#include <stdio.h>
#include <string.h>

#include "api/inside.h"
#include "base/auto.h"
#include "base/fail.h"
#include "base/str.h"
#include "e2b/control.h"
#include "e2b/volume_seen.h"
#include "model/value.h"

#define MOUNTS 16u

static void answer(struct ask *a, unsigned status, const char *name)
{
    struct vial_error err = { 0 };
    char token[BOX_TOKEN];
    char id[VOLUME_NAME];

    volume_id(name, id);
    if (volume_key_tell(a, name, token, &err) < 0)
        ask_error(a, &err);
    else
        ask_json(a, status,
                 json_pack("{s:s, s:s, s:s, s:s?}", "volumeID", id, "name",
                           volume_shown(a, name), "token", token, "domain",
                           control_domain(a)));
}

static int name_own(struct ask *a, const char *given, char out[VOLUME_NAME],
                    struct vial_error *err)
{
    auto_str struct str name = { 0 };

    str_printf(&name, "%s/%s", a->owner.part, given ? given : "");
    if (!given || !str_ok(&name) || !volume_name_ok(name.data)) {
        (void)fail(err, VIAL_E_VALUE, "'name' is not the name of a volume");
        return fail_remedy(err, "it has at most 64 letters, digits, '.', '_' and '-', "
                                "and begins with a letter or a digit");
    }
    (void)snprintf(out, VOLUME_NAME, "%s", name.data);
    return 0;
}

/* As with E2B, any number of sandboxes may write to one. */
static int make(struct ask *a, const char *given, char name[VOLUME_NAME],
                struct vial_error *err)
{
    const struct policy *p = &a->turn->settings->policy;
    const struct inside_volume wanted = { .name = name, .many = true };

    if (name_own(a, given, name, err) < 0 || volume_check_said(p, err) < 0 ||
        volume_check_policy(p, a->owner.part, name, true, err) < 0)
        return -1;
    return inside_volume_create(a->turn->engine, a->owner.name, &wanted, err);
}

static void create(struct ask *a)
{
    static const char *const known[] = { "name" };
    auto_json json_t *body = NULL;
    struct vial_error err = { 0 };
    char name[VOLUME_NAME];

    if (ask_body(a, &body, &err) < 0 ||
        ask_check_members(body, known, 1, "", &err) < 0 ||
        make(a, value_string(json_object_get(body, "name")), name, &err) < 0)
        ask_error(a, &err);
    else
        answer(a, 201, name);
}

static void look(struct ask *a)
{
    struct volume_seen v = { 0 };
    struct vial_error err = { 0 };

    if (volume_by_id(a, a->arg, &v, &err) < 0)
        ask_error(a, &err);
    else
        answer(a, 200, v.name);
}

static void list(struct ask *a)
{
    const struct policy *p = &a->turn->settings->policy;
    auto_json json_t *all = NULL;
    json_t *mine = json_array();
    struct vial_error err = { 0 };
    char id[VOLUME_NAME];
    json_t *row;
    size_t i;

    if (volume_check_said(p, &err) < 0 ||
        inside_volumes(a->turn->engine, &all, &err) < 0) {
        json_decref(mine);
        ask_error(a, &err);
        return;
    }
    json_array_foreach(all, i, row)
    {
        const char *name = json_string_value(json_object_get(row, "name"));

        if (volume_check_policy(p, a->owner.part, name, false, NULL) < 0)
            continue;
        volume_id(name, id);
        (void)json_array_append_new(mine, json_pack("{s:s, s:s}", "volumeID", id,
                                                    "name", volume_shown(a, name)));
    }
    ask_json(a, 200, mine);
}

static int take_away(struct ask *a, struct vial_error *err)
{
    struct volume_seen v = { 0 };

    if (volume_by_id(a, a->arg, &v, err) < 0)
        return -1;
    if (!v.own)
        return fail(err, VIAL_E_POLICY, "volume '%s' is not its caller's own", v.name);
    volume_keys_wait(a->e2b, v.name);
    if (inside_volume_remove(a->turn->engine, a->owner.name, v.name, err) < 0)
        return -1;
    volume_keys_drop(a->e2b, v.name);
    return 0;
}

static void remove_named(struct ask *a)
{
    struct vial_error err = { 0 };

    if (take_away(a, &err) < 0)
        ask_error(a, &err);
    else
        ask_done(a);
}

/* The keeper has few places for this, of which each caller leaves others some. */
static void in_turn(struct ask *a, ask_handler *handle)
{
    struct gate *gate = a->e2b->options.gate;
    struct vial_error err = { 0 };

    if (gate_take_volumes(gate, a->caller, &err) < 0) {
        ask_error(a, &err);
        return;
    }
    handle(a);
    gate_give(gate, a->caller, GATE_VOLUMES, 1);
}

void control_volume_create(struct ask *a)
{
    in_turn(a, create);
}

void control_volume_get(struct ask *a)
{
    in_turn(a, look);
}

void control_volumes(struct ask *a)
{
    in_turn(a, list);
}

void control_volume_delete(struct ask *a)
{
    in_turn(a, remove_named);
}

/* One of `volumeMounts`, which is the request's as well as what getInfo() tells. */
static json_t *read_mount(struct ask *a, const json_t *mount, struct vial_error *err)
{
    const char *name = value_string(json_object_get(mount, "name"));
    const char *path = value_string(json_object_get(mount, "path"));
    struct volume_seen v = { 0 };

    if (!name || !path || json_object_size(mount) != 2) {
        (void)fail(err, VIAL_E_VALUE,
                   "'volumeMounts' is not a list of {\"name\", \"path\"}");
        return NULL;
    }
    return volume_by_name(a, name, &v, err) < 0 ? NULL : volume_mount(&v, path, err);
}

int control_mounts(struct ask *a, struct wish *w, json_t **out, struct vial_error *err)
{
    size_t i;
    json_t *mount;

    *out = json_array();
    if (json_array_size(w->mounts) > MOUNTS)
        return fail(err, VIAL_E_VALUE, "'volumeMounts' has more than %u", MOUNTS);
    json_array_foreach(w->mounts, i, mount)
    {
        json_t *text = read_mount(a, mount, err);

        if (!text)
            return -1;
        if (json_array_append_new(*out, text) < 0)
            return fail_memory(err);
    }
    w->volumes = *out;
    return 0;
}
