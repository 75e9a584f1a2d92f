/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/bring.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
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

/* The HOSTPATH that --out gave for NAME, or NULL. *ASKED: --out named it. */
static const char *host_path(const struct cli *cli, const char *name, bool *asked)
{
    size_t len = strlen(name);

    for (size_t i = 0; i < cli->options.given_count; i++) {
        const struct given *g = &cli->options.given[i];

        if (!g->flag || strcmp(g->flag->name, "out") != 0 ||
            strcspn(g->value, ":") != len || strncmp(g->value, name, len) != 0)
            continue;
        *asked = true;
        if (g->value[len] == ':' && g->value[len + 1])
            return g->value + len + 1;
    }
    return NULL;
}

/* Where NAME goes: HOST itself, below HOST if that is a directory, or here. */
static int find_target(const char *name, const char *host, struct str *out,
                       struct vial_error *err)
{
    struct stat st;

    if (!host)
        str_puts(out, base_name(name));
    else if (stat(host, &st) == 0 && S_ISDIR(st.st_mode))
        str_printf(out, "%s/%s", host, base_name(name));
    else
        str_puts(out, host);
    if (!str_ok(out))
        return fail_memory(err);
    if (lstat(out->data, &st) == 0 && !S_ISREG(st.st_mode)) {
        (void)fail(err, VIAL_E_FILE, "write '%s': not a regular file", out->data);
        return fail_remedy(err, "name another file with --out %s:FILE", name);
    }
    return 0;
}

static int write_new(const char *path, const struct vial_file *file,
                     struct vial_error *err)
{
    auto_fd int fd =
        open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
    int rc = fd < 0 ? -errno : io_write_all(fd, file->data, file->len);

    if (rc == 0)
        return 0;
    if (fd >= 0)
        (void)unlink(path);
    (void)fail_sys_rc(err, rc, "write '%s'", path);
    return fail_as(err, VIAL_E_FILE);
}

/* Through a name of its own, so that nobody sees half a file. */
static int write_file(const char *target, const struct vial_file *file,
                      struct vial_error *err)
{
    auto_str struct str path = { 0 };
    char id[24];

    sys_make_id('t', id);
    str_add(&path, target, (size_t)(base_name(target) - target));
    str_printf(&path, ".vial-%s", id);
    if (!str_ok(&path))
        return fail_memory(err);
    if (write_new(path.data, file, err) < 0)
        return -1;
    if (rename(path.data, target) == 0)
        return 0;
    (void)fail_sys(err, "write '%s'", target);
    (void)unlink(path.data);
    return fail_as(err, VIAL_E_FILE);
}

static int bring(const struct cli *cli, const struct vial_file *file,
                 struct vial_error *err)
{
    auto_str struct str target = { 0 };
    bool asked = false;
    const char *host = host_path(cli, file->path, &asked);

    /* With --json the content is in the result. */
    if (!asked && cli_flag(cli, "json"))
        return 0;
    if (find_target(file->path, host, &target, err) < 0)
        return -1;
    return write_file(target.data, file, err);
}

int bring_files(const struct cli *cli, const struct vial_result *result)
{
    int status = STATUS_OK;

    for (size_t i = 0; i < result->file_count; i++) {
        const struct vial_file *file = &result->files[i];
        struct vial_error err = { 0 };

        if (!file->data) {
            say_error(&file->error);
        } else if (bring(cli, file, &err) < 0) {
            say_error(&err);
            status = STATUS_VIAL;
        }
    }
    return status;
}
