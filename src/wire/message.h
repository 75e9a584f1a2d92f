/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_WIRE_MESSAGE_H
#define VIAL_WIRE_MESSAGE_H

/* The payloads with structure. Each has one writer and one reader; the readers
 * of what a guest sends judge every value. */

#include <stddef.h>

#include "wire/pack.h"

/* How the guest confines each program it starts. A step that cannot be done
 * makes the exec fail; nothing is skipped. */
enum jail_flag {
    JAIL_NO_NEW_PRIVS = 1u << 0,
    JAIL_DROP_CAPS = 1u << 1, /* all five sets, bounding set included */
    JAIL_SET_IDS = 1u << 2,   /* to uid/gid, supplementary groups emptied */
    JAIL_PID1 = 1u << 3,      /* the guest is pid 1 of a pid namespace: kill(-1) is
                                 the tree. Otherwise it is a subreaper and walks */
    JAIL_OOM_FIRST = 1u << 4, /* oom_score_adj 1000 for programs */
    JAIL_LANDLOCK = 1u << 5,
    JAIL_SECCOMP = 1u << 6,
    JAIL_DIE_WITH_PARENT = 1u << 7,
    JAIL_LANDLOCK_NET = 1u << 8, /* deny TCP bind and connect where the ABI can */
    JAIL_AWAITS = 1u << 9,       /* a process will be adopted that is confined already:
                                    the guest's own programs, if any, come later */
    JAIL_NO_NETWORK = 1u << 10,  /* a network namespace of its own leads nowhere: what
                                    programs try there is counted */
    JAIL_OWN_USERS = 1u << 11,   /* programs are in a user namespace of their own, where
                                    the kernel counts its processes apart; where it does
                                    not, an rlimit on processes is left out */
    JAIL_COUNT = 1u << 12,     /* what the first filter refuses with EPERM is counted */
    JAIL_ROOT_CAPS = 1u << 13, /* instead of JAIL_DROP_CAPS: programs that are root, or
                                  become it, have capabilities over what the vessel
                                  alone owns (guest/confine.c), and others none */
    JAIL_FIXED_ADDRESSES = 1u << 14, /* programs have no random layout of memory */
};

struct jail_rlimit {
    uint32_t resource;
    uint64_t value; /* soft and hard; lowered to the present hard limit if above */
};

enum jail_access {
    JAIL_READ = 1,
    JAIL_EXEC = 2,
    JAIL_WRITE = 4,
    JAIL_DEVICE = 8 /* control requests to devices: terminals */
};

struct jail_path { /* a Landlock rule; a missing path is no error */
    char *path;
    uint32_t access;
};

#define DENIED_MAX 32 /* system calls that are told apart, of one exec */

#define JAIL_FILTERS     2
#define JAIL_MAX_RLIMITS 16
#define JAIL_MAX_PATHS   64

struct jail {
    uint32_t flags;
    uint32_t uid, gid;
    struct jail_rlimit rlimits[JAIL_MAX_RLIMITS];
    size_t rlimit_count;
    struct jail_path paths[JAIL_MAX_PATHS];
    size_t path_count;
    struct { /* struct sock_filter arrays, loaded in this order */
        uint8_t *data;
        size_t len;
    } filters[JAIL_FILTERS];
    char *workdir;       /* file operations stay beneath it */
    char *watch_full[2]; /* directories whose file system is watched for being full */
};

void jail_write(struct pack *p, const struct jail *j);
int jail_read(struct unpack *u, struct jail *out); /* 0 or -1; copies */
void jail_done(struct jail *j);

struct exec_message {
    char **argv, **env; /* NULL-terminated */
    char *cwd;
    uint64_t timeout_ms;   /* the guest's own, later than the host's; 0: none */
    uint32_t stdin_closed; /* 1: /dev/null */
    uint32_t end_on_full;  /* 1: kill it when a watched file system is seen full */
    uint32_t terminal;     /* rows << 16 | columns: a terminal of that size; 0: pipes.
                              All it shows is stream 1 */
    uint32_t apart;        /* 1: others run beside it, so that its orphans must stay
                              its own */
    uint32_t early_exit;   /* 1: it may say its end before it is gone (below) */
};

void exec_write(struct pack *p, const struct exec_message *m);
int exec_read(struct unpack *u, struct exec_message *out);
void exec_done(struct exec_message *m);

enum exit_kind { EXIT_CODE = 1, EXIT_SIGNAL = 2 };

struct exit_message {
    uint32_t kind, value;        /* enum exit_kind; exit code or signal number */
    uint64_t user_us, system_us; /* of the program and its waited-for children */
    uint64_t max_rss_bytes;
    uint64_t out_bytes, err_bytes; /* sent on the streams */
    uint64_t disk_peak_bytes;
    uint32_t disk_full; /* 1: a watched file system was seen full */
    uint32_t file_full; /* 1: a file is as large as a file may be */
    uint32_t timed_out; /* 1: the guest's own deadline ended it */
    uint32_t oom;       /* 1: somebody was killed for memory, where the guest can see */
    /* Other processes and threads in the vessel, when it ended. 0 of one that said its
     * end early: that is the last in its vessel, and looking for others costs. */
    uint32_t alive;
    uint64_t net_refused; /* tries at a network that is not there, since the last end */
};

void exit_write(struct pack *p, const struct exit_message *m);
/* It died of SIGKILL; or what it ran did, and it passes that on as shells do (137). */
bool exit_was_killed(const struct exit_message *m);
int exit_read(struct unpack *u, struct exit_message *out);

/* Where an exec failed (WIRE_FAILED). guest/start_program.c has the order of doing. */
enum exec_step {
    STEP_FORK = 1,
    STEP_STDIO,
    STEP_SESSION,
    STEP_RLIMIT,
    STEP_CWD,
    STEP_IDS,
    STEP_CAPS,
    STEP_PRIVS,
    STEP_OOM,
    STEP_LANDLOCK,
    STEP_SECCOMP,
    STEP_CHECK,
    STEP_ADDRESSES,
    STEP_FIND,
    STEP_EXEC
};
const char *exec_step_name(uint32_t step); /* "?" when unknown */

struct put_message {
    char *path;       /* see WIRE_LIST */
    uint32_t mode;    /* 0: of the file that is replaced, else 0644 */
    char *attributes; /* as in list_entry; NULL: none */
};
/* Readers give malloc'ed texts, which the caller frees. */
void put_write(struct pack *p, const struct put_message *m);
int put_read(struct unpack *u, struct put_message *out);

struct get_message {
    char *path;
    uint64_t offset, len; /* len 0: to the end */
};
void get_write(struct pack *p, const struct get_message *m);
int get_read(struct unpack *u, struct get_message *out);

/* The operations on a name (WIRE_NAME). */
enum name_verb {
    NAME_STAT = 1,
    NAME_MKDIR,  /* with its parents; one that exists is good */
    NAME_MOVE,   /* to `to`, whose parents are made; replaces a file */
    NAME_REMOVE, /* a file or an empty directory */
    NAME_REMOVE_ALL,
    NAME_FOLLOW /* as stat, of what links lead to; of an absolute path */
};

struct name_message {
    uint32_t verb;
    char *path; /* relative to the workdir; "" is the workdir itself, for stat */
    char *to;
};
void name_write(struct pack *p, const struct name_message *m);
int name_read(struct unpack *u, struct name_message *out);

/* Bytes of holes that one GET sends as zeros; of more it sends nothing. */
#define WIRE_HOLES_MAX (UINT64_C(1) << 30)

/* Paths of WIRE_PUT, GET, LIST, NAME and WATCH lie below the workdir, and no link is
 * followed; or they begin with '/', and are what a program would find there. */

/* One directory entry of WIRE_LIST. */
struct list_entry {
    char *name;
    uint32_t type; /* 'f' 'd' 'l' 'o' */
    uint32_t mode;
    uint64_t size, mtime_ns;
    uint64_t holes;    /* bytes of a file's that were never written, if they are many */
    uint32_t uid, gid; /* as its programs see them */
    char *target;      /* what a link says; NULL: it is none, or cannot be read */
    char *attributes;  /* a file's, of the user's: lines "NAME=VALUE" of printable
                          ASCII, each with its newline; NULL: none, or not readable */
};
#define LIST_TARGET_MAX     4095u
#define LIST_ATTRIBUTES_MAX 4096u
/* What is asked by WIRE_WATCH. */
enum watch_flag {
    WATCH_DEEP = 1u << 0,      /* directories below, too, also those to come */
    WATCH_ATTRIBUTES = 1u << 1 /* changes of mode, owner, times … are told */
};
struct watch_message {
    char *path;
    uint32_t flags;
};
void watch_write(struct pack *p, const struct watch_message *m);
int watch_read(struct unpack *u, struct watch_message *out);

/* One event of WIRE_WATCH: 'c' created, 'w' written, 'r' removed, 'm' moved from
 * FROM, 'a' attributes, 'g' some were lost, 's' the watching has begun. Paths are below
 * what is watched. */
struct event_message {
    uint32_t kind;
    char *path, *from;
};
void event_write(struct pack *p, const struct event_message *m, const char *path,
                 const char *from);
int event_read(struct unpack *u, struct event_message *out); /* copies */

/* Whether LINES are attributes, and not too many. */
bool attributes_are_good(const char *lines);

void list_entry_write(struct pack *p, const struct list_entry *e);
int list_entry_read(struct unpack *u, struct list_entry *out); /* copies */
void list_entry_done(struct list_entry *e);

/*
 * A process's parent hears of its end only when the kernel has taken down its memory,
 * which takes longer than most programs. An adopted one (WIRE_ADOPT) that has nothing
 * left to do but exit can say so before: it takes a name that holds its exit code, and
 * stops. A stop is told at once; whoever finds such a name takes it for the end, and
 * kills what is left. That is all that a program could win by doing the same itself.
 */

#define EARLY_EXIT_SIZE 16 /* of a process's name, with its NUL */

void early_exit_write(char name[EARLY_EXIT_SIZE], int code);
/* The exit code, or -1: LEN bytes at TEXT (of /proc/PID/comm) are none. */
int early_exit_read(const char *text, size_t len);

#endif
