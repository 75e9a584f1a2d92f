/* SPDX-License-Identifier: Apache-2.0 */
#include "driver/native/child.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/close_range.h>
#include <linux/futex.h>
#include <linux/keyctl.h>
#include <linux/mount.h>
#include <linux/netlink.h>
#include <linux/openat2.h>
#include <linux/rtnetlink.h>
#include <linux/sched.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>
#ifndef STATX_BASIC_STATS /* musl's before 1.2.5 */
    #include <linux/stat.h>
#endif

#include "base/sys.h"
#include "driver/native/raw.h"

/* From sys/mount.h, which cannot be included beside linux/mount.h. */
#define OLD_DETACH  2
#define OLD_BIND    (1ul << 12)
#define OLD_REC     (1ul << 14)
#define OLD_PRIVATE (1ul << 18)

#define LEGS     2u
#define TWIN_PID 299
#define LAST     0x100u
#define WAIT_ALL 0x40000000 /* __WALL: also for whoever gives no signal at its end */

struct walk {
    const struct script *script;
    int control_fd;
    int slots[SCRIPT_SLOTS];
    long twin_pid;                        /* 0: there is none yet */
    uint32_t leg_at[LEGS], leg_end[LEGS]; /* the twin's steps */
    uint32_t told; /* how many legs the twin knows of; LAST: there are no more */
};

/* Each act returns 0 (or more) or -errno. The kernel takes as many of the arguments
 * as the call has. */
#define ARG(x)                            ((long)(intptr_t)(x))
#define CALL1(n, a)                       raw_call(n, ARG(a), 0, 0, 0, 0)
#define CALL2(n, a, b)                    raw_call(n, ARG(a), ARG(b), 0, 0, 0)
#define CALL3(n, a, b, c)                 raw_call(n, ARG(a), ARG(b), ARG(c), 0, 0)
#define CALL4(n, a, b, c, d)              raw_call(n, ARG(a), ARG(b), ARG(c), ARG(d), 0)
#define CALL5(n, a, b, c, d, e)           raw_call(n, ARG(a), ARG(b), ARG(c), ARG(d), ARG(e))
#define PICK(n, a, b, c, d, e, name, ...) name
#define CALL(...)                         PICK(__VA_ARGS__, CALL5, CALL4, CALL3, CALL2, CALL1, 0)(__VA_ARGS__)

static long length(const char *text)
{
    long n = 0;

    for (; text[n]; n++)
        __asm__ volatile(""); /* or the compiler makes a call of it */
    return n;
}

static int fd_in(const struct walk *w, unsigned slot)
{
    return w->slots[slot % SCRIPT_SLOTS];
}

static long keep(struct walk *w, unsigned slot, long fd)
{
    if (fd >= 0)
        w->slots[slot % SCRIPT_SLOTS] = (int)fd;
    return fd;
}

static long write_fd(long fd, const char *text)
{
    long len = length(text);
    long rc = CALL(SYS_write, fd, text, len);

    return rc < 0 ? rc : rc == len ? 0 : -EIO;
}

/* One byte from the parent: how many descriptors come with it. */
static long wait_for_parent(struct walk *w, const struct step *s)
{
    uint8_t promised = 0;
    _Alignas(struct cmsghdr) char room[CMSG_SPACE(sizeof(int) * SYS_SEND_FDS)] = { 0 };
    struct iovec iov = { &promised, 1 };
    struct msghdr message = { .msg_iov = &iov,
                              .msg_iovlen = 1,
                              .msg_control = room,
                              .msg_controllen = sizeof(room) };
    const struct cmsghdr *c = NULL;
    size_t came = 0;
    long rc = CALL(SYS_recvmsg, w->control_fd, &message, MSG_CMSG_CLOEXEC);

    if (rc <= 0)
        return rc < 0 ? rc : -EPIPE;
    c = CMSG_FIRSTHDR(&message);
    if (c && c->cmsg_type == SCM_RIGHTS)
        came = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    if (came != promised) /* too few may be open here */
        return -EMFILE;
    for (size_t i = 0; i < came; i++)
        w->slots[(s->slot + i) % SCRIPT_SLOTS] =
            ((const int *)(const void *)CMSG_DATA(c))[i];
    return 0;
}

/* "0" is whoever writes. No descriptor came when the parent may make no cgroup; it
 * says so in the vessel's limits. */
static long join(const struct walk *w, const struct step *s)
{
    return fd_in(w, s->slot) < 0 ? 0 : write_fd(fd_in(w, s->slot), "0");
}

static long set_ids(const struct step *s)
{
    long rc = 0;

    if (!(s->flags & STEP_KEEP_GROUPS))
        rc = CALL(SYS_setgroups, 0, 0);
    if (rc == 0)
        rc = CALL(SYS_setresgid, s->ids.gid, s->ids.gid, s->ids.gid);
    if (rc == 0)
        rc = CALL(SYS_setresuid, s->ids.uid, s->ids.uid, s->ids.uid);
    return rc;
}

static long set_attributes(long fd, const char *path, uint64_t set, bool recursive)
{
    struct mount_attr attr = { .attr_set = set, .propagation = 0 };
    unsigned flags = (path[0] ? 0u : AT_EMPTY_PATH) | (recursive ? AT_RECURSIVE : 0u);

    return CALL(SYS_mount_setattr, fd, path, flags, &attr, sizeof(attr));
}

static long clone_tree(long from, uint64_t set)
{
    long fd = CALL(SYS_open_tree, from, "",
                   OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_EMPTY_PATH | AT_RECURSIVE);
    long rc = fd < 0 ? fd : set_attributes(fd, "", set, true);

    if (rc < 0 && fd >= 0)
        (void)CALL(SYS_close, fd);
    return rc < 0 ? rc : fd;
}

/* Onto a directory or file of our own, which is why names will do. The old call:
 * a detached copy would count as a mount namespace, of which there may be none. */
static long bind_tree(const struct step *s)
{
    unsigned long flags = OLD_BIND | (s->bind.recursive ? OLD_REC : 0ul);
    long rc = CALL(SYS_mount, s->bind.source, s->bind.target, 0, flags, 0);

    if (rc < 0 || !s->bind.attributes)
        return rc;
    return set_attributes(AT_FDCWD, s->bind.target, s->bind.attributes,
                          s->bind.recursive);
}

/* One call for all below; what it took from the mount itself is given back. */
static long seal_below(const struct step *s)
{
    struct mount_attr attr = { .attr_clr = MOUNT_ATTR_RDONLY };
    long rc = set_attributes(AT_FDCWD, s->attr.path, s->attr.attributes, true);

    if (rc < 0)
        return rc;
    return CALL(SYS_mount_setattr, AT_FDCWD, s->attr.path, 0, &attr, sizeof(attr));
}

/* The parent judged an object; only that object will do. */
static long open_judged(const struct step *s)
{
    struct open_how how = { .flags = O_PATH | O_CLOEXEC,
                            .resolve = RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS };
    struct statx sx = { 0 };
    long fd = CALL(SYS_openat2, AT_FDCWD, s->open.path, &how, sizeof(how));
    long rc =
        fd < 0 ? fd : CALL(SYS_statx, fd, "", AT_EMPTY_PATH, STATX_BASIC_STATS, &sx);

    if (rc < 0)
        return rc;
    if (makedev(sx.stx_dev_major, sx.stx_dev_minor) != s->open.dev ||
        sx.stx_ino != s->open.ino)
        return -ESTALE;
    return fd;
}

/* The target is looked up inside the new root, whose links may be anyone's: none
 * is followed. */
static long attach_inside(const struct walk *w, const struct step *s)
{
    struct open_how how = { .flags = O_PATH | O_CLOEXEC,
                            .resolve = RESOLVE_IN_ROOT | RESOLVE_NO_SYMLINKS |
                                       RESOLVE_NO_MAGICLINKS };
    long target = 0;
    long rc = 0;

    target = CALL(SYS_openat2, AT_FDCWD, s->attach.target, &how, sizeof(how));
    if (target < 0)
        return target;
    rc = CALL(SYS_move_mount, fd_in(w, s->attach.slot), "", target, "",
              MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH);
    (void)CALL(SYS_close, target);
    return rc;
}

/* Names of the old root are the host's own. */
static long cover(const struct walk *w, const struct step *s)
{
    return CALL(SYS_move_mount, fd_in(w, s->attach.slot), "", AT_FDCWD,
                s->attach.target, MOVE_MOUNT_F_EMPTY_PATH);
}

static long make_file(const struct step *s)
{
    long fd = -1;
    long rc = 0;

    if (!s->file.content)
        return CALL(SYS_mknodat, AT_FDCWD, s->file.path, S_IFREG | s->file.mode, 0);
    fd = CALL(SYS_openat, AT_FDCWD, s->file.path,
              O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, s->file.mode);
    rc = fd < 0 ? fd : write_fd(fd, s->file.content);
    if (fd >= 0)
        (void)CALL(SYS_close, fd);
    return rc;
}

static long copy_file(const struct step *s)
{
    long in =
        CALL(SYS_openat, AT_FDCWD, s->copy.from, O_RDONLY | O_NOFOLLOW | O_CLOEXEC, 0);
    long out = in < 0 ? in
                      : CALL(SYS_openat, AT_FDCWD, s->copy.to,
                             O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0444);
    long rc = out < 0 ? out : CALL(SYS_sendfile, out, in, 0, s->copy.most);

    if (in >= 0)
        (void)CALL(SYS_close, in);
    if (out >= 0)
        (void)CALL(SYS_close, out);
    return rc < 0 ? rc : 0;
}

/* A directory that the parent looks into from its side. An O_PATH descriptor:
 * what may be done there is judged anew with every use. */
static long give(const struct walk *w, const struct step *s, uint32_t step)
{
    struct script_report report = { step, 0, 1 };
    _Alignas(struct cmsghdr) char room[CMSG_SPACE(sizeof(int))] = { 0 };
    struct iovec iov = { &report, sizeof(report) };
    struct msghdr message = { .msg_iov = &iov,
                              .msg_iovlen = 1,
                              .msg_control = room,
                              .msg_controllen = sizeof(room) };
    struct cmsghdr *c = CMSG_FIRSTHDR(&message);
    long fd = CALL(SYS_openat, AT_FDCWD, s->path,
                   O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC, 0);
    long rc = 0;

    if (fd < 0)
        return fd;
    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(sizeof(int));
    *(int *)(void *)CMSG_DATA(c) = (int)fd;
    rc = CALL(SYS_sendmsg, w->control_fd, &message, MSG_NOSIGNAL);
    (void)CALL(SYS_close, fd);
    return rc < 0 ? rc : 0;
}

static long write_file(const struct step *s)
{
    long fd = CALL(SYS_openat, AT_FDCWD, s->file.path, O_WRONLY | O_CLOEXEC, 0);
    long rc = fd < 0 ? fd : write_fd(fd, s->file.content);

    if (fd >= 0)
        (void)CALL(SYS_close, fd);
    return rc;
}

static long loopback(struct walk *w, const struct step *s)
{
    struct ifreq request = { .ifr_name = "lo" };
    long fd = CALL(SYS_socket, AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    long rc = fd;

    request.ifr_flags = IFF_UP;
    if (fd >= 0) {
        rc = CALL(SYS_ioctl, fd, SIOCSIFFLAGS, &request);
        if (rc == 0 && s->slot)
            rc = keep(w, s->slot, CALL(SYS_ioctl, fd, SIOCGSKNS));
        (void)CALL(SYS_close, fd);
    }
    return rc;
}

/* For the kernel: a route of type local, by the loopback interface, whose number is 1
 * in each network. It answers with an error, 0 for none. */
static long add_route(const struct step *s)
{
    struct {
        struct nlmsghdr head;
        struct rtmsg route;
        struct rtattr out;
        uint32_t interface;
        struct rtattr to;
        uint8_t address[sizeof(s->range.address)];
    } ask = { .head = { .nlmsg_type = RTM_NEWROUTE,
                        .nlmsg_flags = NLM_F_REQUEST | NLM_F_ACK | NLM_F_CREATE },
              .route = { .rtm_family = s->range.size == 4 ? AF_INET : AF_INET6,
                         .rtm_dst_len = s->range.bits,
                         .rtm_table = RT_TABLE_LOCAL,
                         .rtm_protocol = RTPROT_BOOT,
                         .rtm_scope = RT_SCOPE_HOST,
                         .rtm_type = RTN_LOCAL },
              .out = { sizeof(ask.out) + sizeof(ask.interface), RTA_OIF },
              .interface = 1,
              .to = { (unsigned short)(sizeof(ask.to) + s->range.size), RTA_DST } };
    struct {
        struct nlmsghdr head;
        struct nlmsgerr error;
        uint8_t more[128];
    } answer = { 0 };
    long fd = CALL(SYS_socket, AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
    long rc;

    ask.head.nlmsg_len = (uint32_t)(sizeof(ask) - sizeof(ask.address)) + s->range.size;
    for (unsigned i = 0; i < s->range.size; i++)
        ask.address[i] = s->range.address[i];
    if (fd < 0)
        return fd;
    rc = CALL(SYS_write, fd, &ask, ask.head.nlmsg_len);
    rc = rc < 0 ? rc : CALL(SYS_read, fd, &answer, sizeof(answer));
    if (rc >= 0)
        rc = (size_t)rc < sizeof(answer.head) + sizeof(answer.error) ||
                     answer.head.nlmsg_type != NLMSG_ERROR
                 ? -EPROTO
                 : answer.error.error;
    (void)CALL(SYS_close, fd);
    return rc;
}

#if RAW_SHARES
static void walk_as_twin(void *arg);

static long make_twin(struct walk *w)
{
    /* One root and one current directory, so that the twin's names mean the same. Its
     * number is out of the way: programs begin to count at 2, had we a twin or not. */
    static const int32_t number = TWIN_PID;
    struct clone_args args = { .flags = CLONE_VM | CLONE_FILES | CLONE_FS,
                               .stack = (uint64_t)(uintptr_t)w->script->twin_stack,
                               .stack_size = RAW_STACK };

    if (w->script->own_pids) {
        args.set_tid = (uint64_t)(uintptr_t)&number;
        args.set_tid_size = 1;
    }
    w->twin_pid = raw_clone(&args, walk_as_twin, w);
    return w->twin_pid;
}
#else
static long make_twin(struct walk *w)
{
    (void)w;
    return -ENOSYS;
}
#endif

static void tell_twin(struct walk *w, uint32_t what)
{
    __atomic_store_n(&w->told, what, __ATOMIC_RELEASE);
    (void)CALL(SYS_futex, &w->told, FUTEX_WAKE_PRIVATE, 1, 0);
}

static long split(struct walk *w, const struct step *s)
{
    uint32_t leg = w->told;
    uint32_t at = (uint32_t)(s - w->script->steps) + 1;

    if (leg >= LEGS)
        return -EINVAL;
    w->leg_at[leg] = at;
    w->leg_end[leg] = at + s->count;
    tell_twin(w, leg + 1);
    return w->twin_pid ? 0 : make_twin(w);
}

/* If the twin failed it has said why. */
static long meet(struct walk *w)
{
    int status = 0;
    long rc = 0;

    tell_twin(w, w->told | LAST);
    rc = CALL(SYS_wait4, w->twin_pid, &status, WAIT_ALL, 0);
    return rc < 0 ? rc : status ? -ECANCELED : 0;
}

static long cut_bounding_set(uint64_t kept)
{
    long rc = 0;

    for (unsigned cap = 0; rc == 0 && cap < 64; cap++)
        if (!(kept >> cap & 1u))
            rc = CALL(SYS_prctl, PR_CAPBSET_DROP, cap, 0, 0, 0);
    return rc == -EINVAL ? 0 : rc; /* past the kernel's last capability */
}

/* The child gives up capabilities that no exec gives back. The bounding set would say
 * the same, at the price of new credentials for each capability; so it is left to the
 * programs, which lose theirs before their first instruction, unless the guest could
 * not help them. */
static long bound(const struct step *s)
{
    struct __user_cap_header_struct header = { _LINUX_CAPABILITY_VERSION_3, 0 };
    uint32_t low = (uint32_t)s->caps;
    uint32_t high = (uint32_t)(s->caps >> 32);
    const struct __user_cap_data_struct kept[2] = {
        { .effective = low, .permitted = low },
        { .effective = high, .permitted = high },
    };
    bool gives = s->flags & STEP_NEW_PRIVS;
    long rc = s->caps >> CAP_SETPCAP & 1u && !gives ? 0 : cut_bounding_set(s->caps);

    if (rc == 0)
        rc = CALL(SYS_capset, &header, kept);
    return rc < 0 || gives ? rc : CALL(SYS_prctl, PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
}

/* The parent put its control socket and the guest above all of these numbers. The guest
 * opens its own standard streams, so that none of ours stay. */
static long set_streams(const struct step *s)
{
    long rc = CALL(SYS_dup3, s->fd, SCRIPT_STREAM, 0);

    if (rc >= 0)
        rc = CALL(SYS_close_range, 0, SCRIPT_STREAM - 1, 0);
    return rc < 0 ? rc
                  : CALL(SYS_close_range, SCRIPT_STREAM + 1, ~0u, CLOSE_RANGE_CLOEXEC);
}

static long exec_guest(const struct step *s)
{
    const char *const argv[] = { s->exec.name ? s->exec.name : "guest", NULL };
    static const char *const nothing[] = { NULL };

    return CALL(SYS_execveat, s->exec.fd, "", argv, s->exec.env ? s->exec.env : nothing,
                AT_EMPTY_PATH);
}

/* Mounts and files: the new root. */
static long act_on_tree(struct walk *w, const struct step *s)
{
    switch (s->op) {
    case OP_MOUNT:
        return CALL(SYS_mount, s->mount.source, s->mount.target, s->mount.type,
                    s->mount.flags, s->mount.data);
    case OP_BIND:
        return bind_tree(s);
    case OP_OPEN:
        return keep(w, s->open.slot, open_judged(s));
    case OP_TREE:
        return keep(w, s->tree.slot,
                    clone_tree(fd_in(w, s->tree.slot), s->tree.attributes));
    case OP_ATTACH:
        return attach_inside(w, s);
    case OP_COVER:
        return cover(w, s);
    case OP_ATTR:
        return set_attributes(AT_FDCWD, s->attr.path, s->attr.attributes, false);
    case OP_SEAL:
        return seal_below(s);
    case OP_DETACH:
        return CALL(SYS_umount2, s->path, OLD_DETACH);
    case OP_OWN:
        return CALL(SYS_fchownat, AT_FDCWD, s->owner.path, s->owner.id, s->owner.id, 0);
    case OP_MKDIR:
        return CALL(SYS_mkdirat, AT_FDCWD, s->dir.path, s->dir.mode);
    case OP_SYMLINK:
        return CALL(SYS_symlinkat, s->link.to, AT_FDCWD, s->link.path);
    case OP_LINK:
        return CALL(SYS_linkat, AT_FDCWD, s->link.to, AT_FDCWD, s->link.path, 0);
    case OP_FILE:
        return make_file(s);
    case OP_COPY:
        return copy_file(s);
    case OP_CHDIR:
        return CALL(SYS_chdir, s->path);
    case OP_FCHDIR:
        return CALL(SYS_fchdir, fd_in(w, s->slot));
    case OP_PIVOT:
        return CALL(SYS_pivot_root, ".", ".");
    case OP_WRITE:
        return write_file(s);
    default:
        return -ENOSYS;
    }
}

static long act(struct walk *w, const struct step *s)
{
    switch (s->op) {
    case OP_CLOSE:
        return CALL(SYS_close, s->fd);
    case OP_LEASH:
        return s->fd < 0 ? 0 : CALL(SYS_close, s->fd);
    case OP_JOIN:
        return join(w, s);
    case OP_WAIT:
        return wait_for_parent(w, s);
    case OP_SET_IDS:
        return set_ids(s);
    case OP_PDEATH:
        return CALL(SYS_prctl, PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
    case OP_PRIVATE:
        return CALL(SYS_mount, 0, "/", 0, OLD_PRIVATE | OLD_REC, 0);
    case OP_HOSTNAME:
        return CALL(SYS_sethostname, s->name, length(s->name));
    case OP_LOOPBACK:
        return loopback(w, s);
    case OP_ROUTE:
        return add_route(s);
    case OP_SPLIT:
        return split(w, s);
    case OP_MEET:
        return meet(w);
    case OP_ENTER:
        return CALL(SYS_setns, fd_in(w, s->enter.slot), s->enter.space);
    case OP_UNSHARE:
        return CALL(SYS_unshare, s->spaces);
    case OP_KEYRING:
        return CALL(SYS_keyctl, KEYCTL_JOIN_SESSION_KEYRING, 0, 0, 0, 0);
    case OP_BOUND:
        return bound(s);
    case OP_STREAM:
        return set_streams(s);
    case OP_EXEC:
        return exec_guest(s);
    default:
        return act_on_tree(w, s);
    }
}

static bool forgiven(const struct step *s, long rc)
{
    return rc >= 0 || (rc == -EEXIST && (s->flags & STEP_EXIST_OK)) ||
           (rc == -ENOENT && (s->flags & STEP_MISSING_OK)) ||
           (rc == -EROFS && (s->flags & STEP_READ_ONLY_OK));
}

/* The kernel has it not, or not for us. Any other fault of an optional step is no
 * reason to go on without it. */
static bool is_want(int error)
{
    return error == EPERM || error == EACCES || error == EINVAL || error == ENODEV ||
           error == ENOSYS || error == EOPNOTSUPP || error == EDQUOT;
}

/* False: the walk is over. */
static bool take_step(struct walk *w, uint32_t i)
{
    const struct step *step = &w->script->steps[i];
    long rc = step->op == OP_GIVE ? give(w, step, i) : act(w, step);
    bool optional = (step->flags & STEP_OPTIONAL) && is_want((int)-rc);
    struct script_report report = { i, (int32_t)-rc, optional ? 1u : 0u };

    if (forgiven(step, rc))
        return true;
    (void)CALL(SYS_write, w->control_fd, &report, sizeof(report));
    return report.ongoing;
}

static _Noreturn void end(int status)
{
    for (;;)
        (void)CALL(SYS_exit_group, status);
}

#if RAW_SHARES
/* False: there is no such leg, and will be none. */
static bool wait_for_leg(struct walk *w, uint32_t leg)
{
    uint32_t told = __atomic_load_n(&w->told, __ATOMIC_ACQUIRE);

    while ((told & ~LAST) <= leg && !(told & LAST)) {
        (void)CALL(SYS_futex, &w->told, FUTEX_WAIT_PRIVATE, told, 0);
        told = __atomic_load_n(&w->told, __ATOMIC_ACQUIRE);
    }
    return (told & ~LAST) > leg;
}

static void walk_as_twin(void *arg)
{
    struct walk *w = arg;

    for (uint32_t leg = 0; wait_for_leg(w, leg); leg++) {
        for (uint32_t i = w->leg_at[leg]; i < w->leg_end[leg]; i++) {
            if (!take_step(w, i))
                end(1);
        }
    }
    end(0);
}
#endif

_Noreturn void child_run(const struct script *s, int control_fd)
{
    struct walk w = { .script = s, .control_fd = control_fd };
    uint32_t i = 0;

    for (size_t slot = 0; slot < SCRIPT_SLOTS; slot++)
        w.slots[slot] = -1;
    while (i < s->count && take_step(&w, i))
        i += s->steps[i].op == OP_SPLIT ? s->steps[i].count + 1 : 1;
    end(1);
}
