/* SPDX-License-Identifier: Apache-2.0 */
#include "volumes/volume_dir.h"

#include <dirent.h>
#include <errno.h>
#include <poll.h>
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
#include "base/remove_tree.h"
#include "base/state.h"
#include "base/str.h"

#define RECORD     "vial volume 1\nwriters "
#define RECORD_MAX 256
#define LOCK_MS    20 /* between two looks */
#define SIZE       "\nsize "

void volume_file_of(const char *name, char out[VOLUME_FILE])
{
    const char *slash = strchr(name, '/');

    if (slash)
        (void)snprintf(out, VOLUME_FILE, "%.*s%%2F%s", (int)(slash - name), name,
                       slash + 1);
    else
        (void)snprintf(out, VOLUME_FILE, "%s", name);
}

bool volume_name_of(const char *file, char out[VOLUME_NAME])
{
    const char *slash = strstr(file, "%2F");
    int n = slash ? snprintf(out, VOLUME_NAME, "%.*s/%s", (int)(slash - file), file,
                             slash + 3)
                  : snprintf(out, VOLUME_NAME, "%s", file);

    return n > 0 && n < VOLUME_NAME && volume_name_ok(out);
}

int volume_check_name(const char *name, struct vial_error *err)
{
    if (volume_name_ok(name))
        return 0;
    (void)fail(
        err, VIAL_E_VALUE,
        "a volume's name is one or two parts, with '/' between them, of letters, "
        "digits, '.', '_' and '-', 64 at most");
    return fail_remedy(err, "call it for example 'data', or 'ann/data'");
}

int volume_not_here(const char *name, struct vial_error *err)
{
    (void)fail(err, VIAL_E_VOLUME, "there is no volume '%s' here", name);
    return fail_remedy(err, "make it: 'vial volume create %s'", name);
}

int volume_not_whole(const char *name, struct vial_error *err)
{
    (void)fail(err, VIAL_E_FILE, "the volume '%s' is not whole", name);
    return fail_remedy(err,
                       "save what is left below 'data' in its directory of the store, "
                       "then 'vial volume remove %s', and make it anew",
                       name);
}

int volume_dir_store(const char *store_dir, struct vial_error *err)
{
    static const struct state_store kind = { .name = "the store of volumes",
                                             .variable = "VIAL_VOLUME_STORE",
                                             .closed = 077 };

    return state_open_store(store_dir, &kind, err);
}

int volume_dir_lock(int store_fd, int most_ms, struct vial_error *err)
{
    for (int waited = 0; flock(store_fd, LOCK_EX | LOCK_NB) < 0; waited += LOCK_MS) {
        if (errno != EWOULDBLOCK && errno != EINTR)
            return fail_sys(err, "lock the store of volumes");
        if (waited >= most_ms) {
            (void)fail(err, VIAL_E_BUSY, "others are making volumes");
            return fail_remedy(err, "try it again");
        }
        (void)poll(NULL, 0, LOCK_MS);
    }
    return 0;
}

/* Its errors are told: a store that cannot be read is not an empty one. */
int volume_dir_each(int store_fd, volume_see *see, void *context,
                    struct vial_error *err)
{
    auto_fd int fd = openat(store_fd, ".", VOLUME_OPEN_DIR);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    const struct dirent *entry = NULL;
    int rc = 0;

    if (!dir)
        return fail_sys(err, "read the store of volumes");
    (void)fd_take(&fd);
    do {
        errno = 0;
        entry = readdir(dir); /* NOLINT(concurrency-mt-unsafe): nobody else has it */
        if (!entry && errno)
            rc = fail_sys(err, "read the store of volumes");
        else if (entry && !str_eq(entry->d_name, ".") && !str_eq(entry->d_name, ".."))
            rc = see(store_fd, entry->d_name, context);
    } while (entry && rc == 0);
    (void)closedir(dir);
    return rc;
}

static bool is_at_work(int store_fd, const char *file)
{
    auto_fd int dir_fd = openat(store_fd, file, VOLUME_OPEN_DIR);

    return dir_fd >= 0 && flock(dir_fd, LOCK_EX | LOCK_NB) < 0;
}

static int sweep_one(int store_fd, const char *file, void *context)
{
    if (str_starts(file, context) && !is_at_work(store_fd, file))
        remove_tree(store_fd, file);
    return 0;
}

int volume_dir_sweep(int store_fd, const char *beginning, struct vial_error *err)
{
    return volume_dir_each(store_fd, sweep_one, (void *)(uintptr_t)beginning, err);
}

bool volume_dir_same(int store_fd, const char *file, int dir_fd)
{
    struct stat a;
    struct stat b;

    return fstat(dir_fd, &a) == 0 &&
           fstatat(store_fd, file, &b, AT_SYMLINK_NOFOLLOW) == 0 &&
           a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

int volume_dir_find(const char *store_dir, const char *name, int *store_fd,
                    struct vial_error *err)
{
    struct vial_error why = { 0 };
    char file[VOLUME_FILE];
    int fd;

    if (volume_check_name(name, err) < 0)
        return -1;
    *store_fd = volume_dir_store(store_dir, &why);
    if (*store_fd < 0 && !state_is_absent(&why)) {
        if (err)
            *err = why;
        return -1;
    }
    volume_file_of(name, file);
    fd = *store_fd < 0 ? -1 : openat(*store_fd, file, VOLUME_OPEN_DIR);
    if (fd < 0 && *store_fd >= 0 && errno != ENOENT)
        return fail_sys(err, "open the volume '%s'", name);
    return fd < 0 ? volume_not_here(name, err) : fd;
}

int volume_lock_byte(int fd, int command, short type, enum volume_byte byte)
{
    struct flock lock = {
        .l_type = type, .l_whence = SEEK_SET, .l_start = byte, .l_len = 1
    };
    int rc = fcntl(fd, command, &lock);

    if (command == F_OFD_GETLK && rc == 0)
        return lock.l_type != F_UNLCK;
    return rc;
}

int volume_record_write(int dir_fd, const struct volume_terms *terms)
{
    auto_fd int fd =
        openat(dir_fd, "record", O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    char text[RECORD_MAX];
    int n = snprintf(text, sizeof(text), RECORD "%s\ncreated %lld\nsize %llu\n",
                     terms->many ? "many" : "one", (long long)time(NULL),
                     (unsigned long long)terms->size);

    return fd < 0 || io_write_all(fd, text, (size_t)n) < 0 ? -1 : fsync(fd);
}

int volume_record_read(int dir_fd, struct volume_info *out)
{
    static const char one[] = RECORD "one\ncreated ";
    static const char many[] = RECORD "many\ncreated ";
    char text[RECORD_MAX];
    const char *created = text;
    char *rest = NULL;

    if (io_read_at(dir_fd, "record", text, sizeof(text)) <= 0)
        return -1;
    out->many = str_starts(text, many);
    if (!out->many && !str_starts(text, one))
        return -1;
    created += out->many ? sizeof(many) - 1 : sizeof(one) - 1;
    out->created = strtoll(created, &rest, 10);
    if (str_starts(rest, SIZE)) /* the first ones had none */
        out->size = strtoull(rest + strlen(SIZE), NULL, 10);
    return 0;
}

bool volume_data_there(int dir_fd, const struct volume_info *info, struct stat *st)
{
    if (fstatat(dir_fd, info->size ? VOLUME_DISK : "data", st, AT_SYMLINK_NOFOLLOW) < 0)
        return false;
    return info->size ? S_ISREG(st->st_mode) && (uint64_t)st->st_size == info->size
                      : S_ISDIR(st->st_mode);
}
