/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_IMAGES_FETCH_ATTRIBUTES_H
#define VIAL_IMAGES_FETCH_ATTRIBUTES_H

/* Mode, owner, time and extended attributes of a file, from an archive or a layer. */

#include <archive.h>
#include <archive_entry.h>
#include <stdbool.h>
#include <sys/stat.h>
#include <time.h>

#include "vial/error.h"

#define ATTRIBUTES_MAX   64
#define ATTRIBUTES_BYTES (64u << 10)

struct attributes {
    mode_t mode;
    uid_t uid;
    gid_t gid;
    struct timespec mtime;
    struct archive_entry *entry; /* whose extended attributes; borrowed; or NULL */
    int like_fd;                 /* a directory with them, where there is no entry; 0:
                                    none. Closed by attributes_set */
};

/* Refuses owners and amounts beyond the bounds. PATH is for messages. */
int attributes_read(struct archive_entry *e, const char *path, struct attributes *out,
                    struct vial_error *err);

/* Of DIR_FD/NAME, whose ST is known. 0 or -1 and errno. */
int attributes_of(int dir_fd, const char *name, const struct stat *st,
                  struct attributes *out);

/* All but the time. OWNERS: as they are; else everything is ours. 0, or -1 and errno.
 */
int attributes_set(int fd, const struct attributes *a, bool owners);

/* Of FD, or of FD/NAME itself. */
int attributes_set_time(int fd, const char *name, struct timespec mtime);

/* Whether an extended attribute of that name is taken along. */
bool attributes_keep(const char *name);

#endif
