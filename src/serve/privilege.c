/* SPDX-License-Identifier: Apache-2.0 */
#include "serve/privilege.h"

#include <errno.h>
#include <fcntl.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/fail.h"
#include "base/str.h"
#include "keeper/launch.h"

enum { KEEPER_AUTO, KEEPER_ON, KEEPER_OFF };

static char *dir_of(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash ? strndup(path, (size_t)(slash - path)) : NULL;
}

/* Where USER can write, a link may stand instead of the file: its target is not given
 * away. */
static int give_file(const char *path, const struct passwd *user,
                     struct vial_error *err)
{
    auto_fd int fd =
        open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    struct stat st;

    if (fd < 0 && errno == ENOENT)
        return 0;
    if (fd < 0 || fstat(fd, &st) < 0)
        return fail_sys(err, "open '%s'", path);
    if (!S_ISREG(st.st_mode) || st.st_nlink != 1)
        return fail(err, VIAL_E_AUDIT, "'%s' is not a regular file of its own", path);
    if (fchown(fd, user->pw_uid, user->pw_gid) < 0)
        return fail_sys(err, "hand '%s' over to '%s'", path, user->pw_name);
    return 0;
}

/* Only a directory that is new is given away: one that is there may hold more than the
 * log, as /var/log does. */
static int give_dir(const char *dir, const struct passwd *user, struct vial_error *err)
{
    struct stat st;

    if (mkdir(dir, 0700) == 0)
        return lchown(dir, user->pw_uid, user->pw_gid) == 0
                   ? 0
                   : fail_sys(err, "hand '%s' over to '%s'", dir, user->pw_name);
    if (errno != EEXIST || stat(dir, &st) < 0)
        return fail_sys(err, "make directory '%s'", dir);
    if (st.st_uid == user->pw_uid)
        return 0;
    (void)fail(err, VIAL_E_AUDIT,
               "the audit log's directory '%s' does not belong to '%s'", dir,
               user->pw_name);
    return fail_remedy(err,
                       "give the log a directory of its own, and that to the user: "
                       "'chown %s DIRECTORY'",
                       user->pw_name);
}

/* The log of all runs is written without privilege, so it has to be USER's. */
static int hand_over(const char *path, const char *user, struct vial_error *err)
{
    auto_free char *dir = dir_of(path);
    auto_str struct str head = { 0 };
    struct passwd entry;
    struct passwd *found = NULL;
    char buf[4096];

    if (geteuid() != 0 || !dir)
        return 0;
    if (getpwnam_r(user, &entry, buf, sizeof(buf), &found) != 0 || !found)
        return fail(err, VIAL_E_VALUE, "serve: user '%s' does not exist", user);
    str_printf(&head, "%s.head", path);
    if (!str_ok(&head))
        return fail_memory(err);
    if (give_dir(dir, found, err) < 0 || give_file(path, found, err) < 0)
        return -1;
    return give_file(head.data, found, err);
}

static int seal(const struct settings *s, const struct front *f, struct vial_error *err)
{
    const char *writable[SERVE_LISTENERS + 2] = { NULL };
    char *dirs[SERVE_LISTENERS + 1] = { NULL };
    size_t count = 0;
    int rc;

    for (size_t i = 0; i < f->count; i++)
        if (f->listeners[i].path[0])
            dirs[count++] = dir_of(f->listeners[i].path);
    if (s->audit.path)
        dirs[count++] = dir_of(s->audit.path);
    for (size_t i = 0; i < count; i++)
        writable[i] = dirs[i] ? dirs[i] : "/nonexistent";
    rc = keeper_seal(s->share_dir, writable, err);
    for (size_t i = 0; i < count; i++)
        free(dirs[i]);
    return rc;
}

int privilege_give_up(struct serve *s, const struct front *f, struct vial_error *err)
{
    const struct settings *settings = s->now->settings;
    const struct serve_settings *c = &settings->serve;
    const struct keeper_options options = {
        .settings = settings,
        .vessels = (unsigned)(c->sessions + c->concurrency + c->queue),
        .docker = true,
    };

    if (c->keeper == KEEPER_OFF || (c->keeper == KEEPER_AUTO && geteuid() != 0))
        return 0;
    if (settings->audit.path && hand_over(settings->audit.path, c->user, err) < 0)
        return -1;
    if (keeper_start(&options, err) < 0 || keeper_drop(c->user, err) < 0 ||
        seal(settings, f, err) < 0)
        return -1;
    s->sources.kept = true;
    return 0;
}
