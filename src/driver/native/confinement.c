/* SPDX-License-Identifier: Apache-2.0 */
#include "driver/native/confinement.h"

#include <string.h>
#include <sys/resource.h>

#include "base/fail.h"
#include "wire/weaken.h"

#define KIB          INT64_C(1024)
#define GIB          (KIB * KIB * KIB)
#define LARGEST_FILE (1024 * GIB)

/* Files in memory and sparse ones, which JITs and databases map, are larger than what
 * is ever written to them, and need not lie in what 'disk' and 'tmp' bound. */
#define SPARSE_FILE (4 * GIB)

/* Where programs may write, whatever the plan says. Devices by name: the
 * directory itself is ours. */
static const char *const writable[] = { "/tmp",        "/dev/shm",  "/dev/null",
                                        "/dev/zero",   "/dev/full", "/dev/random",
                                        "/dev/urandom" };

int confine_path(struct jail *jail, const char *path, uint32_t access)
{
    struct jail_path *rule = &jail->paths[jail->path_count];

    if (jail->path_count >= JAIL_MAX_PATHS)
        return -1;
    rule->path = strdup(path);
    rule->access = access;
    if (!rule->path)
        return -1;
    jail->path_count++;
    return 0;
}

void confine_rlimit(struct jail *jail, int resource, int64_t value)
{
    if (jail->rlimit_count < JAIL_MAX_RLIMITS)
        jail->rlimits[jail->rlimit_count++] =
            (struct jail_rlimit){ .resource = (uint32_t)resource,
                                  .value = (uint64_t)value };
}

int64_t confine_largest_file(const struct plan *plan, int64_t least)
{
    const struct limits *l = &plan->limits;
    int64_t room = l->disk_bytes > l->tmp_bytes ? l->disk_bytes : l->tmp_bytes;

    /* One page more, of the largest that there are: a full disk is told as such, and
     * does not kill. */
    room += 64 * KIB;
    if (!l->disk_bytes || plan_writes_outside(plan))
        room = LARGEST_FILE;
    if (room < least)
        room = least;
    return l->file_bytes && l->file_bytes < room ? l->file_bytes : room;
}

/* A second net below the cgroup; every hard limit is finite, so that none can be
 * raised. There is none on address space: runtimes reserve more than they use. */
void confine_rlimits_of(struct jail *jail, const struct limits *l,
                        bool limits_by_rlimit)
{
    /* No more than 0 would write, but none is offered to a program of the host either,
     * where core_pattern names one: that looks for just this value. */
    confine_rlimit(jail, RLIMIT_CORE, 1);
    confine_rlimit(jail, RLIMIT_NOFILE, l->open_files);
    confine_rlimit(jail, RLIMIT_FSIZE, l->file_bytes);
    confine_rlimit(jail, RLIMIT_MEMLOCK, 8 * KIB * KIB);
    confine_rlimit(jail, RLIMIT_MSGQUEUE, 800 * KIB);
    confine_rlimit(jail, RLIMIT_SIGPENDING, 1024);
    confine_rlimit(jail, RLIMIT_NICE, 0);
    confine_rlimit(jail, RLIMIT_RTPRIO, 0);
    if (l->cpu_ms)
        confine_rlimit(jail, RLIMIT_CPU, l->cpu_ms / 1000 + 2);
    if (!limits_by_rlimit)
        return;
    if (l->memory_bytes)
        confine_rlimit(jail, RLIMIT_DATA, l->memory_bytes);
    if (l->pids)
        confine_rlimit(jail, RLIMIT_NPROC, l->pids + 1);
}

static int add_paths(struct jail *jail, const struct plan *plan)
{
    uint32_t whole = plan->root.writable ? JAIL_WRITE : 0u;
    int rc = confine_path(jail, "/", JAIL_READ | JAIL_EXEC | whole);

    rc |= confine_path(jail, plan_scratch(plan), JAIL_READ | JAIL_WRITE | JAIL_EXEC);
    for (size_t i = 0; i < sizeof(writable) / sizeof(*writable); i++)
        rc |= confine_path(jail, writable[i], JAIL_READ | JAIL_WRITE | JAIL_EXEC);
    /* An instance of the vessel's own: its terminals are nobody else's. */
    rc |= confine_path(jail, "/dev/pts", JAIL_READ | JAIL_WRITE | JAIL_DEVICE);
    for (size_t i = 0; i < plan->mount_count; i++) {
        if (plan->mounts[i].writable || plan->mounts[i].overlay)
            rc |= confine_path(jail, plan->mounts[i].target,
                               JAIL_READ | JAIL_WRITE | JAIL_EXEC);
    }
    return rc;
}

int confine_fill(struct jail *jail, const struct plan *plan,
                 const struct confine_options *options, struct vial_error *err)
{
    struct limits limits = plan->limits;

    jail->flags = JAIL_SET_IDS | JAIL_PID1 | JAIL_OOM_FIRST;
    jail->flags |= plan->root.sudo ? 0 : JAIL_NO_NEW_PRIVS;
    jail->flags |=
        plan->root.as_root || plan->root.sudo ? JAIL_ROOT_CAPS : JAIL_DROP_CAPS;
    if (plan->network != NETWORK_BRIDGE)
        jail->flags |= JAIL_NO_NETWORK;
    if (plan->fixed_addresses)
        jail->flags |= JAIL_FIXED_ADDRESSES;
    if (weaken("caps"))
        jail->flags &= ~(uint32_t)(JAIL_DROP_CAPS | JAIL_ROOT_CAPS);
    if (weaken("no_new_privs"))
        jail->flags &= ~(uint32_t)JAIL_NO_NEW_PRIVS;
    if (weaken("uid"))
        jail->flags &= ~(uint32_t)JAIL_SET_IDS;
    if (weaken("pid"))
        jail->flags &= ~(uint32_t)JAIL_PID1;
    jail->uid = options->uid;
    jail->gid = options->gid;
    limits.file_bytes = confine_largest_file(plan, SPARSE_FILE);
    if (!weaken("rlimit"))
        confine_rlimits_of(jail, &limits, options->limits_by_rlimit);
    jail->workdir = strdup(plan->workdir);
    jail->watch_full[0] = strdup(plan_scratch(plan));
    jail->watch_full[1] = strdup("/tmp");
    if (!jail->workdir || !jail->watch_full[0] || !jail->watch_full[1])
        return fail_memory(err);
    if (!options->landlock)
        return 0;
    jail->flags |= JAIL_LANDLOCK;
    return add_paths(jail, plan) < 0 ? fail_memory(err) : 0;
}
