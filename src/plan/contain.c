/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Plans the part that only container engines have: their networks, name servers,
 * published ports, cache volumes, runtimes and labels. What a request asks for and its
 * driver or its network cannot give is refused; what merely stands among the settings
 * waits there for those that can. A runtime is the exception: it is asked for as a
 * wall, and no driver that lacks it may stand in.
 */
#include "plan/contain.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/fail.h"
#include "model/value.h"
#include "plan/contain_parts.h"

bool contain_is_name(const char *text)
{
    return isalnum((unsigned char)text[0]) &&
           strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                        "0123456789._-") == strlen(text);
}

int contain_refuse(enum field_id id, const char *text, const char *what,
                   struct vial_error *err)
{
    return value_refuse(&fields[id], text, strlen(text), what, err);
}

int contain_copy(char **out, const char *text, struct vial_error *err)
{
    *out = text ? strdup(text) : NULL;
    return text && !*out ? fail_memory(err) : 0;
}

bool contain_is_address(const char *text)
{
    unsigned char raw[16];

    return inet_pton(AF_INET, text, raw) == 1 || inet_pton(AF_INET6, text, raw) == 1;
}

int contain_odd(const char *what, struct vial_error *err)
{
    return fail(err, VIAL_E_VALUE, "%s in the plan is not one", what);
}

static bool same_list(const struct strv *a, const struct strv *b)
{
    if (a->count != b->count)
        return false;
    for (size_t i = 0; i < a->count; i++)
        if (!str_eq(a->items[i], b->items[i]))
            return false;
    return true;
}

/* Asked for by the request itself, not only by the settings. */
static bool asks_list(const struct draft *d, enum field_id id)
{
    const struct strv *asked = request_peek(d->req, id);
    const struct strv *usual = request_peek(&d->settings->defaults, id);

    return asked->count > 0 && !same_list(asked, usual);
}

static bool asks_network_name(const struct draft *d)
{
    return d->req->network_name &&
           !str_eq(d->req->network_name, d->settings->defaults.network_name);
}

static bool asks_network_timeout(const struct draft *d)
{
    return (d->req->own >> FIELD_ID_network_timeout) & 1u;
}

static int unsupported(const char *driver, const char *what, struct vial_error *err)
{
    (void)fail(err, VIAL_E_UNSUPPORTED, "driver '%s' cannot give the program %s",
               driver, what);
    return fail_remedy(err, "use '--driver docker', or leave it out");
}

/* Of limits that the driver cannot hold those of the settings are let pass, and those
 * that the request names are refused. */
static int check_limits(const struct draft *d, struct vial_error *err)
{
    field_set named = d->req->own & d->driver->unheld;
    size_t id = 0;

    if (!named)
        return 0;
    while (!((named >> id) & 1u))
        id++;
    (void)fail(err, VIAL_E_UNSUPPORTED, "driver '%s' does not hold '%s'",
               d->driver->name, fields[id].name);
    return fail_remedy(err, "use '--driver native', or leave it out");
}

/* For drivers without an engine. */
static int check_none(struct draft *d, struct vial_error *err)
{
    const char *driver = d->plan->driver;

    if (d->req->runtime)
        return unsupported(driver, "a container runtime", err);
    if (asks_network_name(d))
        return unsupported(driver, "a container network", err);
    if (d->req->user && !d->plan->root.as_root &&
        !str_eq(d->req->user, d->settings->defaults.user))
        return unsupported(driver, "another user", err);
    if (d->req->nproc != d->settings->defaults.nproc)
        return unsupported(driver, "a ulimit of processes; 'pids' it always has", err);
    if (asks_list(d, FIELD_ID_dns))
        return unsupported(driver, "name servers", err);
    if (asks_network_timeout(d))
        return unsupported(driver, "a network, nor a time-out for one", err);
    if (asks_list(d, FIELD_ID_caches))
        return unsupported(driver, "cache volumes", err);
    if (d->plan->network == NETWORK_GATE)
        return gated_ports_build(d, err);
    if (!asks_list(d, FIELD_ID_ports))
        return 0;
    (void)unsupported(driver, "published ports without a gate", err);
    return fail_remedy(err,
                       str_eq(driver, "native")
                           ? "add '--network gate', or leave out ports"
                           : "use '--driver native' with '--network gate', or leave "
                             "out ports");
}

static int needs_network(const char *field, struct vial_error *err)
{
    (void)fail(err, VIAL_E_VALUE, "%s is given, but the program has no network", field);
    return fail_remedy(err, "add '--network bridge', or leave out %s", field);
}

static int check_offline(struct draft *d, struct vial_error *err)
{
    if (asks_network_name(d))
        return needs_network("network_name", err);
    if (asks_list(d, FIELD_ID_dns))
        return needs_network("dns", err);
    if (asks_network_timeout(d))
        return needs_network("network_timeout", err);
    if (d->plan->network == NETWORK_GATE)
        return gated_ports_build(d, err);
    return asks_list(d, FIELD_ID_ports) ? needs_network("ports", err) : 0;
}

/* Whether the engine itself gives this name a meaning. */
static bool is_reserved(const char *network)
{
    static const char *const names[] = { "host", "none", "default", "container" };

    for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
        if (strcasecmp(network, names[i]) == 0)
            return true;
    return false;
}

static int add_network(struct draft *d, struct vial_error *err)
{
    const char *name = d->req->network_name;

    if (!name || str_eq(name, "bridge"))
        return 0;
    if (!contain_is_name(name) || is_reserved(name))
        return contain_refuse(FIELD_ID_network_name, name,
                              "the name of a container network", err);
    if (policy_check_list(&d->settings->policy, POLICY_ID_network_names, "network_name",
                          name, err) < 0)
        return -1;
    return contain_copy(&d->plan->container.network_name, name, err);
}

static int add_dns(struct draft *d, struct vial_error *err)
{
    for (size_t i = 0; i < d->req->dns.count; i++) {
        const char *address = d->req->dns.items[i];

        if (!contain_is_address(address))
            return contain_refuse(FIELD_ID_dns, address, "an address", err);
        if (policy_check_list(&d->settings->policy, POLICY_ID_dns, "dns", address,
                              err) < 0)
            return -1;
        strv_push(&d->plan->container.dns, address);
    }
    return strv_ok(&d->plan->container.dns) ? 0 : fail_memory(err);
}

/* An operator who lists runtimes means everybody. */
static int add_runtime(struct draft *d, struct vial_error *err)
{
    const char *name = d->req->runtime;

    if (name && !contain_is_name(name))
        return contain_refuse(FIELD_ID_runtime, name, "the name of a container runtime",
                              err);
    if (policy_check_list(&d->settings->policy, POLICY_ID_runtimes, "runtime",
                          name ? name : "default", err) < 0)
        return -1;
    return contain_copy(&d->plan->container.runtime, name, err);
}

static bool is_prefix(const char *text)
{
    size_t len = strlen(text);

    return strspn(text, "abcdefghijklmnopqrstuvwxyz0123456789._-") == len &&
           isalnum((unsigned char)text[0]) && isalnum((unsigned char)text[len - 1]);
}

/* 0: not counted. */
static int64_t most_of(const struct policy *policy)
{
    int64_t cap = policy_cap(policy, FIELD_ID_containers);

    return cap < fields[FIELD_ID_containers].max ? cap : 0;
}

static int add_prefix(struct draft *d, struct vial_error *err)
{
    struct plan_container *c = &d->plan->container;
    const char *usual = fields[FIELD_ID_prefix].def;
    const char *prefix = d->req->prefix ? d->req->prefix : usual;

    if (!is_prefix(prefix))
        return contain_refuse(
            FIELD_ID_prefix, prefix,
            "lower-case letters and digits, with '.', '_' or '-' between", err);
    if (!d->driver->contains) /* for lists of vessels */
        return str_eq(prefix, usual) ? 0 : contain_copy(&c->prefix, prefix, err);
    c->open_ms = request_amount(d->req, FIELD_ID_open_timeout);
    c->retries = request_amount(d->req, FIELD_ID_retries);
    c->most = request_amount(d->req, FIELD_ID_containers);
    c->most_all = most_of(&d->settings->policy);
    c->retry_ms = request_amount(d->req, FIELD_ID_retry_wait);
    return contain_copy(&c->prefix, prefix, err);
}

/* "1000", "1000:1000" or "nobody". */
static int add_user(struct draft *d, struct vial_error *err)
{
    struct plan_container *c = &d->plan->container;
    const char *text = d->req->user;
    unsigned long ids[2] = { 65534, 65534 };
    size_t first = text ? strspn(text, "0123456789") : 0;
    size_t second =
        first && text[first] == ':' ? strspn(text + first + 1, "0123456789") : 0;

    if (!text)
        return 0;
    if (first > 0) {
        ids[0] = strtoul(text, NULL, 10);
        ids[1] = second ? strtoul(text + first + 1, NULL, 10) : ids[0];
    }
    if ((first == 0 && !str_eq(text, "nobody")) || first > 9 || second > 9 ||
        (first > 0 && text[first + (second ? second + 1 : 0)] != '\0'))
        return contain_refuse(FIELD_ID_user, text, "UID, UID:GID or nobody", err);
    if (ids[0] == 0 || ids[1] == 0) {
        (void)fail(err, VIAL_E_POLICY, "user '%s' is root, which no program is", text);
        return fail_remedy(err, "name an ordinary user, like 1000:1000");
    }
    c->uid = (unsigned)ids[0];
    c->gid = (unsigned)ids[1];
    return 0;
}

/* A request to pull that the policy does not allow is refused. If only the settings say
 * so, nothing is pulled. */
static int add_pull(struct draft *d, struct vial_error *err)
{
    struct plan_container *c = &d->plan->container;
    bool own = (d->req->own >> FIELD_ID_pull) & 1u;
    char name[32];

    request_choice(d->req, FIELD_ID_pull, name);
    c->pull = (enum plan_pull)d->req->pull;
    c->pull_ms = request_amount(d->req, FIELD_ID_pull_timeout);
    if (c->pull == PULL_NEVER ||
        policy_check_list(&d->settings->policy, POLICY_ID_pulls, "pull", name,
                          own ? err : NULL) == 0)
        return 0;
    c->pull = PULL_NEVER;
    return own ? -1 : 0;
}

/* How an image comes to this host without an engine. */
static int add_fetch(struct draft *d, struct vial_error *err)
{
    struct plan_container *c = &d->plan->container;

    c->retries = request_amount(d->req, FIELD_ID_retries);
    c->retry_ms = request_amount(d->req, FIELD_ID_retry_wait);
    return add_pull(d, err);
}

int contain_build(struct draft *d, struct vial_error *err)
{
    if (add_prefix(d, err) < 0 || check_limits(d, err) < 0)
        return -1;
    if (plan_has_root(d->plan) && add_fetch(d, err) < 0)
        return -1;
    if (!d->driver->contains)
        return check_none(d, err);
    if (str_eq(d->driver->name, "kubernetes") &&
        pod_settings_copy(&d->plan->pod, &d->settings->pods) < 0)
        return fail_memory(err);
    if (add_user(d, err) < 0 || add_runtime(d, err) < 0 || add_pull(d, err) < 0 ||
        caches_build(d, err) < 0)
        return -1;
    d->plan->container.nproc = d->req->nproc == 1; /* "pids" */
    if (d->plan->network != NETWORK_BRIDGE)
        return check_offline(d, err);
    if (add_network(d, err) < 0 || add_dns(d, err) < 0)
        return -1;
    d->plan->container.network_ms = request_amount(d->req, FIELD_ID_network_timeout);
    return ports_build(d, err);
}

static bool in_range(enum field_id id, int64_t value)
{
    return value >= fields[id].min && value <= fields[id].max;
}

static int judge_network(const struct plan *plan, const struct policy *policy,
                         struct vial_error *err)
{
    const struct plan_container *c = &plan->container;

    if (plan->network != NETWORK_BRIDGE &&
        (c->network_name || c->dns.count || c->network_ms ||
         (c->port_count && plan->network != NETWORK_GATE)))
        return contain_odd("a network without one", err);
    if (plan->network == NETWORK_GATE)
        return gated_ports_judge(c, policy, err);
    if (plan->network != NETWORK_BRIDGE)
        return 0;
    if (c->network_ms && !in_range(FIELD_ID_network_timeout, c->network_ms))
        return contain_odd("the network's time-out", err);
    if (c->network_name) {
        if (!contain_is_name(c->network_name) || is_reserved(c->network_name))
            return contain_odd("the container network", err);
        if (policy_check_list(policy, POLICY_ID_network_names, "network_name",
                              c->network_name, err) < 0)
            return -1;
    }
    for (size_t i = 0; i < c->dns.count; i++)
        if (!contain_is_address(c->dns.items[i]))
            return contain_odd("a name server", err);
        else if (policy_check_list(policy, POLICY_ID_dns, "dns", c->dns.items[i], err) <
                 0)
            return -1;
    return ports_judge(c, policy, err);
}

static int judge_none(const struct plan *plan, const struct policy *policy,
                      struct vial_error *err)
{
    const struct plan_container *c = &plan->container;

    if (c->network_name || c->runtime || c->dns.count ||
        (c->port_count && plan->network != NETWORK_GATE) || c->cache_count || c->uid ||
        c->gid || c->nproc || c->network_ms)
        return contain_odd("a container without an image", err);
    if (c->prefix && !is_prefix(c->prefix))
        return contain_odd("the prefix", err);
    return gated_ports_judge(c, policy, err);
}

int contain_judge(const struct plan *plan, const struct policy *policy,
                  struct vial_error *err)
{
    const struct plan_container *c = &plan->container;

    if (!plan->image || plan_has_root(plan))
        return judge_none(plan, policy, err);
    if (!c->prefix || !is_prefix(c->prefix))
        return contain_odd("the prefix", err);
    if (!in_range(FIELD_ID_open_timeout, c->open_ms) ||
        !in_range(FIELD_ID_retries, c->retries) ||
        !in_range(FIELD_ID_retry_wait, c->retry_ms))
        return contain_odd("a time or a number of tries", err);
    if (c->most < 0 || c->most > policy_cap(policy, FIELD_ID_containers) ||
        c->most_all < 0 || (most_of(policy) && !c->most_all) ||
        c->most_all > policy_cap(policy, FIELD_ID_containers))
        return contain_odd("the number of containers", err);
    if ((c->uid == 0) != (c->gid == 0) || c->uid > 999999999 || c->gid > 999999999)
        return contain_odd("the user", err);
    if (c->runtime && !contain_is_name(c->runtime))
        return contain_odd("the runtime", err);
    if (policy_check_list(policy, POLICY_ID_runtimes, "runtime",
                          c->runtime ? c->runtime : "default", err) < 0)
        return -1;
    if (caches_judge(plan, policy, err) < 0)
        return -1;
    return judge_network(plan, policy, err);
}
