/* SPDX-License-Identifier: Apache-2.0 */
#include "settings/foreign.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/auto.h"
#include "base/fail.h"
#include "base/json.h"
#include "model/value.h"
#include "settings/foreign_files.h"
#include "settings/user_packages.h"

/* "none, bridge" as a list. */
static json_t *words_of(const char *text)
{
    json_t *list = json_array();

    for (text += strspn(text, ", "); *text; text += strspn(text, ", ")) {
        size_t len = strcspn(text, ", ");

        (void)json_array_append_new(list, json_stringn(text, len));
        text += len;
    }
    return list;
}

static int set_policy(const struct foreign_value *p, const char *key, const char *value,
                      struct vial_error *err)
{
    int id = policy_find(key);
    struct field f = policy_range((enum policy_id)id);
    auto_json json_t *object = json_object();
    json_t *one = NULL;

    if (f.type == FIELD_LIST)
        one = words_of(value);
    else if (f.type == FIELD_COUNT_ && foreign_value_is_number(value))
        one = json_integer(strtoll(value, NULL, 10));
    else
        one = json_string(value);

    if (json_object_set_new(object, key, one) < 0)
        return fail_memory(err);
    return policy_tighten(&p->s->policy, object, p->name, err);
}

static int set_serve(const struct foreign_value *p, const char *key, const char *value,
                     struct vial_error *err)
{
    auto_json json_t *object = json_object();
    json_t *one = foreign_value_is_number(value)
                      ? json_integer(strtoll(value, NULL, 10))
                      : json_string(value);

    if (json_object_set_new(object, key, one) < 0)
        return fail_memory(err);
    return block_read(&block_serve, &p->s->serve, object, p->name, err);
}

static int set_keep(const struct foreign_value *p, const char *key, const char *value,
                    struct vial_error *err)
{
    static const struct field idle = {
        .name = "idle", .type = FIELD_MS, .min = 1000, .max = INT64_C(86400000)
    };
    static const struct field executions = {
        .name = "executions", .type = FIELD_COUNT_, .min = 1, .max = 1000000
    };
    struct keep_rules *keep = &p->s->keep;

    if (strcmp(key, "alive") == 0) {
        keep->alive = strcmp(value, "true") == 0;
        return 0;
    }
    if (strcmp(key, "idle") == 0)
        return value_parse(&idle, value, strlen(value), &keep->idle_ms, err);
    return value_parse(&executions, value, strlen(value), &keep->executions, err);
}

/* "NAME=IMAGE", over one that is there. */
static int set_image(const struct foreign_value *p, const char *name, const char *image,
                     struct vial_error *err)
{
    struct strv *images = &p->s->images;
    size_t len = strlen(name);

    for (size_t i = 0; i < images->count; i++) {
        const char *old = images->items[i];
        char *now = NULL;

        if (strncmp(old, name, len) != 0 || old[len] != '=')
            continue;
        /* A name is enough to carry data out: whoever pulls it asks for it. */
        if (p->project && strcmp(old + len + 1, image) != 0 &&
            source_note(p->out, p->name, old + len + 1, image, err) < 0)
            return -1;
        if (asprintf(&now, "%s=%s", name, image) < 0)
            return fail_memory(err);
        free(images->items[i]);
        images->items[i] = now;
        return 0;
    }
    if (p->project && source_note(p->out, p->name, NULL, image, err) < 0)
        return -1;
    strv_printf(images, "%s=%s", name, image);
    return strv_ok(images) ? 0 : fail_memory(err);
}

static int set_engine(const struct foreign_value *p, const char *value,
                      struct vial_error *err)
{
    char *address = NULL;

    if (asprintf(&address, "%s%s", value[0] == '/' ? "unix://" : "", value) < 0)
        return fail_memory(err);
    free(p->s->engine);
    p->s->engine = address;
    return 0;
}

static int set_text(const struct foreign_value *p, const char *raw,
                    struct vial_error *err)
{
    const char *sets = foreign_value_member(p->map, "sets");
    const struct field *f = NULL;
    auto_str struct str value = { 0 };

    if (foreign_value_translate(p, raw, &value, err) < 0)
        return -1;
    if (!sets || value.len == 0)
        return 0;
    if (str_starts(sets, "policy."))
        return set_policy(p, sets + strlen("policy."), value.data, err);
    if (str_starts(sets, "serve."))
        return set_serve(p, sets + strlen("serve."), value.data, err);
    if (str_starts(sets, "keep."))
        return set_keep(p, sets + strlen("keep."), value.data, err);
    if (str_starts(sets, "images."))
        return set_image(p, sets + strlen("images."), value.data, err);
    if (strcmp(sets, "languages") == 0)
        return foreign_languages(p, value.data, err);
    if (strcmp(sets, "engine") == 0)
        return set_engine(p, value.data, err);
    f = field_find(sets);
    return f ? foreign_value_set_field(p, f, value.data, err)
             : fail(err, VIAL_E_INTERNAL, "there is no field '%s'", sets);
}

static int set_json(const struct foreign_value *p, json_t *value,
                    struct vial_error *err)
{
    auto_str struct str text = { 0 };

    if (json_is_null(value))
        return 0;
    if (str_eq(foreign_value_member(p->map, "sets"), "mounts") && json_is_array(value))
        return foreign_mounts(p, value, err);
    if (foreign_value_scalar(p, value, &text, err) < 0)
        return -1;
    return set_text(p, text.data ? text.data : "", err);
}

/* `when: NAME=VALUE`. */
static bool applies(const struct foreign_value *p)
{
    const char *when = foreign_value_member(p->map, "when");
    size_t len = when ? strcspn(when, "=") : 0;
    auto_free char *name = when ? strndup(when, len) : NULL;
    const char *value = name ? source_variable(p->environ_, name) : NULL;

    return !when || (value && when[len] && strcasecmp(value, when + len + 1) == 0);
}

static bool is_policy(json_t *map)
{
    const char *sets = foreign_value_member(map, "sets");

    return sets && str_starts(sets, "policy.");
}

/* A project's file has no word in that. */
static bool is_serve(json_t *map)
{
    const char *sets = foreign_value_member(map, "sets");

    return sets && str_starts(sets, "serve.");
}

static int read_variables(struct settings *s, struct source *out, bool policy,
                          char *const *environ_, struct vial_error *err)
{
    json_t *maps = preset_get(s->seed, "variables");
    struct foreign_value p = { .s = s, .out = out, .environ_ = environ_ };

    for (void *at = json_object_iter(maps); at; at = json_object_iter_next(maps, at)) {
        const char *value = NULL;

        p.name = json_object_iter_key(at);
        p.map = json_object_iter_value(at);
        if (is_policy(p.map) != policy || !applies(&p))
            continue;
        value = source_variable(environ_, p.name);
        value = value ? value : foreign_value_member(p.map, "default");
        if (value && set_text(&p, value, err) < 0)
            return -1;
    }
    return 0;
}

int foreign_dotenv(struct settings *s, struct source *out, const char *where,
                   const struct strv *found, struct vial_error *err)
{
    json_t *maps = preset_get(s->seed, "variables");
    struct foreign_value p = {
        .s = s, .out = out, .environ_ = s->environ_, .where = where, .project = true
    };

    for (size_t i = 0; i < found->count; i++) {
        const char *equals = strchr(found->items[i], '=');
        auto_free char *name =
            strndup(found->items[i], (size_t)(equals - found->items[i]));

        p.name = name;
        p.map = name ? json_object_get(maps, name) : NULL;
        if (!p.map)
            return fail_memory(err);
        if (is_policy(p.map) || is_serve(p.map) || !applies(&p) || !equals[1])
            continue;
        if (set_text(&p, equals + 1, err) < 0)
            return -1;
    }
    return 0;
}

int foreign_environ(struct settings *s, struct source *out, char *const *environ_,
                    struct vial_error *err)
{
    return read_variables(s, out, false, environ_, err);
}

static int begin_keep(struct settings *s, struct vial_error *err)
{
    json_t *keep = preset_get(s->seed, "keep");
    const struct foreign_value p = { .s = s, .name = "keep" };

    if (!keep)
        return 0;
    s->keep.alive = json_is_true(json_object_get(keep, "alive"));
    s->keep.executions = json_integer_value(json_object_get(keep, "executions"));
    return set_keep(&p, "idle", foreign_value_member(keep, "idle"), err);
}

int foreign_begin(struct settings *s, struct source *out, char *const *environ_,
                  struct vial_error *err)
{
    json_t *images = preset_get(s->seed, "images");
    const struct foreign_value p = { .s = s, .name = "images" };

    for (void *at = json_object_iter(images); at;
         at = json_object_iter_next(images, at))
        if (set_image(&p, json_object_iter_key(at),
                      json_string_value(json_object_iter_value(at)), err) < 0)
            return -1;
    if (json_is_true(preset_get(s->seed, "packages")))
        packages_find(environ_, &s->packages);
    if (s->packages.failed)
        return fail_memory(err);
    if (begin_keep(s, err) < 0 || foreign_begin_mounts(s, out, environ_, err) < 0)
        return -1;
    return read_variables(s, out, true, environ_, err);
}

const char *foreign_block_name(const struct settings *s)
{
    return foreign_value_member(preset_get(s->seed, "config"), "block");
}

static int unknown_key(const struct foreign_value *p, const char *path,
                       struct vial_error *err)
{
    json_t *keys = json_object_get(preset_get(p->s->seed, "config"), "keys");
    const char *known[64] = { 0 };
    size_t n = 0;

    for (void *at = json_object_iter(keys); at && n < 63;
         at = json_object_iter_next(keys, at))
        known[n++] = json_object_iter_key(at);
    return value_unknown(err, "key", path, known, " in block '%s' of '%s'",
                         foreign_block_name(p->s), p->where);
}

/* "images.*" stands for "images.NAME", and sets "images.NAME". */
static int read_wild(const struct foreign_value *p, const char *path, json_t *value,
                     struct vial_error *err)
{
    const char *dot = strchr(path, '.');
    auto_json json_t *map = json_pack("{s:s}", "sets", path);
    auto_str struct str wild = { 0 };
    struct foreign_value one = *p;

    str_printf(&wild, "%.*s.*", dot ? (int)(dot - path) : 0, path);
    if (!str_ok(&wild) || !map)
        return fail_memory(err);
    if (!dot || !json_object_get(p->map, wild.data))
        return unknown_key(p, path, err);
    one.map = map;
    one.name = path;
    return set_json(&one, value, err);
}

/* Keys below keys are named with dots: "defaults.cpu_limit". */
static int read_block(const struct foreign_value *p, const char *prefix, json_t *block,
                      struct vial_error *err)
{
    for (void *at = json_object_iter(block); at;
         at = json_object_iter_next(block, at)) {
        json_t *value = json_object_iter_value(at);
        auto_str struct str path = { 0 };
        struct foreign_value one = *p;
        int rc = 0;

        str_printf(&path, "%s%s%s", prefix, *prefix ? "." : "",
                   json_object_iter_key(at));
        if (!str_ok(&path))
            return fail_memory(err);
        one.map = json_object_get(p->map, path.data);
        one.name = path.data;
        if (one.map)
            rc = set_json(&one, value, err);
        else if (json_is_object(value) && !*prefix)
            rc = read_block(p, path.data, value, err);
        else
            rc = read_wild(p, path.data, value, err);
        if (rc < 0)
            return -1;
    }
    return 0;
}

int foreign_block(struct settings *s, struct source *out, json_t *block,
                  const char *where, bool project, struct vial_error *err)
{
    const struct foreign_value p = {
        .s = s,
        .out = out,
        .environ_ = s->environ_,
        .where = where,
        .map = json_object_get(preset_get(s->seed, "config"), "keys"),
        .project = project,
    };

    if (json_is_null(block))
        return 0;
    if (!json_is_object(block))
        return fail(err, VIAL_E_VALUE, "%s: %s is not a mapping of keys", where,
                    foreign_block_name(s));
    return read_block(&p, "", block, err);
}
