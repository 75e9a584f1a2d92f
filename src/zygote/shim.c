/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The library that makes a python a zygote. It is loaded before python's own, goes
 * where it is told before python's first instruction, and waits where python opens
 * its program: the interpreter is complete then, and has not looked at anything of
 * the program yet. Each child returns from that very call, in a vessel, as if it
 * had been started there; all that follows is python's own.
 */

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "wire/message.h"
#include "zygote/environ.h"
#include "zygote/hatch.h"
#include "zygote/pages.h"
#include "zygote/python.h"
#include "zygote/rehearse.h"
#include "zygote/tricks.h"
#include "zygote/zygote.h"

#define PROC_FD 6 /* the host's, until all is learned */

static _Noreturn void die(const char *what)
{
    (void)dprintf(2, "zygote: %s: %s\n", what, strerror(errno)); /* NOLINT */
    _exit(1);
}

static void drop_power(void)
{
    struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
    const struct __user_cap_data_struct none[2] = { { 0 }, { 0 } };

    for (unsigned long cap = 0; cap < 64; cap++)
        if (prctl(PR_CAPBSET_READ, cap, 0, 0, 0) == 1)
            (void)prctl(PR_CAPBSET_DROP, cap, 0, 0, 0);
    (void)prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
    if (syscall(SYS_capset, &header, none) < 0 ||
        prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ||
        prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0)
        die("drop capabilities");
}

static void hold_proc(void)
{
    int fd = open("/proc", O_PATH | O_DIRECTORY | O_CLOEXEC);

    if (fd >= 0 && fd != PROC_FD) {
        (void)dup3(fd, PROC_FD, O_CLOEXEC);
        (void)close(fd);
    }
}

/* Before python, and before there is any thread. */
__attribute__((constructor)) static void start(void)
{
    char *preload = getenv("LD_PRELOAD"); /* NOLINT(concurrency-mt-unsafe) */

    if (!preload)
        return;
    environ_cut(preload - strlen("LD_PRELOAD=")); /* the driver put it last */
    (void)unsetenv("LD_PRELOAD");                 /* NOLINT(concurrency-mt-unsafe) */
    hold_proc();
    if (fcntl(ZYGOTE_PLACE_FD, F_GETFD) >= 0) {
        if (setns(ZYGOTE_PLACE_FD,
                  CLONE_NEWNS | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS) < 0)
            die("enter the template vessel");
        (void)close(ZYGOTE_PLACE_FD);
    }
    if (chdir("/") < 0)
        die("enter the root");
    (void)fcntl(ZYGOTE_FD, F_SETFD, FD_CLOEXEC);
    (void)fcntl(ZYGOTE_LEASH_FD, F_SETFD, FD_CLOEXEC);
    drop_power();
}

/* A message and the descriptors with it; -1 at the end. */
static ssize_t receive(int fd, void *data, size_t size, int *fds, size_t *count)
{
    _Alignas(struct cmsghdr) char room[CMSG_SPACE(sizeof(int) * ZYGOTE_FDS)];
    struct iovec iov = { data, size };
    struct msghdr message = { .msg_iov = &iov,
                              .msg_iovlen = 1,
                              .msg_control = room,
                              .msg_controllen = sizeof room };
    const struct cmsghdr *c = NULL;
    ssize_t n = 0;

    do
        n = recvmsg(fd, &message, MSG_CMSG_CLOEXEC);
    while (n < 0 && errno == EINTR);
    *count = 0;
    c = n < 0 ? NULL : CMSG_FIRSTHDR(&message);
    if (c && c->cmsg_type == SCM_RIGHTS) {
        *count = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        memcpy(fds, CMSG_DATA(c), *count * sizeof(int));
    }
    return n;
}

static void rename_fd(int fd, int to)
{
    if (dup2(fd, to) < 0)
        python_die();
    (void)close(fd);
}

/* With what there is for it: output, stdin, and where to say that this went wrong. */
static void take_place(const struct exec_message *m, const int *fds, size_t count)
{
    size_t last = m->stdin_closed ? 2 : 3;
    uint32_t report[2] = { STEP_CWD };

    if (count != last + (m->cwd ? 1 : 0))
        python_die();
    rename_fd(fds[0], 1);
    rename_fd(fds[1], 2);
    if (!m->stdin_closed)
        rename_fd(fds[2], 0);
    if (!m->cwd)
        return;
    if (chdir(m->cwd) < 0) {
        report[1] = (uint32_t)errno;
        (void)!write(fds[last], report, sizeof report);
        python_die();
    }
    (void)close(fds[last]);
}

/* In the child: the guest sends what to run. */
static void become_program(struct python *py, uint8_t *bytes)
{
    struct unpack u = { .data = bytes };
    struct exec_message m;
    int fds[ZYGOTE_FDS];
    size_t count = 0;
    ssize_t n = receive(ZYGOTE_FD, bytes, ZYGOTE_MAX, fds, &count);

    u.len = n > 0 ? (size_t)n : 0;
    if (n <= 0 || exec_read(&u, &m) < 0)
        python_die();
    take_place(&m, fds, count);
    python_begin(py, &m);
    /* Its files are there when the guest says so. */
    if (receive(ZYGOTE_FD, bytes, ZYGOTE_MAX, fds, &count) <= 0)
        python_die();
    if (python_is_shadowed(py))
        python_start_over(&m);
    py->message = NULL;
    exec_done(&m);
    (void)close(ZYGOTE_FD);
}

/* What can be tried is tried, and what is left out is not missed; a python that cannot
 * do without is no zygote. */
static void prepare(struct python *py, struct pages *pages)
{
    const unsigned wanted = py->tricks;

    py->tricks = wanted & ~(unsigned)TRICKS_OF_END;
    if (!rehearse_holds(py, py->tricks))
        die("rehearse a program");
    for (unsigned trick = 1; trick < TRICKS_ALL; trick <<= 1)
        if (trick & wanted & TRICKS_OF_END && rehearse_holds(py, py->tricks | trick))
            py->tricks |= trick;
    if (wanted & TRICK_PAGES)
        rehearse_pages(py, pages, PROC_FD);
}

static void close_all(const int *fds, size_t count)
{
    for (size_t i = 0; i < count; i++)
        (void)close(fds[i]);
}

/* Returns in a child that has its program. The zygote itself ends here. */
static void wait_for_orders(struct python *py, uint8_t *bytes,
                            const struct pages *pages)
{
    python_before_fork(py); /* once for all: it does nothing else any more */
    for (;;) {
        int fds[ZYGOTE_FDS];
        struct order order = { .jail = bytes, .fds = fds, .pages = pages };
        ssize_t n = receive(ZYGOTE_FD, bytes, ZYGOTE_MAX, fds, &order.fd_count);
        int rc = 0;

        if (n <= 0 || order.fd_count < ORDER_CGROUPS)
            _exit(0);
        order.jail_len = (size_t)n;
        rc = hatch(&order);
        if (rc == 0) {
            python_hatched(py);
            hatch_ready();
            become_program(py, bytes);
            return;
        }
        close_all(fds, order.fd_count);
    }
}

typedef FILE *open_fn(const char *path, const char *mode);

/* All its memory is made here, once, and stays. */
static void serve(open_fn *real_open)
{
    uint8_t *bytes = calloc(1, ZYGOTE_MAX);
    struct pages *pages = calloc(1, sizeof *pages);
    struct python *py = calloc(1, sizeof *py);
    int fds[ZYGOTE_FDS];
    size_t count = 0;
    ssize_t n = bytes ? receive(ZYGOTE_FD, bytes, ZYGOTE_MAX - 1, fds, &count) : 0;

    if (n <= 0 || !pages || !py)
        _exit(0);
    bytes[n] = 0;
    if (python_open(py, (const char *)bytes) < 0)
        die("find python's own functions");
    prepare(py, pages);
    (void)close(PROC_FD);
    if (write(ZYGOTE_FD, py->missing, strlen(py->missing) + 1) < 0)
        die("speak to the driver");
    wait_for_orders(py, bytes, pages);
    python_run(py, PROGRAM, real_open(PROGRAM, "rb"));
    python_close(py);
}

/* The one that python calls for its program; for the first time, that is. */
/* NOLINTNEXTLINE(readability-inconsistent-declaration-parameter-name): libc's own */
__attribute__((visibility("default"))) FILE *fopen64(const char *path, const char *mode)
{
    static bool served; /* the one thing that a process must remember */
    open_fn *real = NULL;

    *(void **)(void *)&real = dlsym(RTLD_NEXT, "fopen64");
    if (!served && strcmp(path, PROGRAM) == 0) {
        served = true;
        serve(real);
    }
    return real(path, mode);
}
