/* SPDX-License-Identifier: Apache-2.0 */
#include "images/fetch/unpack.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/fail.h"
#include "base/io.h"
#include "base/remove_tree.h"
#include "base/sys.h"
#include "images/fetch/attributes.h"
#include "images/fetch/entry_path.h"
#include "images/fetch/tar_stream.h"
#include "images/record.h"

#define WHITEOUT ".wh."
#define OPAQUE   ".wh..wh..opq"
#define IN_ROOT  (RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_XDEV)
#define OPEN_DIR (O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)

/* A directory's time, which is set when nothing more comes into it. */
struct dir_time {
    char *path;
    struct timespec mtime;
};

struct unpack {
    int root_fd;
    const struct lowers *below;
    struct unpack_limits *left;
    struct str *owners;
    bool keeps_owners;
    char parent[PATH_MAX]; /* the directory that was entered last, … */
    int parent_fd;         /* … or -1 */
    struct dir_time *times;
    size_t count, cap;
};

static int refuse(const char *path, const char *why, struct vial_error *err)
{
    auto_str struct str shown = { 0 };

    record_escape(&shown, path);
    return fail(err, VIAL_E_IMAGE_BAD, "the entry '%.200s' %s",
                shown.data ? shown.data : "", why);
}

static int no_good(const char *path, struct vial_error *err)
{
    int why = errno;
    auto_str struct str shown = { 0 };

    record_escape(&shown, path);
    return fail_sys_rc(err, -why, "unpack '%.200s'", shown.data ? shown.data : "");
}

static void forget_parent(struct unpack *u)
{
    auto_fd_(&u->parent_fd);
    u->parent_fd = -1;
}

static int remember_time(struct unpack *u, const char *path, struct timespec mtime,
                         struct vial_error *err)
{
    if (u->count == u->cap) {
        size_t cap = u->cap ? 2 * u->cap : 256;
        struct dir_time *more = realloc(u->times, cap * sizeof(*more));

        if (!more)
            return fail_memory(err);
        u->times = more;
        u->cap = cap;
    }
    u->times[u->count].path = strdup(path);
    u->times[u->count].mtime = mtime;
    return u->times[u->count++].path ? 0 : fail_memory(err);
}

static int count_file(struct unpack *u, int64_t size, struct vial_error *err)
{
    if (u->left->files-- <= 0)
        return fail(err, VIAL_E_IMAGE_BAD,
                    "it has more files than an image may have (max_files)");
    if (size < 0 || size > u->left->bytes)
        return fail(err, VIAL_E_IMAGE_BAD,
                    "its files are larger than an image may be (max_size)");
    u->left->bytes -= size;
    return 0;
}

/* Whose PATH is, as the image has it, where we cannot make it theirs. */
static void note_owner(struct unpack *u, const char *path, const struct attributes *a)
{
    if (u->keeps_owners)
        return;
    str_printf(u->owners, "%u %u %o ", a->uid, a->gid, (unsigned)a->mode & 07777);
    record_escape(u->owners, path);
    str_putc(u->owners, '\n');
}

static int set_attributes(struct unpack *u, int fd, const char *path,
                          const struct attributes *a, struct vial_error *err)
{
    note_owner(u, path, a);
    return attributes_set(fd, a, u->keeps_owners) < 0 ? no_good(path, err) : 0;
}

static int mark_opaque(int fd, const char *path, struct vial_error *err)
{
    return fsetxattr(fd, OPAQUE_XATTR, "y", 1, 0) < 0 ? no_good(path, err) : 0;
}

/* A directory that the archive has no entry for: as the layers below have it. */
static int make_implied(struct unpack *u, int dir_fd, const char *path,
                        const char *name, bool opaque, struct vial_error *err)
{
    struct attributes a = { .mode = 0755 };
    auto_fd int lower_fd = -1;
    auto_fd int fd = -1;
    const char *lower_name = NULL;
    struct stat st;

    if (count_file(u, 0, err) < 0)
        return -1;
    if (!opaque && lower_find(u->below, path, &st, &lower_fd, &lower_name)) {
        if (!S_ISDIR(st.st_mode))
            return refuse(path, "is gone through, and is not a directory", err);
        if (attributes_of(lower_fd, lower_name, &st, &a) < 0)
            return no_good(path, err);
        if (!u->keeps_owners)
            a.uid = a.gid = 0;
    }
    if (mkdirat(dir_fd, name, 0700) < 0)
        return no_good(path, err);
    fd = openat(dir_fd, name, OPEN_DIR);
    if (fd < 0)
        return no_good(path, err);
    if ((opaque && mark_opaque(fd, path, err) < 0) ||
        set_attributes(u, fd, path, &a, err) < 0 ||
        remember_time(u, path, a.mtime, err) < 0)
        return -1;
    return fd_take(&fd);
}

/* Into directory PATH, whose last part is NAME. */
static int step_into(struct unpack *u, int dir_fd, const char *path, const char *name,
                     struct vial_error *err)
{
    int fd = openat(dir_fd, name, OPEN_DIR);
    struct stat st;

    if (fd >= 0)
        return fd;
    if (errno == ENOENT)
        return make_implied(u, dir_fd, path, name, false, err);
    if (fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return no_good(path, err);
    if (!lower_is_whiteout(&st))
        return refuse(path, "is gone through, and is not a directory", err);
    if (unlinkat(dir_fd, name, 0) < 0)
        return no_good(path, err);
    return make_implied(u, dir_fd, path, name, true, err);
}

static int walk_into(struct unpack *u, const char *dir, struct vial_error *err)
{
    auto_fd int fd = openat(u->root_fd, ".", OPEN_DIR);
    char path[PATH_MAX];
    size_t len = 0;

    if (fd < 0)
        return no_good(dir, err);
    while (dir[len]) {
        size_t begin = len + (dir[len] == '/');
        int next;

        len = begin + strcspn(dir + begin, "/");
        memcpy(path, dir, len);
        path[len] = '\0';
        next = step_into(u, fd, path, path + begin, err);
        if (next < 0)
            return -1;
        (void)close(fd);
        fd = next;
    }
    return fd_take(&fd);
}

/* The directory that PATH is in; *NAME is its last part. Borrowed until the next call.
 */
static int enter_parent(struct unpack *u, const char *path, const char **name,
                        struct vial_error *err)
{
    const char *slash = strrchr(path, '/');
    size_t len = slash ? (size_t)(slash - path) : 0;
    char dir[PATH_MAX];

    *name = slash ? slash + 1 : path;
    memcpy(dir, path, len);
    dir[len] = '\0';
    if (u->parent_fd >= 0 && str_eq(u->parent, dir))
        return u->parent_fd;
    forget_parent(u);
    u->parent_fd = len == 0
                       ? openat(u->root_fd, ".", OPEN_DIR)
                       : sys_openat2(u->root_fd, dir,
                                     O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0, IN_ROOT);
    if (u->parent_fd < 0)
        u->parent_fd = walk_into(u, dir, err);
    if (u->parent_fd < 0) {
        u->parent_fd = -1;
        return -1;
    }
    memcpy(u->parent, dir, len + 1);
    return u->parent_fd;
}

/* What an entry before has made of NAME goes, but a directory for a directory.
 * *OPAQUE: a whiteout went. */
static int clear_way(int dir_fd, const char *name, bool for_dir, bool *opaque)
{
    struct stat st;

    *opaque = false;
    if (fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return errno == ENOENT ? 0 : -1;
    if (!S_ISDIR(st.st_mode)) {
        *opaque = for_dir && lower_is_whiteout(&st);
        return unlinkat(dir_fd, name, 0);
    }
    if (for_dir)
        return 0;
    remove_tree(dir_fd, name);
    return 0;
}

static int take_dir(struct unpack *u, int dir_fd, const char *name, const char *path,
                    const struct attributes *a, struct vial_error *err)
{
    auto_fd int fd = -1;
    bool opaque = false;

    if (clear_way(dir_fd, name, true, &opaque) < 0 ||
        (mkdirat(dir_fd, name, 0700) < 0 && errno != EEXIST))
        return no_good(path, err);
    fd = openat(dir_fd, name, OPEN_DIR);
    if (fd < 0)
        return no_good(path, err);
    if ((opaque && mark_opaque(fd, path, err) < 0) ||
        set_attributes(u, fd, path, a, err) < 0)
        return -1;
    return remember_time(u, path, a->mtime, err);
}

static int write_at(int fd, const void *data, size_t len, int64_t offset)
{
    const char *at = data;

    while (len > 0) {
        ssize_t n = pwrite(fd, at, len, offset);

        if (n < 0 && errno != EINTR)
            return -1;
        if (n > 0) {
            at += n;
            offset += n;
            len -= (size_t)n;
        }
    }
    return 0;
}

static int write_content(struct tar_stream *t, int fd, const char *path, int64_t size,
                         struct vial_error *err)
{
    for (;;) {
        const void *data = NULL;
        size_t len = 0;
        la_int64_t offset = 0;
        int rc = archive_read_data_block(t->inner, &data, &len, &offset);

        if (rc == ARCHIVE_EOF)
            break;
        if (rc != ARCHIVE_OK && rc != ARCHIVE_WARN)
            return tar_stream_fail(t, err);
        if (offset < 0 || offset > size || (int64_t)len > size - offset)
            return refuse(path, "has more content than it says", err);
        if (write_at(fd, data, len, offset) < 0)
            return no_good(path, err);
    }
    return ftruncate(fd, size) < 0 ? no_good(path, err) : 0;
}

static int create_file(int dir_fd, const char *name)
{
    bool opaque = false;

    if (clear_way(dir_fd, name, false, &opaque) < 0)
        return -1;
    return openat(dir_fd, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
                  0600);
}

static int take_file(struct unpack *u, struct tar_stream *t, struct archive_entry *e,
                     int dir_fd, const char *name, const char *path,
                     const struct attributes *a, struct vial_error *err)
{
    auto_fd int fd = create_file(dir_fd, name);

    if (fd < 0)
        return no_good(path, err);
    if (write_content(t, fd, path, archive_entry_size(e), err) < 0 ||
        set_attributes(u, fd, path, a, err) < 0)
        return -1;
    return attributes_set_time(fd, NULL, a->mtime) < 0 ? no_good(path, err) : 0;
}

/* A link or a pipe: what cannot be opened to be changed. */
static int take_node(struct unpack *u, struct archive_entry *e, int dir_fd,
                     const char *name, const char *path, const struct attributes *a,
                     struct vial_error *err)
{
    const char *target = archive_entry_symlink(e);
    bool link = archive_entry_filetype(e) == AE_IFLNK;
    bool opaque = false;

    if (link && (!target || !*target || strlen(target) >= PATH_MAX))
        return refuse(path, "is a link to nothing", err);
    if (clear_way(dir_fd, name, false, &opaque) < 0 ||
        (link ? symlinkat(target, dir_fd, name)
              : mknodat(dir_fd, name, S_IFIFO | 0600, 0)) < 0)
        return no_good(path, err);
    note_owner(u, path, a);
    if (u->keeps_owners &&
        fchownat(dir_fd, name, a->uid, a->gid, AT_SYMLINK_NOFOLLOW) < 0)
        return no_good(path, err);
    if (!link &&
        fchmodat(dir_fd, name,
                 u->keeps_owners ? a->mode & 07777 : (a->mode & 0777) | 0600, 0) < 0)
        return no_good(path, err);
    return attributes_set_time(dir_fd, name, a->mtime) < 0 ? no_good(path, err) : 0;
}

/* A file of a layer below gets a second name, which takes a copy. */
static int copy_up(struct unpack *u, const char *target, int dir_fd, const char *name,
                   const char *path, struct vial_error *err)
{
    struct attributes a = { 0 };
    auto_fd int lower_fd = -1;
    auto_fd int from = -1;
    auto_fd int to = -1;
    const char *lower_name = NULL;
    char piece[8192];
    struct stat st;
    ssize_t n;

    if (!lower_find(u->below, target, &st, &lower_fd, &lower_name) ||
        !S_ISREG(st.st_mode))
        return refuse(path, "is a hard link to what is no file of the image", err);
    from = openat(lower_fd, lower_name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    if (from < 0 || attributes_of(lower_fd, lower_name, &st, &a) < 0)
        return no_good(path, err);
    if (count_file(u, st.st_size, err) < 0)
        return -1;
    to = create_file(dir_fd, name);
    while (to >= 0 && (n = read(from, piece, sizeof(piece))) != 0)
        if (n < 0 || io_write_all(to, piece, (size_t)n) < 0)
            return no_good(path, err);
    if (to < 0)
        return no_good(path, err);
    if (set_attributes(u, to, path, &a, err) < 0)
        return -1;
    return attributes_set_time(to, NULL, a.mtime) < 0 ? no_good(path, err) : 0;
}

static int take_hard_link(struct unpack *u, const char *said, int dir_fd,
                          const char *name, const char *path,
                          const struct attributes *a, struct vial_error *err)
{
    char target[PATH_MAX];
    const char *slash;
    auto_fd int from_fd = -1;
    bool opaque = false;
    struct stat st;

    if (entry_path(said, target, err) < 0)
        return -1;
    if (str_eq(target, path))
        return 0;
    slash = strrchr(target, '/');
    if (slash) {
        char dir[PATH_MAX];

        (void)snprintf(dir, sizeof(dir), "%.*s", (int)(slash - target), target);
        from_fd = sys_openat2(u->root_fd, dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0,
                              IN_ROOT);
    } else
        from_fd = openat(u->root_fd, ".", OPEN_DIR);
    if (from_fd < 0 ||
        fstatat(from_fd, slash ? slash + 1 : target, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return copy_up(u, target, dir_fd, name, path, err);
    if (S_ISDIR(st.st_mode) || lower_is_whiteout(&st))
        return refuse(path, "is a hard link to what is no file of the image", err);
    note_owner(u, path, a);
    if (clear_way(dir_fd, name, false, &opaque) < 0 ||
        linkat(from_fd, slash ? slash + 1 : target, dir_fd, name, 0) < 0)
        return no_good(path, err);
    return 0;
}

static int take_opaque(struct unpack *u, const char *path, struct vial_error *err)
{
    const char *name = NULL;
    int dir_fd = strchr(path, '/') ? enter_parent(u, path, &name, err) : -2;

    if (dir_fd == -2)
        return refuse(path, "would hide the whole image below", err);
    return dir_fd < 0 ? -1 : mark_opaque(dir_fd, path, err);
}

/* What hides nothing is not made: it would be seen in a directory of one layer. */
static int take_whiteout(struct unpack *u, const char *path, const char *base,
                         struct vial_error *err)
{
    const char *hidden = base + strlen(WHITEOUT);
    char target[PATH_MAX];
    const char *name = NULL;
    auto_fd int lower_fd = -1;
    struct stat st;
    int dir_fd;

    if (str_eq(base, OPAQUE))
        return take_opaque(u, path, err);
    if (str_starts(hidden, WHITEOUT)) /* of a file system that was never merged */
        return 0;
    if (!*hidden || str_eq(hidden, ".") || str_eq(hidden, ".."))
        return refuse(path, "would hide the directory that it is in, or above", err);
    (void)snprintf(target, sizeof(target), "%.*s%s", (int)(base - path), path, hidden);
    if (!lower_find(u->below, target, &st, &lower_fd, &name))
        return 0;
    dir_fd = enter_parent(u, target, &name, err);
    if (dir_fd < 0)
        return -1;
    if (fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0) {
        auto_fd int fd = S_ISDIR(st.st_mode) ? openat(dir_fd, name, OPEN_DIR) : -1;

        return fd < 0 ? 0 : mark_opaque(fd, target, err);
    }
    return mknodat(dir_fd, name, S_IFCHR, makedev(0, 0)) < 0 ? no_good(target, err) : 0;
}

/* Those that every root has; a vessel brings its own. */
static bool is_usual_device(const char *path, struct archive_entry *e)
{
    static const unsigned char usual[][2] = { { 1, 3 }, { 1, 5 }, { 1, 7 }, { 1, 8 },
                                              { 1, 9 }, { 5, 0 }, { 5, 1 }, { 5, 2 } };

    if (!str_starts(path, "dev/") || archive_entry_filetype(e) != AE_IFCHR)
        return false;
    for (size_t i = 0; i < sizeof(usual) / sizeof(*usual); i++)
        if (archive_entry_rdevmajor(e) == usual[i][0] &&
            archive_entry_rdevminor(e) == usual[i][1])
            return true;
    return false;
}

static int take_typed(struct unpack *u, struct tar_stream *t, struct archive_entry *e,
                      const char *path, struct vial_error *err)
{
    struct attributes a = { 0 };
    const char *name = NULL;
    int dir_fd;

    if (attributes_read(e, path, &a, err) < 0)
        return -1;
    dir_fd = enter_parent(u, path, &name, err);
    if (dir_fd < 0)
        return -1;
    if (archive_entry_hardlink(e))
        return take_hard_link(u, archive_entry_hardlink(e), dir_fd, name, path, &a,
                              err);
    switch (archive_entry_filetype(e)) {
    case AE_IFREG:
        return take_file(u, t, e, dir_fd, name, path, &a, err);
    case AE_IFDIR:
        return take_dir(u, dir_fd, name, path, &a, err);
    case AE_IFLNK:
    case AE_IFIFO:
        return take_node(u, e, dir_fd, name, path, &a, err);
    default:
        return refuse(path, "is of a kind that is not known here", err);
    }
}

static int take_root(struct unpack *u, struct archive_entry *e, struct vial_error *err)
{
    struct attributes a = { 0 };

    if (archive_entry_filetype(e) != AE_IFDIR)
        return refuse("/", "is not a directory", err);
    if (attributes_read(e, "", &a, err) < 0 ||
        set_attributes(u, u->root_fd, "", &a, err) < 0)
        return -1;
    return remember_time(u, ".", a.mtime, err);
}

static int take_entry(struct unpack *u, struct tar_stream *t, struct archive_entry *e,
                      struct vial_error *err)
{
    const char *text = archive_entry_pathname(e);
    bool device =
        !archive_entry_hardlink(e) && (archive_entry_filetype(e) == AE_IFCHR ||
                                       archive_entry_filetype(e) == AE_IFBLK);
    bool file = archive_entry_filetype(e) == AE_IFREG && !archive_entry_hardlink(e);
    char path[PATH_MAX];
    const char *base;

    if (!text)
        return fail(err, VIAL_E_IMAGE_BAD, "an entry has no name that can be read");
    if (entry_path(text, path, err) < 0 ||
        count_file(u, file ? archive_entry_size(e) : 0, err) < 0)
        return -1;
    if (!path[0])
        return take_root(u, e, err);
    base = strrchr(path, '/') ? strrchr(path, '/') + 1 : path;
    if (str_starts(path, WHITEOUT) && base != path)
        return 0;
    if (strstr(path, "/" WHITEOUT) && strstr(path, "/" WHITEOUT) + 1 < base)
        return 0;
    if (str_starts(base, WHITEOUT))
        return take_whiteout(u, path, base, err);
    if (device && !is_usual_device(path, e))
        return refuse(path, "is a device", err);
    if (device || archive_entry_filetype(e) == AE_IFSOCK)
        return 0;
    return take_typed(u, t, e, path, err);
}

/* Later ones first: a time that is set changes none above. */
static void set_times(struct unpack *u)
{
    for (size_t i = u->count; i > 0; i--) {
        struct dir_time *d = &u->times[i - 1];
        auto_fd int fd = sys_openat2(u->root_fd, d->path,
                                     O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0, IN_ROOT);

        if (fd >= 0)
            (void)attributes_set_time(fd, NULL, d->mtime);
    }
}

/* The root itself is as the layers below have it, unless the archive says otherwise. */
static int begin_root(struct unpack *u, struct vial_error *err)
{
    struct attributes a = { .mode = 0755 };
    struct stat st;

    if (u->below->count == 0)
        return 0;
    if (fstat(u->below->fds[u->below->count - 1], &st) < 0)
        return no_good("", err);
    a = (struct attributes){ .mode = st.st_mode & 07777,
                             .uid = u->keeps_owners ? st.st_uid : 0,
                             .gid = u->keeps_owners ? st.st_gid : 0,
                             .mtime = st.st_mtim };
    return set_attributes(u, u->root_fd, "", &a, err) < 0
               ? -1
               : remember_time(u, ".", a.mtime, err);
}

int unpack_layer(int blob_fd, int root_fd, const struct lowers *below,
                 struct unpack_limits *left, struct str *owners,
                 char diff_id[STORE_DIGEST], struct vial_error *err)
{
    struct unpack u = { .root_fd = root_fd,
                        .below = below,
                        .left = left,
                        .owners = owners,
                        .keeps_owners = geteuid() == 0,
                        .parent_fd = -1 };
    struct archive_entry *entry = NULL;
    struct tar_stream t = { 0 };
    int rc = tar_stream_open(&t, blob_fd, left->bytes, err);

    rc = rc < 0 ? rc : begin_root(&u, err);
    while (rc == 0 && (rc = tar_stream_next(&t, &entry, err)) > 0)
        rc = take_entry(&u, &t, entry, err);
    if (rc == 0)
        rc = tar_stream_end(&t, diff_id, err);
    if (rc == 0)
        set_times(&u);
    forget_parent(&u);
    for (size_t i = 0; i < u.count; i++)
        free(u.times[i].path);
    free(u.times);
    tar_stream_done(&t);
    return rc < 0 || owners->failed ? (rc < 0 ? -1 : fail_memory(err)) : 0;
}
