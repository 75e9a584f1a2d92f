/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <grp.h>
#include <linux/audit.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "gate/confine.h"

#define NOBODY 65534

#if defined(__x86_64__)
    #define ARCH AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
    #define ARCH AUDIT_ARCH_AARCH64
#endif

#define CALLS_MAX 64
#define FILTER    (CALLS_MAX + 16)
#define LOAD(what)                                                                     \
    (struct sock_filter)                                                               \
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, what))
#define EQUAL(value, yes, no)                                                          \
    (struct sock_filter) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (value), (yes), (no))
#define RETURN(action) (struct sock_filter) BPF_STMT(BPF_RET | BPF_K, (action))

const int confine_tls_calls[] = {
    SYS_read,     SYS_write,          SYS_readv,         SYS_writev,
    SYS_recvfrom, SYS_recvmsg,        SYS_sendto,        SYS_sendmsg,
    SYS_close,    SYS_getrandom,      SYS_clock_gettime, SYS_exit_group,
    SYS_exit,     SYS_mmap,           SYS_munmap,        SYS_mremap,
    SYS_brk,      SYS_madvise,        SYS_rt_sigreturn,  SYS_restart_syscall,
    SYS_ppoll,    SYS_rt_sigprocmask, SYS_fcntl,         SYS_futex,
    SYS_getpid,   SYS_getrusage,      SYS_gettimeofday,  SYS_mprotect,
    SYS_shutdown,
#ifdef SYS_poll
    SYS_poll,
#endif
#ifdef SYS_time
    SYS_time,
#endif
};
const size_t confine_tls_call_count =
    sizeof confine_tls_calls / sizeof *confine_tls_calls;

static int load_filter(const struct confinement *to)
{
    struct sock_filter f[FILTER];
    struct sock_fprog program = { .filter = f };
    unsigned short n = 0;

    if (to->count > CALLS_MAX)
        return -1;
    f[n++] = LOAD(arch);
    f[n++] = EQUAL(ARCH, 1, 0);
    f[n++] = RETURN(SECCOMP_RET_KILL_PROCESS);
    f[n++] = LOAD(nr);
    for (size_t i = 0; i < to->count; i++) /* to the last statement */
        f[n++] = EQUAL((unsigned)to->calls[i], (uint8_t)(to->count - i - 1 + 9), 0);
    /* A pair of sockets that lead nowhere else. */
    f[n++] = EQUAL(to->pairs ? SYS_socketpair : UINT32_MAX, 0, 2);
    f[n++] = LOAD(args[0]);
    f[n++] = EQUAL(AF_UNIX, 6, 4);
    /* A socket of the internet's alone. */
    f[n++] = EQUAL(to->connects ? SYS_socket : UINT32_MAX, 0, 4);
    f[n++] = LOAD(args[0]);
    f[n++] = EQUAL(AF_INET, 3, 0);
    f[n++] = EQUAL(AF_INET6, 2, 0);
    f[n++] = RETURN(SECCOMP_RET_ERRNO | EAFNOSUPPORT);
    f[n++] = RETURN(SECCOMP_RET_KILL_PROCESS);
    f[n++] = RETURN(SECCOMP_RET_ALLOW);
    program.len = n;
    return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) < 0 ? -1 : 0;
}

/* Every kind of access to files that the first version knows, and no rule: none is
 * left. A kernel without Landlock has the filter, which opens nothing either. */
static int close_files(void)
{
    struct {
        uint64_t files;
    } handled = { (UINT64_C(1) << 13) - 1 };
    int fd = (int)syscall(SYS_landlock_create_ruleset, &handled, sizeof handled, 0);

    if (fd < 0)
        return errno == ENOSYS || errno == EOPNOTSUPP ? 0 : -1;
    if (syscall(SYS_landlock_restrict_self, fd, 0) < 0)
        return -1;
    (void)close(fd);
    return 0;
}

static int drop_ids(void)
{
    if (geteuid() != 0)
        return 0;
    if (setgroups(0, NULL) < 0 || setresgid(NOBODY, NOBODY, NOBODY) < 0 ||
        setresuid(NOBODY, NOBODY, NOBODY) < 0)
        return -1;
    return geteuid() == NOBODY ? 0 : -1;
}

static int drop_caps(void)
{
    struct __user_cap_header_struct head = { .version = _LINUX_CAPABILITY_VERSION_3 };
    struct __user_cap_data_struct none[2] = { 0 };

    (void)prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
    return syscall(SYS_capset, &head, none) < 0 ? -1 : 0;
}

static int set_limit(int resource, rlim_t value)
{
    struct rlimit now;

    if (getrlimit(resource, &now) < 0)
        return -1;
    value = value < now.rlim_max ? value : now.rlim_max;
    return setrlimit(resource, &(struct rlimit){ value, value });
}

int confine_to(const struct confinement *to)
{
    if (set_limit(RLIMIT_NOFILE, to->descriptors) < 0 ||
        set_limit(RLIMIT_CORE, 0) < 0 || set_limit(RLIMIT_FSIZE, 0) < 0)
        return -1;
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 || drop_ids() < 0 ||
        drop_caps() < 0 || prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0)
        return -1;
    return close_files() < 0 ? -1 : load_filter(to); /* last: it allows none of these */
}
