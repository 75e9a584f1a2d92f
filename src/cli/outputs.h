/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_CLI_OUTPUTS_H
#define VIAL_CLI_OUTPUTS_H

/*
 * Writes the files that a run brought back. The caller's directory is the
 * caller's own, but the content is hostile: it replaces a regular file or makes
 * one, never more, and never through a symbolic link. Directories are opened before
 * the run: a program that has one of them as its workspace could put a link in the
 * place of another.
 *
 *   outputs_open -> the run -> outputs_files -> outputs_close
 */

#include "cli/cli.h"

/* Of one --out NAME:HOSTPATH. */
struct outputs_place {
    int fd;           /* a directory; -1: no place was given */
    const char *name; /* the file's in it, borrowed; NULL: the one it had inside */
};

struct outputs {
    struct outputs_place *places; /* one per option given */
    size_t count;
};

/* OUT is to be closed even after a failure. */
int outputs_open(const struct cli *cli, struct outputs *out, struct vial_error *err);
void outputs_close(struct outputs *b);
#define auto_outputs __attribute__((cleanup(outputs_close)))

/* A file that the run did not make is reported and no failure. STATUS_OK, or
 * STATUS_VIAL when one could not be written. */
int outputs_files(const struct cli *cli, const struct outputs *b,
                  const struct vial_result *result);

#endif
