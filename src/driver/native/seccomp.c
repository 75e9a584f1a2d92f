/* SPDX-License-Identifier: Apache-2.0 */
#include "driver/native/seccomp.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/filter.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/fail.h"
#include "base/io.h"
#include "base/json.h"
#include "driver/native/profile.h"

#define FILTER_MAX (BPF_MAXINSNS * sizeof(struct sock_filter))

/* OUT holds PATH_MAX bytes. */
static int find_dir(int guest_fd, char *out, struct vial_error *err)
{
    char link[32];
    char path[PATH_MAX - 16];
    ssize_t n = 0;
    char *slash = NULL;

    (void)snprintf(link, sizeof(link), "/proc/self/fd/%d", guest_fd);
    n = readlink(link, path, sizeof(path) - 1);
    if (n < 0)
        return fail_sys(err, "find the guest's directory");
    path[n] = '\0';
    slash = strrchr(path, '/');
    if (path[0] != '/' || !slash)
        return fail(err, VIAL_E_GUEST, "guest program '%s' has no directory", path);
    *slash = '\0';
    (void)snprintf(out, PATH_MAX, "%s/seccomp", path);
    return 0;
}

/* 1 when it was there. A short or odd file is not. */
static int load_one(const char *dir, const char *name, int number, struct blob *out)
{
    char path[PATH_MAX + 64];
    auto_fd int fd = -1;
    struct vial_error ignored;

    (void)snprintf(path, sizeof(path), "%s/%s.f%d.bpf", dir, name, number);
    fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0 || io_read_fd(fd, path, FILTER_MAX, out, &ignored) < 0)
        return 0;
    if (out->len > 0 && out->len % sizeof(struct sock_filter) == 0)
        return 1;
    blob_done(out);
    return 0;
}

static int compile_now(const char *dir, const char *name,
                       struct blob filters[PROFILE_FILTERS], struct vial_error *err)
{
    auto_json json_t *profile = NULL;

    if (profile_read(dir, name, &profile, err) < 0) {
        if (!err || err->sys != ENOENT)
            return -1;
        (void)fail(err, VIAL_E_VALUE, "seccomp profile '%s' is unknown", name);
        return fail_remedy(err, "profiles are the .yaml files in '%.200s'", dir);
    }
    return profile_compile(profile, filters, err);
}

int seccomp_fill(struct jail *jail, int guest_fd, const char *name,
                 struct vial_error *err)
{
    char dir[PATH_MAX];
    struct blob filters[PROFILE_FILTERS] = { 0 };

    if (!profile_name_ok(name))
        return fail(err, VIAL_E_VALUE, "seccomp profile '%s' is not a name", name);
    if (find_dir(guest_fd, dir, err) < 0)
        return -1;
    if (!load_one(dir, name, 1, &filters[0]) || !load_one(dir, name, 2, &filters[1])) {
        blob_done(&filters[0]);
        if (compile_now(dir, name, filters, err) < 0)
            return -1;
    }
    for (size_t i = 0; i < PROFILE_FILTERS; i++) {
        jail->filters[i].data = (uint8_t *)filters[i].data;
        jail->filters[i].len = filters[i].len;
    }
    jail->flags |= JAIL_SECCOMP;
    return 0;
}

int native_seccomp_summary(const char *share_dir, const char *name, json_t **out,
                           struct vial_error *err)
{
    auto_json json_t *profile = NULL;
    char dir[PATH_MAX];

    if (!profile_name_ok(name))
        return fail(err, VIAL_E_VALUE, "seccomp profile '%s' is not a name", name);
    (void)snprintf(dir, sizeof(dir), "%s/seccomp", share_dir);
    if (profile_read(dir, name, &profile, err) < 0)
        return -1;
    *out = profile_summary(profile);
    return *out ? 0 : fail_memory(err);
}
