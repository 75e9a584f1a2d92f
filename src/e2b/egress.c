/* SPDX-License-Identifier: Apache-2.0 */
#include "e2b/egress.h"

#include <stdio.h>
#include <string.h>

#include "base/fail.h"
#include "base/name_rule.h"

#define ENTRY 80   /* bytes of a range with ports as text */
#define DEPTH 130u /* of halves of halves of a range, and one more */

struct ranges {
    struct range list[EGRESS_MOST];
    size_t count;
};

static unsigned bits_of(const struct range *r)
{
    return r->first.v6 ? 128 : 32;
}

static void clear_rest(struct range *r)
{
    for (unsigned bit = r->bits; bit < bits_of(r); bit++)
        r->first.bytes[bit / 8] &= (uint8_t) ~(0x80u >> bit % 8);
}

/* A gate sees the address of IPv4 that is in such a one. */
static bool is_mapped(const struct range *r)
{
    struct range mapped;

    return range_parse("::ffff:0:0/96", &mapped) && range_covers(&mapped, r);
}

bool egress_parse(const char *text, struct range *out)
{
    if (!range_parse(text, out) || is_mapped(out))
        return false;
    clear_rest(out);
    return true;
}

bool egress_is_all(const struct range *r)
{
    return !r->first.v6 && r->bits == 0;
}

static bool meet(const struct range *a, const struct range *b)
{
    return range_covers(a, b) || range_covers(b, a);
}

/* LOW 0: on no ports in particular. */
static int add_entry(const struct range *r, uint16_t low, uint16_t high, json_t *list,
                     struct vial_error *err)
{
    char address[ADDRESS_TEXT];
    char text[ENTRY];
    bool bracket = low && r->first.v6;
    size_t len;

    address_write(&r->first, address);
    len = (size_t)snprintf(text, sizeof(text), "%s%s", bracket ? "[" : "", address);
    if (r->bits < bits_of(r))
        len += (size_t)snprintf(text + len, sizeof(text) - len, "/%u", r->bits);
    if (low)
        len += (size_t)snprintf(text + len, sizeof(text) - len, "%s:%u",
                                bracket ? "]" : "", low);
    if (high > low)
        (void)snprintf(text + len, sizeof(text) - len, "-%u", high);
    return json_array_append_new(list, json_string(text)) < 0 ? fail_memory(err) : 0;
}

int egress_allow(const struct range *r, const json_t *usual, json_t *allow,
                 struct vial_error *err)
{
    struct name_rule rule;
    bool found = false;
    size_t i;
    json_t *item;

    json_array_foreach(usual, i, item)
    {
        if (name_rule_parse_any(json_string_value(item), &rule) || !rule.is_range ||
            !range_covers(&rule.range, r))
            continue;
        found = true;
        if (add_entry(r, rule.low, rule.high, allow, err) < 0)
            return -1;
    }
    return found ? 0 : add_entry(r, 0, 0, allow, err);
}

/* Those of TEXTS that are ranges. */
static void read_ranges(const json_t *texts, struct ranges *out)
{
    json_t *item;
    size_t i;

    out->count = 0;
    json_array_foreach(texts, i, item) if (out->count < EGRESS_MOST &&
                                           egress_parse(json_string_value(item),
                                                        &out->list[out->count]))
        out->count++;
}

enum overlap { APART, PARTLY, INSIDE };

static enum overlap overlap_of(const struct range *r, const struct ranges *with)
{
    enum overlap most = APART;

    for (size_t i = 0; i < with->count; i++) {
        if (range_covers(&with->list[i], r))
            return INSIDE;
        if (meet(&with->list[i], r))
            most = PARTLY;
    }
    return most;
}

/* The half of R whose next bit is BIT. */
static struct range half_of(const struct range *r, bool bit)
{
    struct range half = *r;

    if (bit)
        half.first.bytes[r->bits / 8] |= (uint8_t)(0x80u >> r->bits % 8);
    half.bits++;
    return half;
}

static int too_many(struct vial_error *err)
{
    (void)fail(err, VIAL_E_UNSUPPORTED,
               "'network.denyOut' without 'network.allowOut' is more than %u ranges of "
               "addresses",
               EGRESS_MOST);
    return fail_remedy(err, "deny '0.0.0.0/0', and allow what is needed, or deny less");
}

/* Adds to OUT what of R is in none of BUT: R is halved until each piece is or is not.
 * A piece and its other half wait at each depth: never more than DEPTH. */
static int subtract(const struct range *r, const struct ranges *but, struct ranges *out,
                    struct vial_error *err)
{
    struct range wait[DEPTH] = { *r };
    size_t count = 1;

    while (count) {
        struct range piece = wait[--count];
        enum overlap overlap = overlap_of(&piece, but);

        if (overlap == APART && out->count == EGRESS_MOST)
            return too_many(err);
        if (overlap == APART)
            out->list[out->count++] = piece;
        if (overlap == PARTLY) {
            wait[count++] = half_of(&piece, true);
            wait[count++] = half_of(&piece, false);
        }
    }
    return 0;
}

/* A gate lets nothing out to its own machine, unless the operator says so; and it takes
 * no rule of that. */
static int check_own(const struct range *r, const struct policy *policy,
                     struct vial_error *err)
{
    struct range let_in;

    for (size_t i = 0; i < policy->allow_private.count; i++) {
        if (!range_parse(policy->allow_private.items[i], &let_in) || !meet(&let_in, r))
            continue;
        (void)fail(err, VIAL_E_UNSUPPORTED,
                   "'network.denyOut' has addresses of the server's own machine, which "
                   "its policy key 'allow_private' lets in");
        return fail_remedy(err, "deny '0.0.0.0/0', and allow what is needed");
    }
    return 0;
}

int egress_deny(const json_t *denied, const json_t *allowed,
                const struct policy *policy, json_t *deny, struct vial_error *err)
{
    struct ranges from, but;
    struct ranges left = { .count = 0 };

    read_ranges(denied, &from);
    read_ranges(allowed, &but);
    for (size_t i = 0; i < from.count; i++)
        if (subtract(&from.list[i], &but, &left, err) < 0)
            return -1;
    for (size_t i = 0; i < left.count; i++) {
        const struct range *r = &left.list[i];

        if ((range_is_own(r) ? check_own(r, policy, err)
                             : add_entry(r, 0, 0, deny, err)) < 0)
            return -1;
    }
    return 0;
}

const char *egress_meets(const json_t *allowed, const json_t *denied)
{
    struct ranges with;
    struct range r;
    json_t *item;
    size_t i;

    read_ranges(denied, &with);
    json_array_foreach(allowed, i,
                       item) if (egress_parse(json_string_value(item), &r) &&
                                 overlap_of(&r, &with) !=
                                     APART) return json_string_value(item);
    return NULL;
}
