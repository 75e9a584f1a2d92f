/* SPDX-License-Identifier: Apache-2.0 */

/* Cgroups that are used again, and the janitor of all: with the kernel's own. */

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
#include "driver/native/groups.h"
#include "driver/native/janitor.h"

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

static bool can_make_groups(struct groups *g)
{
    char why[160];

    if (cgroup_probe(why) != CGROUP_V1 || groups_open(g) < 0)
        return false;
    return true;
}

#define NEED_GROUPS(g)                                                                 \
    do {                                                                               \
        if (!can_make_groups(g))                                                       \
            skip();                                                                    \
    } while (0)

static size_t count_ours(const struct groups *g)
{
    DIR *dir = fdopendir(openat(g->base.dirs[0].base_fd, ".", O_RDONLY | O_CLOEXEC));
    const struct dirent *e = NULL;
    size_t count = 0;

    assert_non_null(dir);
    while ((e = readdir(dir))) /* NOLINT(concurrency-mt-unsafe) */
        count += strncmp(e->d_name, g->base.name, strlen(g->base.name)) == 0;
    (void)closedir(dir);
    return count;
}

static void look(const struct cgroup *c, struct vessel_usage *out)
{
    *out = (struct vessel_usage){ 0 };
    cgroup_read(c, out);
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

static void a_group_without_a_trace_is_used_again_and_counts_from_nothing(void **state)
{
    struct groups g;
    struct cgroup c;
    struct vessel_usage before, after;
    char name[sizeof(c.name)];

    (void)state;
    NEED_GROUPS(&g);
    assert_int_equal(groups_take(&g, "v-one", &some, &c, NULL), 0);
    (void)strcpy(name, c.name);
    end(put_somebody_into(&c));
    look(&c, &before);
    assert_true(before.usage.memory_peak_bytes > 0);
    groups_give(&g, &c, &some, &before);
    assert_int_equal(g.count, 1);
    assert_int_equal(groups_take(&g, "v-two", &some, &c, NULL), 0);
    assert_string_equal(c.name, name);
    look(&c, &after);
    assert_int_equal(after.usage.memory_peak_bytes, 0);
    cgroup_remove(&c);
    groups_close(&g);
}

/* What one of these says would be believed of the next run. */
static void what_a_user_has_done_is_a_trace_of_it(void **state)
{
    static const struct vessel_usage before = { .counted = true,
                                                .usage = { .pids_peak = 2 } };
    struct vessel_usage after[6] = { before, before, before, before, before, before };

    (void)state;
    assert_true(groups_no_trace(&before, &before));
    after[0].oom_kills = 1;
    after[1].pids_events = 1;
    after[2].usage.throttled_ms = 0.1;
    after[3].usage.cpu_user_ms = 25;
    after[4].usage.pids_peak = 3;
    after[5].counted = false;
    for (size_t i = 0; i < 6; i++)
        assert_false(groups_no_trace(&before, &after[i]));
}

static void a_group_in_which_more_were_at_once_is_removed(void **state)
{
    struct vessel_usage before;
    struct groups g;
    struct cgroup c;
    pid_t two[2];

    (void)state;
    NEED_GROUPS(&g);
    assert_int_equal(groups_take(&g, "v-one", &some, &c, NULL), 0);
    end(put_somebody_into(&c));
    look(&c, &before);
    two[0] = put_somebody_into(&c);
    two[1] = put_somebody_into(&c);
    end(two[0]);
    end(two[1]);
    groups_give(&g, &c, &some, &before);
    assert_int_equal(g.count, 0);
    assert_int_equal(count_ours(&g), 0);
    groups_close(&g);
}

static void other_limits_want_another_group(void **state)
{
    struct vessel_usage same;
    struct groups g;
    struct cgroup c;

    (void)state;
    NEED_GROUPS(&g);
    assert_int_equal(groups_take(&g, "v-one", &some, &c, NULL), 0);
    look(&c, &same);
    groups_give(&g, &c, &some, &same);
    assert_int_equal(groups_take(&g, "v-two", &others, &c, NULL), 0);
    assert_non_null(strstr(c.name, "v-two"));
    assert_int_equal(g.count, 1);
    cgroup_remove(&c);
    groups_close(&g);
}

static void a_group_with_somebody_in_it_is_not_used_again(void **state)
{
    struct vessel_usage same;
    struct groups g;
    struct cgroup c;
    pid_t pid = 0;

    (void)state;
    NEED_GROUPS(&g);
    assert_int_equal(groups_take(&g, "v-one", &some, &c, NULL), 0);
    pid = put_somebody_into(&c);
    look(&c, &same);
    groups_give(&g, &c, &some, &same);
    assert_int_equal(g.count, 1);
    assert_int_equal(groups_take(&g, "v-two", &some, &c, NULL), 0);
    assert_non_null(strstr(c.name, "v-two"));
    cgroup_remove(&c);
    end(pid);
    (void)cgroup_open_base(&c);
    (void)strcat(strcpy(c.name, g.base.name), "v-one");
    cgroup_remove(&c);
    assert_int_equal(count_ours(&g), 0);
    groups_close(&g);
}

static void groups_that_nobody_wants_go_one_by_one(void **state)
{
    struct vessel_usage same;
    struct groups g;
    struct cgroup c[2];

    (void)state;
    NEED_GROUPS(&g);
    assert_int_equal(groups_take(&g, "v-one", &some, &c[0], NULL), 0);
    assert_int_equal(groups_take(&g, "v-two", &some, &c[1], NULL), 0);
    look(&c[0], &same);
    groups_give(&g, &c[0], &some, &same);
    groups_give(&g, &c[1], &some, &same);
    groups_rest(&g); /* two were wanted since the last */
    assert_int_equal(count_ours(&g), 2);
    groups_rest(&g);
    assert_int_equal(count_ours(&g), 1);
    groups_rest(&g);
    groups_rest(&g);
    assert_int_equal(count_ours(&g), 0);
    groups_close(&g);
}

static void a_held_group_can_still_be_given_other_limits(void **state)
{
    struct groups g;
    struct cgroup c;
    char path[sizeof(c.name) + 64];

    (void)state;
    NEED_GROUPS(&g);
    assert_int_equal(groups_take(&g, "v-one", &some, &c, NULL), 0);
    assert_true(c.dirs[0].fd < 0);
    assert_int_equal(cgroup_v1_limit(&c, &others, NULL), 0);
    (void)snprintf(path, sizeof(path), "%s/memory.limit_in_bytes", c.name);
    assert_int_equal(cgroup_number(c.dirs[0].base_fd, path, NULL, 0),
                     others.memory_bytes);
    cgroup_remove(&c);
    groups_close(&g);
}

static void the_janitor_of_all_ends_and_removes_every_group(void **state)
{
    struct groups g;
    struct cgroup c[2];
    struct janitor j;
    pid_t pid = 0;
    size_t left = 2;

    (void)state;
    NEED_GROUPS(&g);
    janitor_start_for_all(&j, &g.base);
    assert_true(j.leash_fd >= 0);
    assert_int_equal(groups_take(&g, "v-one", &some, &c[0], NULL), 0);
    assert_int_equal(groups_take(&g, "v-two", &some, &c[1], NULL), 0);
    pid = put_somebody_into(&c[1]);
    (void)close(j.leash_fd);                      /* as our death would */
    assert_int_equal(waitpid(pid, NULL, 0), pid); /* we did not end it */
    for (int tries = 0; left > 0 && tries < TRIES; tries++) {
        left = count_ours(&g);
        pause_a_little();
    }
    assert_int_equal(left, 0);
    assert_int_equal(waitpid(j.pid, NULL, __WALL), j.pid);
    free(j.room);
    cgroup_close(&c[0]);
    cgroup_close(&c[1]);
    groups_close(&g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_group_without_a_trace_is_used_again_and_counts_from_nothing),
        cmocka_unit_test(what_a_user_has_done_is_a_trace_of_it),
        cmocka_unit_test(a_group_in_which_more_were_at_once_is_removed),
        cmocka_unit_test(other_limits_want_another_group),
        cmocka_unit_test(a_group_with_somebody_in_it_is_not_used_again),
        cmocka_unit_test(groups_that_nobody_wants_go_one_by_one),
        cmocka_unit_test(a_held_group_can_still_be_given_other_limits),
        cmocka_unit_test(the_janitor_of_all_ends_and_removes_every_group),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
