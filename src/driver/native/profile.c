/* SPDX-License-Identifier: Apache-2.0 */
#include "driver/native/profile.h"

#include <string.h>

#include "base/fail.h"
#include "base/json.h"

#define EXTENDS_MAX 4
#define FILE_MAX    (256u << 10)

bool profile_name_ok(const char *name)
{
    size_t len = strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789-");

    return len > 0 && len <= 32 && name[len] == '\0';
}

static int bad(struct vial_error *err, const char *name, const char *what)
{
    return fail(err, VIAL_E_YAML, "seccomp profile '%s': %s", name, what);
}

static int add_rule(json_t *rules, const char *call, const char *action, json_t *args,
                    struct vial_error *err)
{
    json_t *rule =
        json_pack("{s:s, s:s, s:O*}", "call", call, "action", action, "args", args);

    return json_array_append_new(rules, rule) < 0 ? fail_memory(err) : 0;
}

/* A plain list of names, all with one action. */
static int add_names(json_t *rules, json_t *names, const char *action, const char *name,
                     struct vial_error *err)
{
    size_t i = 0;
    json_t *item = NULL;

    if (!json_is_array(names))
        return bad(err, name, "a list of calls is wanted");
    json_array_foreach(names, i, item)
    {
        if (!json_is_string(item))
            return bad(err, name, "a call is a name");
        if (add_rule(rules, json_string_value(item), action, NULL, err) < 0)
            return -1;
    }
    return 0;
}

/* "allow" is a map of headings to names, "deny" one of errors to names. */
static int add_groups(json_t *rules, json_t *groups, const char *action,
                      const char *name, struct vial_error *err)
{
    const char *key = NULL;
    json_t *names = NULL;

    if (groups && !json_is_object(groups))
        return bad(err, name, "'allow' and 'deny' are maps of lists");
    json_object_foreach(groups, key, names)
    {
        if (add_names(rules, names, action ? action : key, name, err) < 0)
            return -1;
    }
    return 0;
}

static int add_conditions(json_t *rules, json_t *list, const char *action,
                          const char *name, struct vial_error *err)
{
    size_t i = 0;
    json_t *item = NULL;

    if (list && !json_is_array(list))
        return bad(err, name, "'allow_when' and 'deny_when' are lists");
    json_array_foreach(list, i, item)
    {
        const char *call = NULL;
        const char *error = action;
        json_t *args = NULL;

        if (json_unpack(item, "{s:s, s?s, s:o!}", "call", &call, "error", &error,
                        "args", &args) < 0 ||
            !error || !json_is_array(args) || json_array_size(args) == 0)
            return bad(err, name,
                       "a condition has 'call', 'args' and, to deny, 'error'");
        if (add_rule(rules, call, error, args, err) < 0)
            return -1;
    }
    return 0;
}

static bool has_text(json_t *list, const char *text)
{
    size_t i = 0;
    json_t *item = NULL;

    json_array_foreach(list, i, item)
    {
        if (str_eq(json_string_value(item), text))
            return true;
    }
    return false;
}

/* Drops from RULES what is about the calls in LIST. */
static void drop_calls(json_t *rules, json_t *list)
{
    for (size_t i = json_array_size(rules); i-- > 0;) {
        json_t *rule = json_array_get(rules, i);

        if (has_text(list, json_string_value(json_object_get(rule, "call"))))
            (void)json_array_remove(rules, i);
    }
}

static int add_all(json_t *rules, json_t *file, const char *name,
                   struct vial_error *err)
{
    if (add_groups(rules, json_object_get(file, "allow"), "allow", name, err) < 0 ||
        add_groups(rules, json_object_get(file, "deny"), NULL, name, err) < 0 ||
        add_conditions(rules, json_object_get(file, "allow_when"), "allow", name, err) <
            0)
        return -1;
    return add_conditions(rules, json_object_get(file, "deny_when"), NULL, name, err);
}

static int check_keys(json_t *file, const char *name, struct vial_error *err)
{
    static const char *const known[] = { "summary",    "default",   "extends",
                                         "replace",    "allow",     "deny",
                                         "allow_when", "deny_when", NULL };
    const char *key = NULL;
    json_t *value = NULL;

    json_object_foreach(file, key, value)
    {
        bool found = false;

        for (size_t i = 0; known[i]; i++)
            found = found || strcmp(known[i], key) == 0;
        if (!found)
            return fail(err, VIAL_E_FIELD, "unknown key '%s' in seccomp profile '%s'",
                        key, name);
    }
    return 0;
}

static int read_level(const char *dir, const char *name, unsigned depth, json_t **out,
                      struct vial_error *err);

/* The profile below, or an empty one. */
static int read_base(const char *dir, json_t *file, const char *name, unsigned depth,
                     json_t **out, struct vial_error *err)
{
    const char *extends = json_string_value(json_object_get(file, "extends"));

    if (extends) {
        if (depth >= EXTENDS_MAX)
            return bad(err, name, "too many levels of 'extends'");
        return read_level(dir, extends, depth + 1, out, err);
    }
    *out = json_pack("{s:s, s:s, s:[]}", "summary", "", "default", "ENOSYS", "rules");
    return *out ? 0 : fail_memory(err);
}

static int read_level(const char *dir, const char *name, unsigned depth, json_t **out,
                      struct vial_error *err)
{
    auto_str struct str path = { 0 };
    auto_json json_t *file = NULL;
    auto_json json_t *profile = NULL;
    json_t *rules = NULL;

    if (!profile_name_ok(name))
        return fail(err, VIAL_E_VALUE, "seccomp profile '%s' is not a name", name);
    str_printf(&path, "%s/%s.yaml", dir, name);
    if (!str_ok(&path))
        return fail_memory(err);
    if (yaml_read(path.data, &file, err) < 0 || check_keys(file, name, err) < 0 ||
        read_base(dir, file, name, depth, &profile, err) < 0)
        return -1;
    rules = json_object_get(profile, "rules");
    drop_calls(rules, json_object_get(file, "replace"));
    if (add_all(rules, file, name, err) < 0)
        return -1;
    for (size_t i = 0; i < 2; i++) {
        static const char *const keys[] = { "summary", "default" };
        json_t *value = json_object_get(file, keys[i]);

        if (json_is_string(value) && json_object_set(profile, keys[i], value) < 0)
            return fail_memory(err);
    }
    *out = ptr_take(&profile);
    return 0;
}

int profile_read(const char *dir, const char *name, json_t **out,
                 struct vial_error *err)
{
    return read_level(dir, name, 0, out, err);
}

json_t *profile_summary(json_t *profile)
{
    json_t *rules = json_object_get(profile, "rules");
    json_t *rule = NULL;
    json_t *notable = json_array();
    size_t i = 0;
    int allowed = 0;
    int refused = 0;

    json_array_foreach(rules, i, rule)
    {
        bool allows =
            str_eq(json_string_value(json_object_get(rule, "action")), "allow");

        if (json_object_get(rule, "args")) {
            (void)json_array_append(notable, rule);
            continue;
        }
        allowed += allows ? 1 : 0;
        refused += allows ? 0 : 1;
    }
    return json_pack("{s:O, s:O, s:s, s:i, s:i, s:o}", "summary",
                     json_object_get(profile, "summary"), "default",
                     json_object_get(profile, "default"), "foreign_architecture",
                     "kill", "allowed", allowed, "refused", refused, "conditions",
                     notable);
}
