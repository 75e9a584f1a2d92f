/* SPDX-License-Identifier: Apache-2.0 */

/* The real guest's confinement, as the confined program sees it. */

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/resource.h>

#include "guest_world.h"

/* Refuses uname(2) with ERRNO, allows the rest. */
#define REFUSE_UNAME(error)                                                            \
    {                                                                                  \
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0), /* the call's number */                 \
            BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_uname, 0, 1),                      \
            BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (error)),                    \
            BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)                               \
    }

static void set_filter(struct jail *jail, size_t index, struct sock_filter *filter)
{
    jail->flags |= JAIL_SECCOMP | JAIL_NO_NEW_PRIVS;
    jail->filters[index].data = (uint8_t *)filter;
    jail->filters[index].len = 4 * sizeof *filter;
}

/* One line of the program's own /proc/self/status, without its name. */
static const char *status_of(struct world *w, const char *name)
{
    char script[128];

    (void)snprintf(script, sizeof script,
                   "sed -n 's/^%s:[\\t ]*//p' /proc/self/status | tr -d '\\n'", name);
    return world_out(world_sh(w, script), 1);
}

static void without_flags_nothing_is_taken_away(void **state)
{
    struct jail jail = { 0 };
    struct world *w = world_open(&jail);

    (void)state;
    assert_string_equal(status_of(w, "NoNewPrivs"), "0");
    assert_string_equal(status_of(w, "Seccomp"), "0");
    world_close(w);
}

static void privileges_filters_and_capabilities_are_really_gone(void **state)
{
    struct sock_filter first[] = REFUSE_UNAME(EPERM);
    struct sock_filter second[] = REFUSE_UNAME(ENOMEM);
    struct jail jail = { .flags = JAIL_DROP_CAPS };
    struct world *w;

    (void)state;
    set_filter(&jail, 0, first);
    set_filter(&jail, 1, second);
    w = world_open(&jail);
    assert_string_equal(status_of(w, "NoNewPrivs"), "1");
    assert_string_equal(status_of(w, "Seccomp"), "2");
    assert_string_equal(status_of(w, "Seccomp_filters"), "2");
    assert_string_equal(status_of(w, "CapPrm"), "0000000000000000");
    assert_string_equal(status_of(w, "CapEff"), "0000000000000000");
    assert_string_equal(status_of(w, "CapInh"), "0000000000000000");
    assert_string_equal(status_of(w, "CapBnd"), "0000000000000000");
    assert_string_equal(status_of(w, "CapAmb"), "0000000000000000");
    assert_string_equal(status_of(w, "SigBlk"), "0000000000000000");
    assert_string_equal(status_of(w, "SigIgn"), "0000000000000000");
    world_close(w);
}

static void the_filter_loaded_last_has_the_last_word(void **state)
{
    struct sock_filter first[] = REFUSE_UNAME(EPERM);
    struct sock_filter second[] = REFUSE_UNAME(ENOMEM);
    struct jail jail = { 0 };
    struct world *w;
    struct seen *s;

    (void)state;
    set_filter(&jail, 0, first);
    set_filter(&jail, 1, second);
    w = world_open(&jail);
    s = world_sh(w, "uname");
    assert_int_not_equal(s->exit.value, 0);
    assert_non_null(strstr(world_out(s, 2), "Cannot allocate memory"));
    world_close(w);
}

static void a_filter_that_was_promised_and_is_missing_fails_the_exec(void **state)
{
    struct jail jail = { .flags = JAIL_SECCOMP | JAIL_NO_NEW_PRIVS };
    struct world *w = world_open(&jail);

    (void)state;
    assert_int_equal(world_sh(w, "echo never")->step, STEP_SECCOMP);
    world_close(w);
}

static void a_filter_the_kernel_refuses_fails_the_exec(void **state)
{
    struct sock_filter broken[4] = { { .code = 0xffff } };
    struct jail jail = { 0 };
    struct world *w;
    struct seen *s;

    (void)state;
    set_filter(&jail, 0, broken);
    w = world_open(&jail);
    s = world_sh(w, "echo never");
    assert_int_equal(s->step, STEP_SECCOMP);
    assert_int_equal(s->error, EINVAL);
    assert_int_equal(s->len[1], 0);
    world_close(w);
}

static void a_rlimit_is_soft_and_hard_and_never_raised(void **state)
{
    struct jail jail = { .rlimit_count = 2,
                         .rlimits = { { RLIMIT_NOFILE, 77 },
                                      { RLIMIT_CORE, UINT64_MAX } } };
    struct world *w = world_open(&jail);
    struct seen *s = world_sh(w, "ulimit -S -n; ulimit -H -n");

    (void)state;
    assert_string_equal(world_out(s, 1), "77\n77\n");
    world_close(w);
}

static void an_unknown_rlimit_fails_the_exec(void **state)
{
    struct jail jail = { .rlimit_count = 1, .rlimits = { { 99, 1 } } };
    struct world *w = world_open(&jail);

    (void)state;
    assert_int_equal(world_sh(w, ":")->step, STEP_RLIMIT);
    world_close(w);
}

static void need_root(void)
{
    if (geteuid() != 0)
        skip();
}

static void ids_are_changed_and_groups_emptied(void **state)
{
    struct jail jail = { .flags = JAIL_SET_IDS, .uid = 12345, .gid = 23456 };
    struct world *w;

    (void)state;
    need_root();
    w = world_open(&jail);
    assert_string_equal(status_of(w, "Uid"), "12345\t12345\t12345\t12345");
    assert_string_equal(status_of(w, "Gid"), "23456\t23456\t23456\t23456");
    assert_string_equal(world_out(world_sh(w, "id -G"), 1), "23456\n");
    world_close(w);
}

static void nobody_is_root_in_a_jail_that_has_none(void **state)
{
    const uint32_t flags[] = { 0, JAIL_SET_IDS, JAIL_SET_IDS | JAIL_DROP_CAPS };

    (void)state;
    need_root();
    for (size_t i = 0; i < sizeof flags / sizeof *flags; i++) {
        struct jail jail = { .flags = flags[i], .uid = 12345, .gid = 23456 };
        struct world *w = world_open(&jail);
        struct seen *s;

        link_root(w->l);
        s = world_sh(w, "id -u");
        assert_true(s->failed && !s->started);
        assert_int_equal(s->step, STEP_IDS);
        assert_int_equal(s->error, EPERM);
        assert_string_equal(world_out(world_sh(w, "id -u"), 1),
                            flags[i] & JAIL_SET_IDS ? "12345\n" : "0\n");
        world_close(w);
    }
}

static void one_program_is_root_and_not_the_next(void **state)
{
    struct jail jail = { .flags = JAIL_SET_IDS | JAIL_ROOT_CAPS | JAIL_NO_NEW_PRIVS,
                         .uid = 12345,
                         .gid = 23456 };
    struct world *w;

    (void)state;
    need_root();
    w = world_open(&jail);
    link_root(w->l);
    assert_string_equal(status_of(w, "Uid"), "0\t0\t0\t0");
    assert_string_equal(status_of(w, "Uid"), "12345\t12345\t12345\t12345");
    assert_string_equal(status_of(w, "CapEff"), "0000000000000000");
    world_close(w);
}

static void files_are_touched_with_the_programs_rights(void **state)
{
    struct jail jail = { .flags = JAIL_SET_IDS, .uid = 12345, .gid = 23456 };
    struct world *w;
    char path[128];
    int fd;

    (void)state;
    need_root();
    w = world_open(&jail);
    assert_int_equal(world_put(w, "d/mine", "x", 0600), 0);
    assert_string_equal(world_out(world_sh(w, "stat -c '%u %g' d d/mine"), 1),
                        "12345 23456\n12345 23456\n");
    (void)snprintf(path, sizeof path, "%s/secret", w->dir);
    fd = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    (void)close(fd);
    assert_int_equal(world_get(w, "secret", 0, 0)->error, EACCES);
    world_close(w);
}

static void standard_streams_can_be_opened_by_name(void **state)
{
    struct jail jail = { .flags = JAIL_SET_IDS, .uid = 12345, .gid = 23456 };
    struct world *w;
    struct seen *s;

    (void)state;
    need_root();
    w = world_open(&jail);
    s = world_sh(w, "echo out > /dev/stdout; echo err > /dev/stderr");
    assert_string_equal(world_out(s, 1), "out\n");
    assert_string_equal(world_out(s, 2), "err\n");
    world_close(w);
}

static bool has_landlock(void)
{
    return syscall(444 /* landlock_create_ruleset */, NULL, 0, 1) > 0;
}

static void expect_files_confined(uint32_t more_flags)
{
    char usr[] = "/usr", lib[] = "/lib", lib64[] = "/lib64", bin[] = "/bin",
         null[] = "/dev/null";
    char etc[] = "/etc", missing[] = "/no/such/path";
    struct jail jail = { .flags = JAIL_LANDLOCK | JAIL_NO_NEW_PRIVS | more_flags,
                         .path_count = 8,
                         .paths = { { usr, JAIL_READ | JAIL_EXEC },
                                    { lib, JAIL_READ | JAIL_EXEC },
                                    { lib64, JAIL_READ | JAIL_EXEC },
                                    { bin, JAIL_READ | JAIL_EXEC },
                                    { null, JAIL_READ | JAIL_WRITE },
                                    { missing, JAIL_READ },
                                    { etc, 0 } } };
    struct world *w;
    struct seen *s;

    if (!has_landlock())
        skip();
    jail.paths[7] = (struct jail_path){ usr, JAIL_READ };
    w = world_open(&jail);
    s = world_sh(w, "echo x > /dev/null && echo null; cat /etc/passwd || echo etc; "
                    "echo x > file || echo dir");
    assert_string_equal(world_out(s, 1), "null\netc\ndir\n");
    assert_non_null(strstr(world_out(s, 2), "Permission denied"));
    world_close(w);
}

static void landlock_confines_files(void **state)
{
    (void)state;
    expect_files_confined(0);
}

static void landlock_confines_files_where_nobody_came_to_be_adopted(void **state)
{
    (void)state;
    expect_files_confined(JAIL_AWAITS);
}

/* Whoever starts the guest has them ignored; one of them is libc's own. */
static void expect_no_signal_ignored(uint32_t flags)
{
    static const uint64_t ignored[8] = { (uint64_t)(uintptr_t)SIG_IGN };
    static const uint64_t standard[8];
    static const int signals[] = { SIGHUP, SIGUSR1, SIGCHLD, 33 };
    struct jail jail = { .flags = flags };
    struct world *w;

    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++)
        assert_int_equal(syscall(SYS_rt_sigaction, signals[i], ignored, NULL, 8), 0);
    w = world_open(&jail);
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++)
        assert_int_equal(syscall(SYS_rt_sigaction, signals[i], standard, NULL, 8), 0);
    assert_string_equal(status_of(w, "SigIgn"), "0000000000000000");
    world_close(w);
}

static void no_signal_is_ignored_that_the_starter_ignored(void **state)
{
    (void)state;
    expect_no_signal_ignored(0);
    expect_no_signal_ignored(JAIL_AWAITS);
}

static void the_guest_cannot_be_read_or_killed_by_its_programs(void **state)
{
    char root[] = "/";
    struct jail jail = { .flags = JAIL_LANDLOCK | JAIL_NO_NEW_PRIVS,
                         .path_count = 1,
                         .paths = { { root, JAIL_READ | JAIL_EXEC | JAIL_WRITE } } };
    struct world *w;
    struct seen *s;

    (void)state;
    if (syscall(444, NULL, 0, 1) < 6) /* signals are scoped from ABI 6 on */
        skip();
    w = world_open(&jail);
    s = world_sh(w, "(: < /proc/$PPID/mem) 2>/dev/null || echo mem; "
                    "kill -9 $PPID 2>/dev/null || echo kill");
    assert_string_equal(world_out(s, 1), "mem\nkill\n");
    world_close(w);
}

/* The guest, who gives it to its child, has it for a moment as well. */
static void the_program_is_the_first_to_be_killed_for_memory(void **state)
{
    struct jail jail = { .flags = JAIL_OOM_FIRST };
    struct world *w = world_open(&jail);
    struct seen *s =
        world_sh(w, "cat /proc/self/oom_score_adj; "
                    "until [ $(cat /proc/$PPID/oom_score_adj) -lt 1000 ]; do :; done");

    (void)state;
    assert_string_equal(world_out(s, 1), "1000\n");
    assert_int_equal(s->exit.value, 0);
    world_close(w);
}

static void a_file_system_that_ran_full_is_told(void **state)
{
    char dir[] = "/tmp/vial-full-XXXXXX";
    struct jail jail = { 0 };
    struct world *w;
    struct seen *s;

    (void)state;
    assert_non_null(mkdtemp(dir));
    if (mount("none", dir, "tmpfs", 0, "size=1m") < 0) {
        (void)rmdir(dir);
        skip();
    }
    jail.workdir = jail.watch_full[0] = jail.watch_full[1] = dir;
    w = world_open(&jail);
    s = world_sh(w, "head -c 100000 /dev/zero > a");
    assert_int_equal(s->exit.disk_full, 0);
    assert_in_range(s->exit.disk_peak_bytes, 100000, 110000);
    s = world_sh(w, "cat /dev/zero > b");
    assert_int_equal(s->exit.disk_full, 1);
    assert_int_equal(s->exit.disk_peak_bytes, 1 << 20);
    world_close(w);
    assert_int_equal(umount2(dir, MNT_DETACH), 0); /* whoever looks at it just now */
    assert_int_equal(rmdir(dir), 0);
}

static struct world *open_pid1(uint32_t flags)
{
    struct jail jail = { .flags = flags | JAIL_PID1, .uid = 12345, .gid = 23456 };
    struct world *w;

    need_root();
    w = world_open(&jail);
    return w;
}

/* Returns once exactly COUNT processes named "sleep" are left in the vessel. What
 * was killed may take a moment to be gone. */
static void wait_for_sleepers(struct world *w, int count)
{
    char script[160];

    (void)snprintf(
        script, sizeof script,
        "until [ $(grep -l '^Name:.sleep' /proc/[0-9]*/status | wc -l) = %d ]; "
        "do :; done; echo so",
        count);
    assert_string_equal(world_out(world_sh(w, script), 1), "so\n");
}

static void as_pid_1_the_guest_kills_its_whole_namespace(void **state)
{
    struct world *w;
    uint32_t channel;

    (void)state;
    w = open_pid1(JAIL_SET_IDS | JAIL_DROP_CAPS | JAIL_NO_NEW_PRIVS | JAIL_OOM_FIRST);
    assert_string_equal(
        world_out(world_sh(w, "echo $PPID; kill -9 1; kill -TERM 1; :"), 1), "1\n");
    channel = world_sh_start(w, "(setsid sleep 1000 &); echo up; sleep 1000");
    world_wait_out(w, channel, 3);
    link_signal(w->l, channel, SIGKILL, true);
    assert_int_equal(world_wait(w, channel)->exit.value, SIGKILL);
    wait_for_sleepers(w, 0);
    world_close(w);
}

static void as_pid_1_a_tree_is_killed_beside_others(void **state)
{
    struct world *w;
    uint32_t spared, killed;

    (void)state;
    w = open_pid1(JAIL_SET_IDS | JAIL_DROP_CAPS | JAIL_NO_NEW_PRIVS);
    spared = world_sh_start(w, "echo up; exec sleep 1000");
    killed = world_sh_start(w, "(sleep 1000 & sleep 1000 &) ; echo up; sleep 1000");
    world_wait_out(w, spared, 3);
    world_wait_out(w, killed, 3);
    link_signal(w->l, killed, SIGKILL, true);
    assert_int_equal(world_wait(w, killed)->exit.value, SIGKILL);
    assert_false(w->seen[spared].exited);
    wait_for_sleepers(w, 1);
    world_close(w);
}

static void a_fork_bomb_dies_with_the_stream(void **state)
{
    struct jail jail = { .rlimit_count = 0 };
    struct world *w = world_open(&jail);
    uint32_t channel = world_sh_start(
        w,
        "b() { [ $1 -gt 5 ] && { echo x; exec sleep 1000; }; b $(($1+1)) & b $(($1+1)) & "
        "wait; }; b 0");

    (void)state;
    world_wait_out(w, channel, 128);
    assert_int_equal(world_hang_up(w), 0); /* it ends only when all have died */
    world_close(w);
}

static void a_guest_told_wrongly_that_it_is_pid_1_refuses(void **state)
{
    struct jail jail = { 0 };
    struct world *w = world_open(&jail);
    struct link_events none = { 0 };
    struct link *l = link_new(&none, NULL);
    int status;

    (void)state;
    jail.flags = JAIL_PID1;
    link_free(w->l);
    w->l = l;
    assert_int_equal(link_jail(l, &jail, &w->err), 0);
    while (world_pump(w))
        ;
    status = world_hang_up(w);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 1);
    world_close(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_flags_nothing_is_taken_away),
        cmocka_unit_test(privileges_filters_and_capabilities_are_really_gone),
        cmocka_unit_test(the_filter_loaded_last_has_the_last_word),
        cmocka_unit_test(a_filter_that_was_promised_and_is_missing_fails_the_exec),
        cmocka_unit_test(a_filter_the_kernel_refuses_fails_the_exec),
        cmocka_unit_test(a_rlimit_is_soft_and_hard_and_never_raised),
        cmocka_unit_test(an_unknown_rlimit_fails_the_exec),
        cmocka_unit_test(ids_are_changed_and_groups_emptied),
        cmocka_unit_test(nobody_is_root_in_a_jail_that_has_none),
        cmocka_unit_test(one_program_is_root_and_not_the_next),
        cmocka_unit_test(files_are_touched_with_the_programs_rights),
        cmocka_unit_test(standard_streams_can_be_opened_by_name),
        cmocka_unit_test(landlock_confines_files),
        cmocka_unit_test(landlock_confines_files_where_nobody_came_to_be_adopted),
        cmocka_unit_test(no_signal_is_ignored_that_the_starter_ignored),
        cmocka_unit_test(the_guest_cannot_be_read_or_killed_by_its_programs),
        cmocka_unit_test(the_program_is_the_first_to_be_killed_for_memory),
        cmocka_unit_test(a_file_system_that_ran_full_is_told),
        cmocka_unit_test(as_pid_1_the_guest_kills_its_whole_namespace),
        cmocka_unit_test(as_pid_1_a_tree_is_killed_beside_others),
        cmocka_unit_test(a_fork_bomb_dies_with_the_stream),
        cmocka_unit_test(a_guest_told_wrongly_that_it_is_pid_1_refuses),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
