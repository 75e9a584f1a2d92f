/* SPDX-License-Identifier: Apache-2.0 */
#include "driver/native/zygote.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/fail.h"
#include "base/path.h"
#include "base/sys.h"
#include "driver/native/cgroup.h"
#include "driver/native/idmap.h"
#include "driver/native/native.h"
#include "driver/zygote_settings.h"
#include "wire/message.h"
#include "zygote/shortcuts.h"
#include "zygote/zygote.h"

#define UP_MS   120000 /* imports can take long */
#define FORK_MS 10000
#define HIGH_FD 32 /* above the numbers that the child gives out */

struct zygote {
    int control, log, leash, pidfd; /* LEASH: only the owner's, and never written to */
    pid_t pid;
    bool ended; /* before it was up */
};

/* Everything that the child needs, made before. */
struct spawn {
    const char *program;
    char **argv, **env;
    int control, place, log, leash; /* PLACE -1: none */
};

#define SPAWN_NONE                                                                     \
    (struct spawn)                                                                     \
    {                                                                                  \
        .control = -1, .place = -1, .log = -1, .leash = -1                             \
    }

static long call_ok(long rc)
{
    return rc < 0 ? -1 : 0;
}

/* Once the last holder of the other end is gone the kernel kills us, whatever we are
 * doing: an import that hangs hears no socket. Not by PR_SET_PDEATHSIG, which tells of
 * a thread's end; the owner's threads come and go. */
static long hold_leash(void)
{
    long rc = 0;
    char byte = 0;

    rc |= call_ok(syscall(SYS_fcntl, ZYGOTE_LEASH_FD, F_SETOWN, syscall(SYS_getpid)));
    rc |= call_ok(syscall(SYS_fcntl, ZYGOTE_LEASH_FD, F_SETSIG, SIGKILL));
    rc |= call_ok(syscall(SYS_fcntl, ZYGOTE_LEASH_FD, F_SETFL, O_ASYNC | O_NONBLOCK));
    if (syscall(SYS_read, ZYGOTE_LEASH_FD, &byte, 1) == 0) /* gone before that */
        rc = -1;
    return rc;
}

/* System calls only: our other threads may have held any lock. */
static _Noreturn void run_child(const struct spawn *s)
{
    static const uint64_t standard[8]; /* the kernel's sigaction: SIG_DFL */
    static const uint64_t none;
    long rc = 0;
    long null = syscall(SYS_openat, AT_FDCWD, "/dev/null", O_RDONLY | O_CLOEXEC, 0);

    for (int i = 1; i <= 64; i++)
        (void)syscall(SYS_rt_sigaction, i, standard, NULL, 8);
    rc |= call_ok(syscall(SYS_rt_sigprocmask, SIG_SETMASK, &none, NULL, 8));
    rc |= call_ok(syscall(SYS_setsid));
    rc |= call_ok(syscall(SYS_dup3, null, 0, 0));
    rc |= call_ok(syscall(SYS_dup3, s->log, 1, 0));
    rc |= call_ok(syscall(SYS_dup3, s->log, 2, 0));
    rc |= call_ok(syscall(SYS_dup3, s->control, ZYGOTE_FD, 0));
    rc |= call_ok(syscall(SYS_dup3, s->leash, ZYGOTE_LEASH_FD, 0));
    if (s->place >= 0)
        rc |= call_ok(syscall(SYS_dup3, s->place, ZYGOTE_PLACE_FD, 0));
    rc |=
        call_ok(syscall(SYS_close_range,
                        s->place >= 0 ? ZYGOTE_PLACE_FD + 1 : ZYGOTE_PLACE_FD, ~0u, 0));
    rc |= hold_leash(); /* our own copy of the other end is closed now */
    (void)syscall(SYS_umask, 022);
    if (rc == 0)
        (void)syscall(SYS_execve, s->program, s->argv, s->env);
    for (;;)
        (void)syscall(SYS_exit_group, 127);
}

static int start_child(struct zygote *z, const struct spawn *s, struct vial_error *err)
{
    int pidfd = -1;
    struct clone_args args = { .flags = CLONE_PIDFD,
                               .pidfd = (uint64_t)(uintptr_t)&pidfd };
    long pid = syscall(SYS_clone3, &args, sizeof args);

    if (pid == 0)
        run_child(s);
    if (pid < 0)
        return fail_sys(err, "start a zygote");
    z->pid = (pid_t)pid;
    z->pidfd = pidfd;
    return 0;
}

static int lift(int *fd, struct vial_error *err)
{
    int high = fcntl(*fd, F_DUPFD_CLOEXEC, HIGH_FD);

    if (high < 0)
        return fail_sys(err, "hold a descriptor");
    (void)close(*fd);
    *fd = high;
    return 0;
}

/* Makes the environment that a program of PLAN would have. HOME is not looked into on
 * the host itself: its owner there need not be ours. */
static void make_env(struct strv *out, const struct plan *plan, bool on_host)
{
    for (size_t i = 0; i < plan->env.count; i++) {
        const char *entry = plan->env.items[i];

        if (on_host && str_starts(entry, "HOME="))
            strv_push(out, "HOME=/nonexistent");
        else
            plan_expand(out, entry, plan->workdir);
    }
}

/* The last word of the zygote, for people. */
static int fail_with_log(const struct zygote *z, const char *what,
                         struct vial_error *err)
{
    char text[200];
    ssize_t n = read(z->log, text, sizeof text - 1);

    text[n > 0 ? n : 0] = 0;
    (void)fail(err, VIAL_E_OPEN, "start a zygote: %s", what);
    return fail_cause(err, "%s", text[0] ? text : "it said nothing");
}

static int hear_up(struct zygote *z, struct vial_error *err)
{
    char missing[1024];
    struct pollfd fds[2] = { { .fd = z->control, .events = POLLIN },
                             { .fd = z->pidfd, .events = POLLIN } };

    if (poll(fds, 2, UP_MS) <= 0)
        return fail_with_log(z, "it does not come up", err);
    if ((fds[0].revents & POLLIN) && recv(z->control, missing, sizeof missing, 0) > 0)
        return 0;
    z->ended = true;
    return fail_with_log(z, "it ended", err);
}

static int send_settings(const struct zygote *z, const struct zygote_options *o,
                         unsigned shortcuts, struct vial_error *err)
{
    auto_str struct str text = { 0 };
    char digits[16];

    (void)snprintf(digits, sizeof digits, "%u", shortcuts);
    if (zygote_settings(o->share_dir, o->imports, digits, &text, err) < 0)
        return -1;
    if (send(z->control, text.data, text.len, MSG_NOSIGNAL) < 0)
        return fail_sys(err, "speak to the zygote");
    return 0;
}

static void spawn_done(struct spawn *s)
{
    auto_fd_(&s->control);
    auto_fd_(&s->place);
    auto_fd_(&s->log);
    auto_fd_(&s->leash);
}

/* Makes the sockets that lead from us to it. */
static int tie(struct zygote *z, struct spawn *s, struct vial_error *err)
{
    int ends[2];

    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0)
        return fail_sys(err, "make a socket pair");
    z->control = ends[0];
    s->control = ends[1];
    if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) < 0)
        return fail_sys(err, "make a pipe");
    z->log = ends[0];
    s->log = ends[1];
    if (pipe2(ends, O_CLOEXEC) < 0)
        return fail_sys(err, "make a pipe");
    s->leash = ends[0];
    z->leash = ends[1];
    return lift(&s->control, err) < 0 || lift(&s->log, err) < 0 ? -1
                                                                : lift(&s->leash, err);
}

/* The template's own, where there is one: children can name what they are executed
 * from, and a host's file could be watched for who else uses it. */
static char *find_program(const char *name, struct vessel *template)
{
    char *program = path_find_program(name, PATH_SEARCH);
    auto_free char *own =
        program && template ? native_path_inside(template, program) : NULL;

    if (!own || access(own, X_OK) < 0)
        return program;
    free(program);
    return ptr_take(&own);
}

/* TEMPLATE is NULL where the caller may not enter it. */
static int spawn(struct zygote *z, const struct plan *plan,
                 const struct zygote_options *o, struct vessel *template,
                 struct vial_error *err)
{
    auto_free char *program = find_program(plan->argv.items[0], template);
    auto_free char *script = NULL;
    auto_strv struct strv env = { 0 };
    __attribute__((cleanup(spawn_done))) struct spawn s = SPAWN_NONE;
    auto_str struct str main_file = { 0 };
    char *argv[3] = { plan->argv.items[0] };

    if (!program)
        return fail(err, VIAL_E_INTERPRETER, "there is no program '%s' on this host",
                    plan->argv.items[0]);
    str_printf(&main_file, "%s/main.py", plan->workdir);
    make_env(&env, plan, !template);
    strv_printf(&env, "LD_PRELOAD=%s/vial-zygote.so", o->share_dir);
    if (!str_ok(&main_file) || !strv_ok(&env))
        return fail_memory(err);
    argv[1] = main_file.data;
    s.program = program;
    s.argv = argv;
    s.env = env.items;
    s.place = template ? fcntl(template->death_fd, F_DUPFD_CLOEXEC, HIGH_FD) : -1;
    if (template && s.place < 0)
        return fail_sys(err, "hold a descriptor");
    return tie(z, &s, err) < 0 ? -1 : start_child(z, &s, err);
}

static int check_host(const struct plan *plan, struct vial_error *err)
{
    /* The files that a child maps lie outside its root; only Landlock keeps it from
     * opening that again by /proc/self/exe. */
    if (native_landlock_abi() <= 0)
        return fail(err, VIAL_E_UNSUPPORTED, "a zygote needs Landlock");
    if (plan->seccomp_file || plan->count_denied || plan->fixed_addresses ||
        (plan->seccomp && !str_eq(plan->seccomp, "default")))
        return fail(err, VIAL_E_UNSUPPORTED,
                    "a zygote's children wait under profile 'default' only");
    return 0;
}

static int start(struct zygote *z, const struct plan *plan,
                 const struct zygote_options *o, unsigned shortcuts,
                 struct vial_error *err)
{
    struct vessel *template = NULL;
    int privileged = idmap_privileged();
    int rc = 0;

    if (privileged < 0)
        return fail_sys_rc(err, privileged, "read our own id map");
    if (privileged && driver_native.open(plan, o->guest_fd, &template, err) < 0)
        return -1;
    rc = spawn(z, plan, o, template, err);
    if (rc == 0)
        rc = send_settings(z, o, shortcuts, err);
    if (rc == 0)
        rc = hear_up(z, err);
    if (template) /* its file system lives on in the zygote */
        driver_native.close(template);
    return rc;
}

/* *ENDED: it came to an end by itself, and might not without its shortcuts. */
static int start_with(unsigned shortcuts, const struct plan *plan,
                      const struct zygote_options *options, struct zygote **out,
                      bool *ended, struct vial_error *err)
{
    struct zygote *z = calloc(1, sizeof *z);

    if (!z)
        return fail_memory(err);
    *z = (struct zygote){ .control = -1, .log = -1, .leash = -1, .pidfd = -1 };
    if (start(z, plan, options, shortcuts, err) == 0) {
        *out = z;
        return 0;
    }
    *ended = z->ended;
    zygote_close(z);
    return -1;
}

int zygote_open(const struct plan *plan, const struct zygote_options *options,
                struct zygote **out, struct vial_error *err)
{
    unsigned shortcuts = SHORTCUTS_ALL;
    bool ended = false;

    if (check_host(plan, err) < 0 || zygote_choose_shortcuts(&shortcuts, err) < 0)
        return -1;
    if (start_with(shortcuts, plan, options, out, &ended, err) == 0)
        return 0;
    if (!ended || !shortcuts)
        return -1;
    fail_clear(err);
    return start_with(0, plan, options, out, &ended, err);
}

static int send_order(const struct zygote *z, const struct pack *jail, const int *fds,
                      size_t count, struct vial_error *err)
{
    ssize_t n = sys_send_fds(z->control, (struct iovec){ jail->data, jail->len }, fds,
                             count, 0);

    return n < 0 ? fail_sys_rc(err, (int)n, "order a child from the zygote") : 0;
}

static int order(const struct zygote *z, struct vessel *vessel, int socket,
                 struct vial_error *err)
{
    int fds[ZYGOTE_FDS] = { vessel->death_fd, socket };
    struct pack jail = { 0 };
    int joins = native_join_fds(vessel, fds + ORDER_CGROUPS, err);
    int rc = joins;

    if (rc >= 0) {
        jail_write(&jail, &vessel->jail);
        rc = jail.bad || jail.len > ZYGOTE_MAX
                 ? fail_memory(err)
                 : send_order(z, &jail, fds, ORDER_CGROUPS + (size_t)joins, err);
    }
    pack_done(&jail);
    return rc;
}

static int hear_ready(const struct zygote *z, int socket, uint32_t *pid,
                      struct vial_error *err)
{
    struct zygote_report report;
    struct pollfd fds[2] = { { .fd = socket, .events = POLLIN },
                             { .fd = z->pidfd, .events = POLLIN } };

    if (poll(fds, 2, FORK_MS) <= 0)
        return fail(err, VIAL_E_OPEN, "wait for the zygote's child: it is stuck");
    if (!fds[0].revents || recv(socket, &report, sizeof report, 0) != sizeof report)
        return fail(err, VIAL_E_OPEN, "wait for the zygote's child: it went away");
    if (report.step != 0)
        return fail_sys_rc(err, -(int)report.value,
                           "fork an interpreter into the vessel: step %u of '%s'",
                           report.step, exec_step_name(report.step));
    *pid = report.value;
    return 0;
}

int zygote_fork_into(struct zygote *z, struct vessel *vessel, int *fd, uint32_t *pid,
                     struct vial_error *err)
{
    auto_fd int ours = -1;
    auto_fd int theirs = -1;
    int ends[2];

    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0)
        return fail_sys(err, "make a socket pair");
    ours = ends[0];
    theirs = ends[1];
    if (order(z, vessel, theirs, err) < 0)
        return -1;
    (void)close(fd_take(&theirs));
    if (hear_ready(z, ours, pid, err) < 0)
        return -1;
    *fd = fd_take(&ours);
    return 0;
}

void zygote_close(struct zygote *z)
{
    siginfo_t info;

    if (z->pidfd >= 0) {
        (void)sys_pidfd_kill(z->pidfd, SIGKILL);
        while (waitid(P_PIDFD, (id_t)z->pidfd, &info, WEXITED | __WALL) < 0 &&
               errno == EINTR)
            ;
    }
    auto_fd_(&z->control);
    auto_fd_(&z->log);
    auto_fd_(&z->leash);
    auto_fd_(&z->pidfd);
    free(z);
}

void zygote_lend(const struct zygote *z, int fds[2])
{
    fds[0] = z->control;
    fds[1] = z->pidfd;
}

struct zygote *zygote_borrow(const int fds[2])
{
    struct zygote *z = calloc(1, sizeof *z);

    if (z)
        *z = (struct zygote){
            .control = fds[0], .log = -1, .leash = -1, .pidfd = fds[1]
        };
    return z;
}
