/* SPDX-License-Identifier: Apache-2.0 */

/* Programs that are held up before they begin, or begin where others left too much. */

#include <ctype.h>
#include <sys/ipc.h>
#include <sys/resource.h>
#include <sys/sem.h>
#include <sys/vfs.h>

#include "guest_world.h"

#define TMPFS     0x01021994
#define FAILURES  12
#define SEMAPHORE 128 /* bytes, as the guest counts them */
#define IN_A_SET  32000
#define SETS      5

static void need_root(void)
{
    if (geteuid() != 0)
        skip();
}

/* The guest's children that still run, or would when they are woken. */
static int living_children(const struct world *w)
{
    char path[64], list[4096] = "", stat[512];
    int living = 0;
    FILE *f;

    (void)snprintf(path, sizeof path, "/proc/%d/task/%d/children", w->pid, w->pid);
    f = fopen(path, "r");
    assert_non_null(f);
    (void)!fgets(list, sizeof list, f);
    (void)fclose(f);
    for (char *at = list; isdigit((unsigned char)*at);) {
        (void)snprintf(path, sizeof path, "/proc/%ld/stat", strtol(at, &at, 10));
        at += *at == ' ';
        f = fopen(path, "r");
        if (f && fgets(stat, sizeof stat, f))
            living += !strstr(stat, ") Z ") && !strstr(stat, ") X ");
        if (f)
            (void)fclose(f);
    }
    return living;
}

/* It has run in the guest's memory, on a stack that the next one gets. */
static void who_could_not_be_started_is_dead_whoever_stops_it(void **state)
{
    struct jail jail = { .flags = JAIL_PID1 };
    struct world *w;
    char name[] = "/no-such-program";
    char *argv[] = { name, NULL };
    uint32_t stops;

    (void)state;
    need_root();
    w = world_open(&jail);
    stops = world_sh_start(w, "echo up; while :; do kill -s STOP -- -1; done");
    world_wait_out(w, stops, 3);
    for (int i = 0; i < FAILURES; i++) {
        struct seen *s = world_wait(w, world_exec(w, argv, false));

        assert_true(s->failed);
        assert_true(s->step == STEP_FIND || s->error == ETIMEDOUT);
        assert_int_equal(living_children(w), 1);
    }
    world_close(w);
}

/* A program in the workdir whose execution waits for us, until the file is closed. */
static int make_slow(const struct world *w, char *path, size_t size)
{
    char command[256];
    int fd;

    (void)snprintf(path, size, "%s/slow", w->dir);
    (void)snprintf(command, sizeof command, "cp /bin/true %s", path);
    assert_int_equal(system(command), 0); /* NOLINT: a test's own words */
    fd = open(path, O_RDWR | O_CLOEXEC);
    assert_true(fd >= 0);
    (void)signal(SIGIO, SIG_IGN);
    if (fcntl(fd, F_SETLEASE, F_WRLCK) < 0) {
        (void)close(fd);
        return -1; /* this file system has none */
    }
    return fd;
}

static void a_program_that_does_not_begin_is_given_up(void **state)
{
    struct jail jail = { 0 };
    struct world *w = world_open(&jail);
    char path[128];
    char *argv[] = { path, NULL };
    int fd = make_slow(w, path, sizeof path);
    const struct seen *s;

    (void)state;
    if (fd >= 0) {
        s = world_wait(w, world_exec(w, argv, false));
        assert_true(s->failed);
        assert_int_equal(s->step, STEP_FORK);
        assert_int_equal(s->error, ETIME);
        assert_int_equal(living_children(w), 0);
        (void)close(fd);
        assert_int_equal(world_sh(w, "./slow")->exit.value, 0);
    }
    world_close(w);
}

static void a_deadline_before_the_beginning_is_told_as_one(void **state)
{
    struct jail jail = { 0 };
    struct world *w = world_open(&jail);
    char path[128];
    char *argv[] = { path, NULL }, *env[] = { NULL };
    struct exec_message m = { .argv = argv, .env = env, .timeout_ms = 50 };
    int fd = make_slow(w, path, sizeof path);
    const struct seen *s;
    uint32_t channel;

    (void)state;
    if (fd >= 0) {
        assert_int_equal(link_exec(w->l, &m, &channel, &w->err), 0);
        s = world_wait(w, channel);
        assert_true(s->exited);
        assert_int_equal(s->exit.timed_out, 1);
        assert_int_equal(s->exit.value, SIGKILL);
        (void)close(fd);
    }
    world_close(w);
}

static void limit_memory(struct jail *jail)
{
    jail->rlimits[0] =
        (struct jail_rlimit){ .resource = RLIMIT_DATA,
                              .value = (SETS - 1) * IN_A_SET * SEMAPHORE };
    jail->rlimit_count = 1;
}

static void what_a_program_left_ends_the_next_one_too(void **state)
{
    char shm[] = "/dev/shm";
    struct jail jail = { .flags = JAIL_PID1, .watch_full = { shm } };
    struct statfs fs;
    struct world *w;

    (void)state;
    need_root();
    if (statfs(shm, &fs) < 0 || fs.f_type != TMPFS || !fs.f_blocks)
        skip(); /* nothing would be watched */
    limit_memory(&jail);
    w = world_open(&jail);
    assert_int_equal(world_sh(w, "ipcmk -S 32000")->exit.oom, 0);
    for (int i = 0; i < 2; i++) {
        const struct seen *s =
            world_sh(w, "for i in 1 2 3 4 5; do ipcmk -S 32000; done; sleep 1000");

        assert_int_equal(s->exit.oom, 1);
        assert_int_equal(s->exit.value, SIGKILL);
    }
    world_close(w);
}

/* In a namespace that ends with this process. */
static void what_the_host_has_is_no_programs(void **state)
{
    struct jail jail = { 0 };
    struct world *w;

    (void)state;
    need_root();
    assert_int_equal(unshare(CLONE_NEWIPC), 0);
    for (int i = 0; i < SETS; i++)
        assert_true(semget(IPC_PRIVATE, IN_A_SET, 0600) >= 0);
    limit_memory(&jail);
    w = world_open(&jail);
    assert_int_equal(world_sh(w, "exit 7")->exit.value, 7);
    assert_int_equal(w->seen[1].exit.oom, 0);
    world_close(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(who_could_not_be_started_is_dead_whoever_stops_it),
        cmocka_unit_test(a_program_that_does_not_begin_is_given_up),
        cmocka_unit_test(a_deadline_before_the_beginning_is_told_as_one),
        cmocka_unit_test(what_a_program_left_ends_the_next_one_too),
        cmocka_unit_test(what_the_host_has_is_no_programs),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
