/* SPDX-License-Identifier: Apache-2.0 */
#include "serve/compiled.h"

#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "base/thread.h"
#include "model/request.h"

#define BYTES_MOST ((uint64_t)128 << 20)
#define MOST       256u
#define LOOK_MS    100 /* how late it is seen that a client has gone */

int compiled_cache_init(struct compiled_cache *c)
{
    thread_cond_init(&c->changed);
    return pthread_mutex_init(&c->lock, NULL) == 0 ? 0 : -1;
}

static void drop(struct compiled *p)
{
    vial_request_free(p->made);
    stage_done(&p->told);
    free(p);
}

void compiled_cache_done(struct compiled_cache *c)
{
    while (c->first) {
        struct compiled *next = c->first->next;

        drop(c->first);
        c->first = next;
    }
    (void)pthread_cond_destroy(&c->changed);
    (void)pthread_mutex_destroy(&c->lock);
}

/* With the lock held: forgets what is over the bounds, the oldest first, and frees what
 * nobody has any more. */
static void trim(struct compiled_cache *c)
{
    struct compiled **at = &c->first;
    uint64_t bytes = 0;
    unsigned count = 0;

    while (*at) {
        struct compiled *p = *at;

        bytes += p->bytes;
        if (p->state == COMPILED_READY && (++count > MOST || bytes > BYTES_MOST))
            p->forgotten = true;
        if (p->forgotten && p->users == 0) {
            *at = p->next;
            drop(p);
        } else {
            at = &p->next;
        }
    }
}

/* With the lock held: found, it is the newest again. */
static struct compiled *find(struct compiled_cache *c, const char *key)
{
    for (struct compiled **at = &c->first; *at; at = &(*at)->next) {
        struct compiled *p = *at;

        if (p->forgotten || strcmp(p->key, key) != 0)
            continue;
        *at = p->next;
        p->next = c->first;
        c->first = p;
        return p;
    }
    return NULL;
}

static struct compiled *add(struct compiled_cache *c, const char *key)
{
    struct compiled *p = calloc(1, sizeof(*p));

    if (!p)
        return NULL;
    memcpy(p->key, key, sizeof(p->key));
    p->users = 1;
    p->next = c->first;
    c->first = p;
    return p;
}

static bool is_gone(int fd)
{
    struct pollfd gone = { .fd = fd, .events = POLLIN };

    return fd >= 0 && poll(&gone, 1, 0) > 0;
}

struct compiled *compiled_take(struct compiled_cache *c, const char *key, int gone_fd)
{
    struct compiled *p;
    bool gone = false;

    (void)pthread_mutex_lock(&c->lock);
    p = find(c, key);
    if (!p) {
        p = add(c, key);
        (void)pthread_mutex_unlock(&c->lock);
        return p;
    }
    p->users++;
    while (p->state == COMPILED_IN_WORK && !gone) {
        thread_wait(&c->changed, &c->lock, LOOK_MS);
        gone = is_gone(gone_fd);
    }
    (void)pthread_mutex_unlock(&c->lock);
    if (!gone)
        return p;
    compiled_release(c, p);
    return NULL;
}

/* What its caller chose the size of. */
static uint64_t size_of(const struct vial_request *made)
{
    const struct strv *const lists[] = { &made->command, &made->args, &made->env,
                                         &made->outputs };
    uint64_t bytes = (uint64_t)request_amount(made, FIELD_ID_files) +
                     (uint64_t)request_amount(made, FIELD_ID_stdin);

    for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++)
        for (size_t n = 0; n < lists[i]->count; n++)
            bytes += strlen(lists[i]->items[n]) + 1;
    return bytes;
}

void compiled_made(struct compiled_cache *c, struct compiled *p, bool keep)
{
    (void)pthread_mutex_lock(&c->lock);
    p->state = COMPILED_READY;
    p->forgotten = !keep;
    p->bytes = p->told.out.len + p->told.err.len + sizeof(*p);
    p->bytes += p->made ? size_of(p->made) : 0;
    (void)pthread_cond_broadcast(&c->changed);
    (void)pthread_mutex_unlock(&c->lock);
}

void compiled_release(struct compiled_cache *c, struct compiled *p)
{
    (void)pthread_mutex_lock(&c->lock);
    p->users--;
    trim(c);
    (void)pthread_mutex_unlock(&c->lock);
}
