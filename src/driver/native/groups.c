/* SPDX-License-Identifier: Apache-2.0 */
#include "driver/native/groups.h"

#include <stdio.h>
#include <string.h>

#include "base/fail.h"
#include "driver/native/owner.h"

#define LITTLE_MS 20.0 /* of a core, out of the 100 of a period */

static struct group_limits limits_of(const struct limits *l)
{
    return (struct group_limits){ l->memory_bytes, l->pids, l->milli_cpus };
}

static bool are_equal(struct group_limits a, struct group_limits b)
{
    return a.memory_bytes == b.memory_bytes && a.pids == b.pids &&
           a.milli_cpus == b.milli_cpus;
}

int groups_open(struct groups *g)
{
    *g = (struct groups){ 0 };
    if (cgroup_open_base(&g->base) < 0 || g->base.error ||
        owner_name("", g->base.name, sizeof(g->base.name)) < 0 ||
        pthread_mutex_init(&g->lock, NULL) != 0) {
        cgroup_close(&g->base);
        return -1;
    }
    return 0;
}

void groups_close(struct groups *g)
{
    if (g->base.kind == CGROUP_NONE)
        return;
    while (g->count > 0)
        cgroup_remove(&g->idle[--g->count].cgroup);
    cgroup_close(&g->base);
    (void)pthread_mutex_destroy(&g->lock);
}

/* The latest first: the kernel may still know its parts by heart. */
static bool find(struct groups *g, struct group_limits limits, struct cgroup *out)
{
    bool found = false;

    (void)pthread_mutex_lock(&g->lock);
    for (unsigned i = g->count; !found && i-- > 0;) {
        if (!are_equal(g->idle[i].limits, limits))
            continue;
        found = true;
        *out = g->idle[i].cgroup;
        g->count--;
        memmove(&g->idle[i], &g->idle[i + 1], (g->count - i) * sizeof(g->idle[0]));
    }
    (void)pthread_mutex_unlock(&g->lock);
    return found;
}

static int make(const struct groups *g, const char *vessel_id,
                const struct limits *limits, struct cgroup *out, struct vial_error *err)
{
    size_t len = strlen(g->base.name);

    *out = g->base;
    out->borrowed = true;
    (void)snprintf(out->name + len, sizeof(out->name) - len, "%s", vessel_id);
    if (cgroup_create(out, limits, err) < 0)
        return -1;
    /* Where too few descriptors are left it is one like any other. */
    if (out->kind == CGROUP_V1)
        (void)cgroup_v1_hold(out);
    return 0;
}

int groups_take(struct groups *g, const char *vessel_id, const struct limits *limits,
                struct cgroup *out, struct vial_error *err)
{
    (void)pthread_mutex_lock(&g->lock);
    g->wanted++;
    (void)pthread_mutex_unlock(&g->lock);
    while (find(g, limits_of(limits), out)) {
        if (cgroup_v1_renew(out, limits->memory_bytes))
            return 0;
        cgroup_remove(out);
    }
    return make(g, vessel_id, limits, out, err);
}

bool groups_no_trace(const struct vessel_usage *before,
                     const struct vessel_usage *after)
{
    const struct vial_usage *was = &before->usage;
    const struct vial_usage *is = &after->usage;
    double cpu_ms =
        is->cpu_user_ms + is->cpu_system_ms - was->cpu_user_ms - was->cpu_system_ms;

    return before->counted && after->counted && after->oom_kills == 0 &&
           after->pids_events == 0 && is->throttled_ms <= was->throttled_ms &&
           cpu_ms <= LITTLE_MS && is->pids_peak == was->pids_peak;
}

/* Read once more: its last process may have counted on its way out. */
static bool is_clean(const struct cgroup *c, const struct vessel_usage *before)
{
    struct vessel_usage after = { 0 };

    if (c->kind != CGROUP_V1 || c->counter_fds[0] < 0)
        return false;
    cgroup_read(c, &after);
    return groups_no_trace(before, &after);
}

void groups_give(struct groups *g, struct cgroup *c, const struct limits *limits,
                 const struct vessel_usage *before)
{
    bool kept = is_clean(c, before);

    if (kept) {
        (void)pthread_mutex_lock(&g->lock);
        kept = g->count < GROUPS_MAX;
        if (kept) {
            g->idle[g->count].cgroup = *c;
            g->idle[g->count++].limits = limits_of(limits);
        }
        (void)pthread_mutex_unlock(&g->lock);
    }
    if (!kept)
        cgroup_remove(c);
    cgroup_forget(c);
}

void groups_rest(struct groups *g)
{
    struct cgroup last;
    bool goes = false;

    if (g->base.kind == CGROUP_NONE)
        return;
    (void)pthread_mutex_lock(&g->lock);
    goes = g->count > 0 && g->wanted < g->count;
    g->wanted = 0;
    if (goes)
        last = g->idle[--g->count].cgroup;
    (void)pthread_mutex_unlock(&g->lock);
    if (goes)
        cgroup_remove(&last);
}
