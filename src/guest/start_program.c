/* SPDX-License-Identifier: Apache-2.0 */

/* From fork to execve, in the child. Each step that cannot be done ends it with
 * a report on descriptor 3; nothing is skipped. */

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "guest/guest.h"

#define LISTEN_FD      4
#define DEFAULT_SEARCH "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
#define PATH_MAX_      4096
#define DEFAULT_SLACK  50000 /* nanoseconds, the kernel's own for a process */

static _Noreturn void child_report(int fd, enum exec_step step, int error)
{
    uint32_t report[2] = { (uint32_t)step, (uint32_t)(error ? error : EPERM) };

    (void)!write(fd, report, sizeof report); /* smaller than PIPE_BUF: atomic */
    _exit(127);
}

static _Noreturn void child_fail(enum exec_step step, int error)
{
    child_report(STATUS_FD, step, error);
}

static void child_try(enum exec_step step, int rc)
{
    if (rc < 0)
        child_fail(step, -rc);
}

static void child_stdio(const struct child_pipes *pipes)
{
    if (dup3(pipes->status, STATUS_FD, O_CLOEXEC) < 0)
        child_report(pipes->status, STEP_STDIO, errno);
    if ((pipes->in >= 0 && dup2(pipes->in, 0) < 0) || dup2(pipes->out, 1) < 0 ||
        dup2(pipes->err, 2) < 0)
        child_fail(STEP_STDIO, errno);
    if (pipes->listen >= 0 && pipes->listen != LISTEN_FD &&
        dup3(pipes->listen, LISTEN_FD, O_CLOEXEC) < 0)
        child_fail(STEP_STDIO, errno);
}

static void child_session(const struct guest *g)
{
    const struct sched_param usual = { 0 };
    sigset_t none;

    (void)sigemptyset(&none);
    if (setsid() < 0 || pthread_sigmask(SIG_SETMASK, &none, NULL) != 0)
        child_fail(STEP_SESSION, errno);
    if (g->stands_back && syscall(SYS_sched_setscheduler, 0, SCHED_OTHER, &usual) < 0)
        child_fail(STEP_SESSION, errno);
    (void)umask(022);
    (void)prctl(PR_SET_TIMERSLACK, DEFAULT_SLACK);
}

/* With the program's own ids, and refusing a place outside the root. */
static void child_cwd(const struct guest *g, const char *cwd)
{
    char here[PATH_MAX_];

    if ((!cwd || *cwd != '/') && chdir(g->jail.workdir ? g->jail.workdir : "/") < 0)
        child_fail(STEP_CWD, errno);
    if (cwd && chdir(cwd) < 0)
        child_fail(STEP_CWD, errno);
    if (syscall(SYS_getcwd, here, sizeof here) < 0)
        child_fail(STEP_CWD, errno);
    if (here[0] != '/') /* "(unreachable)", CVE-2024-21626 */
        child_fail(STEP_CWD, EXDEV);
}

/* Closes all descriptors from FIRST on. */
static void child_close_rest(int first)
{
    if (weaken("fds")) {
        for (int fd = first; fd < 64; fd++)
            (void)fcntl(fd, F_SETFD, 0);
        return;
    }
    if (syscall(SYS_close_range, first, ~0u, 0) == 0)
        return;
    if (errno != ENOSYS)
        child_fail(STEP_CHECK, errno);
    for (int fd = first; fd < 8192; fd++)
        (void)close(fd);
}

/* A guest that is not pid 1 cannot clean up when it is killed itself. */
static void child_die_with_guest(const struct guest *g)
{
    if (g->pid1)
        return;
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0 || getppid() != g->pid)
        child_fail(STEP_SESSION, ESRCH);
}

static void child_confine(const struct guest *g, const char *cwd, bool listens,
                          bool root)
{
    const struct jail *jail = &g->jail;

    if (g->users_fd >= 0)
        child_try(STEP_IDS, users_enter(g->users_fd));
    child_try(STEP_RLIMIT, confine_rlimits(g));
    if (jail->flags & (JAIL_DROP_CAPS | JAIL_ROOT_CAPS))
        child_try(STEP_CAPS, confine_bounding(jail)); /* while the ids still let us */
    if ((jail->flags & JAIL_SET_IDS) || root)
        child_try(STEP_IDS, confine_ids(g, root));
    if (jail->flags & (JAIL_DROP_CAPS | JAIL_ROOT_CAPS))
        child_try(STEP_CAPS, confine_caps(jail, root));
    child_die_with_guest(g); /* a change of ids would clear it */
    child_cwd(g, cwd);
    if ((jail->flags & JAIL_NO_NEW_PRIVS) && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
        child_fail(STEP_PRIVS, errno);
    if (jail->flags & JAIL_LANDLOCK)
        child_try(STEP_LANDLOCK, landlock_apply(g->landlock_fd));
    child_close_rest(STATUS_FD + 1 + listens);
    child_try(STEP_CHECK, confine_check(jail));
    if ((jail->flags & JAIL_FIXED_ADDRESSES) && personality(ADDR_NO_RANDOMIZE) < 0)
        child_fail(STEP_ADDRESSES, errno);
    /* Last, so that a profile need not allow anything above. */
    if (jail->flags & JAIL_SECCOMP)
        child_try(STEP_SECCOMP, confine_seccomp(g, listens ? LISTEN_FD : -1));
}

void child_enter(const struct guest *g, const char *cwd)
{
    child_session(g);
    child_confine(g, cwd, false, false);
}

static const char *child_search_path(char *const *env)
{
    for (size_t i = 0; env[i]; i++)
        if (strncmp(env[i], "PATH=", 5) == 0)
            return env[i] + 5;
    return DEFAULT_SEARCH;
}

/* Not what a missing file says: a filter may forbid to look. */
static bool is_refused(int error)
{
    return error != ENOENT && error != ENOTDIR && error != EACCES;
}

/* In the directory that the LEN bytes at DIR name. Returns 0 when the program is not
 * there, else why it cannot be run (ENOENT: its interpreter is missing). */
static int child_try_in(const char *dir, size_t len, const struct exec_message *m,
                        bool looks)
{
    size_t name_len = strlen(m->argv[0]);
    char path[PATH_MAX_];
    bool seen;

    if (!len || len + 1 + name_len >= sizeof path)
        return 0;
    memcpy(path, dir, len);
    path[len] = '/';
    memcpy(path + len + 1, m->argv[0], name_len + 1);
    seen = looks && access(path, F_OK) == 0; /* costs less than trying */
    if (looks && !seen && !is_refused(errno))
        return 0;
    (void)execve(path, m->argv, m->env);
    return !seen && errno == ENOENT ? 0 : errno;
}

/* Tries each directory. Returns 0 when the program is nowhere, else why the first
 * that is there cannot be run. */
static int child_search(const struct exec_message *m, bool looks)
{
    const char *at = child_search_path(m->env);
    int first = 0;

    for (;;) {
        size_t len = strcspn(at, ":");
        int error = child_try_in(at, len, m, looks);

        first = first ? first : error;
        if (!at[len])
            return first;
        at += len + 1;
    }
}

/* Where programs may not change modes by path, linkers leave behind what cannot
 * be executed. With the program's own powers, and by descriptor, as it could. */
static void child_make_executable(const char *path)
{
    int fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    struct stat st;

    if (fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode))
        (void)fchmod(fd, (st.st_mode & 0777) | S_IXUSR);
    if (fd >= 0)
        (void)close(fd);
}

/* Only where it LOOKS may it make calls that a filter could ask the guest about: the
 * guest waits for us here. */
static _Noreturn void child_exec(const struct guest *g, const struct exec_message *m,
                                 bool looks)
{
    int error;

    if (strchr(m->argv[0], '/')) {
        (void)execve(m->argv[0], m->argv, m->env);
        error = errno;
        if (looks && error == EACCES && (g->jail.flags & JAIL_LANDLOCK_NET)) {
            child_make_executable(m->argv[0]);
            (void)execve(m->argv[0], m->argv, m->env);
            error = errno;
        }
        if (error == ENOENT && (!looks || access(m->argv[0], F_OK) < 0))
            error = 0;
    } else {
        error = *m->argv[0] ? child_search(m, looks) : 0;
    }
    child_fail(error ? STEP_EXEC : STEP_FIND, error ? error : ENOENT);
}

void child_prepare(const struct guest *g, const struct exec_message *m,
                   const struct child_pipes *pipes)
{
    child_stdio(pipes);
    child_session(g);
    if (setrlimit(RLIMIT_SIGPENDING, &g->pending) < 0) /* the jail may say less */
        child_fail(STEP_RLIMIT, errno);
    if (m->terminal && ioctl(0, TIOCSCTTY, 0) < 0)
        child_fail(STEP_SESSION, errno);
    /* A process that forks twice and leaves its session becomes the program's child,
     * not the guest's. So it is found there when the program's time is over. */
    if (m->apart && prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) < 0)
        child_fail(STEP_SESSION, errno);
    child_confine(g, m->cwd, pipes->listen >= 0, pipes->root);
}

_Noreturn void child_run(const struct guest *g, const struct exec_message *m,
                         const struct child_pipes *pipes)
{
    struct exec_message shown = *m;

    if (weaken("env"))
        shown.env = environ;
    child_prepare(g, m, pipes);
    child_exec(g, &shown, pipes->listen < 0);
}
