/* SPDX-License-Identifier: Apache-2.0 */

/* A directory that is watched, with all below it, by inotify. The kernel's queue is
 * the queue: while the host takes nothing it fills, and what it loses is told as a
 * gap. Directories are opened one component at a time, as everywhere; links are not
 * followed. */

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#include "guest/guest.h"

#define ALWAYS                                                                         \
    (IN_CREATE | IN_CLOSE_WRITE | IN_DELETE | IN_MOVED_FROM | IN_MOVED_TO |            \
     IN_ONLYDIR | IN_DONT_FOLLOW | IN_EXCL_UNLINK)
#define DIRS_MAX  8192u
#define DEPTH_MAX 64
#define PATH_MAX_ 4096u
#define EVENT_MAX (2 * PATH_MAX_ + 64) /* bytes of a packed one */
#define PAIR_NS   UINT64_C(200000000)  /* how long the other half of a move may take */

struct watched_dir {
    int wd;
    char *path; /* below the root; "" is the root itself */
};

struct dir_watch {
    int fd, root_fd;
    uint32_t flags; /* enum watch_flag */
    struct watched_dir *dirs;
    size_t count, cap;
    bool lost;      /* a gap is to be told */
    uint32_t moved; /* the cookie of a move whose end has not come; 0: none */
    bool moved_dir;
    char *moved_from;
    size_t at, len; /* what was read and not yet told */
    char events[4096] __attribute__((aligned(__alignof__(struct inotify_event))));
};

static char *join(const char *dir, const char *name)
{
    size_t a = strlen(dir), b = strlen(name);
    char *path = a + b + 2 > PATH_MAX_ ? NULL : malloc(a + b + 2);

    if (!path)
        return NULL;
    (void)stpcpy(stpcpy(stpcpy(path, dir), a ? "/" : ""), name);
    return path;
}

static bool is_below(const char *path, const char *dir)
{
    size_t len = strlen(dir);

    return strncmp(path, dir, len) == 0 && (path[len] == '/' || !path[len]);
}

/* Reports a change. If it does not fit into the host's credit it is lost, and the loss
 * is told. */
static void tell(struct guest *g, struct job *j, char kind, const char *path,
                 const char *from)
{
    struct event_message m = { .kind = (uint32_t)kind };
    struct pack p = { 0 };

    if (j->helps) {
        event_write(&p, &m, path, from);
        if (files_write_all(1, p.data, p.len) < 0)
            _exit(0); /* nobody reads it any more */
        pack_done(&p);
        return;
    }
    if (j->may_send[1] < EVENT_MAX) {
        j->dir_watch->lost = true;
        return;
    }
    event_write(&p, &m, path, from);
    stream_put(g, j, WIRE_DATA, 1, &p);
    j->may_send[1] -= (uint32_t)p.len;
    pack_done(&p);
}

static bool remember(struct dir_watch *o, int wd, const char *path)
{
    char *copy = strdup(path);

    for (size_t i = 0; copy && i < o->count; i++)
        if (o->dirs[i].wd == wd) {
            free(o->dirs[i].path);
            o->dirs[i].path = copy;
            return true;
        }
    if (copy && o->count == o->cap) {
        size_t cap = o->cap ? 2 * o->cap : 32;
        struct watched_dir *dirs = realloc(o->dirs, cap * sizeof *dirs);

        if (!dirs) {
            free(copy);
            return false;
        }
        o->dirs = dirs;
        o->cap = cap;
    }
    if (copy)
        o->dirs[o->count++] = (struct watched_dir){ wd, copy };
    return copy;
}

/* By way of the current directory, which needs no /proc. */
static int add_watch(const struct dir_watch *o, int dir_fd)
{
    uint32_t mask = ALWAYS | (o->flags & WATCH_ATTRIBUTES ? IN_ATTRIB : 0);
    int wd = fchdir(dir_fd) < 0 ? -1 : inotify_add_watch(o->fd, ".", mask);
    int error = errno;

    if (chdir("/") < 0)
        _exit(1);
    return wd < 0 ? -error : wd;
}

static void add_tree(struct guest *g, struct job *j, const char *path, bool news,
                     int depth);

static void add_entries(struct guest *g, struct job *j, const char *path, int fd,
                        bool news, int depth)
{
    DIR *dir = fdopendir(fd);
    const struct dirent *entry;

    if (!dir) {
        (void)close(fd);
        return;
    }
    /* NOLINTNEXTLINE(concurrency-mt-unsafe): the guest has one thread */
    while ((entry = readdir(dir))) {
        char *below;
        struct stat st;

        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0 ||
            fstatat(fd, entry->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0 ||
            !(below = join(path, entry->d_name)))
            continue;
        if (news)
            tell(g, j, 'c', below, "");
        if (S_ISDIR(st.st_mode) && (j->dir_watch->flags & WATCH_DEEP))
            add_tree(g, j, below, news, depth + 1);
        free(below);
    }
    (void)closedir(dir);
}

/* PATH and the directories below it. NEWS: what is in them came about before we
 * could see it come. */
/* NOLINTNEXTLINE(misc-no-recursion): bounded */
static void add_tree(struct guest *g, struct job *j, const char *path, bool news,
                     int depth)
{
    struct dir_watch *o = j->dir_watch;
    int fd = below_open_dir(o->root_fd, path);
    int wd;

    if (fd < 0)
        return; /* gone again, or not ours to see */
    wd = o->count < DIRS_MAX && depth < DEPTH_MAX ? add_watch(o, fd) : -ENOSPC;
    if (wd < 0 || !remember(o, wd, path)) {
        o->lost = true;
        (void)close(fd);
        return;
    }
    if (o->flags & WATCH_DEEP)
        add_entries(g, j, path, fd, news, depth);
    else
        (void)close(fd);
}

/* PATH with TO in place of FROM, which it lies below; NULL without memory. */
static char *renamed(const char *path, const char *from, const char *to)
{
    const char *rest = path + strlen(from);

    return *rest ? join(to, rest + 1) : strdup(to);
}

/* TO NULL: it has left, and is watched no more. */
static void rename_tree(struct dir_watch *o, const char *from, const char *to)
{
    size_t kept = 0;

    for (size_t i = 0; i < o->count; i++) {
        struct watched_dir d = o->dirs[i];

        if (is_below(d.path, from)) {
            char *path = to ? renamed(d.path, from, to) : NULL;

            free(d.path);
            d.path = path;
        }
        if (d.path)
            o->dirs[kept++] = d;
        else
            (void)inotify_rm_watch(o->fd, d.wd);
    }
    o->count = kept;
}

/* A move whose other end lies outside. */
static void end_move(struct guest *g, struct job *j)
{
    struct dir_watch *o = j->dir_watch;

    j->deadline_ns = NEVER;
    if (!o->moved)
        return;
    tell(g, j, 'r', o->moved_from, "");
    if (o->moved_dir)
        rename_tree(o, o->moved_from, NULL);
    free(o->moved_from);
    o->moved_from = NULL;
    o->moved = 0;
}

static void begin_move(struct job *j, const struct inotify_event *e, const char *path)
{
    struct dir_watch *o = j->dir_watch;

    o->moved_from = strdup(path);
    o->moved = o->moved_from ? e->cookie : 0;
    o->moved_dir = e->mask & IN_ISDIR;
    j->deadline_ns = now_ns() + PAIR_NS;
}

static void on_arrival(struct guest *g, struct job *j, const struct inotify_event *e,
                       const char *path)
{
    struct dir_watch *o = j->dir_watch;

    if ((e->mask & IN_MOVED_TO) && o->moved && o->moved == e->cookie) {
        tell(g, j, 'm', path, o->moved_from);
        if (o->moved_dir)
            rename_tree(o, o->moved_from, path);
        free(o->moved_from);
        o->moved_from = NULL;
        o->moved = 0;
        j->deadline_ns = NEVER;
        return;
    }
    end_move(g, j);
    tell(g, j, 'c', path, "");
    if ((e->mask & IN_ISDIR) && (o->flags & WATCH_DEEP))
        add_tree(g, j, path, true, 0);
}

static void on_name(struct guest *g, struct job *j, const struct inotify_event *e,
                    const char *path)
{
    if (e->mask & (IN_CREATE | IN_MOVED_TO)) {
        on_arrival(g, j, e, path);
        return;
    }
    end_move(g, j);
    if (e->mask & IN_MOVED_FROM)
        begin_move(j, e, path);
    else if (e->mask & IN_DELETE)
        tell(g, j, 'r', path, "");
    else if (e->mask & IN_CLOSE_WRITE)
        tell(g, j, 'w', path, "");
    else if (e->mask & IN_ATTRIB)
        tell(g, j, 'a', path, "");
}

static void forget(struct dir_watch *o, int wd)
{
    for (size_t i = 0; i < o->count; i++)
        if (o->dirs[i].wd == wd) {
            free(o->dirs[i].path);
            o->dirs[i] = o->dirs[--o->count];
            return;
        }
}

static void on_event(struct guest *g, struct job *j, const struct inotify_event *e)
{
    struct dir_watch *o = j->dir_watch;
    char *path = NULL;

    if (e->mask & IN_Q_OVERFLOW) { /* directories may have come unseen */
        end_move(g, j);
        o->lost = true;
        add_tree(g, j, "", false, 0);
        return;
    }
    if (e->mask & IN_IGNORED) {
        forget(o, e->wd);
        return;
    }
    for (size_t i = 0; e->len && i < o->count && !path; i++)
        if (o->dirs[i].wd == e->wd)
            path = join(o->dirs[i].path, e->name);
    if (path)
        on_name(g, j, e, path);
    free(path);
}

/* 0 or a positive errno: of what cannot be watched whole, nothing is. */
static int begin(struct guest *g, struct job *j, int root_fd, uint32_t flags)
{
    struct dir_watch *o = calloc(1, sizeof *o);

    j->dir_watch = o;
    if (!o)
        return ENOMEM;
    o->flags = flags;
    o->root_fd = root_fd;
    o->fd = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
    if (o->fd < 0) /* of these the host gives each user few */
        return errno == EMFILE ? ENOSPC : errno;
    add_tree(g, j, "", false, 0);
    if (o->lost)
        return ENOSPC;
    if (!o->count)
        return EACCES;
    tell(g, j, 's', "", ""); /* from here on nothing is missed */
    return 0;
}

void dir_watch_start(struct guest *g, struct job *j, const struct watch_message *m)
{
    int root_fd, error;

    if (*m->path == '/') {
        exec_help(g, j, &(struct path_op){ .watch = m });
        return;
    }
    root_fd = below_open_dir(g->workdir_fd, m->path);
    error = root_fd < 0 ? -root_fd : begin(g, j, root_fd, m->flags);
    if (error)
        files_finish(g, j, error, "watch");
}

/* Milliseconds until the other half of a move is given up; -1: none is waited for. */
static int wait_ms(const struct job *j)
{
    uint64_t now = now_ns();

    if (j->deadline_ns == NEVER)
        return -1;
    return j->deadline_ns > now ? (int)((j->deadline_ns - now) / 1000000) + 1 : 0;
}

int dir_watch_run(int root_fd, uint32_t flags)
{
    struct job j = { .helps = true, .deadline_ns = NEVER };
    int error = begin(NULL, &j, root_fd, flags);

    while (!error) {
        struct pollfd p[2] = { { .fd = j.dir_watch->fd, .events = POLLIN },
                               { .fd = 1, .events = 0 } };

        if (poll(p, 2, wait_ms(&j)) < 0 && errno != EINTR)
            error = errno;
        if (p[1].revents)
            break;
        dir_watch_turn(NULL, &j);
    }
    return error;
}

int dir_watch_poll_fd(const struct guest *g, const struct job *j)
{
    bool room = j->helps || (j->may_send[1] >= EVENT_MAX && !stream_is_busy(g));

    return j->over || !room ? -1 : j->dir_watch->fd;
}

void dir_watch_turn(struct guest *g, struct job *j)
{
    struct dir_watch *o = j->dir_watch;
    uint64_t due_ns = j->deadline_ns;
    bool late = now_ns() >= due_ns;
    bool all = false;

    while (dir_watch_poll_fd(g, j) >= 0) {
        const struct inotify_event *e;

        if (o->lost) {
            o->lost = false;
            tell(g, j, 'g', "", "");
            continue;
        }
        if (o->at == o->len) {
            ssize_t n = read(o->fd, o->events, sizeof o->events);

            if (n <= 0) {
                all = true;
                break;
            }
            o->at = 0;
            o->len = (size_t)n;
        }
        e = (const struct inotify_event *)(const void *)(o->events + o->at);
        o->at += sizeof *e + e->len;
        on_event(g, j, e);
    }
    if (!late || j->deadline_ns != due_ns)
        return;
    /* The other half of a rename may still wait among the events that we have not read
     * yet. */
    if (all)
        end_move(g, j);
    else
        j->deadline_ns = now_ns() + PAIR_NS;
}

bool dir_watch_wants_turn(const struct guest *g, const struct job *j)
{
    return dir_watch_poll_fd(g, j) >= 0 &&
           (j->dir_watch->lost || j->dir_watch->at < j->dir_watch->len);
}

void dir_watch_release(struct job *j)
{
    struct dir_watch *o = j->dir_watch;

    if (!o)
        return;
    if (o->fd >= 0)
        (void)close(o->fd);
    if (o->root_fd >= 0)
        (void)close(o->root_fd);
    for (size_t i = 0; i < o->count; i++)
        free(o->dirs[i].path);
    free(o->dirs);
    free(o->moved_from);
    free(o);
    j->dir_watch = NULL;
}
