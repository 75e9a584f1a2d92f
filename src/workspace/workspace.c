/* SPDX-License-Identifier: Apache-2.0 */
#include "workspace/workspace.h"

#include <ctype.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/auto.h"
#include "base/fail.h"
#include "base/path.h"
#include "workspace/apply.h"
#include "workspace/commit.h"

#define POINTS_MAX ((size_t)64)
#define NAME_MAX_  ((size_t)64)
#define TEXT_BYTES (UINT64_C(1) << 20)

struct workspace {
    pthread_mutex_t lock;
    char *root, *state;
    int root_fd;
    struct origin origin;
    struct upper layer; /* descriptors owned */
    int upper_fd;
    struct strv points;
};

/* A record below the tree could be written by the tree's programs. */
static int check_apart(const char *root, const char *state, struct vial_error *err)
{
    auto_free char *real = realpath(state, NULL);

    if (!path_is_beneath(real ? real : state, root))
        return 0;
    (void)fail(err, VIAL_E_WORKSPACE, "workspace '%s' holds vial's own state '%s'",
               root, state);
    return fail_remedy(err, "set VIAL_STATE to a directory outside of it");
}

static int open_root(struct workspace *w, uint64_t dev, uint64_t ino,
                     struct vial_error *err)
{
    struct stat st;

    w->root_fd = open(w->root, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (w->root_fd < 0 || fstat(w->root_fd, &st) < 0)
        return fail_sys(err, "open workspace '%s'", w->root);
    if (st.st_dev != dev || st.st_ino != ino)
        return fail(err, VIAL_E_MOUNT, "workspace '%s' was replaced by something else",
                    w->root);
    return 0;
}

int workspace_open(const char *root, uint64_t dev, uint64_t ino, const char *state,
                   struct workspace **out, struct vial_error *err)
{
    struct workspace *w = calloc(1, sizeof(*w));

    if (!w)
        return fail_memory(err);
    (void)pthread_mutex_init(&w->lock, NULL);
    w->root_fd = w->upper_fd = w->layer.dir_fd = w->layer.merged_fd = -1;
    w->root = strdup(root);
    w->state = strdup(state);
    if (!w->root || !w->state) {
        workspace_close(w);
        return fail_memory(err);
    }
    if (check_apart(root, state, err) < 0 || apply_recover(state, root, err) < 0 ||
        open_root(w, dev, ino, err) < 0 ||
        origin_read(w->root_fd, &w->origin, err) < 0) {
        workspace_close(w);
        return -1;
    }
    *out = w;
    return 0;
}

int workspace_mount(struct workspace *w, const struct upper *l, struct vial_error *err)
{
    w->layer = (struct upper){ fcntl(l->dir_fd, F_DUPFD_CLOEXEC, 3),
                               fcntl(l->merged_fd, F_DUPFD_CLOEXEC, 3), l->id };
    if (w->layer.dir_fd < 0 || w->layer.merged_fd < 0)
        return fail_sys(err, "hold the workspace's layer");
    w->upper_fd = tree_open(w->layer.dir_fd, "upper", O_PATH | O_DIRECTORY);
    return w->upper_fd < 0 ? fail_sys_rc(err, w->upper_fd, "open the workspace's layer")
                           : 0;
}

static void enter(struct workspace *w)
{
    (void)pthread_mutex_lock(&w->lock);
}

static void leave(struct workspace *w)
{
    (void)pthread_mutex_unlock(&w->lock);
}

static struct sides sides_of(const struct workspace *w)
{
    return (struct sides){ w->root_fd, w->upper_fd, &w->origin };
}

static int check_paths(const char *const *paths, struct vial_error *err)
{
    for (size_t i = 0; paths && paths[i]; i++)
        if (!path_is_plain_relative(paths[i], strlen(paths[i])))
            return fail(err, VIAL_E_PATH, "'%s' is not a plain path of the workspace",
                        paths[i]);
    return 0;
}

int workspace_diff(struct workspace *w, const struct vial_diff_options *options,
                   struct vial_changes *out, struct vial_error *err)
{
    static const struct vial_diff_options usual;
    const struct vial_diff_options *o = options ? options : &usual;
    struct sides s = sides_of(w);
    int rc = check_paths(o->paths, err);

    if (rc < 0)
        return -1;
    *out = (struct vial_changes){ 0 };
    enter(w);
    rc = changes_read(&s, o->paths, out, err);
    if (rc == 0 && !o->names_only)
        rc =
            changes_add_diffs(&s, out, o->text_bytes ? o->text_bytes : TEXT_BYTES, err);
    leave(w);
    return rc;
}

static void push_paths(const struct vial_changes *changes, struct strv *out)
{
    for (size_t i = 0; i < changes->count; i++)
        strv_push(out, changes->items[i].path);
}

static int commit(struct workspace *w, const struct vial_commit_options *o,
                  struct vial_commit_report *out, struct vial_error *err)
{
    auto_changes struct vial_changes changes = { 0 };
    auto_strv struct strv paths = { 0 };
    struct commit c = { .sides = sides_of(w),
                        .root = w->root,
                        .state = w->state,
                        .links_out = o->links_out };

    if (changes_read(&c.sides, o->paths, &changes, err) < 0)
        return -1;
    push_paths(&changes, &paths);
    if (!strv_ok(&paths))
        return fail_memory(err);
    if (commit_apply(&c, &changes, out, err) < 0)
        return -1;
    /* They were made against a tree that is another one now. */
    if (changes.count > 0) {
        (void)checkpoint_forget(&w->layer);
        strv_done(&w->points);
    }
    return origin_renew(&w->origin, w->root_fd, &paths, err);
}

int workspace_commit(struct workspace *w, const struct vial_commit_options *options,
                     struct vial_commit_report *out, struct vial_error *err)
{
    static const struct vial_commit_options usual;
    const struct vial_commit_options *o = options ? options : &usual;
    int rc = check_paths(o->paths, err);

    if (rc < 0)
        return -1;
    enter(w);
    rc = commit(w, o, out, err);
    leave(w);
    return rc;
}

static int check_name(const char *name, struct vial_error *err)
{
    size_t len = strlen(name);
    bool good = len > 0 && len <= NAME_MAX_ && name[0] != '.';

    for (size_t i = 0; good && i < len; i++)
        good = isalnum((unsigned char)name[i]) || strchr("-_.", name[i]);
    if (good)
        return 0;
    (void)fail(err, VIAL_E_VALUE, "checkpoint '%.80s' has no good name", name);
    return fail_remedy(err,
                       "use up to %zu letters, digits, '-', '_' and '.', the last "
                       "not first",
                       NAME_MAX_);
}

int workspace_restore(struct workspace *w, const char *name, struct vial_error *err)
{
    struct sides s = sides_of(w);
    int rc = name ? check_name(name, err) : 0;

    if (rc < 0)
        return -1;
    enter(w);
    rc = checkpoint_restore(&w->layer, &s, name, err);
    leave(w);
    return rc;
}

int workspace_save(struct workspace *w, const char *name, struct vial_error *err)
{
    int rc = check_name(name, err);

    if (rc < 0)
        return -1;
    enter(w);
    if (w->points.count >= POINTS_MAX && !strv_has(&w->points, name))
        rc = fail(err, VIAL_E_BUSY, "there are %zu checkpoints already", POINTS_MAX);
    else
        rc = checkpoint_save(&w->layer, name, err);
    if (rc == 0 && !strv_has(&w->points, name))
        strv_push(&w->points, name);
    leave(w);
    return rc;
}

void workspace_points(struct workspace *w, struct strv *out)
{
    enter(w);
    strv_copy(out, &w->points);
    leave(w);
}

void workspace_close(struct workspace *w)
{
    if (!w)
        return;
    auto_fd_(&w->root_fd);
    auto_fd_(&w->upper_fd);
    auto_fd_(&w->layer.dir_fd);
    auto_fd_(&w->layer.merged_fd);
    origin_done(&w->origin);
    strv_done(&w->points);
    (void)pthread_mutex_destroy(&w->lock);
    free(w->root);
    free(w->state);
    free(w);
}
