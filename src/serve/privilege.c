/* SPDX-License-Identifier: Apache-2.0 */
#include "serve/privilege.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/fail.h"
#include "base/path.h"
#include "base/str.h"
#include "base/sys.h"
#include "keeper/front/start_keeper.h"

#define FRONT_NICE (-10)

enum { KEEPER_AUTO, KEEPER_ON, KEEPER_OFF };

static char *dir_of(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash ? strndup(path, (size_t)(slash - path)) : NULL;
}

/* A file of the log becomes UID's. In a directory of UID's, its name may by now be
 * another's file: only a plain one that has no second name is given away. */
static int hand_file(const char *path, uid_t uid, gid_t gid, struct vial_error *err)
{
    auto_fd int fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    struct stat st;

    if (fd < 0 && errno == ENOENT)
        return 0;
    if (fd < 0 || fstat(fd, &st) < 0)
        return fail_sys(err, "open '%s'", path);
    if (st.st_uid == uid)
        return 0;
    if (!S_ISREG(st.st_mode) || st.st_nlink != 1 || st.st_uid != 0)
        return fail(err, VIAL_E_AUDIT, "'%s' is not a log of this daemon's", path);
    return fchown(fd, uid, gid) < 0 ? fail_sys(err, "hand '%s' over", path) : 0;
}

static int refuse_dir(const char *dir, const char *name, struct vial_error *err)
{
    (void)fail(err, VIAL_E_AUDIT, "directory '%s' holds more than the log: '%.80s'",
               dir, name);
    return fail_remedy(err, "give 'audit: path' a directory of its own, which becomes "
                            "the daemon's user's; one that is not there is made");
}

/* The log, its head and its older files; 1 when NAME is none of them. */
static int hand_name(const char *dir, const char *name, const char *log,
                     const struct passwd *to, struct vial_error *err)
{
    auto_free char *path = path_join(dir, name);

    if (!str_starts(name, log))
        return 1;
    if (!path)
        return fail_memory(err);
    return hand_file(path, to->pw_uid, to->pw_gid, err);
}

static int hand_files(const char *dir, const char *log, const struct passwd *to,
                      struct vial_error *err)
{
    DIR *names = opendir(dir);
    const struct dirent *entry = NULL;
    int rc = 0;

    if (!names)
        return fail_sys(err, "list '%s'", dir);
    /* NOLINTNEXTLINE(concurrency-mt-unsafe): nobody else has this stream */
    while (rc == 0 && (entry = readdir(names)))
        if (!str_eq(entry->d_name, ".") && !str_eq(entry->d_name, ".."))
            rc = hand_name(dir, entry->d_name, log, to, err);
    if (rc > 0)
        rc = refuse_dir(dir, entry->d_name, err);
    (void)closedir(names);
    return rc;
}

/* The log of all runs is written without privilege, so it has to be USER's; and its
 * directory, where it is renamed. But not one that others use too, like /var/log. */
static int hand_over(const char *path, const char *user, struct vial_error *err)
{
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
    if (hand_files(dir, path + strlen(dir) + 1, found, err) < 0)
        return -1;
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
    if (s->audit.path && !s->audit.usual)
        dirs[count++] = dir_of(s->audit.path);
    for (size_t i = 0; i < count; i++)
        writable[i] = dirs[i] ? dirs[i] : "/nonexistent";
    rc = keeper_seal(s->share_dir, writable, err);
    for (size_t i = 0; i < count; i++)
        free(dirs[i]);
    return rc;
}

/* Whoever accepts connections and tells of health must not wait behind what callers
 * run; those who serve callers go back. No vessel has it: the keeper was started
 * before.
 */
static void hurry(void)
{
    if (geteuid() != 0)
        return;
    (void)setpriority(PRIO_PROCESS, 0, FRONT_NICE);
    sys_weigh_session(FRONT_NICE);
}

/* The front goes on reading vial's data, which may lie where its new user cannot go, as
 * in a clone in /root: then it goes there by FD, which root has opened. The keepers,
 * who stay root, have the path. */
static int reach_share(struct serve *s, int *fd, struct vial_error *err)
{
    struct settings *settings = s->now->settings;
    const char *user = settings->serve.user;
    char *path = NULL;

    if (faccessat(*fd, "runtimes/languages.yaml", R_OK, 0) < 0) {
        (void)fail_sys(err, "read vial's data in '%s' as user '%s'",
                       settings->share_dir, user);
        return fail_remedy(err,
                           "let every user read it: 'chmod -R a+rX %s', or 'make "
                           "install'",
                           settings->share_dir);
    }
    if (access(settings->share_dir, X_OK) == 0)
        return 0;
    (void)snprintf(s->sources.share_dir, sizeof(s->sources.share_dir),
                   "/proc/self/fd/%d", *fd);
    path = strdup(s->sources.share_dir);
    if (!path)
        return fail_memory(err);
    free(settings->share_dir);
    settings->share_dir = path;
    *fd = -1; /* as long as we live */
    return 0;
}

int privilege_give_up(struct serve *s, const struct front *f, struct vial_error *err)
{
    const struct settings *settings = s->now->settings;
    const struct serve_settings *c = &settings->serve;
    const char *sockets[SERVE_LISTENERS + 1] = { NULL };
    const struct keeper_options options = {
        .settings = settings,
        .sockets = sockets,
        .vessels = (unsigned)(c->sessions + c->concurrency + c->queue),
    };
    auto_fd int share_fd = open(settings->share_dir, O_PATH | O_DIRECTORY | O_CLOEXEC);

    s->nice = getpriority(PRIO_PROCESS, 0);
    if (c->keeper == KEEPER_OFF || (c->keeper == KEEPER_AUTO && geteuid() != 0))
        return 0;
    if (settings->audit.path && !settings->audit.usual &&
        hand_over(settings->audit.path, c->user, err) < 0)
        return -1;
    for (size_t i = 0, n = 0; i < f->count; i++)
        if (f->listeners[i].path[0])
            sockets[n++] = f->listeners[i].path;
    if (keeper_start(&options, err) < 0)
        return -1;
    hurry();
    if (keeper_drop(c->user, err) < 0 || reach_share(s, &share_fd, err) < 0 ||
        seal(settings, f, err) < 0)
        return -1;
    s->sources.kept = true;
    return 0;
}
