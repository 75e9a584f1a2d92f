/* SPDX-License-Identifier: Apache-2.0 */
#include "base/name_rule.h"

#include <string.h>

#define LABEL_MAX 63

static const uint16_t usual_ports[] = { 80, 443 };
#define USUAL_COUNT (sizeof usual_ports / sizeof *usual_ports)

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || c == '-' || c == '_';
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

bool name_is_host(const char *text, size_t len)
{
    size_t label = 0;
    bool letters = false; /* in the last label: else it is an address */

    if (len == 0 || len > NAME_LEN_MAX)
        return false;
    for (size_t i = 0; i < len; i++) {
        if (text[i] == '.') {
            if (label == 0)
                return false;
            label = 0;
            letters = false;
            continue;
        }
        if (!is_letter(text[i]) && !is_digit(text[i]))
            return false;
        letters = letters || is_letter(text[i]);
        if (++label > LABEL_MAX)
            return false;
    }
    return label > 0 && letters;
}

/* A number of 1 to 65535 at *AT, which goes behind it; 0: there is none. */
static uint16_t take_port(const char **at)
{
    uint32_t n = 0;

    for (int digits = 0; is_digit(**at); (*at)++) {
        n = n * 10 + (uint32_t)(**at - '0');
        if (++digits > 5 || n > UINT16_MAX)
            return 0;
    }
    return (uint16_t)n;
}

static const char *parse_ports(const char *text, struct name_rule *out)
{
    static const char wrong[] = "its port is not a number from 1 to 65535";

    out->low = out->high = take_port(&text);
    if (!out->low)
        return *text == '*' ? "its ports are all: name those that are needed" : wrong;
    if (*text == '-') {
        text++;
        out->high = take_port(&text);
    }
    if (*text || out->high < out->low)
        return wrong;
    if (out->high - out->low >= NAME_RULE_PORTS_MAX)
        return "it has more than 16 ports";
    return NULL;
}

static void copy_lower(char *to, const char *from, size_t len)
{
    for (size_t i = 0; i < len; i++)
        to[i] = from[i] >= 'A' && from[i] <= 'Z' ? (char)(from[i] + 32) : from[i];
    to[len] = 0;
}

const char *name_rule_parse(const char *text, struct name_rule *out)
{
    size_t len = strcspn(text, ":");
    const char *ports = text[len] ? text + len + 1 : NULL;

    *out = (struct name_rule){ 0 };
    if (text[0] == '*' && (len == 1 || text[1] == '.')) {
        out->wild = true;
        text += len == 1 ? 1 : 2;
        len -= len == 1 ? 1 : 2;
    }
    if (len > NAME_LEN_MAX)
        return "it is longer than a host's name";
    copy_lower(out->name, text, len);
    if (!(out->wild && len == 0) && !name_is_host(out->name, len))
        return "it is not a host's name";
    return ports ? parse_ports(ports, out) : NULL;
}

const char *name_rule_parse_any(const char *text, struct name_rule *out)
{
    struct range range;
    const char *ports = NULL;

    if (!range_parse_ports(text, &range, &ports))
        return strpbrk(text, "/[") ? "it is not ADDRESS/BITS, nor [ADDRESS/BITS]:PORTS"
                                   : name_rule_parse(text, out);
    *out = (struct name_rule){ .is_range = true, .range = range };
    if (range_is_ragged(&range))
        return "its address has bits beyond those that it names";
    if (range_is_own(&range))
        return "it is the program's own machine";
    return ports ? parse_ports(ports, out) : NULL;
}

bool name_rule_has_name(const struct name_rule *rule, const char *name)
{
    size_t len = strlen(name);
    size_t tail = strlen(rule->name);

    if (rule->is_range)
        return false;
    if (!rule->wild)
        return strcmp(rule->name, name) == 0;
    if (tail == 0)
        return true;
    return len > tail + 1 && name[len - tail - 1] == '.' &&
           strcmp(name + len - tail, rule->name) == 0;
}

unsigned name_rule_port_count(const struct name_rule *rule)
{
    return rule->low ? rule->high - rule->low + 1u : USUAL_COUNT;
}

uint16_t name_rule_port(const struct name_rule *rule, unsigned n)
{
    return rule->low ? (uint16_t)(rule->low + n) : usual_ports[n];
}

bool name_rule_has_port(const struct name_rule *rule, uint16_t port)
{
    for (unsigned n = 0; n < name_rule_port_count(rule); n++)
        if (name_rule_port(rule, n) == port)
            return true;
    return false;
}

static bool covers_names(const struct name_rule *wide, const struct name_rule *narrow)
{
    if (wide->is_range || narrow->is_range)
        return wide->is_range && narrow->is_range &&
               range_covers(&wide->range, &narrow->range);
    if (!narrow->wild)
        return name_rule_has_name(wide, narrow->name);
    /* What is below a name that is below WIDE's, is below WIDE's. */
    return wide->wild && (strcmp(wide->name, narrow->name) == 0 ||
                          (narrow->name[0] && name_rule_has_name(wide, narrow->name)));
}

bool name_rule_covers(const struct name_rule *wide, const struct name_rule *narrow)
{
    if (!covers_names(wide, narrow))
        return false;
    for (unsigned n = 0; n < name_rule_port_count(narrow); n++)
        if (!name_rule_has_port(wide, name_rule_port(narrow, n)))
            return false;
    return true;
}

bool name_rules_have(const struct name_rule *rules, size_t count, const char *name,
                     uint16_t port)
{
    for (size_t i = 0; i < count; i++)
        if (name_rule_has_port(&rules[i], port) && name_rule_has_name(&rules[i], name))
            return true;
    return false;
}

bool name_rules_deny(const struct name_rule *rules, size_t count, const char *name,
                     uint16_t port)
{
    for (size_t i = 0; i < count; i++)
        if ((!rules[i].low || (port && name_rule_has_port(&rules[i], port))) &&
            name_rule_has_name(&rules[i], name))
            return true;
    return false;
}

static bool has_address(const struct name_rule *rule, const struct address *address)
{
    return rule->is_range && address_in(address, &rule->range, 1);
}

bool name_rules_have_address(const struct name_rule *rules, size_t count,
                             const struct address *address, uint16_t port)
{
    for (size_t i = 0; i < count; i++)
        if (has_address(&rules[i], address) && name_rule_has_port(&rules[i], port))
            return true;
    return false;
}

bool name_rules_deny_address(const struct name_rule *rules, size_t count,
                             const struct address *address, uint16_t port)
{
    for (size_t i = 0; i < count; i++)
        if (has_address(&rules[i], address) &&
            (!rules[i].low || name_rule_has_port(&rules[i], port)))
            return true;
    return false;
}
