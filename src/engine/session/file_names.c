/* SPDX-License-Identifier: Apache-2.0 */

/* Names below the working directory: what is there, and what is done to it. */

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/fail.h"
#include "base/path.h"
#include "base/sha256.h"
#include "engine/session/file_bytes.h"

#define ENTRIES_MAX 200000u
#define PATH_MOST   4096u

/* Runs a request that answers with DATA, if any, and DONE. */
static int ask(struct vial_session *s, bool root, const struct name_message *m,
               bool list, struct str *answer, struct vial_error *err)
{
    static const char *const verbs[] = { "list", "stat",   "make directory",
                                         "move", "remove", "remove",
                                         "stat" };
    struct files_way w = {
        .session = s, .path = m->path, .verb = verbs[m->verb], .root = root
    };
    const struct files_ask what = { .name = list ? NULL : m, .list = m->path };
    int rc;

    if (files_enter(&w, &what, err) < 0)
        return -1;
    while ((rc = files_get_some(&w, answer, err)) > 0)
        ;
    files_get_end(&w);
    return rc;
}

/* Both names of a move are of the same kind. */
static char *inside(const struct vial_session *s, const char *path, bool absolute)
{
    auto_free char *name = files_inside(s, path);

    if (!name || !absolute || *name == '/')
        return ptr_take(&name);
    return *name ? path_join(s->workdir, name) : strdup(s->workdir);
}

/* NOLINTNEXTLINE(readability-function-size): two names, and whose they are */
static int act(struct vial_session *s, bool root, enum name_verb verb, const char *path,
               const char *to, struct str *answer, struct vial_error *err)
{
    bool absolute = *path == '/' || *to == '/';
    auto_free char *a = inside(s, path, absolute);
    auto_free char *b = inside(s, to, absolute && *to);
    const struct name_message m = { .verb = verb, .path = a, .to = b };

    if (files_check_path(s, path, verb == NAME_STAT || verb == NAME_FOLLOW, err) < 0)
        return -1;
    if (verb == NAME_MOVE && files_check_path(s, to, false, err) < 0)
        return -1;
    return a && b ? ask(s, root, &m, false, answer, err) : fail_memory(err);
}

static int fail_answer(struct vial_error *err, const char *path)
{
    return fail(err, VIAL_E_GUEST, "look at '%s': the guest answered nonsense", path);
}

/* Takes its target and attributes. */
static struct vial_entry entry_of(const struct list_entry *e)
{
    return (struct vial_entry){ .type = (char)e->type,
                                .mode = e->mode,
                                .size = e->size,
                                .mtime_ns = e->mtime_ns,
                                .holes = e->holes,
                                .uid = e->uid,
                                .gid = e->gid,
                                .target = e->target,
                                .attributes = e->attributes };
}

static int stat_by(struct vial_session *session, bool root, enum name_verb verb,
                   const char *path, struct vial_entry *out, struct vial_error *err)
{
    auto_str struct str answer = { 0 };
    struct unpack u;
    struct list_entry e;

    if (act(session, root, verb, path, "", &answer, err) < 0)
        return -1;
    u = (struct unpack){ .data = (const uint8_t *)answer.data, .len = answer.len };
    if (list_entry_read(&u, &e) < 0)
        return fail_answer(err, path);
    free(e.name);
    *out = entry_of(&e);
    out->media = path_media(path);
    return 0;
}

int vial_session_stat(struct vial_session *session, const char *path,
                      struct vial_entry *out, struct vial_error *err)
{
    return stat_by(session, false, NAME_STAT, path, out, err);
}

int vial_session_stat_followed(struct vial_session *session, const char *path,
                               struct vial_entry *out, struct vial_error *err)
{
    return stat_by(session, false, *path == '/' ? NAME_FOLLOW : NAME_STAT, path, out,
                   err);
}

int vial_session_stat_as(struct vial_session *session, bool root, bool followed,
                         const char *path, struct vial_entry *out,
                         struct vial_error *err)
{
    return stat_by(session, root, followed && *path == '/' ? NAME_FOLLOW : NAME_STAT,
                   path, out, err);
}

void vial_entry_done(struct vial_entry *entry)
{
    free(entry->path);
    free(entry->target);
    free(entry->attributes);
    entry->path = entry->target = entry->attributes = NULL;
}

int vial_session_mkdir(struct vial_session *session, const char *path,
                       struct vial_error *err)
{
    return vial_session_mkdir_as(session, false, path, err);
}

int vial_session_mkdir_as(struct vial_session *session, bool root, const char *path,
                          struct vial_error *err)
{
    auto_str struct str nothing = { 0 };

    return act(session, root, NAME_MKDIR, path, "", &nothing, err);
}

int vial_session_move(struct vial_session *session, const char *from, const char *to,
                      struct vial_error *err)
{
    return vial_session_move_as(session, false, from, to, err);
}

int vial_session_move_as(struct vial_session *session, bool root, const char *from,
                         const char *to, struct vial_error *err)
{
    auto_str struct str nothing = { 0 };

    return act(session, root, NAME_MOVE, from, to, &nothing, err);
}

int vial_session_remove(struct vial_session *session, const char *path, bool deep,
                        struct vial_error *err)
{
    return vial_session_remove_as(session, false, path, deep, err);
}

int vial_session_remove_as(struct vial_session *session, bool root, const char *path,
                           bool deep, struct vial_error *err)
{
    auto_str struct str nothing = { 0 };

    return act(session, root, deep ? NAME_REMOVE_ALL : NAME_REMOVE, path, "", &nothing,
               err);
}

static int add_entry(struct vial_entries *out, const char *dir, struct list_entry *e,
                     struct vial_error *err)
{
    struct vial_entry *items = out->items;

    if (out->count >= ENTRIES_MAX)
        return fail(err, VIAL_E_QUOTA, "list: more than %u entries", ENTRIES_MAX);
    if ((out->count & (out->count - 1)) == 0) /* grows at each power of two */
        items = realloc(items, (out->count ? out->count * 2 : 1) * sizeof *items);
    if (!items)
        return fail_memory(err);
    out->items = items;
    items[out->count] = entry_of(e);
    items[out->count].path = files_join(dir, e->name);
    if (!items[out->count].path)
        return fail_memory(err);
    e->target = e->attributes = NULL;
    items[out->count].media = path_media(items[out->count].path);
    out->count++;
    return 0;
}

/* Appends what ROOT/DIR holds, with paths below ROOT. */
static int list_one(struct vial_session *s, bool as_root, const char *root,
                    const char *dir, struct vial_entries *out, struct vial_error *err)
{
    auto_str struct str answer = { 0 };
    auto_free char *path = files_join(root, dir);
    auto_free char *inside = path ? files_inside(s, path) : NULL;
    const struct name_message m = { .path = inside };
    struct unpack u;

    if (!inside)
        return fail_memory(err);
    if (strlen(inside) >= PATH_MOST)
        return fail(err, VIAL_E_PATH, "list: a path has more than %u bytes", PATH_MOST);
    if (ask(s, as_root, &m, true, &answer, err) < 0)
        return -1;
    u = (struct unpack){ .data = (const uint8_t *)answer.data, .len = answer.len };
    while (u.at < u.len) {
        struct list_entry e;
        int rc;

        if (list_entry_read(&u, &e) < 0)
            return fail_answer(err, path);
        rc = add_entry(out, dir, &e, err);
        list_entry_done(&e);
        if (rc < 0)
            return -1;
    }
    return 0;
}

static int by_path(const void *a, const void *b)
{
    const struct vial_entry *one = a, *other = b;

    return strcmp(one->path, other->path);
}

/* A directory that went away meanwhile is no error. */
static int list_deep(struct vial_session *s, bool as_root, const char *root,
                     struct vial_entries *out, struct vial_error *err)
{
    for (size_t i = 0; i < out->count; i++) {
        auto_free char *dir = NULL;

        if (out->items[i].type != 'd')
            continue;
        dir = strdup(out->items[i].path);
        if (!dir)
            return fail_memory(err);
        if (list_one(s, as_root, root, dir, out, err) < 0 &&
            !fail_is(err, VIAL_E_NO_FILE))
            return -1;
    }
    return 0;
}

int vial_session_list(struct vial_session *session, const char *path, bool deep,
                      struct vial_entries *out, struct vial_error *err)
{
    return vial_session_list_as(session, false, path, deep, out, err);
}

int vial_session_list_as(struct vial_session *session, bool as_root, const char *path,
                         bool deep, struct vial_entries *out, struct vial_error *err)
{
    auto_free char *root = files_name(path);
    struct vial_entries all = { 0 };
    struct vial_error mine = { 0 };

    if (!root)
        return fail_memory(err);
    if (files_check_path(session, path, true, err) < 0)
        return -1;
    if (list_one(session, as_root, root, "", &all, &mine) < 0 ||
        (deep && list_deep(session, as_root, root, &all, &mine) < 0)) {
        vial_entries_free(&all);
        if (err)
            *err = mine;
        return -1;
    }
    if (all.count > 0)
        qsort(all.items, all.count, sizeof *all.items, by_path);
    *out = all;
    return 0;
}

void vial_entries_free(struct vial_entries *entries)
{
    for (size_t i = 0; i < entries->count; i++)
        vial_entry_done(&entries->items[i]);
    free(entries->items);
    *entries = (struct vial_entries){ 0 };
}

static bool is_same(const struct vial_entries *before, const struct vial_entry *e)
{
    const struct vial_entry *old =
        before && before->count > 0
            ? bsearch(e, before->items, before->count, sizeof *e, by_path)
            : NULL;

    return old && old->type == e->type && old->size == e->size &&
           old->mtime_ns == e->mtime_ns;
}

/* False when it cannot be read: gone, or hidden. */
static bool hash_file(struct vial_session *s, const char *root, struct vial_entry *e)
{
    auto_free char *path = files_join(root, e->path);
    auto_str struct str some = { 0 };
    struct sha256 h;
    struct files_way w;
    int rc;

    if (!path || files_get_begin(&w, s, path, 0, 0, NULL) < 0)
        return false;
    sha256_init(&h);
    e->size = 0; /* what was hashed is what counts */
    while ((rc = files_get_some(&w, &some, NULL)) > 0) {
        sha256_add(&h, some.data, some.len);
        e->size += some.len;
        some.len = 0;
    }
    files_get_end(&w);
    sha256_text(&h, e->sha256);
    return rc == 0;
}

int vial_session_changes(struct vial_session *session, const char *path,
                         const struct vial_entries *before, struct vial_entries *out,
                         struct vial_error *err)
{
    auto_free char *root = files_name(path);
    struct vial_entries now = { 0 };
    size_t kept = 0;
    int rc;

    if (!root)
        return fail_memory(err);
    if (vial_session_list(session, path, true, &now, err) < 0)
        return -1;
    for (size_t i = 0; i < now.count; i++) {
        if (now.items[i].type == 'f' && !is_same(before, &now.items[i]) &&
            hash_file(session, root, &now.items[i]))
            now.items[kept++] = now.items[i];
        else
            vial_entry_done(&now.items[i]);
    }
    now.count = kept;
    session_lock(session);
    rc = session_touch(session, err);
    session_unlock(session);
    if (rc < 0)
        vial_entries_free(&now);
    else
        *out = now;
    return rc;
}
