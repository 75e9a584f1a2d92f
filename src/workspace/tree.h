/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_WORKSPACE_TREE_H
#define VIAL_WORKSPACE_TREE_H

/*
 * A directory tree that others may change at any moment, and may have filled with
 * traps. Every name is resolved beneath the root's descriptor, through no link and
 * onto no other file system; what is opened is asked what it is before it is used.
 * Paths are relative and plain; "" is the root itself.
 */

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/str.h"

/* A node is what a name stands for. */
struct node {
    char type; /* 'f' file, 'd' directory, 'l' link, 'w' whiteout, 'o' other, 0 none */
    unsigned mode; /* permissions only */
    uint64_t size;
    int64_t mtime_ns, ctime_ns;
    uint64_t ino, device;
};

/* A descriptor, or -errno. FLAGS as for open; O_CLOEXEC and O_NOFOLLOW are added. */
int tree_open(int root_fd, const char *path, int flags);
/* The directory PATH lies in; *NAME is its last part. A descriptor or -errno. */
int tree_open_parent(int root_fd, const char *path, const char **name);
/* A regular file to be read, and what it is (INTO may be NULL). -errno; -EISDIR
 * and the like when it is no file (any more). */
int tree_open_file(int root_fd, const char *path, struct node *into);
/* 0, with type 0 for what is not there; or -errno. */
int tree_look(int root_fd, const char *path, struct node *out);
/* Where a link points; NULL: it is none, or there is no memory. */
char *tree_link(int root_fd, const char *path);
/* The names in a directory, sorted. 0 or -errno. */
int tree_names(int root_fd, const char *path, struct strv *out);
/* Of two names, for qsort and bsearch. */
int tree_compare(const void *a, const void *b);
/* Removes PATH and all that is in it. 0, also when there was nothing; or -errno. */
int tree_remove(int root_fd, const char *path);

/* Appends "/NAME", or NAME where PATH is empty; returns the length before, for
 * tree_leave. */
size_t tree_enter(struct str *path, const char *name);
void tree_leave(struct str *path, size_t len);

/* True if PATH is DIR or lies below it; "" holds everything. */
bool tree_holds(const char *dir, const char *path);

/* One name from a tree to the same name in another. All return 0 or -errno. */

/* NODE is what it is in FROM_FD, which is read with our own rights; it is made in
 * TO_FD, where it is not yet, with those of ID. A directory is made empty, and open
 * to its owner; a file has its bytes, mode and time. */
int copy_node(int from_fd, int to_fd, const char *path, const struct node *node,
              uid_t id);

/* SIZE bytes, or as many as there are. */
int copy_bytes(int from, int to, uint64_t size);

/* True if both give the same bytes from where they are. */
bool copy_same(int a, int b);

int copy_time(int fd, const struct node *node);

/* PATH gets MODE; not through a link. */
int copy_mode(int root_fd, const char *path, unsigned mode);

#endif
