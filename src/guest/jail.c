/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <signal.h>
#include <sys/fsuid.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "guest/guest.h"

#define CAP(name) (UINT64_C(1) << CAP_##name)

/* The capabilities that starting and ending programs takes. SYS_PTRACE: to see the
 * processes in a /proc that hides others'. */
#define KEPT_CAPS                                                                      \
    (CAP(SETUID) | CAP(SETGID) | CAP(SETPCAP) | CAP(KILL) | CAP(SYS_PTRACE))

/* From now on the guest touches files with the rights of its programs, and what
 * it makes is theirs. */
static void take_file_ids(struct guest *g)
{
    if (!(g->jail.flags & JAIL_SET_IDS))
        return;
    if (g->has_groups)
        (void)setgroups(0, NULL); /* judged in the child, where it counts */
    (void)setfsgid(g->jail.gid);
    (void)setfsuid(g->jail.uid);
    if (setfsgid((gid_t)-1) != (int)g->jail.gid ||
        setfsuid((uid_t)-1) != (int)g->jail.uid)
        guest_end(g, 1);
}

static void take_place(struct guest *g)
{
    g->pid1 = g->jail.flags & JAIL_PID1;
    /* Believing it wrongly would make kill(-1) reach everyone else. */
    if (g->pid1 && g->pid != 1)
        guest_end(g, 1);
    if (!g->pid1 && prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) < 0)
        guest_end(g, 1);
}

/* With a pid namespace its programs die with it. Without, it must live to kill
 * them: it is told by a signal that it reads. */
static void follow_parent(struct guest *g)
{
    if (g->jail.flags & JAIL_DIE_WITH_PARENT)
        (void)prctl(PR_SET_PDEATHSIG, g->pid1 ? SIGKILL : SIGTERM);
}

/* Programs get these, and an empty mask. */
static void reset_signals(void)
{
    /* The kernel's own struct, all zero: SIG_DFL. libc would refuse the signals it
     * keeps for itself, which whoever started us may have left ignored. */
    static const uint64_t standard[8];

    for (int i = 1; i < _NSIG; i++)
        if (i != SIGKILL && i != SIGSTOP)
            (void)syscall(SYS_rt_sigaction, i, standard, NULL, _NSIG / 8);
}

void jail_prepare(struct guest *g)
{
    if (g->prepared)
        return;
    g->prepared = true;
    reset_signals();
    denied_prepare(g);
    if (g->jail.flags & JAIL_OWN_USERS)
        g->users_fd = users_make(g);
    if (!(g->jail.flags & JAIL_LANDLOCK))
        return;
    /* An adopted program has run, and may have changed what the paths name. */
    g->landlock_fd = g->adopted_ran ? -ESTALE : landlock_build(&g->jail);
    g->landlock_error = g->landlock_fd < 0 ? -g->landlock_fd : 0;
}

uint64_t jail_rlimit(const struct guest *g, uint32_t resource)
{
    for (uint32_t i = 0; i < g->jail.rlimit_count; i++)
        if (g->jail.rlimits[i].resource == resource)
            return g->jail.rlimits[i].value;
    return UINT64_MAX;
}

void jail_enter(struct guest *g)
{
    take_place(g);
    if (g->jail.workdir)
        g->workdir_fd =
            openat(AT_FDCWD, g->jail.workdir, O_PATH | O_DIRECTORY | O_CLOEXEC);
    limit_watch_open(g);
    if (!(g->jail.flags & JAIL_AWAITS))
        jail_prepare(g);
    take_file_ids(g);
    limit_watch_notify(g);
    if (g->pid1 && (g->jail.flags & JAIL_SET_IDS) &&
        !(g->jail.flags & JAIL_ROOT_CAPS) && confine_keep_caps(KEPT_CAPS) < 0)
        guest_end(g, 1);
    /* Changed credentials clear both. */
    (void)prctl(PR_SET_DUMPABLE, weaken("dump") ? 1 : 0, 0, 0, 0);
    follow_parent(g);
}
