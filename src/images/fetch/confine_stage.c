/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <seccomp.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/fail.h"
#include "images/fetch/confine.h"

#ifndef SYS_landlock_create_ruleset
    #define SYS_landlock_create_ruleset 444
    #define SYS_landlock_add_rule       445
    #define SYS_landlock_restrict_self  446
#endif

#define MEMORY_MAX ((rlim_t)4 << 30)
#define FILES_MAX  512

/* Landlock's rights, spelled out: a build host's headers may be old. */
enum {
    READ_FILE = 1 << 2,
    READ_DIR = 1 << 3,
    ABI_2 = (1 << 14) - 1, /* with REFER: hard links between directories */
    TRUNCATE = 1 << 14,    /* ABI 3 */
    IOCTL_DEV = 1 << 15,   /* ABI 5; never granted */
    MAKE_BLOCK = 1 << 11,  /* never granted */
    MAKE_SOCK = 1 << 9,    /* likewise */
    EXECUTE = 1 << 0,      /* likewise, but for libraries that resolve names */
};

struct ruleset_attr {
    uint64_t fs, net, scoped;
};

struct path_attr {
    uint64_t allowed;
    int32_t parent_fd;
} __attribute__((packed));

/* What names are resolved and keys checked with, wherever links lead. The rest of /etc
 * has secrets, which root's stage could read. */
static const char *const system_paths[] = {
    "/etc/resolv.conf",
    "/etc/hosts",
    "/etc/host.conf",
    "/etc/gai.conf",
    "/etc/nsswitch.conf",
    "/etc/services",
    "/etc/ld.so.cache",
    "/etc/ssl/certs",
    "/etc/ssl/cert.pem",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/openssl.cnf",
    "/etc/pki/tls/certs",
    "/etc/pki/tls/cert.pem",
    "/etc/pki/tls/openssl.cnf",
    "/etc/pki/ca-trust",
    "/etc/ca-certificates",
    "/etc/crypto-policies",
    "/var/lib/ca-certificates",
    "/usr/lib",
    "/usr/share",
    "/usr/local/share/ca-certificates",
    "/lib",
    "/lib64",
    "/run/systemd/resolve",
    "/run/resolvconf",
    "/run/NetworkManager",
};

static int allow(int ruleset, int fd, uint64_t rights)
{
    struct path_attr attr = { .allowed = rights, .parent_fd = fd };

    return fd < 0 || syscall(SYS_landlock_add_rule, ruleset, 1, &attr, 0) == 0 ? 0 : -1;
}

static int allow_system(int ruleset)
{
    int rc = 0;

    for (size_t i = 0; i < sizeof(system_paths) / sizeof(*system_paths); i++) {
        auto_fd int fd = open(system_paths[i], O_PATH | O_CLOEXEC);
        struct stat st;

        if (fd >= 0 && fstat(fd, &st) == 0)
            rc |= allow(ruleset, fd,
                        READ_FILE | EXECUTE | (S_ISDIR(st.st_mode) ? READ_DIR : 0));
    }
    return rc;
}

/* A kernel without Landlock, or with its first version, which knows no links between
 * directories, goes without: unpacking itself never leaves its directory. */
static int restrict_files(const struct work *w, const struct confinement *c,
                          struct vial_error *err)
{
    long abi = syscall(SYS_landlock_create_ruleset, NULL, 0, 1);
    struct ruleset_attr attr = { .fs = ABI_2 };
    auto_fd int ruleset = -1;
    uint64_t work;

    if (abi < 2)
        return 0;
    attr.fs |= (abi >= 3 ? TRUNCATE : 0) | (abi >= 5 ? IOCTL_DEV : 0);
    work = attr.fs & ~(uint64_t)(IOCTL_DEV | MAKE_BLOCK | MAKE_SOCK | EXECUTE);
    ruleset = (int)syscall(SYS_landlock_create_ruleset, &attr, sizeof(attr.fs), 0);
    if (ruleset < 0 || allow(ruleset, w->tmp_fd, work) < 0 ||
        allow(ruleset, c->read_fd, READ_FILE | READ_DIR) < 0 ||
        (c->network && allow_system(ruleset) < 0) ||
        syscall(SYS_landlock_restrict_self, ruleset, 0) < 0)
        return fail_sys(err, "confine what reads the image's files");
    return 0;
}

int confine_rights(bool owners, struct vial_error *err)
{
    static const unsigned kept[] = { CAP_CHOWN, CAP_DAC_OVERRIDE, CAP_FOWNER,
                                     CAP_FSETID, CAP_SETFCAP };
    struct __user_cap_header_struct head = { .version = _LINUX_CAPABILITY_VERSION_3 };
    struct __user_cap_data_struct data[2] = { { 0 } };

    for (size_t i = 0; owners && geteuid() == 0 && i < sizeof(kept) / sizeof(*kept);
         i++)
        data[kept[i] / 32].effective |= 1u << (kept[i] % 32);
    for (size_t i = 0; i < 2; i++)
        data[i].permitted = data[i].effective;
    if (syscall(SYS_capset, &head, data) < 0)
        return fail_sys(err, "give up capabilities");
    return 0;
}

static int bound(const struct confinement *c, struct vial_error *err)
{
    const struct {
        __rlimit_resource_t what;
        rlim_t most;
    } bounds[] = {
        { RLIMIT_CORE, 0 },
        { RLIMIT_NOFILE, FILES_MAX },
        { RLIMIT_FSIZE, (rlim_t)c->max_bytes + ((rlim_t)1 << 30) },
#if !defined(__SANITIZE_ADDRESS__)
        { RLIMIT_AS, MEMORY_MAX },
#endif
    };

    for (size_t i = 0; i < sizeof(bounds) / sizeof(*bounds); i++) {
        const struct rlimit limit = { bounds[i].most, bounds[i].most };

        if (setrlimit(bounds[i].what, &limit) < 0 && errno != EPERM)
            return fail_sys(err, "set a limit");
    }
    return 0;
}

/* clang-format off */
static const int files_calls[] = {
    SCMP_SYS(brk), SCMP_SYS(mmap), SCMP_SYS(munmap), SCMP_SYS(mremap),
    SCMP_SYS(mprotect), SCMP_SYS(madvise), SCMP_SYS(futex), SCMP_SYS(read),
    SCMP_SYS(readv), SCMP_SYS(pread64), SCMP_SYS(write), SCMP_SYS(writev),
    SCMP_SYS(pwrite64), SCMP_SYS(lseek), SCMP_SYS(openat), SCMP_SYS(openat2),
    SCMP_SYS(open), SCMP_SYS(close), SCMP_SYS(close_range), SCMP_SYS(fcntl),
    SCMP_SYS(dup), SCMP_SYS(fstat), SCMP_SYS(newfstatat), SCMP_SYS(stat), SCMP_SYS(lstat),
    SCMP_SYS(statx), SCMP_SYS(fstatfs), SCMP_SYS(getdents64), SCMP_SYS(ftruncate),
    SCMP_SYS(fallocate), SCMP_SYS(mkdirat), SCMP_SYS(mknodat), SCMP_SYS(symlinkat),
    SCMP_SYS(linkat), SCMP_SYS(unlinkat), SCMP_SYS(renameat2), SCMP_SYS(renameat),
    SCMP_SYS(readlinkat), SCMP_SYS(readlink), SCMP_SYS(faccessat), SCMP_SYS(faccessat2),
    SCMP_SYS(access), SCMP_SYS(fchmod), SCMP_SYS(chmod), SCMP_SYS(fchmodat),
    SCMP_SYS(fchown), SCMP_SYS(fchownat),
    SCMP_SYS(utimensat), SCMP_SYS(fsetxattr), SCMP_SYS(fgetxattr), SCMP_SYS(flistxattr),
    SCMP_SYS(lgetxattr), SCMP_SYS(llistxattr), SCMP_SYS(fsync), SCMP_SYS(fdatasync),
    SCMP_SYS(fadvise64), SCMP_SYS(copy_file_range), SCMP_SYS(getpid), SCMP_SYS(gettid),
    SCMP_SYS(getuid), SCMP_SYS(geteuid), SCMP_SYS(getgid), SCMP_SYS(getegid),
    SCMP_SYS(clock_gettime), SCMP_SYS(gettimeofday), SCMP_SYS(getrandom), SCMP_SYS(exit),
    SCMP_SYS(exit_group), SCMP_SYS(rt_sigprocmask), SCMP_SYS(rt_sigaction),
    SCMP_SYS(rt_sigreturn), SCMP_SYS(sigaltstack), SCMP_SYS(tgkill),
    SCMP_SYS(restart_syscall), SCMP_SYS(rseq), SCMP_SYS(sched_yield),
    SCMP_SYS(sched_getaffinity), SCMP_SYS(prlimit64), SCMP_SYS(umask),
    SCMP_SYS(sysinfo), SCMP_SYS(uname), SCMP_SYS(time),
};

static const int network_calls[] = {
    SCMP_SYS(socket), SCMP_SYS(socketpair), SCMP_SYS(connect), SCMP_SYS(bind),
    SCMP_SYS(sendto), SCMP_SYS(sendmsg), SCMP_SYS(sendmmsg), SCMP_SYS(recvfrom),
    SCMP_SYS(recvmsg), SCMP_SYS(recvmmsg), SCMP_SYS(getsockopt), SCMP_SYS(setsockopt),
    SCMP_SYS(getsockname), SCMP_SYS(getpeername), SCMP_SYS(shutdown), SCMP_SYS(poll),
    SCMP_SYS(ppoll), SCMP_SYS(select), SCMP_SYS(pselect6), SCMP_SYS(ioctl),
    SCMP_SYS(pipe2), SCMP_SYS(pipe), SCMP_SYS(eventfd2), SCMP_SYS(epoll_create1),
    SCMP_SYS(epoll_ctl), SCMP_SYS(epoll_wait), SCMP_SYS(set_robust_list),
    SCMP_SYS(clock_nanosleep), SCMP_SYS(nanosleep), SCMP_SYS(prctl),
    SCMP_SYS(clock_getres), SCMP_SYS(getppid), SCMP_SYS(sched_setscheduler),
    SCMP_SYS(sched_getscheduler), SCMP_SYS(sched_getparam),
};
/* clang-format on */

static int add_calls(scmp_filter_ctx filter, const int *calls, size_t count)
{
    int rc = 0;

    for (size_t i = 0; i < count && rc == 0; i++)
        rc = calls[i] < 0 ? 0 : seccomp_rule_add(filter, SCMP_ACT_ALLOW, calls[i], 0);
    return rc;
}

/* Threads, which resolve names, but no processes of their own. */
static int add_threads(scmp_filter_ctx filter)
{
    const unsigned long thread = 0x10000; /* CLONE_THREAD */

    return seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(clone), 1,
                            SCMP_A0(SCMP_CMP_MASKED_EQ, thread, thread));
}

static int filter_calls(bool network, struct vial_error *err)
{
    scmp_filter_ctx filter = seccomp_init(SCMP_ACT_ERRNO(EPERM));
    int rc = filter ? 0 : -ENOMEM;

    rc =
        rc ? rc
           : add_calls(filter, files_calls, sizeof(files_calls) / sizeof(*files_calls));
    if (rc == 0 && network)
        rc = add_calls(filter, network_calls,
                       sizeof(network_calls) / sizeof(*network_calls));
    rc = rc || !network ? rc : add_threads(filter);
    /* glibc goes on with clone, whose flags the filter sees. */
    if (rc == 0 && network)
        rc = seccomp_rule_add(filter, SCMP_ACT_ERRNO(ENOSYS), SCMP_SYS(clone3), 0);
    rc = rc ? rc : seccomp_load(filter);
    seccomp_release(filter);
    return rc < 0 ? fail_sys_rc(err, rc, "confine what reads the image's bytes") : 0;
}

int confine_self(const struct work *w, const struct confinement *c,
                 struct vial_error *err)
{
    if (bound(c, err) < 0 || confine_rights(c->owners, err) < 0)
        return -1;
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ||
        prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0)
        return fail_sys(err, "give up new privileges");
    if (restrict_files(w, c, err) < 0)
        return -1;
    return filter_calls(c->network, err); /* last: it allows nothing of the above */
}
