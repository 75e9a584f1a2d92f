/* SPDX-License-Identifier: Apache-2.0 */
#include "driver/native/shared.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/str.h"
#include "driver/native/launch.h"
#include "driver/native/native.h"

#define HOST_NS INT64_C(1000000000)

static void open_base(struct native_shared *s)
{
    if (cgroup_open_base(&s->base) < 0 || s->base.error ||
        cgroup_name(&s->base, "") < 0) {
        cgroup_close(&s->base);
        return;
    }
    janitor_start_for_all(&s->janitor, &s->base);
}

struct native_shared *native_shared_open(int guest_fd)
{
    struct native_shared *s = calloc(1, sizeof(*s));

    if (!s)
        return NULL;
    s->guest_fd = launch_seal(guest_fd);
    s->janitor = JANITOR_NONE;
    (void)pthread_mutex_init(&s->lock, NULL);
    open_base(s);
    return s;
}

struct host *native_shared_host(struct native_shared *s, struct vial_error *err)
{
    struct host *h = NULL;

    (void)pthread_mutex_lock(&s->lock);
    if (s->host && clock_now_ns() - s->host->read_ns >= HOST_NS) {
        host_drop(s->host);
        s->host = NULL;
    }
    if (!s->host)
        s->host = host_read(err);
    if (s->host)
        h = host_hold(s->host);
    (void)pthread_mutex_unlock(&s->lock);
    return h;
}

/* It may have been killed, or have found no descriptor free at its beginning. Seen by
 * its leash, since a keeper's wardens are not its parent. */
static bool is_alive(const struct janitor *j)
{
    struct pollfd leash = { .fd = j->leash_fd };

    return j->leash_fd >= 0 && poll(&leash, 1, 0) == 0;
}

bool native_shared_tend(const struct native_shared *s)
{
    return s && is_alive(&s->janitor);
}

/* It begins at once. Its room is ours again when it has ended. */
static void clear_after(struct native_shared *s, pid_t pid)
{
    struct native_stray *stray = calloc(1, sizeof(*stray));
    struct cgroup base = s->base;
    size_t len = strlen(base.name);

    if (!stray)
        return;
    (void)snprintf(base.name + len, sizeof(base.name) - len, "%d-", (int)pid);
    janitor_start_for_all(&stray->janitor, &base);
    if (stray->janitor.leash_fd < 0) {
        free(stray);
        return;
    }
    (void)close(stray->janitor.leash_fd);
    stray->janitor.leash_fd = -1;
    stray->next = s->strays;
    s->strays = stray;
}

/* Whether PID was one of those, which is forgotten then. */
static bool forget_stray(struct native_shared *s, pid_t pid)
{
    struct native_stray **at = &s->strays;
    struct native_stray *found;

    while (*at && (*at)->janitor.pid != pid)
        at = &(*at)->next;
    found = *at;
    if (!found)
        return false;
    *at = found->next;
    free(found->janitor.room);
    free(found);
    return true;
}

void native_shared_ended(struct native_shared *s, pid_t pid, bool well)
{
    if (pid == s->janitor.pid) {
        free(s->janitor.room);
        janitor_release(&s->janitor);
        return;
    }
    if (!forget_stray(s, pid) && !well && s->base.kind == CGROUP_V1)
        clear_after(s, pid);
}

bool native_shared_reach(const struct native_shared *s, const struct cgroup *c)
{
    struct stat base;
    struct stat other;

    return s->base.kind == CGROUP_V2 && c->kind == CGROUP_V2 &&
           fstat(s->base.dirs[0].base_fd, &base) == 0 &&
           fstat(c->dirs[0].base_fd, &other) == 0 && base.st_dev == other.st_dev &&
           base.st_ino == other.st_ino && str_starts(c->name, s->base.name);
}

bool native_shared_group(const struct native_shared *s, const char *vessel_id,
                         const struct limits *limits, struct cgroup *out)
{
    size_t len = strlen(s->base.name);

    if (s->base.kind != CGROUP_V1)
        return false;
    *out = s->base;
    out->borrowed = true;
    (void)snprintf(out->name + len, sizeof(out->name) - len, "%d-%s", (int)getpid(),
                   vessel_id);
    if (cgroup_create(out, limits, NULL) < 0 || out->kind == CGROUP_NONE ||
        cgroup_v1_hold(out) < 0) {
        cgroup_remove(out);
        cgroup_forget(out);
        return false;
    }
    return true;
}

void native_shared_close(struct native_shared *s)
{
    cgroup_close(&s->base);
    janitor_dismiss(&s->janitor);
    auto_fd_(&s->guest_fd);
    host_drop(s->host);
    (void)pthread_mutex_destroy(&s->lock);
    free(s);
}
