/* SPDX-License-Identifier: Apache-2.0 */
#include "driver/native/launch.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/memfd.h>
#include <linux/sched.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/fail.h"
#include "base/io.h"
#include "base/sys.h"
#include "driver/native/child.h"
#include "driver/native/host_tree.h"
#include "driver/native/idmap.h"
#include "driver/native/image_layers.h"
#include "driver/native/mounts.h"
#include "driver/native/probe.h"
#include "driver/native/root.h"
#include "wire/weaken.h"

#define ABOVE_STDIO 10 /* where descriptors wait that the child's dup2 must not hit */
#define SETUP_MS    30000
#define ORPHAN_S    60    /* a child that has heard nothing for so long has no parent */
#define READ_TRIES  1000u /* in a row: then it is no signal that interrupts */
#define GUEST_MAX   (16 << 20)
#define SEALS       (F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)

#ifndef MFD_EXEC
    #define MFD_EXEC 0x0010U
#endif

static int make_memfd(void)
{
    int fd = memfd_create("guest", MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_EXEC);

    if (fd < 0 && errno == EINVAL) /* before 6.3 */
        fd = memfd_create("guest", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    return fd;
}

static int lift(int *fd)
{
    int high = *fd;

    if (high >= ABOVE_STDIO)
        return 0;
    high = fcntl(*fd, F_DUPFD_CLOEXEC, ABOVE_STDIO);
    if (high < 0)
        return -1;
    (void)close(*fd);
    *fd = high;
    return 0;
}

/* Holds the file that the child will execute. It is still empty unless the caller's is
 * fit for it. */
static int hold_guest(struct launch *l, int guest_fd, struct vial_error *err)
{
    int seals = fcntl(guest_fd, F_GET_SEALS);

    l->sealed = seals >= 0 && (seals & SEALS) == SEALS;
    l->exec_fd =
        l->sealed ? fcntl(guest_fd, F_DUPFD_CLOEXEC, ABOVE_STDIO) : make_memfd();
    if (l->exec_fd < 0 || (!l->sealed && lift(&l->exec_fd) < 0))
        return fail_sys(err, "hold the guest program");
    return 0;
}

/* A private copy that nobody can write, so that nothing inside can ever reach
 * the file on the host (CVE-2019-5736). */
int launch_copy(const struct launch *l, int guest_fd, struct vial_error *err)
{
    struct stat st;
    off_t from = 0;

    if (l->sealed)
        return 0;
    if (fstat(guest_fd, &st) < 0)
        return fail_sys(err, "copy the guest program");
    if (!S_ISREG(st.st_mode) || st.st_size <= 0 || st.st_size > GUEST_MAX)
        return fail(err, VIAL_E_GUEST, "guest program is no program");
    while (from < st.st_size) {
        ssize_t n = sendfile(l->exec_fd, guest_fd, &from, (size_t)(st.st_size - from));

        if (n <= 0)
            return fail_sys(err, "copy the guest program");
    }
    if (fchmod(l->exec_fd, 0555) < 0 || fcntl(l->exec_fd, F_ADD_SEALS, SEALS) < 0)
        return fail_sys(err, "seal the guest program");
    return 0;
}

int launch_seal(int guest_fd)
{
    struct launch l = { .exec_fd = make_memfd() };

    if (l.exec_fd >= 0 && launch_copy(&l, guest_fd, NULL) < 0) {
        (void)close(l.exec_fd);
        l.exec_fd = -1;
    }
    return l.exec_fd;
}

/* Children of one process that start at the same moment hold each other's sockets until
 * they exec, so that none of them hears that the process was killed. */
static int make_control(int control[2])
{
    const struct timeval patience = { .tv_sec = ORPHAN_S };

    return socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, control) < 0 ||
                   setsockopt(control[1], SOL_SOCKET, SO_RCVTIMEO, &patience,
                              sizeof(patience)) < 0
               ? -1
               : 0;
}

int launch_prepare(struct launch *l, int guest_fd, struct vial_error *err)
{
    if (make_control(l->control) < 0 ||
        socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, l->stream) < 0)
        return fail_sys(err, "make a socket pair");
    if (lift(&l->control[1]) < 0 || lift(&l->stream[1]) < 0 ||
        io_set_nonblocking(l->stream[0]) < 0)
        return fail_sys(err, "prepare the guest's stream");
    return hold_guest(l, guest_fd, err);
}

int launch_send(const struct launch *l, const int *fds, size_t count,
                struct vial_error *err)
{
    uint8_t promised = (uint8_t)count;
    ssize_t n =
        sys_send_fds(l->control[0], (struct iovec){ &promised, 1 }, fds, count, 0);

    /* A child that is gone has said why; that is read later. */
    if (n < 0 && n != -EPIPE && n != -ECONNRESET)
        return fail_sys_rc(err, (int)n, "start the vessel");
    return 0;
}

/* The kernel has it not, or not for us. */
static bool is_want(int error)
{
    return error == EPERM || error == EACCES || error == EINVAL || error == ENODEV ||
           error == ENOSYS || error == EOPNOTSUPP;
}

static int add_devices(struct launch *l, struct mount_fds *mounts,
                       struct vial_error *err)
{
    int fd = devices_open(err);

    if (fd < 0) {
        l->doubtful = err && is_want(err->sys);
        return -1;
    }
    mounts->fd[mounts->count++] = fd;
    return 0;
}

static int add_image(const struct launch *l, const struct plan *plan,
                     struct mount_fds *mounts, struct vial_error *err)
{
    int fd = image_layers_mount(plan, l->pid, l->image, err);

    if (fd < 0)
        return -1;
    mounts->fd[mounts->count++] = fd;
    return 0;
}

static int map_ids(const struct launch *l, struct vial_error *err)
{
    if (weaken("user"))
        return 0;
    if (l->first_id)
        return idmap_write_range(l->pid, l->first_id, err);
    if (l->ranged)
        return subids_map(l->pid, &l->subids, err);
    return idmap_write(l->pid, l->privileged, err);
}

uid_t launch_id(const struct launch *l, uid_t id)
{
    if (l->first_id)
        return l->first_id + id;
    if (l->ranged && id > 0)
        return l->subids.first_uid + id - 1;
    return l->privileged ? idmap_guest_id(l->pid) + 1 : getuid();
}

int launch_settle(struct launch *l, const struct script *s, const struct plan *plan,
                  struct vial_error *err)
{
    struct mount_fds mounts = { .count = 0 };
    const struct mount_sides sides = { l->volumes, launch_id(l, l->uid), l->pid };
    int rc = s->failed ? fail_memory(err) : 0;

    if (rc == 0)
        rc = map_ids(l, err);

    /* A root without capabilities, as in a container that dropped them all, may
     * not map itself (since 5.12). */
    l->doubtful = rc < 0 && err && err->sys == EPERM;
    if (rc == 0 && l->privileged)
        rc = mounts_prepare(plan, &sides, &mounts, err);
    if (rc == 0 && l->own_devices)
        rc = add_devices(l, &mounts, err);
    if (rc == 0 && l->image && l->privileged)
        rc = add_image(l, plan, &mounts, err);
    if (rc == 0)
        rc = launch_send(l, mounts.fd, mounts.count, err);
    mounts_done(&mounts);
    return rc;
}

static int fail_spaces(struct launch *l, int error, struct vial_error *err)
{
    l->doubtful = error == EPERM || error == EACCES || error == ENOSYS ||
                  error == EINVAL || error == ENOSPC || error == EUSERS;
    (void)fail_sys_rc(err, -error, "make the vessel's namespaces");
    (void)fail_as(err, VIAL_E_OPEN);
    return fixes_clone(error, err);
}

static void walk(void *arg)
{
    const struct launch_walk *w = arg;

    child_run(w->script, w->control_fd);
}

int launch_begin(struct launch *l, struct script *s, uint64_t spaces, int into_fd,
                 struct vial_error *err)
{
    int pidfd = -1;
    struct clone_args args = { .flags = spaces | CLONE_PIDFD,
                               .pidfd = (uint64_t)(uintptr_t)&pidfd };
    long pid = 0;

    if (into_fd >= 0) {
        args.flags |= CLONE_INTO_CGROUP;
        args.cgroup = (unsigned)into_fd;
    }
    if (s->failed)
        return fail_memory(err);
    l->walk = (struct launch_walk){ s, l->control[1] };
    pid = raw_spawn(&args, s->sharing ? s->stack : NULL, walk, &l->walk);
    if (pid < 0)
        return fail_spaces(l, (int)-pid, err);
    l->pid = (pid_t)pid;
    l->pidfd = pidfd;
    (void)close(l->control[1]);
    l->control[1] = -1;
    return 0;
}

static void take_gift(struct launch *l, const char *path, int *gift_fd)
{
    size_t place = l->layer_fd[0] < 0 ? 0 : 1;

    if (strcmp(path, ROOT_UPPER) == 0) {
        l->upper_fd = fd_take(gift_fd);
        return;
    }
    if (l->layer_fd[place] < 0)
        l->layer_fd[place] = fd_take(gift_fd);
}

/* AppArmor lets a user namespace be made and then allows nothing in it; a container's
 * /proc cannot be mounted. But an overlay of the caller's own directory says nothing of
 * the host, and no trial tries it. */
static bool is_doubtful(const struct step *step, int error)
{
    if (step->op == OP_MOUNT && strcmp(step->mount.type, "overlay") == 0)
        return (step->flags & STEP_TRIED) && is_want(error);
    return error == EPERM || error == EACCES;
}

static int fail_step(struct launch *l, const struct step *step, int error,
                     struct vial_error *err)
{
    auto_str struct str text = { 0 };

    if (step->op == OP_UNSHARE && step->spaces == CLONE_NEWNET)
        return fail_spaces(l, error, err);
    l->doubtful = is_doubtful(step, error);
    if (step->op == OP_OPEN && error == ESTALE)
        return fail(err, VIAL_E_MOUNT,
                    "mount source '%s' was replaced by something else",
                    step->open.path);
    script_describe(step, &text);
    (void)fail_sys_rc(err, -error, "open the vessel: step '%s'",
                      str_ok(&text) && text.data ? text.data : "?");
    (void)fail_as(err,
                  step->op == OP_OPEN || step->op == OP_TREE || step->op == OP_ATTACH
                      ? VIAL_E_MOUNT
                      : VIAL_E_OPEN);
    return fixes_step(step, error, err);
}

/* A report, and the descriptor that may come with it. */
static ssize_t receive_report(int fd, struct script_report *out, int *gift_fd)
{
    _Alignas(struct cmsghdr) char room[CMSG_SPACE(sizeof(int))];
    struct iovec iov = { out, sizeof(*out) };
    struct msghdr message = { .msg_iov = &iov,
                              .msg_iovlen = 1,
                              .msg_control = room,
                              .msg_controllen = sizeof(room) };
    ssize_t n = recvmsg(fd, &message, MSG_CMSG_CLOEXEC);
    const struct cmsghdr *c = n > 0 ? CMSG_FIRSTHDR(&message) : NULL;

    if (c && c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS &&
        c->cmsg_len == CMSG_LEN(sizeof(int)))
        memcpy(gift_fd, CMSG_DATA(c), sizeof(int));
    return n;
}

/* A mount source on a dead network file system can hang the child, and with it
 * a caller whose deadline has not even begun. */
static ssize_t read_report(int fd, struct script_report *out, int *gift_fd)
{
    struct pollfd ready = { .fd = fd, .events = POLLIN };
    int rc = poll(&ready, 1, SETUP_MS);

    if (rc == 0)
        errno = ETIMEDOUT;
    return rc <= 0 ? -1 : receive_report(fd, out, gift_fd);
}

int launch_finish(struct launch *l, const struct script *s, struct vial_error *err)
{
    struct script_report report;
    unsigned tries = 0;

    for (;;) {
        auto_fd int gift_fd = -1;
        ssize_t n = read_report(l->control[0], &report, &gift_fd);

        /* ECONNRESET: it ended without reading our word; its report lies behind that.
         */
        if (n < 0 && (errno == EINTR || errno == ECONNRESET) && ++tries < READ_TRIES)
            continue;
        if (n < 0) {
            (void)fail_sys(err, "wait for the vessel to be set up");
            return fail_as(err, VIAL_E_OPEN);
        }
        if (n == 0) /* closed by the exec, or by a death before it */
            return 0;
        if (n != sizeof(report) || report.step >= s->count)
            return fail(err, VIAL_E_INTERNAL, "the vessel's child spoke nonsense");
        if (!report.ongoing)
            return fail_step(l, &s->steps[report.step], report.error, err);
        if (s->steps[report.step].op == OP_GIVE)
            take_gift(l, s->steps[report.step].path, &gift_fd);
    }
}

static void end_child(const struct launch *l)
{
    siginfo_t info;

    (void)sys_pidfd_kill(l->pidfd, SIGKILL);
    while (waitid(P_PIDFD, (id_t)l->pidfd, &info, WEXITED | __WALL) < 0 &&
           errno == EINTR)
        ;
}

void launch_done(struct launch *l)
{
    if (l->pid > 0 && l->pidfd >= 0)
        end_child(l);
    auto_fd_(&l->control[0]);
    auto_fd_(&l->control[1]);
    auto_fd_(&l->stream[0]);
    auto_fd_(&l->stream[1]);
    auto_fd_(&l->exec_fd);
    auto_fd_(&l->pidfd);
    auto_fd_(&l->layer_fd[0]);
    auto_fd_(&l->layer_fd[1]);
    auto_fd_(&l->upper_fd);
    host_drop(l->host);
    free(l->authority);
    free(l->bundle);
}
