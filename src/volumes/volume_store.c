/* SPDX-License-Identifier: Apache-2.0 */
#include "volumes/volume_store.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/fail.h"
#include "base/remove_tree.h"
#include "base/state.h"
#include "base/str.h"
#include "base/sys.h"
#include "volumes/volume_dir.h"

#define INSIDE 1000u /* who programs are inside, unless they are root */

char *volume_store_path(const char *chosen, const char *home)
{
    const char *named = getenv("VIAL_VOLUME_STORE"); /* NOLINT(concurrency-mt-unsafe) */

    if (named && named[0] == '/')
        return strdup(named);
    return chosen ? strdup(chosen) : state_data_path("volumes", home);
}

static int make_store(const char *store_dir, struct vial_error *err)
{
    return state_make_dir(store_dir, err) < 0 ? -1 : volume_dir_store(store_dir, err);
}

/* Whoever programs are inside may write at its top: who can come so far has been asked
 * by the plan. On the host nobody else gets through the store's directory. */
static int make_data(int dir_fd)
{
    auto_fd int fd = -1;

    if (mkdirat(dir_fd, "data", 0700) < 0)
        return -1;
    fd = openat(dir_fd, "data", VOLUME_OPEN_DIR);
    if (fd < 0 || (geteuid() == 0 && fchown(fd, INSIDE, INSIDE) < 0))
        return -1;
    return fchmod(fd, 0777);
}

static int make_lock(int dir_fd)
{
    auto_fd int fd =
        openat(dir_fd, "lock", O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);

    return fd < 0 ? -1 : fsync(fd);
}

static int fill(int dir_fd, const char *name, const struct volume_terms *terms,
                struct vial_error *err)
{
    if (terms->size && volume_disk_make(dir_fd, terms->size, INSIDE, err) < 0)
        return -1;
    if ((terms->size || make_data(dir_fd) == 0) && make_lock(dir_fd) == 0 &&
        volume_record_write(dir_fd, terms) == 0 && fsync(dir_fd) == 0)
        return 0;
    return fail_sys(err, "make the volume '%s'", name);
}

static int take_name(int store_fd, const char *from, const char *name,
                     struct vial_error *err)
{
    char file[VOLUME_FILE];
    int rc;

    volume_file_of(name, file);
    rc = sys_rename_new(store_fd, from, store_fd, file);
    if (rc == 0 && fsync(store_fd) == 0)
        return 0;
    if (rc == -EEXIST) {
        (void)fail(err, VIAL_E_NAME_TAKEN, "there is a volume '%s' already", name);
        return fail_remedy(err, "use it, or choose another name");
    }
    return fail_sys_rc(err, rc ? rc : -errno, "make the volume '%s'", name);
}

/* How many there are; how many of the owner of NAME, and their sizes together. */
struct census {
    const char *name;
    uint32_t all, of_owner;
    uint64_t size;
};

static uint64_t size_of(int store_fd, const char *file)
{
    auto_fd int dir_fd = openat(store_fd, file, VOLUME_OPEN_DIR);
    struct volume_info info = { 0 };

    return dir_fd < 0 || volume_record_read(dir_fd, &info) < 0 ? 0 : info.size;
}

static int count_one(int store_fd, const char *file, void *context)
{
    struct census *c = context;
    const char *slash = strchr(c->name, '/');
    char name[VOLUME_NAME];

    if (!volume_name_of(file, name))
        return 0;
    c->all++;
    if (!slash || strncmp(name, c->name, (size_t)(slash - c->name) + 1) != 0)
        return 0;
    c->of_owner++;
    c->size += size_of(store_fd, file);
    return 0;
}

static int check_size(const struct census *c, const struct volume_terms *terms,
                      struct vial_error *err)
{
    int owner_len = (int)strcspn(c->name, "/");

    if (!terms->most_size || (terms->size && terms->size <= terms->most_size &&
                              c->size <= terms->most_size - terms->size))
        return 0;
    if (!terms->size)
        (void)fail(err, VIAL_E_CAP, "the volume '%s' must have a size", c->name);
    else
        (void)fail(err, VIAL_E_CAP,
                   "the volumes of '%.*s' would have %llu bytes, and may have %llu",
                   owner_len, c->name, (unsigned long long)(c->size + terms->size),
                   (unsigned long long)terms->most_size);
    return fail_remedy(err, "the setting 'volumes.caller_size' says how large one "
                            "caller's may be together");
}

/* Under the store's lock, so that the count holds until this one is made. */
static int check_room(int store_fd, const char *name, const struct volume_terms *terms,
                      struct vial_error *err)
{
    struct census c = { .name = name };
    const char *slash = strchr(name, '/');

    if (volume_dir_each(store_fd, count_one, &c, err) < 0)
        return -1;
    if (c.all >= terms->most) {
        (void)fail(err, VIAL_E_CAP, "there are %u volumes, and may not be more", c.all);
        return fail_remedy(err, "remove one; the setting 'volumes.most' says how many "
                                "a daemon makes");
    }
    if (!slash)
        return 0;
    if (c.of_owner < terms->most_of_owner)
        return check_size(&c, terms, err);
    (void)fail(err, VIAL_E_CAP, "'%.*s' has %u volumes, and may not have more",
               (int)(slash - name), name, c.of_owner);
    return fail_remedy(err,
                       "remove one; the setting 'volumes.caller' says how many one "
                       "caller may have");
}

static int make(int store_fd, const char *name, const struct volume_terms *terms,
                struct vial_error *err)
{
    auto_fd int dir_fd = -1;
    char fresh[40] = VOLUME_NEW;
    int rc;

    sys_make_id('n', fresh + strlen(VOLUME_NEW));
    if (mkdirat(store_fd, fresh, 0700) == 0)
        dir_fd = openat(store_fd, fresh, VOLUME_OPEN_DIR);
    if (dir_fd < 0)
        rc = fail_sys(err, "make the volume '%s'", name);
    else
        rc = fill(dir_fd, name, terms, err) < 0 ? -1
                                                : take_name(store_fd, fresh, name, err);
    if (rc < 0)
        remove_tree(store_fd, fresh);
    return rc;
}

static int check_range(uint64_t size, struct vial_error *err)
{
    if (!size || (size >= VOLUME_SIZE_LEAST && size <= VOLUME_SIZE_MOST))
        return 0;
    (void)fail(err, VIAL_E_VALUE, "a volume's size is not from 16m to 16t");
    return fail_remedy(err, "choose for example 1g, or leave it out");
}

int volume_create(const char *store_dir, const char *name,
                  const struct volume_terms *terms, struct vial_error *err)
{
    auto_fd int store_fd = -1;

    if (volume_check_name(name, err) < 0 || check_range(terms->size, err) < 0)
        return -1;
    store_fd = make_store(store_dir, err);
    if (store_fd < 0 || volume_dir_sweep(store_fd, VOLUME_GONE, err) < 0 ||
        volume_dir_lock(store_fd, VOLUME_LOCK_MS, err) < 0 ||
        volume_dir_sweep(store_fd, VOLUME_NEW, err) < 0 ||
        check_room(store_fd, name, terms, err) < 0)
        return -1;
    return make(store_fd, name, terms, err);
}

static int take_locks(const struct volume *v, const char *name, bool writable,
                      bool many, struct vial_error *err)
{
    if (volume_lock_byte(v->lock_fd, F_OFD_SETLK, F_RDLCK, VOLUME_USE) < 0)
        return volume_not_here(name, err); /* it is being removed */
    if (!writable || volume_lock_byte(v->lock_fd, F_OFD_SETLK, many ? F_RDLCK : F_WRLCK,
                                      VOLUME_WRITER) == 0)
        return 0;
    (void)fail(err, VIAL_E_BUSY, "another vessel may write to the volume '%s'", name);
    return fail_remedy(err, "wait for its end ('vial ps'), mount it read-only, or make "
                            "one that several may write to ('--writers many')");
}

/* Two who look at once would both take a fresh device. */
static int attach(int dir_fd, struct volume *v, struct vial_error *err)
{
    if (volume_lock_byte(v->lock_fd, F_OFD_SETLKW, F_WRLCK, VOLUME_ATTACH) < 0)
        return fail_sys(err, "lock the disk of a volume");
    v->loop_fd = volume_disk_attach(dir_fd, v->device, err);
    (void)volume_lock_byte(v->lock_fd, F_OFD_SETLK, F_UNLCK, VOLUME_ATTACH);
    return v->loop_fd < 0 ? -1 : 0;
}

static int see_data(const char *store_dir, int dir_fd, const char *name,
                    const struct volume_info *info, struct volume *out,
                    struct vial_error *err)
{
    auto_str struct str path = { 0 };
    auto_free char *real = realpath(store_dir, NULL); /* mounts follow no links */
    char file[VOLUME_FILE];
    struct stat st;

    if (!real)
        return fail_sys(err, "find the store of volumes '%s'", store_dir);
    if (!volume_data_there(dir_fd, info, &st))
        return volume_not_whole(name, err);
    if (info->size)
        return attach(dir_fd, out, err);
    out->dev = st.st_dev;
    out->ino = st.st_ino;
    volume_file_of(name, file);
    str_printf(&path, "%s/%s/data", real, file);
    out->path = str_take(&path);
    return out->path ? 0 : fail_memory(err);
}

int volume_open(const char *store_dir, const char *name, bool writable,
                struct volume *out, struct vial_error *err)
{
    struct volume v = VOLUME_NONE;
    struct volume_info info = { 0 };
    auto_fd int store_fd = -1;
    auto_fd int dir_fd = volume_dir_find(store_dir, name, &store_fd, err);
    char file[VOLUME_FILE];
    int rc = -1;

    if (dir_fd < 0)
        return -1;
    volume_file_of(name, file);
    v.lock_fd = openat(dir_fd, "lock", O_RDWR | O_CLOEXEC | O_NOFOLLOW);
    if (v.lock_fd < 0 && errno != ENOENT)
        rc = fail_sys(err, "open the lock of volume '%s'", name);
    else if (v.lock_fd < 0 || volume_record_read(dir_fd, &info) < 0)
        rc = volume_dir_same(store_fd, file, dir_fd) ? volume_not_whole(name, err)
                                                     : volume_not_here(name, err);
    else if (take_locks(&v, name, writable, info.many, err) == 0)
        rc = volume_dir_same(store_fd, file, dir_fd)
                 ? see_data(store_dir, dir_fd, name, &info, &v, err)
                 : volume_not_here(name, err);
    if (rc < 0) {
        volume_close(&v);
        return -1;
    }
    (void)futimens(v.lock_fd, NULL); /* a killed owner does not say its end */
    *out = v;
    return 0;
}

/* By its own word: a child that is just being made may have a copy of the descriptor.
 */
void volume_close(struct volume *v)
{
    struct flock all = { .l_type = F_UNLCK, .l_whence = SEEK_SET };

    if (v->lock_fd >= 0) {
        /* For who removes what was not used for long; may fail, being a help. */
        (void)futimens(v->lock_fd, NULL);
        (void)fcntl(v->lock_fd, F_OFD_SETLK, &all);
    }
    auto_fd_(&v->loop_fd);
    auto_fd_(&v->lock_fd);
    free(v->path);
    *v = (struct volume)VOLUME_NONE;
}
