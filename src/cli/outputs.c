/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/outputs.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/fail.h"
#include "base/io.h"
#include "base/str.h"
#include "base/sys.h"
#include "cli/print.h"

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash ? slash + 1 : path;
}

/* The HOSTPATH of "NAME[:HOSTPATH]", or NULL. */
static const char *host_of(const struct given *g)
{
    const char *colon = NULL;

    if (!g->flag || strcmp(g->flag->name, "out") != 0)
        return NULL;
    colon = strchr(g->value, ':');
    return colon && colon[1] ? colon + 1 : NULL;
}

/* HOST itself if that is a directory, else the one that it is to lie in. */
static int open_place(const char *host, struct outputs_place *out,
                      struct vial_error *err)
{
    const char *name = base_name(host);
    auto_str struct str dir = { 0 };

    out->fd = open(host, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (out->fd >= 0)
        return 0;
    str_puts(&dir, name == host ? "." : "");
    str_add(&dir, host, (size_t)(name - host));
    if (!str_ok(&dir))
        return fail_memory(err);
    if (*name)
        out->fd = open(dir.data, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (out->fd < 0) {
        (void)fail_sys(err, "open the directory of '%s'", host);
        (void)fail_as(err, VIAL_E_FILE);
        return fail_remedy(err, "make it first, or name another file with --out");
    }
    out->name = name;
    return 0;
}

int outputs_open(const struct cli *cli, struct outputs *out, struct vial_error *err)
{
    size_t count = cli->options.given_count;

    out->places = calloc(count + 1, sizeof(*out->places));
    if (!out->places)
        return fail_memory(err);
    for (; out->count < count; out->count++) {
        const char *host = host_of(&cli->options.given[out->count]);

        out->places[out->count].fd = -1;
        if (host && open_place(host, &out->places[out->count], err) < 0)
            return -1;
    }
    return 0;
}

void outputs_close(struct outputs *b)
{
    for (size_t i = 0; i < b->count; i++)
        if (b->places[i].fd >= 0)
            (void)close(b->places[i].fd);
    free(b->places);
    *b = (struct outputs){ 0 };
}

/* Where a file goes. SHOWN is for messages; the rest is borrowed. */
struct target {
    int dir_fd;
    const char *name;
    struct str shown;
};

static void target_done(struct target *t)
{
    str_done(&t->shown);
}

static bool is_asked(const struct given *g, const char *name)
{
    size_t len = strlen(name);

    return g->flag && strcmp(g->flag->name, "out") == 0 &&
           strcspn(g->value, ":") == len && strncmp(g->value, name, len) == 0;
}

/* The place that --out gave for NAME, or here. *ASKED: --out named it. */
static void find_target(const struct cli *cli, const struct outputs *b,
                        const char *name, struct target *out, bool *asked)
{
    out->dir_fd = AT_FDCWD;
    out->name = base_name(name);
    for (size_t i = 0; i < b->count; i++) {
        const struct given *g = &cli->options.given[i];
        const struct outputs_place *place = &b->places[i];

        if (!is_asked(g, name))
            continue;
        *asked = true;
        if (place->fd < 0)
            continue;
        out->dir_fd = place->fd;
        str_puts(&out->shown, host_of(g));
        if (place->name)
            out->name = place->name;
        else
            str_printf(&out->shown, "/%s", out->name);
        return;
    }
    str_puts(&out->shown, out->name);
}

static int check_target(const struct target *t, const char *name,
                        struct vial_error *err)
{
    struct stat st;

    if (!str_ok(&t->shown))
        return fail_memory(err);
    if (fstatat(t->dir_fd, t->name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
        !S_ISREG(st.st_mode)) {
        (void)fail(err, VIAL_E_FILE, "write '%s': not a regular file", t->shown.data);
        return fail_remedy(err, "name another file with --out %s:FILE", name);
    }
    return 0;
}

static int write_new(const struct target *t, const char *name,
                     const struct vial_file *file, struct vial_error *err)
{
    auto_fd int fd = openat(t->dir_fd, name,
                            O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
    int rc = fd < 0 ? -errno : io_write_all(fd, file->data, file->len);

    if (rc == 0)
        return 0;
    if (fd >= 0)
        (void)unlinkat(t->dir_fd, name, 0);
    (void)fail_sys_rc(err, rc, "write '%s'", t->shown.data);
    return fail_as(err, VIAL_E_FILE);
}

/* Through a name of its own, so that nobody sees half a file. */
static int write_file(const struct target *t, const struct vial_file *file,
                      struct vial_error *err)
{
    char name[40];
    char id[24];

    sys_make_id('t', id);
    (void)snprintf(name, sizeof(name), ".vial-%s", id);
    if (write_new(t, name, file, err) < 0)
        return -1;
    if (renameat(t->dir_fd, name, t->dir_fd, t->name) == 0)
        return 0;
    (void)fail_sys(err, "write '%s'", t->shown.data);
    (void)unlinkat(t->dir_fd, name, 0);
    return fail_as(err, VIAL_E_FILE);
}

static int bring(const struct cli *cli, const struct outputs *b,
                 const struct vial_file *file, struct vial_error *err)
{
    __attribute__((cleanup(target_done))) struct target target = { 0 };
    bool asked = false;

    find_target(cli, b, file->path, &target, &asked);
    /* With --json the content is in the result. */
    if (!asked && cli_flag(cli, "json"))
        return 0;
    if (check_target(&target, file->path, err) < 0)
        return -1;
    return write_file(&target, file, err);
}

int outputs_files(const struct cli *cli, const struct outputs *b,
                  const struct vial_result *result)
{
    int status = STATUS_OK;

    for (size_t i = 0; i < result->file_count; i++) {
        const struct vial_file *file = &result->files[i];
        struct vial_error err = { 0 };

        if (!file->data) {
            say_error_as(&file->error, "warning", "");
        } else if (bring(cli, b, file, &err) < 0) {
            say_error(&err);
            status = STATUS_VIAL;
        }
    }
    return status;
}
