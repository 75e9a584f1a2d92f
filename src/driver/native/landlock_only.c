/* SPDX-License-Identifier: Apache-2.0 */
#include "driver/native/landlock_only.h"

#include <ctype.h>
#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fail.h"
#include "driver/native/confinement.h"
#include "driver/native/native.h"
#include "driver/native/seccomp.h"
#include "driver/process/process.h"

static const char *const programs[] = { "/usr",   "/bin",   "/sbin",  "/lib",
                                        "/lib64", "/lib32", "/libx32" };

static const char *const readable[] = {
    "/etc/ld.so.cache",
    "/etc/alternatives",
    "/etc/localtime",
    "/etc/passwd",
    "/etc/group",
    "/etc/nsswitch.conf",
    "/etc/hosts",
    "/etc/services",
    "/etc/protocols",
    "/etc/R",
    "/etc/php",
    "/etc/fonts",
    "/etc/java-17-openjdk",
    "/etc/ssl/openssl.cnf",
    "/etc/matplotlibrc",
};

static const char *const devices[] = { "/dev/null", "/dev/zero", "/dev/full",
                                       "/dev/random", "/dev/urandom" };

#define COUNT(table) (sizeof(table) / sizeof(*(table)))

static int add_paths(struct jail *jail, const char *tmpdir)
{
    const uint32_t all = JAIL_READ | JAIL_WRITE | JAIL_EXEC;
    int rc = confine_path(jail, jail->workdir, all) | confine_path(jail, tmpdir, all);

    for (size_t i = 0; i < COUNT(programs); i++)
        rc |= confine_path(jail, programs[i], JAIL_READ | JAIL_EXEC);
    for (size_t i = 0; i < COUNT(readable); i++)
        rc |= confine_path(jail, readable[i], JAIL_READ);
    for (size_t i = 0; i < COUNT(devices); i++)
        rc |= confine_path(jail, devices[i], JAIL_READ | JAIL_WRITE);
    return rc;
}

/* Threads of process PID if it is ours; links of "task" are "." and ".." and one
 * per thread. */
static int64_t threads_of(const char *pid)
{
    char path[300];
    struct stat st;

    (void)snprintf(path, sizeof(path), "/proc/%s/task", pid);
    if (stat(path, &st) < 0 || st.st_uid != getuid() || st.st_nlink < 2)
        return 0;
    return (int64_t)st.st_nlink - 2;
}

/* The kernel counts a user's processes all over the host. */
static int64_t count_own_threads(void)
{
    DIR *dir = opendir("/proc");
    const struct dirent *entry = NULL;
    int64_t count = 0;

    /* readdir is safe here: nobody else has this stream. */
    while (dir && (entry = readdir(dir))) /* NOLINT(concurrency-mt-unsafe) */
        count +=
            isdigit((unsigned char)entry->d_name[0]) ? threads_of(entry->d_name) : 0;
    if (dir)
        (void)closedir(dir);
    return count;
}

static int confine(struct vessel *v, const struct plan *plan, int guest_fd,
                   struct vial_error *err)
{
    struct jail *jail = &v->jail;
    struct limits limits = plan->limits;
    bool own_profile = plan->seccomp && !str_eq(plan->seccomp, "default");

    if (own_profile) /* it may allow a network, which is the host's here */
        return fail(
            err, VIAL_E_UNSUPPORTED,
            "seccomp profile '%s' needs namespaces, which this host does not allow",
            plan->seccomp);
    jail->flags |=
        JAIL_NO_NEW_PRIVS | JAIL_LANDLOCK | JAIL_LANDLOCK_NET | JAIL_DROP_CAPS;
    limits.pids += limits.pids ? count_own_threads() : 0;
    limits.file_bytes = confine_largest_file(plan, 0); /* no mount of a size stops it */
    jail->rlimit_count = 0;
    confine_rlimits_of(jail, &limits, true);
    if (add_paths(jail, v->tmpdir) < 0)
        return fail_memory(err);
    return seccomp_fill(jail, guest_fd, "nonet", plan, err);
}

static int name_layers(struct vessel *v, struct vial_error *err)
{
    v->level = "landlock";
    v->limits_by = "rlimit";
    strv_push(&v->layers, "seccomp");
    strv_push(&v->layers, "landlock");
    strv_push(&v->layers, "no_new_privs");
    strv_push(&v->layers, "caps");
    return strv_ok(&v->layers) ? 0 : fail_memory(err);
}

int landlock_only_open(const struct plan *plan, int guest_fd, struct vessel **out,
                       struct vial_error *err)
{
    struct vessel *v = NULL;

    if (driver_process.open(plan, guest_fd, &v, err) < 0) {
        if (err && fail_is(err, VIAL_E_UNSUPPORTED))
            (void)fail_remedy(err,
                              "run 'vial doctor': with user namespaces 'native' can");
        return -1;
    }
    if (confine(v, plan, guest_fd, err) < 0 || name_layers(v, err) < 0) {
        driver_process.close(v);
        return -1;
    }
    *out = v;
    return 0;
}
