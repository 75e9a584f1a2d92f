/* SPDX-License-Identifier: Apache-2.0 */
#include "workspace/changes.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/xattr.h>

#include "base/auto.h"
#include "base/fail.h"
#include "workspace/tree.h"

#define CHANGES_MAX ((size_t)1000000)

struct walk {
    const struct sides *sides;
    const char *const *paths;
    struct vial_changes *out;
    size_t cap;
    struct str path;
    struct vial_error *err;
};

static bool wanted(const struct walk *w, const char *path)
{
    if (!w->paths)
        return true;
    for (size_t i = 0; w->paths[i]; i++)
        if (tree_holds(w->paths[i], path))
            return true;
    return false;
}

/* Something wanted may lie below it. */
static bool on_the_way(const struct walk *w, const char *path)
{
    if (!w->paths)
        return true;
    for (size_t i = 0; w->paths[i]; i++)
        if (tree_holds(path, w->paths[i]))
            return true;
    return wanted(w, path);
}

static struct vial_change *add(struct walk *w, const char *path, const struct node *was,
                               const struct node *is)
{
    struct vial_change *c = NULL;

    if (w->out->count == CHANGES_MAX) {
        (void)fail(w->err, VIAL_E_WORKSPACE, "the layer holds more than %zu changes",
                   CHANGES_MAX);
        return NULL;
    }
    if (w->out->count == w->cap) {
        size_t cap = w->cap ? 2 * w->cap : 64;

        c = reallocarray(w->out->items, cap, sizeof(*c));
        if (!c) {
            (void)fail_memory(w->err);
            return NULL;
        }
        w->out->items = c;
        w->cap = cap;
    }
    c = &w->out->items[w->out->count];
    *c = (struct vial_change){ .path = strdup(path),
                               .type = is->type,
                               .mode = is->mode & 0777,
                               .size = is->size,
                               .type_before = was->type,
                               .mode_before = was->mode,
                               .size_before = was->size };
    if (!c->path) {
        (void)fail_memory(w->err);
        return NULL;
    }
    w->out->count++;
    return c;
}

/* A directory that goes must hold nothing the host put there since. */
static bool has_strangers(const struct sides *s, const char *dir)
{
    auto_strv struct strv names = { 0 };
    auto_str struct str path = { 0 };

    str_puts(&path, dir);
    if (tree_names(s->root_fd, dir, &names) < 0)
        return false;
    for (size_t i = 0; i < names.count; i++) {
        size_t len = tree_enter(&path, names.items[i]);

        if (!str_ok(&path) || !origin_find(s->origin, path.data))
            return true;
        tree_leave(&path, len);
    }
    return false;
}

/* The host's own change since the session began. */
static bool conflicts(const struct sides *s, const struct vial_change *c)
{
    const struct origin_entry *was = origin_find(s->origin, c->path);
    struct node now;
    bool goes = c->type_before == 'd' && c->type != 'd';

    if (tree_look(s->root_fd, c->path, &now) < 0)
        return true;
    if (!was) /* both may have made a directory */
        return now.type != 0 && !(now.type == 'd' && c->type == 'd');
    if (now.type == 0)
        return c->kind != VIAL_CHANGE_DELETED;
    return !origin_same(&was->node, &now) || (goes && has_strangers(s, c->path));
}

/* Appends a change, unless the host has come to the same by itself. */
static int note(struct walk *w, const char *path, enum vial_change_kind kind,
                const struct node *was, const struct node *is, const char *obstacle)
{
    struct vial_change *c = NULL;
    struct node now;

    if (kind == VIAL_CHANGE_DELETED && tree_look(w->sides->root_fd, path, &now) == 0 &&
        now.type == 0)
        return 0;
    if (!wanted(w, path) && !(kind == VIAL_CHANGE_ADDED && is->type == 'd'))
        return 0;
    c = add(w, path, was, is);
    if (!c)
        return -1;
    c->kind = kind;
    c->conflict = conflicts(w->sides, c);
    if (obstacle && !(c->obstacle = strdup(obstacle)))
        return fail_memory(w->err);
    return 0;
}

static int note_deleted(struct walk *w, const char *path)
{
    static const struct node nothing;
    const struct origin *o = w->sides->origin;
    const struct origin_entry *was = origin_find(o, path);

    if (was && note(w, path, VIAL_CHANGE_DELETED, &was->node, &nothing, NULL) < 0)
        return -1;
    for (size_t i = origin_below(o, path);
         i < o->count && tree_holds(path, o->items[i].path); i++)
        if (note(w, o->items[i].path, VIAL_CHANGE_DELETED, &o->items[i].node, &nothing,
                 NULL) < 0)
            return -1;
    return 0;
}

static bool same_file(const struct sides *s, const char *path)
{
    struct node here;
    struct node there;
    auto_fd int a = tree_open_file(s->root_fd, path, &here);
    auto_fd int b = tree_open_file(s->layer_fd, path, &there);

    return a >= 0 && b >= 0 && here.size == there.size && copy_same(a, b);
}

static bool same_link(const struct sides *s, const char *path)
{
    auto_free char *a = tree_link(s->root_fd, path);
    auto_free char *b = tree_link(s->layer_fd, path);

    return a && b && strcmp(a, b) == 0;
}

static bool same_content(const struct sides *s, const char *path, char type)
{
    if (type == 'd')
        return true;
    return type == 'l' ? same_link(s, path) : same_file(s, path);
}

/* Beyond leading ".." a ".." may come after another link: no telling where from. */
bool changes_leads_out(const char *path, const char *target)
{
    size_t depth = 0;
    bool down = false;

    if (*target == '/')
        return true;
    for (const char *at = path; (at = strchr(at, '/')); at++)
        depth++;
    while (*target) {
        size_t len = strcspn(target, "/");
        bool up = len == 2 && strncmp(target, "..", 2) == 0;

        if (up && (down || depth == 0))
            return true;
        depth -= up ? 1 : 0;
        down = down || (!up && len > 0 && !(len == 1 && *target == '.'));
        target += len + (target[len] == '/');
    }
    return false;
}

static const char *obstacle_of(const struct walk *w, const struct node *is)
{
    const char *path = w->path.data;

    if (str_starts(path, ORIGIN_STAGE))
        return "its name is vial's own";
    if (is->type == 'l') {
        auto_free char *target = tree_link(w->sides->layer_fd, path);

        return !target                           ? "it cannot be read"
               : changes_leads_out(path, target) ? "it is a link that may lead out"
                                                 : NULL;
    }
    return is->type == 'f' || is->type == 'd'
               ? NULL
               : "it is neither file, directory nor link";
}

/* Compares the node in the layer at the walk's path with what the host had there. */
static int compare_node(struct walk *w, const struct node *is)
{
    static const struct node nothing;
    const char *path = w->path.data;
    const struct origin_entry *entry = origin_find(w->sides->origin, path);
    const struct node *was = entry ? &entry->node : &nothing;
    const char *obstacle = obstacle_of(w, is);

    if (!entry)
        return note(w, path, VIAL_CHANGE_ADDED, was, is, obstacle);
    if (was->type != is->type) {
        if (note(w, path, VIAL_CHANGE_TYPE, was, is, obstacle) < 0)
            return -1;
        return was->type == 'd' ? note_deleted(w, path) : 0;
    }
    if (is->type == 'o' || !same_content(w->sides, path, is->type))
        return note(w, path, VIAL_CHANGE_MODIFIED, was, is, obstacle);
    if (is->type != 'l' && (was->mode & 0777) != (is->mode & 0777))
        return note(w, path, VIAL_CHANGE_MODE, was, is, obstacle);
    return 0;
}

bool changes_is_opaque(int layer_fd, const char *path)
{
    auto_fd int fd = tree_open(layer_fd, path, O_RDONLY | O_DIRECTORY);
    char value[4];

    return fd >= 0 && fgetxattr(fd, CHANGES_OPAQUE, value, sizeof(value)) == 1 &&
           value[0] == 'y';
}

/* An opaque directory hides what the host has in it. */
static int note_hidden(struct walk *w, const struct strv *names)
{
    const struct origin *o = w->sides->origin;
    auto_free char *dir = strdup(w->path.data);
    size_t skip = strlen(w->path.data) + 1;

    if (!dir)
        return fail_memory(w->err);
    for (size_t i = origin_below(o, dir);
         i < o->count && tree_holds(dir, o->items[i].path); i++) {
        char *name = o->items[i].path + skip;

        if (strchr(name, '/')) /* goes with its directory */
            continue;
        if (!(names->count && bsearch(&name, names->items, names->count, sizeof(char *),
                                      tree_compare)) &&
            note_deleted(w, o->items[i].path) < 0)
            return -1;
    }
    return 0;
}

static int walk_dir(struct walk *w);

static int walk_name(struct walk *w)
{
    struct node node;
    int rc =
        str_ok(&w->path) ? tree_look(w->sides->layer_fd, w->path.data, &node) : -ENOMEM;

    if (rc == -ENAMETOOLONG)
        return fail(w->err, VIAL_E_WORKSPACE, "a path in the layer is too long");
    if (rc < 0)
        return fail_sys_rc(w->err, rc, "look at '%s' of the layer",
                           w->path.data ? w->path.data : "");
    if (node.type == 0 || !on_the_way(w, w->path.data))
        return 0;
    if (node.type == 'w')
        return note_deleted(w, w->path.data);
    if (compare_node(w, &node) < 0)
        return -1;
    return node.type == 'd' ? walk_dir(w) : 0;
}

/* A directory that its program has closed even to itself, and so to us. */
static int note_closed(struct walk *w)
{
    struct vial_change *c = w->out->count ? &w->out->items[w->out->count - 1] : NULL;

    if (!c || c->obstacle || strcmp(c->path, w->path.data) != 0)
        return 0;
    c->obstacle = strdup("what is in it cannot be read");
    return c->obstacle ? 0 : fail_memory(w->err);
}

static int walk_dir(struct walk *w)
{
    auto_strv struct strv names = { 0 };
    int rc = tree_names(w->sides->layer_fd, w->path.len ? w->path.data : "", &names);

    if (rc == -ENOENT || rc == -ENOTDIR)
        return 0;
    if (rc == -EACCES && w->path.len)
        return note_closed(w);
    if (rc < 0)
        return fail_sys_rc(w->err, rc, "list '%s' of the layer",
                           w->path.len ? w->path.data : "");
    if (w->path.len && changes_is_opaque(w->sides->layer_fd, w->path.data) &&
        note_hidden(w, &names) < 0)
        return -1;
    for (size_t i = 0; i < names.count; i++) {
        size_t len = tree_enter(&w->path, names.items[i]);

        if (walk_name(w) < 0)
            return -1;
        tree_leave(&w->path, len);
    }
    return 0;
}

static int compare_path(const void *a, const void *b)
{
    const struct vial_change *x = a;
    const struct vial_change *y = b;

    return strcmp(x->path, y->path);
}

/* New directories that nothing wanted lies in; and a path that came twice, as when
 * a directory was replaced while it was read. */
static void tidy(const struct walk *w)
{
    struct vial_changes *c = w->out;
    size_t kept = 0;

    if (c->count > 1)
        qsort(c->items, c->count, sizeof(*c->items), compare_path);
    for (size_t i = 0; i < c->count; i++) {
        struct vial_change *at = &c->items[i];
        bool twice = kept > 0 && strcmp(c->items[kept - 1].path, at->path) == 0;

        if (!twice && on_the_way(w, at->path)) {
            c->items[kept++] = *at;
            continue;
        }
        free(at->path);
        free(at->obstacle);
    }
    c->count = kept;
}

int changes_read(const struct sides *s, const char *const *paths,
                 struct vial_changes *out, struct vial_error *err)
{
    struct walk w = { .sides = s, .paths = paths, .out = out, .err = err };
    int rc = walk_dir(&w);

    str_done(&w.path);
    tidy(&w);
    if (rc < 0)
        vial_changes_free(out);
    return rc;
}

const struct vial_change *changes_find(const struct vial_changes *c, const char *path)
{
    const struct vial_change key = { .path = (char *)(uintptr_t)path };

    if (c->count == 0)
        return NULL;
    return bsearch(&key, c->items, c->count, sizeof(*c->items), compare_path);
}
