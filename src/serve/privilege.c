/* SPDX-License-Identifier: Apache-2.0 */
#include "serve/privilege.h"

#include <errno.h>
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

/* The log of all runs is written without privilege, so it has to be USER's. */
static int hand_over(const char *path, const char *user, struct vial_error *err)
{
    static const char *const endings[] = { "", ".head" };
    auto_free char *dir = dir_of(path);
    struct passwd entry;
    struct passwd *found = NULL;
    char buf[4096];

    if (geteuid() != 0 || !dir)
        return 0;
    if (getpwnam_r(user, &entry, buf, sizeof(buf), &found) != 0 || !found)
        return fail(err, VIAL_E_VALUE, "serve: user '%s' does not exist", user);
    if (mkdir(dir, 0700) < 0 && errno != EEXIST)
        return fail_sys(err, "make directory '%s'", dir);
    for (size_t i = 0; i < sizeof(endings) / sizeof(endings[0]); i++) {
        auto_str struct str name = { 0 };

        str_printf(&name, "%s%s", path, endings[i]);
        if (str_ok(&name) && lchown(name.data, found->pw_uid, found->pw_gid) < 0 &&
            errno != ENOENT)
            return fail_sys(err, "hand '%s' over to '%s'", name.data, user);
    }
    if (lchown(dir, found->pw_uid, found->pw_gid) < 0)
        return fail_sys(err, "hand '%s' over to '%s'", dir, user);
    return 0;
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
