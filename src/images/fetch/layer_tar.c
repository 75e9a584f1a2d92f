/* SPDX-License-Identifier: Apache-2.0 */
#include "images/fetch/layer_tar.h"

#include <archive.h>
#include <archive_entry.h>
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/capability.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/fail.h"
#include "base/str.h"
#include "images/fetch/attributes.h"
#include "images/fetch/entry_path.h"
#include "images/fetch/image_work.h"
#include "images/fetch/lower.h"
#include "images/fetch/sums.h"
#include "images/record.h"

#define PIECE (128u << 10)

/* A file that has several names: the first that was written. */
struct known {
    ino_t inode;
    char *path;
};

struct packing {
    const struct layer_tar *how;
    int64_t bytes; /* of files so far */
    struct archive *out;
    struct strv owners; /* lines, sorted by path: the last part of each */
    struct str path;
    struct known *known;
    size_t count, cap;
    char *piece;
    unsigned depth;
};

static int broken(const struct packing *p, struct vial_error *err)
{
    const char *why = p->out ? archive_error_string(p->out) : NULL;

    (void)fail_sys(err, "write the layer's archive");
    return why ? fail_cause(err, "%.160s", why) : -1;
}

static const char *path_in(const char *line)
{
    const char *blank = strrchr(line, ' ');

    return blank ? blank + 1 : line;
}

static int compare_lines(const void *a, const void *b)
{
    return strcmp(path_in(*(char *const *)a), path_in(*(char *const *)b));
}

static int compare_key(const void *key, const void *line)
{
    return strcmp(key, path_in(*(char *const *)line));
}

/* The last word on each path counts; where a path has several lines, any: an archive
 * that says two things of a file is odd anyhow. */
static void take_written_owner(const struct packing *p, struct stat *st)
{
    auto_str struct str key = { 0 };
    char *const *line;
    unsigned mode = 0;
    unsigned uid = 0;
    unsigned gid = 0;

    st->st_uid = st->st_gid = 0;
    record_escape(&key, p->path.len ? p->path.data : "");
    line = bsearch(key.data ? key.data : "", p->owners.items, p->owners.count,
                   sizeof(*p->owners.items), compare_key);
    if (!line || sscanf(*line, "%u %u %o ", &uid, &gid, &mode) != 3) /* NOLINT */
        return;
    st->st_uid = uid;
    st->st_gid = gid;
    st->st_mode = (st->st_mode & S_IFMT) | (mode & 07777);
}

static int take_owner(const struct packing *p, struct stat *st, struct vial_error *err)
{
    uid_t first = p->how->first_id;

    if (p->owners.count > 0)
        take_written_owner(p, st);
    if (p->how->all_id)
        st->st_uid = st->st_gid = p->how->all_id;
    if (!first)
        return 0;
    if (st->st_uid - first >= FILE_OWNERS || st->st_gid - first >= FILE_OWNERS)
        return fail(err, VIAL_E_FILE, "'%.200s' belongs to nobody of the vessel",
                    p->path.len ? p->path.data : "/");
    st->st_uid -= first;
    st->st_gid -= first;
    return 0;
}

/* Capabilities that root of a user namespace gave name that root: in the image they are
 * root's, and have no name. False: they are another's, and stay behind. */
static bool take_capability(const struct packing *p, char *value, ssize_t *size)
{
    struct vfs_ns_cap_data data;

    if (*size != (ssize_t)sizeof(data))
        return true;
    memcpy(&data, value, sizeof(data));
    if ((le32toh(data.magic_etc) & VFS_CAP_REVISION_MASK) != VFS_CAP_REVISION_3)
        return true;
    if (le32toh(data.rootid) != p->how->first_id)
        return false;
    data.magic_etc = htole32((le32toh(data.magic_etc) & ~VFS_CAP_REVISION_MASK) |
                             VFS_CAP_REVISION_2);
    *size = XATTR_CAPS_SZ_2;
    memcpy(value, &data, (size_t)*size);
    return true;
}

static void add_attributes(const struct packing *p, struct archive_entry *e, int fd)
{
    char names[ATTRIBUTES_BYTES];
    char value[ATTRIBUTES_BYTES];
    ssize_t len = flistxattr(fd, names, sizeof(names));

    for (const char *n = names; len > 0 && n < names + len; n += strlen(n) + 1) {
        ssize_t size = attributes_keep(n) ? fgetxattr(fd, n, value, sizeof(value)) : -1;

        if (size >= 0 &&
            (!str_eq(n, "security.capability") || take_capability(p, value, &size)))
            archive_entry_xattr_add_entry(e, n, value, (size_t)size);
    }
}

/* The name that was written first of a file with several; NULL: this is it. */
static const char *first_name(struct packing *p, const struct stat *st)
{
    for (size_t i = 0; i < p->count; i++)
        if (p->known[i].inode == st->st_ino)
            return p->known[i].path;
    if (p->count == p->cap) {
        size_t cap = p->cap ? 2 * p->cap : 64;
        struct known *more = realloc(p->known, cap * sizeof(*more));

        if (!more)
            return NULL;
        p->known = more;
        p->cap = cap;
    }
    p->known[p->count++] = (struct known){ st->st_ino, strdup(p->path.data) };
    return NULL;
}

static int put_header(struct packing *p, struct archive_entry *e,
                      struct vial_error *err)
{
    return archive_write_header(p->out, e) == ARCHIVE_OK ? 0 : broken(p, err);
}

static int put_content(struct packing *p, int fd, struct vial_error *err)
{
    ssize_t n;

    while ((n = read(fd, p->piece, PIECE)) > 0)
        if (archive_write_data(p->out, p->piece, (size_t)n) < 0)
            return broken(p, err);
    return n < 0 ? broken(p, err) : 0;
}

/* A file with holes counts as if it had none. */
static int count_bytes(struct packing *p, int64_t size, struct vial_error *err)
{
    if (p->how->max_bytes == 0)
        return 0;
    if (size < 0 || size > p->how->max_bytes - p->bytes)
        return fail(err, VIAL_E_QUOTA, "'%.200s' is more than there is room for",
                    p->path.len ? p->path.data : "/");
    p->bytes += size;
    return 0;
}

static bool is_left(const struct packing *p)
{
    for (size_t i = 0; p->how->left && p->how->left[i]; i++)
        if (str_eq(p->how->left[i], p->path.data))
            return true;
    return false;
}

/* An empty file whose name says what is hidden. */
static int put_whiteout(struct packing *p, const char *name, struct vial_error *err)
{
    struct archive_entry *e = archive_entry_new();
    auto_str struct str path = { 0 };
    size_t dir = p->path.data ? p->path.len : 0;
    int rc;

    if (!e)
        return fail_memory(err);
    if (dir)
        str_printf(&path, "%s/", p->path.data);
    str_puts(&path, name);
    archive_entry_copy_pathname(e, path.data ? path.data : name);
    archive_entry_set_filetype(e, AE_IFREG);
    archive_entry_set_perm(e, 0644);
    archive_entry_set_size(e, 0);
    rc = put_header(p, e, err);
    archive_entry_free(e);
    return rc;
}

static int put_inside(struct packing *p, int dir_fd, struct vial_error *err);

static int put_entry(struct packing *p, struct archive_entry *e, int dir_fd,
                     const char *name, int fd, struct stat *st, struct vial_error *err)
{
    const char *linked =
        S_ISREG(st->st_mode) && st->st_nlink > 1 ? first_name(p, st) : NULL;
    char target[PATH_MAX];
    ssize_t len;

    if (take_owner(p, st, err) < 0)
        return -1;
    archive_entry_copy_stat(e, st);
    archive_entry_copy_pathname(e, p->path.len ? p->path.data : "./");
    if (S_ISDIR(st->st_mode) && p->path.len) {
        auto_str struct str slashed = { 0 };

        str_printf(&slashed, "%s/", p->path.data);
        archive_entry_copy_pathname(e, slashed.data ? slashed.data : p->path.data);
    }
    if (S_ISLNK(st->st_mode)) {
        len = readlinkat(dir_fd, name, target, sizeof(target) - 1);
        target[len > 0 ? len : 0] = '\0';
        archive_entry_copy_symlink(e, target);
    }
    if (linked) {
        archive_entry_copy_hardlink(e, linked);
        archive_entry_set_size(e, 0);
        return put_header(p, e, err);
    }
    if (fd >= 0)
        add_attributes(p, e, fd);
    if (S_ISREG(st->st_mode) && count_bytes(p, st->st_size, err) < 0)
        return -1;
    if (put_header(p, e, err) < 0)
        return -1;
    return S_ISREG(st->st_mode) ? put_content(p, fd, err) : 0;
}

static int put_one(struct packing *p, int dir_fd, const char *name, int fd,
                   struct stat *st, struct vial_error *err)
{
    struct archive_entry *e = archive_entry_new();
    int rc = e ? put_entry(p, e, dir_fd, name, fd, st, err) : fail_memory(err);

    archive_entry_free(e);
    if (rc < 0 || !S_ISDIR(st->st_mode))
        return rc;
    if (lower_is_opaque(fd) && put_whiteout(p, ".wh..wh..opq", err) < 0)
        return -1;
    return put_inside(p, fd, err);
}

/* Of the file that FD is, and not of one that took its place; a socket has no place in
 * an archive. */
static int put_opened(struct packing *p, int dir_fd, const char *name, struct stat *st,
                      struct vial_error *err)
{
    auto_fd int fd = -1;

    if (S_ISSOCK(st->st_mode) || is_left(p))
        return 0;
    if (S_ISREG(st->st_mode) || S_ISDIR(st->st_mode)) {
        fd = openat(dir_fd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
        if (fd < 0 || fstat(fd, st) < 0)
            return broken(p, err);
    }
    return put_one(p, dir_fd, name, fd, st, err);
}

static int put_name(struct packing *p, int dir_fd, const char *name,
                    struct vial_error *err)
{
    size_t before = p->path.len;
    struct stat st;
    int rc;

    if (fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return errno == ENOENT ? 0 : broken(p, err); /* it went meanwhile */
    if (str_starts(name, ".wh."))
        return fail(err, VIAL_E_FILE,
                    "'%.200s' has a name that means something else in an image", name);
    if (lower_is_whiteout(&st)) {
        auto_str struct str hidden = { 0 };

        str_printf(&hidden, ".wh.%s", name);
        return str_ok(&hidden) ? put_whiteout(p, hidden.data, err) : fail_memory(err);
    }
    str_printf(&p->path, "%s%s", before ? "/" : "", name);
    if (!str_ok(&p->path))
        return fail_memory(err);
    rc = put_opened(p, dir_fd, name, &st, err);
    p->path.len = before;
    if (p->path.data)
        p->path.data[before] = '\0';
    return rc;
}

static int put_inside(struct packing *p, int dir_fd, struct vial_error *err)
{
    auto_strv struct strv names = { 0 };
    int rc = 0;

    if (++p->depth > ENTRY_DEPTH + 1)
        return fail(err, VIAL_E_FILE, "a layer's tree is too deep");
    if (tree_names(dir_fd, &names) < 0)
        return broken(p, err);
    for (size_t i = 0; rc == 0 && i < names.count; i++)
        rc = put_name(p, dir_fd, names.items[i], err);
    p->depth--;
    return rc;
}

static void read_owners(struct packing *p, const char *text)
{
    auto_free char *copy = text ? strdup(text) : NULL;
    char *rest = NULL;

    for (char *line = copy ? strtok_r(copy, "\n", &rest) : NULL; line;
         line = strtok_r(NULL, "\n", &rest))
        strv_push(&p->owners, line);
    if (p->owners.count > 0)
        qsort(p->owners.items, p->owners.count, sizeof(*p->owners.items),
              compare_lines);
}

int layer_tar_write(int root_fd, const struct layer_tar *how, int out_fd,
                    struct vial_error *err)
{
    struct packing p = { .how = how,
                         .out = archive_write_new(),
                         .piece = malloc(PIECE) };
    struct stat st;
    int rc = p.out && p.piece ? 0 : fail_memory(err);

    read_owners(&p, how->owners);
    if (rc == 0 &&
        (archive_write_set_format_pax_restricted(p.out) != ARCHIVE_OK ||
         archive_write_open_fd(p.out, out_fd) != ARCHIVE_OK || fstat(root_fd, &st) < 0))
        rc = broken(&p, err);
    rc = rc < 0 ? rc : put_one(&p, root_fd, ".", root_fd, &st, err);
    if (rc == 0 && archive_write_close(p.out) != ARCHIVE_OK)
        rc = broken(&p, err);
    if (p.out)
        (void)archive_write_free(p.out);
    for (size_t i = 0; i < p.count; i++)
        free(p.known[i].path);
    free(p.known);
    free(p.piece);
    str_done(&p.path);
    strv_done(&p.owners);
    return rc;
}
