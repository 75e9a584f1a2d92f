/* SPDX-License-Identifier: Apache-2.0 */
#include "template/build_context.h"

#include <dirent.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/fail.h"
#include "base/path.h"
#include "base/sha256.h"
#include "base/sys.h"
#include "template/ignore.h"

#define FILES_MAX  100000u
#define DEPTH_MAX  64u
#define BYTES_MAX  (UINT64_C(8) << 30) /* of one COPY */
#define LINK_BYTES 4096
#define PIECE      (64u << 10)

struct walk {
    struct context *c;
    const struct ignore *ignore;
    struct vial_error *err;
};

static int walk(const struct walk *w, int dir_fd, const char *path, unsigned depth);

/* The next entry, which counts from now on. Takes PATH. */
static struct context_entry *new_entry(struct context *c, char *path,
                                       struct vial_error *err)
{
    size_t room = c->room ? c->room * 2 : 64;
    struct context_entry *more = NULL;

    if (c->count == FILES_MAX) {
        free(path);
        (void)fail(err, VIAL_E_TEMPLATE, "the context has more than %u files",
                   FILES_MAX);
        (void)fail_remedy(err, "leave some out, by '.vialignore', or name a smaller "
                               "directory");
        return NULL;
    }
    if (c->count == c->room) {
        more = reallocarray(c->items, room, sizeof(*more));
        if (!more) {
            free(path);
            (void)fail_memory(err);
            return NULL;
        }
        c->items = more;
        c->room = room;
    }
    c->items[c->count] = (struct context_entry){ .path = path };
    return &c->items[c->count++];
}

static int read_target(int dir_fd, const char *name, struct context_entry *e,
                       struct vial_error *err)
{
    char text[LINK_BYTES];
    ssize_t n = readlinkat(dir_fd, name, text, sizeof(text));

    if (n < 0 || (size_t)n == sizeof(text))
        return fail_sys(err, "read the link '%s'", e->path);
    e->type = 'l';
    e->target = strndup(text, (size_t)n);
    return e->target ? 0 : fail_memory(err);
}

static int walk_into(const struct walk *w, int dir_fd, const char *name,
                     const char *path, unsigned depth)
{
    auto_fd int fd =
        openat(dir_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

    if (fd < 0)
        return fail_sys(w->err, "open '%s' of the context", path);
    return walk(w, fd, path, depth + 1);
}

/* Pipes, sockets and devices are passed over, as nobody can copy them. Takes PATH. */
static int take(const struct walk *w, int dir_fd, const char *name, char *path,
                unsigned depth)
{
    auto_free char *owned = path;
    bool ignored = ignore_matches(w->ignore, path);
    struct context_entry *e = NULL;
    struct stat st;

    if (ignored && !w->ignore->takes_back)
        return 0;
    if (fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return fail_sys(w->err, "look at '%s' of the context", path);
    if (!S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode) && !S_ISLNK(st.st_mode))
        return 0;
    if (!ignored) {
        e = new_entry(w->c, ptr_take(&owned), w->err);
        if (!e)
            return -1;
        e->mode = st.st_mode & 0777u;
        e->size = S_ISREG(st.st_mode) ? (uint64_t)st.st_size : 0;
        e->type = S_ISDIR(st.st_mode) ? 'd' : 'f';
        e->seen = st;
    }
    if (S_ISDIR(st.st_mode))
        return walk_into(w, dir_fd, name, path, depth);
    return e && S_ISLNK(st.st_mode) ? read_target(dir_fd, name, e, w->err) : 0;
}

/* As opendir has it, of a descriptor that stays open. */
static DIR *list(int dir_fd)
{
    int fd = openat(dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *d = fd < 0 ? NULL : fdopendir(fd);

    if (!d && fd >= 0)
        (void)close(fd);
    return d;
}

static int walk(const struct walk *w, int dir_fd, const char *path, unsigned depth)
{
    DIR *d = list(dir_fd);
    int rc = 0;

    if (depth > DEPTH_MAX || !d) {
        rc =
            d ? fail(w->err, VIAL_E_TEMPLATE, "'%s' of the context lies too deep", path)
              : fail_sys(w->err, "list '%s' of the context", path);
        if (d)
            (void)closedir(d);
        return rc;
    }
    while (rc == 0) {
        const struct dirent *e = readdir(d); /* NOLINT(concurrency-mt-unsafe) */
        char *whole = NULL;

        if (!e)
            break;
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
            continue;
        if (asprintf(&whole, "%s%s%s", path, *path ? "/" : "", e->d_name) < 0)
            rc = fail_memory(w->err);
        else
            rc = take(w, dir_fd, e->d_name, whole, depth);
    }
    (void)closedir(d);
    return rc;
}

static int by_path(const void *a, const void *b)
{
    const struct context_entry *x = a;
    const struct context_entry *y = b;

    return strcmp(x->path, y->path);
}

int context_open(const char *dir, struct context *out, struct vial_error *err)
{
    auto_context struct context c = CONTEXT_NONE;
    auto_ignore struct ignore ignore = { 0 };
    const struct walk w = { .c = &c, .ignore = &ignore, .err = err };

    c.fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (c.fd < 0) {
        (void)fail_sys(err, "open '%s'", dir);
        return fail_as(err, VIAL_E_FILE);
    }
    if (ignore_read(c.fd, &ignore, err) < 0 || walk(&w, c.fd, "", 0) < 0)
        return -1;
    if (c.count > 0)
        qsort(c.items, c.count, sizeof(*c.items), by_path);
    *out = c;
    c = (struct context)CONTEXT_NONE;
    return 0;
}

void context_done(struct context *c)
{
    for (size_t i = 0; i < c->count; i++) {
        free(c->items[i].path);
        free(c->items[i].target);
    }
    free(c->items);
    if (c->fd >= 0)
        (void)close(c->fd);
    *c = (struct context)CONTEXT_NONE;
}

static int add_pick(struct picks *p, const struct context_entry *e, const char *below,
                    struct vial_error *err)
{
    struct picked *more = reallocarray(p->items, p->count + 1, sizeof(*more));

    if (!more)
        return fail_memory(err);
    p->items = more;
    p->items[p->count++] = (struct picked){ .entry = e, .below = below };
    return 0;
}

/* All that lies below the directory DIR; "" is the context itself. */
static int pick_tree(const struct context *c, const char *dir, struct picks *out,
                     struct vial_error *err)
{
    size_t len = strlen(dir);

    out->tree = true;
    for (size_t i = 0; i < c->count; i++) {
        const char *path = c->items[i].path;

        if (len > 0 && (strncmp(path, dir, len) != 0 || path[len] != '/'))
            continue;
        if (add_pick(out, &c->items[i], path + len + (len > 0), err) < 0)
            return -1;
    }
    return 0;
}

static int pick_entry(const struct context *c, const struct context_entry *e,
                      struct picks *out, struct vial_error *err)
{
    const char *slash = strrchr(e->path, '/');

    if (e->type == 'd')
        return pick_tree(c, e->path, out, err);
    if (e->type == 'l') {
        (void)fail(err, VIAL_E_TEMPLATE, "'%s' is a link, which is not followed",
                   e->path);
        return fail_remedy(err,
                           "name what it leads to, or the directory that it is in");
    }
    return add_pick(out, e, slash ? slash + 1 : e->path, err);
}

/* Without "./" before and "/" behind it; NULL: it would lead out of the context. */
static char *clean_source(const char *source)
{
    size_t len;

    while (source[0] == '.' && source[1] == '/')
        source += 2;
    len = strlen(source);
    while (len > 1 && source[len - 1] == '/')
        len--;
    if (len == 0 || (len == 1 && source[0] == '.'))
        return strdup("");
    return path_is_plain_relative(source, len) ? strndup(source, len) : NULL;
}

int context_pick(const struct context *c, const char *source, struct picks *out,
                 struct vial_error *err)
{
    auto_free char *clean = clean_source(source);
    size_t found = 0;

    if (!clean) {
        (void)fail(err, VIAL_E_TEMPLATE, "'%s' does not lie in the context", source);
        return fail_remedy(err, "name files below the template's directory, or say "
                                "'--context DIR'");
    }
    if (!*clean)
        return pick_tree(c, "", out, err);
    for (size_t i = 0; i < c->count; i++) {
        if (strcmp(clean, c->items[i].path) != 0 &&
            fnmatch(clean, c->items[i].path, FNM_PATHNAME) != 0)
            continue;
        out->tree = out->tree || found > 0;
        found++;
        if (pick_entry(c, &c->items[i], out, err) < 0)
            return -1;
    }
    if (found == 0) {
        (void)fail(err, VIAL_E_TEMPLATE, "the context has no '%s'", source);
        return fail_remedy(err,
                           "see whether .vialignore or .dockerignore leaves it out");
    }
    return 0;
}

void picks_done(struct picks *p)
{
    free(p->items);
    *p = (struct picks){ 0 };
}

static bool is_same_time(const struct timespec *a, const struct timespec *b)
{
    return a->tv_sec == b->tv_sec && a->tv_nsec == b->tv_nsec;
}

static bool is_same_file(const struct stat *a, const struct stat *b)
{
    return a->st_dev == b->st_dev && a->st_ino == b->st_ino &&
           a->st_mode == b->st_mode && a->st_size == b->st_size &&
           is_same_time(&a->st_mtim, &b->st_mtim) &&
           is_same_time(&a->st_ctim, &b->st_ctim);
}

int context_check(const struct context_entry *e, int fd, struct vial_error *err)
{
    struct stat now;

    if (fstat(fd, &now) < 0)
        return fail_sys(err, "look at '%s' of the context", e->path);
    if (S_ISREG(now.st_mode) && is_same_file(&e->seen, &now))
        return 0;
    (void)fail(err, VIAL_E_TEMPLATE, "'%s' has changed while it was built", e->path);
    return fail_remedy(err, "build again while nobody writes to it");
}

int context_read(const struct context *c, const struct context_entry *e,
                 struct vial_error *err)
{
    auto_fd int fd =
        sys_openat2(c->fd, e->path, O_RDONLY | O_NONBLOCK | O_CLOEXEC, 0,
                    RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS);

    if (fd < 0) {
        (void)fail_sys_rc(err, fd, "read '%s' of the context", e->path);
        return fail_as(err, VIAL_E_FILE);
    }
    return context_check(e, fd, err) < 0 ? -1 : fd_take(&fd);
}

static int add_content(const struct context *c, const struct context_entry *e,
                       struct sha256 *h, struct vial_error *err)
{
    auto_free char *piece = malloc(PIECE);
    auto_fd int fd = context_read(c, e, err);
    ssize_t n = 0;

    if (fd < 0)
        return -1;
    if (!piece)
        return fail_memory(err);
    while ((n = read(fd, piece, PIECE)) > 0)
        sha256_add(h, piece, (size_t)n);
    return n < 0 ? fail_sys(err, "read '%s' of the context", e->path) : 0;
}

int picks_digest(const struct context *c, const struct picks *p, char out[65],
                 struct vial_error *err)
{
    struct sha256 h;
    uint64_t bytes = 0;

    sha256_init(&h);
    for (size_t i = 0; i < p->count; i++) {
        const struct context_entry *e = p->items[i].entry;
        auto_str struct str head = { 0 };

        bytes += e->size;
        if (bytes > BYTES_MAX)
            return fail(err, VIAL_E_TEMPLATE, "it copies more than 8 GiB");
        str_printf(&head, "%c %o %llu %zu:%s %zu:%s\n", e->type, e->mode,
                   (unsigned long long)e->size, strlen(p->items[i].below),
                   p->items[i].below, e->target ? strlen(e->target) : 0,
                   e->target ? e->target : "");
        if (!str_ok(&head))
            return fail_memory(err);
        sha256_add(&h, head.data, head.len);
        if (e->type == 'f' && add_content(c, e, &h, err) < 0)
            return -1;
    }
    sha256_text(&h, out);
    return 0;
}
