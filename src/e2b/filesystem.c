/* SPDX-License-Identifier: Apache-2.0 */

/* The service filesystem.Filesystem: names, and what lies under them. */

#include "e2b/filesystem.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/auto.h"
#include "base/fail.h"
#include "base/str.h"
#include "model/value.h"

#define LINKS_MAX 8 /* from one to the next */
#define OWNER_UID 1000u

int message_path(const struct ask *a, const json_t *message, const char *name,
                 struct str *out, struct connect_error *e)
{
    const json_t *value = json_object_get(message, name);
    const char *text = value ? value_string(value) : "";

    if (!text)
        return connect_fail(e, CONNECT_INVALID, "'%s' is not a path", name);
    return box_path(box_home(a), text, out, e);
}

/* "-rw-r--r--"; Go's letters, by which a link begins with L. */
static void permissions(char type, unsigned mode, char out[11])
{
    static const char letters[] = "rwxrwxrwx";

    memcpy(out, "----------", 11);
    if (type == 'd' || type == 'l')
        out[0] = (char)(type == 'l' ? 'L' : 'd');
    for (int i = 0; i < 9; i++)
        if (mode >> (8 - i) & 1)
            out[i + 1] = letters[i];
}

static const char *type_name(char type)
{
    return type == 'f'   ? "FILE_TYPE_FILE"
           : type == 'd' ? "FILE_TYPE_DIRECTORY"
                         : "FILE_TYPE_UNSPECIFIED";
}

static void stamp(uint64_t ns, char out[48])
{
    time_t seconds = (time_t)(ns / 1000000000);
    struct tm parts;
    char text[24];

    (void)gmtime_r(&seconds, &parts);
    (void)strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%S", &parts);
    (void)snprintf(out, 48, "%s.%09uZ", text, (unsigned)(ns % 1000000000));
}

static void name_of(uint32_t id, char out[16])
{
    if (id == OWNER_UID)
        (void)snprintf(out, 16, "%s", BOX_USER);
    else if (id == 0)
        (void)snprintf(out, 16, "root");
    else
        (void)snprintf(out, 16, "%u", (unsigned)id);
}

static const char *link_target(const struct vial_entry *entry)
{
    return entry->target ? entry->target : "";
}

static void resolve(const char *path, const char *target, struct str *out)
{
    const char *slash = strrchr(path, '/');
    auto_str struct str joined = { 0 };
    struct connect_error ignored;

    if (*target != '/')
        str_printf(&joined, "%.*s/", (int)(slash - path), path);
    str_puts(&joined, target);
    if (str_ok(&joined))
        (void)box_path("/", joined.data, out, &ignored);
}

/* Where a link leads in the end; *TYPE and *MODE are what is there, and stay if it is
 * nothing. */
static void follow(const struct ask *a, const char *path, const char *target,
                   struct str *out, char *type, unsigned *mode)
{
    auto_str struct str at = { 0 };
    auto_free char *next = strdup(target);

    str_puts(&at, path);
    for (int i = 0; next && i < LINKS_MAX; i++) {
        struct vial_entry entry = { 0 };
        struct vial_error err;

        str_done(out);
        *out = (struct str){ 0 };
        resolve(at.data, next, out);
        free(next);
        next = NULL;
        if (!str_ok(out) || !out->data ||
            vial_session_stat_as(box_session(a->box), a->root, false, out->data, &entry,
                                 &err) < 0)
            return;
        *type = entry.type;
        *mode = entry.mode;
        if (entry.type == 'l')
            next = strdup(link_target(&entry));
        vial_entry_done(&entry);
        str_done(&at);
        at = (struct str){ 0 };
        str_puts(&at, out->data);
    }
}

json_t *entry_json(const struct ask *a, const char *path,
                   const struct vial_entry *entry)
{
    const char *slash = strrchr(path, '/');
    const char *name = slash && slash[1] ? slash + 1 : path;
    auto_str struct str target = { 0 };
    char type = entry->type;
    unsigned mode = entry->mode & 07777u;
    char text[11], time_text[48], owner[16], group[16], size[24];
    json_t *metadata = metadata_json(entry->attributes);
    json_t *json;

    if (type == 'l') {
        type = 'o';
        follow(a, path, link_target(entry), &target, &type, &mode);
    }
    permissions(entry->type, mode, text);
    stamp(entry->mtime_ns, time_text);
    name_of(entry->uid, owner);
    name_of(entry->gid, group);
    (void)snprintf(size, sizeof(size), "%llu", (unsigned long long)entry->size);
    json = json_pack("{s:o, s:s, s:o, s:s, s:i, s:s, s:s, s:s, s:s, s:o*}", "name",
                     value_text_json(name, strlen(name)), "type", type_name(type),
                     "path", value_text_json(path, strlen(path)), "size",
                     entry->type == 'd' && entry->size == 0 ? "4096" : size, "mode",
                     (int)(mode & 0777u), "permissions", text, "owner", owner, "group",
                     group, "modifiedTime", time_text, "metadata", metadata);
    if (json && entry->type == 'l' && target.data)
        (void)json_object_set_new(json, "symlinkTarget",
                                  value_text_json(target.data, target.len));
    return json;
}

static int look(const struct ask *a, const char *path, struct vial_entry *entry,
                struct connect_error *e)
{
    struct vial_error err = { 0 };

    if (vial_session_stat_as(box_session(a->box), a->root, false, path, entry, &err) ==
        0)
        return 0;
    if (fail_is(&err, VIAL_E_NO_FILE))
        return connect_fail(e, CONNECT_NOT_FOUND, "path '%.256s' does not exist", path);
    return connect_from(e, &err);
}

int entry_stat(const struct ask *a, const char *path, json_t **out,
               struct connect_error *e)
{
    struct vial_entry entry = { 0 };

    if (look(a, path, &entry, e) < 0)
        return -1;
    *out = entry_json(a, path, &entry);
    vial_entry_done(&entry);
    return *out ? 0 : connect_fail(e, CONNECT_INTERNAL, "out of memory");
}

int entry_is_dir(const struct ask *a, const char *path, struct connect_error *e)
{
    struct vial_entry entry = { 0 };
    auto_str struct str target = { 0 };
    unsigned mode;
    char type;

    if (look(a, path, &entry, e) < 0)
        return -1;
    type = entry.type;
    if (type == 'l')
        follow(a, path, link_target(&entry), &target, &type, &mode);
    vial_entry_done(&entry);
    return type == 'd';
}

static int answer_entry(struct ask *a, const char *path, json_t **out,
                        struct connect_error *e)
{
    json_t *entry = NULL;

    if (entry_stat(a, path, &entry, e) < 0)
        return -1;
    *out = json_pack("{s:o}", "entry", entry);
    return 0;
}

static int stat_name(struct ask *a, const json_t *message, json_t **out,
                     struct connect_error *e)
{
    auto_str struct str path = { 0 };

    if (message_path(a, message, "path", &path, e) < 0)
        return -1;
    return answer_entry(a, path.data, out, e);
}

static int make_dir(struct ask *a, const json_t *message, json_t **out,
                    struct connect_error *e)
{
    auto_str struct str path = { 0 };
    struct vial_error err = { 0 };
    struct connect_error missing = { 0 };
    int there;

    if (message_path(a, message, "path", &path, e) < 0)
        return -1;
    there = entry_is_dir(a, path.data, &missing);
    if (there > 0)
        return connect_fail(e, CONNECT_EXISTS, "directory already exists: %.256s",
                            path.data);
    if (there == 0)
        return connect_fail(e, CONNECT_INVALID,
                            "path already exists but it is not a "
                            "directory: %.256s",
                            path.data);
    if (vial_session_mkdir_as(box_session(a->box), a->root, path.data, &err) < 0)
        return connect_from(e, &err);
    return answer_entry(a, path.data, out, e);
}

static int move(struct ask *a, const json_t *message, json_t **out,
                struct connect_error *e)
{
    auto_str struct str from = { 0 };
    auto_str struct str to = { 0 };
    struct vial_entry entry = { 0 };
    struct vial_error err = { 0 };

    if (message_path(a, message, "source", &from, e) < 0 ||
        message_path(a, message, "destination", &to, e) < 0 ||
        look(a, from.data, &entry, e) < 0)
        return -1;
    vial_entry_done(&entry);
    if (vial_session_move_as(box_session(a->box), a->root, from.data, to.data, &err) <
        0)
        return connect_from(e, &err);
    return answer_entry(a, to.data, out, e);
}

static int remove_name(struct ask *a, const json_t *message, json_t **out,
                       struct connect_error *e)
{
    auto_str struct str path = { 0 };
    struct vial_error err = { 0 };

    *out = NULL;
    if (message_path(a, message, "path", &path, e) < 0)
        return -1;
    if (vial_session_remove_as(box_session(a->box), a->root, path.data, true, &err) ==
            0 ||
        fail_is(&err, VIAL_E_NO_FILE))
        return 0;
    return connect_from(e, &err);
}

/* Children come behind their directory, before its next sister. */
static int by_parts(const void *one, const void *other)
{
    const char *a = ((const struct vial_entry *)one)->path;
    const char *b = ((const struct vial_entry *)other)->path;

    while (*a && *a == *b) {
        a++;
        b++;
    }
    if (*a == '/' || *b == '/')
        return *a == *b ? 0 : !*a ? -1 : !*b ? 1 : *a == '/' ? -1 : 1;
    return (unsigned char)*a - (unsigned char)*b;
}

static size_t depth_of(const char *path)
{
    size_t n = 1;

    for (; *path; path++)
        n += *path == '/';
    return n;
}

json_t *entries_json(const struct ask *a, const char *path, struct vial_entries *all,
                     size_t depth, entry_form *form)
{
    json_t *list = json_array();

    qsort(all->items, all->count, sizeof(*all->items), by_parts);

    for (size_t i = 0; i < all->count; i++) {
        auto_str struct str whole = { 0 };

        if (depth_of(all->items[i].path) > depth)
            continue;
        str_printf(&whole, "%s%s%s", path, strcmp(path, "/") == 0 ? "" : "/",
                   all->items[i].path);
        if (!str_ok(&whole) ||
            json_array_append_new(list, form(a, whole.data, &all->items[i])) < 0) {
            json_decref(list);
            return NULL;
        }
    }
    return list;
}

static int list_dir(struct ask *a, const json_t *message, json_t **out,
                    struct connect_error *e)
{
    json_int_t depth = json_integer_value(json_object_get(message, "depth"));
    auto_str struct str path = { 0 };
    struct vial_entries all = { 0 };
    struct vial_error err = { 0 };
    int there;

    depth = depth < 1 ? 1 : depth;
    if (message_path(a, message, "path", &path, e) < 0)
        return -1;
    there = entry_is_dir(a, path.data, e);
    if (there == 0)
        return connect_fail(e, CONNECT_INVALID, "path is not a directory: %.256s",
                            path.data);
    if (there < 0)
        return -1;
    if (vial_session_list_as(box_session(a->box), a->root, path.data, depth > 1, &all,
                             &err) < 0)
        return connect_from(e, &err);
    *out = json_pack("{s:o}", "entries",
                     entries_json(a, path.data, &all, (size_t)depth, entry_json));
    vial_entries_free(&all);
    return *out ? 0 : connect_fail(e, CONNECT_INTERNAL, "out of memory");
}

static const struct {
    const char *name;
    int (*call)(struct ask *a, const json_t *message, json_t **out,
                struct connect_error *e);
} calls[] = {
    { "Stat", stat_name },
    { "MakeDir", make_dir },
    { "Move", move },
    { "ListDir", list_dir },
    { "Remove", remove_name },
    { "CreateWatcher", watch_create },
    { "GetWatcherEvents", watch_events },
    { "RemoveWatcher", watch_remove },
};

static int unary_call(struct ask *a, const char *method, json_t **out,
                      struct connect_error *e)
{
    auto_json json_t *message = NULL;

    if (connect_user(a, &a->root, e) < 0 || connect_message(a, &message, e) < 0)
        return -1;
    for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++)
        if (strcmp(calls[i].name, method) == 0)
            return calls[i].call(a, message, out, e);
    return connect_fail(e, CONNECT_UNIMPLEMENTED, "there is no method '%.64s'", method);
}

void filesystem_call(struct ask *a, const char *method)
{
    struct connect_error e = { 0 };
    struct connect_stream s;
    json_t *out = NULL;
    bool refused;

    if (!connect_is_stream(a, &refused)) {
        if (refused)
            return;
        if (unary_call(a, method, &out, &e) == 0)
            connect_answer(a, out ? out : json_object());
        else
            connect_refuse(a, &e);
        return;
    }
    if (strcmp(method, "WatchDir") == 0) {
        watch_stream(a);
    } else if (connect_start(&s, a) == 0) {
        (void)connect_fail(&e, CONNECT_UNIMPLEMENTED, "there is no method '%.64s'",
                           method);
        connect_end(&s, &e);
    }
}
