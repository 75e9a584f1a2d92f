/* SPDX-License-Identifier: Apache-2.0 */
#include "wires/wire_files.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/sys.h"
#include "wires/wires.h"

#define BYTES_EACH ((size_t)256 << 20) /* of one caller */
#define BYTES_ALL  ((size_t)1 << 30)
#define COUNT_EACH 10000u

int wire_files_init(struct wire_files *f)
{
    return pthread_mutex_init(&f->lock, NULL) == 0 ? 0 : -1;
}

static void drop(struct wire_file *file)
{
    free(file->name);
    blob_done(&file->content);
    free(file);
}

void wire_files_done(struct wire_files *f)
{
    while (f->first) {
        struct wire_file *next = f->first->next;

        drop(f->first);
        f->first = next;
    }
    (void)pthread_mutex_destroy(&f->lock);
}

/* With the lock held: those that nobody has used for so long go. */
static void forget_old(struct wire_files *f, int64_t age_ms)
{
    int64_t since_ns = clock_now_ns() - age_ms * 1000000;

    for (struct wire_file **at = &f->first; *at;) {
        struct wire_file *file = *at;

        if (file->used_ns < since_ns) {
            *at = file->next;
            drop(file);
        } else {
            at = &file->next;
        }
    }
}

/* With the lock held. */
static bool has_room(const struct wire_files *f, const char *owner, size_t len)
{
    size_t own = 0, all = 0, count = 0;

    for (const struct wire_file *file = f->first; file; file = file->next) {
        bool mine = strcmp(file->owner, owner) == 0;

        all += file->content.len;
        own += mine ? file->content.len : 0;
        count += mine;
    }
    return len <= BYTES_EACH && own + len <= BYTES_EACH && all + len <= BYTES_ALL &&
           count < COUNT_EACH;
}

static struct wire_file *make(const struct call *c, const char *name, const char *data,
                              size_t len)
{
    struct wire_file *file = calloc(1, sizeof(*file));

    if (!file)
        return NULL;
    sys_make_id('f', file->id);
    (void)snprintf(file->owner, sizeof(file->owner), "%s", c->who.name);
    file->used_ns = clock_now_ns();
    file->name = strdup(name);
    if (file->name && blob_set(&file->content, data, len) == 0)
        return file;
    drop(file);
    return NULL;
}

int wire_files_add(struct call *c, const char *name, const char *data, size_t len,
                   char *id)
{
    struct wire_files *f = &c->serve->wires->files;
    struct wire_file *file = make(c, name, data, len);
    bool room;

    if (!file)
        return -1;
    (void)snprintf(id, sizeof(file->id), "%s", file->id);
    (void)pthread_mutex_lock(&f->lock);
    forget_old(f, c->gen->settings->serve.wire_files_age);
    room = has_room(f, file->owner, len);
    if (room) {
        file->next = f->first;
        f->first = file;
    }
    (void)pthread_mutex_unlock(&f->lock);
    if (!room)
        drop(file);
    return room ? 0 : -1;
}

/* With the lock held: where C's file stands. */
static struct wire_file **find(struct call *c, const char *id)
{
    struct wire_files *f = &c->serve->wires->files;
    struct wire_file **at = &f->first;

    while (*at &&
           (strcmp((*at)->id, id) != 0 || strcmp((*at)->owner, c->who.name) != 0))
        at = &(*at)->next;
    return at;
}

size_t wire_files_len(struct call *c, const char *id)
{
    struct wire_files *f = &c->serve->wires->files;
    const struct wire_file *file;
    size_t len;

    (void)pthread_mutex_lock(&f->lock);
    file = *find(c, id);
    len = file ? file->content.len : 0;
    (void)pthread_mutex_unlock(&f->lock);
    return len;
}

int wire_files_get(struct call *c, const char *id, struct blob *out, char **name)
{
    struct wire_files *f = &c->serve->wires->files;
    struct wire_file *file;
    int rc = -1;

    (void)pthread_mutex_lock(&f->lock);
    file = *find(c, id);
    if (file) {
        file->used_ns = clock_now_ns();
        rc = blob_set(out, file->content.data, file->content.len);
        if (name)
            *name = strdup(file->name);
    }
    (void)pthread_mutex_unlock(&f->lock);
    return rc;
}

bool wire_files_remove(struct call *c, const char *id)
{
    struct wire_files *f = &c->serve->wires->files;
    struct wire_file **at;
    struct wire_file *file;

    (void)pthread_mutex_lock(&f->lock);
    at = find(c, id);
    file = *at;
    if (file)
        *at = file->next;
    (void)pthread_mutex_unlock(&f->lock);
    if (file)
        drop(file);
    return file != NULL;
}

json_t *wire_files_list(struct call *c)
{
    struct wire_files *f = &c->serve->wires->files;
    json_t *list = json_object();

    (void)pthread_mutex_lock(&f->lock);
    for (const struct wire_file *file = f->first; file; file = file->next)
        if (strcmp(file->owner, c->who.name) == 0)
            (void)json_object_set_new(list, file->id, json_string(file->name));
    (void)pthread_mutex_unlock(&f->lock);
    return list;
}
