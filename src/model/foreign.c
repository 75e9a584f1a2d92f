/* SPDX-License-Identifier: Apache-2.0 */
#include "model/foreign.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/auto.h"
#include "base/fail.h"
#include "base/io.h"
#include "base/json.h"
#include "base/text.h"
#include "model/value.h"

#define LANGUAGE_FILE_MAX ((size_t)1 << 20)

/* One value on its way. */
struct passage {
    struct settings *s;
    struct source *out;
    char *const *environ_;
    const char *name;  /* as its system calls it */
    const char *where; /* the file it stands in, or NULL: the environment */
    json_t *map;       /* how the preset translates it */
    bool project;      /* code may have written it */
};

static const char *text_of(json_t *object, const char *key)
{
    return json_string_value(json_object_get(object, key));
}

static bool is_number(const char *text)
{
    size_t whole = strspn(text, "0123456789");
    size_t part = text[whole] == '.' ? strspn(text + whole + 1, "0123456789") : 0;

    return whole > 0 && (text[whole] == '\0' || (part > 0 && !text[whole + 1 + part]));
}

static int name_it(const struct passage *p, struct vial_error *err)
{
    return p->where ? fail_in(err, "%s", p->where) : -1;
}

static int refuse(const struct passage *p, const char *value, const char *what,
                  struct vial_error *err)
{
    struct shown shown = value_show(value, strlen(value));

    (void)fail(err, VIAL_E_VALUE, "%s '%s' is not %s", p->name, shown.text, what);
    return name_it(p, err);
}

static void add_keys(struct str *out, json_t *object, const char *before)
{
    for (void *at = json_object_iter(object); at;
         at = json_object_iter_next(object, at)) {
        str_printf(out, "%s%s", before, json_object_iter_key(at));
        before = ", ";
    }
}

static int refuse_choice(const struct passage *p, const char *value,
                         struct vial_error *err)
{
    auto_str struct str known = { 0 };

    add_keys(&known, json_object_get(p->map, "values"), "one of ");
    add_keys(&known, json_object_get(p->map, "refuses"), ", ");
    if (!str_ok(&known))
        return fail_memory(err);
    return refuse(p, value, known.data, err);
}

/* The value in our words. *OUT is "" when there is nothing to set. */
static int translate(const struct passage *p, const char *value, struct str *out,
                     struct vial_error *err)
{
    json_t *values = json_object_get(p->map, "values");
    const char *form = text_of(p->map, "form");
    const char *hole = form ? strstr(form, "{}") : NULL;
    auto_str struct str low = { 0 };
    const char *why = NULL;
    long percent = 0;

    for (const char *c = value; *c; c++)
        str_putc(&low, (char)(tolower)((unsigned char)*c));
    if (!str_ok(&low))
        return fail_memory(err);
    why = text_of(json_object_get(p->map, "refuses"), low.data ? low.data : "");
    if (why) {
        (void)fail(err, VIAL_E_UNSUPPORTED, "%s '%s': %s", p->name, low.data, why);
        return name_it(p, err);
    }
    if (values && !text_of(values, low.data ? low.data : ""))
        return refuse_choice(p, value, err);
    if (values) {
        str_puts(out, text_of(values, low.data));
    } else if (json_is_true(json_object_get(p->map, "percent"))) {
        if (!is_number(value) || strchr(value, '.') || strlen(value) > 6)
            return refuse(p, value, "a whole number of percent", err);
        percent = strtol(value, NULL, 10);
        str_printf(out, "%ld.%02ld", percent / 100, percent % 100);
    } else if (hole) {
        if (!is_number(value))
            return refuse(p, value, "a number", err);
        str_printf(out, "%.*s%s%s", (int)(hole - form), form, value, hole + 2);
    } else {
        str_puts(out, value);
    }
    return str_ok(out) ? 0 : fail_memory(err);
}

static int set_policy(const struct passage *p, const char *key, const char *value,
                      struct vial_error *err)
{
    int id = policy_find(key);
    struct field f = policy_range((enum policy_id)id);
    auto_json json_t *object = json_object();
    json_t *one = f.type == FIELD_COUNT_ && is_number(value)
                      ? json_integer(strtoll(value, NULL, 10))
                      : json_string(value);

    if (json_object_set_new(object, key, one) < 0)
        return fail_memory(err);
    return policy_tighten(&p->s->policy, object, p->name, err);
}

static int set_keep(const struct passage *p, const char *key, const char *value,
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
static int set_image(const struct passage *p, const char *name, const char *image,
                     struct vial_error *err)
{
    struct strv *images = &p->s->images;
    size_t len = strlen(name);

    for (size_t i = 0; i < images->count; i++) {
        const char *old = images->items[i];
        char *now = NULL;

        if (strncmp(old, name, len) != 0 || old[len] != '=')
            continue;
        if (p->project && strcmp(old + len + 1, image) != 0)
            break;
        if (asprintf(&now, "%s=%s", name, image) < 0)
            return fail_memory(err);
        free(images->items[i]);
        images->items[i] = now;
        return 0;
    }
    if (p->project) {
        /* A name is enough to carry data out: whoever pulls it asks for it. */
        (void)fail(err, VIAL_E_POLICY, "a project file may not set '%s'", p->name);
        (void)fail_cause(err, "%s", p->where);
        return fail_remedy(err, "name the file by --config if you trust it");
    }
    strv_printf(images, "%s=%s", name, image);
    return strv_ok(images) ? 0 : fail_memory(err);
}

/* A language's name without its version: "python3.13" -> "python". */
static const struct language *base_of(const struct language_table *t, const char *name)
{
    const struct language *found = NULL;
    char word[72];

    if (language_find(t, name, &found, NULL) == 0)
        return found;
    (void)snprintf(word, sizeof(word), "%s", name);
    word[strcspn(word, "0123456789.:-_")] = '\0';
    return language_find(t, word, &found, NULL) == 0 ? found : NULL;
}

static int put_entry(const char *sets, const char *value, json_t *entry,
                     struct vial_error *err)
{
    const char *slash = strrchr(value, '/');
    const char *base = slash ? slash + 1 : value;
    size_t len = strlen(base);
    json_t *limits = json_object_get(entry, "limits");

    if (strcmp(sets, "seccomp") == 0) {
        len -= len > 5 && strcmp(base + len - 5, ".json") == 0 ? 5 : 0;
        return json_object_set_new(entry, sets, json_stringn(base, len));
    }
    if (strcmp(sets, "image") == 0 || strcmp(sets, "network") == 0)
        return json_object_set_new(entry, sets, json_string(value));
    if (!limits) {
        limits = json_object();
        if (json_object_set_new(entry, "limits", limits) < 0 ||
            json_object_set_new(entry, "firm", json_true()) < 0)
            return fail_memory(err);
    }
    return json_object_set_new(limits, sets, json_string(value));
}

static int scalar_text(const struct passage *p, json_t *value, struct str *out,
                       struct vial_error *err);

/* An entry of their language file as one of ours. */
static int adopt_entry(const struct passage *file, const char *name, json_t *theirs,
                       json_t *all, struct vial_error *err)
{
    const struct language *base = base_of(&file->s->languages, name);
    json_t *maps = preset_get(file->s->seed, "languages");
    json_t *entry = json_object();
    struct passage p = *file;

    if (json_object_set_new(all, name, entry) < 0)
        return fail_memory(err);
    if (base && json_object_set_new(entry, "like", json_string(base->name)) < 0)
        return fail_memory(err);
    if (!base) {
        (void)fail(err, VIAL_E_LANGUAGE, "%s: how to run '%s' is not known", p.where,
                   name);
        return fail_remedy(err, "begin its name with a known language's; `vial "
                                "languages` lists them");
    }
    for (void *at = json_object_iter(theirs); at;
         at = json_object_iter_next(theirs, at)) {
        auto_str struct str raw = { 0 };
        auto_str struct str value = { 0 };

        p.name = json_object_iter_key(at);
        p.map = json_object_get(maps, p.name);
        if (!p.map)
            return fail(err, VIAL_E_FIELD, "%s: language '%s' has an unknown key '%s'",
                        p.where, name, p.name);
        if (scalar_text(&p, json_object_iter_value(at), &raw, err) < 0 ||
            translate(&p, raw.data ? raw.data : "", &value, err) < 0 ||
            put_entry(text_of(p.map, "sets"), value.data, entry, err) < 0)
            return -1;
    }
    return 0;
}

/* JSON with "//" comments, as people write it: they become blanks. */
static void blank_comments(struct blob *text)
{
    bool quoted = false;

    for (size_t i = 0; i < text->len; i++) {
        if (quoted && text->data[i] == '\\')
            i++;
        else if (text->data[i] == '"')
            quoted = !quoted;
        else if (!quoted && i + 1 < text->len && memcmp(text->data + i, "//", 2) == 0)
            while (i < text->len && text->data[i] != '\n')
                text->data[i++] = ' ';
    }
}

static int read_languages(const char *path, json_t **out, struct vial_error *err)
{
    struct blob text = { 0 };
    int rc = 0;

    if (io_read_file(path, LANGUAGE_FILE_MAX, &text, err) < 0)
        return fail_as(err, VIAL_E_FILE);
    if (text.len > 0 && text.data[strspn(text.data, " \t\r\n")] == '{') {
        blank_comments(&text);
        rc = json_parse(text.data, text.len, path, out, err);
    } else {
        rc = yaml_parse(text.data, text.len, path, out, err);
    }
    blob_done(&text);
    if (rc == 0 && !json_is_object(*out))
        return fail(err, VIAL_E_VALUE, "'%s' is not a mapping of languages", path);
    return rc;
}

/* The languages are those of the file, and no others. */
static int set_languages(const struct passage *p, const char *path,
                         struct vial_error *err)
{
    auto_json json_t *theirs = NULL;
    auto_json json_t *ours = json_object();
    struct passage file = *p;

    if (!ours)
        return fail_memory(err);
    if (read_languages(path, &theirs, err) < 0)
        return fail_in(err, "%s", p->name);
    file.where = path;
    language_table_show(&p->s->languages);
    for (void *at = json_object_iter(theirs); at;
         at = json_object_iter_next(theirs, at))
        if (adopt_entry(&file, json_object_iter_key(at), json_object_iter_value(at),
                        ours, err) < 0)
            return fail_in(err, "%s", p->name);
    language_table_hide(&p->s->languages);
    return language_table_merge(&p->s->languages, ours, path, err);
}

static int set_field(const struct passage *p, const struct field *f, const char *value,
                     struct vial_error *err)
{
    auto_str struct str where = { 0 };

    value = value ? value : "";
    str_printf(&where, "%s%s%s", p->where ? p->where : "", p->where ? ": " : "",
               p->name);
    if (!str_ok(&where))
        return fail_memory(err);
    return request_set_text(&p->out->values, field_id_of(f), value, strlen(value),
                            where.data, err);
}

static int set_engine(const struct passage *p, const char *value,
                      struct vial_error *err)
{
    char *address = NULL;

    if (asprintf(&address, "%s%s", value[0] == '/' ? "unix://" : "", value) < 0)
        return fail_memory(err);
    free(p->s->engine);
    p->s->engine = address;
    return 0;
}

static int set_text(const struct passage *p, const char *raw, struct vial_error *err)
{
    const char *sets = text_of(p->map, "sets");
    const struct field *f = NULL;
    auto_str struct str value = { 0 };

    if (translate(p, raw, &value, err) < 0)
        return -1;
    if (!sets || value.len == 0)
        return 0;
    if (str_starts(sets, "policy."))
        return set_policy(p, sets + strlen("policy."), value.data, err);
    if (str_starts(sets, "keep."))
        return set_keep(p, sets + strlen("keep."), value.data, err);
    if (str_starts(sets, "images."))
        return set_image(p, sets + strlen("images."), value.data, err);
    if (strcmp(sets, "languages") == 0)
        return set_languages(p, value.data, err);
    if (strcmp(sets, "engine") == 0)
        return set_engine(p, value.data, err);
    f = field_find(sets);
    return f ? set_field(p, f, value.data, err)
             : fail(err, VIAL_E_INTERNAL, "there is no field '%s'", sets);
}

static int scalar_text(const struct passage *p, json_t *value, struct str *out,
                       struct vial_error *err)
{
    struct shown shown;

    if (json_is_boolean(value))
        str_puts(out, json_is_true(value) ? "true" : "false");
    else if (json_is_integer(value))
        str_printf(out, "%lld", (long long)json_integer_value(value));
    else if (json_is_real(value))
        str_printf(out, "%g", json_real_value(value));
    else if (value_string(value))
        str_puts(out, value_string(value));
    else {
        shown = value_show_json(value);
        return refuse(p, shown.text, "a single value", err);
    }
    return str_ok(out) ? 0 : fail_memory(err);
}

/* "$NAME" and "${NAME}" at the beginning of TEXT. False: the variable is unset. */
static bool expand(char *const *environ_, const char *text, struct str *out)
{
    bool brace = text[0] == '$' && text[1] == '{';
    const char *name = text + (brace ? 2 : 1);
    size_t len = strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789");
    auto_free char *copy = NULL;
    const char *value = NULL;

    if (text[0] != '$') {
        str_puts(out, text);
        return true;
    }
    copy = strndup(name, len);
    value = copy ? source_variable(environ_, copy) : NULL;
    if (!value)
        return false;
    str_printf(out, "%s%s", value, name + len + (brace && name[len] == '}'));
    return true;
}

/* "SRC:DST[:MODE]", or an object as container engines' clients have it. Writable
 * unless it says otherwise: that is what those clients do. */
static int mount_text(const struct passage *p, json_t *item, struct str *out,
                      struct vial_error *err)
{
    const char *text = value_string(item);
    const char *host = text_of(item, "hostPath");
    const char *inside = text_of(item, "containerPath");
    size_t colons = 0;
    struct shown shown;

    for (const char *c = text; c && *c; c++)
        colons += *c == ':';
    if ((!text || colons < 1) && (!host || !inside)) {
        shown = value_show_json(item);
        return refuse(p, shown.text, "a mount as HOST:CONTAINER[:ro]", err);
    }
    if (!expand(p->environ_, text ? text : host, out))
        return refuse(p, text ? text : host, "known: the variable is not set", err);
    if (!text)
        str_printf(out, ":%s:%s", inside,
                   json_is_true(json_object_get(item, "readOnly")) ? "ro" : "rw");
    else if (colons == 1)
        str_puts(out, ":rw");
    return str_ok(out) ? 0 : fail_memory(err);
}

/* What the preset itself mounts. */
static int begin_mounts(struct settings *s, struct source *out, char *const *environ_,
                        struct vial_error *err)
{
    const struct passage p = { .s = s, .out = out, .name = "mounts" };
    json_t *list = preset_get(s->seed, "mounts");
    json_t *item = NULL;
    size_t i = 0;

    json_array_foreach(list, i, item)
    {
        bool writable = json_is_true(json_object_get(item, "writable"));
        auto_str struct str text = { 0 };

        if (!expand(environ_, text_of(item, "source"), &text))
            continue;
        if (json_is_true(json_object_get(item, "create")) &&
            !strv_has(&s->places, text.data))
            strv_push(&s->places, text.data);
        str_printf(&text, ":%s:%s", text_of(item, "target"), writable ? "rw" : "ro");
        if (!str_ok(&text) || !strv_ok(&s->places))
            return fail_memory(err);
        if (set_field(&p, &fields[FIELD_ID_mounts], text.data, err) < 0)
            return -1;
    }
    return 0;
}

static int set_mounts(const struct passage *p, json_t *list, struct vial_error *err)
{
    json_t *item = NULL;
    size_t i = 0;

    /* They come on top. */
    if (!request_has(&p->out->values, mounts) &&
        begin_mounts(p->s, p->out, p->environ_, err) < 0)
        return -1;
    json_array_foreach(list, i, item)
    {
        auto_str struct str text = { 0 };

        if (mount_text(p, item, &text, err) < 0 ||
            set_field(p, &fields[FIELD_ID_mounts], text.data, err) < 0)
            return -1;
    }
    return 0;
}

static int set_json(const struct passage *p, json_t *value, struct vial_error *err)
{
    auto_str struct str text = { 0 };

    if (json_is_null(value))
        return 0;
    if (str_eq(text_of(p->map, "sets"), "mounts") && json_is_array(value))
        return set_mounts(p, value, err);
    if (scalar_text(p, value, &text, err) < 0)
        return -1;
    return set_text(p, text.data ? text.data : "", err);
}

/* `when: NAME=VALUE`. */
static bool applies(const struct passage *p)
{
    const char *when = text_of(p->map, "when");
    size_t len = when ? strcspn(when, "=") : 0;
    auto_free char *name = when ? strndup(when, len) : NULL;
    const char *value = name ? source_variable(p->environ_, name) : NULL;

    return !when || (value && when[len] && strcasecmp(value, when + len + 1) == 0);
}

static bool is_policy(json_t *map)
{
    const char *sets = text_of(map, "sets");

    return sets && str_starts(sets, "policy.");
}

static int read_variables(struct settings *s, struct source *out, bool policy,
                          char *const *environ_, struct vial_error *err)
{
    json_t *maps = preset_get(s->seed, "variables");
    struct passage p = { .s = s, .out = out, .environ_ = environ_ };

    for (void *at = json_object_iter(maps); at; at = json_object_iter_next(maps, at)) {
        const char *value = NULL;

        p.name = json_object_iter_key(at);
        p.map = json_object_iter_value(at);
        if (is_policy(p.map) != policy || !applies(&p))
            continue;
        value = source_variable(environ_, p.name);
        value = value ? value : text_of(p.map, "default");
        if (value && set_text(&p, value, err) < 0)
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
    const struct passage p = { .s = s, .name = "keep" };

    if (!keep)
        return 0;
    s->keep.alive = json_is_true(json_object_get(keep, "alive"));
    s->keep.executions = json_integer_value(json_object_get(keep, "executions"));
    return set_keep(&p, "idle", text_of(keep, "idle"), err);
}

int foreign_begin(struct settings *s, struct source *out, char *const *environ_,
                  struct vial_error *err)
{
    json_t *images = preset_get(s->seed, "images");
    const struct passage p = { .s = s, .name = "images" };

    for (void *at = json_object_iter(images); at;
         at = json_object_iter_next(images, at))
        if (set_image(&p, json_object_iter_key(at),
                      json_string_value(json_object_iter_value(at)), err) < 0)
            return -1;
    if (begin_keep(s, err) < 0 || begin_mounts(s, out, environ_, err) < 0)
        return -1;
    return read_variables(s, out, true, environ_, err);
}

const char *foreign_block_name(const struct settings *s)
{
    return text_of(preset_get(s->seed, "config"), "block");
}

static int unknown_key(const struct passage *p, const char *path,
                       struct vial_error *err)
{
    json_t *keys = json_object_get(preset_get(p->s->seed, "config"), "keys");
    const char *known[64] = { 0 };
    const char *near = NULL;
    size_t n = 0;
    struct shown shown;

    for (void *at = json_object_iter(keys); at && n < 63;
         at = json_object_iter_next(keys, at))
        known[n++] = json_object_iter_key(at);
    near = text_suggest(path, known);
    shown = value_show(path, strlen(path));
    (void)fail(err, VIAL_E_FIELD, "unknown key '%s' in block '%s' of '%s'", shown.text,
               foreign_block_name(p->s), p->where);
    return near ? fail_remedy(err, "did you mean '%s'?", near) : -1;
}

/* "images.*" stands for "images.NAME", and sets "images.NAME". */
static int read_wild(const struct passage *p, const char *path, json_t *value,
                     struct vial_error *err)
{
    const char *dot = strchr(path, '.');
    auto_json json_t *map = json_pack("{s:s}", "sets", path);
    auto_str struct str wild = { 0 };
    struct passage one = *p;

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
static int read_block(const struct passage *p, const char *prefix, json_t *block,
                      struct vial_error *err)
{
    for (void *at = json_object_iter(block); at;
         at = json_object_iter_next(block, at)) {
        json_t *value = json_object_iter_value(at);
        auto_str struct str path = { 0 };
        struct passage one = *p;
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
    const struct passage p = {
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
