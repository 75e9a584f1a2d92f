/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_SERVE_FILE_WATCH_H
#define VIAL_SERVE_FILE_WATCH_H

/*
 * Notices that the file of tokens, the certificate or its key is another one than it
 * was: written anew, renamed over, or behind a link that leads elsewhere now, as a
 * cluster does with its secrets.
 */

#include <stdbool.h>
#include <sys/stat.h>

#include "settings/settings.h"

#define WATCH_FILES 3

struct file_watch {
    struct stat seen[WATCH_FILES]; /* all zero: it could not be looked at */
};

/* Remembers what there is now. */
void file_watch_begin(struct file_watch *w, const struct serve_settings *s);

/* Whether something has changed since, and remembers what there is now. A file that is
 * not there has not changed: who replaces files may remove one first. */
bool file_watch_changed(struct file_watch *w, const struct serve_settings *s);

#endif
