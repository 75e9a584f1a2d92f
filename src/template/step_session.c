/* SPDX-License-Identifier: Apache-2.0 */

/* The vessel of a step, and the program in it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "api/inside.h"
#include "base/auto.h"
#include "base/fail.h"
#include "base/json.h"
#include "base/name_rule.h"
#include "images/store_ids.h"
#include "model/policy.h"
#include "template/build_state.h"

#define LEASE_MS    (INT64_C(24) * 3600 * 1000)
#define PRINTED_MAX 4096

/* What steps have unless the caller says otherwise, as far as the policy lets them. */
static const struct usual {
    enum field_id id;
    const char *name;
    int64_t value;
    const char *unit;
} usual[] = {
    { FIELD_ID_memory, "memory", INT64_C(4) << 30, "" },
    { FIELD_ID_disk, "disk", INT64_C(2) << 30, "" },
    { FIELD_ID_tmp, "tmp", INT64_C(1) << 30, "" },
    { FIELD_ID_inodes, "inodes", 400000, "" },
    { FIELD_ID_pids, "pids", 1024, "" },
    { FIELD_ID_timeout, "timeout", 15 * 60 * 1000, "ms" },
};

static void add_usual(const struct build *b, json_t *request)
{
    const struct policy *policy = &inside_settings(b->order->engine)->policy;

    for (size_t i = 0; i < sizeof(usual) / sizeof(*usual); i++) {
        int64_t cap = policy_cap(policy, usual[i].id);
        int64_t value = usual[i].value < cap ? usual[i].value : cap;
        char text[32];

        (void)snprintf(text, sizeof(text), "%lld%s", (long long)value, usual[i].unit);
        if (json_object_get(request, usual[i].name))
            continue;
        if (usual[i].id == FIELD_ID_inodes || usual[i].id == FIELD_ID_pids)
            (void)json_object_set_new(request, usual[i].name, json_integer(value));
        else
            (void)json_object_set_new(request, usual[i].name, json_string(text));
    }
}

static const struct vial_request *defaults_of(const struct build *b)
{
    return &inside_settings(b->order->engine)->defaults;
}

/* Whether the caller chose the network, by flags or by settings. */
static bool is_network_chosen(const struct build *b)
{
    const struct vial_request *own = defaults_of(b);

    return json_object_get(b->order->fields, "network") ||
           json_object_get(b->order->fields, "allow") ||
           (request_has(own, network) && !((own->builtin >> FIELD_ID_network) & 1u));
}

/* What the template's package managers must reach, unless the caller says. */
static void add_network(const struct build *b, json_t *request)
{
    const struct strv *allow = &b->t->allow;
    json_t *names = NULL;

    if (allow->count == 0 || is_network_chosen(b))
        return;
    names = json_array();
    for (size_t i = 0; i < allow->count; i++)
        (void)json_array_append_new(names, json_string(allow->items[i]));
    (void)json_object_set_new(request, "network", json_string("gate"));
    (void)json_object_set_new(request, "allow", names);
}

/* What steps will reach through a gate. */
static void list_reachable(const struct build *b, struct strv *out)
{
    json_t *flags = json_object_get(b->order->fields, "allow");
    json_t *name = NULL;
    size_t i = 0;

    json_array_foreach(flags, i, name)
    {
        strv_push(out, json_string_value(name));
    }
    if (!flags)
        strv_copy(out, is_network_chosen(b) ? &defaults_of(b)->allow : &b->t->allow);
}

static bool is_reachable(const struct strv *reachable, const char *name)
{
    struct name_rule narrow;
    struct name_rule wide;
    bool is_rule = !name_rule_parse_any(name, &narrow);

    for (size_t i = 0; i < reachable->count; i++)
        if (strcmp(reachable->items[i], name) == 0 ||
            (is_rule && !name_rule_parse_any(reachable->items[i], &wide) &&
             name_rule_covers(&wide, &narrow)))
            return true;
    return false;
}

static int refuse_network(const struct build *b, const struct strv *missing,
                          struct vial_error *err)
{
    auto_str struct str names = { 0 };
    auto_str struct str flags = { 0 };

    for (size_t i = 0; i < b->t->allow.count; i++)
        str_printf(&flags, " --allow %s", b->t->allow.items[i]);
    for (size_t i = 0; i < b->t->wanted.count; i++)
        str_printf(&flags, " --allow %s", b->t->wanted.items[i]);
    for (size_t i = 0; i < missing->count; i++)
        str_printf(&names, "%s%s", i ? ", " : "", missing->items[i]);
    if (!str_ok(&names) || !str_ok(&flags))
        return fail_memory(err);
    (void)fail(err, VIAL_E_TEMPLATE,
               "its key 'network' wants %.200s, which only the caller can allow",
               names.data);
    return fail_remedy(err, "if you trust it with that: '--network gate%.180s'",
                       flags.data);
}

int step_check_network(const struct build *b, struct vial_error *err)
{
    const char *mode = json_string_value(json_object_get(b->order->fields, "network"));
    auto_strv struct strv reachable = { 0 };
    auto_strv struct strv missing = { 0 };

    if (str_eq(mode, "none"))
        return 0;
    list_reachable(b, &reachable);
    for (size_t i = 0; i < b->t->wanted.count; i++)
        if (!is_reachable(&reachable, b->t->wanted.items[i]))
            strv_push(&missing, b->t->wanted.items[i]);
    if (reachable.failed || missing.failed)
        return fail_memory(err);
    return missing.count > 0 ? refuse_network(b, &missing, err) : 0;
}

static int make_request(json_t *asked, struct vial_request **out,
                        struct vial_error *err)
{
    auto_free char *text = asked ? json_dumps(asked, JSON_COMPACT) : NULL;

    if (!text)
        return fail_memory(err);
    return vial_request_parse(text, strlen(text), out, err);
}

/* An ordinary user's vessel has one user, who owns all files and is not root, unless
 * his store's files are of a range of ids. */
static bool has_root(const struct build *b)
{
    struct vial_error ignored = { 0 };
    auto_free char *store = NULL;
    struct subids ids;

    if (geteuid() == 0)
        return true;
    store = inside_store(b->order->engine, &ignored);
    return store && store_ids_hold(store, &ids);
}

int step_open(const struct build *b, struct vial_session **out, struct vial_error *err)
{
    const struct vial_session_options options = { .lease_ms = LEASE_MS,
                                                  .idle_ms = LEASE_MS };
    auto_json json_t *asked =
        json_pack("{s:s, s:s, s:s, s:s}", "driver", "native", "image", b->image,
                  "root_mode", "rw", "pull", "never");
    struct vial_request *request = NULL;
    int rc;

    if (!asked || json_object_update(asked, b->order->fields) < 0)
        return fail_memory(err);
    if (has_root(b))
        (void)json_object_set_new(asked, "user", json_string("root"));
    add_usual(b, asked);
    add_network(b, asked);
    if (make_request(asked, &request, err) < 0)
        return -1;
    rc = vial_session_open(b->order->engine, request, &options, out, err);
    vial_request_free(request);
    return rc;
}

/* With setpriv in front of it where another user than root is to run it. */
static json_t *command_of(const struct build *b, const char *const *argv,
                          const char *as)
{
    json_t *list = json_array();
    const char *gid = strchr(as, ':');

    if (*as && gid && has_root(b)) {
        (void)json_array_append_new(list, json_string("setpriv"));
        (void)json_array_append_new(list,
                                    json_sprintf("--reuid=%.*s", (int)(gid - as), as));
        (void)json_array_append_new(list, json_sprintf("--regid=%s", gid + 1));
        (void)json_array_append_new(list, json_string("--clear-groups"));
        (void)json_array_append_new(list, json_string("--"));
    }
    for (; *argv; argv++)
        (void)json_array_append_new(list, json_string(*argv));
    return list;
}

static json_t *environment(const struct build *b)
{
    auto_strv struct strv all = { 0 };
    json_t *object = json_object();

    build_variables(b, &all);
    for (size_t i = 0; i < all.count; i++) {
        const char *pair = all.items[i];
        size_t len = strcspn(pair, "=");
        auto_free char *name = strndup(pair, len);

        (void)json_object_set_new(object, name ? name : "",
                                  json_string(pair[len] ? pair + len + 1 : ""));
    }
    return object;
}

static int judge(const struct build *b, const struct vial_result *r,
                 struct vial_error *err)
{
    static const struct {
        enum vial_verdict verdict;
        const char *why, *remedy;
    } rows[] = {
        { VIAL_TIMEOUT, "it took too long", "give it longer: '--step-timeout 1h'" },
        { VIAL_OOM, "it ran out of memory", "give it more: '--memory 8g'" },
        { VIAL_DISK, "its disk is full", "give it more: '--disk 4g --memory 8g'" },
        { VIAL_SIGNAL, "a signal ended it", "see what it printed" },
    };

    if (r->verdict == VIAL_OK)
        return 0;
    if (r->verdict == VIAL_CANCELLED)
        return fail(err, VIAL_E_CANCELLED, "the build was cancelled");
    if (r->error.code[0]) {
        *err = r->error;
        return -1;
    }
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++)
        if (r->verdict == rows[i].verdict) {
            (void)fail(err, VIAL_E_TEMPLATE, "%s", rows[i].why);
            return fail_remedy(err, "%s", rows[i].remedy);
        }
    (void)fail(err, VIAL_E_TEMPLATE, "it ended with status %d", r->exit_code);
    if (r->limits_hit & VIAL_LIMIT_DISK)
        return fail_remedy(err, "its disk was full: '--disk 4g --memory 8g'");
    if (r->network_refused > 0 && !json_object_get(b->order->fields, "network") &&
        (b->t->allow.count == 0 || is_network_chosen(b)))
        return fail_remedy(err,
                           "it has no network: '--network gate --allow debian' lets "
                           "it reach that list, or a name");
    return fail_remedy(err, "see what it printed; what is done so far is kept");
}

int step_run(const struct build *b, struct vial_session *s, const char *const *argv,
             const char *as, struct str *printed, struct vial_error *err)
{
    const struct build_watch *w = &b->order->watch;
    const struct vial_watch watch = { .cancel_fd = w->cancel_fd,
                                      .stdin_fd = -1,
                                      .output = printed ? NULL : w->output,
                                      .context = w->context,
                                      .live_only = !printed };
    auto_json json_t *asked =
        json_pack("{s:o, s:o, s:s}", "command", command_of(b, argv, as), "env",
                  environment(b), "cwd", b->cwd ? b->cwd : "/");
    struct vial_request *request = NULL;
    struct vial_result *result = NULL;
    int rc;

    if (make_request(asked, &request, err) < 0)
        return -1;
    rc = vial_session_run(s, request, &watch, &result, err);
    vial_request_free(request);
    if (rc < 0)
        return -1;
    rc = judge(b, result, err);
    if (rc == 0 && printed && result->out.len < PRINTED_MAX)
        str_add(printed, result->out.data, result->out.len);
    vial_result_free(result);
    return rc;
}
