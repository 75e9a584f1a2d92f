/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_CLI_BATCH_FILES_H
#define VIAL_CLI_BATCH_FILES_H

/*
 * Where a batch's rows come from and go to: a file, a pipe, a directory of programs;
 * names that end in .gz are read and written through the host's gzip.
 */

#include <stdbool.h>
#include <stdio.h>
#include <sys/types.h>

#include "settings/settings.h"

#include "vial/error.h"

struct batch_files {
    FILE *in;
    int out_fd;             /* -1: none */
    pid_t unpacker, packer; /* gzip; 0: none */
};

/* PATH NULL or "-": standard input. SETTINGS know the languages of a directory's files.
 */
int batch_files_in(struct batch_files *f, const char *path,
                   const struct settings *settings, struct vial_error *err);
/* PATH NULL: standard output. A file that is there is not written over. */
int batch_files_out(struct batch_files *f, const char *path, bool resume,
                    struct vial_error *err);
/* -1: gzip could not read or write all of it. */
int batch_files_close(struct batch_files *f, struct vial_error *err);

#endif
