/* SPDX-License-Identifier: Apache-2.0 */
#include "settings/trust.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/fail.h"
#include "base/io.h"
#include "base/json.h"
#include "base/sha256.h"
#include "base/state.h"
#include "base/str.h"
#include "base/sys.h"

#define DIRECTORY   "trust"
#define RECORD_MAX  ((size_t)64 << 10)
#define RECORDS_MAX 10000

/* "HASH.json", with the hash of the path: one record per path, whatever is in it. */
struct record_name {
    char text[80];
};

static struct record_name name_of(const char *path)
{
    struct record_name name;
    struct sha256 h;
    char hash[65];

    sha256_init(&h);
    sha256_add(&h, path, strlen(path));
    sha256_text(&h, hash);
    (void)snprintf(name.text, sizeof(name.text), "%s.json", hash);
    return name;
}

static const char *text_of(json_t *record, const char *key)
{
    return json_string_value(json_object_get(record, key));
}

/* NULL: it is not there, not the caller's own, or makes no sense. */
static json_t *read_record(int dir_fd, const char *name)
{
    auto_fd int fd =
        openat(dir_fd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    auto_json json_t *record = NULL;
    struct blob text = { 0 };
    struct stat st;

    if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) ||
        st.st_uid != geteuid() || (st.st_mode & 022) ||
        io_read_fd(fd, name, RECORD_MAX, &text, NULL) < 0)
        return NULL;
    (void)json_parse(text.data ? text.data : "", text.len, name, &record, NULL);
    blob_done(&text);
    if (!text_of(record, "path") ||
        strcmp(name_of(text_of(record, "path")).text, name) != 0)
        return NULL;
    return ptr_take(&record);
}

json_t *trust_find(const char *state, const char *path)
{
    struct vial_error none = { 0 };
    auto_fd int dir_fd = state ? state_open(state, DIRECTORY, false, &none) : -1;

    return dir_fd >= 0 ? read_record(dir_fd, name_of(path).text) : NULL;
}

bool trust_has_repository(const char *state, const char *path)
{
    auto_json json_t *record = trust_find(state, path);

    return record && !text_of(record, "sha256");
}

static json_t *make_record(const char *path, const char *hash, json_t *sets)
{
    char since[CLOCK_STAMP_SIZE];

    clock_stamp(since, 0);
    return json_pack("{s:s, s:s*, s:O*, s:s}", "path", path, "sha256", hash, "sets",
                     sets, "since", since);
}

/* Whole, or not at all: under another name first. */
static int put_record(int dir_fd, const char *name, const char *text,
                      struct vial_error *err)
{
    char fresh[24];
    auto_fd int fd = -1;
    int rc;

    sys_make_id('n', fresh);
    fd = openat(dir_fd, fresh, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
                0600);
    if (fd < 0)
        return fail_sys(err, "make a record of what is trusted");
    rc = io_write_all(fd, text, strlen(text));
    if (rc == 0 && (fsync(fd) < 0 || renameat(dir_fd, fresh, dir_fd, name) < 0))
        rc = -errno;
    if (rc == 0)
        return 0;
    (void)unlinkat(dir_fd, fresh, 0);
    return fail_sys_rc(err, rc, "write a record of what is trusted");
}

static int no_state(struct vial_error *err)
{
    (void)fail(err, VIAL_E_FILE, "there is no directory for what is trusted");
    return fail_remedy(err, "set HOME, or VIAL_STATE to a directory of your own");
}

int trust_write(const char *state, const char *path, const char *hash, json_t *sets,
                struct vial_error *err)
{
    auto_json json_t *record = make_record(path, hash, sets);
    auto_free char *text = record ? json_dumps(record, JSON_COMPACT) : NULL;
    auto_fd int dir_fd = -1;

    if (!record) /* jansson takes nothing but UTF-8 */
        return fail(err, VIAL_E_VALUE, "the path is not UTF-8, or there is no memory");
    if (!text)
        return fail_memory(err);
    if (strlen(text) > RECORD_MAX)
        return fail(err, VIAL_E_VALUE, "'%s' sets more than can be recorded", path);
    if (!state)
        return no_state(err);
    dir_fd = state_open(state, DIRECTORY, true, err);
    if (dir_fd < 0)
        return -1;
    return put_record(dir_fd, name_of(path).text, text, err);
}

int trust_remove(const char *state, const char *path, struct vial_error *err)
{
    struct vial_error none = { 0 };
    auto_fd int dir_fd = state ? state_open(state, DIRECTORY, false, &none) : -1;

    if (dir_fd < 0 && none.code[0]) {
        *err = none;
        return -1;
    }
    if (dir_fd < 0)
        return 0;
    if (unlinkat(dir_fd, name_of(path).text, 0) == 0)
        return 1;
    return errno == ENOENT ? 0 : fail_sys(err, "remove the record of '%s'", path);
}

static int by_path(const void *a, const void *b)
{
    return strcmp(text_of(*(json_t *const *)a, "path"),
                  text_of(*(json_t *const *)b, "path"));
}

static json_t *sorted(json_t **records, size_t count)
{
    json_t *list = json_array();

    qsort(records, count, sizeof(*records), by_path); /* NOLINT: COUNT may be 0 */
    for (size_t i = 0; i < count; i++)
        (void)json_array_append_new(list, records[i]);
    return list;
}

/* Takes DIR_FD. */
static json_t *read_all(int dir_fd)
{
    DIR *dir = fdopendir(dir_fd);
    json_t **records = calloc(RECORDS_MAX, sizeof(json_t *));
    const struct dirent *entry = NULL;
    json_t *list = NULL;
    size_t count = 0;

    if (!dir)
        (void)close(dir_fd);
    /* readdir is safe here: nobody else has this stream. */
    while (dir && records && count < RECORDS_MAX &&
           (entry = readdir(dir))) { /* NOLINT(concurrency-mt-unsafe) */
        json_t *one =
            entry->d_name[0] == '.' ? NULL : read_record(dirfd(dir), entry->d_name);

        if (one)
            records[count++] = one;
    }
    if (dir && records)
        list = sorted(records, count);
    if (dir)
        (void)closedir(dir);
    free(records);
    return list;
}

int trust_list(const char *state, json_t **out, struct vial_error *err)
{
    struct vial_error none = { 0 };
    int dir_fd = state ? state_open(state, DIRECTORY, false, &none) : -1;

    if (dir_fd < 0 && none.code[0]) {
        *err = none;
        return -1;
    }
    *out = dir_fd < 0 ? json_array() : read_all(dir_fd);
    return *out ? 0 : fail_memory(err);
}
