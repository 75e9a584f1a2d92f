/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_BASE_TAR_H
#define VIAL_BASE_TAR_H

/*
 * Headers of tar archives: ustar, with pax records for what does not fit. Pure:
 * the caller moves the bytes. Only files and directories are written.
 *
 *   archive: { header, content padded to TAR_BLOCK }*, two blocks of zeros
 */

#include <stdint.h>

#include "base/str.h"

#include "vial/error.h"

#define TAR_BLOCK 512u
#define TAR_EXTRA (64u << 10) /* the most a pax or long-name record may hold */

struct tar_entry {
    char *path; /* owned by the reader, borrowed by the writer */
    char type;  /* '0' file, '5' directory; the reader gives others as they are */
    unsigned mode;
    uint64_t size;
    int64_t mtime; /* seconds */
};

/* Appends the header blocks of E. */
void tar_write(struct str *out, const struct tar_entry *e);
void tar_write_end(struct str *out);

/* Blocks are fed one after the other: tar_step says what the block was. */
enum tar_kind {
    TAR_ENTRY, /* READER's entry is complete; its content follows */
    TAR_MORE,  /* `entry.size` bytes follow, padded, which tar_extra takes */
    TAR_SKIP,  /* `entry.size` bytes follow that mean nothing to us */
    TAR_END,
    TAR_BAD /* not a header; err is filled */
};

struct tar_reader {
    struct tar_entry entry;
    char extra;      /* 'x' or 'L': what the bytes that follow are */
    char *next_path; /* from a record before; owned */
    bool has_size;   /* likewise */
    uint64_t next_size;
};

enum tar_kind tar_step(struct tar_reader *r, const char *block, struct vial_error *err);
/* The record announced by TAR_MORE. */
int tar_extra(struct tar_reader *r, const char *data, size_t len,
              struct vial_error *err);
void tar_done(struct tar_reader *r);

#endif
