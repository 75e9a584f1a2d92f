/* SPDX-License-Identifier: Apache-2.0 */
#include "plan/gate_rules.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/fail.h"
#include "base/io.h"
#include "base/name_rule.h"
#include "base/path.h"
#include "plan/contain_parts.h"
#include "plan/draft.h"
#include "plan/secret_rules.h"

#define LIST_MAX         (64u << 10) /* bytes of a list's file */
#define RULES_MAX        256u /* after lists have been replaced by what they hold */
#define RULE_BYTES       300u
#define RANGES_MOST      64u
#define RANGE_PORTS_MOST 128u /* of a vessel's 256 listeners */

static bool is_list_name(const char *text)
{
    size_t len = strspn(text, "abcdefghijklmnopqrstuvwxyz0123456789-");

    return len > 0 && len <= 64 && !text[len];
}

static int refuse(const char *entry, const char *why, struct vial_error *err)
{
    (void)fail(err, VIAL_E_VALUE, "'%.80s' is not an entry of allow or deny: %s", entry,
               why);
    return fail_remedy(
        err,
        "write NAME, NAME:PORT, '*.NAME', ADDRESS/BITS:PORT, or the name of a list "
        "('python-packages', 'npm', 'debian', 'github')");
}

static int add_rule(const char *entry, struct strv *out, struct vial_error *err)
{
    struct name_rule rule;
    const char *wrong = name_rule_parse_any(entry, &rule);

    if (wrong)
        return refuse(entry, wrong, err);
    if (out->count >= RULES_MAX)
        return fail(err, VIAL_E_VALUE, "allow and deny have more than %u rules",
                    RULES_MAX);
    if (!strv_has(out, entry))
        strv_push(out, entry);
    return 0;
}

/* A rule a line; what follows '#' is for readers. */
static int add_lines(char *text, struct strv *out, struct vial_error *err)
{
    char *rest = NULL;

    for (char *line = strtok_r(text, "\n", &rest); line;
         line = strtok_r(NULL, "\n", &rest)) {
        line[strcspn(line, "# \t\r")] = '\0';
        if (line[0] && add_rule(line, out, err) < 0)
            return -1;
    }
    return 0;
}

/* 1: there is no such list. */
static int add_list(const char *share_dir, const char *name, struct strv *out,
                    struct vial_error *err)
{
    auto_str struct str path = { 0 };
    struct blob text = { 0 };
    int rc;

    str_printf(&path, "%s/networks/%s.list", share_dir, name);
    if (!str_ok(&path))
        return fail_memory(err);
    if (access(path.data, R_OK) < 0)
        return 1;
    rc = io_read_file(path.data, LIST_MAX, &text, err);
    if (rc == 0 && text.len && memchr(text.data, 0, text.len))
        rc = fail(err, VIAL_E_VALUE, "'%s' is not a text", path.data);
    if (rc == 0 && text.len)
        rc = add_lines((char *)text.data, out, err);
    blob_done(&text);
    return rc;
}

static int expand(const char *share_dir, const struct strv *from, struct strv *out,
                  struct vial_error *err)
{
    for (size_t i = 0; i < from->count; i++) {
        const char *entry = from->items[i];
        int rc = is_list_name(entry) ? add_list(share_dir, entry, out, err) : 1;

        if (rc < 0)
            return -1;
        if (rc == 1 && is_list_name(entry))
            return refuse(entry, "there is no list of that name", err);
        if (rc == 1 && add_rule(entry, out, err) < 0)
            return -1;
    }
    return strv_ok(out) ? 0 : fail_memory(err);
}

static bool is_covered(const struct strv *by, const char *entry)
{
    struct name_rule narrow, wide;

    if (name_rule_parse_any(entry, &narrow))
        return false;
    for (size_t i = 0; i < by->count; i++)
        if (!name_rule_parse_any(by->items[i], &wide) &&
            name_rule_covers(&wide, &narrow))
            return true;
    return false;
}

static bool is_let_in(const struct strv *private_in, const struct range *narrow)
{
    struct range wide;

    for (size_t i = 0; i < private_in->count; i++)
        if (range_parse(private_in->items[i], &wide) && range_covers(&wide, narrow))
            return true;
    return false;
}

/* Of a range that has public addresses too, the gate lets in no other. */
static int check_private(const char *entry, const struct range *range,
                         const struct policy *p, struct vial_error *err)
{
    if (!range_is_private(range) || is_let_in(&p->allow_private, range))
        return 0;
    (void)fail(err, VIAL_E_POLICY, "allow '%s' has no address that is public", entry);
    return fail_remedy(err,
                       "leave it out, or let it in by policy key 'allow_private' in "
                       "/etc/vial/vial.yaml");
}

static bool denies_names(const struct policy *p)
{
    struct name_rule rule;

    for (size_t i = 0; i < p->deny.count; i++)
        if (name_rule_parse_any(p->deny.items[i], &rule) || !rule.is_range)
            return true;
    return false;
}

/* Of a range nobody knows which names lead into it; and its port 53 is the name
 * server's, which a vessel with a gate has of its own. */
static int check_range(const char *entry, const struct name_rule *rule,
                       const char *driver, const struct policy *p,
                       struct vial_error *err)
{
    if (!str_eq(driver, "native")) {
        (void)fail(err, VIAL_E_UNSUPPORTED,
                   "driver '%s' cannot let addresses out: allow '%s'", driver, entry);
        return fail_remedy(err, "allow names, or use '--driver native'");
    }
    if (rule->low && rule->low <= 53 && rule->high >= 53) {
        (void)fail(err, VIAL_E_UNSUPPORTED, "allow '%s' has port 53 of addresses",
                   entry);
        return fail_remedy(err, "leave it out: names are asked for as on any machine");
    }
    if (!((p->set >> POLICY_ID_allow) & 1u) && denies_names(p)) {
        (void)fail(err, VIAL_E_POLICY,
                   "allow '%s' could lead to what the policy denies by name", entry);
        return fail_remedy(err, "leave it out, or add it to policy key 'allow' in %s",
                           p->origin[POLICY_ID_deny]);
    }
    return check_private(entry, &rule->range, p, err);
}

/* Each takes a route, and each port a listener, in a vessel. */
static int check_ranges(const struct strv *allow, const char *driver,
                        const struct policy *p, struct vial_error *err)
{
    struct name_rule rule;
    size_t count = 0, ports = 0;

    for (size_t i = 0; i < allow->count; i++) {
        if (name_rule_parse_any(allow->items[i], &rule) || !rule.is_range)
            continue;
        if (check_range(allow->items[i], &rule, driver, p, err) < 0)
            return -1;
        count++;
        ports += name_rule_port_count(&rule);
    }
    if (count > RANGES_MOST || ports > RANGE_PORTS_MOST)
        return fail(err, VIAL_E_VALUE,
                    "allow has more than %u ranges of addresses, or %u "
                    "ports of them",
                    RANGES_MOST, RANGE_PORTS_MOST);
    return 0;
}

/* A policy without the list leaves the choice to the request. */
static int check_allowed(const struct strv *allow, const struct settings *s,
                         struct vial_error *err)
{
    const struct policy *p = &s->policy;
    auto_strv struct strv by = { 0 };

    if (!((p->set >> POLICY_ID_allow) & 1u))
        return 0;
    if (expand(s->share_dir, &p->allow, &by, err) < 0)
        return fail_in(err, "policy key 'allow' in %s", p->origin[POLICY_ID_allow]);
    for (size_t i = 0; i < allow->count; i++) {
        if (is_covered(&by, allow->items[i]))
            continue;
        (void)fail(err, VIAL_E_POLICY, "allow '%s' is not allowed by the policy",
                   allow->items[i]);
        return fail_remedy(err, "leave it out, or add it to policy key 'allow' in %s",
                           p->origin[POLICY_ID_allow]);
    }
    return 0;
}

static int needs_gate(const char *field, struct vial_error *err)
{
    (void)fail(err, VIAL_E_VALUE, "%s is given, but the program has no gate", field);
    return fail_remedy(err, "add '--network gate', or leave out %s", field);
}

static int check_driver(const char *driver, struct vial_error *err)
{
    if (str_eq(driver, "native") || str_eq(driver, "docker"))
        return 0;
    (void)fail(err, VIAL_E_UNSUPPORTED, "driver '%s' cannot give the program a gate",
               driver);
    return fail_remedy(err, "use '--driver native', or '--network none'");
}

static bool is_decided(const struct policy *p)
{
    return (p->set >> POLICY_ID_networks | p->set >> POLICY_ID_allow) & 1u;
}

/* Who serves others decides for them: nobody else does. */
static int check_served(const struct settings *s, struct vial_error *err)
{
    if (!s->serves || is_decided(&s->policy))
        return 0;
    (void)fail(err, VIAL_E_POLICY,
               "a daemon's callers have a gate only if the policy says so");
    return fail_remedy(err,
                       "set policy key 'allow' in /etc/vial/vial.yaml, and restart "
                       "the daemon");
}

static bool is_range(const char *text)
{
    char address[64];
    size_t len = strcspn(text, "/");
    const char *bits = text[len] ? text + len + 1 : "0";
    size_t digits = strspn(bits, "0123456789");

    if (len >= sizeof(address) || digits == 0 || digits > 3 || bits[digits])
        return false;
    memcpy(address, text, len);
    address[len] = '\0';
    return contain_is_address(address) &&
           strtol(bits, NULL, 10) <= (strchr(address, ':') ? 128 : 32);
}

/* A gate that could make no sense of its rules would end, and leave no network. */
static int check_operator(const struct policy *p, struct vial_error *err)
{
    struct name_rule rule;

    for (size_t i = 0; i < p->allow_private.count; i++)
        if (!is_range(p->allow_private.items[i]))
            return fail(err, VIAL_E_VALUE,
                        "policy key 'allow_private' in %s: '%.80s' is not ADDRESS/BITS",
                        p->origin[POLICY_ID_allow_private], p->allow_private.items[i]);
    for (size_t i = 0; i < p->gate_unchecked.count; i++)
        if (name_rule_parse(p->gate_unchecked.items[i], &rule))
            return fail(err, VIAL_E_VALUE,
                        "policy key 'gate_unchecked' in %s: '%.80s' is not a rule",
                        p->origin[POLICY_ID_gate_unchecked],
                        p->gate_unchecked.items[i]);
    return 0;
}

int gate_build(struct draft *d, struct vial_error *err)
{
    const struct settings *s = d->settings;
    const struct policy *p = &s->policy;
    struct plan_gate *gate = &d->plan->gate;
    auto_strv struct strv denied = { 0 };

    if (d->plan->network != NETWORK_GATE) {
        if ((d->req->own >> FIELD_ID_allow) & 1u)
            return needs_gate("allow", err);
        if ((d->req->own >> FIELD_ID_secrets) & 1u)
            return needs_gate("secrets", err);
        return (d->req->own >> FIELD_ID_deny) & 1u ? needs_gate("deny", err) : 0;
    }
    strv_copy(&denied, &d->req->deny);
    for (size_t i = 0; i < p->deny.count; i++)
        strv_push(&denied, p->deny.items[i]);
    strv_copy(&gate->unchecked, &p->gate_unchecked);
    strv_copy(&gate->resolvers, &p->gate_resolvers);
    strv_copy(&gate->private_in, &p->allow_private);
    if (!strv_ok(&denied) || !strv_ok(&gate->unchecked) || !strv_ok(&gate->resolvers) ||
        !strv_ok(&gate->private_in))
        return fail_memory(err);
    if (check_driver(d->plan->driver, err) < 0 || check_served(s, err) < 0 ||
        check_operator(p, err) < 0 ||
        expand(s->share_dir, &d->req->allow, &gate->allow, err) < 0 ||
        expand(s->share_dir, &denied, &gate->deny, err) < 0 ||
        check_ranges(&gate->allow, d->plan->driver, p, err) < 0 ||
        secrets_build(d, err) < 0)
        return -1;
    return check_allowed(&gate->allow, s, err);
}

int gate_narrow(const struct settings *settings, const struct plan_gate *gate,
                const struct strv *entries, struct strv *out, struct vial_error *err)
{
    if (expand(settings->share_dir, entries, out, err) < 0)
        return -1;
    for (size_t i = 0; i < out->count; i++) {
        if (is_covered(&gate->allow, out->items[i]))
            continue;
        (void)fail(err, VIAL_E_POLICY,
                   "allow '%s' is more than the session was opened with",
                   out->items[i]);
        return fail_remedy(err, "leave it out, or open another session that allows it");
    }
    return 0;
}

/* Every entry of SOME is one of ALL. */
static bool is_part(const struct strv *some, const struct strv *all)
{
    for (size_t i = 0; i < some->count; i++)
        if (!strv_has(all, some->items[i]))
            return false;
    return true;
}

static bool are_rules(const struct strv *rules)
{
    struct name_rule rule;

    for (size_t i = 0; i < rules->count; i++)
        if (strlen(rules->items[i]) > RULE_BYTES ||
            name_rule_parse_any(rules->items[i], &rule))
            return false;
    return rules->count <= RULES_MAX;
}

int gate_judge(const struct plan *plan, const struct settings *settings,
               struct vial_error *err)
{
    const struct plan_gate *gate = &plan->gate;
    const struct policy *p = &settings->policy;
    auto_strv struct strv denied = { 0 };

    if (plan->network != NETWORK_GATE) {
        if (gate->allow.count || gate->deny.count || gate->private_in.count ||
            gate->resolvers.count || gate->unchecked.count || gate->secrets.count)
            return fail(err, VIAL_E_VALUE, "the plan has rules of a gate without one");
        return 0;
    }
    if (!is_decided(p)) /* a keeper's front serves others */
        return fail(err, VIAL_E_POLICY, "the policy gives no gate");
    if (!are_rules(&gate->allow) || !are_rules(&gate->deny))
        return fail(err, VIAL_E_VALUE, "a rule of the plan's gate is not one");
    if (check_driver(plan->driver, err) < 0 ||
        check_allowed(&gate->allow, settings, err) < 0 ||
        check_ranges(&gate->allow, plan->driver, p, err) < 0 ||
        secrets_judge(plan, settings, err) < 0 ||
        expand(settings->share_dir, &p->deny, &denied, err) < 0)
        return -1;
    if (!is_part(&denied, &gate->deny) ||
        !is_part(&gate->private_in, &p->allow_private) ||
        !is_part(&gate->unchecked, &p->gate_unchecked) ||
        !is_part(&gate->resolvers, &p->gate_resolvers) ||
        gate->resolvers.count != p->gate_resolvers.count)
        return fail(err, VIAL_E_POLICY, "the plan's gate goes beyond the policy");
    return 0;
}
