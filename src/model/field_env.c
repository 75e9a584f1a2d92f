/* SPDX-License-Identifier: Apache-2.0 */
/* Environment variables: a JSON object, or "NAME=VALUE". The last one wins. */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/fail.h"
#include "model/field_type.h"
#include "model/value.h"

static bool name_is_good(const char *name, size_t len)
{
    if (len == 0 || isdigit((unsigned char)name[0]))
        return false;
    for (size_t i = 0; i < len; i++) {
        unsigned char c = (unsigned char)name[i];

        if (c >= 0x80 || (!isalnum(c) && c != '_'))
            return false;
    }
    return true;
}

static size_t find(const struct strv *env, const char *name, size_t len)
{
    for (size_t i = 0; i < env->count; i++)
        if (strncmp(env->items[i], name, len) == 0 && env->items[i][len] == '=')
            return i;
    return env->count;
}

int field_put_env(struct strv *env, const char *name, size_t name_len,
                  const char *value)
{
    auto_str struct str entry = { 0 };
    size_t at = find(env, name, name_len);

    str_add(&entry, name, name_len);
    str_putc(&entry, '=');
    str_puts(&entry, value);
    if (!str_ok(&entry))
        return -1;
    if (at == env->count) {
        strv_push(env, entry.data);
        return strv_ok(env) ? 0 : -1;
    }
    free(env->items[at]);
    env->items[at] = str_take(&entry);
    return 0;
}

static int put(const struct field *f, struct strv *env, const char *name,
               size_t name_len, const char *value, struct vial_error *err)
{
    struct shown shown;

    if (!name_is_good(name, name_len)) {
        shown = value_show(name, name_len);
        (void)fail(err, VIAL_E_VALUE, "%s name '%s' is not allowed", f->name,
                   shown.text);
        return fail_remedy(err, "use letters, digits and '_', and no digit first");
    }
    if (field_put_env(env, name, name_len, value) < 0)
        return fail_memory(err);
    return field_check_count(f, env->count, err);
}

static int env_parse(const struct field *f, void *member, const char *text, size_t len,
                     struct vial_error *err)
{
    const char *equals = memchr(text, '=', len);

    if (equals && strlen(text) == len)
        return put(f, member, text, (size_t)(equals - text), equals + 1, err);
    return value_refuse(f, text, len, "NAME=VALUE", err);
}

static int env_decode(const struct field *f, void *member, json_t *json,
                      struct vial_error *err)
{
    if (!json_is_object(json))
        return value_refuse_json(f, json, "an object of names and strings", err);
    for (void *at = json_object_iter(json); at; at = json_object_iter_next(json, at)) {
        const char *name = json_object_iter_key(at);
        const json_t *item = json_object_iter_value(at);
        const char *value = value_string(item);

        if (!value)
            return value_refuse_json(f, item, "a string without NUL bytes", err);
        if (put(f, member, name, strlen(name), value, err) < 0)
            return -1;
    }
    return 0;
}

static int env_copy(void *member, const void *from)
{
    strv_copy(member, from);
    return strv_ok(member) ? 0 : -1;
}

static json_t *env_json(const struct field *f, const void *member)
{
    const struct strv *env = member;
    json_t *object = json_object();

    (void)f;
    for (size_t i = 0; i < env->count; i++) {
        const char *entry = env->items[i];
        const char *equals = strchr(entry, '=');

        (void)json_object_setn_new(object, entry, (size_t)(equals - entry),
                                   value_text_json(equals + 1, strlen(equals + 1)));
    }
    return object;
}

static void env_done(void *member)
{
    strv_done(member);
    *(struct strv *)member = (struct strv){ 0 };
}

const struct field_ops field_env_ops = { env_decode, env_parse, env_copy, env_json,
                                         env_done };
