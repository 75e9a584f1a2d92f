/* SPDX-License-Identifier: Apache-2.0 */
#include "driver/docker/oci.h"

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/personality.h>

#include "base/fail.h"
#include "base/json.h"
#include "base/str.h"

/* System calls that the guest itself makes and programs may not: opening beneath a
 * directory; and making and entering the programs' user namespace, where there is to be
 * one. */
static const struct guest_call {
    const char *name;
    const char *args; /* a condition, or NULL */
    bool for_users;
} guest_calls[] = { { "openat2", NULL, false },
                    { "unshare", "0=0x10000000", true },
                    { "setns", "1=0x10000000", true } };

struct condition {
    unsigned arg;
    char op; /* '=' under mask, or '>' */
    uint64_t mask, value;
};

static bool read_number(const char **at, uint64_t *out)
{
    char *end = NULL;

    if (**at < '0' || **at > '9')
        return false;
    *out = strtoull(*at, &end, 0);
    *at = end;
    return true;
}

/* "N=V", "N&M=V" or "N>V", as seccomp/default.yaml explains. */
static int read_condition(const char *text, struct condition *out)
{
    uint64_t arg = 0;

    *out = (struct condition){ .mask = UINT32_MAX };
    if (!text || !read_number(&text, &arg) || arg > 5)
        return -1;
    out->arg = (unsigned)arg;
    if (*text == '&') {
        text++;
        if (!read_number(&text, &out->mask))
            return -1;
    }
    out->op = *text;
    if (*text != '=' && *text != '>')
        return -1;
    text++;
    return read_number(&text, &out->value) && *text == '\0' ? 0 : -1;
}

static json_t *condition_json(const struct condition *c)
{
    if (c->op == '>')
        return json_pack("{s:i, s:I, s:s}", "index", (int)c->arg, "value",
                         (json_int_t)c->value, "op", "SCMP_CMP_GT");
    return json_pack("{s:i, s:I, s:I, s:s}", "index", (int)c->arg, "value",
                     (json_int_t)c->mask, "valueTwo", (json_int_t)c->value, "op",
                     "SCMP_CMP_MASKED_EQ");
}

static json_t *args_json(json_t *args)
{
    json_t *list = json_array();
    json_t *item = NULL;
    size_t i = 0;

    json_array_foreach(args, i, item)
    {
        struct condition c;

        if (read_condition(json_string_value(item), &c) < 0 ||
            json_array_append_new(list, condition_json(&c)) < 0) {
            json_decref(list);
            return NULL;
        }
    }
    return list;
}

static const char *text_at(json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));

    return text ? text : "";
}

/*
 * The bits that every refusal of CALL looks for in one argument: then allowing
 * it where none of them is set says the same. 0: there are none, or they say
 * more than that.
 */
static uint64_t forbidden_bits(json_t *rules, const char *call, unsigned *arg)
{
    uint64_t bits = 0;
    json_t *rule = NULL;
    size_t i = 0;

    json_array_foreach(rules, i, rule)
    {
        json_t *args = json_object_get(rule, "args");
        struct condition c;

        if (!args || !str_eq(text_at(rule, "call"), call) ||
            str_eq(text_at(rule, "action"), "allow"))
            continue;
        if (json_array_size(args) != 1 ||
            read_condition(json_string_value(json_array_get(args, 0)), &c) < 0 ||
            c.op != '=' || c.mask != c.value || (bits && c.arg != *arg))
            return 0;
        *arg = c.arg;
        bits |= c.mask;
    }
    return bits;
}

static int errno_of(const char *action)
{
    static const struct {
        const char *name;
        int number;
    } known[] = { { "OK", 0 },
                  { "EPERM", EPERM },
                  { "EACCES", EACCES },
                  { "EINVAL", EINVAL },
                  { "ENOMEM", ENOMEM },
                  { "ENOSYS", ENOSYS },
                  { "EAFNOSUPPORT", EAFNOSUPPORT },
                  { "EPROTONOSUPPORT", EPROTONOSUPPORT } };

    for (size_t i = 0; i < sizeof(known) / sizeof(*known); i++)
        if (str_eq(known[i].name, action))
            return known[i].number;
    return -1;
}

static bool is_guests(const char *call, bool own_users)
{
    for (size_t i = 0; i < sizeof(guest_calls) / sizeof(*guest_calls); i++)
        if (str_eq(guest_calls[i].name, call))
            return own_users || !guest_calls[i].for_users;
    return false;
}

static json_t *allow_json(json_t *rules, const char *call, json_t *args)
{
    struct condition c = { .op = '=' };
    json_t *list = args ? args_json(args) : json_array();

    if (!args) {
        c.mask = forbidden_bits(rules, call, &c.arg);
        if (c.mask)
            (void)json_array_append_new(list, condition_json(&c));
    }
    return json_pack("{s:[s], s:s, s:o}", "names", call, "action", "SCMP_ACT_ALLOW",
                     "args", list);
}

/* NULL: the rule makes no sense. */
static json_t *rule_json(json_t *rules, json_t *rule, bool counted)
{
    const char *call = text_at(rule, "call");
    const char *action = text_at(rule, "action");

    /* The guest's children ask for a listener; programs are refused one inside. */
    if (counted && str_eq(call, "seccomp") && str_eq(action, "allow"))
        return allow_json(NULL, call, NULL);
    if (str_eq(action, "allow"))
        return allow_json(rules, call, json_object_get(rule, "args"));
    if (str_eq(action, "kill"))
        return json_pack("{s:[s], s:s}", "names", call, "action",
                         "SCMP_ACT_KILL_PROCESS");
    if (errno_of(action) < 0)
        return NULL;
    if (counted && errno_of(action) == EPERM)
        return json_pack("{s:[s], s:s}", "names", call, "action", "SCMP_ACT_TRACE");
    return json_pack("{s:[s], s:s, s:i}", "names", call, "action", "SCMP_ACT_ERRNO",
                     "errnoRet", errno_of(action));
}

/* Left out here: a refusal by argument, and one of what the guest needs. */
static bool is_inner(json_t *rule, bool own_users)
{
    bool allows = str_eq(text_at(rule, "action"), "allow");

    return !allows && (json_object_get(rule, "args") ||
                       is_guests(text_at(rule, "call"), own_users));
}

static int add_guests(json_t *calls, json_t *rules, const struct guest_call *call)
{
    auto_json json_t *args = call->args ? json_pack("[s]", call->args) : NULL;

    return json_array_append_new(calls, allow_json(rules, call->name, args));
}

static int fill(json_t *calls, json_t *rules, struct oci_options o)
{
    json_t *rule = NULL;
    size_t i = 0;

    json_array_foreach(rules, i, rule)
    {
        if (!is_inner(rule, o.own_users) &&
            json_array_append_new(calls, rule_json(rules, rule, o.counted)) < 0)
            return -1;
    }
    for (i = 0; i < sizeof(guest_calls) / sizeof(*guest_calls); i++)
        if (is_guests(guest_calls[i].name, o.own_users) &&
            add_guests(calls, rules, &guest_calls[i]) < 0)
            return -1;
    /* The guest's children call it; programs are refused it inside. */
    return o.fixed ? json_array_append_new(
                         calls, json_pack("{s:[s], s:s, s:[{s:i, s:i, s:s}]}", "names",
                                          "personality", "action", "SCMP_ACT_ALLOW",
                                          "args", "index", 0, "value",
                                          ADDR_NO_RANDOMIZE, "op", "SCMP_CMP_EQ"))
                   : 0;
}

json_t *oci_profile(json_t *profile, struct oci_options o, struct vial_error *err)
{
    auto_json json_t *calls = json_array();
    int fallback = errno_of(text_at(profile, "default"));
    json_t *out = NULL;

    if (fallback < 0 || fill(calls, json_object_get(profile, "rules"), o) < 0) {
        (void)fail(err, VIAL_E_VALUE, "seccomp profile: a rule cannot be understood");
        return NULL;
    }
    /* Without "architectures": the engine then allows its own alone. */
    out = json_pack("{s:s, s:i, s:O}", "defaultAction", "SCMP_ACT_ERRNO",
                    "defaultErrnoRet", fallback, "syscalls", calls);
    if (!out)
        (void)fail_memory(err);
    return out;
}
