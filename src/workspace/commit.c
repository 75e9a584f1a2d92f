/* SPDX-License-Identifier: Apache-2.0 */
#include "workspace/commit.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/fail.h"
#include "workspace/apply.h"
#include "workspace/tree.h"

struct staging {
    const struct commit *commit;
    struct journal *journal;
    int stage_fd;
    unsigned next; /* number of the next name */
};

static bool is_forgiven(const struct commit *c, const struct vial_change *change)
{
    return c->links_out && change->type == 'l' &&
           !str_starts(change->path, ORIGIN_STAGE);
}

static int check(const struct commit *c, const struct vial_changes *changes,
                 struct vial_error *err)
{
    for (size_t i = 0; i < changes->count; i++) {
        const struct vial_change *at = &changes->items[i];

        if (at->obstacle && !is_forgiven(c, at)) {
            (void)fail(err, VIAL_E_WORKSPACE, "commit '%s': %s", at->path,
                       at->obstacle);
            return fail_remedy(err, "remove it in the session, or commit other paths");
        }
        if (at->conflict) {
            (void)fail(
                err, VIAL_E_CONFLICT,
                "commit '%s': the host's own has changed since the session began",
                at->path);
            return fail_remedy(err, "commit other paths, or take the change over by "
                                    "hand");
        }
    }
    return 0;
}

static int stage_file(const struct staging *s, const char *path, const char *name)
{
    struct node node;
    auto_fd int from = tree_open_file(s->commit->sides.layer_fd, path, &node);
    auto_fd int to = -1;
    int rc = 0;

    if (from < 0)
        return from;
    to = openat(s->stage_fd, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (to < 0)
        return -errno;
    rc = copy_bytes(from, to, node.size);
    if (rc < 0)
        return rc;
    if (fchmod(to, node.mode & 0777) < 0)
        return -errno;
    return copy_time(to, &node);
}

static int stage_link(const struct staging *s, const char *path, const char *name)
{
    auto_free char *target = tree_link(s->commit->sides.layer_fd, path);

    if (!target || (!s->commit->links_out && changes_leads_out(path, target)))
        return -EAGAIN; /* it is another one by now */
    return symlinkat(target, s->stage_fd, name) < 0 ? -errno : 0;
}

static int stage(struct staging *s, const struct vial_change *c, struct op *op,
                 struct vial_error *err)
{
    struct stage_name name = apply_name('n', s->next);
    int rc = 0;

    op->staged = s->next++;
    if (c->type == 'd') /* must be writable to be moved; its mode comes last */
        rc = mkdirat(s->stage_fd, name.text, 0700 | c->mode) < 0 ? -errno : 0;
    else if (c->type == 'l')
        rc = stage_link(s, c->path, name.text);
    else
        rc = stage_file(s, c->path, name.text);
    if (rc == -ENOENT || rc == -ENOTDIR || rc == -ELOOP || rc == -EISDIR ||
        rc == -EINVAL || rc == -EAGAIN) {
        (void)fail(err, VIAL_E_BUSY, "commit '%s': it changes while it is read",
                   c->path);
        return fail_remedy(err, "wait until the session's programs have ended");
    }
    return rc < 0 ? fail_sys_rc(err, rc, "commit '%s'", c->path) : 0;
}

static int refuse_changed(const char *path, struct vial_error *err)
{
    (void)fail(err, VIAL_E_CONFLICT, "commit '%s': the host's own has changed just now",
               path);
    return fail_remedy(err, "nothing was committed; look at the diff again");
}

/* The changes were looked at a moment ago; this is what will be replaced. */
static bool is_as_it_was(const struct staging *s, const struct vial_change *c,
                         const struct node *now)
{
    const struct origin_entry *was = origin_find(s->commit->sides.origin, c->path);

    if (was)
        return origin_same(&was->node, now);
    return now->type == 0 || (now->type == 'd' && c->type == 'd');
}

/* Adds an op, with what the host has at its path now. NULL and ERR: not so. */
static struct op *add_op(struct staging *s, const struct vial_change *c,
                         enum op_kind kind, struct vial_error *err)
{
    struct op *op = journal_add(s->journal, kind, c->path);
    int rc = op ? tree_look(s->commit->sides.root_fd, c->path, &op->old) : 0;

    if (!op) {
        (void)fail_memory(err);
        return NULL;
    }
    op->mode = c->mode;
    op->mode_before = c->mode_before;
    if (rc == 0 && is_as_it_was(s, c, &op->old))
        return op;
    (void)refuse_changed(c->path, err);
    return NULL;
}

static bool goes(const struct vial_change *c)
{
    return c->kind == VIAL_CHANGE_DELETED ||
           (c->kind == VIAL_CHANGE_TYPE && (c->type == 'd' || c->type_before == 'd'));
}

/* Deepest first. */
static int add_removals(struct staging *s, const struct vial_changes *changes,
                        struct vial_error *err)
{
    for (size_t i = changes->count; i > 0; i--) {
        const struct vial_change *c = &changes->items[i - 1];
        bool dir = c->type_before == 'd';
        struct op *op = NULL;

        if (!goes(c))
            continue;
        op = add_op(s, c, dir ? OP_RMDIR : OP_REMOVE, err);
        if (!op)
            return -1;
        op->kept = dir ? 0 : s->next++;
    }
    return 0;
}

static int add_puts(struct staging *s, const struct vial_changes *changes,
                    struct vial_error *err)
{
    for (size_t i = 0; i < changes->count; i++) {
        const struct vial_change *c = &changes->items[i];
        struct op *op = NULL;

        if (c->kind == VIAL_CHANGE_DELETED || c->kind == VIAL_CHANGE_MODE)
            continue;
        op = add_op(s, c, OP_PUT, err);
        if (!op || stage(s, c, op, err) < 0)
            return -1;
        if (op->old.type && op->old.type != 'd' && !goes(c))
            op->kept = s->next++;
    }
    return 0;
}

/* Deepest first again: a directory may become one that we cannot write to. */
static int add_modes(struct staging *s, const struct vial_changes *changes,
                     struct vial_error *err)
{
    for (size_t i = changes->count; i > 0; i--) {
        const struct vial_change *c = &changes->items[i - 1];
        bool new_dir = c->type == 'd' && c->kind != VIAL_CHANGE_MODE;
        struct op *op = NULL;

        if (c->kind != VIAL_CHANGE_MODE && !new_dir)
            continue;
        op = add_op(s, c, OP_MODE, err);
        if (!op)
            return -1;
        if (new_dir) /* to take it back it must be writable */
            op->mode_before = 0700 | c->mode;
    }
    return 0;
}

static void count(const struct vial_changes *changes, struct vial_commit_report *out)
{
    *out = (struct vial_commit_report){ 0 };
    for (size_t i = 0; i < changes->count; i++) {
        enum vial_change_kind kind = changes->items[i].kind;

        out->added += kind == VIAL_CHANGE_ADDED;
        out->deleted += kind == VIAL_CHANGE_DELETED;
        out->modified += kind != VIAL_CHANGE_ADDED && kind != VIAL_CHANGE_DELETED;
    }
}

/* From the record's seal on. On failure everything is taken back. */
static int carry_out(const struct staging *s, struct vial_error *err)
{
    struct apply_place p = { s->commit->sides.root_fd, s->stage_fd };
    struct vial_error second = { 0 };
    const char *path = NULL;
    int rc = 0;

    if (syncfs(s->stage_fd) < 0)
        return fail_sys(err, "write the commit to disk");
    if (journal_apply(s->journal, err) < 0)
        return -1;
    s->journal->apply = true;
    rc = apply_all(&p, &s->journal->ops, &path, err);
    if (rc > 0)
        (void)refuse_changed(path, err);
    if (rc == 0 && syncfs(s->stage_fd) < 0)
        rc = fail_sys(err, "write the commit to disk");
    if (rc != 0 && apply_undo(&p, &s->journal->ops, &second) < 0) {
        if (err)
            *err = second;
        return -1; /* the record stays for a recovery, which finishes it */
    }
    s->journal->done = true;
    return journal_done(s->journal, rc == 0 ? err : &second) < 0 || rc != 0 ? -1 : 0;
}

static int make_stage(struct staging *s, struct vial_error *err)
{
    int root_fd = s->commit->sides.root_fd;

    if (mkdirat(root_fd, s->journal->stage, 0700) < 0)
        return fail_sys(err, "make '%s/%s'", s->commit->root, s->journal->stage);
    s->stage_fd = tree_open(root_fd, s->journal->stage, O_RDONLY | O_DIRECTORY);
    return s->stage_fd < 0 ? fail_sys_rc(err, s->stage_fd, "open '%s/%s'",
                                         s->commit->root, s->journal->stage)
                           : 0;
}

static int commit_journalled(const struct commit *c, const struct vial_changes *changes,
                             struct vial_error *err)
{
    auto_journal struct journal j = JOURNAL_NONE;
    struct staging s = { .commit = c, .journal = &j, .stage_fd = -1, .next = 1 };
    struct node root;
    int rc = tree_look(c->sides.root_fd, "", &root);

    if (rc < 0)
        return fail_sys_rc(err, rc, "look at '%s'", c->root);
    rc = -1;
    if (journal_begin(&j, c->state, c->root, &root, err) == 0 &&
        make_stage(&s, err) == 0 && add_removals(&s, changes, err) == 0 &&
        add_puts(&s, changes, err) == 0 && add_modes(&s, changes, err) == 0)
        rc = carry_out(&s, err);
    auto_fd_(&s.stage_fd);
    /* Cut off in the middle, both are left for the recovery. */
    if (j.fd >= 0 && (!j.apply || j.done) &&
        apply_clean(c->sides.root_fd, j.stage) == 0)
        journal_forget(&j);
    return rc;
}

int commit_apply(const struct commit *c, const struct vial_changes *changes,
                 struct vial_commit_report *out, struct vial_error *err)
{
    auto_fd int lock_fd = -1;
    int rc = 0;

    if (check(c, changes, err) < 0)
        return -1;
    lock_fd = tree_open(c->sides.root_fd, "", O_RDONLY | O_DIRECTORY);
    if (lock_fd < 0)
        return fail_sys_rc(err, lock_fd, "open '%s'", c->root);
    if (flock(lock_fd, LOCK_EX | LOCK_NB) < 0)
        return fail(err, VIAL_E_BUSY, "commit to '%s': another one is under way",
                    c->root);
    if (changes->count > 0)
        rc = commit_journalled(c, changes, err);
    if (rc == 0 && out)
        count(changes, out);
    return rc;
}
