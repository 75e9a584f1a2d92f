/* SPDX-License-Identifier: Apache-2.0 */

/* A sandbox's network, changed while it is open: its gate takes another list of what it
 * lets out, within what it was opened with. What it denies stays as it was. */

#include "base/auto.h"
#include "base/fail.h"
#include "e2b/control.h"
#include "e2b/egress.h"

#include "vial/session.h"

static json_t *merge(const json_t *network, json_t *egress)
{
    json_t *whole = network ? json_deep_copy(network) : json_object();

    if (!whole)
        return NULL;
    (void)json_object_del(whole, "allowOut");
    (void)json_object_del(whole, "denyOut");
    if (json_object_update(whole, egress) == 0)
        return whole;
    json_decref(whole);
    return NULL;
}

struct control_egress control_egress(struct box *box)
{
    struct control_egress now;

    (void)pthread_mutex_lock(&box->lock);
    now.network =
        box->egress ? merge(box->network, box->egress) : json_incref(box->network);
    /* Whoever forks it, and is told too little for want of memory, reaches nothing. */
    now.closed = box->closed || (box->egress && !now.network);
    now.online = box->online;
    (void)pthread_mutex_unlock(&box->lock);
    return now;
}

static bool has(const json_t *list, const json_t *text)
{
    const json_t *item;
    size_t i;

    json_array_foreach(list, i, item) if (json_equal(item, text)) return true;
    return false;
}

static bool is_same(const json_t *a, const json_t *b)
{
    const json_t *item;
    size_t i;

    json_array_foreach(a, i, item) if (!has(b, item)) return false;
    json_array_foreach(b, i, item) if (!has(a, item)) return false;
    return true;
}

/* A gate's list of what it denies was made with it. */
static int check_denied(const struct box *box, const struct network_wish *w,
                        const struct network_rules *rules, struct vial_error *err)
{
    const char *meets = egress_meets(w->allowed, box->denied);

    if (meets) {
        (void)fail(err, VIAL_E_POLICY,
                   "'network.allowOut' has '%s', which the sandbox was created without",
                   meets);
        return fail_remedy(err, "create another sandbox that allows it");
    }
    if ((w->closed && !w->all) || is_same(rules->deny, box->denied))
        return 0;
    (void)fail(err, VIAL_E_UNSUPPORTED,
               "'network.denyOut' of an open sandbox can only be what it was created "
               "with, or have '0.0.0.0/0'");
    return fail_remedy(err, "deny '0.0.0.0/0' and allow what is needed, or give "
                            "'network' when it is created");
}

static int tell_gate(const struct box *box, const json_t *allow, struct vial_error *err)
{
    size_t count = json_array_size(allow);
    auto_free const char **entries = calloc(count + 1, sizeof(*entries));

    if (!entries)
        return fail_memory(err);
    for (size_t i = 0; i < count; i++)
        entries[i] = json_string_value(json_array_get(allow, i));
    return vial_session_allow(box_session(box), entries, count, err);
}

static void keep(struct box *box, json_t *egress, const struct network_wish *w,
                 const struct network_rules *rules)
{
    (void)pthread_mutex_lock(&box->lock);
    json_decref(box->egress);
    box->egress = egress;
    box->closed = w->closed;
    box->online = rules->online;
    (void)pthread_mutex_unlock(&box->lock);
}

static int change(struct box *box, const struct network_wish *w,
                  const struct network_rules *rules, struct vial_error *err)
{
    json_t *egress =
        json_pack("{s:O*, s:O*}", "allowOut", w->allowed, "denyOut", w->denied);
    int rc;

    if (!egress)
        return fail_memory(err);
    /* Two changes at once are kept in the order in which the gate was told. */
    (void)pthread_mutex_lock(&box->leasing);
    rc = tell_gate(box, rules->allow, err);
    if (rc == 0)
        keep(box, egress, w, rules);
    (void)pthread_mutex_unlock(&box->leasing);
    if (rc < 0)
        json_decref(egress);
    return rc;
}

static int update(struct ask *a, struct box *box, struct vial_error *err)
{
    auto_json json_t *body = NULL;
    auto_network_rules struct network_rules rules = { 0 };
    struct network_wish w = { 0 };

    if (ask_body(a, &body, err) < 0 || network_read_update(&w, body, err) < 0 ||
        network_rules(&w, a->turn->settings, &rules, err) < 0)
        return -1;
    if (!rules.gated) /* the operator has thought better of it since */
        return fail(err, VIAL_E_POLICY, "this server's policy has no gate");
    return check_denied(box, &w, &rules, err) < 0 ? -1 : change(box, &w, &rules, err);
}

void control_update_network(struct ask *a)
{
    auto_box struct box *box = control_own(a);
    struct vial_error err = { 0 };

    if (!box)
        return;
    if (!box->gated)
        ask_refuse(
            a, 501,
            "the network of this sandbox cannot be changed: this server's policy "
            "has no gate");
    else if (atomic_load(&box->paused_ms))
        ask_refuse(a, 409, "sandbox '%s' is paused", box->id);
    else if (update(a, box, &err) < 0)
        ask_error(a, &err);
    else
        ask_done(a);
}
