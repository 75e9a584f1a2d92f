/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The library that makes a python a zygote. It is loaded before python's own, goes
 * where it is told before python's first instruction, and waits where python opens
 * its program: the interpreter is complete then, and has not looked at anything of
 * the program yet. Each child returns from that very call, in a vessel, as if it
 * had been started there; all that follows is python's own.
 *
 * Or it is loaded into a python that is in its vessel already, for one program
 * (engine/pool/prestart.c): that is told what to do by its stdin, forks nothing but
 * rehearsals, and has no more rights than any program there.
 */

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/prctl.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "wire/message.h"
#include "zygote/fork_into.h"
#include "zygote/memory.h"
#include "zygote/python.h"
#include "zygote/rehearse.h"
#include "zygote/shortcuts.h"
#include "zygote/zygote.h"

#define PROC_FD   6 /* the host's, until all is learned */
#define PARTS_MAX 8 /* of a library, as the linker maps it */

/* Fields of /proc/PID/stat, as proc(5) counts them. */
enum {
    START_CODE = 26,
    END_CODE,
    START_STACK,
    START_DATA = 45,
    END_DATA,
    START_BRK,
    ARG_START,
    ARG_END,
    ENV_START,
    ENV_END,
    LAST = ENV_END
};

static int read_stat(uint64_t *fields)
{
    char text[2048];
    int fd = open("/proc/self/stat", O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
    char *at = NULL;

    if (fd >= 0)
        (void)close(fd);
    text[n > 0 ? n : 0] = 0;
    at = strrchr(text, ')'); /* the name before it may hold anything */
    if (!at || strlen(at) < 4)
        return -1;
    at += 3; /* past the state, which is the third field and a letter */
    for (int i = 4; i <= LAST; i++)
        fields[i] = strtoull(at, &at, 10);
    return fields[ENV_END] ? 0 : -1;
}

/* Lets /proc/self/environ end before the string at END, where the kernel allows it:
 * a started interpreter's would not show how this one was started. All bounds are set
 * at once, since only that needs no privilege. */
static void environ_cut(const char *end)
{
    uint64_t f[LAST + 1] = { 0 };
    struct prctl_mm_map map = { .exe_fd = (uint32_t)-1 };

    if (read_stat(f) < 0)
        return;
    map.start_code = f[START_CODE];
    map.end_code = f[END_CODE];
    map.start_data = f[START_DATA];
    map.end_data = f[END_DATA];
    map.start_brk = f[START_BRK];
    map.brk = (uint64_t)(uintptr_t)sbrk(0);
    map.start_stack = f[START_STACK];
    map.arg_start = f[ARG_START];
    map.arg_end = f[ARG_END];
    map.env_start = f[ENV_START];
    map.env_end = (uint64_t)(uintptr_t)end;
    (void)prctl(PR_SET_MM, PR_SET_MM_MAP, &map, sizeof map, 0);
}

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

/* Puts a copy in the place of what is mapped from START to END, with the same rights.
 */
static void copy_over(uintptr_t start, uintptr_t end, const char *rights)
{
    size_t len = end - start;
    int prot = (rights[0] == 'r' ? PROT_READ : 0) |
               (rights[1] == 'w' ? PROT_WRITE : 0) | (rights[2] == 'x' ? PROT_EXEC : 0);
    void *at =
        (void *)start; /* NOLINT(performance-no-int-to-ptr): the kernel's words */
    void *copy =
        mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (copy == MAP_FAILED)
        die("copy itself");
    memcpy(copy, at, len);
    if (mprotect(copy, len, prot) < 0 ||
        mremap(copy, len, len, MREMAP_MAYMOVE | MREMAP_FIXED, at) != at)
        die("copy itself");
}

/* The file that this was loaded from lies on the disk that the program's limit is for,
 * and is gone: nothing may hold it. */
static void leave_file(const char *library)
{
    struct {
        uintptr_t start, end;
        char rights[5];
    } found[PARTS_MAX];
    size_t count = 0;
    char line[512];
    FILE *maps = fopen("/proc/self/maps", "re");

    while (maps && count < PARTS_MAX && fgets(line, sizeof line, maps)) {
        char *rest = NULL;

        if (!strstr(line, library))
            continue;
        found[count].start = strtoull(line, &rest, 16);
        found[count].end = *rest == '-' ? strtoull(rest + 1, &rest, 16) : 0;
        if (strlen(rest) > 4 && memcpy(found[count].rights, rest + 1, 4))
            count++;
    }
    if (!maps || fclose(maps) < 0)
        die("look at itself");
    for (size_t i = 0; i < count; i++)
        if (found[i].rights[0] == 'r') /* else there is nothing to it */
            copy_over(found[i].start, found[i].end, found[i].rights);
}

/* Its stdin says what to run, and python is to find none as it starts. What it was
 * loaded from was put there for that alone. */
static void in_vessel_begin(const char *library)
{
    if (dup3(0, ZYGOTE_FD, O_CLOEXEC) < 0 || close(0) < 0 ||
        open("/dev/null", O_RDWR) != 0) /* NOLINT: stdin */
        die("take its place");
    leave_file(library);
    if (unlink(library) < 0)
        die("remove its file");
}

/* Before python, and before there is any thread. */
__attribute__((constructor)) static void start(void)
{
    char *preload = getenv("LD_PRELOAD"); /* NOLINT(concurrency-mt-unsafe) */

    if (!preload)
        return;
    environ_cut(preload - strlen("LD_PRELOAD=")); /* the driver put it last */
    if (fcntl(ZYGOTE_FD, F_GETFD) < 0) { /* no driver: it is in its vessel already */
        in_vessel_begin(preload);
        (void)unsetenv("LD_PRELOAD"); /* NOLINT(concurrency-mt-unsafe) */
        return;
    }
    (void)unsetenv("LD_PRELOAD"); /* NOLINT(concurrency-mt-unsafe) */
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

static ssize_t read_all(void *to, size_t len)
{
    uint8_t *at = to;

    for (size_t have = 0; have < len;) {
        ssize_t n = read(ZYGOTE_FD, at + have, len - have);

        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return -1;
        have += (size_t)n;
    }
    return (ssize_t)len;
}

/* In a vessel: bytes with their number before them; -1 at the end. */
static ssize_t hear(uint8_t *bytes, size_t size)
{
    uint8_t n[4];
    size_t len = 0;

    if (read_all(n, sizeof n) < 0)
        return -1;
    len = n[0] | (size_t)n[1] << 8 | (size_t)n[2] << 16 | (size_t)n[3] << 24;
    return len <= size ? read_all(bytes, len) : -1;
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

/* In a vessel: the host sends what to run, when all its files are there. */
static void become_program_here(struct python *py, uint8_t *bytes)
{
    struct unpack u = { .data = bytes };
    struct exec_message m;
    ssize_t n = hear(bytes, ZYGOTE_MAX);

    u.len = n > 0 ? (size_t)n : 0;
    if (n <= 0 || exec_read(&u, &m) < 0)
        python_die();
    if (!m.stdin_closed && dup2(ZYGOTE_FD, 0) < 0)
        python_die();
    (void)close(ZYGOTE_FD);
    python_begin(py, &m);
    if (python_is_shadowed(py))
        python_start_over(&m);
    py->message = NULL;
    exec_done(&m);
}

/* Rehearses with the shortcuts of a program's end, and leaves out those that do not
 * hold. A python that does not work without them is no zygote. */
static void prepare(struct python *py, struct pages *pages)
{
    const unsigned wanted = py->shortcuts;

    if (py->rehearsed)
        return;
    py->shortcuts = wanted & ~(unsigned)SHORTCUTS_OF_END;
    if (!rehearse_holds(py, py->shortcuts))
        die("rehearse a program");
    for (unsigned shortcut = 1; shortcut < SHORTCUTS_ALL; shortcut <<= 1)
        if (shortcut & wanted & SHORTCUTS_OF_END &&
            rehearse_holds(py, py->shortcuts | shortcut))
            py->shortcuts |= shortcut;
    if (wanted & SHORTCUT_PAGES)
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
        rc = fork_into_vessel(&order);
        if (rc == 0) {
            python_in_child(py);
            fork_into_ready();
            become_program(py, bytes);
            return;
        }
        close_all(fds, order.fd_count);
    }
}

typedef FILE *open_fn(const char *path, const char *mode);

/* To the host, which takes it away: that it waits, and what it would have the next
 * one of its kind told, so that this need not rehearse. */
static void tell_up(const struct python *py)
{
    char said[ZYGOTE_SAID];
    int n = snprintf(said, sizeof said, "%c%u %lx", 0, py->shortcuts, py->version);

    if (n < 0 || write(1, said, (size_t)n) != n)
        die("speak to the host");
}

/* All its memory is made here, once, and stays. */
static void serve(open_fn *real_open, bool in_vessel)
{
    uint8_t *bytes = calloc(1, ZYGOTE_MAX);
    struct pages *pages = calloc(1, sizeof *pages);
    struct python *py = calloc(1, sizeof *py);
    int fds[ZYGOTE_FDS];
    size_t count = 0;
    ssize_t n = -1;

    if (!bytes || !pages || !py)
        _exit(0);
    n = in_vessel ? hear(bytes, ZYGOTE_MAX - 1)
                  : receive(ZYGOTE_FD, bytes, ZYGOTE_MAX - 1, fds, &count);
    if (n <= 0)
        _exit(0);
    bytes[n] = 0;
    if (python_open(py, (const char *)bytes) < 0)
        die("find python's own functions");
    prepare(py, pages);
    if (in_vessel) {
        tell_up(py);
        become_program_here(py, bytes);
    } else {
        (void)close(PROC_FD);
        if (write(ZYGOTE_FD, py->missing, strlen(py->missing) + 1) < 0)
            die("speak to the driver");
        wait_for_orders(py, bytes, pages);
    }
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
        struct stat control;

        served = true;
        serve(real, fstat(ZYGOTE_FD, &control) < 0 || !S_ISSOCK(control.st_mode));
    }
    return real(path, mode);
}
