/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_TESTS_FUZZ_KEEPER_DRIVER_H
#define VIAL_TESTS_FUZZ_KEEPER_DRIVER_H

/* The driver of fuzz_keeper.c: it opens nothing, and judges what it is asked to open by
 * the policy there, in other words than the keeper's own. */

static bool is_in(const char *path, const char *dir)
{
    size_t len = strlen(dir);

    return strncmp(path, dir, len) == 0 && (!path[len] || path[len] == '/');
}

static bool is_below(const char *path, const char *dir)
{
    char real[PATH_MAX];

    return realpath(path, real) && is_in(real, dir);
}

static void judge_limits(const struct limits *l)
{
    MUST(l->memory_bytes > 0 && l->memory_bytes <= 256 * MIB);
    MUST(l->pids > 0 && l->pids <= 64);
    MUST(l->milli_cpus > 0 && l->milli_cpus <= 2000);
    MUST(l->wall_ms > 0 && l->wall_ms <= 60000);
    MUST(l->disk_bytes >= 0 && l->disk_bytes <= 64 * MIB);
    MUST(l->tmp_bytes >= 0 && l->tmp_bytes <= 64 * MIB);
}

static bool leads_up(const char *path)
{
    for (const char *at = path; (at = strstr(at, "/..")); at += 3)
        if (!at[3] || at[3] == '/')
            return true;
    return false;
}

static void judge_mount(const struct plan_mount *m)
{
    static const char *const ours[] = { "/proc", "/usr", "/etc", "/dev",
                                        "/sys",  "/bin", "/lib", "/sbin" };
    struct stat st;

    MUST(is_below(m->source, fuzz.inside));
    MUST(lstat(m->source, &st) == 0 && st.st_ino == m->ino && st.st_dev == m->dev);
    MUST(m->target[0] == '/' && m->target[1] && !leads_up(m->target));
    for (size_t i = 0; i < sizeof(ours) / sizeof(*ours); i++)
        MUST(!is_in(m->target, ours[i]));
}

/* A filter that kills, whatever stands before it, lets nothing happen. */
static void judge_filter(const struct plan *plan)
{
    const struct sock_filter deny = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS);
    struct blob own = { 0 };

    MUST(blob_set(&own, (const char *)&deny, sizeof(deny)) == 0);
    if (custom_put(&own, &plan->custom.filter, NULL) == 0)
        for (int number = 0; number < 450; number += 7)
            MUST((custom_verdict(&own, number) & SECCOMP_RET_ACTION_FULL) !=
                 SECCOMP_RET_ALLOW);
    blob_done(&own);
}

static void judge_plan(const struct plan *plan)
{
    MUST(strcmp(plan->driver, "native") == 0 && !plan->image);
    MUST(plan->network == NETWORK_NONE && !plan->container.network_name);
    MUST(plan->container.port_count == 0 && plan->container.cache_count == 0);
    MUST(!strchr(plan->seccomp, '/') && !strchr(plan->hostname, '/'));
    MUST(plan->workdir[0] == '/' && !leads_up(plan->workdir));
    judge_limits(&plan->limits);
    for (size_t i = 0; i < plan->mount_count; i++)
        judge_mount(&plan->mounts[i]);
    MUST(!plan->rootfs || is_below(plan->rootfs, fuzz.inside));
    if (plan->custom.filter.len)
        judge_filter(plan);
}

struct fake_vessel {
    struct vessel vessel;
    int guest;
};

static const struct driver fuzz_driver;

static int open_nothing(const struct plan *plan, int guest_fd, struct vessel **out,
                        struct vial_error *err)
{
    struct fake_vessel *v = calloc(1, sizeof(*v));

    (void)guest_fd;
    (void)err;
    judge_plan(plan);
    MUST(v);
    v->guest = vessel_pair(&v->vessel, &fuzz_driver, plan);
    fuzz.at->open = true;
    fuzz.at->limits = plan->limits;
    *out = &v->vessel;
    return 0;
}

static void close_nothing(struct vessel *vessel)
{
    struct fake_vessel *v = (struct fake_vessel *)vessel;

    MUST(fuzz.at->open);
    fuzz.at->open = false;
    vessel_unpair(vessel, v->guest);
    free(v);
}

static void touch(struct vessel *vessel)
{
    MUST(fuzz.at->open && vessel->driver == &fuzz_driver);
}

static void count_nothing(struct vessel *vessel, struct vessel_usage *out)
{
    touch(vessel);
    *out = (struct vessel_usage){ .counted = true };
}

static int probe_nothing(struct caps *out, struct vial_error *err)
{
    (void)err;
    *out = (struct caps){ .usable = true, .level = "none", .limits_by = "none" };
    return 0;
}

static int sweep_nothing(int cancel_fd, unsigned *removed, struct vial_error *err)
{
    (void)err;
    MUST(fcntl(cancel_fd, F_GETFD) >= 0);
    *removed = 0;
    return 0;
}

/* Never more than there was. */
static int lower(struct vessel *vessel, const struct limits *limits,
                 struct vial_error *err)
{
    struct limits *now = &fuzz.at->limits;

    (void)err;
    touch(vessel);
    judge_limits(limits);
    for (size_t i = 0; i < LIMIT_COUNT; i++) {
        int64_t old = limits_get(now, &limit_rows[i]);
        int64_t value = limits_get(limits, &limit_rows[i]);

        MUST(old == 0 || (value > 0 && value <= old));
    }
    *now = *limits;
    return 0;
}

static int begin_zygote(const struct plan *plan, const struct zygote_options *options,
                        struct zygote **out, struct vial_error *err)
{
    int fds[2];

    (void)err;
    judge_plan(plan);
    MUST(plan->mount_count == 0 && !plan->rootfs && plan->argv.count == 1);
    MUST(strncmp(plan->argv.items[0], "python3", 7) == 0 &&
         !strchr(plan->argv.items[0], '/'));
    for (size_t i = 0; i < plan->env.count; i++)
        MUST(strncmp(plan->env.items[i], "LD_", 3) != 0 &&
             strncmp(plan->env.items[i], "PYTHONPATH", 10) != 0);
    for (size_t i = 0; options->imports && options->imports[i]; i++)
        MUST(strcmp(options->imports[i], "numpy") == 0);
    MUST(pipe2(fds, O_CLOEXEC) == 0);
    *out = zygote_borrow(fds);
    MUST(*out);
    return 0;
}

static void end_zygote(struct zygote *zygote)
{
    int fds[2];

    zygote_lend(zygote, fds);
    (void)close(fds[0]);
    (void)close(fds[1]);
    free(zygote);
}

/* From a zygote that was lent, and is there. */
static int fork_nothing(struct zygote *zygote, struct vessel *vessel, int *fd,
                        uint32_t *pid, struct vial_error *err)
{
    int fds[2];

    (void)err;
    touch(vessel);
    zygote_lend(zygote, fds);
    MUST(fcntl(fds[0], F_GETFD) >= 0 && fcntl(fds[1], F_GETFD) >= 0);
    *fd = fcntl(fds[0], F_DUPFD_CLOEXEC, 0);
    *pid = 2;
    return 0;
}

static const struct driver fuzz_driver = {
    .name = "native",
    .probe = probe_nothing,
    .open = open_nothing,
    .stopping = touch,
    .kill = touch,
    .usage = count_nothing,
    .close = close_nothing,
    .sweep = sweep_nothing,
    .limit = lower,
    .zygote_open = begin_zygote,
    .fork_into = fork_nothing,
    .zygote_close = end_zygote,
    .waits = true,
};
const struct driver *const keeper_driver = &fuzz_driver;
keeper_task *const keeper_images = NULL;

#endif
