/* SPDX-License-Identifier: Apache-2.0 */
#include "volumes/volume_store.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/fail.h"
#include "base/io.h"
#include "base/path.h"
#include "base/remove_tree.h"
#include "base/state.h"
#include "base/str.h"
#include "base/sys.h"

#define OPEN_DIR   (O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)
#define FILE_NAME  (VOLUME_NAME + 4) /* as it lies in the store */
#define RECORD     "vial volume 1\nwriters "
#define RECORD_MAX 256
#define NEW        ".new-"
#define GONE       ".gone-"
#define INSIDE     1000u /* who programs are inside, unless they are root */

/* Bytes of `lock`. */
enum lock_byte { LOCK_USE, LOCK_WRITER };

char *volume_store_path(const char *home)
{
    const char *named = getenv("VIAL_VOLUME_STORE"); /* NOLINT(concurrency-mt-unsafe) */

    return named && named[0] == '/' ? strdup(named) : state_data_path("volumes", home);
}

static int not_here(const char *name, struct vial_error *err)
{
    (void)fail(err, VIAL_E_VOLUME, "there is no volume '%s' here", name);
    return fail_remedy(err, "make it: 'vial volume create %s'", name);
}

static int check_name(const char *name, struct vial_error *err)
{
    if (volume_name_ok(name))
        return 0;
    return fail(
        err, VIAL_E_VALUE,
        "a volume's name is one or two parts, with '/' between them, of letters, "
        "digits, '.', '_' and '-', 64 at most");
}

static void file_of(const char *name, char out[FILE_NAME])
{
    const char *slash = strchr(name, '/');

    if (slash)
        (void)snprintf(out, FILE_NAME, "%.*s%%2F%s", (int)(slash - name), name,
                       slash + 1);
    else
        (void)snprintf(out, FILE_NAME, "%s", name);
}

/* False for what is no volume's. */
static bool name_of(const char *file, char out[VOLUME_NAME])
{
    const char *slash = strstr(file, "%2F");
    int n = slash ? snprintf(out, VOLUME_NAME, "%.*s/%s", (int)(slash - file), file,
                             slash + 3)
                  : snprintf(out, VOLUME_NAME, "%s", file);

    return n > 0 && n < VOLUME_NAME && volume_name_ok(out);
}

/* The store is believed, so nobody else may write to it. -1 with code "" in ERR: there
 * is none. */
static int open_store(const char *store_dir, struct vial_error *err)
{
    auto_fd int fd = open(store_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    struct stat st;

    if (fd < 0 && errno == ENOENT) {
        fail_clear(err);
        return -1;
    }
    if (fd < 0 || fstat(fd, &st) < 0)
        return fail_sys(err, "open the store of volumes '%s'", store_dir);
    if (st.st_uid == geteuid() && !(st.st_mode & 077))
        return fd_take(&fd);
    (void)fail(err, VIAL_E_FILE, "others can enter the store of volumes '%s'",
               store_dir);
    return fail_remedy(err, "chmod 700 it, or name another by VIAL_VOLUME_STORE");
}

static bool is_absent(const struct vial_error *err)
{
    return err->code[0] == '\0';
}

static int make_store(const char *store_dir, struct vial_error *err)
{
    return state_make_dir(store_dir, err) < 0 ? -1 : open_store(store_dir, err);
}

static int lock_store(int store_fd, struct vial_error *err)
{
    return flock(store_fd, LOCK_EX) < 0 ? fail_sys(err, "lock the store of volumes")
                                        : 0;
}

static int lock_byte(int fd, int command, short type, enum lock_byte byte)
{
    struct flock lock = {
        .l_type = type, .l_whence = SEEK_SET, .l_start = byte, .l_len = 1
    };
    int rc = fcntl(fd, command, &lock);

    if (command == F_OFD_GETLK && rc == 0)
        return lock.l_type != F_UNLCK; /* somebody else's is in the way */
    return rc;
}

static int write_file(int dir_fd, const char *name, const char *text)
{
    auto_fd int fd =
        openat(dir_fd, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);

    if (fd < 0)
        return -1;
    return io_write_all(fd, text, strlen(text)) < 0 ? -1 : fsync(fd);
}

/* Whoever programs are inside may write at its top: who can come so far has been asked
 * by the plan. On the host nobody else gets through the store's directory. */
static int make_data(int dir_fd)
{
    auto_fd int fd = -1;

    if (mkdirat(dir_fd, "data", 0700) < 0)
        return -1;
    fd = openat(dir_fd, "data", OPEN_DIR);
    if (fd < 0 || (geteuid() == 0 && fchown(fd, INSIDE, INSIDE) < 0))
        return -1;
    return fchmod(fd, 0777);
}

static int fill(int dir_fd, const struct volume_terms *terms)
{
    char record[RECORD_MAX];

    (void)snprintf(record, sizeof(record), RECORD "%s\ncreated %lld\n",
                   terms->many ? "many" : "one", (long long)time(NULL));
    if (make_data(dir_fd) < 0 || write_file(dir_fd, "lock", "") < 0 ||
        write_file(dir_fd, "record", record) < 0)
        return -1;
    return fsync(dir_fd);
}

/* What makers and removers have left that have died. Under the store's lock, so that no
 * maker is at work; who removes does not mind help. */
static void sweep(int store_fd)
{
    int fd = openat(store_fd, ".", OPEN_DIR);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    const struct dirent *entry;

    /* NOLINTNEXTLINE(concurrency-mt-unsafe): nobody else has this stream */
    while (dir && (entry = readdir(dir))) {
        if (str_starts(entry->d_name, NEW) || str_starts(entry->d_name, GONE))
            remove_tree(store_fd, entry->d_name);
    }
    if (dir)
        (void)closedir(dir);
}

static int take_name(int store_fd, const char *from, const char *name,
                     struct vial_error *err)
{
    char file[FILE_NAME];
    int rc;

    file_of(name, file);
    rc = sys_rename_new(store_fd, from, store_fd, file);
    if (rc == 0 && fsync(store_fd) == 0)
        return 0;
    if (rc == -EEXIST) {
        (void)fail(err, VIAL_E_NAME_TAKEN, "there is a volume '%s' already", name);
        return fail_remedy(err, "use it, or choose another name");
    }
    return fail_sys_rc(err, rc ? rc : -errno, "make the volume '%s'", name);
}

int volume_create(const char *store_dir, const char *name,
                  const struct volume_terms *terms, struct vial_error *err)
{
    auto_fd int store_fd = -1;
    auto_fd int dir_fd = -1;
    char fresh[40] = NEW;
    int rc;

    if (check_name(name, err) < 0)
        return -1;
    store_fd = make_store(store_dir, err);
    if (store_fd < 0 || lock_store(store_fd, err) < 0)
        return -1;
    sweep(store_fd);
    sys_make_id('n', fresh + strlen(NEW));
    if (mkdirat(store_fd, fresh, 0700) == 0)
        dir_fd = openat(store_fd, fresh, OPEN_DIR);
    if (dir_fd < 0 || fill(dir_fd, terms) < 0)
        rc = fail_sys(err, "make the volume '%s'", name);
    else
        rc = take_name(store_fd, fresh, name, err);
    if (rc < 0)
        remove_tree(store_fd, fresh);
    return rc;
}

/* Still what NAME means, now that it is locked. */
static bool is_same(int store_fd, const char *file, int dir_fd)
{
    struct stat a;
    struct stat b;

    return fstat(dir_fd, &a) == 0 &&
           fstatat(store_fd, file, &b, AT_SYMLINK_NOFOLLOW) == 0 &&
           a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

/* Its directory; -1 with ERR. */
static int find(const char *store_dir, const char *name, int *store_fd,
                struct vial_error *err)
{
    struct vial_error why = { 0 };
    char file[FILE_NAME];
    int fd;

    if (check_name(name, err) < 0)
        return -1;
    *store_fd = open_store(store_dir, &why);
    if (*store_fd < 0 && !is_absent(&why)) {
        if (err)
            *err = why;
        return -1;
    }
    file_of(name, file);
    fd = *store_fd < 0 ? -1 : openat(*store_fd, file, OPEN_DIR);
    return fd < 0 ? not_here(name, err) : fd;
}

/* -1: it is not whole. */
static int read_record(int dir_fd, struct volume_info *out)
{
    static const char one[] = RECORD "one\ncreated ";
    static const char many[] = RECORD "many\ncreated ";
    char text[RECORD_MAX];
    const char *created = text;

    if (io_read_at(dir_fd, "record", text, sizeof(text)) <= 0)
        return -1;
    out->many = str_starts(text, many);
    if (!out->many && !str_starts(text, one))
        return -1;
    created += out->many ? sizeof(many) - 1 : sizeof(one) - 1;
    out->created = strtoll(created, NULL, 10);
    return 0;
}

static int take_locks(const struct volume *v, const char *name, bool alone,
                      struct vial_error *err)
{
    if (lock_byte(v->lock_fd, F_OFD_SETLK, F_RDLCK, LOCK_USE) < 0)
        return not_here(name, err); /* it is being removed */
    if (!alone || lock_byte(v->lock_fd, F_OFD_SETLK, F_WRLCK, LOCK_WRITER) == 0)
        return 0;
    (void)fail(err, VIAL_E_BUSY, "another vessel may write to the volume '%s'", name);
    return fail_remedy(err, "wait for its end ('vial ps'), mount it read-only, or make "
                            "one that several may write to ('--writers many')");
}

static int see_data(const char *store_dir, int dir_fd, const char *file,
                    struct volume *out, struct vial_error *err)
{
    auto_str struct str path = { 0 };
    struct stat st;

    if (fstatat(dir_fd, "data", &st, AT_SYMLINK_NOFOLLOW) < 0 || !S_ISDIR(st.st_mode))
        return fail(err, VIAL_E_FILE, "the volume has lost its directory");
    out->dev = st.st_dev;
    out->ino = st.st_ino;
    str_printf(&path, "%s/%s/data", store_dir, file);
    out->path = str_take(&path);
    return out->path ? 0 : fail_memory(err);
}

int volume_open(const char *store_dir, const char *name, bool writable,
                struct volume *out, struct vial_error *err)
{
    struct volume v = VOLUME_NONE;
    struct volume_info info = { 0 };
    auto_fd int store_fd = -1;
    auto_fd int dir_fd = find(store_dir, name, &store_fd, err);
    char file[FILE_NAME];
    int rc = -1;

    if (dir_fd < 0)
        return -1;
    file_of(name, file);
    v.lock_fd = openat(dir_fd, "lock", O_RDWR | O_CLOEXEC | O_NOFOLLOW);
    if (v.lock_fd < 0 || read_record(dir_fd, &info) < 0)
        (void)fail(err, VIAL_E_FILE, "the volume '%s' is not whole", name);
    else if (take_locks(&v, name, writable && !info.many, err) == 0)
        rc = is_same(store_fd, file, dir_fd)
                 ? see_data(store_dir, dir_fd, file, &v, err)
                 : not_here(name, err);
    if (rc < 0) {
        volume_close(&v);
        return -1;
    }
    /* For who removes what was not used for long; may fail, being a help. */
    (void)futimens(v.lock_fd, NULL);
    *out = v;
    return 0;
}

/* By its own word: a child that is just being made may have a copy of the descriptor.
 */
void volume_close(struct volume *v)
{
    struct flock all = { .l_type = F_UNLCK, .l_whence = SEEK_SET };

    if (v->lock_fd >= 0)
        (void)fcntl(v->lock_fd, F_OFD_SETLK, &all);
    auto_fd_(&v->lock_fd);
    free(v->path);
    *v = (struct volume)VOLUME_NONE;
}

/* -1: there is no volume of that name in the store. */
static int see(int dir_fd, const char *name, struct volume_info *out)
{
    auto_fd int lock_fd = openat(dir_fd, "lock", O_RDWR | O_CLOEXEC | O_NOFOLLOW);
    struct stat st;

    *out = (struct volume_info){ 0 };
    if (lock_fd < 0 || fstat(lock_fd, &st) < 0 || read_record(dir_fd, out) < 0)
        return -1;
    (void)snprintf(out->name, sizeof(out->name), "%s", name);
    out->used = st.st_mtime;
    out->busy = lock_byte(lock_fd, F_OFD_GETLK, F_WRLCK, LOCK_USE) == 1;
    out->written = lock_byte(lock_fd, F_OFD_GETLK, F_WRLCK, LOCK_WRITER) == 1;
    return 0;
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(((const struct volume_info *)a)->name,
                  ((const struct volume_info *)b)->name);
}

static int add_row(int store_fd, const char *file, struct volume_info **rows,
                   size_t *count)
{
    auto_fd int dir_fd = openat(store_fd, file, OPEN_DIR);
    struct volume_info row;
    struct volume_info *grown;
    char name[VOLUME_NAME];

    if (dir_fd < 0 || !name_of(file, name) || see(dir_fd, name, &row) < 0)
        return 0;
    grown = reallocarray(*rows, *count + 1, sizeof(*grown));
    if (!grown)
        return -1;
    *rows = grown;
    grown[(*count)++] = row;
    return 0;
}

int volume_list(const char *store_dir, struct volume_info **out, size_t *count,
                struct vial_error *err)
{
    struct vial_error why = { 0 };
    auto_fd int store_fd = open_store(store_dir, &why);
    int fd = store_fd < 0 ? -1 : openat(store_fd, ".", OPEN_DIR);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    const struct dirent *entry;
    int rc = 0;

    *out = NULL;
    *count = 0;
    if (store_fd < 0 && !is_absent(&why) && err)
        *err = why;
    if (store_fd < 0)
        return is_absent(&why) ? 0 : -1;
    /* NOLINTNEXTLINE(concurrency-mt-unsafe): nobody else has this stream */
    while (rc == 0 && dir && (entry = readdir(dir)))
        if (entry->d_name[0] != '.')
            rc = add_row(store_fd, entry->d_name, out, count);
    if (dir)
        (void)closedir(dir);
    if (rc < 0) {
        free(*out);
        *out = NULL;
        return fail_memory(err);
    }
    if (*count)
        qsort(*out, *count, sizeof(**out), compare_names);
    return 0;
}

int volume_look(const char *store_dir, const char *name, struct volume_info *out,
                struct vial_error *err)
{
    auto_fd int store_fd = -1;
    auto_fd int dir_fd = find(store_dir, name, &store_fd, err);

    if (dir_fd < 0)
        return -1;
    return see(dir_fd, name, out) < 0
               ? fail(err, VIAL_E_FILE, "the volume '%s' is not whole", name)
               : 0;
}

/* UNUSED_FOR_S: 0, or only if nobody had it for so long; then 1: it stays. */
static int remove_one(int store_fd, const char *name, int64_t unused_for_s,
                      struct vial_error *err)
{
    char file[FILE_NAME];
    char gone[40] = GONE;
    auto_fd int dir_fd = -1;
    auto_fd int lock_fd = -1;
    struct stat st;

    file_of(name, file);
    sys_make_id('g', gone + strlen(GONE));
    dir_fd = openat(store_fd, file, OPEN_DIR);
    if (dir_fd < 0)
        return not_here(name, err);
    lock_fd = openat(dir_fd, "lock", O_RDWR | O_CLOEXEC | O_NOFOLLOW);
    if (lock_fd >= 0 && lock_byte(lock_fd, F_OFD_SETLK, F_WRLCK, LOCK_USE) < 0) {
        (void)fail(err, VIAL_E_BUSY, "volume '%s' is in use", name);
        return fail_remedy(err, "end what has it first: 'vial ps'");
    }
    if (unused_for_s > 0 && (lock_fd < 0 || fstat(lock_fd, &st) < 0 ||
                             time(NULL) - st.st_mtime < unused_for_s))
        return 1;
    if (!is_same(store_fd, file, dir_fd))
        return not_here(name, err);
    if (renameat(store_fd, file, store_fd, gone) < 0)
        return fail_sys(err, "remove the volume '%s'", name);
    remove_tree(store_fd, gone);
    return 0;
}

int volume_remove(const char *store_dir, const char *name, struct vial_error *err)
{
    auto_fd int store_fd = -1;
    auto_fd int dir_fd = find(store_dir, name, &store_fd, err);

    return dir_fd < 0 ? -1 : remove_one(store_fd, name, 0, err);
}

int volume_prune(const char *store_dir, int64_t unused_for_s, unsigned *removed,
                 struct vial_error *err)
{
    struct volume_info *rows = NULL;
    struct vial_error none = { 0 };
    auto_fd int store_fd = -1;
    size_t count = 0;

    *removed = 0;
    if (volume_list(store_dir, &rows, &count, err) < 0)
        return -1;
    store_fd = open_store(store_dir, &none);
    for (size_t i = 0; store_fd >= 0 && i < count; i++)
        *removed += remove_one(store_fd, rows[i].name, unused_for_s, &none) == 0;
    if (store_fd >= 0 && lock_store(store_fd, &none) == 0)
        sweep(store_fd);
    free(rows);
    return 0;
}
