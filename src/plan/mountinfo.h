/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_PLAN_MOUNTINFO_H
#define VIAL_PLAN_MOUNTINFO_H

/*
 * The table of mounts, as /proc/self/mountinfo tells (proc_pid_mountinfo(5)). A bind
 * mount shows one tree under two names; the rows' devices and roots tell which names
 * those are.
 */

#include <stddef.h>

#include "base/str.h"

#include "vial/error.h"

/* Borrowed from the table's text; escapes are decoded. */
struct mount_row {
    const char *device; /* "8:1" */
    const char *root;   /* what of the file system is shown */
    const char *point;  /* where */
    const char *type;
};

struct mount_table {
    struct blob text;
    struct mount_row *rows;
    size_t count;
};

int mountinfo_read(struct mount_table *out, struct vial_error *err);
/* Takes TEXT over. A line that does not fit is an error: it would go unjudged. */
int mountinfo_parse(struct mount_table *out, struct blob *text, struct vial_error *err);
void mountinfo_done(struct mount_table *table);
#define auto_mountinfo __attribute__((cleanup(mountinfo_done)))

/* The row that PATH lies on, or NULL. */
const struct mount_row *mountinfo_of(const struct mount_table *table, const char *path);

/* PATH, which lies on ROW, as it is called by way of OTHER; false: OTHER does not
 * show it. */
bool mountinfo_alias(const struct mount_row *row, const char *path,
                     const struct mount_row *other, struct str *out);

#endif
