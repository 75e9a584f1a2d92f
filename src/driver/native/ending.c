/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/sys.h"
#include "driver/gate_process.h"
#include "driver/native/vessel.h"

#define CLOSE_WAIT_MS 2000 /* for the kernel to empty a killed pid namespace */
#define LIGHT         (INT64_C(64) << 20) /* memory that may be given back a little later */

/* linux/pidfd.h, since 6.11. */
#define GET_MOUNT_NAMESPACE _IO(0xFF, 3)

/*
 * When a vessel's last process is gone, its mounts are left. The process that lets go
 * of a mount namespace last takes the mounts down before it goes on. That takes longer
 * than the rest of a vessel's end, so it is left to a moment at which nobody waits:
 * native_take_mounts while it lives, native_leave_mounts when its processes have ended.
 */

int native_take_mounts(int pidfd)
{
    return ioctl(pidfd, GET_MOUNT_NAMESPACE, 0);
}

/* Into a socket, together with that socket's own other end. */
static void send_both(int from_fd, int to_fd, int fd)
{
    const int fds[] = { fd, to_fd };
    char byte = 0;

    (void)sys_send_fds(from_fd, (struct iovec){ &byte, 1 }, fds, 2, MSG_DONTWAIT);
}

/* A socket that only a message in
 * its own queue refers to is garbage, and the kernel collects such in a thread of its
 * own (since 6.10; before, or if it cannot be sent, closing does it here and now). */
void native_leave_mounts(int *fd)
{
    int pair[2] = { -1, -1 };

    if (*fd < 0)
        return;
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) == 0)
        send_both(pair[0], pair[1], *fd);
    auto_fd_(fd);
    auto_fd_(&pair[1]);
    auto_fd_(&pair[0]); /* last: this is what makes the kernel look */
    *fd = -1;
}

void native_kill(struct vessel *vessel)
{
    struct native *n = native_of(vessel);

    if (vessel->death_fd < 0)
        return;
    if (n->cgroup.kind == CGROUP_NONE && n->pid > 0 && !n->killed)
        meter_look(&n->meter, n->pid); /* what dies with it is counted by nobody */
    if (n->only_ours && n->unmount_fd < 0 && !n->killed)
        n->unmount_fd = native_take_mounts(vessel->death_fd);
    n->killed = true;
    (void)sys_pidfd_kill(vessel->death_fd, SIGKILL);
    if (n->paused) /* version 1: it does not die while it is frozen */
        (void)cgroup_freeze(&n->cgroup, false, NULL);
    n->paused = false;
}

static double ms_of(const struct timeval *t)
{
    return (double)t->tv_sec * 1000.0 + (double)t->tv_usec / 1000.0;
}

/* A killed pid namespace empties itself; its first process can be reaped once
 * the last of the others is gone. */
static void reap(struct native *n)
{
    struct pollfd dead = { .fd = n->vessel.death_fd, .events = POLLIN };
    struct rusage used = { 0 };
    siginfo_t info;
    int rc = 0;

    if (n->pid <= 0)
        return;
    do
        rc = poll(&dead, 1, CLOSE_WAIT_MS);
    while (rc < 0 && errno == EINTR);
    if (rc != 1 || syscall(SYS_waitid, P_PIDFD, n->vessel.death_fd, &info,
                           WEXITED | WNOHANG | __WALL, &used) < 0)
        return;
    n->pid = 0;
    meter_add(&n->meter, ms_of(&used.ru_utime), ms_of(&used.ru_stime));
}

void native_usage(struct vessel *vessel, struct vessel_usage *out)
{
    struct native *n = native_of(vessel);

    *out = (struct vessel_usage){ 0 };
    if (n->cgroup.kind != CGROUP_NONE) {
        cgroup_read(&n->cgroup, out);
        n->is_light =
            out->usage.memory_peak_bytes > 0 && out->usage.memory_peak_bytes <= LIGHT;
        cgroup_joined(&n->cgroup); /* whoever wanted to is in it by now */
    } else {
        if (n->killed)
            reap(n);
        else if (n->pid > 0)
            meter_look(&n->meter, n->pid);
        meter_report(&n->meter, out);
    }
    /* Nothing but its own loopback exists in there. */
    out->net_counted = true;
}

void native_spent(struct vessel *vessel, struct vessel_usage *out)
{
    struct native *n = native_of(vessel);

    if (n->cgroup.kind != CGROUP_V1) {
        native_usage(vessel, out);
        return;
    }
    *out = (struct vessel_usage){ 0 };
    cgroup_v1_read_times(&n->cgroup, out);
    cgroup_joined(&n->cgroup);
}

/* A group may still hold a process that is stuck in the kernel, or on the way out. The
 * janitor waits for it, and removes the group then. */
static void leave_cgroup(struct native *n)
{
    bool gone = cgroup_unlink(&n->cgroup) && n->pid == 0;

    if (!gone && n->cgroup.kind != CGROUP_NONE && n->janitor.leash_fd < 0)
        janitor_start(&n->janitor, &n->cgroup, n->vessel.death_fd);
    cgroup_close(&n->cgroup);
    if (gone)
        janitor_call_off(&n->janitor); /* it ends while we close the rest */
    else
        janitor_release(&n->janitor);
}

void native_close(struct vessel *vessel)
{
    struct native *n = native_of(vessel);

    struct gate_process gate = { n->gate_pidfd, vessel->gate_fd, n->secrets_pidfd,
                                 NULL };

    native_kill(vessel);
    reap(n);
    gate_process_end(&gate);
    if (n->is_light && !n->shared)
        native_leave_mounts(&n->unmount_fd);
    auto_fd_(&n->unmount_fd);
    leave_cgroup(n);
    auto_fd_(&vessel->stream_fd);
    auto_fd_(&vessel->death_fd);
    auto_fd_(&vessel->event_fd);
    auto_fd_(&vessel->layer_fd);
    auto_fd_(&vessel->merged_fd);
    auto_fd_(&n->image_fd);
    snapshot_done(&n->snapshot);
    auto_fd_(&n->ids_fd);
    held_volumes_close(&n->volumes); /* the last process has gone */
    jail_done(&vessel->jail);
    strv_done(&vessel->layers);
    strv_done(&vessel->env);
    strv_done(&vessel->imports);
    free(vessel->cwd);
    strv_done(&vessel->entrypoint);
    strv_done(&vessel->cmd);
    janitor_dismiss(&n->janitor);
    free(n);
}
