/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "guest/guest.h"

#define STREAM_FD 3

uint64_t now_ns(void)
{
    struct timespec t;

    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

_Noreturn void guest_end(struct guest *g, int code)
{
    kill_tree_all(g);
    _exit(code);
}

/* Descriptors 0 to 2 lead nowhere, so that nothing of the host's is held and no
 * pipe can take their numbers. */
static void fill_stdio(void)
{
    int fd = openat(AT_FDCWD, "/dev/null", O_RDWR | O_CLOEXEC);

    if (fd < 0)
        fd = open("/", O_PATH | O_CLOEXEC);
    if (fd < 0)
        _exit(1);
    for (int i = 0; i < 3; i++)
        if (fd != i && dup2(fd, i) < 0)
            _exit(1);
    if (fd > 2)
        (void)close(fd);
    else
        (void)fcntl(fd, F_SETFD, 0);
}

static void close_from(unsigned first)
{
    if (syscall(SYS_close_range, first, ~0u, 0) == 0)
        return;
    for (int fd = (int)first; fd < 8192; fd++)
        (void)close(fd);
}

/* A socket of the host's that is shown to us, so that nothing stands in between. */
static bool take_line(const char *path)
{
    struct sockaddr_un to = { .sun_family = AF_UNIX };
    int fd = -1;

    if (strlen(path) >= sizeof to.sun_path)
        return false;
    (void)strcpy(to.sun_path, path);
    fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || connect(fd, (struct sockaddr *)&to, sizeof to) < 0) {
        if (fd >= 0)
            (void)close(fd);
        return false;
    }
    if (fd == STREAM_FD)
        return true;
    return dup3(fd, STREAM_FD, O_CLOEXEC) == STREAM_FD;
}

/* How the stream comes to us. */
enum way {
    BY_STREAM,
    BY_STDIO,
    BY_ATTACHED /* a node ends it once our standard error is closed */
};

/* The stream ends up as 3 (and 4), whichever way it came. */
static void take_stream(struct guest *g, enum way way)
{
    if (way == BY_STREAM) {
        g->in_fd = g->out_fd = STREAM_FD;
    } else {
        g->in_fd = dup3(0, STREAM_FD, O_CLOEXEC);
        g->out_fd = dup3(1, STREAM_FD + 1, O_CLOEXEC);
    }
    if (g->in_fd < 0 || g->out_fd < 0 || fcntl(STREAM_FD, F_SETFD, FD_CLOEXEC) < 0 ||
        (way == BY_ATTACHED && dup3(2, STREAM_FD + 2, O_CLOEXEC) < 0))
        _exit(1);
    close_from(STREAM_FD + 1 + (unsigned)way);
    fill_stdio();
    for (int fd = g->in_fd; fd <= g->out_fd; fd++)
        (void)fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
}

/* The signals that we read are kept all the same. Where programs have our uid, they
 * could queue others until the user's share is full, which counts on the whole host. */
static void refuse_queued_signals(struct guest *g)
{
    struct rlimit none;

    if (getrlimit(RLIMIT_SIGPENDING, &g->pending) < 0)
        _exit(1);
    none = (struct rlimit){ 0, g->pending.rlim_max };
    if (setrlimit(RLIMIT_SIGPENDING, &none) < 0)
        _exit(1);
}

/* All signals wait: none can end or interrupt the guest, whatever whoever started us
 * made of them; but the dead are not to be told of where SIGCHLD is ignored. */
static void take_signals(struct guest *g)
{
    sigset_t all, read;

    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, NULL);
    (void)signal(SIGCHLD, SIG_DFL);
    (void)sigemptyset(&read);
    (void)sigaddset(&read, SIGCHLD);
    (void)sigaddset(&read, SIGTERM);
    g->signal_fd = signalfd(-1, &read, SFD_CLOEXEC | SFD_NONBLOCK);
    if (g->signal_fd < 0)
        _exit(1);
    refuse_queued_signals(g);
}

/* Opens the files of /proc that only a dumpable process may open, before we stop being
 * one. */
static void take_proc(struct guest *g)
{
    ssize_t n = -1;

    g->has_groups = getgroups(0, NULL) != 0;
    g->setgroups_denied = g->has_groups && confine_denies_groups();
    g->oom_fd = openat(AT_FDCWD, "/proc/self/oom_score_adj", O_RDWR | O_CLOEXEC);
    if (g->oom_fd < 0 && errno != ENOENT) /* no /proc, no way to ask */
        g->oom_error = errno;
    if (g->oom_fd >= 0)
        n = pread(g->oom_fd, g->oom_before, sizeof g->oom_before - 1, 0);
    if (n <= 0)
        (void)strcpy(g->oom_before, "0");
}

/* Where an engine shows a container its own cgroup, we can tell what killed a program,
 * though the engine be far away. */
static void take_kills(struct guest *g)
{
    g->kills_fd = open("/sys/fs/cgroup/memory.events", O_RDONLY | O_CLOEXEC);
    if (g->kills_fd < 0)
        g->kills_fd =
            open("/sys/fs/cgroup/memory/memory.oom_control", O_RDONLY | O_CLOEXEC);
    g->kills = exec_count_kills(g);
}

/* The process that writes to us shall go on, and sleep before we answer. If it were put
 * aside for us, our answer would not wake it; it would wait for its turn. */
static void stand_back(struct guest *g)
{
    const struct sched_param none = { 0 };

    g->stands_back = syscall(SYS_sched_getscheduler, 0) == SCHED_OTHER &&
                     syscall(SYS_sched_setscheduler, 0, SCHED_BATCH, &none) == 0;
}

/* One piece of memory for all that a short life needs; NULL: there is none. */
static struct guest *take_room(void)
{
    struct room *room = mmap(NULL, sizeof *room, PROT_READ | PROT_WRITE,
                             MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    struct guest *g = &room->guest;

    if (room == MAP_FAILED)
        return NULL;
    g->room = room;
    g->in = room->in;
    g->in_cap = sizeof room->in;
    g->out = room->out;
    g->out_cap = sizeof room->out;
    g->adopted.message = (struct pack){ .data = room->message,
                                        .cap = sizeof room->message,
                                        .lent = true };
    return g;
}

static void say_hello(struct guest *g)
{
    uint8_t bytes[8];
    struct pack hello = { .data = bytes, .cap = sizeof bytes, .lent = true };

    pack_u32(&hello, WIRE_VERSION);
    stream_put(g, NULL, WIRE_HELLO, 0, &hello);
    pack_done(&hello);
}

static void start(struct guest *g, enum way way)
{
    take_stream(g, way);
    take_signals(g);
    g->pid = getpid();
    g->workdir_fd = g->landlock_fd = g->users_fd = -1;
    g->came_fd = g->kills_fd = -1;
    g->refused_fd[0] = g->refused_fd[1] = -1;
    g->adopted.fd = g->adopted.name_fd = -1;
    for (int i = 0; i < 2; i++)
        g->adopted.ours[i] = g->adopted.theirs[i] = -1;
    g->limit_watch.next_ns = NEVER;
    g->limit_watch.notify_fd = -1;
    stand_back(g);
    (void)umask(022);
    if (chdir("/") < 0)
        _exit(1);
    take_proc(g);
    if (!weaken("dump"))
        (void)prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
    say_hello(g);
}

static void read_signals(struct guest *g)
{
    struct signalfd_siginfo info[2]; /* of each kind one, at most, waits */
    ssize_t n = read(g->signal_fd, info, sizeof info);

    for (ssize_t i = 0; i < n / (ssize_t)sizeof *info; i++)
        if (info[i].ssi_signo == SIGTERM && g->jailed && !g->pid1)
            guest_end(g, 0);
    (void)kill_tree_reap(g);
}

/* Fills g->polls, and returns when to wake up at the latest. */
static uint64_t prepare(struct guest *g)
{
    uint64_t wake = g->limit_watch.next_ns;

    g->polls[0] = (struct pollfd){ .fd = g->in_fd, .events = POLLIN };
    g->polls[1] = (struct pollfd){ .fd = g->out_tail > g->out_head ? g->out_fd : -1,
                                   .events = POLLOUT };
    g->polls[2] = (struct pollfd){ .fd = g->signal_fd, .events = POLLIN };
    g->polls[3] = (struct pollfd){ .fd = limit_watch_poll_fd(g), .events = POLLIN };
    g->polls[4] = (struct pollfd){ .fd = gate_poll_fd(g), .events = POLLIN };
    if (gate_wants_turn(g))
        wake = 0;
    for (size_t i = 0; i < g->job_count; i++) {
        struct pollfd *p = &g->polls[FIXED_POLLS + i * POLLS_PER_JOB];
        struct job *j = g->jobs[i];

        for (int k = 0; k < POLLS_PER_JOB; k++)
            p[k] = (struct pollfd){ .fd = -1 };
        if (j->kind == JOB_EXEC)
            exec_polls(g, j, p);
        else if (j->kind == JOB_WATCH)
            p[0] = (struct pollfd){ .fd = dir_watch_poll_fd(g, j), .events = POLLIN };
        else if (files_want_turn(g, j))
            wake = 0;
        if (j->kind == JOB_WATCH && dir_watch_wants_turn(g, j))
            wake = 0;
        if (j->kind != JOB_EXEC || !g->held_ns)
            wake = j->deadline_ns < wake ? j->deadline_ns : wake;
    }
    return wake;
}

static void wait_for_work(struct guest *g)
{
    uint64_t wake = prepare(g);
    uint64_t now = wake == NEVER ? 0 : now_ns();
    uint64_t left = wake > now ? wake - now : 0;
    struct timespec t = { .tv_sec = (time_t)(left / 1000000000),
                          .tv_nsec = (long)(left % 1000000000) };

    if (ppoll(g->polls, FIXED_POLLS + g->job_count * POLLS_PER_JOB,
              wake == NEVER ? NULL : &t, NULL) < 0 &&
        errno != EINTR)
        guest_end(g, 1);
}

static void sweep(struct guest *g)
{
    size_t kept = 0;

    for (size_t i = 0; i < g->job_count; i++) {
        struct job *j = g->jobs[i];

        if (!j->over) {
            g->jobs[kept++] = j;
            continue;
        }
        exec_release(j);
        files_release(j);
        dir_watch_release(j);
        free(j);
    }
    g->job_count = kept;
}

/* Each job once, beginning with another every time. */
static void give_turns(struct guest *g, size_t polled)
{
    static const struct pollfd nothing[POLLS_PER_JOB];

    for (size_t n = 0; n < g->job_count; n++) {
        size_t i = (g->turn + n) % g->job_count;
        struct job *j = g->jobs[i];

        if (j->over)
            continue;
        if (j->kind == JOB_EXEC)
            exec_turn(g, j,
                      i < polled ? &g->polls[FIXED_POLLS + i * POLLS_PER_JOB]
                                 : nothing);
        else if (j->kind == JOB_WATCH)
            dir_watch_turn(g, j);
        else
            files_turn(g, j);
    }
    g->turn++;
}

static void serve_once(struct guest *g)
{
    size_t polled = g->job_count;

    wait_for_work(g);
    if (g->polls[2].revents)
        read_signals(g);
    if (g->polls[0].revents)
        stream_read(g);
    if (g->polls[3].revents)
        limit_watch_written(g);
    if (g->polls[4].revents || gate_wants_turn(g))
        gate_turn(g);
    give_turns(g, polled);
    limit_watch_step(g);
    stream_flush(g);
    sweep(g);
    exec_bury(g);
    if (g->stopping && kill_tree_is_over(g))
        guest_end(g, 0);
}

/* --open DIR: makes a cache volume everybody's, once, and marks that it was. Done
 * by an engine's root without capabilities, to whom a new volume belongs. */
static int open_to_all(const char *dir)
{
    int dir_fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    int mark_fd = -1;

    if (dir_fd < 0 || fchmod(dir_fd, 01777) < 0)
        return 1;
    mark_fd = openat(dir_fd, ".vial-cache", O_CREAT | O_RDONLY | O_CLOEXEC | O_NOFOLLOW,
                     0444);
    return mark_fd < 0 ? 1 : 0;
}

/* --abi: tells which Landlock its kernel lets it have, for who brings it to a host that
 * is not seen from where its jail is made. */
static int say_abi(void)
{
    char line[32];
    long abi = landlock_abi();
    int n = snprintf(line, sizeof line, "vial-init %ld\n", abi > 0 ? abi : 0);

    return write(1, line, (size_t)n) == n ? 0 : 1;
}

/* Where the line is dead, the standard streams lead to the host as well. */
static enum way way_of(int argc, char **argv)
{
    if (argc > 2 && strcmp(argv[1], "--line") == 0)
        return take_line(argv[2]) ? BY_STREAM : BY_STDIO;
    if (argc > 1 && strcmp(argv[1], "--attached") == 0)
        return BY_ATTACHED;
    return argc > 1 && strcmp(argv[1], "--stdio") == 0 ? BY_STDIO : BY_STREAM;
}

int main(int argc, char **argv)
{
    struct guest *g = NULL;

    if (argc == 3 && strcmp(argv[1], "--open") == 0)
        return open_to_all(argv[2]);
    if (argc == 2 && strcmp(argv[1], "--abi") == 0)
        return say_abi();
    /* `vial ps` knows vessels by it; a file without a name gives none. */
    (void)prctl(PR_SET_NAME, "vial-init");
    g = take_room();
    if (!g)
        return 1;
    /* Brought into /tmp, which is the programs'. */
    if (argc > 2 && strcmp(argv[2], "--forget") == 0)
        (void)unlink(argv[0]);
    start(g, way_of(argc, argv));
    if (argc > 1) /* an engine started us */
        take_kills(g);
    stream_flush(g);
    for (;;)
        serve_once(g);
}
