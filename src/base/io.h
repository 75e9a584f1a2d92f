/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_BASE_IO_H
#define VIAL_BASE_IO_H

/* Whole reads and writes. Descriptors made here are close-on-exec. */

#include <stddef.h>
#include <sys/types.h>

#include "base/str.h"

#include "vial/error.h"

/* 0, or -errno. */
int io_write_all(int fd, const void *data, size_t len);

/* Bytes read (short only at end of file), or -errno. */
ssize_t io_read_all(int fd, void *data, size_t len);

/* Reads a whole regular file or stream of at most MAX bytes; more is an error
 * that names PATH and MAX. */
int io_read_file(const char *path, size_t max, struct blob *out,
                 struct vial_error *err);
int io_read_fd(int fd, const char *name, size_t max, struct blob *out,
               struct vial_error *err);

/* Small kernel files: whole content into BUF, NUL-terminated, trailing newline
 * cut. Bytes, or -errno. */
ssize_t io_read_at(int dir_fd, const char *name, char *buf, size_t size);
int io_write_at(int dir_fd, const char *name, const char *text); /* 0 or -errno */

/* A file without a name, on a disk rather than in memory, where there is one; -1:
 * errno. */
int io_temp_file(void);

int io_set_nonblocking(int fd); /* 0 or -errno */

#endif
