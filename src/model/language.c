/* SPDX-License-Identifier: Apache-2.0 */
#include "model/language.h"

#include <assert.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/fail.h"
#include "base/io.h"
#include "base/json.h"
#include "base/path.h"
#include "base/text.h"
#include "model/field_type.h"
#include "model/value.h"

#define LANGUAGES_MAX 512
#define FILE_MAX      (1u << 20)

/* The keys of an entry, but `like` and `limits`. */
static const struct {
    struct field f;
    size_t offset;
} rows[] = {
#define ROW(key, type, max, member)                                                    \
    {                                                                                  \
        { key, type, 0, NULL, NULL, 0, max, NULL, NULL },                              \
            offsetof(struct language, member)                                          \
    }
    ROW("aliases", FIELD_LIST, 32, aliases),
    ROW("file", FIELD_NAME, 255, file),
    ROW("compile", FIELD_LIST, 256, compile_argv),
    ROW("run", FIELD_LIST, 256, run_argv),
    ROW("inline", FIELD_LIST, 256, inline_argv),
    ROW("version", FIELD_LIST, 256, version_argv),
    ROW("env", FIELD_MAP, 256, env),
    ROW("image", FIELD_NAME, 512, image),
    ROW("seccomp", FIELD_NAME, 64, seccomp),
    ROW("seccomp_file", FIELD_NAME, 4095, seccomp_file),
    ROW("network", FIELD_NAME, 16, network),
    ROW("cache_env", FIELD_NAME, 64, cache_env),
    ROW("cache", FIELD_LIST, 256, cache_argv),
    ROW("commands", FIELD_LIST, 32, commands),
    ROW("expects", FIELD_NAME, 64, expects),
    ROW("firm", FIELD_BOOL, 0, firm),
#undef ROW
};

#define ROW_COUNT (sizeof(rows) / sizeof(rows[0]))

static const char *const keys[] = { "aliases", "file",      "compile",  "run",
                                    "inline",  "version",   "env",      "image",
                                    "seccomp", "network",   "commands", "firm",
                                    "expects", "like",      "limits",   "seccomp_file",
                                    "cache",   "cache_env", NULL };

static void *member(struct language *language, size_t row)
{
    return (char *)language + rows[row].offset;
}

static const void *peek(const struct language *language, size_t row)
{
    return (const char *)language + rows[row].offset;
}

static void language_done(struct language *language)
{
    for (size_t i = 0; i < ROW_COUNT; i++)
        field_ops_of(rows[i].f.type)->done(member(language, i));
    free(language->name);
    blob_done(&language->custom.filter);
    *language = (struct language){ 0 };
}

#define auto_language __attribute__((cleanup(language_done)))

/* Moves a language out, leaving nothing to release. */
static struct language take(struct language *language)
{
    struct language taken = *language;

    *language = (struct language){ 0 };
    return taken;
}

static struct language *by_name(const struct language_table *t, const char *name)
{
    for (size_t i = 0; i < t->count; i++)
        if (strcasecmp(t->items[i].name, name) == 0)
            return &t->items[i];
    return NULL;
}

static int copy_from(struct language *to, const struct language *from,
                     struct vial_error *err)
{
    for (size_t i = 0; i < ROW_COUNT; i++) {
        /* Two languages must not answer to one alias. */
        if (rows[i].offset == offsetof(struct language, aliases) ||
            rows[i].offset == offsetof(struct language, commands))
            continue;
        if (field_ops_of(rows[i].f.type)->copy(member(to, i), peek(from, i)) < 0)
            return fail_memory(err);
    }
    to->limits = from->limits;
    to->firm_limits = from->firm_limits;
    return 0;
}

static int start_like(const struct language_table *t, json_t *json,
                      struct language *out, struct vial_error *err)
{
    const char *name = value_string(json);
    const struct language *from = name ? by_name(t, name) : NULL;
    struct shown shown;

    if (from)
        return copy_from(out, from, err);
    shown = value_show_json(json);
    return fail(err, VIAL_E_LANGUAGE, "like '%s' names no language above it",
                shown.text);
}

static const struct limit_row *limit_row(const char *key)
{
    for (size_t i = 0; i < LIMIT_COUNT; i++)
        if (strcmp(fields[limit_rows[i].field].name, key) == 0)
            return &limit_rows[i];
    return NULL;
}

static int decode_limits(struct limits *limits, json_t *json, struct vial_error *err)
{
    if (!json_is_object(json))
        return fail(err, VIAL_E_VALUE, "limits is not an object");
    for (void *at = json_object_iter(json); at; at = json_object_iter_next(json, at)) {
        const char *key = json_object_iter_key(at);
        const struct limit_row *row = limit_row(key);

        if (!row)
            return value_unknown(err, "key", key, field_names, "%s", "");
        if (value_decode(&fields[row->field], json_object_iter_value(at),
                         limits_at(limits, row), err) < 0)
            return -1;
    }
    return 0;
}

static int decode_row(struct language *language, const char *key, json_t *value,
                      struct vial_error *err)
{
    for (size_t i = 0; i < ROW_COUNT; i++) {
        const struct field_ops *kind = field_ops_of(rows[i].f.type);

        if (strcmp(rows[i].f.name, key) != 0)
            continue;
        kind->done(member(language, i)); /* replaces what `like` brought */
        return kind->decode(&rows[i].f, member(language, i), value, err);
    }
    if (strcmp(key, "limits") == 0)
        return decode_limits(&language->limits, value, err);
    return strcmp(key, "like") == 0 ? 0
                                    : value_unknown(err, "key", key, keys, "%s", "");
}

static int check(const struct language *language, struct vial_error *err)
{
    if (!language->file ||
        !path_is_plain_relative(language->file, strlen(language->file)))
        return fail(err, VIAL_E_VALUE, "file is not a plain relative path");
    if (language->run_argv.count == 0 || language->run_argv.items[0][0] == '\0')
        return fail(err, VIAL_E_VALUE, "run does not name a program");
    if (language->network &&
        value_choice(fields[FIELD_ID_network].choices, language->network,
                     strlen(language->network)) < 0)
        return fail(err, VIAL_E_VALUE, "network '%s' is not one of %s",
                    language->network, fields[FIELD_ID_network].choices);
    return 0;
}

static bool name_is_good(const char *name)
{
    size_t len = strlen(name);

    return len > 0 && len <= 64 && name[0] != '.' && name[0] != '-' &&
           strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789+#._-") == len;
}

/* Puts LANGUAGE into T, over the one of that name if there is one. */
static int put(struct language_table *t, struct language *language,
               struct vial_error *err)
{
    struct language *old = by_name(t, language->name);
    struct language *grown;

    if (old) {
        language_done(old);
        *old = take(language);
        return 0;
    }
    if (t->count == LANGUAGES_MAX)
        return fail(err, VIAL_E_VALUE, "more than %d languages", LANGUAGES_MAX);
    grown = reallocarray(t->items, t->count + 1, sizeof(*grown));
    if (!grown)
        return fail_memory(err);
    t->items = grown;
    t->items[t->count++] = take(language);
    return 0;
}

/* Only what an entry names itself: of what it is `like` it takes the needs, which the
 * settings may bound. */
static void make_firm(struct language *language, json_t *entry)
{
    json_t *limits = json_object_get(entry, "limits");

    static_assert(LIMIT_COUNT <= 32, "a bit for each");
    if (!language->firm)
        language->firm_limits = 0;
    for (size_t i = 0; language->firm && i < LIMIT_COUNT; i++)
        if (json_object_get(limits, fields[limit_rows[i].field].name))
            language->firm_limits |= UINT32_C(1) << i;
}

/* A profile that ENTRY names lies beside the file that has the entry. */
static int place_profile(struct language *language, json_t *entry, const char *where,
                         struct vial_error *err)
{
    const char *slash = strrchr(where, '/');
    char *path = NULL;

    if (!json_object_get(entry, "seccomp_file") || !language->seccomp_file ||
        language->seccomp_file[0] == '/' || !slash)
        return 0;
    if (asprintf(&path, "%.*s%s", (int)(slash + 1 - where), where,
                 language->seccomp_file) < 0)
        return fail_memory(err);
    free(language->seccomp_file);
    language->seccomp_file = path;
    return 0;
}

static int add(struct language_table *t, const char *name, json_t *entry,
               const char *where, struct vial_error *err)
{
    auto_language struct language language = { 0 };
    json_t *like = json_object_get(entry, "like");

    if (!name_is_good(name))
        return fail(err, VIAL_E_VALUE,
                    "the name may have a-z, 0-9 and + # . _ - and 64 bytes");
    if (!json_is_object(entry))
        return fail(err, VIAL_E_VALUE, "the entry is not an object");
    if (like && start_like(t, like, &language, err) < 0)
        return -1;
    for (void *at = json_object_iter(entry); at; at = json_object_iter_next(entry, at))
        if (decode_row(&language, json_object_iter_key(at), json_object_iter_value(at),
                       err) < 0)
            return -1;
    make_firm(&language, entry);
    language.name = strdup(name);
    if (!language.name)
        return fail_memory(err);
    if (place_profile(&language, entry, where, err) < 0)
        return -1;
    return check(&language, err) < 0 ? -1 : put(t, &language, err);
}

int language_table_merge(struct language_table *t, json_t *object, const char *where,
                         struct vial_error *err)
{
    if (!json_is_object(object))
        return fail(err, VIAL_E_VALUE, "%s: not an object of languages", where);
    for (void *at = json_object_iter(object); at;
         at = json_object_iter_next(object, at)) {
        const char *name = json_object_iter_key(at);
        struct shown shown;

        if (add(t, name, json_object_iter_value(at), where, err) == 0)
            continue;
        shown = value_show(name, strlen(name));
        return fail_in(err, "%s: language '%s'", where, shown.text);
    }
    return 0;
}

/* jansson is several times faster than libyaml, and this is on the way of every
 * run: what is JSON is read as such. */
static bool looks_like_json(const char *text, size_t len)
{
    size_t blank = 0;

    while (blank < len && strchr(" \t\r\n", text[blank]))
        blank++;
    return blank < len && text[blank] == '{';
}

int language_table_read(struct language_table *t, const char *text, size_t len,
                        const char *name, struct vial_error *err)
{
    auto_json json_t *object = NULL;
    int rc = looks_like_json(text, len) ? json_parse(text, len, name, &object, err)
                                        : yaml_parse(text, len, name, &object, err);

    return rc < 0 ? -1 : language_table_merge(t, object, name, err);
}

int language_table_load(struct language_table *t, const char *path,
                        struct vial_error *err)
{
    struct blob text = { 0 };
    int rc;

    if (io_read_file(path, FILE_MAX, &text, err) < 0)
        return fail_as(err, VIAL_E_FILE);
    rc = language_table_read(t, text.data, text.len, path, err);
    blob_done(&text);
    return rc;
}

void language_table_hide(struct language_table *t)
{
    for (size_t i = 0; i < t->count; i++)
        t->items[i].hidden = true;
}

void language_table_show(struct language_table *t)
{
    for (size_t i = 0; i < t->count; i++)
        t->items[i].hidden = false;
}

static const struct language *by_alias(const struct language_table *t, const char *name)
{
    for (size_t i = t->count; i-- > 0;) /* the last file read wins */
        for (size_t a = 0; !t->items[i].hidden && a < t->items[i].aliases.count; a++)
            if (strcasecmp(t->items[i].aliases.items[a], name) == 0)
                return &t->items[i];
    return NULL;
}

static const char *suggest(const struct language_table *t, const char *name)
{
    auto_free const char **known = NULL;
    const char *near;
    size_t count = 0;
    size_t n = 0;

    for (size_t i = 0; i < t->count; i++)
        count += 1 + t->items[i].aliases.count;
    known = calloc(count + 1, sizeof(*known));
    if (!known)
        return NULL;
    for (size_t i = 0; i < t->count; i++) {
        if (t->items[i].hidden)
            continue;
        known[n++] = t->items[i].name;
        for (size_t a = 0; a < t->items[i].aliases.count; a++)
            known[n++] = t->items[i].aliases.items[a];
    }
    near = text_suggest(name, known);
    return near;
}

int language_find(const struct language_table *t, const char *name,
                  const struct language **out, struct vial_error *err)
{
    const struct language *found = by_name(t, name);
    auto_str struct str known = { 0 };
    struct shown shown;
    const char *near;

    found = found && !found->hidden ? found : by_alias(t, name);
    if (found) {
        *out = found;
        return 0;
    }
    near = suggest(t, name);
    for (size_t i = 0; i < t->count; i++)
        if (!t->items[i].hidden)
            str_printf(&known, "%s%s", known.len ? ", " : "", t->items[i].name);
    shown = value_show(name, strlen(name));
    (void)fail(err, VIAL_E_LANGUAGE, "unknown language '%s'; known: %s", shown.text,
               known.data ? known.data : "none");
    return near ? fail_remedy(err, "did you mean '%s'?", near)
                : fail_remedy(err, "`vial languages` lists them with their aliases");
}

void language_table_done(struct language_table *t)
{
    for (size_t i = 0; i < t->count; i++)
        language_done(&t->items[i]);
    free(t->items);
    *t = (struct language_table){ 0 };
}
