/* SPDX-License-Identifier: Apache-2.0 */

/*
 * vial-keeper. Started by the daemon with two descriptors and nothing else: the
 * socket it shares with the front, and the rules. This process only starts the
 * keeper, and another one should it die; the socket outlives both, so that the front
 * asks on as before.
 */

#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/fail.h"
#include "base/io.h"
#include "base/path.h"
#include "base/sys.h"
#include "keeper/root/keeper.h"
#include "model/policy.h"

#define RULES_MAX (8u << 20)
#define FAILED    125

#define KEEPER_NICE (-5) /* of its session; the front has more */

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

/* A vessel with sudo cannot get what its keeper gave up. Every other vessel, and all
 * else that we start, gives up new privileges itself. */
static bool opens_with_sudo(const struct keeper *k)
{
    return geteuid() == 0 && keeper_driver->takes_image &&
           policy_check_list(&k->rules.settings.policy, POLICY_ID_privileges,
                             "privilege", "sudo", NULL) == 0;
}

/* Gives up what opening vessels does not take. */
static int harden_keeper(const struct keeper *k, struct vial_error *err)
{
    if (forbid_cores() < 0 ||
        (!opens_with_sudo(k) && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0))
        return fail_sys(err, "give up new privileges");
    /* Only root may map ids of others. A user's own keeper must stay open to its user,
     * or the kernel would not let it write its child's maps. */
    if (geteuid() == 0 &&
        (prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0 || keep_caps(keeper_caps) < 0))
        return fail_sys(err, "give up capabilities");
    /* Root needs no such promise for a filter, but in a container it may lack
     * CAP_SYS_ADMIN; there no vessel has sudo. */
    if (load_filter() < 0 &&
        (errno != EACCES || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ||
         load_filter() < 0))
        return fail_sys(err, "load the keeper's filter");
    return 0;
}

/* One that lived no longer is not hurried after. */
#define SHORT_NS   INT64_C(1000000000)
#define PATIENCE_S 1

static void say(const struct vial_error *err)
{
    (void)fprintf(stderr, "vial-keeper: %s: %s%s%s\n", err->code, err->message,
                  err->cause[0] ? ": " : "", err->cause);
}

static int check_start(struct vial_error *err)
{
    int type = 0;
    socklen_t len = sizeof(type);

    if (getsockopt(KEEPER_FRONT_FD, SOL_SOCKET, SO_TYPE, &type, &len) == 0 &&
        type == SOCK_SEQPACKET && fcntl(KEEPER_RULES_FD, F_GETFD) >= 0)
        return 0;
    return fail(err, VIAL_E_USAGE,
                "vial-keeper is started by the daemon ('vial serve'), not by hand");
}

/* The daemon's end is ours, not a signal meant for all of its processes. A handler,
 * as what is ignored would be ignored by programs as well. */
static void on_signal(int number)
{
    (void)number;
}

static void settle(void)
{
    static const int all[] = { SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2 };
    const struct sigaction deaf = { .sa_handler = on_signal, .sa_flags = SA_RESTART };
    sigset_t none;

    (void)setsid();
    /* Opening and closing vessels comes before what goes on in them. Those that have no
     * group of their own are behind: a program begins a session. */
    sys_weigh_session(KEEPER_NICE);
    (void)umask(022);
    (void)sigemptyset(&none);
    /* NOLINTNEXTLINE(concurrency-mt-unsafe): there is one thread */
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
    for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++)
        (void)sigaction(all[i], &deaf, NULL);
    (void)signal(SIGCHLD, SIG_DFL);
    (void)signal(SIGPIPE, SIG_DFL);
}

static int read_rules(struct keeper *k, struct vial_error *err)
{
    struct blob bytes = { 0 };
    struct unpack u = { 0 };
    int rc = io_read_fd(KEEPER_RULES_FD, "rules", RULES_MAX, &bytes, err);

    if (rc < 0)
        return -1;
    u.data = (const uint8_t *)bytes.data;
    u.len = bytes.len;
    rc = rules_unpack(&u, &k->rules);
    blob_done(&bytes);
    return rc < 0 ? fail(err, VIAL_E_INTERNAL, "the rules are not understood") : 0;
}

static int open_guest(struct keeper *k, struct vial_error *err)
{
    auto_free char *path = path_join(k->rules.settings.share_dir, "vial-init");

    if (!path)
        return fail_memory(err);
    k->guest_fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    return k->guest_fd < 0 ? fail_sys(err, "open guest '%s'", path) : 0;
}

static int begin(struct keeper *k, struct vial_error *err)
{
    if (check_start(err) < 0)
        return -1;
    (void)sys_close_range(KEEPER_RULES_FD + 1, ~0u);
    settle();
    if (read_rules(k, err) < 0 || open_guest(k, err) < 0)
        return -1;
    (void)close(KEEPER_RULES_FD);
    if (chdir("/") < 0 || fcntl(KEEPER_FRONT_FD, F_SETFD, FD_CLOEXEC) < 0)
        return fail_sys(err, "settle");
    k->front_fd = KEEPER_FRONT_FD;
    return harden_keeper(k, err);
}

static _Noreturn void run_keeper(struct keeper *k, pid_t starter)
{
    struct vial_error err = { 0 };

    if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0 || getppid() != starter)
        _exit(FAILED);
    if (keeper_serve(k, &err) < 0) {
        say(&err);
        _exit(FAILED);
    }
    _exit(0);
}

/* True: it ended as the front did. */
static bool wait_for(pid_t pid)
{
    int status = 0;

    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
        return true;
    (void)fprintf(stderr, "vial-keeper: the keeper died (%s %d); starting another\n",
                  WIFSIGNALED(status) ? "signal" : "status",
                  WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
    return false;
}

int main(void)
{
    struct vial_error err = { 0 };
    struct keeper k = { .front_fd = -1, .guest_fd = -1, .signal_fd = -1 };
    const struct timespec pause = { .tv_sec = PATIENCE_S };
    pid_t self = getpid();

    if (begin(&k, &err) < 0) {
        say(&err);
        rules_done(&k.rules);
        return FAILED;
    }
    for (;;) {
        int64_t started = clock_now_ns();
        pid_t pid = fork();

        if (pid == 0)
            run_keeper(&k, self);
        if (pid > 0 && wait_for(pid))
            break;
        k.restarts++;
        if (clock_now_ns() - started < SHORT_NS)
            (void)nanosleep(&pause, NULL);
    }
    /* The front has no right to, where root started it. */
    rules_remove_sockets(&k.rules);
    rules_done(&k.rules);
    return 0;
}
