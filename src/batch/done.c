/* SPDX-License-Identifier: Apache-2.0 */
#include "batch/done.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/fail.h"
#include "base/io.h"
#include "base/json.h"
#include "base/str.h"

#define INDEX_MOST 100000000u

static uint64_t number_of(const char *hash)
{
    return strtoull(hash, NULL, 16) | 1; /* 0 means none */
}

static int put(struct done *d, size_t index, uint64_t hash, struct vial_error *err)
{
    off_t at = (off_t)(index * sizeof(hash));

    if (d->fd < 0)
        d->fd = io_temp_file();
    if (d->fd < 0 || pwrite(d->fd, &hash, sizeof(hash), at) != sizeof(hash))
        return fail_sys(err, "note what is done in a temporary file");
    return 0;
}

/* *OUT: the hash of row INDEX; 0: it is not there. */
static int look_up(const struct done *d, size_t index, uint64_t *out,
                   struct vial_error *err)
{
    ssize_t got =
        d->fd < 0 ? 0 : pread(d->fd, out, sizeof(*out), (off_t)(index * sizeof(*out)));

    if (got < 0)
        return fail_sys(err, "look up what is done");
    if (got != sizeof(*out))
        *out = 0;
    return 0;
}

static int refuse(const char *path, size_t number, struct vial_error *err)
{
    (void)fail(err, VIAL_E_FILE, "line %zu of '%s' is no line of a batch's output",
               number, path);
    return fail_remedy(err, "name another file for the output");
}

static int take_line(struct done *d, const json_t *line, const char *path,
                     size_t number, struct vial_error *err)
{
    const json_t *index = json_object_get(line, "index");
    const char *hash = json_string_value(json_object_get(line, "hash"));

    if (hash && strlen(hash) == 16 && json_is_integer(index) &&
        json_integer_value(index) >= 0 && json_integer_value(index) < INDEX_MOST)
        return put(d, (size_t)json_integer_value(index), number_of(hash), err);
    return refuse(path, number, err);
}

/* A line that was not finished is cut off only where a batch can have begun it. */
static int check_torn(const char *text, ssize_t len, const char *path, size_t number,
                      struct vial_error *err)
{
    static const char start[] = "{\"index\":";
    size_t known = sizeof(start) - 1;

    if (len <= 0 ||
        strncmp(text, start, (size_t)len < known ? (size_t)len : known) == 0)
        return 0;
    return refuse(path, number, err);
}

int done_read(int fd, const char *path, struct done *out, done_seen *seen,
              void *context, struct vial_error *err)
{
    FILE *file = fdopen(dup(fd), "r");
    auto_free char *text = NULL;
    size_t cap = 0;
    size_t number = 0;
    off_t whole = 0;
    ssize_t len = 0;
    int rc = 0;

    if (!file)
        return fail_sys(err, "read '%s'", path);
    while (rc == 0 && (len = getline(&text, &cap, file)) > 0 && text[len - 1] == '\n') {
        auto_json json_t *line = json_loadb(text, (size_t)len, 0, NULL);

        rc = take_line(out, line, path, ++number, err);
        if (rc == 0)
            seen(context, line);
        whole += len;
    }
    (void)fclose(file);
    if (rc < 0 || check_torn(text, len, path, number + 1, err) < 0)
        return -1;
    if (ftruncate(fd, whole) < 0 || lseek(fd, whole, SEEK_SET) < 0)
        return fail_sys(err, "cut '%s'", path);
    return 0;
}

static bool is_failed(const char *text, size_t len)
{
    auto_json json_t *line = json_loadb(text, len, 0, NULL);
    const char *verdict = json_string_value(json_object_get(line, "verdict"));

    return verdict && strcmp(verdict, "failed") == 0;
}

static int copy_good(FILE *from, FILE *to, const char *path, struct vial_error *err)
{
    auto_free char *text = NULL;
    size_t cap = 0;
    ssize_t len;

    while ((len = getline(&text, &cap, from)) > 0)
        if (!is_failed(text, (size_t)len) &&
            fwrite(text, 1, (size_t)len, to) != (size_t)len)
            return fail_sys(err, "write beside '%s'", path);
    if (ferror(from))
        return fail_sys(err, "read '%s'", path);
    return fflush(to) == 0 && fsync(fileno(to)) == 0
               ? 0
               : fail_sys(err, "write beside '%s'", path);
}

int done_drop_failed(const char *path, struct vial_error *err)
{
    auto_str struct str beside = { 0 };
    FILE *from = fopen(path, "re");
    FILE *to;
    int rc;

    if (!from)
        return errno == ENOENT ? 0 : fail_sys(err, "read '%s'", path);
    str_printf(&beside, "%s.retry", path);
    to = str_ok(&beside) ? fopen(beside.data, "we") : NULL;
    rc = to ? copy_good(from, to, path, err) : fail_sys(err, "write beside '%s'", path);
    (void)fclose(from);
    if (to && fclose(to) != 0 && rc == 0)
        rc = fail_sys(err, "write beside '%s'", path);
    if (rc == 0 && rename(beside.data, path) < 0)
        rc = fail_sys(err, "replace '%s'", path);
    if (rc < 0 && to)
        (void)unlink(beside.data);
    return rc;
}

int done_has(const struct done *d, size_t index, const char *hash, bool *out,
             struct vial_error *err)
{
    uint64_t there = 0;

    if (look_up(d, index, &there, err) < 0)
        return -1;
    *out = there != 0;
    if (!there || there == number_of(hash))
        return 0;
    (void)fail(err, VIAL_E_CONFLICT,
               "row %zu of the input is another than the one in the output", index);
    return fail_remedy(err, "resume with the same input, or name a new output");
}

void done_free(struct done *d)
{
    if (d->fd >= 0)
        (void)close(d->fd);
    d->fd = -1;
}
