/* SPDX-License-Identifier: Apache-2.0 */
#include "http/out_rules.h"

#include <stdlib.h>
#include <string.h>

static bool has_port(uint16_t rule, uint16_t port)
{
    return rule ? rule == port : port == 80 || port == 443;
}

/* 1 to 65535, and nothing behind it; else 0. */
static uint16_t parse_port(const char *text)
{
    unsigned long port = strtoul(text, NULL, 10);
    size_t len = strspn(text, "0123456789");

    return len == 0 || len > 5 || text[len] || port > UINT16_MAX ? 0 : (uint16_t)port;
}

static bool parse_range(const char *text, struct out_range *out)
{
    const char *port = NULL;

    *out = (struct out_range){ 0 };
    if (!range_parse_ports(text, &out->range, &port))
        return false;
    out->port = port ? parse_port(port) : 0;
    return !port || out->port;
}

const char *out_rules_add(struct out_rules *r, const char *text)
{
    const char *wrong;

    if (r->name_count >= OUT_RULES_MAX || r->range_count >= OUT_RULES_MAX)
        return "there are too many";
    if (parse_range(text, &r->ranges[r->range_count])) {
        r->range_count++;
        return NULL;
    }
    wrong = name_rule_parse(text, &r->names[r->name_count]);
    r->name_count += !wrong;
    return wrong;
}

bool out_rules_name_address(const struct out_rules *r, const struct address *a,
                            uint16_t port)
{
    for (size_t i = 0; i < r->range_count; i++)
        if (has_port(r->ranges[i].port, port) && address_in(a, &r->ranges[i].range, 1))
            return true;
    return false;
}

bool out_rules_have_address(const struct out_rules *r, const struct address *a,
                            uint16_t port)
{
    return address_is_public(a) || out_rules_name_address(r, a, port);
}

bool out_rules_have_host(const struct out_rules *r, const char *host, uint16_t port)
{
    struct range given;

    if (name_is_host(host, strlen(host)))
        return name_rules_have(r->names, r->name_count, host, port);
    return !strchr(host, '/') && range_parse(host, &given) &&
           out_rules_name_address(r, &given.first, port);
}
