/* SPDX-License-Identifier: Apache-2.0 */
#include "workspace/apply.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/fail.h"
#include "base/state.h"
#include "base/sys.h"
#include "workspace/tree.h"

/* Each act returns 0, 1 when something else is there than should be, or -errno. */

struct stage_name apply_name(char kind, unsigned number)
{
    struct stage_name name;

    (void)snprintf(name.text, sizeof(name.text), "%c%u", kind, number);
    return name;
}

static bool is_old(const struct op *op, const struct node *now)
{
    return now->type == op->old.type && now->ino == op->old.ino &&
           now->device == op->old.device && now->size == op->old.size &&
           now->mtime_ns == op->old.mtime_ns;
}

/* From a name in one directory to a name in another that is free. */
static int move_to_free(int from_fd, const char *from, int to_fd, const char *to)
{
    int rc = sys_rename_new(from_fd, from, to_fd, to);

    /* NFS and the like cannot promise that it is free. */
    if (rc == -EINVAL)
        rc = renameat(from_fd, from, to_fd, to) < 0 ? -errno : 0;
    return rc == -EEXIST ? 1 : rc;
}

static int do_remove(const struct apply_place *p, const struct op *op, int dir_fd,
                     const char *name)
{
    struct node now;
    int rc = tree_look(p->root_fd, op->path, &now);

    if (rc < 0 || now.type == 0)
        return rc;
    if (!is_old(op, &now))
        return 1;
    return renameat(dir_fd, name, p->stage_fd, apply_name('k', op->kept).text) < 0
               ? -errno
               : 0;
}

static int do_rmdir(int dir_fd, const char *name)
{
    if (unlinkat(dir_fd, name, AT_REMOVEDIR) == 0 || errno == ENOENT)
        return 0;
    return errno == ENOTEMPTY || errno == EEXIST || errno == ENOTDIR ? 1 : -errno;
}

/* A second name for what is there, so that at no moment nothing is. */
static int keep_old(const struct apply_place *p, const struct op *op, int dir_fd,
                    const char *name)
{
    struct stage_name kept = apply_name('k', op->kept);

    if (linkat(dir_fd, name, p->stage_fd, kept.text, 0) == 0 || errno == EEXIST)
        return 0;
    /* Another's file, or no hard links here. */
    return renameat(dir_fd, name, p->stage_fd, kept.text) < 0 ? -errno : 0;
}

static int do_replace(const struct apply_place *p, const struct op *op, int dir_fd,
                      const char *name, const struct node *now)
{
    int rc = 0;

    if (now->type && !is_old(op, now))
        return 1;
    if (now->type)
        rc = keep_old(p, op, dir_fd, name);
    if (rc == 0 &&
        renameat(p->stage_fd, apply_name('n', op->staged).text, dir_fd, name) < 0)
        rc = -errno;
    return rc;
}

static int do_put(const struct apply_place *p, const struct op *op, int dir_fd,
                  const char *name)
{
    struct stage_name staged = apply_name('n', op->staged);
    struct node new;
    struct node now;
    int rc = tree_look(p->stage_fd, staged.text, &new);

    if (rc < 0 || new.type == 0) /* it is where it belongs */
        return rc;
    rc = tree_look(p->root_fd, op->path, &now);
    if (rc < 0)
        return rc;
    if (op->kept)
        return do_replace(p, op, dir_fd, name, &now);
    if (now.type == 'd' && new.type == 'd') /* made by somebody else: as good */
        return 0;
    return move_to_free(p->stage_fd, staged.text, dir_fd, name);
}

/* 1 when it is not there. */
static int set_mode(int root_fd, const char *path, unsigned mode)
{
    int rc = copy_mode(root_fd, path, mode);

    return rc == -ENOENT ? 1 : rc;
}

static int act(const struct apply_place *p, const struct op *op)
{
    const char *name = NULL;
    auto_fd int dir_fd = tree_open_parent(p->root_fd, op->path, &name);

    if (dir_fd < 0)
        return dir_fd == -ENOENT || dir_fd == -ENOTDIR || dir_fd == -ELOOP ? 1 : dir_fd;
    switch (op->kind) {
    case OP_REMOVE:
        return do_remove(p, op, dir_fd, name);
    case OP_RMDIR:
        return do_rmdir(dir_fd, name);
    case OP_PUT:
        return do_put(p, op, dir_fd, name);
    case OP_MODE:
        return set_mode(p->root_fd, op->path, op->mode);
    }
    return -EINVAL;
}

/* Returns the name of a replaced file that was written to meanwhile, or NULL. */
static const char *changed_meanwhile(const struct apply_place *p, const struct ops *ops)
{
    for (size_t i = 0; i < ops->count; i++) {
        const struct op *op = &ops->items[i];
        struct node kept;

        if (op->kept &&
            (tree_look(p->stage_fd, apply_name('k', op->kept).text, &kept) < 0 ||
             !is_old(op, &kept)))
            return op->path;
    }
    return NULL;
}

int apply_all(const struct apply_place *p, const struct ops *ops, const char **conflict,
              struct vial_error *err)
{
    for (size_t i = 0; i < ops->count; i++) {
        int rc = act(p, &ops->items[i]);

        *conflict = ops->items[i].path;
        if (rc < 0)
            return fail_sys_rc(err, rc, "commit '%s'", ops->items[i].path);
        if (rc > 0)
            return 1;
    }
    *conflict = changed_meanwhile(p, ops);
    return *conflict ? 1 : 0;
}

static int undo_put(const struct apply_place *p, const struct op *op, int dir_fd,
                    const char *name)
{
    struct stage_name staged = apply_name('n', op->staged);
    struct stage_name kept = apply_name('k', op->kept);
    struct node node;
    int rc = tree_look(p->stage_fd, staged.text, &node);

    if (rc == 0 && node.type == 0)
        rc = renameat(dir_fd, name, p->stage_fd, staged.text) < 0 ? -errno : 0;
    if (rc < 0 || !op->kept)
        return rc;
    rc = tree_look(p->stage_fd, kept.text, &node);
    if (rc < 0 || node.type == 0)
        return rc;
    return renameat(p->stage_fd, kept.text, dir_fd, name) < 0 ? -errno : 0;
}

static int undo_remove(const struct apply_place *p, const struct op *op, int dir_fd,
                       const char *name)
{
    struct stage_name kept = apply_name('k', op->kept);
    struct node node;
    int rc = tree_look(p->stage_fd, kept.text, &node);

    if (rc < 0 || node.type == 0)
        return rc;
    rc = move_to_free(p->stage_fd, kept.text, dir_fd, name);
    return rc > 0 ? -EEXIST : rc;
}

static int undo_rmdir(const struct apply_place *p, const struct op *op, int dir_fd,
                      const char *name)
{
    if (mkdirat(dir_fd, name, 0700) < 0)
        return errno == EEXIST ? 0 : -errno;
    return set_mode(p->root_fd, op->path, op->mode_before);
}

static int undo(const struct apply_place *p, const struct op *op)
{
    const char *name = NULL;
    auto_fd int dir_fd = tree_open_parent(p->root_fd, op->path, &name);
    int rc = 0;

    if (dir_fd < 0)
        return dir_fd == -ENOENT ? 0 : dir_fd;
    switch (op->kind) {
    case OP_REMOVE:
        return undo_remove(p, op, dir_fd, name);
    case OP_RMDIR:
        return undo_rmdir(p, op, dir_fd, name);
    case OP_PUT:
        return undo_put(p, op, dir_fd, name);
    case OP_MODE:
        rc = set_mode(p->root_fd, op->path, op->mode_before);
        return rc > 0 ? 0 : rc;
    }
    return -EINVAL;
}

int apply_undo(const struct apply_place *p, const struct ops *ops,
               struct vial_error *err)
{
    for (size_t i = ops->count; i > 0; i--) {
        int rc = undo(p, &ops->items[i - 1]);

        if (rc < 0)
            return fail_sys_rc(err, rc, "take back the commit of '%s'",
                               ops->items[i - 1].path);
    }
    return 0;
}

int apply_clean(int root_fd, const char *name)
{
    return tree_remove(root_fd, name);
}

/* Recovery: the process is gone, its record is ours now. */

static int open_root(const struct journal *j, struct vial_error *err)
{
    auto_fd int fd = open(j->root, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    struct stat st;

    if (fd < 0 || fstat(fd, &st) < 0 || st.st_dev != j->dev || st.st_ino != j->ino) {
        (void)fail(err, VIAL_E_WORKSPACE,
                   "a commit to '%s' was cut off, and that directory is not there now",
                   j->root);
        return fail_remedy(err, "bring it back, or remove the record '%s'", j->name);
    }
    return fd_take(&fd);
}

/* Where the host has changed something since, that change stands. */
static int redo(const struct apply_place *p, const struct journal *j,
                struct vial_error *err)
{
    for (size_t i = 0; i < j->ops.count; i++) {
        int rc = act(p, &j->ops.items[i]);

        if (rc < 0)
            return fail_sys_rc(err, rc, "finish the commit of '%s'",
                               j->ops.items[i].path);
    }
    return syncfs(p->root_fd) < 0 ? fail_sys(err, "write the commit to disk") : 0;
}

static int recover(struct journal *j, struct vial_error *err)
{
    auto_fd int root_fd = -1;
    auto_fd int stage_fd = -1;
    struct apply_place p;
    int rc = 0;

    if (!j->root) { /* it had not even begun */
        journal_forget(j);
        return 0;
    }
    root_fd = open_root(j, err);
    if (root_fd < 0)
        return -1;
    stage_fd = tree_open(root_fd, j->stage, O_RDONLY | O_DIRECTORY);
    p = (struct apply_place){ root_fd, stage_fd };
    if (j->apply && !j->done && stage_fd >= 0 &&
        (redo(&p, j, err) < 0 || journal_done(j, err) < 0))
        return -1;
    rc = apply_clean(root_fd, j->stage);
    if (rc < 0)
        return fail_sys_rc(err, rc, "remove '%s/%s'", j->root, j->stage);
    journal_forget(j);
    return 0;
}

static int recover_record(int dir_fd, const char *name, const char *root,
                          struct vial_error *err)
{
    auto_journal struct journal j = JOURNAL_NONE;
    struct vial_error why = { 0 };
    int rc = journal_open(&j, dir_fd, name, &why);

    /* One whose tree is not known is for who looks after all of them. */
    if (rc == 1 && j.bad)
        rc = !root || str_eq(j.root, root) ? journal_put_aside(&j, &why) : 0;
    else if (rc == 1)
        rc = recover(&j, &why);
    if (rc >= 0 || (root && !str_eq(j.root, root)))
        return 0;
    if (err)
        *err = why;
    return -1;
}

int apply_recover(const char *state, const char *root, struct vial_error *err)
{
    struct vial_error why = { 0 };
    auto_fd int dir_fd = state_open(state, "commits", false, &why);
    auto_strv struct strv names = { 0 };
    int rc = 0;

    if (dir_fd < 0 && why.code[0] && err)
        *err = why;
    if (dir_fd < 0)
        return why.code[0] ? -1 : 0;
    rc = tree_names(dir_fd, "", &names);
    if (rc < 0)
        return fail_sys_rc(err, rc, "list the records of commits");
    for (size_t i = 0; i < names.count; i++)
        if (!journal_is_aside(names.items[i]) &&
            recover_record(dir_fd, names.items[i], root, err) < 0)
            rc = -1;
    return rc;
}
