/* SPDX-License-Identifier: Apache-2.0 */

/*
 * What only container engines have: their networks, name servers, published ports,
 * cache volumes, runtimes and labels. What a request asks for and its driver or its
 * network cannot give is refused; what merely stands among the settings waits there
 * for those that can. A runtime is the exception: it is asked for as a wall, and no
 * driver that lacks it may stand in.
 */
#include "model/contain.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/fail.h"
#include "base/path.h"
#include "model/draft.h"
#include "model/value.h"

#define CACHE_DIR "/cache/"

/* Names as engines take them. ':' is not among these, so that no name can mean
 * another container's network. */
static bool is_name(const char *text)
{
    return isalnum((unsigned char)text[0]) &&
           strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                        "0123456789._-") == strlen(text);
}

static int refuse(enum field_id id, const char *text, const char *what,
                  struct vial_error *err)
{
    return value_refuse(&fields[id], text, strlen(text), what, err);
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

static int unsupported(const char *driver, const char *what, struct vial_error *err)
{
    (void)fail(err, VIAL_E_UNSUPPORTED, "driver '%s' cannot give the program %s",
               driver, what);
    return fail_remedy(err, "use '--driver docker', or leave it out");
}

/* For drivers without an engine. */
static int check_none(const struct draft *d, struct vial_error *err)
{
    const char *driver = d->plan->driver;

    if (d->req->runtime)
        return unsupported(driver, "a container runtime", err);
    if (asks_network_name(d))
        return unsupported(driver, "a container network", err);
    if (d->req->user && !str_eq(d->req->user, d->settings->defaults.user))
        return unsupported(driver, "another user", err);
    if (asks_list(d, FIELD_ID_dns))
        return unsupported(driver, "name servers", err);
    if (asks_list(d, FIELD_ID_ports))
        return unsupported(driver, "published ports", err);
    if (asks_list(d, FIELD_ID_caches))
        return unsupported(driver, "cache volumes", err);
    return 0;
}

static int needs_network(const char *field, struct vial_error *err)
{
    (void)fail(err, VIAL_E_VALUE, "%s is given, but the program has no network", field);
    return fail_remedy(err, "add '--network bridge', or leave out %s", field);
}

static int check_offline(const struct draft *d, struct vial_error *err)
{
    if (asks_network_name(d))
        return needs_network("network_name", err);
    if (asks_list(d, FIELD_ID_dns))
        return needs_network("dns", err);
    return asks_list(d, FIELD_ID_ports) ? needs_network("ports", err) : 0;
}

static int copy(char **out, const char *text, struct vial_error *err)
{
    *out = text ? strdup(text) : NULL;
    return text && !*out ? fail_memory(err) : 0;
}

/* Those that the engine gives a meaning of their own. */
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
    if (!is_name(name) || is_reserved(name))
        return refuse(FIELD_ID_network_name, name, "the name of a container network",
                      err);
    if (policy_check_list(&d->settings->policy, POLICY_ID_network_names, "network_name",
                          name, err) < 0)
        return -1;
    return copy(&d->plan->container.network_name, name, err);
}

static bool is_address(const char *text)
{
    unsigned char raw[16];

    return inet_pton(AF_INET, text, raw) == 1 || inet_pton(AF_INET6, text, raw) == 1;
}

static int add_dns(struct draft *d, struct vial_error *err)
{
    for (size_t i = 0; i < d->req->dns.count; i++) {
        const char *address = d->req->dns.items[i];

        if (!is_address(address))
            return refuse(FIELD_ID_dns, address, "an address", err);
        if (policy_check_list(&d->settings->policy, POLICY_ID_dns, "dns", address,
                              err) < 0)
            return -1;
        strv_push(&d->plan->container.dns, address);
    }
    return strv_ok(&d->plan->container.dns) ? 0 : fail_memory(err);
}

static bool read_port(const char *text, size_t len, unsigned *out)
{
    unsigned value = 0;

    if (len == 0 || len > 5)
        return false;
    for (size_t i = 0; i < len; i++) {
        if (!isdigit((unsigned char)text[i]))
            return false;
        value = value * 10 + (unsigned)(text[i] - '0');
    }
    *out = value;
    return value <= 65535;
}

/* "127.0.0.1:" or "[::1]:" before the ports; *AT moves behind it. */
static int read_address(const char **at, char **out, struct vial_error *err)
{
    const char *text = *at;
    const char *first = strchr(text, ':');
    const char *end = text[0] == '[' ? strchr(text, ']') : first;
    size_t skip = text[0] == '[' ? 1 : 0;

    if (skip == 0 && first && !strchr(first + 1, ':')) {
        *out = strdup("127.0.0.1");
        return *out ? 0 : fail_memory(err);
    }
    if (!end || end[skip] != ':')
        return -1;
    *out = strndup(text + skip, (size_t)(end - text) - skip);
    *at = end + skip + 1;
    return *out ? 0 : fail_memory(err);
}

static int read_ports(const char *text, struct plan_port *out)
{
    const char *colon = strchr(text, ':');
    const char *slash = strchr(text, '/');
    size_t inside = colon ? strcspn(colon + 1, "/") : 0;

    out->udp = slash && strcmp(slash, "/udp") == 0;
    if (slash && !out->udp && strcmp(slash, "/tcp") != 0)
        return -1;
    if (!colon || !read_port(text, (size_t)(colon - text), &out->host) ||
        !read_port(colon + 1, inside, &out->inside) || out->inside == 0)
        return -1;
    return 0;
}

static bool is_loopback(const char *address)
{
    return str_starts(address, "127.") || str_eq(address, "::1");
}

static int check_publish(const struct policy *p, const struct plan_port *port,
                         struct vial_error *err)
{
    char where[80];

    (void)snprintf(where, sizeof(where), "%s:%u", port->address, port->host);
    if ((p->set >> POLICY_ID_publish) & 1u)
        return policy_check_list(p, POLICY_ID_publish, "port", where, err);
    if (is_loopback(port->address))
        return 0;
    (void)fail(err, VIAL_E_POLICY, "port '%s' is not on a loopback address", where);
    return fail_remedy(err, "publish it on 127.0.0.1, or allow it by policy key "
                            "'publish' in /etc/vial/vial.yaml");
}

static int add_port(struct draft *d, const char *text, struct vial_error *err)
{
    struct plan_container *c = &d->plan->container;
    struct plan_port *port = &c->ports[c->port_count++];
    const char *at = text;

    if (read_address(&at, &port->address, err) < 0 || !is_address(port->address) ||
        read_ports(at, port) < 0)
        return refuse(FIELD_ID_ports, text, "[ADDRESS:]PORT:INSIDE[/udp]", err);
    return check_publish(&d->settings->policy, port, err);
}

static int add_ports(struct draft *d, struct vial_error *err)
{
    size_t count = d->req->ports.count;

    if (count == 0)
        return 0;
    d->plan->container.ports = calloc(count, sizeof(struct plan_port));
    if (!d->plan->container.ports)
        return fail_memory(err);
    for (size_t i = 0; i < count; i++)
        if (add_port(d, d->req->ports.items[i], err) < 0)
            return -1;
    return 0;
}

/* Where package managers look for their cache. */
static const char *variable_of(const char *cache)
{
    static const struct {
        const char *cache, *variable;
    } known[] = { { "pip", "PIP_CACHE_DIR" },
                  { "npm", "npm_config_cache" },
                  { "nuget", "NUGET_PACKAGES" },
                  { "go", "GOMODCACHE" },
                  { "cargo", "CARGO_HOME" } };

    for (size_t i = 0; i < sizeof(known) / sizeof(*known); i++)
        if (str_eq(known[i].cache, cache))
            return known[i].variable;
    return NULL;
}

static void add_variable(struct strv *env, const char *name, const char *value)
{
    size_t len = strlen(name);

    for (size_t i = 0; i < env->count; i++)
        if (strncmp(env->items[i], name, len) == 0 && env->items[i][len] == '=')
            return;
    strv_printf(env, "%s=%s", name, value);
}

static int check_cache(const struct draft *d, const char *name, const char *target,
                       struct vial_error *err)
{
    const struct plan_container *c = &d->plan->container;

    if (policy_check_list(&d->settings->policy, POLICY_ID_caches, "cache", name, err) <
            0 ||
        mount_check_target(d->plan, target, err) < 0)
        return -1;
    for (size_t i = 0; i + 1 < c->cache_count; i++) {
        const char *other = c->caches[i].target;

        if (path_is_beneath(target, other) || path_is_beneath(other, target))
            return fail(err, VIAL_E_MOUNT, "cache targets '%s' and '%s' overlap", other,
                        target);
    }
    return 0;
}

static int add_cache(struct draft *d, const char *text, struct vial_error *err)
{
    struct plan_container *c = &d->plan->container;
    struct plan_cache *cache = &c->caches[c->cache_count++];
    auto_str struct str volume = { 0 };
    auto_free char *name = strndup(text, strcspn(text, ":"));
    const char *colon = strchr(text, ':');
    auto_free char *usual = name ? path_join(CACHE_DIR, name) : NULL;

    if (!usual)
        return fail_memory(err);
    if (!is_name(name) || strlen(name) > 64 || (colon && colon[1] != '/'))
        return refuse(FIELD_ID_caches, text, "NAME or NAME:DIR", err);
    str_printf(&volume, "%s-cache-%s", c->prefix, name);
    cache->volume = str_take(&volume);
    if (!cache->volume || copy(&cache->target, colon ? colon + 1 : usual, err) < 0)
        return fail_memory(err);
    if (variable_of(name))
        add_variable(&d->plan->env, variable_of(name), cache->target);
    return check_cache(d, name, cache->target, err);
}

static int add_caches(struct draft *d, struct vial_error *err)
{
    size_t count = d->req->caches.count;

    if (count == 0)
        return 0;
    d->plan->container.caches = calloc(count, sizeof(struct plan_cache));
    if (!d->plan->container.caches)
        return fail_memory(err);
    for (size_t i = 0; i < count; i++)
        if (add_cache(d, d->req->caches.items[i], err) < 0)
            return -1;
    return strv_ok(&d->plan->env) ? 0 : fail_memory(err);
}

/* An operator who lists runtimes means everybody. */
static int add_runtime(struct draft *d, struct vial_error *err)
{
    const char *name = d->req->runtime;

    if (name && !is_name(name))
        return refuse(FIELD_ID_runtime, name, "the name of a container runtime", err);
    if (policy_check_list(&d->settings->policy, POLICY_ID_runtimes, "runtime",
                          name ? name : "default", err) < 0)
        return -1;
    return copy(&d->plan->container.runtime, name, err);
}

static bool is_prefix(const char *text)
{
    size_t len = strlen(text);

    return strspn(text, "abcdefghijklmnopqrstuvwxyz0123456789._-") == len &&
           isalnum((unsigned char)text[0]) && isalnum((unsigned char)text[len - 1]);
}

static int add_prefix(struct draft *d, struct vial_error *err)
{
    struct plan_container *c = &d->plan->container;
    const char *prefix = d->req->prefix ? d->req->prefix : fields[FIELD_ID_prefix].def;

    if (!is_prefix(prefix))
        return refuse(FIELD_ID_prefix, prefix,
                      "lower-case letters and digits, with '.', '_' or '-' between",
                      err);
    c->open_ms = request_amount(d->req, FIELD_ID_open_timeout);
    c->retries = request_amount(d->req, FIELD_ID_retries);
    c->retry_ms = request_amount(d->req, FIELD_ID_retry_wait);
    return copy(&c->prefix, prefix, err);
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
        return refuse(FIELD_ID_user, text, "UID, UID:GID or nobody", err);
    if (ids[0] == 0 || ids[1] == 0) {
        (void)fail(err, VIAL_E_POLICY, "user '%s' is root, which no program is", text);
        return fail_remedy(err, "name an ordinary user, like 1000:1000");
    }
    c->uid = (unsigned)ids[0];
    c->gid = (unsigned)ids[1];
    return 0;
}

int contain_build(struct draft *d, struct vial_error *err)
{
    if (!d->driver->contains)
        return check_none(d, err);
    if (add_prefix(d, err) < 0 || add_user(d, err) < 0 || add_runtime(d, err) < 0 ||
        add_caches(d, err) < 0)
        return -1;
    if (d->plan->network == NETWORK_NONE)
        return check_offline(d, err);
    if (add_network(d, err) < 0 || add_dns(d, err) < 0)
        return -1;
    return add_ports(d, err);
}

static int odd(const char *what, struct vial_error *err)
{
    return fail(err, VIAL_E_VALUE, "%s in the plan is not one", what);
}

static bool in_range(enum field_id id, int64_t value)
{
    return value >= fields[id].min && value <= fields[id].max;
}

static int judge_cache(const struct plan *plan, size_t i, const struct policy *policy,
                       struct vial_error *err)
{
    const struct plan_container *c = &plan->container;
    const struct plan_cache *cache = &c->caches[i];
    auto_str struct str start = { 0 };
    const char *name;

    str_printf(&start, "%s-cache-", c->prefix);
    if (!str_ok(&start))
        return fail_memory(err);
    if (!str_starts(cache->volume, start.data) ||
        strlen(cache->volume + start.len) > 64 || !is_name(cache->volume + start.len))
        return odd("a cache", err);
    name = cache->volume + start.len;
    for (size_t other = 0; other < i; other++)
        if (path_is_beneath(cache->target, c->caches[other].target) ||
            path_is_beneath(c->caches[other].target, cache->target))
            return odd("a cache's target", err);
    if (policy_check_list(policy, POLICY_ID_caches, "cache", name, err) < 0)
        return -1;
    return mount_check_target(plan, cache->target, err);
}

static int judge_network(const struct plan *plan, const struct policy *policy,
                         struct vial_error *err)
{
    const struct plan_container *c = &plan->container;

    if (plan->network == NETWORK_NONE)
        return c->network_name || c->dns.count || c->port_count
                   ? odd("a network without one", err)
                   : 0;
    if (c->network_name) {
        if (!is_name(c->network_name) || is_reserved(c->network_name))
            return odd("the container network", err);
        if (policy_check_list(policy, POLICY_ID_network_names, "network_name",
                              c->network_name, err) < 0)
            return -1;
    }
    for (size_t i = 0; i < c->dns.count; i++)
        if (!is_address(c->dns.items[i]))
            return odd("a name server", err);
        else if (policy_check_list(policy, POLICY_ID_dns, "dns", c->dns.items[i], err) <
                 0)
            return -1;
    for (size_t i = 0; i < c->port_count; i++) {
        const struct plan_port *port = &c->ports[i];

        if (!is_address(port->address) || port->host > 65535 || port->inside == 0 ||
            port->inside > 65535)
            return odd("a port", err);
        if (check_publish(policy, port, err) < 0)
            return -1;
    }
    return 0;
}

static int judge_none(const struct plan_container *c, struct vial_error *err)
{
    if (c->network_name || c->runtime || c->prefix || c->dns.count || c->port_count ||
        c->cache_count || c->uid || c->gid)
        return odd("a container without an image", err);
    return 0;
}

int contain_judge(const struct plan *plan, const struct policy *policy,
                  struct vial_error *err)
{
    const struct plan_container *c = &plan->container;

    if (!plan->image)
        return judge_none(c, err);
    if (!c->prefix || !is_prefix(c->prefix))
        return odd("the prefix", err);
    if (!in_range(FIELD_ID_open_timeout, c->open_ms) ||
        !in_range(FIELD_ID_retries, c->retries) ||
        !in_range(FIELD_ID_retry_wait, c->retry_ms))
        return odd("a time or a number of tries", err);
    if ((c->uid == 0) != (c->gid == 0) || c->uid > 999999999 || c->gid > 999999999)
        return odd("the user", err);
    if (c->runtime && !is_name(c->runtime))
        return odd("the runtime", err);
    if (policy_check_list(policy, POLICY_ID_runtimes, "runtime",
                          c->runtime ? c->runtime : "default", err) < 0)
        return -1;
    for (size_t i = 0; i < c->cache_count; i++)
        if (judge_cache(plan, i, policy, err) < 0)
            return -1;
    return judge_network(plan, policy, err);
}
