/* SPDX-License-Identifier: Apache-2.0 */
#include "workspace/origin.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/fail.h"

#define ENTRIES_MAX ((size_t)2000000)

static int add(struct origin *o, const char *path, const struct node *node,
               struct vial_error *err)
{
    if (o->count == ENTRIES_MAX)
        return fail(err, VIAL_E_WORKSPACE, "the workspace holds more than %zu names",
                    ENTRIES_MAX);
    if (o->count == o->cap) {
        size_t cap = o->cap ? 2 * o->cap : 256;
        struct origin_entry *grown = reallocarray(o->items, cap, sizeof(*grown));

        if (!grown)
            return fail_memory(err);
        o->items = grown;
        o->cap = cap;
    }
    o->items[o->count].path = strdup(path);
    o->items[o->count].node = *node;
    if (!o->items[o->count].path)
        return fail_memory(err);
    o->count++;
    return 0;
}

static int read_dir(struct origin *o, int root_fd, struct str *path,
                    struct vial_error *err);

static int read_name(struct origin *o, int root_fd, struct str *path,
                     struct vial_error *err)
{
    struct node node;
    int rc = str_ok(path) ? tree_look(root_fd, path->data, &node) : -ENOMEM;

    if (rc < 0)
        return fail_sys_rc(err, rc, "look at '%s' of the workspace",
                           path->data ? path->data : "");
    if (node.type == 0) /* gone again, or another file system's */
        return 0;
    if (add(o, path->data, &node, err) < 0)
        return -1;
    return node.type == 'd' ? read_dir(o, root_fd, path, err) : 0;
}

static int read_dir(struct origin *o, int root_fd, struct str *path,
                    struct vial_error *err)
{
    auto_strv struct strv names = { 0 };
    int rc = tree_names(root_fd, path->len ? path->data : "", &names);

    /* If we may not list it, neither may a program inside, which has our user. */
    if (rc == -EACCES || rc == -ENOENT || rc == -ENOTDIR)
        return 0;
    if (rc < 0)
        return fail_sys_rc(err, rc, "list '%s' of the workspace", path->data);
    for (size_t i = 0; i < names.count; i++) {
        size_t len = tree_enter(path, names.items[i]);

        rc = len == 0 && str_starts(names.items[i], ORIGIN_STAGE)
                 ? 0
                 : read_name(o, root_fd, path, err);
        if (rc < 0)
            return -1;
        tree_leave(path, len);
    }
    return 0;
}

static int compare(const void *a, const void *b)
{
    const struct origin_entry *x = a;
    const struct origin_entry *y = b;

    return strcmp(x->path, y->path);
}

static void sort(struct origin *o)
{
    if (o->count > 1)
        qsort(o->items, o->count, sizeof(*o->items), compare);
}

int origin_read(int root_fd, struct origin *out, struct vial_error *err)
{
    auto_str struct str path = { 0 };
    int rc = read_dir(out, root_fd, &path, err);

    sort(out);
    return rc;
}

const struct origin_entry *origin_find(const struct origin *o, const char *path)
{
    const struct origin_entry key = { .path = (char *)(uintptr_t)path };

    if (o->count == 0)
        return NULL;
    return bsearch(&key, o->items, o->count, sizeof(*o->items), compare);
}

size_t origin_below(const struct origin *o, const char *dir)
{
    auto_str struct str first = { 0 };
    size_t low = 0;
    size_t high = o->count;

    str_printf(&first, "%s/", dir);
    if (!str_ok(&first))
        return o->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if (strcmp(o->items[middle].path, first.data) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

bool origin_same(const struct node *was, const struct node *is)
{
    if (was->type != is->type)
        return false;
    if (was->type == 'd' || was->type == 0)
        return true;
    return was->ino == is->ino && was->device == is->device && was->size == is->size &&
           was->mode == is->mode && was->mtime_ns == is->mtime_ns &&
           was->ctime_ns == is->ctime_ns;
}

static bool listed(const struct strv *paths, char *path)
{
    return paths->count &&
           bsearch(&path, paths->items, paths->count, sizeof(char *), tree_compare);
}

static void forget(struct origin *o, const struct strv *paths)
{
    size_t kept = 0;

    for (size_t i = 0; i < o->count; i++) {
        if (listed(paths, o->items[i].path))
            free(o->items[i].path);
        else
            o->items[kept++] = o->items[i];
    }
    o->count = kept;
}

int origin_renew(struct origin *o, int root_fd, const struct strv *paths,
                 struct vial_error *err)
{
    int rc = 0;

    forget(o, paths);
    for (size_t i = 0; rc == 0 && i < paths->count; i++) {
        struct node node;

        if (tree_look(root_fd, paths->items[i], &node) == 0 && node.type)
            rc = add(o, paths->items[i], &node, err);
    }
    sort(o);
    return rc;
}

void origin_done(struct origin *o)
{
    for (size_t i = 0; i < o->count; i++)
        free(o->items[i].path);
    free(o->items);
    *o = (struct origin){ 0 };
}
