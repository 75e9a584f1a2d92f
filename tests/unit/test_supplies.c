/* SPDX-License-Identifier: Apache-2.0 */

/* What is made once for many vessels: with the kernel's own cgroups. */

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "check.h"
#include "driver/native/supplies.h"

#define TRIES 2000

static const struct limits some = { .memory_bytes = INT64_C(512) << 20,
                                    .pids = 16,
                                    .milli_cpus = 1000 };
static const struct limits others = { .memory_bytes = INT64_C(256) << 20,
                                      .pids = 16,
                                      .milli_cpus = 1000 };

static void pause_a_little(void)
{
    const struct timespec t = { .tv_nsec = 1000000 };

    (void)nanosleep(&t, NULL);
}

static struct supplies *open_supplies(void)
{
    char why[160];

    return cgroup_probe(why) == CGROUP_V1 ? supplies_open(-1) : NULL;
}

/* Where cgroups are of version 2, or not ours to make, each vessel looks for itself. */
#define NEED_GROUPS(s)                                                                 \
    do {                                                                               \
        if (!(s))                                                                      \
            skip();                                                                    \
    } while (0)

static size_t count_ours(const struct supplies *s)
{
    DIR *dir = fdopendir(openat(s->base.dirs[0].base_fd, ".", O_RDONLY | O_CLOEXEC));
    const struct dirent *e = NULL;
    size_t count = 0;

    assert_non_null(dir);
    while ((e = readdir(dir))) /* NOLINT(concurrency-mt-unsafe) */
        count += strncmp(e->d_name, s->base.name, strlen(s->base.name)) == 0;
    (void)closedir(dir);
    return count;
}

/* Somebody who sleeps in C until killed. */
static pid_t put_somebody_into(const struct cgroup *c)
{
    int ends[2];
    char byte = 0;
    pid_t pid = 0;

    assert_int_equal(pipe(ends), 0);
    pid = fork();
    if (pid == 0) {
        for (size_t i = 0; i < CGROUP_DIRS; i++)
            if (c->dirs[i].join_fd >= 0 && write(c->dirs[i].join_fd, "0", 1) != 1)
                _exit(1);
        (void)!write(ends[1], "x", 1);
        (void)close_range(3, ~0u, 0); /* a leash, maybe */
        for (;;)
            (void)pause();
    }
    assert_true(pid > 0);
    (void)close(ends[1]);
    assert_int_equal(read(ends[0], &byte, 1), 1);
    (void)close(ends[0]);
    return pid;
}

static void end(pid_t pid)
{
    assert_int_equal(kill(pid, SIGKILL), 0);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
}

static void every_vessel_gets_a_group_of_its_own_that_counts_from_nothing(void **state)
{
    struct supplies *s = open_supplies();
    struct vessel_usage used = { 0 };
    struct cgroup c;

    (void)state;
    NEED_GROUPS(s);
    assert_true(supplies_group(s, "v-one", &some, &c));
    end(put_somebody_into(&c));
    cgroup_read(&c, &used);
    assert_true(used.counted);
    assert_true(used.usage.memory_peak_bytes > 0);
    cgroup_remove(&c);
    assert_int_equal(count_ours(s), 0);
    assert_true(supplies_group(s, "v-two", &some, &c));
    assert_non_null(strstr(c.name, "v-two"));
    cgroup_read(&c, &used);
    assert_int_equal(used.usage.memory_peak_bytes, 0);
    assert_int_equal(used.usage.pids_peak, 0);
    cgroup_remove(&c);
    supplies_close(s);
}

static void a_held_group_can_still_be_given_other_limits(void **state)
{
    struct supplies *s = open_supplies();
    struct cgroup c;
    char path[sizeof(c.name) + 64];

    (void)state;
    NEED_GROUPS(s);
    assert_true(supplies_group(s, "v-one", &some, &c));
    assert_true(c.dirs[0].fd < 0);
    assert_int_equal(cgroup_v1_limit(&c, &others, NULL), 0);
    (void)snprintf(path, sizeof(path), "%s/memory.limit_in_bytes", c.name);
    assert_int_equal(cgroup_number(c.dirs[0].base_fd, path, NULL, 0),
                     others.memory_bytes);
    cgroup_remove(&c);
    supplies_close(s);
}

static void the_janitor_of_all_ends_and_removes_every_group(void **state)
{
    struct supplies *s = open_supplies();
    struct cgroup c[2];
    pid_t pid = 0;
    size_t left = 2;

    (void)state;
    NEED_GROUPS(s);
    assert_true(supplies_tend(s));
    assert_true(supplies_group(s, "v-one", &some, &c[0]));
    assert_true(supplies_group(s, "v-two", &some, &c[1]));
    pid = put_somebody_into(&c[1]);
    (void)close(s->janitor.leash_fd);             /* as our death would */
    assert_int_equal(waitpid(pid, NULL, 0), pid); /* we did not end it */
    for (int tries = 0; left > 0 && tries < TRIES; tries++) {
        left = count_ours(s);
        pause_a_little();
    }
    assert_int_equal(left, 0);
    for (int tries = 0; supplies_tend(s) && tries < TRIES; tries++)
        pause_a_little();
    assert_false(supplies_tend(s));
    s->janitor.leash_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    cgroup_close(&c[0]);
    cgroup_close(&c[1]);
    supplies_close(s);
}

static void a_script_is_kept_for_its_plan_alone(void **state)
{
    struct plan one = { .id = "r-one" }, two = { .id = "r-two" };
    struct script *s = script_new(4, 64, false);
    struct scripts kept;

    (void)state;
    scripts_open(&kept);
    assert_null(scripts_take(&kept, &one));
    scripts_give(&kept, s, &one);
    assert_null(scripts_take(&kept, &two));
    assert_ptr_equal(scripts_take(&kept, &one), s);
    assert_null(scripts_take(&kept, &one));
    s->written_ns -= INT64_C(2000000000);
    scripts_give(&kept, s, &one);
    assert_null(scripts_take(&kept, &one)); /* too old: it is freed */
    scripts_close(&kept);
}

static void other_descriptors_take_the_place_of_a_scripts_own(void **state)
{
    auto_script struct script *s = script_new(8, 64, false);

    (void)state;
    script_add(s, OP_CLOSE)->fd = 5;
    script_add(s, OP_PIVOT);
    script_add(s, OP_STREAM)->fd = 6;
    script_add(s, OP_EXEC)->fd = 7;
    script_rebind(s, 15, 16, 17);
    assert_int_equal(s->steps[0].fd, 15);
    assert_int_equal(s->steps[1].fd, -1);
    assert_int_equal(s->steps[2].fd, 16);
    assert_int_equal(s->steps[3].fd, 17);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_vessel_gets_a_group_of_its_own_that_counts_from_nothing),
        cmocka_unit_test(a_held_group_can_still_be_given_other_limits),
        cmocka_unit_test(the_janitor_of_all_ends_and_removes_every_group),
        cmocka_unit_test(a_script_is_kept_for_its_plan_alone),
        cmocka_unit_test(other_descriptors_take_the_place_of_a_scripts_own),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
