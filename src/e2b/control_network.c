/* SPDX-License-Identifier: Apache-2.0 */
#include "e2b/control_network.h"

#include <stdio.h>
#include <string.h>

#include "base/fail.h"
#include "base/json.h"
#include "e2b/egress.h"
#include "model/plan.h"
#include "model/value.h"

#define HOST_MAX 255u

static bool is_address(const char *text)
{
    return strchr(text, ':') || strspn(text, "0123456789./") == strlen(text);
}

static int check_list(const char *where, const json_t *value, struct vial_error *err)
{
    if (json_is_array(value) && json_array_size(value) <= EGRESS_MOST)
        return 0;
    return fail(err, VIAL_E_VALUE, "'%s' is not a list of at most %u texts", where,
                EGRESS_MOST);
}

static int read_deny(struct network_wish *w, json_t *value, struct vial_error *err)
{
    json_t *item;
    size_t i;

    if (check_list("network.denyOut", value, err) < 0)
        return -1;
    json_array_foreach(value, i, item)
    {
        const char *text = value_string(item);
        struct range range;

        if (!text || !egress_parse(text, &range)) {
            struct shown shown = value_show(text ? text : "", text ? strlen(text) : 0);

            return fail(err, VIAL_E_VALUE, "invalid denied CIDR %s", shown.text);
        }
        w->closed = w->closed || egress_is_all(&range);
    }
    w->denied = json_array_size(value) ? value : NULL;
    return 0;
}

static int no_address(const char *text, struct vial_error *err)
{
    struct shown shown = value_show(text, strlen(text));

    (void)fail(err, VIAL_E_VALUE,
               "'network.allowOut' has '%s', which is not an address", shown.text);
    return fail_remedy(err, "write NAME, ADDRESS or ADDRESS/BITS, without ports");
}

static int read_allow(struct network_wish *w, json_t *value, struct vial_error *err)
{
    json_t *item;
    size_t i;

    if (check_list("network.allowOut", value, err) < 0)
        return -1;
    json_array_foreach(value, i, item)
    {
        const char *text = value_string(item);
        struct range range;

        if (!text)
            return fail(err, VIAL_E_VALUE, "'network.allowOut' is not a list of texts");
        if (!is_address(text))
            w->has_names = true;
        else if (!egress_parse(text, &range))
            return no_address(text, err);
        else
            w->all = w->all || egress_is_all(&range);
    }
    w->allowed = json_array_size(value) ? value : NULL;
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
    bool once; /* it is as the sandbox was made */
} members[] = {
    { "allowPublicTraffic", read_public, .once = true },
    { "allowOut", read_allow, .once = false },
    { "denyOut", read_deny, .once = false },
    { "maskRequestHost", read_mask, .once = true },
};

static bool is_empty(const json_t *value)
{
    return json_is_null(value) || json_is_false(value) ||
           (json_is_array(value) && json_array_size(value) == 0) ||
           (json_is_object(value) && json_object_size(value) == 0);
}

static int read_member(struct network_wish *w, const char *name, json_t *value,
                       bool update, struct vial_error *err)
{
    struct shown shown = value_show(name, strlen(name));

    for (size_t i = 0; i < sizeof(members) / sizeof(members[0]); i++)
        if (strcmp(members[i].name, name) == 0 && !(update && members[i].once))
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
    json_object_foreach(value, name, inside) if (read_member(w, name, inside, false,
                                                             err) < 0) return -1;
    return 0;
}

int network_read_update(struct network_wish *w, json_t *body, struct vial_error *err)
{
    const char *name;
    json_t *value;

    json_object_foreach(body, name, value)
    {
        bool internet = strcmp(name, "allow_internet_access") == 0;

        if (internet && json_is_null(value))
            continue;
        if ((internet ? network_read_internet(w, value, err)
                      : read_member(w, name, value, true, err)) < 0)
            return -1;
    }
    return network_check(w, err);
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
    if (!w->has_names || w->closed)
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

/* An address is allowed as it is, or on the ports that the operator has for it. */
static int allow_each(const struct network_wish *w, const json_t *usual, json_t *allow,
                      struct vial_error *err)
{
    json_t *item;
    size_t i;

    json_array_foreach(w->allowed, i, item)
    {
        struct range range;

        if (!egress_parse(json_string_value(item), &range)) {
            if (json_array_append(allow, item) < 0)
                return fail_memory(err);
        } else if (egress_allow(&range, usual, allow, err) < 0)
            return -1;
    }
    return 0;
}

/* What is allowed wins: of a closed network nothing else is left to deny. */
static int make_lists(const struct network_wish *w, const struct settings *settings,
                      struct network_rules *out, struct vial_error *err)
{
    auto_json json_t *usual = usual_names(settings);
    bool all = w->all || !w->closed;

    out->allow = json_array();
    out->deny = json_array();
    if (!usual || !out->allow || !out->deny ||
        (all && json_array_extend(out->allow, usual) < 0))
        return fail_memory(err);
    if (allow_each(w, usual, out->allow, err) < 0)
        return -1;
    out->online = json_array_size(out->allow) > 0;
    return w->all || w->closed
               ? 0
               : egress_deny(w->denied, w->allowed, &settings->policy, out->deny, err);
}

int network_rules(const struct network_wish *w, const struct settings *settings,
                  struct network_rules *out, struct vial_error *err)
{
    *out = (struct network_rules){ 0 };
    if (!may_have_gate(settings)) {
        out->online = settings->defaults.network != NETWORK_NONE;
        if (w->allowed || ((w->closed || w->denied) && out->online))
            return fail(err, VIAL_E_UNSUPPORTED,
                        "lists of 'network' are not supported by this server: its "
                        "policy has no gate");
        return 0;
    }
    out->gated = true;
    if (make_lists(w, settings, out, err) == 0)
        return 0;
    network_rules_done(out);
    return -1;
}

void network_rules_done(struct network_rules *r)
{
    json_decref(r->allow);
    json_decref(r->deny);
    *r = (struct network_rules){ 0 };
}

/* A request's list takes the place of the operator's usual one, which holds all the
 * same. */
static json_t *whole_deny(const struct network_rules *r,
                          const struct settings *settings)
{
    const struct strv *usual = &settings->defaults.deny;
    json_t *list = json_copy(r->deny);

    for (size_t i = 0; list && i < usual->count; i++) {
        if (json_array_append_new(list, json_string(usual->items[i])) == 0)
            continue;
        json_decref(list);
        return NULL;
    }
    return list;
}

int network_ask(const struct network_rules *r, const struct settings *settings,
                json_t *request, struct vial_error *err)
{
    if (!r->gated)
        return 0;
    if (json_object_set_new(request, "network", json_string("gate")) < 0 ||
        json_object_set(request, "allow", r->allow) < 0 ||
        (json_array_size(r->deny) > 0 &&
         json_object_set_new(request, "deny", whole_deny(r, settings)) < 0))
        return fail_memory(err);
    return 0;
}
