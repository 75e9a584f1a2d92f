/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "guest/guest.h"

#define TEMP_TRIES 100
#define HOLES_TOLD (UINT64_C(1) << 20)
#define PARTS_MAX  65536
/* Bytes of a packed entry with the longest name, and target or attributes. */
#define ENTRY_MAX (324 + LIST_TARGET_MAX + LIST_ATTRIBUTES_MAX)

void files_finish(struct guest *g, struct job *j, int error, const char *text)
{
    struct pack p = { 0 };

    pack_u32(&p, (uint32_t)error);
    pack_text(&p, error ? text : "");
    stream_put(g, j, WIRE_DONE, 0, &p);
    pack_done(&p);
    j->over = true;
}

int files_write_all(int fd, const void *data, size_t len)
{
    size_t done = 0;

    while (done < len) {
        ssize_t n = write(fd, (const char *)data + done, len - done);

        if (n < 0 && errno != EINTR)
            return -errno;
        done += n > 0 ? (size_t)n : 0;
    }
    return 0;
}

/* ".vial-N", in decimal. */
static void name_temp(unsigned number, char *out)
{
    char digits[16];
    size_t n = 0;

    do
        digits[n++] = (char)('0' + number % 10);
    while (number /= 10);
    out = stpcpy(out, ".vial-");
    while (n)
        *out++ = digits[--n];
    *out = 0;
}

/* A new file, or -errno. */
static int create(int dir_fd, const char *name, mode_t mode)
{
    int fd = openat(dir_fd, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
                    0600);
    int rc = fd < 0 ? -errno : fd;

    if (fd >= 0 && fchmod(fd, mode) < 0) {
        rc = -errno;
        (void)unlinkat(dir_fd, name, 0);
        (void)close(fd);
    }
    return rc;
}

int files_make_temp(int dir_fd, unsigned first, char *out, mode_t mode)
{
    int fd = -EEXIST;

    for (unsigned i = 0; i < TEMP_TRIES && fd == -EEXIST; i++) {
        name_temp(first + i, out);
        fd = create(dir_fd, out, mode);
    }
    if (fd < 0)
        out[0] = 0;
    return fd;
}

/* Before anything has run, and with nothing else under way, nobody can see a file that
 * is not whole. */
static bool is_unseen(const struct guest *g, const struct job *j)
{
    for (size_t i = 0; i < g->job_count; i++)
        if (g->jobs[i] != j && !g->jobs[i]->over)
            return false;
    return g->exec_count == 0 && stream_has_end(g, j->channel);
}

/* By its own name, if that is free. What else goes wrong, the other way will tell. */
static int open_direct(const struct guest *g, struct job *j, mode_t mode)
{
    int fd = is_unseen(g, j) ? create(j->dir_fd, j->name, mode) : -1;

    j->direct = fd >= 0;
    return fd;
}

/* A request without a mode gets the mode of the file which is replaced. */
mode_t files_put_mode(const struct put_message *m, const struct stat *old)
{
    if (m->mode)
        return m->mode & 0777;
    return S_ISREG(old->st_mode) ? old->st_mode & 0777 : 0644;
}

/* As far as the guest may: where it may not, programs have one owner only. */
void files_keep_owner(int fd, const struct stat *old)
{
    struct stat now;

    if (S_ISREG(old->st_mode) && fstat(fd, &now) == 0 &&
        (now.st_uid != old->st_uid || now.st_gid != old->st_gid))
        (void)!fchown(fd, old->st_uid, old->st_gid);
}

/* Of a file that will not be whole. The next frame may start a program, which shall
 * not find it. */
static void drop_part(struct job *j)
{
    if (j->temp[0] || j->direct)
        (void)unlinkat(j->dir_fd, j->direct ? j->name : j->temp, 0);
    j->temp[0] = '\0';
    j->direct = false;
}

void files_put(struct guest *g, struct job *j, const struct put_message *m)
{
    const char *name = NULL;
    struct stat old;
    int error;

    if (*m->path == '/') {
        exec_help(g, j, &(struct path_op){ .put = m });
        return;
    }
    j->dir_fd = below_parent(g->workdir_fd, m->path, true, &name);
    if (j->dir_fd < 0) {
        files_finish(g, j, -j->dir_fd, "path");
        return;
    }
    if (fstatat(j->dir_fd, name, &old, AT_SYMLINK_NOFOLLOW) < 0)
        old = (struct stat){ 0 };
    j->name = strdup(name);
    j->file_fd = j->name ? open_direct(g, j, files_put_mode(m, &old)) : -ENOMEM;
    if (j->name && j->file_fd < 0)
        j->file_fd = files_make_temp(j->dir_fd, g->temp_count++, j->temp,
                                     files_put_mode(m, &old));
    if (j->file_fd < 0) {
        files_finish(g, j, -j->file_fd, "create");
        return;
    }
    files_keep_owner(j->file_fd, &old);
    error = -attributes_write(j->file_fd, m->attributes);
    if (error) {
        drop_part(j);
        files_finish(g, j, error, "attributes");
    }
}

void files_put_data(struct guest *g, struct job *j, const uint8_t *data, size_t len)
{
    size_t done = 0;

    while (done < len) {
        ssize_t n = write(j->file_fd, data + done, len - done);

        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0) {
            files_finish(g, j, n < 0 ? errno : EIO, "write");
            drop_part(j);
            return;
        }
        done += (size_t)n;
    }
    host_used(g, j, len);
}

/* The next frame may start it, and what is open for writing cannot be executed. */
void files_put_end(struct guest *g, struct job *j)
{
    int rc;

    (void)close(j->file_fd);
    j->file_fd = -1;
    rc = j->direct ? 0 : renameat(j->dir_fd, j->temp, j->dir_fd, j->name);
    if (rc == 0)
        j->temp[0] = 0; /* nothing to clean up */
    j->direct = false;
    files_finish(g, j, rc < 0 ? errno : 0, "rename");
}

/* How many bytes of LEN were never written, if they are more than HOLES_TOLD: they cost
 * a program nothing, and could take for ever to send. The file may be longer, or become
 * so meanwhile. */
static uint64_t count_holes(int fd, const struct stat *st, uint64_t from, uint64_t len)
{
    const uint64_t end = from + len;
    uint64_t holes = 0;
    uint64_t at = from;

    if (len <= (uint64_t)st->st_blocks * 512 + HOLES_TOLD)
        return 0;
    for (unsigned i = 0; i < PARTS_MAX && at < end; i++) {
        off_t data = lseek(fd, (off_t)at, SEEK_DATA);
        off_t hole = data < 0 ? -1 : lseek(fd, data, SEEK_HOLE);

        if (data < 0 && errno != ENXIO)
            return 0; /* this file system knows of none */
        holes += data < 0 ? end - at : least((uint64_t)data, end) - at;
        at = hole < 0 ? end : (uint64_t)hole;
    }
    holes += at < end ? end - at : 0; /* in too many parts */
    return holes > HOLES_TOLD ? holes : 0;
}

/* Only the bytes that are there now are read; what is written from now on is not waited
 * for. */
int files_begin_get(int fd, const struct get_message *m, uint64_t *left)
{
    struct stat st;

    if (fstat(fd, &st) < 0)
        return -errno;
    *left = (uint64_t)st.st_size > m->offset ? (uint64_t)st.st_size - m->offset : 0;
    if (m->len && m->len < *left)
        *left = m->len;
    if (count_holes(fd, &st, m->offset, *left) > WIRE_HOLES_MAX)
        return -EFBIG;
    return lseek(fd, (off_t)m->offset, SEEK_SET) < 0 ? -errno : 0;
}

void files_get(struct guest *g, struct job *j, const struct get_message *m)
{
    int rc;

    if (*m->path == '/') {
        exec_help(g, j, &(struct path_op){ .get = m });
        return;
    }
    j->file_fd = below_open_file(g->workdir_fd, m->path);
    rc = j->file_fd < 0 ? j->file_fd : files_begin_get(j->file_fd, m, &j->file_left);
    if (rc < 0)
        files_finish(g, j, -rc, "open");
}

void files_list(struct guest *g, struct job *j, const char *path)
{
    int fd;

    if (*path == '/') {
        exec_help(g, j, &(struct path_op){ .list = path });
        return;
    }
    fd = below_open_dir(g->workdir_fd, path);
    if (fd < 0) {
        files_finish(g, j, -fd, "open");
        return;
    }
    j->dir = fdopendir(fd);
    if (!j->dir) {
        files_finish(g, j, errno, "open");
        (void)close(fd);
    }
}

static void end_data(struct guest *g, struct job *j)
{
    stream_put(g, j, WIRE_EOF, 1, NULL);
    files_finish(g, j, 0, "");
}

static void get_turn(struct guest *g, struct job *j)
{
    size_t want = least(least(j->may_send[1], CHUNK), j->file_left);
    ssize_t n = 0;

    if (want)
        n = read(j->file_fd, stream_reserve(g, want), want);
    if (n < 0 && errno != EINTR)
        files_finish(g, j, errno, "read");
    if (n > 0) {
        stream_commit(g, j, 1, (size_t)n);
        j->file_left -= (uint64_t)n;
    }
    if (n == 0 || (n > 0 && !j->file_left)) /* it may have become shorter */
        end_data(g, j);
}

static uint32_t type_letter(mode_t mode)
{
    if (S_ISREG(mode))
        return 'f';
    if (S_ISDIR(mode))
        return 'd';
    return S_ISLNK(mode) ? 'l' : 'o';
}

/* A regular file that may be read, or -1. */
static int open_entry(int dir_fd, const char *name, const struct stat *st)
{
    if (!S_ISREG(st->st_mode))
        return -1;
    return *name ? openat(dir_fd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC)
                 : fcntl(dir_fd, F_DUPFD_CLOEXEC, 0);
}

static uint64_t holes_of(int fd, const struct stat *st)
{
    uint64_t size = st->st_size > 0 ? (uint64_t)st->st_size : 0;

    if (fd < 0 || size <= (uint64_t)st->st_blocks * 512 + HOLES_TOLD)
        return 0;
    return count_holes(fd, st, 0, size);
}

/* NOLINTNEXTLINE(readability-non-const-parameter): the entry holds it */
void files_pack_entry(struct pack *p, int dir_fd, const char *at, char *name)
{
    char target[LIST_TARGET_MAX + 1], attributes[LIST_ATTRIBUTES_MAX + 1];
    struct list_entry e = { .name = name, .target = target, .attributes = attributes };
    ssize_t n = -1;
    struct stat st;
    int fd;

    if (fstatat(dir_fd, at, &st, AT_SYMLINK_NOFOLLOW | AT_EMPTY_PATH) < 0)
        return; /* gone since it was read */
    e.type = type_letter(st.st_mode);
    e.mode = st.st_mode & 07777;
    e.size = st.st_size > 0 ? (uint64_t)st.st_size : 0;
    fd = open_entry(dir_fd, at, &st);
    e.holes = holes_of(fd, &st);
    attributes_read(fd, attributes);
    if (fd >= 0)
        (void)close(fd);
    e.uid = st.st_uid;
    e.gid = st.st_gid;
    if (S_ISLNK(st.st_mode))
        n = readlinkat(dir_fd, at, target, sizeof target - 1);
    target[n > 0 ? n : 0] = 0;
    if (st.st_mtim.tv_sec > 0)
        e.mtime_ns =
            (uint64_t)st.st_mtim.tv_sec * 1000000000 + (uint64_t)st.st_mtim.tv_nsec;
    list_entry_write(p, &e);
}

static void list_turn(struct guest *g, struct job *j)
{
    size_t most = least(j->may_send[1], CHUNK);
    struct pack p = { 0 };
    struct dirent *entry = NULL;

    /* NOLINTNEXTLINE(concurrency-mt-unsafe): the guest has one thread */
    while (p.len + ENTRY_MAX <= most && (entry = readdir(j->dir)))
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
            files_pack_entry(&p, dirfd(j->dir), entry->d_name, entry->d_name);
    if (p.len) {
        stream_put(g, j, WIRE_DATA, 1, &p);
        j->may_send[1] -= (uint32_t)p.len;
    }
    if (!entry && p.len + ENTRY_MAX <= most)
        end_data(g, j);
    pack_done(&p);
}

bool files_want_turn(const struct guest *g, const struct job *j)
{
    if (j->over || j->kind == JOB_PUT || j->kind == JOB_WATCH || stream_is_busy(g))
        return false;
    return j->kind == JOB_GET ? j->may_send[1] > 0 : j->may_send[1] >= ENTRY_MAX;
}

void files_turn(struct guest *g, struct job *j)
{
    if (!files_want_turn(g, j))
        return;
    if (j->kind == JOB_GET)
        get_turn(g, j);
    else
        list_turn(g, j);
}

void files_close(struct guest *g, struct job *j)
{
    drop_part(j);
    dir_watch_release(
        j); /* the next frame may ask for another, of which there are few */
    files_finish(g, j, ECANCELED, "closed");
}

void files_release(struct job *j)
{
    drop_part(j);
    if (j->file_fd >= 0)
        (void)close(j->file_fd);
    if (j->dir_fd >= 0)
        (void)close(j->dir_fd);
    if (j->dir)
        (void)closedir(j->dir);
    free(j->name);
}
