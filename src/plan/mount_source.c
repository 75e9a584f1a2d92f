/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which host objects may be shown inside. A source is opened once, by descriptor
 * and through no magic link; what is judged is the object that was opened and its
 * real path, and DEV and INO let the driver mount that object or nothing.
 */
#include "plan/mount_source.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include "base/auto.h"
#include "base/fail.h"
#include "base/path.h"
#include "base/sys.h"
#include "model/value.h"
#include "plan/mount_hazards.h"
#include "plan/mountinfo.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* Never shown, nor anything below or above them. */
static const char *const secret_trees[] = {
    "/proc",
    "/sys",
    "/dev",
    "/run",
    "/var/run",
    "/boot",
    "/etc",
    "/var/lib/docker",
    "/var/lib/containerd",
    "/var/lib/vial",
    "/var/spool/cron",
    "/root/.ssh",
    "/lost+found",
};
/* Never shown as a whole: homes, and where hosts keep their sockets. */
static const char *const crowded[] = {
    "/", "/home", "/root", "/var", "/tmp", "/var/tmp"
};
/* Never writable. */
static const char *const system_trees[] = { "/usr",   "/bin",   "/sbin",  "/lib",
                                            "/lib32", "/lib64", "/libx32" };
/* Below a directory of one of these names lie keys. */
static const char *const secret_names[] = { ".ssh", ".gnupg", ".aws", ".kube",
                                            ".azure" };
/* A directory that holds one of these is someone's home or a control room. */
static const char *const telltales[] = {
    ".ssh",        ".gnupg",         ".aws/credentials",
    ".aws/config", ".kube",          ".docker/config.json",
    ".config/gh",  ".config/gcloud", ".bashrc",
    ".profile",    ".netrc",         ".git-credentials",
    ".pypirc",     "docker.sock",    "containerd.sock",
    "podman.sock"
};
/* Start files that a repository may hold as well; those are shown. */
static const char *const start_files[] = { ".bashrc", ".profile" };
/* Kernel interfaces, wherever they are mounted. */
static const long kernel_types[] = { PROC_SUPER_MAGIC,   SYSFS_MAGIC,
                                     CGROUP_SUPER_MAGIC, CGROUP2_SUPER_MAGIC,
                                     DEBUGFS_MAGIC,      TRACEFS_MAGIC,
                                     SECURITYFS_MAGIC,   BPF_FS_MAGIC,
                                     DEVPTS_SUPER_MAGIC };
/* The same by name, for mounts below a source. */
static const char *const kernel_names[] = {
    "proc",        "sysfs",     "devtmpfs", "devpts",     "cgroup",
    "cgroup2",     "debugfs",   "tracefs",  "securityfs", "bpf",
    "mqueue",      "pstore",    "efivarfs", "configfs",   "binfmt_misc",
    "rpc_pipefs",  "selinuxfs", "nsfs",     "fusectl",    "fuse.lxcfs",
    "fuse.portal", "smackfs",   "resctrl",  "nfsd",       "functionfs"
};

/* How many entries of mounted trees are looked at for sockets, per source. */
#define ENTRIES_MAX ((size_t)20000)
/* Packages lie in thousands of directories, which a run would wait for; whoever listens
 * among them does not do so deep below. */
#define PACKAGES_LOOK 1000

/* One source under judgement. */
struct judging {
    const struct settings *settings;
    const struct mount_table *table;
    bool writable;
    bool lower;
    size_t budget; /* entries still to be looked at */
    bool workspace;
    const char *path;    /* the source's own */
    struct strv *hidden; /* of a workspace: what will be covered, below PATH */
};

static const char *kind_of_object(mode_t mode)
{
    if (S_ISSOCK(mode))
        return "a socket";
    if (S_ISFIFO(mode))
        return "a FIFO";
    if (S_ISCHR(mode) || S_ISBLK(mode))
        return "a device";
    return "not a file";
}

static int refuse(const char *source, const char *why, struct vial_error *err)
{
    (void)fail(err, VIAL_E_MOUNT, "mount source '%s' %s", source, why);
    return fail_remedy(err,
                       "mount a directory or file that holds only what the program "
                       "needs");
}

static int open_object(const char *source, struct vial_error *err)
{
    int fd =
        sys_openat2(AT_FDCWD, source, O_PATH | O_CLOEXEC, 0, RESOLVE_NO_MAGICLINKS);

    if (fd >= 0)
        return fd;
    if (fd == -ENOENT || fd == -ENOTDIR)
        return refuse(source, "does not exist", err);
    (void)fail_sys_rc(err, fd, "open mount source '%s'", source);
    return fail_as(err, VIAL_E_MOUNT);
}

static int check_type(int fd, const char *source, struct stat *st,
                      struct vial_error *err)
{
    struct statfs fs;

    if (fstat(fd, st) < 0 || fstatfs(fd, &fs) < 0) {
        (void)fail_sys(err, "look at mount source '%s'", source);
        return fail_as(err, VIAL_E_MOUNT);
    }
    if (!S_ISREG(st->st_mode) && !S_ISDIR(st->st_mode)) {
        (void)fail(err, VIAL_E_MOUNT, "mount source '%s' is %s", source,
                   kind_of_object(st->st_mode));
        return fail_remedy(err, "only files and directories can be mounted");
    }
    for (size_t i = 0; i < COUNT(kernel_types); i++)
        if ((long)fs.f_type == kernel_types[i])
            return refuse(source, "is an interface of the kernel", err);
    return 0;
}

/* The path the kernel knows the object by, free of symbolic links. */
static int real_path(int fd, const struct stat *st, char *out, size_t size)
{
    char link[40];
    struct stat again;
    ssize_t len;

    (void)snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
    len = readlink(link, out, size);
    if (len <= 0 || (size_t)len >= size || out[0] != '/')
        return -1;
    out[len] = '\0';
    /* A deleted object, or one of another mount namespace, is not there. */
    if (lstat(out, &again) < 0 || again.st_dev != st->st_dev ||
        again.st_ino != st->st_ino)
        return -1;
    return 0;
}

static bool has_component(const char *path, const char *name)
{
    size_t len = strlen(name);

    for (const char *at = path; *at == '/'; at += strcspn(at, "/")) {
        at++;
        if (strncmp(at, name, len) == 0 && (at[len] == '/' || at[len] == '\0'))
            return true;
    }
    return false;
}

static int check_tree(const struct judging *j, const char *path, struct vial_error *err)
{
    for (size_t i = 0; i < COUNT(crowded); i++)
        if (strcmp(path, crowded[i]) == 0)
            return refuse(path, "holds far more than a program may see", err);
    for (size_t i = 0; i < COUNT(secret_trees); i++)
        if (path_is_beneath(path, secret_trees[i]) ||
            path_is_beneath(secret_trees[i], path))
            return refuse(path, "belongs to the host", err);
    for (size_t i = 0; i < COUNT(secret_names); i++)
        if (has_component(path, secret_names[i]))
            return refuse(path, "is where keys are kept", err);
    for (size_t i = 0; j->writable && i < COUNT(system_trees); i++)
        if (path_is_beneath(path, system_trees[i]))
            return refuse(path, "belongs to the host and cannot be writable", err);
    if (j->writable && j->settings->state &&
        mount_home_check_state(path, j->settings->state, err) < 0)
        return -1;
    return mount_home_check(path, j->writable, j->settings->home, err);
}

/* PATH by every name that its file system has here: a bind mount of /etc is /etc.
 * Not by way of /run/host, where a container's tools show the whole host. */
static int check_names(const struct judging *j, const struct mount_row *row,
                       const char *path, struct vial_error *err)
{
    for (size_t i = 0; row && i < j->table->count; i++) {
        const struct mount_row *other = &j->table->rows[i];
        auto_str struct str name = { 0 };

        if (path_is_beneath(other->point, "/run/host") ||
            !mountinfo_alias(row, path, other, &name))
            continue;
        if (!str_ok(&name) || !name.data)
            return fail_memory(err);
        if (strcmp(name.data, path) == 0)
            continue;
        if (check_tree(j, name.data, err) < 0)
            return fail_in(err, "'%s'", path);
    }
    return 0;
}

static bool is_start_file(const char *name)
{
    for (size_t i = 0; i < COUNT(start_files); i++)
        if (strcmp(start_files[i], name) == 0)
            return true;
    return false;
}

static int check_content(const struct judging *j, int fd, const char *path,
                         struct vial_error *err)
{
    bool repository =
        j->workspace && faccessat(fd, ".git", F_OK, AT_SYMLINK_NOFOLLOW) == 0;

    for (size_t i = 0; i < COUNT(telltales); i++)
        if (!(repository && is_start_file(telltales[i])) &&
            faccessat(fd, telltales[i], F_OK, AT_SYMLINK_NOFOLLOW) == 0) {
            (void)fail(err, VIAL_E_MOUNT, "mount source '%s' holds '%s'", path,
                       telltales[i]);
            return fail_remedy(err, "mount a directory below it");
        }
    return 0;
}

static int refuse_socket(const char *path, const char *socket, struct vial_error *err)
{
    struct shown shown = value_show(socket + 2, strlen(socket) - 2); /* without "./" */

    (void)fail(err, VIAL_E_MOUNT, "mount source '%s' holds the socket '%s'", path,
               shown.text);
    return fail_remedy(err, "remove the socket, or mount a directory without it: a "
                            "program could talk to whoever listens there");
}

/* PATH is the source, or a mount below it. What cannot be named to everybody who covers
 * it is not hidden. */
static int hide_socket(const struct judging *j, const char *path, const char *socket,
                       struct vial_error *err)
{
    const char *below = path + strlen(j->path);

    if (j->hidden->count >= MOUNT_HIDDEN_MAX ||
        !value_is_plain(socket, strlen(socket)) ||
        !value_is_plain(path, strlen(path)) || strlen(path) + strlen(socket) >= 4000)
        return refuse_socket(path, socket, err);
    strv_printf(j->hidden, "%s%s", below, socket + 1);
    return strv_ok(j->hidden) ? 0 : fail_memory(err);
}

static int check_sockets(struct judging *j, int fd, const char *path,
                         struct vial_error *err)
{
    auto_strv struct strv found = { 0 };
    size_t most = j->workspace ? MOUNT_HIDDEN_MAX + 1 : 1;

    if (sockets_find(fd, &j->budget, most, &found) < 0)
        return fail_memory(err);
    if (!j->workspace && found.count > 0)
        return refuse_socket(path, found.items[0], err);
    for (size_t i = 0; i < found.count; i++)
        if (hide_socket(j, path, found.items[i], err) < 0)
            return -1;
    return 0;
}

/* By name and, where we may open it, by what is there. */
static int check_point(struct judging *j, const struct mount_row *row,
                       struct vial_error *err)
{
    auto_fd int fd = -1;
    struct stat st;

    for (size_t i = 0; i < COUNT(kernel_names); i++)
        if (strcmp(row->type, kernel_names[i]) == 0)
            return refuse(row->point, "is an interface of the kernel", err);
    if (check_names(j, row, row->point, err) < 0)
        return -1;
    fd = sys_openat2(AT_FDCWD, row->point, O_PATH | O_CLOEXEC, 0,
                     RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS);
    if (fd < 0) /* nor may the program */
        return 0;
    if (check_type(fd, row->point, &st, err) < 0)
        return -1;
    if (!S_ISDIR(st.st_mode))
        return 0;
    if (check_content(j, fd, row->point, err) < 0)
        return -1;
    return check_sockets(j, fd, row->point, err);
}

/* A mount shows what is mounted below it, too. */
static int check_below(struct judging *j, const char *path, struct vial_error *err)
{
    for (size_t i = 0; i < j->table->count; i++) {
        const struct mount_row *row = &j->table->rows[i];

        if (strcmp(row->point, path) == 0 || !path_is_beneath(row->point, path))
            continue;
        if (check_point(j, row, err) == 0)
            continue;
        (void)fail_in(err, "mounted below '%s'", path);
        return fail_remedy(err, "unmount '%s', or mount a narrower directory",
                           row->point);
    }
    return 0;
}

/* Roots are resolved as sources are, so that a link among them fits. */
static bool is_below_root(const char *path, const char *root)
{
    auto_fd int fd = open(root, O_PATH | O_CLOEXEC | O_DIRECTORY);
    char real[4096];
    struct stat st;

    if (fd < 0 || fstat(fd, &st) < 0 || real_path(fd, &st, real, sizeof(real)) < 0)
        return false;
    return path_is_beneath(path, real);
}

static int check_within(const char *within, const char *path, struct vial_error *err)
{
    if (!within || (*within && path_is_beneath(path, within)))
        return 0;
    (void)fail(err, VIAL_E_MOUNT_OUTSIDE,
               "mount source '%s' lies outside the workspace", path);
    return fail_remedy(err,
                       "mount what lies below the workspace, or name its directory "
                       "in policy key 'mount_roots' of your settings");
}

static int check_roots(const struct mount_terms *terms, const char *path,
                       struct vial_error *err)
{
    const struct policy *p = &terms->settings->policy;

    if (!((p->set >> POLICY_ID_mount_roots) & 1u))
        return check_within(terms->within, path, err);
    for (size_t i = 0; i < p->mount_roots.count; i++)
        if (is_below_root(path, p->mount_roots.items[i]))
            return 0;
    (void)fail(err, VIAL_E_MOUNT_OUTSIDE,
               "mount source '%s' lies outside the allowed roots", path);
    return fail_remedy(err, "policy key 'mount_roots' in %s says which they are",
                       p->origin[POLICY_ID_mount_roots]);
}

static int judge_dir(struct judging *j, int fd, const char *path,
                     struct vial_error *err)
{
    if (check_content(j, fd, path, err) < 0)
        return -1;
    if (j->lower)
        return 0;
    if (check_below(j, path, err) < 0)
        return -1;
    return check_sockets(j, fd, path, err);
}

int mount_source_judge(const struct mount_terms *terms, const char *source,
                       struct plan_mount *out, struct vial_error *err)
{
    auto_mountinfo struct mount_table table = { 0 };
    struct judging j = { .settings = terms->settings,
                         .table = &table,
                         .writable = terms->writable,
                         .lower = terms->lower,
                         .workspace = terms->workspace,
                         .budget = terms->packages ? PACKAGES_LOOK : ENTRIES_MAX };
    auto_fd int fd = open_object(source, err);
    auto_strv struct strv hidden = { 0 };
    char path[4096];
    struct stat st;

    if (fd < 0 || check_type(fd, source, &st, err) < 0)
        return -1;
    if (real_path(fd, &st, path, sizeof(path)) < 0)
        return refuse(source, "has no path of its own", err);
    j.path = path;
    j.hidden = &hidden;
    if (check_tree(&j, path, err) < 0 || mountinfo_read(&table, err) < 0 ||
        check_names(&j, mountinfo_of(&table, path), path, err) < 0 ||
        check_roots(terms, path, err) < 0 ||
        (S_ISDIR(st.st_mode) && judge_dir(&j, fd, path, err) < 0))
        return -1;
    out->source = strdup(path);
    out->writable = j.writable;
    out->is_dir = S_ISDIR(st.st_mode);
    out->dev = st.st_dev;
    out->ino = st.st_ino;
    out->hidden = hidden;
    hidden = (struct strv){ 0 };
    return out->source ? 0 : fail_memory(err);
}
