/* SPDX-License-Identifier: Apache-2.0 */
#include "driver/native/host.h"

#include <dirent.h>
#include <errno.h>
#include <fnmatch.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fail.h"

/* Files of /etc that programs look for and that hold no secret. They are shown with
 * inodes of the vessel's own: a shared one would be a channel between vessels (locks,
 * inotify). */
static const char *const etc_files[] = { "ld.so.cache", "services", "protocols",
                                         "matplotlibrc", NULL };

/* Patterns of directories whose files an interpreter needs to start. */
static const char *const etc_dirs[] = { "alternatives", "java-*-openjdk", "R",
                                        "php",          "fonts",          NULL };

static bool listed(const char *name, const char *const *patterns)
{
    for (; *patterns; patterns++) {
        if (fnmatch(*patterns, name, FNM_PERIOD) == 0)
            return true;
    }
    return false;
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
    DIR *dir = opendir("/etc");
    const struct dirent *entry = NULL;

    if (!dir && errno != ENOENT)
        return fail_sys(err, "read '/etc'");
    read_links(&h);
    read_localtime(&h);
    /* readdir is safe here: nobody else has this stream. */
    while (dir && (entry = readdir(dir))) { /* NOLINT(concurrency-mt-unsafe) */
        if (entry->d_type == DT_REG && listed(entry->d_name, etc_files))
            strv_push(&h.etc_files, entry->d_name);
        if (entry->d_type == DT_DIR && listed(entry->d_name, etc_dirs))
            strv_push(&h.etc_dirs, entry->d_name);
    }
    if (dir)
        (void)closedir(dir);
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
