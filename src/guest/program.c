/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "guest/guest.h"
#include "guest/proc_tree.h"
#include "wire/message.h"

#define PIPE_BYTES    (256 << 10)
#define CHILD_STACK   (256u << 10)
#define LOOK_MS       20 /* between two looks at a child that is not its program yet */
#define LOOKS         250
#define STOPS         50 /* looks that find it stopped */
#define HELP_ENDS_NS  UINT64_C(2000000000)
#define TERMINAL_LEFT (64u << 10) /* more than a terminal holds */

static void close_fd(int *fd)
{
    if (*fd >= 0)
        (void)close(*fd);
    *fd = -1;
}

static void send_failed(struct guest *g, struct job *j, enum exec_step step, int error)
{
    struct pack p = { 0 };

    if (j->helps) {
        files_finish(g, j, error, "start");
        return;
    }
    pack_u32(&p, (uint32_t)step);
    pack_u32(&p, (uint32_t)error);
    stream_put(g, j, WIRE_FAILED, 0, &p);
    pack_done(&p);
    j->over = true;
}

static void send_started(struct guest *g, struct job *j)
{
    struct pack p = { 0 };

    j->started = true;
    if (j->helps)
        return;
    pack_u32(&p, (uint32_t)j->pid);
    stream_put(g, j, WIRE_STARTED, 0, &p);
    pack_done(&p);
}

/* Ends a stream. If the program has exited, its descriptor need not be closed before
 * the end is told. */
static void end_stream(struct guest *g, struct job *j, int stream)
{
    if (j->exited)
        j->left[stream] = 0;
    else
        close_fd(&j->fd[stream]);
    if (j->ended[stream])
        return;
    j->ended[stream] = true;
    stream_put(g, j, WIRE_EOF, stream, NULL);
}

int exec_make_pipe(int *ours, int *theirs, bool we_write)
{
    int ends[2];

    if (pipe2(ends, O_CLOEXEC) < 0)
        return -errno;
    *ours = ends[we_write];
    *theirs = ends[!we_write];
    (void)fcntl(*ours, F_SETFL, O_NONBLOCK);
    return 0;
}

void exec_widen_pipe(int fd)
{
    (void)fcntl(fd, F_SETPIPE_SZ, PIPE_BYTES);
}

static int make_pipes(struct job *j, struct child_pipes *theirs,
                      const struct exec_message *m)
{
    int rc = exec_make_pipe(&j->status_fd, &theirs->status, false);

    if (rc == 0 && m->terminal)
        return terminal_open(j, theirs, m->terminal);
    if (rc == 0 && !m->stdin_closed)
        rc = exec_make_pipe(&j->fd[0], &theirs->in, true);
    if (rc == 0)
        rc = exec_make_pipe(&j->fd[1], &theirs->out, false);
    if (rc == 0)
        rc = exec_make_pipe(&j->fd[2], &theirs->err, false);
    for (int i = 0; rc == 0 && i < 3; i++)
        if (j->fd[i] >= 0)
            exec_widen_pipe(j->fd[i]);
    return rc;
}

/* Children inherit it. A process may always lower its own again to where it was
 * (as long as it holds no CAP_SYS_RESOURCE, or still holds it). */
static int set_oom(const struct guest *g, const char *value)
{
    if (!(g->jail.flags & JAIL_OOM_FIRST))
        return 0;
    if (g->oom_fd < 0)
        return g->oom_error;
    return pwrite(g->oom_fd, value, strlen(value), 0) < 0 ? errno : 0;
}

/* A terminal has no end, but a key for it. */
static void end_input(struct job *j)
{
    if (j->terminal && j->fd[0] >= 0)
        (void)!write(j->fd[0], "\4", 1);
    close_fd(&j->fd[0]);
}

/* The arguments of a child, in memory that it shares with the guest. */
struct start {
    const struct guest *g;
    const struct exec_message *m;
    struct child_pipes pipes;
    const struct path_op *op; /* in place of M's program, or NULL */
};

static int begin_child(void *context)
{
    const struct start *s = context;

    if (s->op)
        path_op_run(s->g, s->op, &s->pipes);
    child_run(s->g, s->m, &s->pipes);
}

/* Nobody runs on its stack any more when this returns. It stays to be reaped. */
static void end_child(pid_t pid)
{
    siginfo_t dead;

    (void)kill(pid, SIGKILL);
    while (waitid(P_PID, (id_t)pid, &dead, WEXITED | WNOWAIT) < 0 && errno == EINTR)
        ;
}

static bool is_stopped(pid_t pid)
{
    siginfo_t told = { 0 };

    return waitid(P_PID, (id_t)pid, &told, WSTOPPED | WNOHANG | WNOWAIT) == 0 &&
           told.si_pid == pid;
}

/* The child has the program's user for some steps before it has become the program, and
 * another program of that user may stop it there as often as it likes, or see to it
 * that it gets hardly any time. It is set going again, and killed if that does not
 * help: the guest has others to look after. Looks are counted, not time: a vessel may
 * be frozen.
 *
 * After 0 the child is its program, or dead. The end of the pipe says so: the kernel
 * closes what it had open after it has left our memory. */
static int await_program(struct job *j)
{
    struct pollfd p = { .fd = j->status_fd, .events = POLLIN };
    int stops = 0;

    for (int looks = 0; looks < LOOKS && stops < STOPS; looks++) {
        int rc = poll(&p, 1, LOOK_MS);
        bool late = rc <= 0 && now_ns() >= j->deadline_ns;
        bool failed = rc > 0 && (p.revents & POLLIN); /* and may not be gone yet */

        if (late)
            j->exit.timed_out = 1;
        if (late || failed)
            end_child(j->pid);
        if (failed)
            j->pid = -1;
        if (late || rc > 0)
            return 0;
        if (is_stopped(j->pid)) {
            stops++;
            (void)kill(j->pid, SIGCONT);
        }
    }
    end_child(j->pid);
    return stops < STOPS ? -ETIME : -ETIMEDOUT;
}

/* The guest waits until the child has executed its program or given up: it needs no
 * copy of the guest's memory, which would take longer to make than all its system
 * calls. Not by vfork, which has no end if the child is stopped. What stays our own
 * code has a copy. Takes the status pipe of START, which the child may still read. */
static int start_child(const struct start *start, struct job *j)
{
    struct start copy = *start;
    char *stack = mmap(NULL, CHILD_STACK, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
    int rc = -errno;

    if (stack == MAP_FAILED) {
        (void)close(start->pipes.status);
        return rc;
    }
    j->pid = clone(begin_child, stack + CHILD_STACK,
                   copy.op ? SIGCHLD : CLONE_VM | SIGCHLD, &copy);
    rc = j->pid < 0 ? -errno : 0;
    (void)close(start->pipes.status);
    if (rc == 0)
        rc = await_program(j);
    if (rc < 0)
        j->pid = -1;
    (void)munmap(stack, CHILD_STACK);
    return rc;
}

/* RC: how making the pipes of START went. */
static void launch(struct guest *g, struct job *j, struct start *start, int rc)
{
    const struct exec_message *m = start->m;
    int pair[2] = { -1, -1 };

    if (rc == 0) {
        if (!start->op)
            denied_pair(g, pair);
        start->pipes.listen = pair[1];
        rc = start_child(start, j);
        start->pipes.status = -1;
        denied_listen(j, pair);
    }
    close_fd(&start->pipes.in);
    close_fd(&start->pipes.out);
    close_fd(&start->pipes.err);
    close_fd(&start->pipes.status);
    if (rc < 0)
        send_failed(g, j, j->pid < 0 ? STEP_FORK : STEP_STDIO, -rc);
    else if (m->stdin_closed)
        end_input(j);
}

static bool has_rules(struct guest *g, struct job *j)
{
    if (!(g->jail.flags & JAIL_LANDLOCK) || !g->landlock_error)
        return true;
    send_failed(g, j, STEP_LANDLOCK, g->landlock_error);
    return false;
}

/* All that a child needs before it can be started; false: J has failed. */
static bool make_ready(struct guest *g, struct job *j)
{
    int error;

    jail_prepare(g);
    if (!has_rules(g, j))
        return false;
    error = set_oom(g, "1000");
    if (error)
        send_failed(g, j, STEP_OOM, error);
    return error == 0;
}

void exec_start(struct guest *g, struct job *j, const struct exec_message *m)
{
    struct start start = { g, m, { -1, -1, -1, -1, -1, j->root }, NULL };

    j->input_ended = m->stdin_closed;
    j->end_on_full = m->end_on_full;
    if (!has_rules(g, j))
        return;
    if (m->timeout_ms && m->timeout_ms < NEVER / 1000000 / 2)
        j->deadline_ns = now_ns() + m->timeout_ms * 1000000;
    g->exec_count++;
    if (!j->root && adopt_give(g, j, m)) { /* which is the first to be killed already */
        limit_watch_start(g);
        if (j->status_fd < 0)
            send_started(g, j);
        return;
    }
    if (!make_ready(g, j))
        return;
    limit_watch_start(g);
    launch(g, j, &start, make_pipes(j, &start.pipes, m));
    (void)set_oom(g, g->oom_before);
}

/* Its standard error leads nowhere, as ours does. */
static int make_help_pipes(struct job *j, struct child_pipes *theirs, bool put)
{
    int *ours = put ? &j->fd[0] : &j->fd[1];
    int *child = put ? &theirs->in : &theirs->out;
    int *other = put ? &theirs->out : &theirs->in;
    int rc = exec_make_pipe(&j->status_fd, &theirs->status, false);

    if (rc == 0)
        rc = exec_make_pipe(ours, child, put);
    if (rc < 0)
        return rc;
    *other = fcntl(2, F_DUPFD_CLOEXEC, 3);
    theirs->err = fcntl(2, F_DUPFD_CLOEXEC, 3);
    exec_widen_pipe(*ours);
    return *other < 0 || theirs->err < 0 ? -errno : 0;
}

void exec_help(struct guest *g, struct job *j, const struct path_op *op)
{
    const struct exec_message m = { .stdin_closed = !op->put };
    struct start start = { g, &m, { -1, -1, -1, -1, -1, j->root }, op };

    j->kind = JOB_EXEC;
    j->helps = true;
    j->input_ended = m.stdin_closed;
    j->ended[1] = op->put;
    j->ended[2] = true;
    g->exec_count++; /* so that all there is no longer belongs to one program */
    if (!has_rules(g, j) || !make_ready(g, j))
        return;
    launch(g, j, &start, make_help_pipes(j, &start.pipes, op->put));
    (void)set_oom(g, g->oom_before);
}

/* Writes what it can; the pipe's reader may be gone, then bytes vanish as they
 * would in a pipeline. Returns how many are dealt with. */
static size_t write_input(struct job *j, const uint8_t *data, size_t len)
{
    size_t done = 0;

    while (done < len && j->fd[0] >= 0) {
        ssize_t n = write(j->fd[0], data + done, len - done);

        if (n >= 0)
            done += (size_t)n;
        else if (errno == EAGAIN)
            return done;
        else if (errno != EINTR)
            close_fd(&j->fd[0]);
    }
    return len > done && j->fd[0] < 0 ? len : done;
}

void exec_input(struct guest *g, struct job *j, const uint8_t *data, size_t len)
{
    size_t done = j->input_len ? 0 : write_input(j, data, len);

    if (done)
        host_used(g, j, done);
    if (done == len)
        return;
    if (!j->input)
        j->input = malloc(WIRE_CREDIT);
    if (!j->input)
        guest_end(g, 1);
    /* Credit bounds what is held to WIRE_CREDIT bytes; they may have to move. */
    if (WIRE_CREDIT - j->input_at - j->input_len < len - done) {
        memmove(j->input, j->input + j->input_at, j->input_len);
        j->input_at = 0;
    }
    memcpy(j->input + j->input_at + j->input_len, data + done, len - done);
    j->input_len += len - done;
}

static void step_input(struct guest *g, struct job *j)
{
    size_t done = write_input(j, j->input + j->input_at, j->input_len);

    j->input_at += done;
    j->input_len -= done;
    if (done)
        host_used(g, j, done);
    if (!j->input_len) {
        j->input_at = 0;
        if (j->input_ended)
            end_input(j);
    }
}

void exec_input_end(struct guest *g, struct job *j)
{
    (void)g;
    if (!j->input_len)
        end_input(j);
}

/* Reads the child's report, if it is there. */
static void step_status(struct guest *g, struct job *j)
{
    uint32_t report[2];
    ssize_t n = read(j->status_fd, report, sizeof report);

    if (n < 0)
        return;
    close_fd(&j->status_fd);
    if (n == (ssize_t)sizeof report)
        send_failed(g, j, (enum exec_step)report[0], (int)report[1]);
    else
        send_started(g, j);
}

/* How many bytes may be moved now. */
static size_t wanted(const struct job *j, int stream)
{
    size_t n = least(j->may_send[stream], CHUNK);

    return j->exited ? least(n, j->left[stream]) : n;
}

static bool wants_output(const struct guest *g, const struct job *j, int stream)
{
    return j->started && j->fd[stream] >= 0 && wanted(j, stream) && !stream_is_busy(g);
}

/* False when there is no more to move for now. */
static bool move_output(struct guest *g, struct job *j, int stream)
{
    uint64_t *sent = stream == 1 ? &j->exit.out_bytes : &j->exit.err_bytes;
    size_t want = wanted(j, stream);
    ssize_t n = read(j->fd[stream], stream_reserve(g, want), want);

    if (n < 0 && errno == EINTR)
        return true;
    if (n > 0) {
        stream_commit(g, j, stream, (size_t)n);
        *sent += (uint64_t)n;
        j->left[stream] -= j->exited ? (size_t)n : 0;
        return wants_output(g, j, stream) && (size_t)n == want;
    }
    if (n == 0 || errno != EAGAIN || (j->exited && !weaken("late")))
        end_stream(g, j, stream);
    return false;
}

static void step_output(struct guest *g, struct job *j, int stream)
{
    if (!wants_output(g, j, stream))
        return;
    /* Alone, a program may use the whole buffer; else each has its turn. */
    while (move_output(g, j, stream) && g->job_count == 1)
        ;
}

void exec_polls(struct guest *g, struct job *j, struct pollfd *p)
{
    p[0] = (struct pollfd){ .fd = j->input_len ? j->fd[0] : -1, .events = POLLOUT };
    for (int i = 1; i < 3; i++)
        p[i] = (struct pollfd){ .fd = wants_output(g, j, i) ? j->fd[i] : -1,
                                .events = POLLIN };
    p[3] = (struct pollfd){ .fd = j->status_fd, .events = POLLIN };
    p[4] = (struct pollfd){ .fd = j->started ? j->denied_fd : -1, .events = POLLIN };
}

/* The errno of what helped. */
static int helped(const struct job *j)
{
    if (j->closed)
        return ECANCELED;
    if (j->exit.kind == EXIT_CODE)
        return (int)j->exit.value;
    return j->exit.oom ? ENOMEM : EIO;
}

static void send_exit(struct guest *g, struct job *j)
{
    struct pack p = { 0 };

    if (j->helps) {
        files_finish(g, j, helped(j), "path");
        return;
    }
    denied_finish(g, j);
    j->exit.file_full = limit_watch_largest_file(g) ? 1 : 0;
    exit_write(&p, &j->exit);
    stream_put(g, j, WIRE_EXIT, 0, &p);
    pack_done(&p);
    j->over = true;
}

/* After the program's end only what it left in its pipes is moved: others may
 * hold them open for as long as they like. */
static void step_exited(struct guest *g, struct job *j)
{
    for (int i = 1; i < 3; i++)
        if (!j->ended[i] && (j->fd[i] < 0 || !j->left[i] || j->closed))
            end_stream(g, j, i);
    if (j->ended[1] && j->ended[2])
        send_exit(g, j);
}

void exec_turn(struct guest *g, struct job *j, const struct pollfd *p)
{
    if (p[0].revents)
        step_input(g, j);
    if (j->status_fd >= 0 && (p[3].revents || j->exited))
        step_status(g, j);
    if (j->over)
        return;
    if (j->started)
        denied_turn(g, j, p[4].revents);
    for (int i = 1; i < 3; i++)
        if (p[i].revents || j->exited)
            step_output(g, j, i);
    if (j->exited && j->started)
        step_exited(g, j);
    if (weaken("eof") && !j->exited && j->ended[1] && j->ended[2])
        exec_kill(g, j, SIGKILL);
    if (!j->exited && !g->held_ns && now_ns() >= j->deadline_ns) {
        j->deadline_ns = NEVER;
        j->exit.timed_out = 1;
        exec_kill(g, j, SIGKILL);
    }
    if (!j->exited && j->end_on_full && j->exit.disk_full) {
        j->end_on_full = false;
        exec_kill(g, j, SIGKILL);
    }
}

static uint64_t micros(const struct timeval *t)
{
    return (uint64_t)t->tv_sec * 1000000 + (uint64_t)t->tv_usec;
}

/* Behind "oom_kill " in memory.events, or in memory.oom_control. */
uint64_t exec_count_kills(const struct guest *g)
{
    static const char key[] = "oom_kill ";
    char text[512];
    ssize_t n = g->kills_fd < 0 ? -1 : pread(g->kills_fd, text, sizeof text - 1, 0);
    const char *at;

    text[n > 0 ? n : 0] = 0;
    at = strstr(text, key);
    return at ? strtoull(at + strlen(key), NULL, 10) : 0;
}

/* Whether the count of oom kills has risen. A program that DIED of a kill, or says so,
 * takes it; another may merely have had a child that was killed. */
static uint32_t was_oom(struct guest *g, bool died)
{
    uint64_t kills = exec_count_kills(g);
    bool rose = kills > g->kills;

    if (died)
        g->kills = kills;
    return rose;
}

static void note_end(struct guest *g, struct job *j, int status,
                     const struct rusage *usage)
{
    limit_watch_look(g);
    j->exited = true;
    j->deadline_ns = NEVER;
    close_fd(&j->fd[0]);
    j->exit.kind = WIFSIGNALED(status) ? EXIT_SIGNAL : EXIT_CODE;
    j->exit.value =
        (uint32_t)(WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
    j->exit.oom |= was_oom(g, exit_was_killed(&j->exit));
    j->exit.alive = g->leaving == j->pid ? 0 : tree_count(g);
    j->exit.net_refused = refused_since(g);
    j->exit.user_us = micros(&usage->ru_utime);
    j->exit.system_us = micros(&usage->ru_stime);
    j->exit.max_rss_bytes = (uint64_t)usage->ru_maxrss * 1024;
    for (int i = 1; i < 3; i++) {
        int there = 0;

        if (j->fd[i] >= 0 && ioctl(j->fd[i], FIONREAD, &there) == 0 && there > 0)
            j->left[i] = (size_t)there;
        if (j->terminal && j->fd[i] >= 0)
            j->left[i] = TERMINAL_LEFT; /* some may still be on its way */
        if (weaken("late") && j->fd[i] >= 0)
            j->left[i] = SIZE_MAX / 2;
    }
}

void exec_reaped(struct guest *g, pid_t pid, int status, const void *rusage)
{
    struct job *j = NULL;

    adopt_reaped(g, pid);
    if (pid == g->leaving)
        g->leaving = 0;
    for (size_t i = 0; i < g->job_count; i++)
        if (g->jobs[i]->kind == JOB_EXEC && g->jobs[i]->pid == pid &&
            !g->jobs[i]->exited)
            j = g->jobs[i];
    if (j && !j->over)
        note_end(g, j, status, rusage);
}

/* The exit code that a stopped program's name holds, or -1: it just stopped. */
static int read_early_exit(const struct job *j)
{
    char text[2 * EARLY_EXIT_SIZE];
    ssize_t n = pread(j->name_fd, text, sizeof text, 0);

    return n > 0 ? early_exit_read(text, (size_t)n) : -1;
}

/* Asks after each by its number: one that others stop and wake without end shall not
 * keep the guest busy. */
void exec_hear(struct guest *g)
{
    for (size_t i = 0; i < g->job_count; i++) {
        struct job *j = g->jobs[i];
        struct rusage usage;
        int status, code;

        if (j->name_fd < 0 || j->exited || j->over ||
            wait4(j->pid, &status, WNOHANG | WUNTRACED, &usage) != j->pid)
            continue;
        if (!WIFSTOPPED(status)) {
            exec_reaped(g, j->pid, status, &usage);
            continue;
        }
        code = read_early_exit(j);
        if (code < 0)
            continue;
        g->leaving = j->pid;
        note_end(g, j, code << 8, &usage); /* as wait tells it */
    }
}

/* After its end was told, which is what somebody waits for. */
void exec_bury(struct guest *g)
{
    if (g->leaving)
        (void)kill(g->leaving, SIGKILL);
    g->leaving = 0;
}

void exec_resize(struct job *j, uint32_t size)
{
    if (j->terminal && j->fd[1] >= 0)
        terminal_resize(j->fd[1], size);
}

void exec_kill(struct guest *g, struct job *j, int signal)
{
    if (j->pid > 0 && j->helps) /* it starts nobody */
        (void)(j->exited ? 0 : kill(j->pid, signal));
    else if (j->pid > 0)
        kill_tree_signal(g, j, signal);
}

void exec_close(struct guest *g, struct job *j)
{
    j->closed = true;
    /* What helps removes what is half there; where it does not, it is killed. */
    if (j->helps)
        j->deadline_ns = now_ns() + HELP_ENDS_NS;
    exec_kill(g, j, j->helps ? SIGTERM : SIGKILL);
    for (int i = 0; i < 3; i++)
        close_fd(&j->fd[i]);
}

void exec_release(struct job *j)
{
    close_fd(&j->status_fd);
    close_fd(&j->name_fd);
    for (int i = 0; i < 3; i++)
        close_fd(&j->fd[i]);
    free(j->input);
    denied_release(j);
}
