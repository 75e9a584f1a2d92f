/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_AUDIT_LOG_FILES_H
#define VIAL_AUDIT_LOG_FILES_H

/* The files of a log: its head, and the order of the older ones. */

#include "audit/audit.h"

#define AUDIT_AHEAD 1u /* records that the head may not know yet */

/* The contents of the head file. */
struct head {
    struct audit_mark newest;
    uint64_t size;       /* of the newest file, behind the newest record */
    uint64_t first;      /* number of the oldest record kept */
    unsigned file;       /* how many older files there have been */
    unsigned first_file; /* number of the oldest one kept, or FILE + 1 */
};

/* An empty head file is a log without records. */
int head_read(int fd, const char *path, struct head *out, struct vial_error *err);
int head_write(int fd, const struct head *head); /* 0 or -errno */

/* "PATH.000001"; malloc'ed, NULL without memory. */
char *older_name(const char *path, unsigned number);
char *head_name(const char *path);

/* Lines of one file, from *AT on. SEE also gets where the line begins; what stands
 * behind the last newline is not a line, and *AT is where it begins afterwards. */
typedef int line_see(void *context, const char *line, size_t len, uint64_t offset);
int lines_read(int fd, const char *path, uint64_t *at, line_see *see, void *context,
               struct vial_error *err);

void line_hash(const char *line, size_t len, char out[65]);

#endif
