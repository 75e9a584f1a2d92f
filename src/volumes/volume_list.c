/* SPDX-License-Identifier: Apache-2.0 */

/* Which volumes there are; and those that go. */

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/fail.h"
#include "base/remove_tree.h"
#include "base/state.h"
#include "base/sys.h"
#include "volumes/volume_dir.h"
#include "volumes/volume_store.h"

/* False: it is not whole. */
static bool see_parts(int dir_fd, struct volume_info *out)
{
    auto_fd int lock_fd = openat(dir_fd, "lock", O_RDWR | O_CLOEXEC | O_NOFOLLOW);
    struct stat st;

    if (lock_fd < 0 || fstat(lock_fd, &st) < 0 || volume_record_read(dir_fd, out) < 0)
        return false;
    out->used = st.st_mtime;
    out->busy = volume_lock_byte(lock_fd, F_OFD_GETLK, F_WRLCK, VOLUME_USE) == 1;
    out->written = volume_lock_byte(lock_fd, F_OFD_GETLK, F_WRLCK, VOLUME_WRITER) == 1;
    return volume_data_there(dir_fd, out, &st);
}

/* -1: there is no volume of that name in the store any more. */
static int see(int store_fd, int dir_fd, const char *name, struct volume_info *out)
{
    char file[VOLUME_FILE];
    bool whole;

    *out = (struct volume_info){ 0 };
    whole = see_parts(dir_fd, out);
    volume_file_of(name, file);
    if (!whole && !volume_dir_same(store_fd, file, dir_fd))
        return -1; /* it was removed meanwhile */
    if (!whole)
        *out = (struct volume_info){ .broken = true };
    (void)snprintf(out->name, sizeof(out->name), "%s", name);
    return 0;
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(((const struct volume_info *)a)->name,
                  ((const struct volume_info *)b)->name);
}

struct rows {
    struct volume_info *items;
    size_t count;
    bool failed;
};

static int add_row(int store_fd, const char *file, void *context)
{
    struct rows *rows = context;
    struct volume_info row;
    struct volume_info *grown;
    char name[VOLUME_NAME];
    auto_fd int dir_fd = -1;

    if (!volume_name_of(file, name))
        return 0;
    dir_fd = openat(store_fd, file, VOLUME_OPEN_DIR);
    if (dir_fd < 0 || see(store_fd, dir_fd, name, &row) < 0)
        return 0;
    grown = reallocarray(rows->items, rows->count + 1, sizeof(*grown));
    rows->failed = !grown;
    if (!grown)
        return -1;
    rows->items = grown;
    grown[rows->count++] = row;
    return 0;
}

int volume_list(const char *store_dir, struct volume_info **out, size_t *count,
                struct vial_error *err)
{
    struct vial_error why = { 0 };
    auto_fd int store_fd = volume_dir_store(store_dir, &why);
    struct rows rows = { 0 };

    *out = NULL;
    *count = 0;
    if (store_fd < 0 && state_is_absent(&why))
        return 0;
    if (store_fd < 0 || volume_dir_each(store_fd, add_row, &rows, &why) < 0) {
        free(rows.items);
        if (rows.failed)
            return fail_memory(err);
        if (err)
            *err = why;
        return -1;
    }
    if (rows.count)
        qsort(rows.items, rows.count, sizeof(*rows.items), compare_names);
    *out = rows.items;
    *count = rows.count;
    return 0;
}

int volume_look(const char *store_dir, const char *name, struct volume_info *out,
                struct vial_error *err)
{
    auto_fd int store_fd = -1;
    auto_fd int dir_fd = volume_dir_find(store_dir, name, &store_fd, err);

    if (dir_fd < 0)
        return -1;
    return see(store_fd, dir_fd, name, out) < 0 ? volume_not_here(name, err) : 0;
}

/* Of one without its lock nobody knows. */
static bool was_used(int lock_fd, int64_t unused_for_s)
{
    struct stat st;

    return unused_for_s > 0 && (lock_fd < 0 || fstat(lock_fd, &st) < 0 ||
                                time(NULL) - st.st_mtime < unused_for_s);
}

/* UNUSED_FOR_S: 0, or only if nobody had it for so long; then 1: it stays. */
static int remove_one(int store_fd, const char *name, int64_t unused_for_s,
                      struct vial_error *err)
{
    char file[VOLUME_FILE];
    char gone[40] = VOLUME_GONE;
    auto_fd int dir_fd = -1;
    auto_fd int lock_fd = -1;

    volume_file_of(name, file);
    sys_make_id('g', gone + strlen(VOLUME_GONE));
    dir_fd = openat(store_fd, file, VOLUME_OPEN_DIR);
    if (dir_fd < 0)
        return volume_not_here(name, err);
    lock_fd = openat(dir_fd, "lock", O_RDWR | O_CLOEXEC | O_NOFOLLOW);
    if (lock_fd < 0 && errno != ENOENT)
        return fail_sys(err, "open the lock of volume '%s'", name);
    if (was_used(lock_fd, unused_for_s))
        return 1;
    if (lock_fd >= 0 &&
        volume_lock_byte(lock_fd, F_OFD_SETLK, F_WRLCK, VOLUME_USE) < 0) {
        (void)fail(err, VIAL_E_BUSY, "volume '%s' is in use", name);
        return fail_remedy(err, "end what has it first: 'vial ps'");
    }
    if (was_used(lock_fd, unused_for_s)) /* while it was looked at */
        return 1;
    if (volume_disk_check_unused(dir_fd, name, err) < 0)
        return -1;
    if (!volume_dir_same(store_fd, file, dir_fd))
        return volume_not_here(name, err);
    if (flock(dir_fd, LOCK_EX | LOCK_NB) < 0 ||
        renameat(store_fd, file, store_fd, gone) < 0)
        return fail_sys(err, "remove the volume '%s'", name);
    remove_tree(store_fd, gone);
    return 0;
}

int volume_remove(const char *store_dir, const char *name, struct vial_error *err)
{
    auto_fd int store_fd = -1;
    auto_fd int dir_fd = volume_dir_find(store_dir, name, &store_fd, err);

    return dir_fd < 0 ? -1 : remove_one(store_fd, name, 0, err);
}

int volume_prune(const char *store_dir, int64_t unused_for_s, unsigned *removed,
                 struct vial_error *err)
{
    auto_free struct volume_info *rows = NULL;
    struct vial_error none = { 0 };
    auto_fd int store_fd = -1;
    size_t count = 0;

    *removed = 0;
    if (volume_list(store_dir, &rows, &count, err) < 0)
        return -1;
    store_fd = volume_dir_store(store_dir, &none);
    if (store_fd < 0)
        return 0; /* there is no store to prune */
    for (size_t i = 0; i < count; i++)
        *removed += remove_one(store_fd, rows[i].name, unused_for_s, &none) == 0;
    if (volume_dir_sweep(store_fd, VOLUME_GONE, err) < 0 ||
        volume_dir_lock(store_fd, VOLUME_LOCK_MS, err) < 0)
        return -1;
    return volume_dir_sweep(store_fd, VOLUME_NEW, err);
}
