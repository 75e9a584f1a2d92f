/* SPDX-License-Identifier: Apache-2.0 */
#include "workspace/checkpoint.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/fail.h"
#include "workspace/hand.h"
#include "workspace/tree.h"

#define NEW ".new" /* no checkpoint has a name with a dot in front */

struct copying {
    int from_fd, to_fd;
    uid_t id;
    struct str path;
    struct vial_error *err;
};

static int refuse(const struct copying *c, int rc)
{
    (void)fail_sys_rc(c->err, rc, "remember '%s'", c->path.data ? c->path.data : "");
    if (rc == -ENOSPC || rc == -EDQUOT) {
        (void)fail_as(c->err, VIAL_E_QUOTA);
        return fail_remedy(c->err, "checkpoints count towards 'disk': open the session "
                                   "with more of it");
    }
    return fail_as(c->err, VIAL_E_WORKSPACE);
}

/* As the kernel marked it: a whiteout, or a directory that hides the host's. */
static int copy_whiteout(const struct copying *c)
{
    auto_hand struct hand own = hand_become(c->id);
    const char *name = NULL;
    auto_fd int dir_fd = tree_open_parent(c->to_fd, c->path.data, &name);

    if (dir_fd < 0)
        return dir_fd;
    return mknodat(dir_fd, name, S_IFCHR, makedev(0, 0)) < 0 ? -errno : 0;
}

static int end_dir(const struct copying *c, const struct node *node)
{
    bool opaque = changes_is_opaque(c->from_fd, c->path.data);
    auto_hand struct hand own = hand_become(c->id);
    auto_fd int fd = tree_open(c->to_fd, c->path.data, O_RDONLY | O_DIRECTORY);

    if (fd < 0)
        return fd;
    if ((opaque && fsetxattr(fd, CHANGES_OPAQUE, "y", 1, 0) < 0) ||
        fchmod(fd, node->mode & 0777) < 0)
        return -errno;
    return 0;
}

static int copy_below(struct copying *c);

static int copy_name(struct copying *c)
{
    struct node node;
    int rc = str_ok(&c->path) ? tree_look(c->from_fd, c->path.data, &node) : -ENOMEM;

    if (rc < 0)
        return refuse(c, rc);
    if (node.type == 0 ||
        node.type == 'o') /* sockets and the like mean nothing later */
        return 0;
    if (node.type == 'w')
        rc = copy_whiteout(c);
    else
        rc = copy_node(c->from_fd, c->to_fd, c->path.data, &node, c->id);
    if (rc < 0)
        return refuse(c, rc);
    if (node.type != 'd')
        return 0;
    if (copy_below(c) < 0)
        return -1;
    rc = end_dir(c, &node);
    return rc < 0 ? refuse(c, rc) : 0;
}

static int copy_below(struct copying *c)
{
    auto_strv struct strv names = { 0 };
    int rc = tree_names(c->from_fd, c->path.len ? c->path.data : "", &names);

    if (rc < 0)
        return refuse(c, rc);
    for (size_t i = 0; i < names.count; i++) {
        size_t len = tree_enter(&c->path, names.items[i]);

        if (copy_name(c) < 0)
            return -1;
        tree_leave(&c->path, len);
    }
    return 0;
}

/* Directories without rights would keep their own content. */
static int open_up(int root_fd, struct str *path)
{
    auto_strv struct strv names = { 0 };
    struct node node;
    int rc = tree_look(root_fd, path->data, &node);

    if (rc < 0 || node.type != 'd')
        return rc;
    rc = copy_mode(root_fd, path->data, 0700);
    if (rc == 0)
        rc = tree_names(root_fd, path->data, &names);
    for (size_t i = 0; rc == 0 && i < names.count; i++) {
        size_t len = tree_enter(path, names.items[i]);

        rc = str_ok(path) ? open_up(root_fd, path) : -ENOMEM;
        tree_leave(path, len);
    }
    return rc;
}

static int remove_point(int points_fd, const char *name)
{
    auto_str struct str path = { 0 };
    int rc = 0;

    str_puts(&path, name);
    rc = str_ok(&path) ? open_up(points_fd, &path) : -ENOMEM;
    return rc < 0 ? rc : tree_remove(points_fd, name);
}

static int open_points(const struct upper *l, struct vial_error *err)
{
    int fd = tree_open(l->dir_fd, "points", O_RDONLY | O_DIRECTORY);

    return fd < 0 ? fail_sys_rc(err, fd, "open the checkpoints") : fd;
}

/* An empty place for the copy. */
static int begin_point(const struct upper *l, int points_fd, struct vial_error *err)
{
    auto_hand struct hand own = hand_become(l->id);
    int rc = remove_point(points_fd, NEW);

    if (rc == 0 && mkdirat(points_fd, NEW, 0700) < 0)
        rc = -errno;
    if (rc == 0)
        rc = tree_open(points_fd, NEW, O_RDONLY | O_DIRECTORY);
    return rc < 0 ? fail_sys_rc(err, rc, "make a checkpoint") : rc;
}

static int end_point(const struct upper *l, int points_fd, const char *name, bool whole,
                     struct vial_error *err)
{
    auto_hand struct hand own = hand_become(l->id);
    int rc = remove_point(points_fd, whole ? name : NEW);

    if (rc == 0 && whole && renameat(points_fd, NEW, points_fd, name) < 0)
        rc = -errno;
    return rc < 0 && whole ? fail_sys_rc(err, rc, "make checkpoint '%s'", name) : rc;
}

int checkpoint_save(const struct upper *l, const char *name, struct vial_error *err)
{
    auto_fd int points_fd = open_points(l, err);
    auto_fd int from_fd = tree_open(l->dir_fd, "upper", O_RDONLY | O_DIRECTORY);
    auto_fd int to_fd = points_fd < 0 ? -1 : begin_point(l, points_fd, err);
    struct copying c = { .from_fd = from_fd, .to_fd = to_fd, .id = l->id, .err = err };
    int rc = 0;

    if (points_fd < 0 || to_fd < 0)
        return -1;
    rc = from_fd < 0 ? fail_sys_rc(err, from_fd, "open the layer") : copy_below(&c);
    str_done(&c.path);
    if (rc < 0) {
        (void)end_point(l, points_fd, name, false, NULL);
        return -1;
    }
    return end_point(l, points_fd, name, true, err);
}

int checkpoint_forget(const struct upper *l)
{
    auto_strv struct strv names = { 0 };
    auto_fd int points_fd = tree_open(l->dir_fd, "points", O_RDONLY | O_DIRECTORY);
    auto_hand struct hand own = hand_become(l->id);
    int rc = points_fd < 0 ? points_fd : tree_names(points_fd, "", &names);

    for (size_t i = 0; rc == 0 && i < names.count; i++)
        rc = remove_point(points_fd, names.items[i]);
    return rc;
}

/*
 * The overlay brought back to an earlier state. What must be touched are the names
 * that differ from the host's tree now, and those that differed then.
 */

struct restoring {
    const struct upper *layer;
    const struct sides *now;
    int point_fd;             /* -1: the host's tree is what is wanted */
    struct vial_changes then; /* of the checkpoint */
    struct strv paths;        /* sorted */
    struct vial_error *err;
};

static int list_paths(struct restoring *r)
{
    auto_changes struct vial_changes now = { 0 };

    if (changes_read(r->now, NULL, &now, r->err) < 0)
        return -1;
    for (size_t i = 0; i < now.count; i++)
        strv_push(&r->paths, now.items[i].path);
    for (size_t i = 0; i < r->then.count; i++)
        if (!changes_find(&now, r->then.items[i].path))
            strv_push(&r->paths, r->then.items[i].path);
    if (!strv_ok(&r->paths))
        return fail_memory(r->err);
    if (r->paths.count > 1)
        qsort(r->paths.items, r->paths.count, sizeof(char *), tree_compare);
    return 0;
}

/* Finds what PATH shall be, and where to get it. */
static int want(const struct restoring *r, const char *path, struct node *out)
{
    const struct vial_change *c = changes_find(&r->then, path);
    int from_fd = c ? r->point_fd : r->now->root_fd;

    *out = (struct node){ 0 };
    if (c && c->kind == VIAL_CHANGE_DELETED)
        return from_fd;
    (void)tree_look(from_fd, path, out);
    if (out->type == 'o')
        *out = (struct node){ 0 };
    return from_fd;
}

static bool is_right(const struct restoring *r, const char *path, int from_fd,
                     const struct node *wanted, const struct node *is)
{
    auto_fd int a = -1;
    auto_fd int b = -1;

    if (wanted->type != 'f' || is->type != 'f' || wanted->size != is->size)
        return wanted->type == 'd' && is->type == 'd';
    a = tree_open_file(from_fd, path, NULL);
    b = tree_open_file(r->layer->merged_fd, path, NULL);
    return a >= 0 && b >= 0 && copy_same(a, b);
}

static int check_room(const struct restoring *r)
{
    struct statvfs fs;
    uint64_t need = 0;
    auto_fd int fd = tree_open(r->layer->dir_fd, "points", O_RDONLY | O_DIRECTORY);

    if (fd < 0 || fstatvfs(fd, &fs) < 0)
        return fail_sys(r->err, "look at the layer's size");
    for (size_t i = 0; i < r->paths.count; i++) {
        struct node wanted;
        struct node is;
        int from_fd = want(r, r->paths.items[i], &wanted);

        if (tree_look(r->layer->merged_fd, r->paths.items[i], &is) < 0 ||
            !is_right(r, r->paths.items[i], from_fd, &wanted, &is))
            need += wanted.type == 'f' ? wanted.size + 4096 : 4096;
    }
    if (need <= (uint64_t)fs.f_bavail * fs.f_frsize)
        return 0;
    (void)fail(r->err, VIAL_E_QUOTA,
               "restore the workspace: %llu bytes do not fit into its layer",
               (unsigned long long)need);
    return fail_remedy(r->err, "end the session without a commit, which drops all, or "
                               "open it with more 'disk'");
}

static int remove_as(const struct upper *l, const char *path)
{
    auto_hand struct hand own = hand_become(l->id);

    return tree_remove(l->merged_fd, path);
}

static int mode_as(const struct upper *l, const char *path, unsigned mode)
{
    auto_hand struct hand own = hand_become(l->id);

    return copy_mode(l->merged_fd, path, mode);
}

/* Directories that a program has closed even to itself. */
static void open_dirs(const struct restoring *r)
{
    for (size_t i = 0; i < r->paths.count; i++) {
        struct node is;

        if (tree_look(r->layer->merged_fd, r->paths.items[i], &is) == 0 &&
            is.type == 'd' && (is.mode & 0700) != 0700)
            (void)mode_as(r->layer, r->paths.items[i], 0700 | is.mode);
    }
}

static int fail_at(const struct restoring *r, const char *path, int rc)
{
    (void)fail_sys_rc(r->err, rc, "restore '%s'", path);
    return fail_as(r->err, rc == -ENOSPC ? VIAL_E_QUOTA : VIAL_E_WORKSPACE);
}

/* Deepest first. */
static int remove_wrong(const struct restoring *r)
{
    open_dirs(r);
    for (size_t i = r->paths.count; i > 0; i--) {
        const char *path = r->paths.items[i - 1];
        struct node wanted;
        struct node is;
        int from_fd = want(r, path, &wanted);
        int rc = tree_look(r->layer->merged_fd, path, &is);

        if (rc == 0 && is.type && !is_right(r, path, from_fd, &wanted, &is))
            rc = remove_as(r->layer, path);
        if (rc < 0)
            return fail_at(r, path, rc);
    }
    return 0;
}

static int make_missing(const struct restoring *r)
{
    for (size_t i = 0; i < r->paths.count; i++) {
        const char *path = r->paths.items[i];
        struct node wanted;
        struct node is;
        int from_fd = want(r, path, &wanted);
        int rc = wanted.type ? tree_look(r->layer->merged_fd, path, &is) : 0;

        if (rc == 0 && wanted.type && is.type == 0)
            rc = copy_node(from_fd, r->layer->merged_fd, path, &wanted, r->layer->id);
        if (rc < 0)
            return fail_at(r, path, rc);
    }
    return 0;
}

static int set_modes(const struct restoring *r)
{
    for (size_t i = r->paths.count; i > 0; i--) {
        const char *path = r->paths.items[i - 1];
        struct node wanted;
        struct node is;
        int rc = 0;

        (void)want(r, path, &wanted);
        if ((wanted.type != 'd' && wanted.type != 'f') ||
            tree_look(r->layer->merged_fd, path, &is) < 0 || is.type != wanted.type ||
            (is.mode & 0777) == (wanted.mode & 0777))
            continue;
        rc = mode_as(r->layer, path, wanted.mode & 0777);
        if (rc < 0)
            return fail_at(r, path, rc);
    }
    return 0;
}

static int open_point(struct restoring *r, const char *name)
{
    auto_fd int points_fd = tree_open(r->layer->dir_fd, "points", O_PATH | O_DIRECTORY);
    struct sides then = *r->now;

    r->point_fd =
        points_fd < 0 ? -1 : tree_open(points_fd, name, O_RDONLY | O_DIRECTORY);
    if (r->point_fd < 0)
        return fail(r->err, VIAL_E_WORKSPACE, "there is no checkpoint '%s'", name);
    then.layer_fd = r->point_fd;
    return changes_read(&then, NULL, &r->then, r->err);
}

int checkpoint_restore(const struct upper *l, const struct sides *now, const char *name,
                       struct vial_error *err)
{
    struct restoring r = { .layer = l, .now = now, .point_fd = -1, .err = err };
    int rc = name ? open_point(&r, name) : 0;

    if (rc == 0 && (list_paths(&r) < 0 || check_room(&r) < 0 || remove_wrong(&r) < 0 ||
                    make_missing(&r) < 0 || set_modes(&r) < 0))
        rc = -1;
    vial_changes_free(&r.then);
    strv_done(&r.paths);
    auto_fd_(&r.point_fd);
    return rc;
}
