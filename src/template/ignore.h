/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_TEMPLATE_IGNORE_H
#define VIAL_TEMPLATE_IGNORE_H

/* What a context leaves out: a pattern a line; "!" takes one back, "#" is a comment,
 * and a leading "**" stands for any directory, or none. */

#include <stdbool.h>

#include "base/str.h"

#include "vial/error.h"

struct ignore {
    struct strv patterns;
    bool takes_back; /* there is a "!" among them */
};

/* Reads .vialignore, else .dockerignore of the directory DIR_FD, if there is one. */
int ignore_read(int dir_fd, struct ignore *out, struct vial_error *err);
bool ignore_matches(const struct ignore *i, const char *path);
void ignore_done(struct ignore *i);
#define auto_ignore __attribute__((cleanup(ignore_done)))

#endif
