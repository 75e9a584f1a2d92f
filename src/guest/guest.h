/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_GUEST_GUEST_H
#define VIAL_GUEST_GUEST_H

/* clang-format off */
/*
 * vial-init: the first process of every vessel. It runs programs and moves
 * bytes on the host's behalf, in one thread, around one poll(2).
 *
 *   start -> HELLO -> JAIL -> { EXEC | PUT | GET | LIST | NAME | WATCH }*
 *         -> end of stream: all die
 *
 * The host is trusted, but a frame that makes no sense ends the guest. What the
 * guest's programs do is not trusted: they may flood, stop, fork and signal.
 * Files are named after what they own:
 *
 *   init           start, the loop, the end
 *   stream         frames in and out
 *   requests       what each frame asks for
 *   program        a program and its pipes; start_program: from fork to execve
 *   terminal       a program's terminal
 *   adopt          a process that waits to become a program
 *   jail           what the guest itself may do; confine, landlock: what programs may
 *   kill_tree      ends programs whole; proc_tree finds their processes
 *   file_ops       put, get and list
 *   name_ops       stat, mkdir, move, remove; names are looked up without links
 *   file_attributes  a file's extended attributes
 *   path_ops       all of these at absolute paths, by a process confined as programs are
 *   dir_watch      tells what happens to files
 *   limit_watch    limits of which the kernel does not tell
 *   denied         counts refused system calls, and tries at a network
 *   gate_inside    names and connections that a gate on the host lets out
 */
/* clang-format on */

#include <dirent.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/types.h>

#include "wire/frame.h"
#include "wire/gate_message.h"
#include "wire/message.h"
#include "wire/weaken.h"

#define CHUNK         WIRE_MAX_TO_HOST /* moved in one frame */
#define OUT_BUSY      (256u << 10)     /* with more unwritten, nothing is produced */
#define READ_AT_ONCE  (128u << 10)
#define NEVER         UINT64_MAX
#define FIXED_POLLS   5 /* stream in and out, signals, writing, gate */
#define POLLS_PER_JOB 5

enum job_kind { JOB_EXEC, JOB_PUT, JOB_GET, JOB_LIST, JOB_NAME, JOB_WATCH };

/* One channel: a program that runs, or a file under way. */
struct job {
    uint32_t channel;
    enum job_kind kind;
    bool over;            /* ended towards the host; removed after this round */
    uint32_t may_send[3]; /* credit left on streams 1 and 2 */
    uint32_t may_come;    /* credit the host has left on stream 0 */
    uint32_t owed;        /* of stream 0, used up and not yet granted again */

    /* exec */
    pid_t pid;
    int status_fd;  /* the child's {step, errno}; its end: the program runs */
    int fd[3];      /* our ends of the pipes; -1 when closed */
    uint8_t *input; /* stdin the pipe did not take yet: WIRE_CREDIT bytes, or NULL */
    size_t input_at, input_len;
    bool input_ended;
    bool terminal;                /* fd[0] and fd[1] are its master */
    bool started, exited, closed; /* closed: the host has lost interest */
    bool root;                    /* its program is */
    bool helps;     /* no program, but a file operation of ours: path_ops */
    bool ended[3];  /* EOF was sent */
    size_t left[3]; /* after the exit: bytes that were in the pipe then */
    uint64_t deadline_ns;
    bool end_on_full;
    struct exit_message exit;
    int denied_fd; /* where refused calls are told, or -1: nobody does */
    struct denied *denied;
    int name_fd; /* where its early exit can be read, or -1: it tells none */

    /* files */
    int file_fd, dir_fd;
    char *name;                  /* put: the last component, below dir_fd */
    char temp[32];               /* put: what it is called until it is whole */
    bool direct;                 /* put: or it has its own name from the start */
    DIR *dir;                    /* list */
    uint64_t file_left;          /* get */
    struct dir_watch *dir_watch; /* watch */
};

struct watched {
    int fd; /* may be the workdir's */
    dev_t dev;
    uint64_t used, free, rate; /* bytes; bytes a millisecond when last looked */
};

struct limit_watch {
    struct watched at[2];
    size_t count;
    bool small[2];
    int notify_fd; /* inotify on the top directories of the small, or -1 */
    uint64_t last_ns, next_ns, busy_until_ns;
};

struct guest {
    pid_t pid; /* its own */
    int in_fd, out_fd, signal_fd;
    bool greeted, jailed, pid1;
    bool stands_back;      /* is SCHED_BATCH, which programs are not */
    bool has_groups;       /* which programs shall not have */
    bool setgroups_denied; /* by the user namespace */
    struct rlimit pending; /* how many signals may wait for a program */
    int oom_fd, oom_error; /* its own oom_score_adj, which children inherit */
    char oom_before[16];
    int kills_fd;      /* the container's count of kills for memory, or -1 */
    uint64_t kills;    /* those that were told of */
    int refused_fd[2]; /* the namespace's counters, or -1: denied.c */
    uint64_t refused;  /* those that were told of */
    struct jail jail;
    void *counting; /* the first filter, as it is loaded where refusals are counted */
    bool prepared;  /* for programs that it starts itself */
    int landlock_fd, landlock_error;
    int users_fd;     /* the programs' user namespace, or -1: they share the guest's */
    bool stopping;    /* ends once no program is left */
    uint64_t held_ns; /* since when programs' time stands still; 0: it goes on */
    bool adopted_ran; /* before it was prepared; from then on it cannot be */
    int workdir_fd;
    uint32_t last_channel;
    uint32_t root_channel; /* whose program will be root; 0: none's */
    unsigned temp_count;

    struct room *room; /* which it is in */
    uint8_t *in;       /* of ROOM, or larger */
    size_t in_len, in_cap;
    size_t in_next; /* where the frame after the one that is handled begins */
    uint8_t *out;
    size_t out_head, out_tail, out_cap;

    int came_fd; /* came with the last read, and belongs to the frame in it */
    bool in_is_pipe;
    struct {
        int fd; /* where a process waits to become the next program, or -1 */
        pid_t pid;
        int name_fd;            /* its /proc/PID/comm, or -1 */
        int ours[2], theirs[2]; /* ends of its output's pipes */
        struct pack message;    /* room for what it will be sent */
        bool told;              /* it has its next program already */
    } adopted;
    struct guest_gate *gate; /* or NULL: there is none */
    pid_t leaving;           /* has told its exit early and is to be killed, or 0 */

    struct job *jobs[WIRE_MAX_CHANNELS];
    size_t job_count;
    uint64_t exec_count; /* ever started */
    size_t turn;         /* who is served first in this round */
    struct limit_watch limit_watch;
    struct pollfd polls[FIXED_POLLS + POLLS_PER_JOB * WIRE_MAX_CHANNELS];
};

/* The guest, and what a short life needs besides: it asks for no other memory, and
 * pages that nobody writes to cost nothing. What is more comes from malloc. */
struct room {
    struct guest guest;
    uint8_t message[1024]; /* to an adopted process; most are shorter */
    uint8_t out[OUT_BUSY + 2 * CHUNK];
    uint8_t in[WIRE_HEADER + READ_AT_ONCE];
};

static inline size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* init.c */
uint64_t now_ns(void);
/* Kills everything and ends the guest. */
_Noreturn void guest_end(struct guest *g, int code);

/* stream.c: frames in and out. Any failure of the stream ends the guest. */
void stream_read(struct guest *g); /* reads, and hands whole frames to host_frame */
void stream_flush(struct guest *g);
void stream_put(struct guest *g, const struct job *j, enum wire_type type, int stream,
                const struct pack *payload);
/* Room for LEN bytes of payload, or NULL while too much is unwritten; what was
 * put there becomes a DATA frame by stream_commit. */
uint8_t *stream_reserve(struct guest *g, size_t len);
void stream_commit(struct guest *g, struct job *j, int stream, size_t len);
bool stream_is_busy(const struct guest *g);
/* All that will be sent on CHANNEL has come, right after the frame that is handled. */
bool stream_has_end(const struct guest *g, uint32_t channel);

/* requests.c: what each frame asks for. */
void host_frame(struct guest *g, const struct frame *f);
void host_used(struct guest *g, struct job *j, size_t len); /* of stream 0 */

/* program.c */
void exec_start(struct guest *g, struct job *j, const struct exec_message *m);
/* OP is done by a process that is confined as programs are; J ends with DONE. */
struct path_op;
void exec_help(struct guest *g, struct job *j, const struct path_op *op);
/* A pipe of which OURS stays here, never blocking, and THEIRS goes to the child. 0 or
 * -errno. */
int exec_make_pipe(int *ours, int *theirs, bool we_write);
/* Fewer switches between a program and us; without it, things still work. */
void exec_widen_pipe(int fd);
void exec_input(struct guest *g, struct job *j, const uint8_t *data, size_t len);
void exec_input_end(struct guest *g, struct job *j);
void exec_polls(struct guest *g, struct job *j, struct pollfd *p);
void exec_turn(struct guest *g, struct job *j, const struct pollfd *p);
/* denied.c: tries at a network that is not there, since the last call */
uint64_t refused_since(struct guest *g);

uint64_t exec_count_kills(const struct guest *g); /* for memory; 0: nobody tells */
void exec_reaped(struct guest *g, pid_t pid, int status, const void *rusage);
void exec_hear(struct guest *g); /* whether one tells its exit early */
void exec_bury(struct guest *g); /* whoever has */
void exec_resize(struct job *j, uint32_t size);
void exec_kill(struct guest *g, struct job *j, int signal);
void exec_close(struct guest *g, struct job *j);
void exec_release(struct job *j);

/* The child's ends. IN is -1 for /dev/null. */
struct child_pipes {
    int in, out, err, status;
    int listen; /* where a listener goes to, or -1 */
    bool root;  /* it is root, in a jail that lets programs become that */
};

/* denied.c */
void denied_prepare(struct guest *g);
void denied_pair(const struct guest *g, int pair[2]);
void denied_listen(struct job *j, int pair[2]);
void denied_turn(struct guest *g, struct job *j, int revents);
void denied_finish(struct guest *g, struct job *j);
void denied_release(struct job *j);

/* gate_inside.c */
void gate_start(struct guest *g, struct unpack *u, int link_fd);
int gate_poll_fd(const struct guest *g); /* -1: there is no gate */
bool gate_wants_turn(const struct guest *g);
void gate_turn(struct guest *g);

/* adopt.c */
void adopt_take(struct guest *g, pid_t pid, int fd);
void adopt_reaped(struct guest *g, pid_t pid);
bool adopt_waits(const struct guest *g); /* and knows of no program yet */
/* Of a program that will be next, once what comes before it is done. */
void adopt_tell(struct guest *g, const struct frame *exec);
/* The process that waits is the program of M now, and J's; false: there is none.
 * Without a status_fd there is nothing left that could fail. */
bool adopt_give(struct guest *g, struct job *j, const struct exec_message *m);

/* terminal.c: 0 or -errno. */
int terminal_open(struct job *j, struct child_pipes *theirs, uint32_t size);
void terminal_resize(int fd, uint32_t size);

/* start_program.c: runs in the child, never returns. */
_Noreturn void child_run(const struct guest *g, const struct exec_message *m,
                         const struct child_pipes *pipes);
/* All of it but the program: M's pipes, terminal and directory, and the jail. STATUS_FD
 * stays open. */
void child_prepare(const struct guest *g, const struct exec_message *m,
                   const struct child_pipes *pipes);
#define STATUS_FD 3 /* the guest's stream has it, so that no pipe can */

/* A session of its own, then all that g->jail asks for. Descriptor 3 is where a
 * report goes, and closes on exec; those above it are closed. */
void child_enter(const struct guest *g, const char *cwd);

/* confine.c: each returns 0 or -errno, but for the first: whether the user namespace
 * forbids to change supplementary groups. */
bool confine_denies_groups(void);
int confine_rlimits(const struct guest *g);
int confine_bounding(const struct jail *jail);
/* ROOT: who is confined is root, whoever programs are. */
int confine_ids(const struct guest *g, bool root);
int confine_caps(const struct jail *jail, bool root);
int confine_keep_caps(uint64_t keep);
/* After the filters: what an exec would take away, for who does none. */
int confine_as_program(const struct jail *jail);
/* LISTEN_FD: where a listener for what is refused goes to, or -1. */
int confine_seccomp(const struct guest *g, int listen_fd);
int confine_check(const struct jail *jail);

/* landlock.c: which there is, or less than 1; a rule set's descriptor, or -errno; and
 * putting it into force. */
long landlock_abi(void);
int landlock_build(const struct jail *jail);
int landlock_apply(int fd);

/* A user namespace's descriptor, or -1 where none can be had that counts its
 * processes apart; and being in it, with all its capabilities: 0 or -errno. */
int users_make(const struct guest *g);
int users_enter(int fd);

/* jail.c */
void jail_enter(struct guest *g); /* what g->jail means for the guest itself */
/* Before the guest starts a program of its own: once, and at once unless one is to be
 * adopted. Where that ran first, nothing else is started any more. */
void jail_prepare(struct guest *g);
/* The limit of RESOURCE; UINT64_MAX: it has none. */
uint64_t jail_rlimit(const struct guest *g, uint32_t resource);

/* kill_tree.c */
bool kill_tree_reap(struct guest *g); /* collects the dead; true: some live */
/* To all that is left of J's program, wherever it went; SIGKILL returns when they are
 * gone. */
void kill_tree_signal(struct guest *g, const struct job *j, int signal);
void kill_tree_all(struct guest *g);     /* kills every program */
void kill_tree_ask(struct guest *g);     /* SIGTERM to every program */
bool kill_tree_is_over(struct guest *g); /* no program is left, nor what one said */

/* limit_watch.c */
void limit_watch_open(struct guest *g);
void limit_watch_start(struct guest *g); /* an exec begins */
void limit_watch_look(struct guest *g);
/* With the rights of the programs, to whom the directories belong. */
void limit_watch_notify(struct guest *g);
/* The first gives the descriptor to poll for writing, or -1; the second is called when
 * it is ready. */
int limit_watch_poll_fd(const struct guest *g);
void limit_watch_written(struct guest *g);
void limit_watch_step(struct guest *g); /* looks when it is time to */
/* Whether a file that programs left is as large as a file may be. */
bool limit_watch_largest_file(const struct guest *g);

/* path_ops.c: an operation at an absolute path; one of these is there. */
struct path_op {
    const struct put_message *put;
    const struct get_message *get;
    const struct name_message *name;
    const struct watch_message *watch;
    const char *list; /* a path */
};
/* Runs in the child, which has memory of its own; never returns. */
_Noreturn void path_op_run(const struct guest *g, const struct path_op *op,
                           const struct child_pipes *pipes);

/* file_attributes.c: FD may be -1, which has none. 0 or -errno. */
void attributes_read(int fd, char out[LIST_ATTRIBUTES_MAX + 1]);
int attributes_write(int fd, const char *lines); /* NULL: nothing to do */

/* name_ops.c */
/* A regular file, looked at before it is opened; FOLLOW: links, as far as they lead. */
int name_open_regular(int dir_fd, const char *name, bool follow);
/* NAME_MKDIR, NAME_REMOVE and NAME_REMOVE_ALL: 0 or a positive errno. */
int name_change(int dir_fd, const char *name, uint32_t verb);
void names_do(struct guest *g, struct job *j, const struct name_message *m);
/* Names below a directory: no link is ever followed. Descriptor or -errno. The
 * directory PATH's last component lies in; *NAME points to that component. */
int below_parent(int dir_fd, const char *path, bool create, const char **name);
int below_open_file(int dir_fd, const char *path);
int below_open_dir(int dir_fd, const char *path); /* "" or ".": DIR_FD itself */

/* dir_watch.c */
void dir_watch_start(struct guest *g, struct job *j, const struct watch_message *m);
/* Of a helper, which tells all by its standard output until nobody reads it: 0 or a
 * positive errno. ROOT_FD is taken. */
int dir_watch_run(int root_fd, uint32_t flags);
int dir_watch_poll_fd(const struct guest *g, const struct job *j); /* -1: no room */
bool dir_watch_wants_turn(const struct guest *g, const struct job *j);
void dir_watch_turn(struct guest *g, struct job *j);
void dir_watch_release(struct job *j);

/* file_ops.c */
/* Ends J towards the host; ERROR is 0 or a positive errno. */
void files_finish(struct guest *g, struct job *j, int error, const char *text);
int files_write_all(int fd, const void *data, size_t len); /* 0 or -errno */
/* AT "": DIR_FD itself. */
void files_pack_entry(struct pack *p, int dir_fd, const char *at, char *name);
/* A new file, called OUT from now on; FIRST: which names are tried. Descriptor or
 * -errno. */
int files_make_temp(int dir_fd, unsigned first, char *out, mode_t mode);
mode_t files_put_mode(const struct put_message *m, const struct stat *old);
void files_keep_owner(int fd, const struct stat *old);
/* FD stands where M begins, and *LEFT is what will be sent of it. 0 or -errno. */
int files_begin_get(int fd, const struct get_message *m, uint64_t *left);
void files_put(struct guest *g, struct job *j, const struct put_message *m);
void files_put_data(struct guest *g, struct job *j, const uint8_t *data, size_t len);
void files_put_end(struct guest *g, struct job *j);
void files_get(struct guest *g, struct job *j, const struct get_message *m);
void files_list(struct guest *g, struct job *j, const char *path);
bool files_want_turn(const struct guest *g, const struct job *j);
void files_turn(struct guest *g, struct job *j);
void files_close(struct guest *g, struct job *j);
void files_release(struct job *j);

#endif
