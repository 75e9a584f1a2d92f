/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_CLI_BRING_H
#define VIAL_CLI_BRING_H

/*
 * Writes the files that a run brought back. The caller's directory is the
 * caller's own, but the content is hostile: it replaces a regular file or makes
 * one, never more, and never through a symbolic link. Directories are opened before
 * the run: a program that has one of them as its workspace could put a link in the
 * place of another.
 *
 *   bring_open -> the run -> bring_files -> bring_close
 */

#include "cli/cli.h"

/* Of one --out NAME:HOSTPATH. */
struct bring_place {
    int fd;           /* a directory; -1: no place was given */
    const char *name; /* the file's in it, borrowed; NULL: the one it had inside */
};

struct bring {
    struct bring_place *places; /* one per option given */
    size_t count;
};

/* OUT is to be closed even after a failure. */
int bring_open(const struct cli *cli, struct bring *out, struct vial_error *err);
void bring_close(struct bring *b);
#define auto_bring __attribute__((cleanup(bring_close)))

/* A file that the run did not make is reported and no failure. STATUS_OK, or
 * STATUS_VIAL when one could not be written. */
int bring_files(const struct cli *cli, const struct bring *b,
                const struct vial_result *result);

#endif
