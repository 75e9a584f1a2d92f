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

/* Behind each stands the member of struct step that it has, if any. */
enum step_op {
    OP_CLOSE,    /* fd */
    OP_LEASH,    /* fd: as OP_CLOSE; -1: there is none */
    OP_JOIN,     /* slot: the cgroup whose list of processes is open there, or none */
    OP_WAIT,     /* slot: until the parent's word; descriptors that come with it go to
                    slots from there on */
    OP_SET_IDS,  /* ids; groups emptied unless STEP_KEEP_GROUPS */
    OP_PDEATH,   /* die with the thread that made us */
    OP_PRIVATE,  /* no mount event leaves or enters */
    OP_MOUNT,    /* mount */
    OP_BIND,     /* bind */
    OP_OPEN,     /* open */
    OP_TREE,     /* tree: a copy of what is open in the slot takes its place */
    OP_ATTACH,   /* attach: the detached mount in the slot, inside the new root */
    OP_COVER,    /* attach: the same, in the old one */
    OP_DETACH,   /* path: the mount there */
    OP_GIVE,     /* path: the directory, to the parent */
    OP_ATTR,     /* attr */
    OP_SEAL,     /* attr: the same, and on all below, which alone become read-only */
    OP_MKDIR,    /* dir */
    OP_OWN,      /* owner */
    OP_SYMLINK,  /* link */
    OP_LINK,     /* link: a file of two names */
    OP_FILE,     /* file */
    OP_COPY,     /* copy */
    OP_CHDIR,    /* path */
    OP_FCHDIR,   /* slot */
    OP_PIVOT,    /* the current directory becomes the root; the old one lies on it */
    OP_WRITE,    /* file: content into a file of procfs */
    OP_HOSTNAME, /* name */
    OP_LOOPBACK, /* slot: up; its namespace goes there, unless it is 0 */
    OP_ROUTE,    /* range: its addresses are this network's own */
    OP_UNSHARE,  /* spaces */
    OP_SPLIT,    /* count: the twin takes so many steps; the child goes on behind */
    OP_MEET,     /* until the twin is done, and gone */
    OP_ENTER,    /* enter */
    OP_KEYRING,  /* a new empty session keyring */
    OP_BOUND,    /* caps: become these, and no exec gives more */
    OP_STREAM,   /* fd becomes SCRIPT_STREAM, 0 to 2 and all else close */
    OP_EXEC      /* exec: the guest */
};

enum step_flag {
    STEP_OPTIONAL = 1,      /* failure is told to the parent and the walk goes on */
    STEP_EXIST_OK = 2,      /* EEXIST is success */
    STEP_MISSING_OK = 4,    /* ENOENT is success */
    STEP_KEEP_GROUPS = 8,   /* setgroups is not ours to call */
    STEP_READ_ONLY_OK = 16, /* EROFS is success: it may be there already */
    STEP_TRIED = 32,        /* some hosts cannot; trial.c tries the same */
    STEP_NEW_PRIVS = 64,    /* a later exec may give what the caps have */
};

/* Descriptors that the child itself made, or was sent, have their places in slots. */
#define SCRIPT_SLOTS  64
#define SCRIPT_STREAM 3 /* where the guest finds its stream */

/* Attributes are mount_setattr's. A path is looked up as the child has its root and
 * its current directory by then. */
struct step {
    uint8_t op;
    uint8_t flags;
    union {
        int fd; /* of the parent's, the same number in the child */
        unsigned slot;
        unsigned count;
        uint64_t spaces; /* CLONE_NEW* */
        uint64_t caps;   /* 1 << CAP_* */
        const char *path, *name;
        struct {
            unsigned uid, gid;
        } ids;
        struct {
            const char *source, *target, *type, *data;
            unsigned long flags; /* mount's */
        } mount;
        struct {
            const char *source, *target;
            uint64_t attributes; /* 0: as the source has them */
            bool recursive;
        } bind;
        struct {
            const char *path;
            uint64_t dev, ino; /* of what was judged: only that will do */
            unsigned slot;
        } open;
        struct {
            const char *source; /* for messages */
            uint64_t attributes;
            unsigned slot;
        } tree;
        struct {
            const char *target;
            unsigned slot;
        } attach;
        struct {
            const char *path;
            uint64_t attributes;
        } attr;
        struct {
            const char *path;
            unsigned mode;
        } dir;
        struct {
            const char *path;
            unsigned id; /* user and group */
        } owner;
        struct {
            const char *to, *path;
        } link;
        struct {
            const char *path, *content; /* NULL: empty */
            unsigned mode;
        } file;
        struct {
            const char *from, *to;
            size_t most; /* bytes */
        } copy;
        struct {
            uint8_t address[16];
            uint8_t size, bits; /* bytes of the address, and what counts of it */
        } range;
        struct {
            unsigned slot;
            uint64_t space;
        } enter;
        struct {
            const char *name;       /* argv[0], or NULL */
            const char *const *env; /* NULL: none */
            int fd;
        } exec;
    };
};

struct script {
    size_t count, cap; /* steps */
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

/* The child's report through its control socket; nothing at all means that the guest's
 * exec happened. */
struct script_report {
    uint32_t step;
    int32_t error;    /* errno */
    uint32_t ongoing; /* 1: an optional step, or a gift; more may come */
};

/* Room for so many steps and bytes of text, used or not: what is not touched costs
 * nothing. NULL: no memory. */
struct script *script_new(size_t steps, size_t text, bool sharing);
/* Appends STEP and returns it; a scratch one after a failure. */
struct step *script_add(struct script *s, struct step step);
__attribute__((format(printf, 2, 3))) const char *script_text(struct script *s,
                                                              const char *format, ...);
/* One step as a line, for messages and golden tests. */
void script_describe(const struct step *step, struct str *out);
void script_free(struct script *s);
AUTO(script, struct script, script_free)
#define auto_script __attribute__((cleanup(auto_script_)))

#endif
