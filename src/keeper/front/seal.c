/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <limits.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/landlock.h>
#include <linux/seccomp.h>
#include <pwd.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/fail.h"
#include "driver/native/native.h"
#include "driver/native/seccomp.h"
#include "keeper/front/start_keeper.h"

/* Kernel headers may be older than the kernel. */
#define ACCESS_REFER    (UINT64_C(1) << 13) /* ABI 2 */
#define ACCESS_TRUNCATE (UINT64_C(1) << 14) /* ABI 3 */
#define SCOPE_SIGNAL    (UINT64_C(1) << 1)  /* ABI 6 */

#define OF_FILES (LANDLOCK_ACCESS_FS_WRITE_FILE | ACCESS_TRUNCATE)
#define OF_DIRS                                                                        \
    (LANDLOCK_ACCESS_FS_REMOVE_DIR | LANDLOCK_ACCESS_FS_REMOVE_FILE |                  \
     LANDLOCK_ACCESS_FS_MAKE_CHAR | LANDLOCK_ACCESS_FS_MAKE_DIR |                      \
     LANDLOCK_ACCESS_FS_MAKE_REG | LANDLOCK_ACCESS_FS_MAKE_SOCK |                      \
     LANDLOCK_ACCESS_FS_MAKE_FIFO | LANDLOCK_ACCESS_FS_MAKE_BLOCK |                    \
     LANDLOCK_ACCESS_FS_MAKE_SYM | ACCESS_REFER)

/* As of ABI 6; older kernels take a shorter one. */
struct ruleset {
    uint64_t fs, net, scoped;
};

static uint64_t known_accesses(int abi)
{
    uint64_t all = OF_FILES | OF_DIRS | LANDLOCK_ACCESS_FS_EXECUTE;

    if (abi < 2)
        all &= ~ACCESS_REFER;
    if (abi < 3)
        all &= ~ACCESS_TRUNCATE;
    return all;
}

static int allow(int ruleset, uint64_t accesses, const char *path,
                 struct vial_error *err)
{
    auto_fd int fd = open(path, O_PATH | O_CLOEXEC);
    struct landlock_path_beneath_attr rule = { .parent_fd = fd };
    struct stat st;

    if (fd < 0 && (errno == EACCES || errno == ENOENT))
        return 0; /* where we cannot go, there is nothing to allow */
    if (fd < 0 || fstat(fd, &st) < 0)
        return fail_sys(err, "open '%s'", path);
    rule.allowed_access = accesses & (OF_FILES | (S_ISDIR(st.st_mode) ? OF_DIRS : 0));
    if (syscall(SYS_landlock_add_rule, ruleset, LANDLOCK_RULE_PATH_BENEATH, &rule, 0) <
        0)
        return fail_sys(err, "allow writing below '%s'", path);
    return 0;
}

/* It also keeps us from tracing any process that is not in it: a keeper of the same
 * user, above all. */
static int enter_landlock(const char *const *writable, struct vial_error *err)
{
    int abi = native_landlock_abi();
    struct ruleset attr = { .fs = known_accesses(abi),
                            .scoped = abi >= 6 ? SCOPE_SIGNAL : 0 };
    size_t size = abi >= 6 ? sizeof(attr) : sizeof(attr.fs);
    auto_fd int ruleset = -1;

    if (abi <= 0)
        return abi < 0 ? fail_sys_rc(err, abi, "ask for Landlock") : 0;
    ruleset = (int)syscall(SYS_landlock_create_ruleset, &attr, size, 0);
    if (ruleset < 0)
        return fail_sys(err, "make a Landlock ruleset");
    for (size_t i = 0; writable && writable[i]; i++)
        if (allow(ruleset, attr.fs, writable[i], err) < 0)
            return -1;
    /* Files without a name, for output that does not fit into memory. */
    if (allow(ruleset, attr.fs, "/dev/null", err) < 0 ||
        allow(ruleset, LANDLOCK_ACCESS_FS_WRITE_FILE, "/tmp", err) < 0 ||
        allow(ruleset, LANDLOCK_ACCESS_FS_WRITE_FILE, "/var/tmp", err) < 0)
        return -1;
    if (syscall(SYS_landlock_restrict_self, ruleset, 0) < 0)
        return fail_sys(err, "enter Landlock");
    return 0;
}

static int load_filters(const char *share_dir, struct vial_error *err)
{
    struct blob filters[PROFILE_FILTERS] = { 0 };
    char dir[PATH_MAX];
    int rc = 0;

    (void)snprintf(dir, sizeof(dir), "%s/seccomp", share_dir);
    if (seccomp_read(dir, "front", filters, err) < 0)
        return -1;
    for (size_t i = 0; rc == 0 && i < PROFILE_FILTERS && filters[i].len; i++) {
        struct sock_fprog program = {
            .len = (unsigned short)(filters[i].len / sizeof(struct sock_filter)),
            .filter = (struct sock_filter *)(void *)filters[i].data
        };

        if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC,
                    &program) != 0)
            rc = fail_sys(err, "load the front's filter");
    }
    blob_done(&filters[0]);
    blob_done(&filters[1]);
    return rc;
}

int keeper_seal(const char *share_dir, const char *const *writable,
                struct vial_error *err)
{
    const struct rlimit no_core = { 0, 0 };

    if (setrlimit(RLIMIT_CORE, &no_core) < 0 ||
        prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0 ||
        prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
        return fail_sys(err, "give up new privileges");
    if (enter_landlock(writable, err) < 0)
        return -1;
    return load_filters(share_dir, err);
}

static int find_user(const char *name, uid_t *uid, gid_t *gid, struct vial_error *err)
{
    char room[4096];
    struct passwd entry;
    struct passwd *found = NULL;

    if (getpwnam_r(name, &entry, room, sizeof(room), &found) != 0 || !found) {
        (void)fail(err, VIAL_E_VALUE, "user '%s' does not exist", name);
        return fail_remedy(err,
                           "make a system user of that name ('useradd --system "
                           "--no-create-home --shell /usr/sbin/nologin %s'), or "
                           "name another",
                           name);
    }
    if (entry.pw_uid == 0 || entry.pw_gid == 0)
        return fail(err, VIAL_E_VALUE, "user '%s' is root by another name", name);
    *uid = entry.pw_uid;
    *gid = entry.pw_gid;
    return 0;
}

/* While we still may: then no program of a file with capabilities can bring any
 * back, should one ever be executed. */
static int empty_bounds(void)
{
    for (unsigned cap = 0; cap < 64; cap++)
        if (prctl(PR_CAPBSET_READ, cap, 0, 0, 0) == 1 &&
            prctl(PR_CAPBSET_DROP, cap, 0, 0, 0) < 0)
            return -1;
    return 0;
}

static bool has_nothing(uid_t uid, gid_t gid)
{
    struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
    struct __user_cap_data_struct now[2] = { { 0 } };
    uid_t ids[3];
    gid_t groups[3];

    if (syscall(SYS_capget, &header, now) < 0 ||
        getresuid(&ids[0], &ids[1], &ids[2]) < 0 ||
        getresgid(&groups[0], &groups[1], &groups[2]) < 0)
        return false;
    for (size_t i = 0; i < 3; i++)
        if (ids[i] != uid || groups[i] != gid)
            return false;
    for (size_t i = 0; i < 2; i++)
        if (now[i].permitted || now[i].effective || now[i].inheritable)
            return false;
    return setuid(0) < 0; /* and there is no way back */
}

int keeper_drop(const char *user, struct vial_error *err)
{
    uid_t uid = 0;
    gid_t gid = 0;

    if (geteuid() != 0)
        return 0;
    if (find_user(user, &uid, &gid, err) < 0)
        return -1;
    if (empty_bounds() < 0 || setgroups(0, NULL) < 0 || setresgid(gid, gid, gid) < 0 ||
        setresuid(uid, uid, uid) < 0)
        return fail_sys(err, "become user '%s'", user);
    if (!has_nothing(uid, gid))
        return fail(err, VIAL_E_INTERNAL, "some privilege is left after becoming '%s'",
                    user);
    return 0;
}
