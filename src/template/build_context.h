/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_TEMPLATE_BUILD_CONTEXT_H
#define VIAL_TEMPLATE_BUILD_CONTEXT_H

/*
 * The directory that a template copies files from. It is listed once, by descriptors
 * and without following a link, so that no name leads out of it. What .vialignore says
 * (or .dockerignore, where there is none) is left out.
 *
 *   context_open -> context_pick* -> context_done
 */

#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

#include "base/str.h"

#include "vial/error.h"

struct context_entry {
    char *path;   /* below the directory */
    char type;    /* 'f' file, 'd' directory, 'l' link */
    char *target; /* of a link */
    unsigned mode;
    uint64_t size;
    struct stat seen; /* of a file: what it was when the context was listed */
};

struct context {
    int fd;
    struct context_entry *items; /* sorted by path */
    size_t count, room;
};
#define CONTEXT_NONE                                                                   \
    {                                                                                  \
        .fd = -1                                                                       \
    }

int context_open(const char *dir, struct context *out, struct vial_error *err);
void context_done(struct context *c);
#define auto_context __attribute__((cleanup(context_done)))

/* What one source of COPY means. */
struct picked {
    const struct context_entry *entry; /* borrowed */
    const char *below; /* its name below the destination, borrowed from the entry */
};

struct picks {
    struct picked *items;
    size_t count;
    bool tree; /* the destination is a directory: there is one among the sources, or
                  several files */
};

/* Adds what SOURCE, a path or a pattern, picks; refuses one that picks nothing. */
int context_pick(const struct context *c, const char *source, struct picks *out,
                 struct vial_error *err);
void picks_done(struct picks *p);
#define auto_picks __attribute__((cleanup(picks_done)))

/* One of its files, to be read; -1 with ERR filled. Refused when it is no longer what
 * was listed, or lies behind a link by now. */
int context_read(const struct context *c, const struct context_entry *e,
                 struct vial_error *err);

/* Refuses FD, E's file, if it has changed since it was listed: what is copied is what
 * was hashed. */
int context_check(const struct context_entry *e, int fd, struct vial_error *err);

/* A digest of names, kinds, modes and bytes. */
int picks_digest(const struct context *c, const struct picks *p, char out[65],
                 struct vial_error *err);

#endif
