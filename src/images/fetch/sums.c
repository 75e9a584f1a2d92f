/* SPDX-License-Identifier: Apache-2.0 */
#include "images/fetch/sums.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/fail.h"
#include "base/io.h"
#include "images/fetch/attributes.h"
#include "images/fetch/digest.h"
#include "images/fetch/entry_path.h"
#include "images/record.h"

#define PIECE (256u << 10)
#define FLUSH (64u << 10)

struct walk {
    int out_fd;
    struct str lines; /* not written yet */
    struct str path;  /* where we are */
    char *piece;
    int64_t bytes;
    unsigned depth;
};

static int broken(const struct walk *w, struct vial_error *err)
{
    return fail_sys(err, "read '%s' of the image store",
                    w->path.data ? w->path.data : "");
}

static int flush(struct walk *w, size_t least, struct vial_error *err)
{
    int rc;

    if (!str_ok(&w->lines))
        return fail_memory(err);
    if (w->lines.len < least)
        return 0;
    rc = io_write_all(w->out_fd, w->lines.data, w->lines.len);
    w->lines.len = 0;
    return rc < 0 ? fail_sys_rc(err, rc, "write the sums of a layer") : 0;
}

static int sum_content(struct walk *w, int fd, struct vial_error *err)
{
    auto_digest struct digest d = { 0 };
    char text[STORE_DIGEST];
    ssize_t n;

    digest_begin(&d);
    while ((n = read(fd, w->piece, PIECE)) > 0)
        digest_add(&d, w->piece, (size_t)n);
    if (n < 0)
        return broken(w, err);
    digest_end(&d, text);
    str_puts(&w->lines, text + strlen("sha256:"));
    return 0;
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Of the file itself; the kernel lists names in no order that lasts. */
static void sum_attributes(struct walk *w, int fd)
{
    char names[ATTRIBUTES_BYTES];
    char value[ATTRIBUTES_BYTES];
    char *list[256];
    size_t count = 0;
    ssize_t len = flistxattr(fd, names, sizeof(names));
    auto_digest struct digest d = { 0 };
    char text[STORE_DIGEST];

    for (char *n = names; len > 0 && n < names + len && count < 256; n += strlen(n) + 1)
        if (str_starts(n, "user.") || str_eq(n, "security.capability"))
            list[count++] = n;
    if (count == 0) {
        str_puts(&w->lines, " - ");
        return;
    }
    qsort(list, count, sizeof(*list), compare_names);
    digest_begin(&d);
    for (size_t i = 0; i < count; i++) {
        ssize_t size = fgetxattr(fd, list[i], value, sizeof(value));

        digest_add(&d, list[i], strlen(list[i]) + 1);
        digest_add(&d, &size, sizeof(size));
        digest_add(&d, value, size > 0 ? (size_t)size : 0);
    }
    digest_end(&d, text);
    str_printf(&w->lines, " %s ", text + strlen("sha256:"));
}

static char kind_of(const struct stat *st)
{
    return S_ISREG(st->st_mode)   ? 'f'
           : S_ISDIR(st->st_mode) ? 'd'
           : S_ISLNK(st->st_mode) ? 'l'
           : S_ISCHR(st->st_mode) ? 'w'
                                  : 'p';
}

static int sum_inside(struct walk *w, int dir_fd, struct vial_error *err);

/* FD: the file or directory, or -1 for what is not opened. */
static int sum_one(struct walk *w, int dir_fd, const char *name, int fd,
                   const struct stat *st, struct vial_error *err)
{
    char target[PATH_MAX];
    ssize_t len;

    str_printf(&w->lines, "%c %o %u %u %lld %lld.%09ld ", kind_of(st),
               (unsigned)st->st_mode & 07777, st->st_uid, st->st_gid,
               S_ISDIR(st->st_mode) ? 0ll : (long long)st->st_size,
               (long long)st->st_mtim.tv_sec, st->st_mtim.tv_nsec);
    if (S_ISREG(st->st_mode)) {
        if (sum_content(w, fd, err) < 0)
            return -1;
    } else if (S_ISLNK(st->st_mode)) {
        len = readlinkat(dir_fd, name, target, sizeof(target) - 1);
        target[len > 0 ? len : 0] = '\0';
        record_escape(&w->lines, target);
    } else
        str_putc(&w->lines, '-');
    if (S_ISREG(st->st_mode) || S_ISDIR(st->st_mode))
        sum_attributes(w, fd);
    else
        str_puts(&w->lines, " - ");
    record_escape(&w->lines, w->path.len ? w->path.data : ".");
    str_putc(&w->lines, '\n');
    w->bytes += (int64_t)st->st_blocks * 512;
    if (flush(w, FLUSH, err) < 0)
        return -1;
    return S_ISDIR(st->st_mode) ? sum_inside(w, fd, err) : 0;
}

static int sum_name(struct walk *w, int dir_fd, const char *name,
                    struct vial_error *err)
{
    size_t before = w->path.len;
    auto_fd int fd = -1;
    struct stat st;
    int rc;

    str_printf(&w->path, "%s%s", before ? "/" : "", name);
    if (fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return broken(w, err);
    if (S_ISREG(st.st_mode) || S_ISDIR(st.st_mode))
        fd = openat(dir_fd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0 && (S_ISREG(st.st_mode) || S_ISDIR(st.st_mode)))
        return broken(w, err);
    rc = sum_one(w, dir_fd, name, fd, &st, err);
    w->path.len = before;
    if (w->path.data)
        w->path.data[before] = '\0';
    return rc;
}

int tree_names(int dir_fd, struct strv *out)
{
    int fd = openat(dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    const struct dirent *entry;

    if (!dir)
        return -1;
    /* NOLINTNEXTLINE(concurrency-mt-unsafe): nobody else has this stream */
    while ((entry = readdir(dir)))
        if (!str_eq(entry->d_name, ".") && !str_eq(entry->d_name, ".."))
            strv_push(out, entry->d_name);
    (void)closedir(dir);
    if (out->count > 0)
        qsort(out->items, out->count, sizeof(*out->items), compare_names);
    return out->failed ? -1 : 0;
}

static int sum_inside(struct walk *w, int dir_fd, struct vial_error *err)
{
    auto_strv struct strv names = { 0 };
    int rc = 0;

    if (w->depth > ENTRY_DEPTH + 1)
        return fail(err, VIAL_E_FILE, "a layer's tree is too deep");
    if (tree_names(dir_fd, &names) < 0)
        return broken(w, err);
    w->depth++;
    for (size_t i = 0; rc == 0 && i < names.count; i++)
        rc = sum_name(w, dir_fd, names.items[i], err);
    w->depth--;
    return rc;
}

int sums_write(int root_fd, int out_fd, int64_t *bytes, struct vial_error *err)
{
    struct walk w = { .out_fd = out_fd, .piece = malloc(PIECE) };
    struct stat st;
    int rc = w.piece ? 0 : fail_memory(err);

    if (rc == 0 && fstat(root_fd, &st) < 0)
        rc = broken(&w, err);
    rc = rc < 0 ? rc : sum_one(&w, root_fd, ".", root_fd, &st, err);
    rc = rc < 0 ? rc : flush(&w, 1, err);
    *bytes = w.bytes;
    str_done(&w.lines);
    str_done(&w.path);
    free(w.piece);
    return rc;
}

struct line {
    FILE *file;
    char *text;
    size_t cap;
    bool over;
};

static void next_line(struct line *l)
{
    ssize_t len = getline(&l->text, &l->cap, l->file);

    l->over = len < 0;
    if (len > 0 && l->text[len - 1] == '\n')
        l->text[len - 1] = '\0';
}

static const char *path_of(const struct line *l)
{
    const char *blank = l->over ? NULL : strrchr(l->text, ' ');

    return blank ? blank + 1 : "";
}

/* As the walk orders them: "a", "a/b", "a-b". */
static int compare_paths(const char *a, const char *b)
{
    for (; *a && *a == *b; a++, b++)
        ;
    if (*a == *b)
        return 0;
    if (!*a || !*b)
        return *a ? 1 : -1;
    if (*a == '/' || *b == '/')
        return *a == '/' ? -1 : 1;
    return (unsigned char)*a - (unsigned char)*b;
}

int sums_compare(int old_fd, int new_fd, size_t max, struct strv *found,
                 struct vial_error *err)
{
    struct line a = { .file = fdopen(dup(old_fd), "r") };
    struct line b = { .file = fdopen(dup(new_fd), "r") };

    if (a.file && b.file) {
        next_line(&a);
        next_line(&b);
        while ((!a.over || !b.over) && found->count < max) {
            int order = a.over   ? 1
                        : b.over ? -1
                                 : compare_paths(path_of(&a), path_of(&b));

            if (order < 0)
                strv_printf(found, "missing %s", path_of(&a));
            if (order > 0)
                strv_printf(found, "added %s", path_of(&b));
            if (order == 0 && strcmp(a.text, b.text) != 0)
                strv_printf(found, "changed %s", path_of(&a));
            if (order <= 0)
                next_line(&a);
            if (order >= 0)
                next_line(&b);
        }
    }
    free(a.text);
    free(b.text);
    if (a.file)
        (void)fclose(a.file);
    if (b.file)
        (void)fclose(b.file);
    return a.file && b.file && !found->failed ? 0 : fail_memory(err);
}
