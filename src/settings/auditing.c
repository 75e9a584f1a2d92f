/* SPDX-License-Identifier: Apache-2.0 */
#include "settings/auditing.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/auto.h"
#include "base/fail.h"
#include "base/json.h"
#include "base/state.h"
#include "base/str.h"
#include "base/unit.h"
#include "model/value.h"

#define ROTATE_MIN ((int64_t)64 << 10)
#define KEEP_MAX   100000
#define STATE      "{state}"

static const char *const keys[] = { "path", "code", "sync", "rotate", "keep", NULL };

static int bad(const char *where, const char *key, json_t *value, const char *remedy,
               struct vial_error *err)
{
    struct shown shown = value_show_json(value);

    (void)fail(err, VIAL_E_VALUE, "%s: audit.%s '%s' is not valid", where, key,
               shown.text);
    return fail_remedy(err, "%s", remedy);
}

static int read_path(struct auditing *a, json_t *value, const char *where,
                     struct vial_error *err)
{
    const char *path = value_string(value);

    if (!path || path[0] != '/')
        return bad(where, "path", value, "give an absolute path", err);
    a->path = strdup(path);
    return a->path ? 0 : fail_memory(err);
}

static int read_rotate(struct auditing *a, json_t *value, const char *where,
                       struct vial_error *err)
{
    const char *text = value_string(value);

    a->rotate = json_integer_value(value);
    if (text && unit_parse_bytes(text, &a->rotate) < 0)
        a->rotate = 0;
    if (a->rotate >= ROTATE_MIN)
        return 0;
    return bad(where, "rotate", value, "give at least 64k", err);
}

static int read_word(json_t *value, const char *usual, const char *other, bool *out)
{
    const char *text = value_string(value);

    *out = text && strcmp(text, other) == 0;
    return text && (*out || strcmp(text, usual) == 0) ? 0 : -1;
}

static int read_key(struct auditing *a, const char *key, json_t *value,
                    const char *where, struct vial_error *err)
{
    if (strcmp(key, "path") == 0)
        return read_path(a, value, where, err);
    if (strcmp(key, "rotate") == 0)
        return read_rotate(a, value, where, err);
    if (strcmp(key, "code") == 0)
        return read_word(value, "hash", "text", &a->code_text) == 0
                   ? 0
                   : bad(where, key, value, "give 'hash' or 'text'", err);
    if (strcmp(key, "sync") == 0)
        return read_word(value, "each", "lazy", &a->lazy) == 0
                   ? 0
                   : bad(where, key, value, "give 'each' or 'lazy'", err);
    if (strcmp(key, "keep") == 0) {
        a->keep = json_is_integer(value) ? json_integer_value(value) : -1;
        return a->keep >= 0 && a->keep <= KEEP_MAX
                   ? 0
                   : bad(where, key, value, "give a number of files", err);
    }
    return value_unknown(err, "key", key, keys, " in '%s': audit", where);
}

static int read_block(struct auditing *a, json_t *block, const char *where,
                      struct vial_error *err)
{
    const char *key;
    json_t *value;

    json_object_foreach(block, key,
                        value) if (read_key(a, key, value, where, err) < 0) return -1;
    if (!a->path) {
        (void)fail(err, VIAL_E_VALUE, "%s: audit.path is missing", where);
        return fail_remedy(err, "say where the log lies: 'path: /var/log/vial/audit'");
    }
    a->from = strdup(where);
    return a->from ? 0 : fail_memory(err);
}

int auditing_read(struct auditing *a, json_t *block, const char *where,
                  struct vial_error *err)
{
    struct auditing mine = { 0 };

    bool off = json_is_false(block) || str_eq(value_string(block), "off");

    if (!off && !json_is_object(block))
        return fail(err, VIAL_E_VALUE, "%s: 'audit' is not a block of keys", where);
    if (off && (mine.from = strdup(where)) == NULL)
        return fail_memory(err);
    if (!off && read_block(&mine, block, where, err) < 0) {
        auditing_done(&mine);
        return -1;
    }
    if (a->from && !a->usual) { /* judged all the same, but an outer file decides */
        auditing_done(&mine);
        return 0;
    }
    auditing_done(a);
    *a = mine;
    return 0;
}

int auditing_read_usual(struct auditing *a, json_t *block, const char *where,
                        const char *home, struct vial_error *err)
{
    const char *path = value_string(json_object_get(block, "path"));
    auto_free char *state = state_path(home);
    auto_json json_t *mine = json_copy(block);
    auto_str struct str whole = { 0 };

    if (path && str_starts(path, STATE "/")) {
        str_printf(&whole, "%s%s", state ? state : "/nonexistent",
                   path + strlen(STATE));
        if (!str_ok(&whole) ||
            json_object_set_new(mine, "path", json_string(whole.data)) < 0)
            return fail_memory(err);
    }
    if (auditing_read(a, mine, where, err) < 0)
        return -1;
    a->usual = true;
    return 0;
}

int auditing_make_place(const struct auditing *a, struct vial_error *err)
{
    const char *last = a->usual && a->path ? strrchr(a->path, '/') : NULL;

    for (const char *at = a->path; last && (at = strchr(at + 1, '/'));) {
        auto_free char *dir = strndup(a->path, (size_t)(at - a->path));

        if (!dir)
            return fail_memory(err);
        if (mkdir(dir, at == last ? 0700 : 0755) == 0 || errno == EEXIST)
            continue;
        (void)fail_sys(err, "make '%s', where the audit log belongs", dir);
        (void)fail_as(err, VIAL_E_AUDIT);
        return fail_remedy(err, "set VIAL_STATE to a directory of your own, or 'audit: "
                                "{path: …}' or 'audit: off' in a settings file");
    }
    return 0;
}

json_t *auditing_json(const struct auditing *a)
{
    if (!a->path)
        return json_null();
    return json_pack("{s:s, s:s, s:s, s:I, s:I, s:s?}", "path", a->path, "code",
                     a->code_text ? "text" : "hash", "sync", a->lazy ? "lazy" : "each",
                     "rotate", (json_int_t)a->rotate, "keep", (json_int_t)a->keep,
                     "from", a->from);
}

void auditing_done(struct auditing *a)
{
    free(a->path);
    free(a->from);
    *a = (struct auditing){ 0 };
}
