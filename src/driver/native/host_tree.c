/* SPDX-License-Identifier: Apache-2.0 */
#include "driver/native/host_tree.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/fail.h"

#define OPENJDK "-openjdk"

/* Files of /etc that programs look for and that hold no secret. They are shown with
 * inodes of the vessel's own: a shared one would be a channel between vessels (locks,
 * inotify). */
static const char *const etc_files[] = { "ld.so.cache", "services", "protocols",
                                         "matplotlibrc", NULL };

/* Directories whose files an interpreter needs to start; and one for each Java. */
static const char *const etc_dirs[] = { "alternatives", "R", "php", "fonts", NULL };

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

bool host_shows(const char *path)
{
    struct stat st;

    if (stat(path, &st) < 0)
        return errno != ENOENT; /* in doubt it is masked */
    return S_ISDIR(st.st_mode) || (st.st_mode & S_IROTH);
}

int host_read(struct host *out, struct vial_error *err)
{
    struct host h = { 0 };
    auto_fd int etc_fd = open("/etc", O_PATH | O_DIRECTORY | O_CLOEXEC);

    if (etc_fd < 0 && errno != ENOENT)
        return fail_sys(err, "read '/etc'");
    read_links(&h);
    read_localtime(&h);
    if (etc_fd >= 0) {
        read_etc(&h, etc_fd);
        read_java(&h, etc_fd);
    }
    if (!strv_ok(&h.etc_files) || !strv_ok(&h.etc_dirs)) {
        host_done(&h);
        return fail_memory(err);
    }
    *out = h;
    return 0;
}

void host_done(struct host *h)
{
    strv_done(&h->etc_files);
    strv_done(&h->etc_dirs);
}
