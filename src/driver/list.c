/* SPDX-License-Identifier: Apache-2.0 */
#include "driver/list.h"

#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fail.h"
#include "base/io.h"
#include "base/membership.h"
#include "driver/docker/containers.h"
#include "driver/native/native.h"

static bool read_proc(const char *pid, const char *name, char *out, size_t size)
{
    char path[300];

    (void)snprintf(path, sizeof(path), "/proc/%s/%s", pid, name);
    return io_read_at(AT_FDCWD, path, out, size) > 0;
}

/* The number behind KEY in a status file; with LAST, the last one of its line. */
static long status_number(const char *text, const char *key, bool last)
{
    const char *at = strstr(text, key);
    const char *end = NULL;
    long value = -1;
    char *next = NULL;

    if (!at)
        return -1;
    at += strlen(key);
    end = at + strcspn(at, "\n");
    do {
        value = strtol(at, &next, 10);
        at = next + strspn(next, " \t");
    } while (last && at < end && isdigit((unsigned char)*at));
    return value;
}

/* A guest in a container is its engine's to list. */
static bool is_contained(const char *status)
{
    char parent[16];
    char name[64];

    (void)snprintf(parent, sizeof(parent), "%ld",
                   status_number(status, "PPid:", false));
    return read_proc(parent, "comm", name, sizeof(name)) &&
           (strstr(name, "containerd") || strstr(name, "conmon"));
}

/* Anybody may be called so; but whoever has a number inside that is not 1 is some
 * vessel's program. */
static bool is_program(const char *status)
{
    long inside = status_number(status, "NSpid:", true);

    return inside != 1 && inside != status_number(status, "NSpid:", false);
}

/* The name that the guest was started under: a name, if a prefix was asked for; else
 * NULL. What anybody could have written is believed only if it looks like one. */
static const char *name_of(const char *pid, char *room, size_t size)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                  "0123456789._-";

    if (!read_proc(pid, "cmdline", room, size) || !strchr(room, '-') ||
        room[strspn(room, letters)] != '\0' || str_eq(room, "vial-init"))
        return NULL;
    return room;
}

static bool says(const char *hierarchy, const char *group, const char *file,
                 const char *word)
{
    char path[2 * PATH_MAX];
    char text[32];

    (void)snprintf(path, sizeof(path), "/sys/fs/cgroup%s%s/%s", hierarchy, group, file);
    return io_read_at(AT_FDCWD, path, text, sizeof(text)) > 0 && str_eq(text, word);
}

static bool is_frozen(const char *pid)
{
    char text[4096];
    char group[PATH_MAX];

    if (!read_proc(pid, "cgroup", text, sizeof(text)))
        return false;
    if (membership_path(text, "freezer", group, sizeof(group)) == 0 &&
        says("/freezer", group, "freezer.state", "FROZEN"))
        return true;
    return membership_path(text, "", group, sizeof(group)) == 0 &&
           says("", group, "cgroup.freeze", "1");
}

/* 0, though it is no vessel's guest; -1: no memory. */
static int add_guest(struct vial_vessels *list, const char *pid)
{
    char comm[32];
    char status[4096];
    char name[256];
    struct vial_vessel v = { .state = "running" };

    if (!read_proc(pid, "comm", comm, sizeof(comm)) || !str_eq(comm, "vial-init") ||
        !read_proc(pid, "status", status, sizeof(status)) || is_program(status) ||
        is_contained(status))
        return 0;
    v.driver = status_number(status, "NSpid:", true) == 1 ? "native" : "process";
    v.name = name_of(pid, name, sizeof(name));
    v.pid = (int)strtol(pid, NULL, 10);
    v.owner = (int)status_number(status, "PPid:", false);
    v.orphan = v.owner <= 1;
    if (is_frozen(pid))
        v.state = "paused";
    return vessels_add(list, &v);
}

int list_here(struct vial_vessels *list, struct vial_error *err)
{
    DIR *proc = opendir("/proc");
    const struct dirent *entry = NULL;
    int rc = 0;

    /* readdir is safe here: nobody else has this stream. */
    while (rc == 0 && proc &&
           (entry = readdir(proc))) /* NOLINT(concurrency-mt-unsafe) */
        if (isdigit((unsigned char)entry->d_name[0]))
            rc = add_guest(list, entry->d_name);
    if (proc)
        (void)closedir(proc);
    return rc < 0 ? fail_memory(err) : 0;
}

int list_contained(struct vial_vessels *list, struct vial_error *err)
{
    struct api api;
    int there = api_find(&api, err) < 0 ? -1 : containers_reach(&api, err);

    return there > 0 ? containers_list(&api, list, err) : there;
}
