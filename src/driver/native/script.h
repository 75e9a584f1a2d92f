/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_DRIVER_NATIVE_SCRIPT_H
#define VIAL_DRIVER_NATIVE_SCRIPT_H

/*
 * The child's life as data. The parent compiles a plan into a flat list of
 * steps, each one system call or a tiny fixed sequence; the child (child.c)
 * walks it and does nothing else. Strings are the script's own, or older than the
 * child.
 *
 * Where the child lives in our memory it can have a twin, which shares its descriptors
 * and namespaces, walks a few steps beside it, and ends.
 *
 * The script lies in memory that parent and child share: a child can be walking its
 * first steps while the later ones are still being written, as long as an OP_WAIT
 * stands between them.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/auto.h"
#include "base/str.h"
#include "driver/native/raw.h"

enum step_op {
    OP_CLOSE,    /* fd */
    OP_LEASH,    /* fd: as OP_CLOSE; -1: there is none */
    OP_WRITE_FD, /* fd: write A there */
    OP_WAIT,     /* until the parent's word; descriptors that come with it go to
                    slots from X on */
    OP_SET_IDS,  /* X uid, Y gid; groups emptied unless STEP_KEEP_GROUPS */
    OP_PDEATH,   /* die with the thread that made us */
    OP_PRIVATE,  /* no mount event leaves or enters */
    OP_MOUNT,    /* A source, B target, C type, D data, X flags */
    OP_BIND,     /* A onto B with attributes X, or A's own; Y 1: with all below */
    OP_OPEN,     /* A, if it is still device X, inode Y -> SLOT */
    OP_TREE,     /* fd: a copy of what it names, with attributes X -> SLOT */
    OP_ATTACH,   /* fd: a detached mount, onto B inside the new root */
    OP_COVER,    /* fd: the same, onto B of the old one */
    OP_DETACH,   /* the mount at A */
    OP_GIVE,     /* the directory A to the parent */
    OP_ATTR,     /* attributes X on the mount at A */
    OP_SEAL,     /* the same, and on all below, which alone become read-only */
    OP_MKDIR,    /* A, mode X */
    OP_OWN,      /* A: owner X, group X */
    OP_SYMLINK,  /* A at B */
    OP_LINK,     /* the file A at B as well */
    OP_FILE,     /* A with content B, mode X */
    OP_COPY,     /* regular file A to B, at most X bytes */
    OP_CHDIR,    /* A, or fd */
    OP_PIVOT,    /* the current directory becomes the root; the old one lies on it */
    OP_WRITE,    /* B into the file A of procfs */
    OP_HOSTNAME, /* A */
    OP_LOOPBACK, /* up; its namespace -> SLOT */
    OP_UNSHARE,  /* X */
    OP_SPLIT,    /* the next X steps are the twin's; the child goes on behind them */
    OP_MEET,     /* until the twin is done, and gone */
    OP_ENTER,    /* fd: a namespace of kind X */
    OP_KEYRING,  /* a new empty session keyring */
    OP_BOUND,    /* capabilities become X, and no exec gives more */
    OP_STREAM,   /* fd becomes WIRE_FD, 0 to 2 and all else close */
    OP_EXEC      /* fd: the guest */
};

enum step_flag {
    STEP_OPTIONAL = 1,      /* failure is told to the parent and the walk goes on */
    STEP_EXIST_OK = 2,      /* EEXIST is success */
    STEP_MISSING_OK = 4,    /* ENOENT is success */
    STEP_KEEP_GROUPS = 8,   /* setgroups is not ours to call */
    STEP_READ_ONLY_OK = 16, /* EROFS is success: it may be there already */
    STEP_TRIED = 32,        /* some hosts cannot; trial.c tries the same */
};

/* A descriptor that the child itself made: SLOT + n. */
#define SCRIPT_SLOT   0x100000
#define SCRIPT_SLOTS  64
#define SCRIPT_STREAM 3 /* where the guest finds its stream */

struct step {
    uint8_t op;
    uint8_t flags;
    uint16_t slot;
    int fd;
    const char *a, *b, *c, *d;
    uint64_t x, y;
};

struct script {
    char plan_id[32];   /* whose it is, where it is kept (script_cache.h) */
    int64_t written_ns; /* when it was new */
    bool whole;         /* all its steps are written */
    size_t count, cap;  /* steps */
    size_t text_len, text_cap;
    bool failed;    /* sticky: no room */
    bool unhurried; /* nobody waits for it */
    bool own_pids;  /* numbers of processes are the vessel's own, always but in tests */
    bool sharing;   /* the child lives in our memory, on STACK */
    struct step scratch;
    _Alignas(16) unsigned char stack[RAW_STACK];      /* the child's */
    _Alignas(16) unsigned char twin_stack[RAW_STACK]; /* its twin's */
    struct step steps[];                              /* then the texts */
};

/* What the child tells through its control socket; nothing at all means that
 * the guest's exec happened. */
struct script_report {
    uint32_t step;
    int32_t error;    /* errno */
    uint32_t ongoing; /* 1: an optional step, or a gift; more may come */
};

/* Room for so many steps and bytes of text, used or not: what is not touched costs
 * nothing. NULL: no memory. */
struct script *script_new(size_t steps, size_t text, bool sharing);
/* Other descriptors in place of those that the steps named like these have. */
struct script_fds {
    int close, leash, stream, exec;
};
void script_rebind(struct script *s, const struct script_fds *fds);
/* Appends a zeroed step and returns it; a scratch one after a failure. */
struct step *script_add(struct script *s, enum step_op op);
/* The same with what most steps have. */
struct step *script_path(struct script *s, enum step_op op, const char *a,
                         const char *b, uint64_t x);
__attribute__((format(printf, 2, 3))) const char *script_text(struct script *s,
                                                              const char *format, ...);
const char *script_op_name(unsigned op);
/* One step as a line, for messages and golden tests. */
void script_describe(const struct step *step, struct str *out);
void script_free(struct script *s);
AUTO(script, struct script, script_free)
#define auto_script __attribute__((cleanup(auto_script_)))

#endif
