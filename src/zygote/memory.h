/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_ZYGOTE_MEMORY_H
#define VIAL_ZYGOTE_MEMORY_H

/*
 * The memory that a short program needs, from its first line to its end. A forked
 * process pays for each page as it first touches it; a child that waits has time to
 * pay before. Which pages they are is learned from a child that runs such a program
 * in the zygote's own place, and is then looked at.
 */

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define PAGES_MAX 2048u /* ranges */
/* The kernel maps so much of a file at once. */
#define PAGES_AROUND (UINT64_C(64) << 10)

struct page_range {
    uint64_t start, len; /* bytes */
    uint64_t written;    /* 1: of its own, 0: read from a file */
};

struct pages {
    struct page_range at[PAGES_MAX];
    size_t count;
};

/* In the zygote: what that child has of its own, and what it read. */
void pages_look(struct pages *p, int proc_fd, pid_t pid);
/* In the zygote: leaves out what other children will not have. */
void pages_keep(struct pages *p);
/* In a child that waits. */
void pages_touch(const struct pages *p);

/*
 * The free room between what a zygote holds. A child that took its memory there would
 * copy a page, or two, for nearly each piece. So the zygote takes all of it, for ever,
 * and what a child asks for lies together, at the end.
 */

/* When the zygote has all it will have. */
void holes_fill(void);

#endif
