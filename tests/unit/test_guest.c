/* SPDX-License-Identifier: Apache-2.0 */

/* The real guest: programs, their streams and their ends. */

#include "guest_world.h"

static void a_program_says_hello_and_exits_zero(void **state)
{
    struct jail jail = { 0 };
    struct world *w = world_open(&jail);
    struct seen *s = world_sh(w, "echo hello");

    (void)state;
    assert_true(s->started && s->exited);
    assert_string_equal(world_out(s, 1), "hello\n");
    assert_int_equal(s->exit.kind, EXIT_CODE);
    assert_int_equal(s->exit.value, 0);
    assert_int_equal(s->exit.out_bytes, 6);
    assert_true(s->exit.max_rss_bytes > 0);
    world_close(w);
}

/* Which would show which programs a guest has started and which it has adopted. */
static void the_guest_stands_back_and_its_programs_do_not(void **state)
{
    struct jail jail = { 0 };
    struct world *w = world_open(&jail);
    struct seen *s = world_sh(w, "cut -d' ' -f41 /proc/self/stat /proc/$PPID/stat");

    (void)state;
    assert_string_equal(world_out(s, 1), "0\n3\n");
    world_close(w);
}

static void an_exit_code_arrives_unchanged(void **state)
{
    struct jail jail = { 0 };
    struct world *w = world_open(&jail);
    struct seen *s = world_sh(w, "exit 42");

    (void)state;
    assert_int_equal(s->exit.kind, EXIT_CODE);
    assert_int_equal(s->exit.value, 42);
    world_close(w);
}

static void a_deadly_signal_is_told_from_an_exit_code(void **state)
{
    struct jail jail = { 0 };
    struct world *w = world_open(&jail);
    struct seen *s = world_sh(w, "kill -SEGV $$");

    (void)state;
    assert_int_equal(s->exit.kind, EXIT_SIGNAL);
    assert_int_equal(s->exit.value, SIGSEGV);
    world_close(w);
}

static void stdout_and_stderr_stay_apart(void **state)
{
    struct jail jail = { 0 };
    struct world *w = world_open(&jail);
    struct seen *s = world_sh(w, "echo one; echo two >&2; echo three");

    (void)state;
    assert_string_equal(world_out(s, 1), "one\nthree\n");
    assert_string_equal(world_out(s, 2), "two\n");
    assert_true(s->eof[1] && s->eof[2]);
    world_close(w);
}

static void ten_megabytes_arrive_byte_for_byte(void **state)
{
    struct jail jail = { 0 };
    struct world *w = world_open(&jail);
    struct seen *s = world_sh(w, "seq -f '%015.0f' 655360");
    char line[32];

    (void)state;
    assert_int_equal(s->len[1], 10485760);
    assert_int_equal(s->exit.out_bytes, 10485760);
    for (size_t i = 0; i < 655360; i++) {
        (void)snprintf(line, sizeof line, "%015zu\n", i + 1);
        assert_memory_equal(s->bytes[1] + i * 16, line, 16);
    }
    world_close(w);
}

/* Sends TOTAL bytes as fast as credit allows. */
static void send_much(struct world *w, uint32_t channel, size_t total)
{
    static const char block[4096];

    while (total) {
        size_t n = link_writable(w->l, channel);

        if (!n) {
            assert_true(world_pump(w));
            continue;
        }
        n = n < total ? n : total;
        n = n < sizeof block ? n : sizeof block;
        link_send(w->l, channel, block, n);
        total -= n;
    }
    link_send_eof(w->l, channel);
}

static void stdin_of_any_size_reaches_the_program(void **state)
{
    struct jail jail = { 0 };
    struct world *w = world_open(&jail);
    char wc[] = "wc", c[] = "-c";
    char *argv[] = { wc, c, NULL };
    uint32_t channel = world_exec(w, argv, true);

    (void)state;
    send_much(w, channel, 3000000);
    assert_string_equal(world_out(world_wait(w, channel), 1), "3000000\n");
    world_close(w);
}

static void stdin_that_nobody_reads_does_not_stop_the_sender(void **state)
{
    struct jail jail = { 0 };
    struct world *w = world_open(&jail);
    char sh[] = "sh", c[] = "-c", script[] = "exec <&-; echo up; exec sleep 1000";
    char *argv[] = { sh, c, script, NULL };
    uint32_t channel = world_exec(w, argv, true);

    (void)state;
    link_send(w->l, channel, script, sizeof script);
    world_wait_out(w, channel, 3);
    send_much(w, channel, 1000000);
    link_signal(w->l, channel, SIGKILL, true);
    assert_int_equal(world_wait(w, channel)->exit.value, SIGKILL);
    world_close(w);
}

static void closed_stdin_is_the_end_of_file_at_once(void **state)
{
    struct jail jail = { 0 };
    struct world *w = world_open(&jail);

    (void)state;
    assert_string_equal(world_out(world_sh(w, "cat; echo end"), 1), "end\n");
    world_close(w);
}

static void several_programs_run_at_once(void **state)
{
    struct jail jail = { 0 };
    struct world *w = world_open(&jail);
    uint32_t flood = world_sh_start(w, "yes flood");
    uint32_t first = world_sh_start(w, "read x; echo $x; exit 3");
    uint32_t second = world_sh_start(w, "echo second; exit 4");

    (void)state;
    assert_int_equal(world_wait(w, first)->exit.value, 3);
    assert_int_equal(world_wait(w, second)->exit.value, 4);
    assert_false(w->seen[flood].exited);
    link_signal(w->l, flood, SIGKILL, true);
    assert_int_equal(world_wait(w, flood)->exit.value, SIGKILL);
    world_close(w);
}

static void without_credit_a_flood_stops_at_the_window(void **state)
{
    struct jail jail = { 0 };
    struct world *w = world_open(&jail);
    uint32_t flood = world_sh_start(w, "yes");
    uint32_t other;

    (void)state;
    w->seen[flood].hold = true;
    world_wait_out(w, flood, WIRE_CREDIT);
    other = world_sh_start(w, "echo other");
    assert_int_equal(world_wait(w, other)->exit.value, 0);
    assert_int_equal(w->seen[flood].len[1], WIRE_CREDIT);
    link_consumed(w->l, flood, 1, WIRE_CREDIT);
    world_wait_out(w, flood, WIRE_CREDIT + 1);
    world_close(w);
}

static void a_missing_program_fails_at_the_step_find(void **state)
{
    struct jail jail = { 0 };
    struct world *w = world_open(&jail);
    char name[] = "no-such-program";
    char *argv[] = { name, NULL };
    struct seen *s = world_wait(w, world_exec(w, argv, false));

    (void)state;
    assert_true(s->failed && !s->started);
    assert_int_equal(s->step, STEP_FIND);
    assert_int_equal(s->error, ENOENT);
    world_close(w);
}

static void a_file_that_cannot_be_run_fails_at_the_step_exec(void **state)
{
    struct jail jail = { 0 };
    struct world *w = world_open(&jail);
    char path[128];
    char *argv[] = { path, NULL };
    struct seen *s;

    (void)state;
    (void)snprintf(path, sizeof path, "%s/plain", w->dir);
    assert_int_equal(world_put(w, "plain", "text", 0644), 0);
    s = world_wait(w, world_exec(w, argv, false));
    assert_int_equal(s->step, STEP_EXEC);
    assert_int_equal(s->error, EACCES);
    assert_int_equal(world_put(w, "script", "#!/no/such/interpreter\n", 0755), 0);
    (void)snprintf(path, sizeof path, "%s/script", w->dir);
    s = world_wait(w, world_exec(w, argv, false));
    assert_int_equal(s->step, STEP_EXEC);
    assert_int_equal(s->error, ENOENT);
    world_close(w);
}

static void a_missing_working_directory_fails_at_the_step_cwd(void **state)
{
    struct jail jail = { 0 };
    struct world *w = world_open(&jail);
    char name[] = "true", cwd[] = "/no/such/place";
    char *argv[] = { name, NULL }, *env[] = { NULL };
    struct exec_message m = { .argv = argv, .env = env, .cwd = cwd };
    uint32_t channel;

    (void)state;
    assert_int_equal(link_exec(w->l, &m, &channel, &w->err), 0);
    assert_int_equal(world_wait(w, channel)->step, STEP_CWD);
    assert_int_equal(w->seen[channel].error, ENOENT);
    world_close(w);
}

static void the_environment_holds_only_what_was_given(void **state)
{
    struct jail jail = { 0 };
    struct world *w = world_open(&jail);
    char name[] = "env", path[] = "PATH=/usr/bin:/bin";
    char *argv[] = { name, NULL }, *env[] = { path, NULL };
    struct exec_message m = { .argv = argv, .env = env, .stdin_closed = 1 };
    uint32_t channel;

    (void)state;
    assert_int_equal(link_exec(w->l, &m, &channel, &w->err), 0);
    assert_string_equal(world_out(world_wait(w, channel), 1), "PATH=/usr/bin:/bin\n");
    world_close(w);
}

static void a_background_process_does_not_delay_the_exit(void **state)
{
    struct jail jail = { 0 };
    struct world *w = world_open(&jail);
    struct seen *s = world_sh(w, "sleep 1000 & echo parent");

    (void)state;
    assert_string_equal(world_out(s, 1), "parent\n");
    assert_true(s->eof[1] && s->eof[2]);
    assert_int_equal(s->exit.value, 0);
    world_close(w);
}

static void a_background_flood_does_not_delay_the_exit(void **state)
{
    struct jail jail = { 0 };
    struct world *w = world_open(&jail);
    struct seen *s = world_sh(w, "yes & exit 5");

    (void)state;
    assert_int_equal(s->exit.value, 5);
    world_close(w);
}

static void the_guests_own_deadline_ends_a_program(void **state)
{
    struct jail jail = { 0 };
    struct world *w = world_open(&jail);
    char sh[] = "sh", c[] = "-c",
         script[] = "trap '' TERM; sleep 1000 & wait; sleep 1000";
    char *argv[] = { sh, c, script, NULL }, *env[] = { NULL };
    struct exec_message m = { .argv = argv, .env = env, .timeout_ms = 50 };
    uint32_t channel;

    (void)state;
    assert_int_equal(link_exec(w->l, &m, &channel, &w->err), 0);
    assert_int_equal(world_wait(w, channel)->exit.timed_out, 1);
    assert_int_equal(w->seen[channel].exit.kind, EXIT_SIGNAL);
    assert_int_equal(w->seen[channel].exit.value, SIGKILL);
    world_close(w);
}

static void a_signal_reaches_the_program(void **state)
{
    struct jail jail = { 0 };
    struct world *w = world_open(&jail);
    uint32_t channel = world_sh_start(
        w, "trap 'echo got; exit 9' USR1; echo ready; while :; do sleep 0.01; done");

    (void)state;
    world_wait_out(w, channel, 6);
    link_signal(w->l, channel, SIGUSR1, false);
    assert_int_equal(world_wait(w, channel)->exit.value, 9);
    assert_string_equal(world_out(&w->seen[channel], 1), "ready\ngot\n");
    world_close(w);
}

static void a_closed_channel_ends_without_events_and_the_guest_goes_on(void **state)
{
    struct jail jail = { 0 };
    struct world *w = world_open(&jail);
    uint32_t channel = world_sh_start(w, "echo $$; exec sleep 1000");
    int pidfd;

    (void)state;
    world_wait_out(w, channel, 2);
    pidfd = (int)syscall(SYS_pidfd_open,
                         strtol(world_out(&w->seen[channel], 1), NULL, 10), 0);
    assert_true(pidfd >= 0);
    link_close_channel(w->l, channel);
    assert_string_equal(world_out(world_sh(w, "echo alive"), 1), "alive\n");
    world_await_death(pidfd);
    assert_false(w->seen[channel].exited);
    world_close(w);
}

/* Starts SCRIPT, which prints pids; a descriptor for each, COUNT of them. */
static void start_and_watch(struct world *w, const char *script, int *pidfds, int count)
{
    uint32_t channel = world_sh_start(w, script);
    const char *at;
    int lines = 0;

    while (lines < count) {
        assert_true(world_pump(w));
        lines = 0;
        for (at = world_out(&w->seen[channel], 1); *at; at++)
            lines += *at == '\n';
    }
    at = world_out(&w->seen[channel], 1);
    for (int i = 0; i < count; i++) {
        pidfds[i] = (int)syscall(SYS_pidfd_open, strtol(at, NULL, 10), 0);
        assert_true(pidfds[i] >= 0);
        at = strchr(at, '\n') + 1;
    }
}

static void escaped_stopped_and_deaf_processes_die_with_the_stream(void **state)
{
    static const char script[] =
        "(setsid sh -c 'trap \"\" TERM HUP INT; sh -c \"echo \\$\\$; exec sleep 1000\" & "
        "wait' &) ;"
        "sh -c 'echo $$; kill -STOP $$' & "
        "trap '' TERM; echo $$; while :; do sleep 1000; done";
    struct jail jail = { 0 };
    struct world *w = world_open(&jail);
    int pidfds[3];

    (void)state;
    start_and_watch(w, script, pidfds, 3);
    assert_int_equal(world_hang_up(w), 0);
    for (int i = 0; i < 3; i++)
        world_await_death(pidfds[i]);
    world_close(w);
}

static void a_kill_of_one_tree_spares_the_other(void **state)
{
    struct jail jail = { 0 };
    struct world *w = world_open(&jail);
    uint32_t spared = world_sh_start(w, "echo up; exec sleep 1000");
    uint32_t killed =
        world_sh_start(w, "setsid sleep 1000 & sleep 1000 & echo up; wait");

    (void)state;
    world_wait_out(w, spared, 3);
    world_wait_out(w, killed, 3);
    link_signal(w->l, killed, SIGKILL, true);
    assert_int_equal(world_wait(w, killed)->exit.value, SIGKILL);
    assert_false(w->seen[spared].exited);
    world_close(w);
}

static void a_process_that_hides_is_part_of_the_only_tree(void **state)
{
    struct jail jail = { 0 };
    struct world *w = world_open(&jail);
    int pidfds[2];

    (void)state;
    start_and_watch(w,
                    "(setsid sh -c 'echo $$; exec sleep 1000' &); echo $$; sleep 1000",
                    pidfds, 2);
    link_signal(w->l, 1, SIGKILL, true);
    assert_int_equal(world_wait(w, 1)->exit.value, SIGKILL);
    for (int i = 0; i < 2; i++)
        world_await_death(pidfds[i]);
    world_close(w);
}

/* Without a pipe or an open directory of the shell's own. */
#define SHOW_FDS                                                                       \
    "i=0; while [ $i -lt 99 ]; do "                                                    \
    "[ -e /proc/$$/fd/$i ] && printf '%s ' $i; i=$((i + 1)); done; :"

static void the_stream_may_be_stdin_and_stdout(void **state)
{
    struct jail jail = { 0 };
    struct world *w = world_open_by(&jail, true);
    struct seen *s = world_sh(w, "cat; echo out; " SHOW_FDS);

    (void)state;
    assert_string_equal(world_out(s, 1), "out\n0 1 2 ");
    assert_int_equal(world_hang_up(w), 0);
    world_close(w);
}

static void a_senseless_frame_ends_the_guest(void **state)
{
    static const uint8_t nonsense[WIRE_HEADER] = { [4] = 99 };
    struct jail jail = { 0 };
    struct world *w = world_open(&jail);
    int status;

    (void)state;
    assert_string_equal(world_out(world_sh(w, "echo up"), 1), "up\n");
    assert_int_equal(send(w->fd, nonsense, sizeof nonsense, 0), WIRE_HEADER);
    while (world_pump(w))
        ;
    status = world_hang_up(w);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 1);
    world_close(w);
}

static void no_descriptor_but_the_three_reaches_a_program(void **state)
{
    struct jail jail = { 0 };
    struct world *w = world_open(&jail);
    struct seen *s = world_sh(w, SHOW_FDS);

    (void)state;
    assert_string_equal(world_out(s, 1), "0 1 2 ");
    world_close(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_program_says_hello_and_exits_zero),
        cmocka_unit_test(the_guest_stands_back_and_its_programs_do_not),
        cmocka_unit_test(an_exit_code_arrives_unchanged),
        cmocka_unit_test(a_deadly_signal_is_told_from_an_exit_code),
        cmocka_unit_test(stdout_and_stderr_stay_apart),
        cmocka_unit_test(ten_megabytes_arrive_byte_for_byte),
        cmocka_unit_test(stdin_of_any_size_reaches_the_program),
        cmocka_unit_test(stdin_that_nobody_reads_does_not_stop_the_sender),
        cmocka_unit_test(closed_stdin_is_the_end_of_file_at_once),
        cmocka_unit_test(several_programs_run_at_once),
        cmocka_unit_test(without_credit_a_flood_stops_at_the_window),
        cmocka_unit_test(a_missing_program_fails_at_the_step_find),
        cmocka_unit_test(a_file_that_cannot_be_run_fails_at_the_step_exec),
        cmocka_unit_test(a_missing_working_directory_fails_at_the_step_cwd),
        cmocka_unit_test(the_environment_holds_only_what_was_given),
        cmocka_unit_test(a_background_process_does_not_delay_the_exit),
        cmocka_unit_test(a_background_flood_does_not_delay_the_exit),
        cmocka_unit_test(the_guests_own_deadline_ends_a_program),
        cmocka_unit_test(a_signal_reaches_the_program),
        cmocka_unit_test(a_closed_channel_ends_without_events_and_the_guest_goes_on),
        cmocka_unit_test(escaped_stopped_and_deaf_processes_die_with_the_stream),
        cmocka_unit_test(a_kill_of_one_tree_spares_the_other),
        cmocka_unit_test(a_process_that_hides_is_part_of_the_only_tree),
        cmocka_unit_test(the_stream_may_be_stdin_and_stdout),
        cmocka_unit_test(a_senseless_frame_ends_the_guest),
        cmocka_unit_test(no_descriptor_but_the_three_reaches_a_program),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
