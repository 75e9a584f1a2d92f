/* SPDX-License-Identifier: Apache-2.0 */
#include "e2b/control_network.h"

#include <stdio.h>
#include <string.h>

#include "base/fail.h"
#include "model/plan.h"
#include "model/value.h"

#define NAMES_MAX 128u /* that a gate takes */
#define HOST_MAX  255u

static bool is_address(const char *text)
{
    return strchr(text, ':') || strspn(text, "0123456789./") == strlen(text);
}

static bool is_everything(const char *text)
{
    return strcmp(text, "0.0.0.0/0") == 0 || strcmp(text, "::/0") == 0;
}

static int by_number(const char *where, const char *what, struct vial_error *err)
{
    struct shown shown = value_show(what, strlen(what));

    (void)fail(err, VIAL_E_UNSUPPORTED,
               "'%s' has '%s', which is not supported by this server", where,
               shown.text);
    return fail_remedy(err, "name hosts: programs reach none by its address here");
}

static int read_deny(struct network_wish *w, json_t *value, struct vial_error *err)
{
    json_t *item;
    size_t i;

    if (!json_is_array(value))
        return fail(err, VIAL_E_VALUE, "'network.denyOut' is not a list");
    json_array_foreach(value, i, item)
    {
        const char *text = value_string(item);

        if (!text || !is_address(text)) {
            struct shown shown = value_show(text ? text : "", text ? strlen(text) : 0);

            return fail(err, VIAL_E_VALUE, "invalid denied CIDR %s", shown.text);
        }
        if (!is_everything(text))
            return by_number("network.denyOut", text, err);
        w->closed = true;
    }
    return 0;
}

static int read_allow(struct network_wish *w, json_t *value, struct vial_error *err)
{
    json_t *item;
    size_t i;

    if (!json_is_array(value) || json_array_size(value) > NAMES_MAX)
        return fail(err, VIAL_E_VALUE,
                    "'network.allowOut' is not a list of at most %u names", NAMES_MAX);
    json_array_foreach(value, i, item)
    {
        const char *text = value_string(item);

        if (!text)
            return fail(err, VIAL_E_VALUE, "'network.allowOut' is not a list of texts");
        if (is_address(text))
            return by_number("network.allowOut", text, err);
    }
    w->names = json_array_size(value) ? value : NULL;
    return 0;
}

/* Nothing that could end a header. */
static int read_mask(struct network_wish *w, json_t *value, struct vial_error *err)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                  "0123456789.-_:${}[]";
    const char *text = value_string(value);

    (void)w;
    if (!text || !*text || strlen(text) > HOST_MAX ||
        strspn(text, letters) != strlen(text))
        return fail(err, VIAL_E_VALUE, "'network.maskRequestHost' is not a host");
    return 0;
}

static int read_public(struct network_wish *w, json_t *value, struct vial_error *err)
{
    if (!json_is_boolean(value))
        return fail(err, VIAL_E_VALUE,
                    "'network.allowPublicTraffic' is not true or false");
    w->guarded = json_is_false(value);
    return 0;
}

static const struct {
    const char *name;
    int (*read)(struct network_wish *w, json_t *value, struct vial_error *err);
} members[] = {
    { "allowPublicTraffic", read_public },
    { "allowOut", read_allow },
    { "denyOut", read_deny },
    { "maskRequestHost", read_mask },
};

static bool is_empty(const json_t *value)
{
    return json_is_null(value) || json_is_false(value) ||
           (json_is_array(value) && json_array_size(value) == 0) ||
           (json_is_object(value) && json_object_size(value) == 0);
}

static int read_member(struct network_wish *w, const char *name, json_t *value,
                       struct vial_error *err)
{
    struct shown shown = value_show(name, strlen(name));

    for (size_t i = 0; i < sizeof(members) / sizeof(members[0]); i++)
        if (strcmp(members[i].name, name) == 0)
            return json_is_null(value) ? 0 : members[i].read(w, value, err);
    if (is_empty(value))
        return 0;
    return fail(err, VIAL_E_UNSUPPORTED,
                "'network.%.60s' is not supported by this server", shown.text);
}

int network_read(struct network_wish *w, json_t *value, struct vial_error *err)
{
    const char *name;
    json_t *inside;

    if (!json_is_object(value))
        return fail(err, VIAL_E_VALUE, "'network' is not an object");
    w->given = value;
    json_object_foreach(value, name,
                        inside) if (read_member(w, name, inside, err) < 0) return -1;
    return 0;
}

int network_read_internet(struct network_wish *w, json_t *value, struct vial_error *err)
{
    if (!json_is_boolean(value))
        return fail(err, VIAL_E_VALUE, "'allow_internet_access' is not true or false");
    w->closed = w->closed || json_is_false(value);
    return 0;
}

int network_check(const struct network_wish *w, struct vial_error *err)
{
    if (!w->names || w->closed)
        return 0;
    return fail(err, VIAL_E_VALUE,
                "'network.allowOut' needs '0.0.0.0/0' in 'network.denyOut'");
}

/* Whether callers may have a gate: the policy says so in so many words. */
static bool may_have_gate(const struct settings *settings)
{
    return settings->defaults.network == NETWORK_GATE ||
           (settings->defaults.network == NETWORK_NONE &&
            strv_has(&settings->policy.networks, "gate"));
}

/* What nobody narrowed: the operator's names; else all that are public. */
static json_t *usual_names(const struct settings *settings)
{
    const struct strv *names = settings->defaults.allow.count
                                   ? &settings->defaults.allow
                                   : &settings->policy.allow;
    json_t *list = json_array();

    for (size_t i = 0; list && i < names->count; i++)
        (void)json_array_append_new(list, json_string(names->items[i]));
    if (list && names->count == 0)
        (void)json_array_append_new(list, json_string("*"));
    return list;
}

int network_ask(const struct network_wish *w, const struct settings *settings,
                json_t *request, bool *online, struct vial_error *err)
{
    json_t *names;

    *online = settings->defaults.network != NETWORK_NONE;
    if (!may_have_gate(settings)) {
        if (w->names || (w->closed && *online))
            return fail(err, VIAL_E_UNSUPPORTED,
                        "lists of 'network' are not supported by this server: its "
                        "policy has no gate");
        return 0;
    }
    names = w->names    ? json_incref(w->names)
            : w->closed ? json_array()
                        : usual_names(settings);
    *online = json_array_size(names) > 0;
    if (!names || json_object_set_new(request, "network", json_string("gate")) < 0 ||
        json_object_set(request, "allow", names) < 0) {
        json_decref(names);
        return fail_memory(err);
    }
    json_decref(names);
    return 0;
}
