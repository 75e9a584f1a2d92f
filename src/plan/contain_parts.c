/* SPDX-License-Identifier: Apache-2.0 */

/* Two parts of a container's plan: ports of this host that lead to a program's, and
 * volumes that outlive a vessel. */

#include "plan/contain_parts.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fail.h"
#include "base/path.h"

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

    if (read_address(&at, &port->address, err) < 0 ||
        !contain_is_address(port->address) || read_ports(at, port) < 0)
        return contain_refuse(FIELD_ID_ports, text, "[ADDRESS:]PORT:INSIDE[/udp]", err);
    return check_publish(&d->settings->policy, port, err);
}

/* What a gate cannot do, and what nobody would hear of. */
static int check_gated(const struct plan_port *port, struct vial_error *err)
{
    if (port->udp) {
        (void)fail(err, VIAL_E_UNSUPPORTED, "a gate publishes no port of UDP: %u/udp",
                   port->inside);
        return fail_remedy(err, "leave out '/udp', or use '--network bridge'");
    }
    if (port->host != 0)
        return 0;
    (void)fail(err, VIAL_E_UNSUPPORTED, "a gate publishes no port that is any");
    return fail_remedy(err, "say which port of this host leads to port %u",
                       port->inside);
}

/* Who serves others decides for them. */
static int check_served(const struct policy *p, struct vial_error *err)
{
    if ((p->set >> POLICY_ID_publish) & 1u)
        return 0;
    (void)fail(err, VIAL_E_POLICY,
               "a daemon's callers publish ports only if the policy says so");
    return fail_remedy(err,
                       "set policy key 'publish' in /etc/vial/vial.yaml, and restart "
                       "the daemon");
}

int gated_ports_build(struct draft *d, struct vial_error *err)
{
    const struct plan_container *c = &d->plan->container;

    if (ports_build(d, err) < 0)
        return -1;
    for (size_t i = 0; i < c->port_count; i++)
        if (check_gated(&c->ports[i], err) < 0)
            return -1;
    return c->port_count && d->settings->serves
               ? check_served(&d->settings->policy, err)
               : 0;
}

int gated_ports_judge(const struct plan_container *c, const struct policy *policy,
                      struct vial_error *err)
{
    for (size_t i = 0; i < c->port_count; i++)
        if (check_gated(&c->ports[i], err) < 0 || check_served(policy, err) < 0)
            return -1;
    return ports_judge(c, policy, err);
}

int ports_build(struct draft *d, struct vial_error *err)
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

int ports_judge(const struct plan_container *c, const struct policy *policy,
                struct vial_error *err)
{
    for (size_t i = 0; i < c->port_count; i++) {
        const struct plan_port *port = &c->ports[i];

        if (!contain_is_address(port->address) || port->host > 65535 ||
            port->inside == 0 || port->inside > 65535)
            return contain_odd("a port", err);
        if (check_publish(policy, port, err) < 0)
            return -1;
    }
    return 0;
}

/* Volumes that outlive a vessel, for what package managers would fetch again. */

#define CACHE_DIR "/cache/"

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
    if (!contain_is_name(name) || strlen(name) > 64 || (colon && colon[1] != '/'))
        return contain_refuse(FIELD_ID_caches, text, "NAME or NAME:DIR", err);
    str_printf(&volume, "%s-cache-%s", c->prefix, name);
    cache->volume = str_take(&volume);
    if (!cache->volume ||
        contain_copy(&cache->target, colon ? colon + 1 : usual, err) < 0)
        return fail_memory(err);
    if (variable_of(name))
        add_variable(&d->plan->env, variable_of(name), cache->target);
    return check_cache(d, name, cache->target, err);
}

int caches_build(struct draft *d, struct vial_error *err)
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
        strlen(cache->volume + start.len) > 64 ||
        !contain_is_name(cache->volume + start.len))
        return contain_odd("a cache", err);
    name = cache->volume + start.len;
    for (size_t other = 0; other < i; other++)
        if (path_is_beneath(cache->target, c->caches[other].target) ||
            path_is_beneath(c->caches[other].target, cache->target))
            return contain_odd("a cache's target", err);
    if (policy_check_list(policy, POLICY_ID_caches, "cache", name, err) < 0)
        return -1;
    return mount_check_target(plan, cache->target, err);
}

int caches_judge(const struct plan *plan, const struct policy *policy,
                 struct vial_error *err)
{
    for (size_t i = 0; i < plan->container.cache_count; i++)
        if (judge_cache(plan, i, policy, err) < 0)
            return -1;
    return 0;
}
