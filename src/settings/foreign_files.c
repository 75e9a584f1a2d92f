/* SPDX-License-Identifier: Apache-2.0 */
#include "settings/foreign_files.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/fail.h"
#include "base/io.h"
#include "base/json.h"
#include "model/value.h"
#include "settings/sources.h"

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
static int mount_text(const struct foreign_value *p, json_t *item, struct str *out,
                      struct vial_error *err)
{
    const char *text = value_string(item);
    const char *host = foreign_value_member(item, "hostPath");
    const char *inside = foreign_value_member(item, "containerPath");
    size_t colons = 0;
    struct shown shown;

    for (const char *c = text; c && *c; c++)
        colons += *c == ':';
    if ((!text || colons < 1) && (!host || !inside)) {
        shown = value_show_json(item);
        return foreign_value_refuse(p, shown.text, "a mount as HOST:CONTAINER[:ro]",
                                    err);
    }
    if (!expand(p->environ_, text ? text : host, out))
        return foreign_value_refuse(p, text ? text : host,
                                    "known: the variable is not set", err);
    if (!text)
        str_printf(out, ":%s:%s", inside,
                   json_is_true(json_object_get(item, "readOnly")) ? "ro" : "rw");
    else if (colons == 1)
        str_puts(out, ":rw");
    return str_ok(out) ? 0 : fail_memory(err);
}

int foreign_begin_mounts(struct settings *s, struct source *out, char *const *environ_,
                         struct vial_error *err)
{
    const struct foreign_value p = { .s = s, .out = out, .name = "mounts" };
    json_t *list = preset_get(s->seed, "mounts");
    json_t *item = NULL;
    size_t i = 0;

    json_array_foreach(list, i, item)
    {
        bool writable = json_is_true(json_object_get(item, "writable"));
        auto_str struct str text = { 0 };

        if (!expand(environ_, foreign_value_member(item, "source"), &text))
            continue;
        if (json_is_true(json_object_get(item, "optional")) && str_ok(&text) &&
            access(text.data, F_OK) < 0)
            continue;
        if (json_is_true(json_object_get(item, "create")) &&
            !strv_has(&s->places, text.data))
            strv_push(&s->places, text.data);
        str_printf(&text, ":%s:%s", foreign_value_member(item, "target"),
                   writable ? "rw" : "ro");
        if (!str_ok(&text) || !strv_ok(&s->places))
            return fail_memory(err);
        if (foreign_value_set_field(&p, &fields[FIELD_ID_mounts], text.data, err) < 0)
            return -1;
    }
    return 0;
}

int foreign_mounts(const struct foreign_value *p, json_t *list, struct vial_error *err)
{
    json_t *item = NULL;
    size_t i = 0;

    /* They come on top. */
    if (!request_has(&p->out->values, mounts) &&
        foreign_begin_mounts(p->s, p->out, p->environ_, err) < 0)
        return -1;
    json_array_foreach(list, i, item)
    {
        auto_str struct str text = { 0 };

        if (mount_text(p, item, &text, err) < 0 ||
            foreign_value_set_field(p, &fields[FIELD_ID_mounts], text.data, err) < 0)
            return -1;
    }
    return 0;
}

#define LANGUAGE_FILE_MAX ((size_t)1 << 20)

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

/* A file is named as one: "python3.json", "/etc/x/python3.json". A bare word is one of
 * our own profiles. */
static int put_profile(const char *value, json_t *entry, struct vial_error *err)
{
    size_t len = strlen(value);
    bool is_file =
        strchr(value, '/') || (len > 5 && strcmp(value + len - 5, ".json") == 0);

    if (json_object_set_new(entry, "seccomp",
                            json_string(is_file ? "default" : value)) < 0)
        return fail_memory(err);
    if (is_file && json_object_set_new(entry, "seccomp_file", json_string(value)) < 0)
        return fail_memory(err);
    return 0;
}

static int put_entry(const char *sets, const char *value, json_t *entry,
                     struct vial_error *err)
{
    json_t *limits = json_object_get(entry, "limits");

    if (strcmp(sets, "seccomp") == 0)
        return put_profile(value, entry, err);
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

/* An entry of their language file as one of ours. */
static int adopt_entry(const struct foreign_value *file, const char *name,
                       json_t *theirs, json_t *all, struct vial_error *err)
{
    const struct language *base = base_of(&file->s->languages, name);
    json_t *maps = preset_get(file->s->seed, "languages");
    json_t *entry = json_object();
    struct foreign_value p = *file;

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
        if (foreign_value_scalar(&p, json_object_iter_value(at), &raw, err) < 0 ||
            foreign_value_translate(&p, raw.data ? raw.data : "", &value, err) < 0 ||
            put_entry(foreign_value_member(p.map, "sets"), value.data, entry, err) < 0)
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

int foreign_languages(const struct foreign_value *p, const char *path,
                      struct vial_error *err)
{
    auto_json json_t *theirs = NULL;
    auto_json json_t *ours = json_object();
    struct foreign_value file = *p;

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

static char *trim(char *text)
{
    size_t len;

    text += strspn(text, " \t\r");
    len = strlen(text);
    while (len > 0 && strchr(" \t\r", text[len - 1]))
        text[--len] = '\0';
    return text;
}

/* Without quotes, or up to a comment. NULL: quotes that do not end. */
static char *value_in(char *text)
{
    char *end;

    text = trim(text);
    if (*text == '"' || *text == '\'') {
        end = strchr(text + 1, *text);
        if (!end)
            return NULL;
        *end = '\0';
        return text + 1;
    }
    end = strstr(text, " #");
    if (end)
        *end = '\0';
    return trim(text);
}

static int read_line(char *line, const char *where, const json_t *wanted,
                     char *const *environ_, struct strv *out, struct vial_error *err)
{
    char *name = trim(line);
    char *value = NULL;

    if (strncmp(name, "export ", strlen("export ")) == 0)
        name = trim(name + strlen("export "));
    value = strchr(name, '=');
    if (!*name || *name == '#' || !value)
        return 0;
    *value++ = '\0';
    name = trim(name);
    if (!json_object_get(wanted, name) || source_variable(environ_, name))
        return 0;
    value = value_in(value);
    if (!value) {
        (void)fail(err, VIAL_E_VALUE, "%s: the value of '%s' has no closing quote",
                   where, name);
        return fail_remedy(err, "write it as NAME=VALUE");
    }
    strv_printf(out, "%s=%s", name, value);
    return 0;
}

int dotenv_read(const struct blob *text, const char *where, const json_t *wanted,
                char *const *environ_, struct strv *out, struct vial_error *err)
{
    auto_free char *copy = strndup(text->data ? text->data : "", text->len);
    char *rest = copy;
    char *line = NULL;

    if (!copy)
        return fail_memory(err);
    if (strlen(copy) != text->len)
        return fail(err, VIAL_E_VALUE, "'%s' holds a NUL byte", where);
    while ((line = strsep(&rest, "\n")))
        if (read_line(line, where, wanted, environ_, out, err) < 0)
            return -1;
    return strv_ok(out) ? 0 : fail_memory(err);
}
