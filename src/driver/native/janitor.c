/* SPDX-License-Identifier: Apache-2.0 */
#include "driver/native/janitor.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/io.h"
#include "base/owner.h"
#include "base/sys.h"
#include "driver/native/cgroup.h"
#include "driver/native/raw.h"

/* The janitor's own descriptors, in this order from 0 on. */
enum { LEASH_FD, GUEST_FD, BASE_FD, FD_COUNT = BASE_FD + CGROUP_DIRS };

#define HIGH_FD     64     /* where they wait while they change places */
#define RETRY_NS    500000 /* between two attempts to remove a busy group */
#define DEATH_MS    10000  /* a killed namespace has long been emptied by then */
#define RETRY_COUNT (DEATH_MS * 1000000L / RETRY_NS)
#define ALL_SIGNALS 8    /* bytes of the kernel's set */
#define MEMBERS_MAX 4096 /* of a list of processes; the next try sees the rest */
#define LISTED_MAX  8192

/* It shares our memory, so it has a stack of its own here, uses nothing else of
 * ours, and makes system calls past libc. */
struct janitor_room {
    _Alignas(16) unsigned char stack[RAW_STACK];
    int fds[FD_COUNT];
    char name[sizeof(((struct cgroup *)0)->name)];
    bool for_all; /* every group whose name begins so */
};

#define ARG(x) ((long)(intptr_t)(x))

/* Output pipes above all: whoever reads them waits for their last writer. */
static bool keep_only(const int *fds)
{
    long high[FD_COUNT];

    for (int i = 0; i < FD_COUNT; i++)
        high[i] = fds[i] < 0
                      ? -1
                      : raw_call(SYS_fcntl, fds[i], F_DUPFD_CLOEXEC, HIGH_FD, 0, 0);
    for (int i = 0; i < FD_COUNT; i++) {
        if (high[i] < 0)
            (void)raw_call(SYS_close, i, 0, 0, 0, 0);
        else if (raw_call(SYS_dup3, high[i], i, 0, 0, 0) < 0)
            return false;
    }
    return raw_call(SYS_close_range, FD_COUNT, ~0u, 0, 0, 0) == 0;
}

/* The last holder of the other end is gone, or lets go. */
static void wait_for_leash(void)
{
    char byte;
    long n;

    do
        n = raw_call(SYS_read, LEASH_FD, ARG(&byte), 1, 0, 0);
    while (n > 0 || n == -EINTR);
}

/* Version 1: who is frozen does not die. Others have no such file. */
static void thaw(int base_fd, const char *name)
{
    static const char word[] = "THAWED";
    long dir = raw_call(SYS_openat, base_fd, ARG(name),
                        O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0, 0);
    long fd =
        raw_call(SYS_openat, dir, ARG("freezer.state"), O_WRONLY | O_CLOEXEC, 0, 0);

    (void)raw_call(SYS_write, fd, ARG(word), sizeof(word) - 1, 0, 0);
    (void)raw_call(SYS_close, fd, 0, 0, 0, 0);
    (void)raw_call(SYS_close, dir, 0, 0, 0, 0);
}

static bool remove_from(int base_fd, const char *name)
{
    return raw_call(SYS_unlinkat, base_fd, ARG(name), AT_REMOVEDIR, 0, 0) != -EBUSY;
}

static bool begins(const char *name, const char *with)
{
    while (*with && *name == *with) {
        name++;
        with++;
    }
    return !*with;
}

/* Lists the processes in the group open as DIR_FD, as text; "" when nobody is. */
static void list_members(long dir_fd, char text[MEMBERS_MAX])
{
    long fd =
        raw_call(SYS_openat, dir_fd, ARG("cgroup.procs"), O_RDONLY | O_CLOEXEC, 0, 0);
    long n = raw_call(SYS_read, fd, ARG(text), MEMBERS_MAX - 1, 0, 0);

    text[n > 0 ? n : 0] = '\0';
    (void)raw_call(SYS_close, fd, 0, 0, 0, 0);
}

/* The number at *AT, which goes behind its line; 0 at the end, which may have cut the
 * last one short. */
static long next_member(const char **at)
{
    long pid = 0;

    while (**at >= '0' && **at <= '9')
        pid = pid * 10 + *(*at)++ - '0';
    if (**at != '\n')
        return 0;
    (*at)++;
    return pid;
}

static bool is_member(long dir_fd, long pid)
{
    char text[MEMBERS_MAX];
    const char *at = text;
    long other = 0;

    list_members(dir_fd, text);
    while ((other = next_member(&at)) > 0 && other != pid)
        ;
    return other == pid;
}

/* A number alone may have become somebody else's. */
static void kill_members(int base_fd, const char *name)
{
    char text[MEMBERS_MAX];
    const char *at = text;
    long dir = raw_call(SYS_openat, base_fd, ARG(name),
                        O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0, 0);
    long pid = 0;

    list_members(dir, text);
    while ((pid = next_member(&at)) > 0) {
        long fd = raw_call(SYS_pidfd_open, pid, 0, 0, 0, 0);

        if (fd >= 0 && is_member(dir, pid))
            (void)raw_call(SYS_pidfd_send_signal, fd, SIGKILL, 0, 0, 0);
        (void)raw_call(SYS_close, fd, 0, 0, 0, 0);
    }
    (void)raw_call(SYS_close, dir, 0, 0, 0, 0);
}

/* True when it is gone; else whoever is in it will be soon. */
static bool clear(int base_fd, const char *name)
{
    bool gone = remove_from(base_fd, name);

    if (!gone) {
        kill_members(base_fd, name);
        thaw(base_fd, name);
    }
    return gone;
}

static bool remove_one(const char *name)
{
    bool gone = true;

    for (int i = 0; i < CGROUP_DIRS; i++)
        gone = clear(BASE_FD + i, name) && gone;
    return gone;
}

struct entry { /* the kernel's linux_dirent64 */
    uint64_t ino;
    int64_t next;
    uint16_t size;
    uint8_t type;
    char name[];
};

/* True when there was none. */
static bool remove_all_from(int base_fd, const char *prefix)
{
    _Alignas(struct entry) char bytes[LISTED_MAX];
    bool none = true;
    long n = 0;

    (void)raw_call(SYS_lseek, base_fd, 0, SEEK_SET, 0, 0);
    while ((n = raw_call(SYS_getdents64, base_fd, ARG(bytes), sizeof(bytes), 0, 0)) > 0)
        for (long at = 0; at < n;) {
            const struct entry *e = (const void *)(bytes + at);

            at += e->size;
            if (!begins(e->name, prefix))
                continue;
            none = false;
            (void)clear(base_fd, e->name);
        }
    return none;
}

static bool remove_all(const char *prefix)
{
    bool none = true;

    for (int i = 0; i < CGROUP_DIRS; i++)
        none = remove_all_from(BASE_FD + i, prefix) && none;
    return none;
}

/* A killed process may still be on its way out. */
static void remove_groups(bool remove(const char *name), const char *name)
{
    const struct timespec pause = { .tv_nsec = RETRY_NS };

    for (long tries = 0; tries < RETRY_COUNT && !remove(name); tries++)
        (void)raw_call(SYS_nanosleep, ARG(&pause), 0, 0, 0, 0);
}

static void wait_for_guest(void)
{
    struct pollfd guest = { .fd = GUEST_FD, .events = POLLIN };
    const struct timespec limit = { .tv_sec = DEATH_MS / 1000 };

    (void)raw_call(SYS_ppoll, ARG(&guest), 1, ARG(&limit), 0, ALL_SIGNALS);
}

/* Born with all signals blocked. */
static void run(void *arg)
{
    const struct janitor_room *room = arg;

    (void)raw_call(SYS_setsid, 0, 0, 0, 0, 0);
    (void)raw_call(SYS_prctl, PR_SET_NAME, ARG("vial-janitor"), 0, 0, 0);
    if (keep_only(room->fds) && raw_call(SYS_chdir, ARG("/"), 0, 0, 0, 0) == 0) {
        wait_for_leash();
        if (room->for_all) {
            remove_groups(remove_all, room->name);
        } else {
            (void)raw_call(SYS_pidfd_send_signal, GUEST_FD, SIGKILL, 0, 0, 0);
            thaw(BASE_FD + CGROUP_JOINED, room->name);
            wait_for_guest();
            remove_groups(remove_one, room->name);
        }
    }
    for (;;)
        (void)raw_call(SYS_exit_group, 0, 0, 0, 0, 0);
}

static void begin(struct janitor *out, const struct cgroup *c, int pidfd, bool for_all)
{
    struct clone_args args = { 0 }; /* no signal to anyone at its end */
    struct janitor_room *room = aligned_alloc(16, sizeof(*room));
    int leash[2];
    long pid = 0;

    *out = JANITOR_NONE;
    if (!room || pipe2(leash, O_CLOEXEC) < 0) {
        free(room);
        return;
    }
    room->fds[LEASH_FD] = leash[0];
    room->fds[GUEST_FD] = pidfd;
    for (int i = 0; i < CGROUP_DIRS; i++)
        room->fds[BASE_FD + i] = c->dirs[i].base_fd;
    memcpy(room->name, c->name, sizeof(room->name));
    room->for_all = for_all;
    pid = raw_spawn(&args, room->stack, run, room);
    (void)close(leash[0]);
    if (pid > 0) {
        *out =
            (struct janitor){ .leash_fd = leash[1], .pid = (pid_t)pid, .room = room };
        return;
    }
    (void)close(leash[1]);
    free(room);
}

void janitor_start(struct janitor *out, const struct cgroup *c, int pidfd)
{
    begin(out, c, pidfd, false);
}

void janitor_start_for_all(struct janitor *out, const struct cgroup *base)
{
    begin(out, base, -1, true);
}

void janitor_release(struct janitor *j)
{
    if (j->leash_fd >= 0)
        (void)close(j->leash_fd);
    *j = JANITOR_NONE; /* its room is lost to us: it still lives there */
}

void janitor_call_off(const struct janitor *j)
{
    if (j->leash_fd >= 0)
        (void)kill(j->pid, SIGKILL); /* not reaped yet, so the number is its own */
}

void janitor_dismiss(struct janitor *j)
{
    if (j->leash_fd < 0)
        return;
    janitor_call_off(j);
    while (waitpid(j->pid, NULL, __WALL) < 0 && errno == EINTR)
        ;
    (void)close(j->leash_fd);
    free(j->room);
    *j = JANITOR_NONE;
}

/* Whether PID is still in the group open as DIR_FD: a number alone may have
 * become somebody else's. */
static bool still_in(int dir_fd, long pid)
{
    char text[4096];
    char *save = NULL;

    if (io_read_at(dir_fd, "cgroup.procs", text, sizeof(text)) < 0)
        return false;
    for (char *line = strtok_r(text, "\n", &save); line;
         line = strtok_r(NULL, "\n", &save)) {
        if (strtol(line, NULL, 10) == pid)
            return true;
    }
    return false;
}

static void kill_left(int dir_fd)
{
    char text[4096];
    char *save = NULL;

    if (io_read_at(dir_fd, "cgroup.procs", text, sizeof(text)) < 0)
        return;
    for (char *line = strtok_r(text, "\n", &save); line;
         line = strtok_r(NULL, "\n", &save)) {
        long pid = strtol(line, NULL, 10);
        auto_fd int pidfd = pid > 1 ? sys_pidfd_open((pid_t)pid) : -1;

        if (pidfd >= 0 && still_in(dir_fd, pid))
            (void)sys_pidfd_kill(pidfd, SIGKILL);
    }
}

/* True when one went: of several hierarchies, the first that is looked at takes the
 * others along. */
static bool remove_leftover(const struct cgroup *like, const char *name)
{
    bool gone = false;

    for (size_t i = CGROUP_DIRS; i-- > 0;) {
        int base = like->dirs[i].base_fd;
        auto_fd int fd =
            base < 0 ? -1 : openat(base, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

        if (fd < 0)
            continue;
        if (unlinkat(base, name, AT_REMOVEDIR) == 0) {
            gone = true;
            continue;
        }
        kill_left(fd);
        (void)io_write_at(fd, "freezer.state", "THAWED");
        gone |= unlinkat(base, name, AT_REMOVEDIR) == 0;
    }
    return gone;
}

/* Of an owner in another pid namespace, which ended as a whole, its janitor with it.
 * Whoever may be in it still is not ours to judge: then it is not removed either. */
static bool remove_abandoned(const struct cgroup *like, const char *name)
{
    bool gone = false;

    for (size_t i = CGROUP_DIRS; i-- > 0;) {
        int base = like->dirs[i].base_fd;

        if (base >= 0 && owner_has_left(base, name))
            gone |= unlinkat(base, name, AT_REMOVEDIR) == 0;
    }
    return gone;
}

static unsigned sweep_dir(const struct cgroup *like, int fd, unsigned max)
{
    DIR *dir = fd < 0 ? NULL : fdopendir(openat(fd, ".", O_RDONLY | O_CLOEXEC));
    const struct dirent *entry = NULL;
    unsigned gone = 0;
    char mine[32];

    (void)snprintf(mine, sizeof(mine), "-%d-", (int)getpid());
    /* readdir is safe here: nobody else has this stream. */
    while (dir && max && (entry = readdir(dir))) { /* NOLINT(concurrency-mt-unsafe) */
        if (strncmp(entry->d_name, "vial-", 5) != 0 || strstr(entry->d_name, mine))
            continue;
        max--;
        if (owner_is_dead(entry->d_name))
            gone += remove_leftover(like, entry->d_name);
        else if (owner_has_left(fd, entry->d_name))
            gone += remove_abandoned(like, entry->d_name);
    }
    if (dir)
        (void)closedir(dir);
    return gone;
}

unsigned cgroup_sweep(const struct cgroup *like, unsigned max)
{
    unsigned gone = 0;
    size_t turn = (size_t)getpid() % CGROUP_DIRS;

    for (size_t i = 0; i < CGROUP_DIRS; i++) {
        if (max == ~0u || i == turn)
            gone += sweep_dir(like, like->dirs[i].base_fd, max);
    }
    return gone;
}
