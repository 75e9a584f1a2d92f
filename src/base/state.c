/* SPDX-License-Identifier: Apache-2.0 */
#include "base/state.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/fail.h"
#include "base/path.h"
#include "base/str.h"

static const char *variable(const char *name)
{
    const char *value = getenv(name); /* NOLINT(concurrency-mt-unsafe): read only */

    return value && value[0] == '/' ? value : NULL;
}

char *state_path(const char *home)
{
    if (variable("VIAL_STATE"))
        return strdup(variable("VIAL_STATE"));
    if (geteuid() == 0)
        return strdup("/var/lib/vial");
    if (variable("XDG_STATE_HOME"))
        return path_join(variable("XDG_STATE_HOME"), "vial");
    return home && home[0] == '/' ? path_join(home, ".local/state/vial") : NULL;
}

char *state_data_path(const char *leaf, const char *home)
{
    auto_free char *below = NULL;

    if (geteuid() != 0 && variable("XDG_DATA_HOME"))
        below = path_join(variable("XDG_DATA_HOME"), "vial");
    else if (geteuid() != 0 && home && home[0] == '/')
        below = path_join(home, ".local/share/vial");
    else
        below = strdup("/var/lib/vial");
    return below ? path_join(below, leaf) : NULL;
}

char *state_cache_path(const char *home)
{
    if (variable("XDG_CACHE_HOME"))
        return path_join(variable("XDG_CACHE_HOME"), "vial");
    if (geteuid() == 0)
        return strdup("/var/cache/vial");
    return home && home[0] == '/' ? path_join(home, ".cache/vial") : NULL;
}

int state_make_dir(const char *path, struct vial_error *err)
{
    for (const char *at = path; (at = strchr(at + 1, '/'));) {
        auto_free char *dir = strndup(path, (size_t)(at - path));

        if (!dir)
            return fail_memory(err);
        if (mkdir(dir, 0755) < 0 && errno != EEXIST)
            return fail_sys(err, "make '%s'", dir);
    }
    if (mkdir(path, 0700) < 0 && errno != EEXIST)
        return fail_sys(err, "make '%s'", path);
    return 0;
}

static int check_own(int fd, const char *path, struct vial_error *err)
{
    struct stat st;

    if (fstat(fd, &st) < 0)
        return fail_sys(err, "look at '%s'", path);
    if (st.st_uid == geteuid() && !(st.st_mode & 022))
        return 0;
    (void)fail(err, VIAL_E_FILE, "'%s' can be written by others", path);
    return fail_remedy(err,
                       "chmod go-w it, or set VIAL_STATE to a directory of your own");
}

int state_open(const char *path, const char *name, bool make, struct vial_error *err)
{
    auto_fd int dir_fd = -1;
    auto_fd int fd = -1;

    if (make && state_make_dir(path, err) < 0)
        return -1;
    dir_fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (dir_fd < 0 && errno == ENOENT && !make)
        return -1;
    if (dir_fd < 0)
        return fail_sys(err, "open '%s'", path);
    if (check_own(dir_fd, path, err) < 0)
        return -1;
    if (make && mkdirat(dir_fd, name, 0700) < 0 && errno != EEXIST)
        return fail_sys(err, "make '%s/%s'", path, name);
    fd = openat(dir_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 && errno == ENOENT && !make)
        return -1;
    if (fd < 0)
        return fail_sys(err, "open '%s/%s'", path, name);
    return check_own(fd, path, err) < 0 ? -1 : fd_take(&fd);
}

int state_open_store(const char *path, const struct state_store *kind,
                     struct vial_error *err)
{
    auto_fd int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    bool shut = (kind->closed & 055) != 0;
    struct stat st;

    if (fd < 0 && errno == ENOENT) {
        fail_clear(err);
        return -1;
    }
    if (fd < 0 || fstat(fd, &st) < 0)
        return fail_sys(err, "open %s '%s'", kind->name, path);
    if ((st.st_uid == geteuid() || (kind->roots_too && st.st_uid == 0)) &&
        !(st.st_mode & kind->closed))
        return fd_take(&fd);
    (void)fail(err, VIAL_E_FILE,
               shut ? "others can enter %s '%s'" : "others can write to %s '%s'",
               kind->name, path);
    return fail_remedy(err, "chmod %s it, or name another by %s", shut ? "700" : "go-w",
                       kind->variable);
}

bool state_is_absent(const struct vial_error *err)
{
    return err->code[0] == '\0';
}
