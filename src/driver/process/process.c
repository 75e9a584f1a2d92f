/* SPDX-License-Identifier: Apache-2.0 */
#include "driver/process/process.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/close_range.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/fail.h"
#include "base/io.h"
#include "base/path.h"
#include "base/sys.h"
#include "driver/meter.h"
#include "driver/process/temp_dir.h"

#define GUEST_PATIENCE_MS 1000 /* for the guest to end its programs by itself */

/*
 * From the call of clone until the guest runs, the child shares the caller's
 * memory while the calling thread waits: nothing is copied, however large the
 * caller is. So the child makes system calls only, and with every signal
 * blocked, lest a handler of the caller's run in it. The guest unblocks them.
 */

#define GUEST_STREAM 3
#define ABOVE_STDIO  10 /* where descriptors wait that dup2 must not hit */
#define CHILD_STACK  (64u << 10)

struct child {
    int guest_fd, stream_fd, null_fd; /* each >= ABOVE_STDIO */
    int error;                        /* written by the child */
};

static int child_main(void *argument)
{
    char name[] = "vial-init";
    char *const argv[] = { name, NULL };
    char *const env[] = { NULL };
    struct child *c = argument;

    if (setsid() >= 0 && dup2(c->null_fd, 0) == 0 && dup2(c->null_fd, 1) == 1 &&
        dup2(c->null_fd, 2) == 2 && dup2(c->stream_fd, GUEST_STREAM) == GUEST_STREAM &&
        syscall(SYS_close_range, GUEST_STREAM + 1, ~0u, CLOSE_RANGE_CLOEXEC) == 0)
        (void)syscall(SYS_execveat, c->guest_fd, "", argv, env, AT_EMPTY_PATH);
    c->error = errno;
    _exit(127);
}

/* Descriptor or -1. */
static int lift(int fd)
{
    return fcntl(fd, F_DUPFD_CLOEXEC, ABOVE_STDIO);
}

static pid_t clone_child(struct child *c, int *pidfd)
{
    auto_free char *stack = malloc(CHILD_STACK);
    sigset_t all, before;
    pid_t pid;

    if (!stack)
        return -1;
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    pid = clone(child_main, stack + CHILD_STACK,
                CLONE_VM | CLONE_VFORK | CLONE_PIDFD | SIGCHLD, c, pidfd);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    return pid;
}

int spawn_guest(int guest_fd, int stream_fd, pid_t *pid, int *pidfd,
                struct vial_error *err)
{
    auto_fd int null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
    auto_fd int null_high = lift(null_fd);
    auto_fd int guest_high = lift(guest_fd);
    auto_fd int stream_high = lift(stream_fd);
    struct child c = { .guest_fd = guest_high,
                       .stream_fd = stream_high,
                       .null_fd = null_high };

    if (null_high < 0 || guest_high < 0 || stream_high < 0)
        return fail_sys(err, "prepare the guest's descriptors");
    *pid = clone_child(&c, pidfd);
    if (*pid < 0) {
        *pid = 0;
        return fail_sys(err, "start the guest");
    }
    if (c.error != 0) {
        (void)fail_sys_rc(err, c.error, "execute the guest");
        return fail_as(err, VIAL_E_OPEN);
    }
    return 0;
}

struct process {
    struct vessel vessel;
    pid_t pid; /* 0: none, or reaped */
    struct place place;
    struct meter meter;
};

static struct process *process_of(struct vessel *vessel)
{
    return (struct process *)vessel;
}

static int probe(struct caps *out, struct vial_error *err)
{
    (void)err;
    *out = (struct caps){ .usable = true, .level = "none", .limits_by = "none" };
    return 0;
}

static void add_rlimit(struct jail *jail, uint32_t resource, int64_t value)
{
    jail->rlimits[jail->rlimit_count++] =
        (struct jail_rlimit){ .resource = resource, .value = (uint64_t)value };
}

static void set_rlimits(struct jail *jail, const struct limits *limits)
{
    add_rlimit(jail, RLIMIT_CORE, 1); /* 0 does not stop a pipe in core_pattern */
    add_rlimit(jail, RLIMIT_NOFILE, limits->open_files);
    if (limits->file_bytes > 0)
        add_rlimit(jail, RLIMIT_FSIZE, limits->file_bytes);
    if (limits->cpu_ms > 0)
        /* The engine meters; this is for when it is stopped or slow. */
        add_rlimit(jail, RLIMIT_CPU, limits->cpu_ms / 1000 + 2);
}

/* A plan that asks for more than this driver can do is refused. */
static int check_plan(const struct plan *plan, struct vial_error *err)
{
    const char *what = NULL;

    if (plan->image)
        what = "an image";
    else if (plan->rootfs)
        what = "a root of its own";
    else if (plan->seccomp_file)
        what = "a seccomp profile";
    for (size_t i = 0; i < plan->mount_count; i++)
        if (plan->mounts[i].volume || !str_eq(plan->mounts[i].target, plan->workdir) ||
            !plan->mounts[i].writable)
            what = "mounts";
    if (!what)
        return 0;
    (void)fail(err, VIAL_E_UNSUPPORTED, "driver 'process' cannot give the program %s",
               what);
    return fail_remedy(err, "use '--driver native'");
}

static int make_dirs(struct process *p, struct vial_error *err)
{
    if (temp_dir_create(&p->place, err) < 0)
        return -1;
    p->vessel.tmpdir = path_join(p->place.dir, "tmp");
    p->vessel.jail.workdir = path_join(p->place.dir, "work");
    if (!p->vessel.tmpdir || !p->vessel.jail.workdir)
        return fail_memory(err);
    return 0;
}

/* A workspace is worked in where it lies, if it is still what was judged. */
static int use_workspace(struct process *p, const struct plan_mount *mount,
                         struct vial_error *err)
{
    struct stat st;
    char *path;

    if (stat(mount->source, &st) < 0)
        return fail_sys(err, "look at '%s'", mount->source);
    if (st.st_dev != mount->dev || st.st_ino != mount->ino)
        return fail(err, VIAL_E_MOUNT, "'%s' was replaced by something else",
                    mount->source);
    path = strdup(mount->source);
    if (!path)
        return fail_memory(err);
    free(p->vessel.jail.workdir);
    p->vessel.jail.workdir = path;
    return 0;
}

static int start(struct process *p, int guest_fd, struct vial_error *err)
{
    int ends[2];
    int rc;

    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) < 0)
        return fail_sys(err, "make a socket pair");
    p->vessel.stream_fd = ends[0];
    auto_fd int guest_end = ends[1];
    rc = io_set_nonblocking(ends[0]);
    if (rc < 0)
        return fail_sys_rc(err, rc, "prepare the guest's stream");
    return spawn_guest(guest_fd, guest_end, &p->pid, &p->vessel.death_fd, err);
}

static int set_up(struct process *p, const struct plan *plan, int guest_fd,
                  struct vial_error *err)
{
    if (make_dirs(p, err) < 0)
        return -1;
    if (plan->mount_count > 0 && use_workspace(p, &plan->mounts[0], err) < 0)
        return -1;
    set_rlimits(&p->vessel.jail, &plan->limits);
    if (plan->fixed_addresses)
        p->vessel.jail.flags |= JAIL_FIXED_ADDRESSES;
    return start(p, guest_fd, err);
}

static double ms_of(const struct timeval *t)
{
    return (double)t->tv_sec * 1000.0 + (double)t->tv_usec / 1000.0;
}

/* Collects the guest's status and what the kernel counted for it and for every
 * descendant it waited for. True when it ended by itself. */
static bool reap(struct process *p)
{
    siginfo_t info = { 0 };
    struct rusage used = { 0 };
    long rc;

    do
        rc = syscall(SYS_waitid, P_PIDFD, p->vessel.death_fd, &info, WEXITED | __WALL,
                     &used);
    while (rc < 0 && errno == EINTR);
    p->pid = 0;
    meter_add(&p->meter, ms_of(&used.ru_utime), ms_of(&used.ru_stime));
    return rc < 0 || info.si_code == CLD_EXITED;
}

/*
 * The end of the stream makes the guest kill its programs, whose foster parent
 * it is, and exit. Killing the guest first would set them free; that is done
 * only when it does not obey, and followed by a search for what is left.
 */
static void kill_all(struct vessel *vessel)
{
    struct process *p = process_of(vessel);
    struct pollfd dead = { .fd = vessel->death_fd, .events = POLLIN };
    int obeyed;

    if (p->pid <= 0)
        return;
    meter_look(&p->meter, p->pid);
    (void)shutdown(vessel->stream_fd, SHUT_WR);
    do
        obeyed = poll(&dead, 1, GUEST_PATIENCE_MS);
    while (obeyed < 0 && errno == EINTR);
    if (obeyed != 1)
        (void)sys_pidfd_kill(vessel->death_fd, SIGKILL);
    if (!reap(p) || obeyed != 1)
        sweep_processes(p->place.dir);
}

static void close_vessel(struct vessel *vessel)
{
    struct process *p = process_of(vessel);

    kill_all(vessel);
    temp_dir_remove(&p->place);
    auto_fd_(&vessel->stream_fd);
    auto_fd_(&vessel->death_fd);
    jail_done(&vessel->jail);
    strv_done(&vessel->layers);
    free(vessel->tmpdir);
    free(p);
}

static int open_vessel(const struct plan *plan, int guest_fd, struct vessel **out,
                       struct vial_error *err)
{
    struct process *p;

    if (check_plan(plan, err) < 0)
        return -1;
    p = calloc(1, sizeof *p);
    if (!p)
        return fail_memory(err);
    p->place = (struct place)PLACE_NONE;
    p->vessel = (struct vessel){ .driver = &driver_process,
                                 .stream_fd = -1,
                                 .death_fd = -1,
                                 .event_fd = -1,
                                 .gate_fd = -1,
                                 .level = "none",
                                 .limits_by = "none",
                                 .path = PATH_SEARCH };
    p->meter.memory_limit = plan->limits.memory_bytes;
    sys_make_id('v', p->vessel.id);
    if (set_up(p, plan, guest_fd, err) < 0) {
        close_vessel(&p->vessel);
        return -1;
    }
    *out = &p->vessel;
    return 0;
}

/* The peak of memory is not taken from the kernel: it would be the caller's own,
 * from the moment when the guest shared its memory. */
static void usage(struct vessel *vessel, struct vessel_usage *out)
{
    struct process *p = process_of(vessel);

    *out = (struct vessel_usage){ 0 };
    if (p->pid > 0)
        meter_look(&p->meter, p->pid);
    meter_report(&p->meter, out);
}

static int sweep(int cancel_fd, unsigned *removed, struct vial_error *err)
{
    (void)cancel_fd; /* it takes no time */
    (void)err;
    *removed = temp_dir_sweep();
    return 0;
}

const struct driver driver_process = {
    .name = "process",
    .probe = probe,
    .open = open_vessel,
    .kill = kill_all,
    .usage = usage,
    .close = close_vessel,
    .sweep = sweep,
    .needs_programs_here = true,
};
