/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_AUDIT_AUDIT_H
#define VIAL_AUDIT_AUDIT_H

/*
 * An append-only log of what was asked and what became of it: one JSON object a
 * line, each with the hash of the line before it. Several processes may write to
 * one log; each append happens under a lock.
 *
 *   PATH          the lines being written
 *   PATH.000001   older files, in order; the chain goes through them
 *   PATH.head     one line: number, place and hash of the newest record
 *
 * A line that was edited, removed or moved breaks the chain; lines cut off at the
 * end are missing from what the head says. Whoever can write both files can forge
 * both. An anchor shows that too: the mark of a record, kept where they cannot write.
 * It vouches for that record and all before it, and for none after it.
 */

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/auto.h"
#include "base/str.h"

#include "vial/error.h"

#define AUDIT_LINE_MAX ((size_t)32 << 10) /* bytes of one record */

struct audit;

/* Zero-initialise but for the path. */
struct audit_options {
    const char *path;
    uint64_t rotate_bytes; /* a new file beyond this; 0: 64 MiB */
    unsigned keep_files;   /* older files kept; 0: all */
    bool lazy;             /* the kernel writes when it likes: a power cut may lose
                              records, which are then missing from the head too */
};

/* Makes the files if need be (mode 0600, no link is followed). What a writer that
 * died left half written is cut off, and a record says so. */
int audit_open(const struct audit_options *options, struct audit **out,
               struct vial_error *err);
void audit_close(struct audit *audit); /* NULL is allowed */
AUTO(audit, struct audit, audit_close)
#define auto_audit __attribute__((cleanup(auto_audit_)))

/* Appends RECORD, an object, with "seq", "time" and "prev" in front. Once this
 * has returned 0 the record is on disk, unless the log is lazy. Thread-safe. */
int audit_append(struct audit *audit, json_t *record, struct vial_error *err);

/* Makes sure that there is room for the records of COUNT runs, so that what is
 * begun can also be recorded. VIAL-AUDIT when there is none. */
int audit_reserve(struct audit *audit, unsigned count, struct vial_error *err);

/* The newest record: its number, and the hash of its line. */
struct audit_mark {
    uint64_t seq; /* 0: there is none yet */
    char hash[65];
};

struct audit_report {
    uint64_t first, records; /* number of the oldest one kept; how many were read */
    unsigned files;
    struct audit_mark newest;
    bool whole;        /* nothing is wrong */
    char problem[256]; /* what is, and where */
};

/* Reads the whole log and checks it. Fails only when it cannot be read. With
 * ANCHOR, a mark kept from earlier, that record must still be there. */
int audit_verify(const char *path, const struct audit_mark *anchor,
                 struct audit_report *out, struct vial_error *err);

/* Gives every line to SEE, oldest first, without checking. A return other than 0
 * ends it. */
typedef int audit_see(void *context, const char *line, size_t len);
int audit_read(const char *path, audit_see *see, void *context, struct vial_error *err);

/* TEXT with what looks like a secret replaced by "[redacted]": values of names
 * like PASSWORD or API_KEY, bearer tokens, keys of well-known services, private
 * key blocks, passwords in URLs. The one place where this is done. */
void audit_redact(struct str *out, const char *text, size_t len);

#endif
