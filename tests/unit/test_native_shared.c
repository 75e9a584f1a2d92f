/* SPDX-License-Identifier: Apache-2.0 */

/* What is made once for many vessels: with the kernel's own cgroups. */

#include <dirent.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "check.h"
#include "driver/native/native.h"
#include "driver/native/seccomp.h"
#include "driver/native/shared.h"

#define TRIES 60000 /* of a millisecond: only reached when something is broken */

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

static struct native_shared *open_shared(void)
{
    char why[160];

    return cgroup_probe(why) == CGROUP_V1 ? native_shared_open(-1) : NULL;
}

/* Where cgroups are of version 2, or not ours to make, each vessel looks for itself. */
#define NEED_GROUPS(s)                                                                 \
    do {                                                                               \
        if (!(s))                                                                      \
            skip();                                                                    \
    } while (0)

static size_t count_ours(const struct native_shared *s)
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

static void join(const struct cgroup *c)
{
    for (size_t i = 0; i < CGROUP_DIRS; i++)
        if (c->dirs[i].join_fd >= 0 && write(c->dirs[i].join_fd, "0", 1) != 1)
            _exit(1);
}

/* Many of the kernel's ticks, by which it counts. */
static void work_in(const struct cgroup *c)
{
    pid_t pid = fork();

    if (pid == 0) {
        join(c);
        while (clock() < CLOCKS_PER_SEC / 20)
            ;
        _exit(0);
    }
    assert_int_equal(waitpid(pid, NULL, 0), pid);
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
        join(c);
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
    struct native_shared *s = open_shared();
    struct vessel_usage used = { 0 };
    struct cgroup c;

    (void)state;
    NEED_GROUPS(s);
    assert_true(native_shared_group(s, "v-one", &some, &c));
    end(put_somebody_into(&c));
    cgroup_read(&c, &used);
    assert_true(used.counted);
    assert_true(used.usage.memory_peak_bytes > 0);
    cgroup_remove(&c);
    assert_int_equal(count_ours(s), 0);
    assert_true(native_shared_group(s, "v-two", &some, &c));
    assert_non_null(strstr(c.name, "v-two"));
    cgroup_read(&c, &used);
    assert_int_equal(used.usage.memory_peak_bytes, 0);
    assert_int_equal(used.usage.pids_peak, 0);
    cgroup_remove(&c);
    native_shared_close(s);
}

static bool is_same_time(const struct vessel_usage *a, const struct vessel_usage *b)
{
    return a->usage.cpu_user_ms == b->usage.cpu_user_ms &&
           a->usage.cpu_system_ms == b->usage.cpu_system_ms &&
           a->usage.throttled_ms == b->usage.throttled_ms;
}

static void what_a_group_has_spent_is_what_all_its_counters_say(void **state)
{
    struct native_shared *s = open_shared();
    struct vessel_usage used = { 0 };
    struct vessel_usage spent = { 0 };
    struct vessel_usage again = { 0 };
    struct cgroup c;

    (void)state;
    NEED_GROUPS(s);
    assert_true(native_shared_group(s, "v-one", &some, &c));
    work_in(&c);
    do { /* one that was waited for may be charged a last tick yet */
        cgroup_read(&c, &used);
        cgroup_v1_read_times(&c, &spent);
        cgroup_read(&c, &again);
    } while (!is_same_time(&used, &again));
    assert_true(spent.counted);
    assert_true(spent.usage.cpu_user_ms + spent.usage.cpu_system_ms > 0);
    assert_true(is_same_time(&spent, &used));
    cgroup_remove(&c);
    native_shared_close(s);
}

static void times_are_the_sums_over_all_processors_or_not_known(void **state)
{
    uint64_t t[2];

    (void)state;
    assert_int_equal(
        cgroup_v1_parse_times("cpu user system\n0 10 2\n1 300 40\n17 0 5\n", t), 0);
    assert_int_equal(t[0], 310);
    assert_int_equal(t[1], 47);
    assert_int_equal(cgroup_v1_parse_times("cpu user system\n0 10 2", t), 0);
    assert_int_equal(t[0] + t[1], 12);
    assert_int_equal(cgroup_v1_parse_times("", t), -1);
    assert_int_equal(cgroup_v1_parse_times("cpu user system", t), -1);
    assert_int_equal(cgroup_v1_parse_times("cpu user system\n0 10 2\n1 30", t), -1);
    assert_int_equal(cgroup_v1_parse_times("cpu user system\n0 10 2\n1", t), -1);
    assert_int_equal(cgroup_v1_parse_times("cpu user system\n0 10 2 3\n", t), -1);
}

/* As on a host whose processors do not fit: by two other files. */
static void times_that_cannot_be_read_at_once_are_read_apart(void **state)
{
    struct native_shared *s = open_shared();
    struct vessel_usage used = { 0 };
    struct vessel_usage spent = { 0 };
    struct vessel_usage again = { 0 };
    struct cgroup c, apart;
    int ends[2];

    (void)state;
    NEED_GROUPS(s);
    assert_true(native_shared_group(s, "v-one", &some, &c));
    work_in(&c);
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0); /* which nobody can read at 0 */
    apart = c;
    for (size_t i = 0; i < CGROUP_COUNTERS; i++)
        apart.counter_fds[i] = ends[0];
    do {
        cgroup_v1_read_times(&c, &used);
        cgroup_v1_read_times(&apart, &spent);
        cgroup_v1_read_times(&c, &again);
    } while (!is_same_time(&used, &again));
    assert_true(used.usage.cpu_user_ms + used.usage.cpu_system_ms > 0);
    assert_true(is_same_time(&spent, &used));
    (void)close(ends[0]);
    (void)close(ends[1]);
    cgroup_remove(&c);
    native_shared_close(s);
}

static void a_held_group_can_still_be_given_other_limits(void **state)
{
    struct native_shared *s = open_shared();
    struct cgroup c;
    char path[sizeof(c.name) + 64];

    (void)state;
    NEED_GROUPS(s);
    assert_true(native_shared_group(s, "v-one", &some, &c));
    assert_true(c.dirs[0].fd < 0);
    assert_int_equal(cgroup_v1_limit(&c, &others, NULL), 0);
    (void)snprintf(path, sizeof(path), "%s/memory.limit_in_bytes", c.name);
    assert_int_equal(cgroup_number(c.dirs[0].base_fd, path, NULL, 0),
                     others.memory_bytes);
    cgroup_remove(&c);
    native_shared_close(s);
}

static void who_borrows_the_counters_reads_the_same(void **state)
{
    struct native_shared *s = open_shared();
    struct vessel_usage used = { 0 };
    struct vessel_usage seen = { 0 };
    struct cgroup c, lent;
    int fds[CGROUP_COUNTERS];
    uint32_t which = 0;
    size_t count;

    (void)state;
    NEED_GROUPS(s);
    assert_true(native_shared_group(s, "v-one", &some, &c));
    end(put_somebody_into(&c));
    count = cgroup_lend(&c, fds, &which);
    assert_true(count > 0);
    for (size_t i = 0; i < count; i++)
        fds[i] = fcntl(fds[i], F_DUPFD_CLOEXEC, 3);
    assert_int_equal(cgroup_borrow(&lent, fds, count - 1, which), -1);
    assert_int_equal(cgroup_borrow(&lent, fds, count, which | 1u << 30), -1);
    assert_int_equal(cgroup_borrow(&lent, fds, 0, 0), -1);
    assert_int_equal(cgroup_borrow(&lent, fds, count, which), 0);
    cgroup_read(&c, &used);
    cgroup_read(&lent, &seen);
    assert_true(seen.counted);
    assert_true(seen.usage.memory_peak_bytes > 0);
    assert_int_equal(seen.usage.memory_peak_bytes, used.usage.memory_peak_bytes);
    assert_int_equal(seen.usage.pids_peak, used.usage.pids_peak);
    cgroup_close(&lent);
    cgroup_remove(&c);
    native_shared_close(s);
}

/* Where there are very many processors, or a program has lengthened its lines. */
static void who_cannot_read_the_times_that_were_lent_has_counted_nothing(void **state)
{
    enum { TIMES = 4 }; /* the fifth counter */
    struct vessel_usage seen = { 0 };
    struct cgroup lent;
    int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);

    (void)state;
    assert_int_equal(cgroup_borrow(&lent, &fd, 1, 1u << TIMES), 0);
    cgroup_read(&lent, &seen);
    assert_false(seen.counted);
    cgroup_close(&lent);
}

/* As a warden of the keeper's that is killed. */
static pid_t lose_a_child(struct native_shared *s)
{
    struct cgroup c;
    int status = 0;
    pid_t pid = fork();

    if (pid == 0)
        (void)raise(native_shared_tend(s) && native_shared_group(s, "v-one", &some, &c)
                        ? SIGKILL
                        : SIGTERM);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(WTERMSIG(status), SIGKILL);
    return pid;
}

/* In a process of its own, whose end lets go of what it has. */
static _Noreturn void be_keeper(struct native_shared *s)
{
    struct cgroup own;
    pid_t pid = 0;

    assert_true(native_shared_group(s, "v-own", &some, &own));
    pid = lose_a_child(s);
    native_shared_ended(s, pid, true);
    assert_int_equal(count_ours(s), 2);
    native_shared_ended(s, pid, false);
    for (int tries = 0; count_ours(s) > 1 && tries < TRIES; tries++)
        pause_a_little();
    assert_int_equal(count_ours(s), 1);
    pid = s->strays->janitor.pid;
    assert_int_equal(waitpid(pid, NULL, __WALL), pid);
    native_shared_ended(s, pid, true);
    assert_null(s->strays); /* its memory is not kept */
    cgroup_remove(&own);
    assert_int_equal(kill(s->janitor.pid, SIGKILL), 0);
    assert_int_equal(waitpid(s->janitor.pid, NULL, __WALL), s->janitor.pid);
    native_shared_ended(s, s->janitor.pid, false);
    assert_int_equal(s->janitor.pid, 0); /* a number that may be another's soon */
    assert_false(native_shared_tend(s));
    native_shared_close(s);
    _exit(0);
}

static void groups_of_a_child_that_was_killed_are_removed_and_no_others(void **state)
{
    int status = 0;
    pid_t pid = fork();

    (void)state;
    if (pid == 0) {
        struct native_shared *s = open_shared();

        if (s)
            be_keeper(s);
        _exit(77);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    if (WEXITSTATUS(status) == 77)
        skip();
    assert_int_equal(status, 0);
}

static void the_janitor_of_all_ends_and_removes_every_group(void **state)
{
    struct native_shared *s = open_shared();
    struct cgroup c[2];
    pid_t pid = 0;
    size_t left = 2;

    (void)state;
    NEED_GROUPS(s);
    assert_true(native_shared_tend(s));
    assert_true(native_shared_group(s, "v-one", &some, &c[0]));
    assert_true(native_shared_group(s, "v-two", &some, &c[1]));
    pid = put_somebody_into(&c[1]);
    (void)close(s->janitor.leash_fd);             /* as our death would */
    assert_int_equal(waitpid(pid, NULL, 0), pid); /* we did not end it */
    for (int tries = 0; left > 0 && tries < TRIES; tries++) {
        left = count_ours(s);
        pause_a_little();
    }
    assert_int_equal(left, 0);
    for (int tries = 0; native_shared_tend(s) && tries < TRIES; tries++)
        pause_a_little();
    assert_false(native_shared_tend(s));
    s->janitor.leash_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    cgroup_close(&c[0]);
    cgroup_close(&c[1]);
    native_shared_close(s);
}

static void put_file(int dir_fd, const char *name, const void *data, size_t len)
{
    int fd = openat(dir_fd, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

    assert_true(fd >= 0);
    assert_int_equal(write(fd, data, len), len);
    (void)close(fd);
}

/* A guest beside which lies one profile, whose filter gives VERDICT; open as *GUEST. */
static int put_profile(int dir_fd, unsigned verdict, int *guest)
{
    const struct sock_filter filter[] = { { BPF_LD | BPF_W | BPF_ABS, 0, 0, 4 },
                                          { BPF_RET | BPF_K, 0, 0, verdict } };
    char bytes[8 + sizeof(filter)] = { sizeof(filter) };

    memcpy(bytes + 8, filter, sizeof(filter));
    put_file(dir_fd, "guest", "x", 1);
    (void)mkdirat(dir_fd, "seccomp", 0700);
    put_file(dir_fd, "seccomp/some.bpf", bytes, sizeof(bytes));
    *guest = openat(dir_fd, "guest", O_RDONLY | O_CLOEXEC);
    return *guest;
}

static unsigned verdict_of(int guest, const char *profile)
{
    const struct plan plan = { 0 };
    struct jail jail = { 0 };
    struct sock_filter last = { 0 };

    if (seccomp_fill(&jail, guest, profile, &plan, NULL) < 0)
        return 0;
    assert_true(jail.flags & JAIL_SECCOMP);
    assert_int_equal(jail.filters[0].len, 2 * sizeof(last));
    memcpy(&last, jail.filters[0].data + sizeof(last), sizeof(last));
    jail_done(&jail);
    return last.k;
}

static void a_changed_profile_is_read_again(void **state)
{
    char path[] = "/tmp/test-filters-XXXXXX";
    int dir = open(mkdtemp(path), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int guest = -1;

    (void)state;
    assert_true(put_profile(dir, SECCOMP_RET_KILL_PROCESS, &guest) >= 0);
    (void)close(guest);
    assert_int_equal(verdict_of(put_profile(dir, SECCOMP_RET_ERRNO, &guest), "some"),
                     SECCOMP_RET_ERRNO);
    assert_int_equal(verdict_of(guest, "other"), 0);
    assert_int_equal(verdict_of(guest, "../some"), 0);
    assert_int_equal(unlinkat(dir, "seccomp/some.bpf", 0), 0);
    assert_int_equal(verdict_of(guest, "some"), 0); /* it is gone: no vessel */
    (void)close(guest);
    assert_int_equal(unlinkat(dir, "seccomp", AT_REMOVEDIR), 0);
    assert_int_equal(unlinkat(dir, "guest", 0), 0);
    (void)close(dir);
    assert_int_equal(rmdir(path), 0);
}

static void one_look_at_the_host_serves_many_for_a_second(void **state)
{
    struct native_shared s = { .lock = PTHREAD_MUTEX_INITIALIZER };
    struct host *first = native_shared_host(&s, NULL);
    struct host *second = native_shared_host(&s, NULL);
    struct host *third = NULL;

    (void)state;
    assert_non_null(first);
    assert_ptr_equal(first, second);
    first->read_ns -= INT64_C(1000000000);
    third = native_shared_host(&s, NULL);
    assert_ptr_not_equal(third, first); /* which is still there for who has it */
    assert_int_equal(third->etc_files.count, first->etc_files.count);
    host_drop(first);
    host_drop(second);
    host_drop(third);
    host_drop(s.host);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_look_at_the_host_serves_many_for_a_second),
        cmocka_unit_test(every_vessel_gets_a_group_of_its_own_that_counts_from_nothing),
        cmocka_unit_test(what_a_group_has_spent_is_what_all_its_counters_say),
        cmocka_unit_test(times_are_the_sums_over_all_processors_or_not_known),
        cmocka_unit_test(times_that_cannot_be_read_at_once_are_read_apart),
        cmocka_unit_test(a_held_group_can_still_be_given_other_limits),
        cmocka_unit_test(who_borrows_the_counters_reads_the_same),
        cmocka_unit_test(who_cannot_read_the_times_that_were_lent_has_counted_nothing),
        cmocka_unit_test(groups_of_a_child_that_was_killed_are_removed_and_no_others),
        cmocka_unit_test(the_janitor_of_all_ends_and_removes_every_group),
        cmocka_unit_test(a_changed_profile_is_read_again),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
