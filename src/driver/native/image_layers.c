/* SPDX-License-Identifier: Apache-2.0 */
#include "driver/native/image_layers.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/mount.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/fail.h"
#include "base/io.h"
#include "base/path.h"
#include "base/sys.h"
#include "driver/native/idmap.h"

#define PRIVATE   (UINT64_C(1) << 18) /* MS_PRIVATE */
#define USERS_MAX (64u << 10)         /* bytes of passwd, and of group */

#define NO_LINKS (RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS)

/* The name of a layer becomes a link's text, and nothing of a mount's options. */
static int add_name(const char *store, const char *layer, struct image_layers *out,
                    struct vial_error *err)
{
    size_t len = strlen(store);

    if (!path_is_clean_absolute(layer) || !path_is_beneath(layer, store) ||
        strlen(layer) <= len + 1)
        return fail(err, VIAL_E_IMAGE_CONFIG,
                    "layer '%s' does not lie in the store '%s'", layer, store);
    strv_push(&out->names, layer + len + 1);
    return 0;
}

static int look_at_store(const char *store, struct image_layers *out,
                         struct vial_error *err)
{
    struct stat st;

    if (stat(store, &st) < 0) {
        (void)fail_sys(err, "open the store of images '%s'", store);
        return fail_as(err, VIAL_E_OPEN);
    }
    out->dev = st.st_dev;
    out->ino = st.st_ino;
    return 0;
}

/* Whether nothing below a layer's /etc shows through it. */
static bool hides_etc(int layer_fd)
{
    auto_fd int fd =
        sys_openat2(layer_fd, "etc", O_PATH | O_NOFOLLOW | O_CLOEXEC, 0, NO_LINKS);
    auto_fd int dir = -1;
    struct stat st;
    char value = 0;

    if (fd < 0)
        return false;
    if (fstat(fd, &st) < 0 || !S_ISDIR(st.st_mode))
        return true;
    dir = openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return dir >= 0 && fgetxattr(dir, "user.overlay.opaque", &value, 1) == 1;
}

/* 1: it is in OUT. 0: this layer has none, and those below count. -1: there is none, or
 * none that we believe. */
static int read_in(const char *layer, const char *path, struct str *out)
{
    auto_fd int dir = open(layer, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    auto_fd int fd =
        sys_openat2(dir, path, O_PATH | O_NOFOLLOW | O_CLOEXEC, 0, NO_LINKS);
    auto_fd int file = -1;
    struct stat st;
    char again[48];
    ssize_t n = 0;

    if (fd == -ENOENT)
        return hides_etc(dir) ? -1 : 0;
    if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) ||
        (size_t)st.st_size >= USERS_MAX)
        return -1;
    (void)snprintf(again, sizeof(again), "/proc/self/fd/%d", fd);
    file = open(again, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    for (char buf[4096]; file >= 0 && out->len < USERS_MAX;) {
        n = read(file, buf, sizeof(buf));
        if (n <= 0)
            break;
        str_add(out, buf, (size_t)n);
    }
    return file >= 0 && n == 0 && str_ok(out) ? 1 : -1;
}

/* As the overlay will show it. Nothing of what is not to be believed. */
static void read_file(const struct strv *layers, const char *path, struct str *out)
{
    int rc = 0;

    for (size_t i = 0; rc == 0 && i < layers->count; i++)
        rc = read_in(layers->items[i], path, out);
    if (rc < 0)
        str_done(out);
}

/* Whether field number FIELD of a line is TEXT. */
static bool has_entry(const char *lines, unsigned field, const char *text)
{
    size_t len = strlen(text);

    for (const char *at = lines; at && *at;) {
        const char *word = at;

        for (unsigned i = 0; word && i < field; i++) {
            word += strcspn(word, ":\n");
            word = *word == ':' ? word + 1 : NULL;
        }
        if (word && strncmp(word, text, len) == 0 &&
            (word[len] == ':' || word[len] == '\n'))
            return true;
        at = strchr(at, '\n');
        at = at ? at + 1 : NULL;
    }
    return false;
}

static void add_line(struct str *s, const char *line)
{
    if (s->len && s->data[s->len - 1] != '\n')
        str_puts(s, "\n");
    str_puts(s, line);
}

/* A row of passwd or group: whose name and whose number must not be there yet. */
static const struct user_row {
    const char *name, *id, *passwd, *group;
} users[] = {
    { "root", "0", "root:*:0:0:root:/root:/bin/sh\n", "root:x:0:\n" },
    { "user", "1000", "user:*:1000:1000:user:/home/user:/bin/sh\n", "user:x:1000:\n" },
};

static char *with_users(const struct strv *layers, bool group)
{
    auto_str struct str s = { 0 };

    read_file(layers, group ? "etc/group" : "etc/passwd", &s);
    if (s.len && memchr(s.data, '\0', s.len))
        str_done(&s);
    for (size_t i = 0; i < sizeof(users) / sizeof(*users); i++) {
        const struct user_row *u = &users[i];

        if (!has_entry(s.data, 0, u->name) && !has_entry(s.data, 2, u->id))
            add_line(&s, group ? u->group : u->passwd);
    }
    return str_ok(&s) ? str_take(&s) : NULL;
}

static int add_users(struct image_layers *out, struct vial_error *err)
{
    out->passwd = with_users(&out->stored.lowers, false);
    out->group = with_users(&out->stored.lowers, true);
    return out->passwd && out->group ? 0 : fail_memory(err);
}

int image_layers_read(const struct plan *plan, struct image_layers *out,
                      struct vial_error *err)
{
    const struct strv *layers = &out->stored.lowers;

    if (store_find(plan->root.store, plan->image, &out->stored, err) < 0)
        return -1;
    if (layers->count == 0 || layers->count > IMAGE_LAYERS_MAX)
        return fail(err, VIAL_E_IMAGE_CONFIG,
                    "image '%s' has %zu layers, and vial takes 1 to %d", plan->image,
                    layers->count, IMAGE_LAYERS_MAX);
    for (size_t i = 0; i < layers->count; i++)
        if (add_name(plan->root.store, layers->items[i], out, err) < 0)
            return -1;
    if (!strv_ok(&out->names))
        return fail_memory(err);
    if (look_at_store(plan->root.store, out, err) < 0)
        return -1;
    return plan->root.writable ? add_users(out, err) : 0;
}

static int map_owners(int fd, int users_fd, bool nosuid)
{
    struct mount_attr attr = { .attr_set = MOUNT_ATTR_RDONLY | MOUNT_ATTR_NODEV |
                                           (nosuid ? MOUNT_ATTR_NOSUID : 0),
                               .propagation = PRIVATE };

    if (users_fd >= 0) {
        attr.attr_set |= MOUNT_ATTR_IDMAP;
        attr.userns_fd = (unsigned)users_fd;
    }
    return syscall(SYS_mount_setattr, fd, "", AT_EMPTY_PATH | AT_RECURSIVE, &attr,
                   sizeof(attr)) < 0
               ? -errno
               : 0;
}

static int refuse_unmapped(const struct plan *plan, int error, struct vial_error *err)
{
    (void)fail_sys_rc(err, error, "map the owners of image '%s'", plan->image);
    (void)fail_as(err, VIAL_E_OPEN);
    return fail_remedy(err,
                       "the file system of '%.150s' has no id-mapped mounts: move the "
                       "store to ext4, xfs or btrfs, or use '--root-mode ro'",
                       plan->root.store);
}

/* In a root that is only read, files that belong to nobody will do. */
int image_layers_mount(const struct plan *plan, pid_t pid, struct image_layers *layers,
                       struct vial_error *err)
{
    auto_fd int users_fd = idmap_users(pid, err);
    auto_fd int fd = -1;
    int rc = 0;

    if (users_fd < 0)
        return -1;
    fd = (int)syscall(SYS_open_tree, AT_FDCWD, plan->root.store,
                      OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_RECURSIVE |
                          AT_SYMLINK_NOFOLLOW);
    if (fd < 0) {
        (void)fail_sys(err, "open the store of images '%s'", plan->root.store);
        return fail_as(err, VIAL_E_OPEN);
    }
    rc = map_owners(fd, users_fd, !plan->root.sudo);
    if (rc < 0 && plan->root.writable)
        return refuse_unmapped(plan, rc, err);
    layers->unmapped = rc < 0;
    if (rc < 0)
        rc = map_owners(fd, -1, true);
    return rc < 0 ? refuse_unmapped(plan, rc, err) : fd_take(&fd);
}

void image_layers_done(struct image_layers *l)
{
    stored_image_done(&l->stored);
    strv_done(&l->names);
    free(l->passwd);
    free(l->group);
    *l = (struct image_layers)IMAGE_LAYERS_NONE;
}
