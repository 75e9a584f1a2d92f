/* SPDX-License-Identifier: Apache-2.0 */
#include "workspace/upper.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/fail.h"
#include "workspace/copy.h"
#include "workspace/hand.h"

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

int upper_save(const struct upper *l, const char *name, struct vial_error *err)
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

int upper_forget(const struct upper *l)
{
    auto_strv struct strv names = { 0 };
    auto_fd int points_fd = tree_open(l->dir_fd, "points", O_RDONLY | O_DIRECTORY);
    auto_hand struct hand own = hand_become(l->id);
    int rc = points_fd < 0 ? points_fd : tree_names(points_fd, "", &names);

    for (size_t i = 0; rc == 0 && i < names.count; i++)
        rc = remove_point(points_fd, names.items[i]);
    return rc;
}
