/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_BASE_PATH_H
#define VIAL_BASE_PATH_H

/* Paths as text, and looking programs up. Nothing here decides security by
 * string comparison; that is done with descriptors (sys_openat2). */

#include <stdbool.h>
#include <stddef.h>

#include "vial/error.h"

/* "a/b" below "/d" -> "/d/a/b"; malloc'ed, NULL without memory. */
char *path_join(const char *dir, const char *name);

/* Lexically: no "..", "." or empty component, not absolute, every component
 * <= 255 bytes, no NUL, whole path < 4096 bytes. */
bool path_is_plain_relative(const char *path, size_t len);

/* Lexically: absolute, no ".." or "." component, no double slash. */
bool path_is_clean_absolute(const char *path);

/* True if PATH equals DIR or lies below it, lexically. Both absolute. */
bool path_is_beneath(const char *path, const char *dir);

/* The search path for programs inside vessels. */
#define PATH_SEARCH "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

/* Finds an executable NAME along SEARCH ("a:b:c"); with a slash in it, NAME
 * itself. malloc'ed, or NULL when there is none. */
char *path_find_program(const char *name, const char *search);

/* How many bytes of the absolute DIR name the repository that it lies in (the nearest
 * directory that holds ".git"); 0: it lies in none. */
size_t path_repository(const char *dir);

/* The directory this program's own file lies in; malloc'ed or NULL. */
char *path_self_dir(void);
/* A program of vial's own: beside this one, as in a build tree, or where vial was
 * installed. malloc'ed or NULL. */
char *path_own_program(const char *name);

/* "image/png" and so on, by a name's ending. Static storage. */
const char *path_media(const char *path);

#endif
