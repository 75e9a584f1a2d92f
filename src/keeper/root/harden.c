/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <linux/audit.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/fail.h"
#include "keeper/root/keeper.h"

#if defined(__x86_64__)
    #define ARCH AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
    #define ARCH AUDIT_ARCH_AARCH64
#endif

/* Ways into the kernel, or out of every namespace, that neither we nor any vessel
 * needs. Guests and programs inherit this below their own filters. */
static const unsigned refused[] = {
    SYS_init_module,
    SYS_finit_module,
    SYS_delete_module,
    SYS_kexec_load,
    SYS_reboot,
    SYS_swapon,
    SYS_swapoff,
    SYS_acct,
    SYS_quotactl,
    SYS_settimeofday,
    SYS_clock_settime,
    SYS_adjtimex,
    SYS_clock_adjtime,
    SYS_syslog,
    SYS_bpf,
    SYS_perf_event_open,
    SYS_userfaultfd,
    SYS_open_by_handle_at,
    SYS_fanotify_init,
    SYS_io_uring_setup,
    SYS_io_uring_enter,
    SYS_io_uring_register,
    SYS_vhangup,
#ifdef SYS_kexec_file_load
    SYS_kexec_file_load,
#endif
#ifdef SYS_iopl
    SYS_iopl,
    SYS_ioperm,
#endif
};

#define REFUSED        (sizeof(refused) / sizeof(*refused))
#define X32            0x40000000u
#define OFFSET(member) ((unsigned)offsetof(struct seccomp_data, member))

#ifdef ARCH
static int load_filter(void)
{
    struct sock_filter code[REFUSED + 7];
    struct sock_fprog program = { .len = (unsigned short)(sizeof(code) / sizeof(*code)),
                                  .filter = code };
    size_t n = 0;

    code[n++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, OFFSET(arch));
    code[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, ARCH, 1, 0);
    code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS);
    code[n++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, OFFSET(nr));
    /* x32, which numbers the same calls anew. Jumps go to the last instruction. */
    code[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, X32,
                                             (unsigned char)(REFUSED + 1), 0);
    for (size_t i = 0; i < REFUSED; i++)
        code[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, refused[i],
                                                 (unsigned char)(REFUSED - i), 0);
    code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K,
                                             SECCOMP_RET_ERRNO | (unsigned)EPERM);
    return (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program);
}
#else
static int load_filter(void)
{
    return 0;
}
#endif

static int keep_caps(uint64_t keep)
{
    struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
    struct __user_cap_data_struct now[2];
    struct __user_cap_data_struct then[2] = { { 0 } };

    (void)prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
    for (unsigned cap = 0; cap < 64; cap++)
        if (!((keep >> cap) & 1u) && prctl(PR_CAPBSET_READ, cap, 0, 0, 0) == 1 &&
            prctl(PR_CAPBSET_DROP, cap, 0, 0, 0) < 0)
            return -1;
    if (syscall(SYS_capget, &header, now) < 0)
        return -1;
    for (size_t i = 0; i < 2; i++)
        then[i].permitted = then[i].effective =
            now[i].permitted & (uint32_t)(keep >> (32 * i));
    return (int)syscall(SYS_capset, &header, then);
}

/* 1, if it may be so much: 0 does not stop a pipe in core_pattern, and vessels could
 * not raise it again. */
static int forbid_cores(void)
{
    struct rlimit core;

    if (getrlimit(RLIMIT_CORE, &core) < 0)
        return -1;
    core.rlim_max = core.rlim_max < 1 ? core.rlim_max : 1;
    core.rlim_cur = core.rlim_max;
    return setrlimit(RLIMIT_CORE, &core);
}

int harden_keeper(struct vial_error *err)
{
    if (forbid_cores() < 0 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
        return fail_sys(err, "give up new privileges");
    /* Only root may map ids of others. A user's own keeper must stay open to its user,
     * or the kernel would not let it write its child's maps. */
    if (geteuid() == 0 &&
        (prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0 || keep_caps(keeper_caps) < 0))
        return fail_sys(err, "give up capabilities");
    if (load_filter() < 0)
        return fail_sys(err, "load the keeper's filter");
    return 0;
}
