/* SPDX-License-Identifier: Apache-2.0 */
#include "model/policy.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/fail.h"
#include "base/name_rule.h"
#include "base/path.h"
#include "model/field_type.h"
#include "model/value.h"
#include "model/volume.h"

#define LIST_ENTRIES 1024
#define CARGO_MAX    (INT64_C(64) << 30)

/* A cap may be anything that its field may be; see range_of. */
const struct policy_row policy_rows[] = {
#define POLICY_NUMBER(name, type, field, def, help)                                    \
    { { #name, type, FIELD_IN_SETTINGS, NULL, NULL, 1, CARGO_MAX, def, help },         \
      FIELD_ID_##field,                                                                \
      offsetof(struct policy, name) },
#define POLICY_LIST(name, help)                                                        \
    { { #name, FIELD_LIST, FIELD_IN_SETTINGS, NULL, NULL, 0, LIST_ENTRIES, NULL,       \
        help },                                                                        \
      FIELD_ID__COUNT,                                                                 \
      offsetof(struct policy, name) },
#include "model/policy.def"
#undef POLICY_NUMBER
#undef POLICY_LIST
};

static const char *const names[] = {
#define POLICY_NUMBER(name, ...) #name,
#define POLICY_LIST(name, ...)   #name,
#include "model/policy.def"
#undef POLICY_NUMBER
#undef POLICY_LIST
    NULL
};

/* Fields that share another's cap. */
static const struct {
    enum field_id field;
    enum policy_id cap;
} shared[] = {
    { FIELD_ID_compile_timeout, POLICY_ID_max_timeout },
    { FIELD_ID_tmp, POLICY_ID_max_disk },
    { FIELD_ID_stdin, POLICY_ID_max_code },
};

#define SHARED_COUNT (sizeof(shared) / sizeof(shared[0]))

static int64_t *number(struct policy *p, size_t i)
{
    return (int64_t *)(void *)((char *)p + policy_rows[i].offset);
}

static int64_t number_of(const struct policy *p, size_t i)
{
    return *(const int64_t *)(const void *)((const char *)p + policy_rows[i].offset);
}

static struct strv *list(struct policy *p, size_t i)
{
    return (struct strv *)(void *)((char *)p + policy_rows[i].offset);
}

static const struct strv *list_of(const struct policy *p, size_t i)
{
    return (const struct strv *)(const void *)((const char *)p + policy_rows[i].offset);
}

static bool is_list(size_t i)
{
    return policy_rows[i].f.type == FIELD_LIST;
}

static bool is_set(const struct policy *p, size_t i)
{
    return (p->set >> i) & 1u;
}

struct field policy_range(enum policy_id id)
{
    struct field f = policy_rows[id].f;
    const struct field *capped = is_list(id) ? &f : &fields[policy_rows[id].caps];

    if (capped->type == f.type) {
        f.min = capped->min;
        f.max = capped->max;
    }
    return f;
}

int policy_find(const char *name)
{
    for (int i = 0; names[i]; i++)
        if (strcmp(names[i], name) == 0)
            return i;
    return -1;
}

int policy_init(struct policy *p, struct vial_error *err)
{
    *p = (struct policy){ 0 };
    for (size_t i = 0; i < POLICY_ID__COUNT; i++) {
        const struct field *f = &policy_rows[i].f;
        struct field range;

        if (is_list(i))
            continue;
        range = policy_range((enum policy_id)i);
        if (value_parse(&range, f->def, strlen(f->def), number(p, i), err) < 0)
            return -1;
    }
    return 0;
}

void policy_seal(struct policy *p)
{
    p->sealed = true;
}

static int note_origin(struct policy *p, size_t i, const char *where,
                       struct vial_error *err)
{
    char *copy = strdup(where);

    if (!copy)
        return fail_memory(err);
    free(p->origin[i]);
    p->origin[i] = copy;
    p->set |= UINT64_C(1) << i;
    return 0;
}

static int tighten_number(struct policy *p, size_t i, json_t *json, const char *where,
                          struct vial_error *err)
{
    struct field f = policy_range((enum policy_id)i);
    bool replaces = !is_set(p, i) && !p->sealed;
    int64_t value;

    if (value_decode(&f, json, &value, err) < 0)
        return -1;
    if (!replaces && value >= *number(p, i))
        return 0;
    *number(p, i) = value;
    return note_origin(p, i, where, err);
}

static bool rule_covers(const char *wide, const char *item)
{
    struct name_rule a, b;

    return !name_rule_parse_any(wide, &a) && !name_rule_parse_any(item, &b) &&
           name_rule_covers(&a, &b);
}

/* Whether entry WIDE of list ID admits what ITEM admits. */
static bool covers(size_t id, const char *wide, const char *item)
{
    size_t len = strlen(wide);

    if (id == POLICY_ID_mount_roots)
        return path_is_beneath(item, wide);
    if (id == POLICY_ID_allow)
        return strcmp(item, wide) == 0 || rule_covers(wide, item);
    if (id == POLICY_ID_volumes)
        return volume_entry_covers(wide, item);
    if (len > 0 && wide[len - 1] == '*')
        return strncmp(item, wide, len - 1) == 0;
    return strcmp(item, wide) == 0;
}

static bool any_covers(size_t id, const struct strv *wide, const char *item)
{
    for (size_t i = 0; i < wide->count; i++)
        if (covers(id, wide->items[i], item))
            return true;
    return false;
}

static void keep_covered(size_t id, const struct strv *from, const struct strv *by,
                         struct strv *out)
{
    for (size_t i = 0; i < from->count; i++)
        if (any_covers(id, by, from->items[i]) && !strv_has(out, from->items[i]))
            strv_push(out, from->items[i]);
}

static void combine(struct policy *p, size_t i, const struct strv *given,
                    struct strv *out)
{
    const struct strv *now = list_of(p, i);

    if (i == POLICY_ID_require || i == POLICY_ID_deny) {
        strv_copy(out, now);
        for (size_t n = 0; n < given->count; n++)
            if (!strv_has(out, given->items[n]))
                strv_push(out, given->items[n]);
    } else if (!is_set(p, i)) {
        strv_copy(out, given);
    } else {
        keep_covered(i, now, given, out);
        keep_covered(i, given, now, out);
    }
}

static int check_roots(const struct strv *roots, struct vial_error *err)
{
    for (size_t i = 0; i < roots->count; i++)
        if (!path_is_clean_absolute(roots->items[i]))
            return fail(err, VIAL_E_VALUE,
                        "mount_roots '%s' is not a clean absolute path",
                        roots->items[i]);
    return 0;
}

static int tighten_list(struct policy *p, size_t i, json_t *json, const char *where,
                        struct vial_error *err)
{
    auto_strv struct strv given = { 0 };
    struct strv combined = { 0 };

    if (field_ops_of(FIELD_LIST)->decode(&policy_rows[i].f, &given, json, err) < 0 ||
        (i == POLICY_ID_mount_roots && check_roots(&given, err) < 0))
        return -1;
    combine(p, i, &given, &combined);
    if (!strv_ok(&combined)) {
        strv_done(&combined);
        return fail_memory(err);
    }
    strv_done(list(p, i));
    *list(p, i) = combined;
    return note_origin(p, i, where, err);
}

static int tighten_row(struct policy *p, const char *key, json_t *value,
                       const char *where, struct vial_error *err)
{
    size_t i = 0;
    int rc;

    while (names[i] && strcmp(names[i], key) != 0)
        i++;
    if (!names[i])
        return value_unknown(err, "key", key, names, " in '%s'", where);
    rc = is_list(i) ? tighten_list(p, i, value, where, err)
                    : tighten_number(p, i, value, where, err);
    return rc < 0 ? fail_in(err, "%s: policy", where) : 0;
}

int policy_tighten(struct policy *p, json_t *object, const char *where,
                   struct vial_error *err)
{
    if (!json_is_object(object))
        return fail(err, VIAL_E_VALUE, "%s: policy is not an object", where);
    for (void *at = json_object_iter(object); at;
         at = json_object_iter_next(object, at))
        if (tighten_row(p, json_object_iter_key(at), json_object_iter_value(at), where,
                        err) < 0)
            return -1;
    return 0;
}

static int advise(const struct policy *p, enum policy_id id, const char *verb,
                  struct vial_error *err)
{
    if (p->origin[id])
        return fail_remedy(err, "ask for less, or %s policy key '%s' in %s", verb,
                           names[id], p->origin[id]);
    return fail_remedy(err,
                       "ask for less, or %s policy key '%s' in /etc/vial/vial.yaml "
                       "or ~/.config/vial/vial.yaml",
                       verb, names[id]);
}

int policy_refuse(const struct policy *p, enum policy_id id, const char *what,
                  int64_t amount, struct vial_error *err)
{
    auto_str struct str asked = { 0 };
    auto_str struct str cap = { 0 };

    value_write(&asked, policy_rows[id].f.type, amount);
    value_write(&cap, policy_rows[id].f.type, number_of(p, id));
    if (!str_ok(&asked) || !str_ok(&cap))
        return fail_memory(err);
    (void)fail(err, VIAL_E_CAP, "%s %s exceeds the policy's %s %s", what, asked.data,
               names[id], cap.data);
    return advise(p, id, "raise", err);
}

static int check_cap(const struct policy *p, enum policy_id id,
                     const struct vial_request *req, enum field_id field,
                     struct vial_error *err)
{
    int64_t amount = request_amount(req, field);

    if (amount <= number_of(p, id))
        return 0;
    return policy_refuse(p, id, fields[field].name, amount, err);
}

int policy_check_list(const struct policy *p, enum policy_id id, const char *what,
                      const char *name, struct vial_error *err)
{
    auto_str struct str allowed = { 0 };
    const struct strv *entries = list_of(p, id);

    if (!is_set(p, id) || any_covers(id, entries, name))
        return 0;
    for (size_t i = 0; i < entries->count; i++)
        str_printf(&allowed, "%s%s", i ? ", " : "", entries->items[i]);
    (void)fail(err, VIAL_E_POLICY, "%s '%s' is not allowed by the policy", what, name);
    return fail_remedy(err, "choose one of: %s (policy key '%s' in %s)",
                       allowed.data ? allowed.data : "none at all", names[id],
                       p->origin[id]);
}

int policy_check_pull(const struct policy *p, const char *image, struct vial_error *err)
{
    if (policy_check_list(p, POLICY_ID_pulls, "pull", "missing", NULL) == 0 ||
        policy_check_list(p, POLICY_ID_pulls, "pull", "always", NULL) == 0)
        return policy_check_list(p, POLICY_ID_images, "image", image, err);
    (void)fail(err, VIAL_E_POLICY, "pull image '%s': the policy allows no pulls",
               image);
    return fail_remedy(err,
                       "use an image that is here ('vial image list'); policy key "
                       "'pulls' is in %s",
                       p->origin[POLICY_ID_pulls]);
}

static int check_lists(const struct policy *p, const struct vial_request *req,
                       struct vial_error *err)
{
    char name[32];

    request_choice(req, FIELD_ID_network, name);
    if (name[0] && !strv_has(&p->networks, POLICY_BY_LANGUAGE) &&
        policy_check_list(p, POLICY_ID_networks, "network", name, err) < 0)
        return -1;
    request_choice(req, FIELD_ID_driver, name);
    if (name[0] && strcmp(name, "auto") != 0 &&
        policy_check_list(p, POLICY_ID_drivers, "driver", name, err) < 0)
        return -1;
    if (request_has(req, image))
        return policy_check_list(p, POLICY_ID_images, "image", req->image, err);
    return 0;
}

int policy_check(const struct policy *p, const struct vial_request *req,
                 struct vial_error *err)
{
    for (size_t i = 0; i < POLICY_ID__COUNT; i++)
        if (!is_list(i) &&
            check_cap(p, (enum policy_id)i, req, policy_rows[i].caps, err) < 0)
            return -1;
    for (size_t i = 0; i < SHARED_COUNT; i++)
        if (check_cap(p, shared[i].cap, req, shared[i].field, err) < 0)
            return -1;
    return check_lists(p, req, err);
}

int64_t policy_cap(const struct policy *p, enum field_id id)
{
    for (size_t i = 0; i < POLICY_ID__COUNT; i++)
        if (!is_list(i) && policy_rows[i].caps == id)
            return number_of(p, i);
    for (size_t i = 0; i < SHARED_COUNT; i++)
        if (shared[i].field == id)
            return number_of(p, shared[i].cap);
    return INT64_MAX;
}

int64_t policy_implied(const struct policy *p, enum field_id id)
{
    for (size_t i = 0; i < POLICY_ID__COUNT; i++)
        if (!is_list(i) && policy_rows[i].caps == id && is_set(p, i))
            return number_of(p, i);
    return 0;
}

static json_t *row_json(const struct policy *p, size_t i)
{
    json_t *value;

    if (!is_list(i))
        value = value_json(policy_rows[i].f.type, number_of(p, i));
    else if (is_set(p, i))
        value = field_ops_of(FIELD_LIST)->json(&policy_rows[i].f, list_of(p, i));
    else
        value = json_null();
    return json_pack("{s:o, s:s}", "value", value, "from",
                     p->origin[i] ? p->origin[i] : "built-in");
}

json_t *policy_json(const struct policy *p)
{
    json_t *object = json_object();

    for (size_t i = 0; i < POLICY_ID__COUNT; i++)
        (void)json_object_set_new(object, names[i], row_json(p, i));
    return object;
}

void policy_done(struct policy *p)
{
    for (size_t i = 0; i < POLICY_ID__COUNT; i++) {
        free(p->origin[i]);
        if (is_list(i))
            strv_done(list(p, i));
    }
    *p = (struct policy){ 0 };
}
