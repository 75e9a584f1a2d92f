/* SPDX-License-Identifier: Apache-2.0 */
#include "serve/file_watch.h"

#include <stddef.h>

static bool is_same(const struct stat *a, const struct stat *b)
{
    return a->st_dev == b->st_dev && a->st_ino == b->st_ino &&
           a->st_size == b->st_size && a->st_mtim.tv_sec == b->st_mtim.tv_sec &&
           a->st_mtim.tv_nsec == b->st_mtim.tv_nsec;
}

bool file_watch_changed(struct file_watch *w, const struct serve_settings *s)
{
    const char *const files[WATCH_FILES] = { s->tokens, s->tls_cert, s->tls_key };
    bool changed = false;

    for (size_t i = 0; i < WATCH_FILES; i++) {
        struct stat now;

        if (!files[i] || stat(files[i], &now) < 0 || is_same(&w->seen[i], &now))
            continue;
        w->seen[i] = now;
        changed = true;
    }
    return changed;
}

void file_watch_begin(struct file_watch *w, const struct serve_settings *s)
{
    *w = (struct file_watch){ 0 };
    (void)file_watch_changed(w, s);
}
