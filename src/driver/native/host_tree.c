/* SPDX-License-Identifier: Apache-2.0 */
#include "driver/native/host_tree.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/mount.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/fail.h"

#define OPENJDK "-openjdk"

/* Files of /etc that programs look for and that hold no secret. They are shown with
 * inodes of the vessel's own: a shared one would be a channel between vessels (locks,
 * inotify). */
static const char *const etc_files[] = { "ld.so.cache", "services", "protocols",
                                         "matplotlibrc", NULL };

/* Directories whose files an interpreter needs to start; and one for each Java. */
static const char *const etc_dirs[] = { "alternatives", "R", "php", "fonts", NULL };

/* Of /proc, what a vessel does not see. */
static const char *const proc_masked_files[] = {
    "/proc/kcore",       "/proc/kmsg",          "/proc/keys",
    "/proc/key-users",   "/proc/timer_list",    "/proc/sched_debug",
    "/proc/vmallocinfo", "/proc/slabinfo",      "/proc/kallsyms",
    "/proc/modules",     "/proc/kpagecount",    "/proc/kpageflags",
    "/proc/kpagecgroup", "/proc/latency_stats", "/proc/cmdline",
    "/proc/interrupts",  "/proc/locks",         NULL
};

static const char *const proc_masked_dirs[] = { "/proc/acpi", "/proc/scsi",
                                                "/proc/asound", NULL };

const char *const devices_shown[DEVICES] = { "null", "zero", "full", "random",
                                             "urandom" };

/* Looking for each by name costs far less than reading all of /etc. */
static bool has(int etc_fd, const char *name, mode_t type)
{
    struct stat st;

    return fstatat(etc_fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
           (st.st_mode & S_IFMT) == type;
}

static void read_etc(struct host *h, int etc_fd)
{
    for (size_t i = 0; etc_files[i]; i++) {
        if (has(etc_fd, etc_files[i], S_IFREG))
            strv_push(&h->etc_files, etc_files[i]);
    }
    for (size_t i = 0; etc_dirs[i]; i++) {
        if (has(etc_fd, etc_dirs[i], S_IFDIR))
            strv_push(&h->etc_dirs, etc_dirs[i]);
    }
}

/* "java-17-openjdk-amd64" of /usr/lib/jvm has its files in /etc/java-17-openjdk. */
static void read_java(struct host *h, int etc_fd)
{
    DIR *dir = opendir("/usr/lib/jvm");
    const struct dirent *entry = NULL;

    /* readdir is safe here: nobody else has this stream. */
    while (dir && (entry = readdir(dir))) { /* NOLINT(concurrency-mt-unsafe) */
        const char *end = strstr(entry->d_name, OPENJDK);
        char name[64];

        if (!end || !str_starts(entry->d_name, "java-") ||
            end - entry->d_name > (ptrdiff_t)(sizeof(name) - sizeof(OPENJDK)))
            continue;
        (void)snprintf(name, sizeof(name), "%.*s" OPENJDK, (int)(end - entry->d_name),
                       entry->d_name);
        if (has(etc_fd, name, S_IFDIR) && !strv_has(&h->etc_dirs, name))
            strv_push(&h->etc_dirs, name);
    }
    if (dir)
        (void)closedir(dir);
}

static void read_links(struct host *h)
{
    static const char *const names[HOST_LINKS] = { "bin",   "sbin",  "lib",
                                                   "lib64", "lib32", "libx32" };

    for (size_t i = 0; i < HOST_LINKS; i++) {
        struct host_link *link = &h->links[h->link_count];
        char path[16];
        ssize_t n = 0;

        (void)snprintf(path, sizeof(path), "/%s", names[i]);
        n = readlink(path, link->to, sizeof(link->to) - 1);
        if (n < 0 && access(path, F_OK) != 0)
            continue;
        link->to[n > 0 ? n : 0] = '\0';
        link->name = names[i];
        h->link_count++;
    }
}

static void read_localtime(struct host *h)
{
    ssize_t n = readlink("/etc/localtime", h->localtime, sizeof(h->localtime) - 1);

    h->localtime[n > 0 ? n : 0] = '\0';
    if (!str_starts(h->localtime, "/usr/share/zoneinfo/"))
        h->localtime[0] = '\0';
}

static bool devices_can_be_own(void)
{
    struct stat dev, node;
    auto_fd int fd = open("/dev", O_PATH | O_DIRECTORY | O_CLOEXEC);

    if (fd < 0 || fstat(fd, &dev) < 0)
        return false;
    for (size_t i = 0; i < DEVICES; i++) {
        if (fstatat(fd, devices_shown[i], &node, AT_SYMLINK_NOFOLLOW) < 0 ||
            node.st_dev != dev.st_dev)
            return false;
    }
    return true;
}

/* Whether PATH exists and anyone may read it. */
static bool is_shown(const char *path)
{
    struct stat st;

    if (stat(path, &st) < 0)
        return errno != ENOENT; /* in doubt it is masked */
    return S_ISDIR(st.st_mode) || (st.st_mode & S_IROTH);
}

static void read_proc(struct host *h)
{
    for (size_t i = 0; proc_masked_files[i]; i++)
        if (is_shown(proc_masked_files[i]))
            strv_push(&h->masked_files, proc_masked_files[i]);
    for (size_t i = 0; proc_masked_dirs[i]; i++)
        if (is_shown(proc_masked_dirs[i]))
            strv_push(&h->masked_dirs, proc_masked_dirs[i]);
}

static int fill(struct host *h, struct vial_error *err)
{
    auto_fd int etc_fd = open("/etc", O_PATH | O_DIRECTORY | O_CLOEXEC);

    if (etc_fd < 0 && errno != ENOENT)
        return fail_sys(err, "read '/etc'");
    h->read_ns = clock_now_ns();
    read_links(h);
    read_localtime(h);
    if (etc_fd >= 0) {
        read_etc(h, etc_fd);
        read_java(h, etc_fd);
    }
    read_proc(h);
    h->own_devices = devices_can_be_own();
    return strv_ok(&h->etc_files) && strv_ok(&h->etc_dirs) &&
                   strv_ok(&h->masked_files) && strv_ok(&h->masked_dirs)
               ? 0
               : fail_memory(err);
}

struct host *host_read(struct vial_error *err)
{
    struct host *h = calloc(1, sizeof(*h));

    if (!h) {
        (void)fail_memory(err);
        return NULL;
    }
    h->users = 1;
    if (fill(h, err) == 0)
        return h;
    host_drop(h);
    return NULL;
}

struct host *host_hold(struct host *h)
{
    (void)atomic_fetch_add(&h->users, 1);
    return h;
}

void host_drop(struct host *h)
{
    if (!h || atomic_fetch_sub(&h->users, 1) > 1)
        return;
    strv_done(&h->etc_files);
    strv_done(&h->etc_dirs);
    strv_done(&h->masked_files);
    strv_done(&h->masked_dirs);
    free(h);
}

/* An overlay without a layer to write to has two others at least. What the second one
 * shows is seen by nobody: the vessel gets the nodes alone. */
static int make_overlay(void)
{
    auto_fd int fs = (int)syscall(SYS_fsopen, "overlay", FSOPEN_CLOEXEC);

    if (fs < 0 ||
        syscall(SYS_fsconfig, fs, FSCONFIG_SET_STRING, "lowerdir", "/dev:/usr", 0) <
            0 ||
        syscall(SYS_fsconfig, fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0) < 0)
        return -1;
    return (int)syscall(SYS_fsmount, fs, FSMOUNT_CLOEXEC,
                        MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC);
}

static int check_nodes(int fd, struct vial_error *err)
{
    for (size_t i = 0; i < DEVICES; i++) {
        struct stat st;

        if (fstatat(fd, devices_shown[i], &st, AT_SYMLINK_NOFOLLOW) < 0)
            return fail_sys(err, "look at '/dev/%s'", devices_shown[i]);
        if (!S_ISCHR(st.st_mode))
            return fail(err, VIAL_E_OPEN, "'/dev/%s' of this host is no device",
                        devices_shown[i]);
    }
    return 0;
}

int devices_open(struct vial_error *err)
{
    auto_fd int fd = make_overlay();

    if (fd < 0) {
        (void)fail_sys(err, "give the vessel device nodes of its own");
        return fail_as(err, VIAL_E_OPEN);
    }
    return check_nodes(fd, err) < 0 ? -1 : fd_take(&fd);
}
