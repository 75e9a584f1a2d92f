/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_WORKSPACE_JOURNAL_H
#define VIAL_WORKSPACE_JOURNAL_H

/*
 * The record of a commit: what is to be done, in which tree, and how far it is. It
 * is locked by whoever carries it out, so that a record without a lock belongs to
 * nobody who lives.
 *
 *   begin: the tree and its staging directory are named
 *     -> ops -> apply: from here on the commit happens, by us or by a recovery
 *     -> done: all is in place; only the staging directory is left to remove
 *
 * A record is a text; what was not written whole does not count. One that is neither
 * whole nor cut off is bad: nobody knows what it stands for, so that it is put aside.
 */

#include <stdbool.h>
#include <stddef.h>

#include "base/str.h"
#include "workspace/tree.h"

#include "vial/error.h"

enum op_kind {
    OP_REMOVE = 'r', /* the file at PATH goes to KEPT */
    OP_RMDIR = 'd',  /* the empty directory at PATH goes */
    OP_PUT = 'p',    /* STAGED goes to PATH; what was there goes to KEPT */
    OP_MODE = 'c'    /* PATH gets MODE */
};

struct op {
    enum op_kind kind;
    char *path;
    unsigned staged, kept;      /* numbers of names in the staging directory; 0: none */
    unsigned mode, mode_before; /* of OP_MODE; of OP_RMDIR mode_before */
    struct node old;            /* type, ino, size and mtime of what was at PATH */
};

struct ops {
    struct op *items;
    size_t count, cap;
};

#define JOURNAL_BAD_MOST 16u

struct journal {
    int dir_fd;        /* of the records; owned */
    int fd;            /* this one, locked; owned */
    char name[32];     /* "c-…" */
    char stage[64];    /* name of the staging directory in the tree */
    char *root;        /* path of the tree */
    uint64_t dev, ino; /* and which directory that is */
    struct ops ops;
    bool apply, done;
    bool bad; /* somebody, or the disk, has changed it */
};

#define JOURNAL_NONE                                                                   \
    {                                                                                  \
        .dir_fd = -1, .fd = -1                                                         \
    }

/* A new record for the tree ROOT, on disk. */
int journal_begin(struct journal *j, const char *state, const char *root,
                  const struct node *node, struct vial_error *err);
/* Sticky: NULL without memory. PATH is copied. */
struct op *journal_add(struct journal *j, enum op_kind kind, const char *path);
int journal_apply(struct journal *j, struct vial_error *err);
int journal_done(struct journal *j, struct vial_error *err);
/* Removes the record. */
void journal_forget(struct journal *j);

/* Calls the record "bad-…", for a person to look at; of these JOURNAL_BAD_MOST are
 * kept, the latest. ERR says so. */
int journal_put_aside(struct journal *j, struct vial_error *err);
bool journal_is_aside(const char *name);

/* Reads the record NAME in DIR_FD. 1; 0 when somebody holds it or it is gone; -1. */
int journal_open(struct journal *j, int dir_fd, const char *name,
                 struct vial_error *err);

void journal_close(struct journal *j);
#define auto_journal __attribute__((cleanup(journal_close)))

#endif
