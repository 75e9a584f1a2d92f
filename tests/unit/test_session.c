/* SPDX-License-Identifier: Apache-2.0 */

/* The life of a session and of its execs, through the public API, on every
 * driver. */

#include <dirent.h>
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include "left_behind.h"
#include "session_case.h"

static void many_execs_share_one_place(void **state)
{
    struct vial_session_report report;

    begin(on);
    struct vial_session *s = open_on(on);
    check_line(s, "echo one > f; echo ready", "ready\n");
    check_line(s, "cat f; pwd >&2", "one\n");
    vial_session_look(s, &report);
    assert_int_equal(report.outcome, VIAL_SESSION_OPEN);
    assert_int_equal(report.execs, 2);
    assert_string_equal(report.driver, on->driver);
    assert_int_equal(report.id[0], 's');
    assert_int_equal(report.vessel_id[0], 'v');
    vial_session_free(s);
}

static void argv_env_cwd_and_stdin_are_what_was_given(void **state)
{
    const char *argv[] = { "sh", "-c", "cat; echo \"$A $B\"; basename $PWD", NULL };
    const char *env[] = { "A=1 2", "B=x", "A=last", NULL };
    struct vial_exec_options o = {
        .argv = argv, .env = env, .cwd = "sub", .stdin_data = "in\n", .stdin_len = 3
    };
    struct vial_exec *x;

    begin(on);
    struct vial_session *s = open_with(on, "'timeout':'60s','env':{'B':'old'}", NULL);
    check_line(s, "mkdir sub", "");
    good(vial_session_exec(s, &o, &x, &err));
    assert_output(x, 1, "in\nlast x\nsub\n");
    assert_int_equal(wait_for(x).verdict, VIAL_OK);
    vial_session_free(s);
}

/* A guest that came by the engine's exec is not the container's first process; then a
 * program's signals reach its own processes alone (Landlock). */
static bool programs_are_apart(void)
{
    const char *place = getenv("VIAL_TEST_PLACE");

    return place && strcmp(place, "exec") == 0;
}

static void the_pid_that_is_told_is_the_programs_own(void **state)
{
    struct vial_exec_status st;
    struct vial_chunk c;
    char want[32], told[32] = "";

    begin(on);
    struct vial_session *s = open_on(on);
    struct vial_exec *x = start(s, "echo $$; exec sleep 60");
    vial_exec_wait_started(x, PATIENCE_MS, &st);
    assert_true(st.running);
    (void)snprintf(want, sizeof want, "%u\n", st.pid);
    good(vial_exec_read(x, 1, 0, told, sizeof told - 1, PATIENCE_MS, &c, &err));
    assert_string_equal(told, want);
    if (programs_are_apart()) {
        good(vial_exec_signal(x, SIGTERM, false, &err));
    } else { /* by another program, which knows it so */
        (void)snprintf(want, sizeof want, "kill %u && echo ended", st.pid);
        check_line(s, want, "ended\n");
    }
    assert_int_equal(wait_for(x).signal, SIGTERM);
    x = start(s, "exec /no/such/program");
    assert_int_not_equal(wait_for(x).pid, 0); /* the shell's */
    vial_session_free(s);
}

static void a_program_that_is_not_there_has_no_pid(void **state)
{
    const char *argv[] = { "no-such-program", NULL };
    struct vial_exec_options o = { .argv = argv };
    struct vial_exec_status st;
    struct vial_exec *x;

    begin(on);
    struct vial_session *s = open_on(on);
    good(vial_session_exec(s, &o, &x, &err));
    vial_exec_wait_started(x, PATIENCE_MS, &st);
    assert_false(st.running);
    assert_int_equal(st.pid, 0);
    vial_session_free(s);
}

/* False where there is nothing to pause it by, which must be said. */
static bool pauses(struct vial_session *s, const struct vial_pause_options *o)
{
    struct vial_session_report report;
    struct vial_error err = { 0 };
    bool grouped;

    vial_session_look(s, &report);
    grouped = strncmp(report.limits_by, "cgroup", 6) == 0;
    if (vial_session_pause(s, o, &err) == 0) {
        vial_session_look(s, &report);
        assert_true(report.paused);
        return true;
    }
    if (grouped)
        fail_msg("%s: %s (%s)", err.code, err.message, err.cause);
    assert_string_equal(err.code, "VIAL-UNSUPPORTED");
    return false;
}

static void a_paused_session_does_nothing_until_it_is_resumed(void **state)
{
    struct vial_exec_options o = { .shell = "true" };
    struct vial_session_report before, after;
    struct vial_exec *x;

    begin(on);
    struct vial_session *s = open_on(on);
    struct vial_exec *busy = start(s, "while :; do :; done");
    if (pauses(s, NULL)) {
        vial_session_look(s, &before);
        (void)usleep(300000);
        vial_session_look(s, &after);
        assert_true(after.usage.cpu_user_ms + after.usage.cpu_system_ms ==
                    before.usage.cpu_user_ms + before.usage.cpu_system_ms);
        refused(vial_session_exec(s, &o, &x, &err), "VIAL-PAUSED");
        refused(vial_session_put(s, "f", "x", 1, 0, &err), "VIAL-PAUSED");
        good(vial_session_renew(s, 0, &err)); /* which needs nobody inside */
        good(vial_session_pause(s, NULL, &err));
        good(vial_session_resume(s, &err));
    }
    good(vial_session_resume(s, &err)); /* one that runs is good */
    vial_exec_free(busy);
    check_line(s, "echo again", "again\n");
    vial_session_free(s);
}

static void any_use_wakes_a_session_that_was_paused_so(void **state)
{
    const struct vial_pause_options o = { .auto_resume = true, .reclaim = true };
    struct vial_session_report report;

    begin(on);
    struct vial_session *s = open_on(on);
    struct vial_exec *x = start(s, "sleep 0.2; echo done");
    (void)pauses(s, &o);
    assert_int_equal(wait_for(x).verdict, VIAL_OK);
    (void)pauses(s, &o);
    good(vial_session_put(s, "f", "x", 1, 0, &err));
    vial_session_look(s, &report);
    assert_false(report.paused);
    check_line(s, "cat f", "x");
    vial_session_free(s);
}

static void deadlines_and_leases_stand_still_while_a_session_is_paused(void **state)
{
    const struct vial_session_options so = { .lease_ms = 4500 };
    struct vial_exec_options o = { .shell = "sleep 60", .timeout_ms = 2000 };
    struct vial_session_report report;
    struct vial_exec_status st;
    struct vial_exec *x;

    begin(on);
    struct vial_session *s = open_with(on, "'timeout':'60s'", &so);
    good(vial_session_exec(s, &o, &x, &err));
    vial_exec_wait_started(x, PATIENCE_MS, &st);
    if (pauses(s, NULL)) {
        (void)usleep(5000000);
        vial_exec_wait(x, 0, &st);
        assert_true(st.running);
        good(vial_session_resume(s, &err));
        vial_exec_wait(x, 0, &st);
        assert_true(st.running); /* the guest's own deadline has moved, too */
    }
    assert_int_equal(wait_for(x).verdict, VIAL_TIMEOUT);
    vial_session_look(s, &report);
    assert_int_equal(report.outcome, VIAL_SESSION_OPEN);
    vial_session_free(s);
}

static void a_paused_session_can_be_closed_and_does_not_stay_for_ever(void **state)
{
    const struct vial_pause_options o = { .most_ms = 200 };
    struct vial_session_report report = { 0 };
    char want[100];

    begin(on);
    struct vial_session *s = open_with(on, "'timeout':'60s','stop_grace':'10s'", NULL);
    struct vial_exec *x =
        start(s, "trap 'echo asked; exit' TERM; echo up; sleep 60 & wait");
    char up[3];
    struct vial_chunk c;
    good(vial_exec_read(x, 1, 0, up, 3, PATIENCE_MS, &c, &err));
    (void)pauses(s, NULL);
    vial_session_close(s, VIAL_SESSION_COMPLETED);
    assert_output(x, 1, "up\nasked\n");
    vial_session_free(s);

    s = open_on(on);
    (void)start(s, "sleep 60");
    (void)pauses(s, NULL);
    vial_session_kill(s, VIAL_SESSION_FAILED);
    vial_session_free(s);

    s = open_on(on);
    if (pauses(s, &o)) {
        for (int i = 0; i < 1000 && !vial_session_ended(s, &report); i++)
            (void)usleep(20000);
        assert_int_equal(report.outcome, VIAL_SESSION_EXPIRED);
        (void)snprintf(want, sizeof want,
                       "session '%s' was paused and ended after 200 ms", report.id);
        assert_string_equal(report.error.message, want);
        refused(vial_session_resume(s, &err), "VIAL-SESSION");
        refused(vial_session_pause(s, NULL, &err), "VIAL-SESSION");
    }
    vial_session_free(s);
}

/* One that is ending can be moved nowhere, and soon need not be. */
static void a_session_whose_programs_come_and_go_can_be_paused(void **state)
{
    begin(on);
    struct vial_session *s = open_on(on);
    for (int i = 0; i < 4; i++)
        (void)start(s, "while :; do /bin/true; done");
    for (int i = 0; i < 40 && pauses(s, NULL); i++)
        good(vial_session_resume(s, &err));
    vial_session_free(s);
}

static struct vial_result *run_in(struct vial_session *s, const char *json)
{
    struct vial_request *req = case_request(json);
    struct vial_result *r = NULL;

    good(vial_session_run(s, req, NULL, &r, &err));
    vial_request_free(req);
    return r;
}

static void check_run(struct vial_session *s, const char *json, const char *want)
{
    struct vial_result *r = run_in(s, json);

    case_verdict(r, VIAL_OK);
    assert_string_equal(r->out.data, want);
    vial_result_free(r);
}

static void a_request_runs_in_a_session_as_it_would_alone(void **state)
{
    begin(on);
    struct vial_session *s = open_with(
        on, "'timeout':'60s','output_limit':'1m','env':{'A':'open','LANG':'open'}",
        NULL);
    struct vial_result *r;

    check_run(
        s,
        "{'language':'bash','code':'echo $A $B $LANG $1 $(cat f) $(cat); echo >x',"
        "'env':{'B':'call'},'args':['arg'],'stdin':'in','files':[{'path':'f',"
        "'content':'file'}]}",
        "open call open arg file in\n");
    check_run(s, "{'command':['sh','-c','ls x; echo $A'],'env':{'A':'call'}}",
              "x\ncall\n");
    check_run(s, "{'command':['sh','-c','mkdir d']}", "");
    r = run_in(s,
               "{'command':['sh','-c','pwd; echo 12 >o'],'cwd':'d','outputs':['d/o']}");
    case_verdict(r, VIAL_OK);
    assert_string_equal(r->files[0].data, "12\n");
    assert_non_null(strstr(r->out.data, "/d\n"));
    vial_result_free(r);
    r = run_in(s, "{'command':['sh','-c','echo 12345; exit 3'],'output_limit':2,"
                  "'output_keep':'head'}");
    case_verdict(r, VIAL_NONZERO);
    assert_int_equal(r->exit_code, 3);
    assert_true(r->out.truncated && r->out.total_bytes == 6);
    vial_result_free(r);
    r = run_in(s, "{'command':['sleep','60'],'timeout':'100ms'}");
    case_verdict(r, VIAL_TIMEOUT);
    vial_result_free(r);
    check_run(s, "{'command':['cat','f']}", "file");
    vial_session_free(s);
}

static void what_is_a_sessions_own_is_refused_of_its_runs(void **state)
{
    static const char *const rows[][2] = {
        { "{'command':['true'],'memory':'64m'}", "VIAL-UNSUPPORTED" },
        { "{'command':['true'],'timeout':'61s'}", "VIAL-CAP" },
        { "{'language':'klingon','code':'1'}", "VIAL-LANGUAGE" },
        { "{}", "VIAL-USAGE" },
    };
    begin(on);
    struct vial_session *s = open_on(on);
    struct vial_request *req;
    struct vial_result *r = NULL;

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        req = case_request(rows[i][0]);
        refused(vial_session_run(s, req, NULL, &r, &err), rows[i][1]);
        vial_request_free(req);
    }
    check_run(s, "{'command':['true']}", "");
    vial_session_close(s, VIAL_SESSION_COMPLETED);
    req = case_request("{'command':['true']}");
    refused(vial_session_run(s, req, NULL, &r, &err), "VIAL-SESSION");
    vial_request_free(req);
    vial_session_free(s);
}

static void a_failing_exec_leaves_the_session_usable(void **state)
{
    const char *argv[] = { "no-such-program", NULL };
    const char *odd[] = { "1A=x", NULL };
    const struct {
        struct vial_exec_options o;
        const char *code;
    } refusals[] = {
        { { 0 }, "VIAL-VALUE" },
        { { .argv = argv, .shell = "true" }, "VIAL-VALUE" },
        { { .shell = "true", .timeout_ms = -1 }, "VIAL-VALUE" },
        { { .shell = "true", .timeout_ms = 60001 }, "VIAL-CAP" },
        { { .shell = "true", .env = odd }, "VIAL-VALUE" },
        { { .shell = "true", .cwd = "/proc/self/cwd/../.." }, "VIAL-CWD" },
        { { .shell = "cat", .stdin_live = true, .stdin_data = "x", .stdin_len = 1 },
          "VIAL-VALUE" },
    };
    struct vial_exec_options missing = { .argv = argv };
    struct vial_exec_options nowhere = { .shell = "true", .cwd = "nowhere" };
    struct vial_exec *x = NULL;
    struct vial_exec_status st;

    begin(on);
    struct vial_session *s = open_on(on);
    for (size_t i = 0; i < sizeof refusals / sizeof *refusals; i++)
        refused(vial_session_exec(s, &refusals[i].o, &x, &err), refusals[i].code);
    good(vial_session_exec(s, &missing, &x, &err));
    st = wait_for(x);
    assert_int_equal(st.verdict, VIAL_FAILED);
    assert_error(&st.error, "VIAL-EXEC start 'no-such-program'");
    good(vial_session_exec(s, &nowhere, &x, &err));
    st = wait_for(x);
    assert_string_equal(st.error.code, "VIAL-CWD");
    x = start(s, "exit 7");
    assert_int_equal(wait_for(x).exit_code, 7);
    check_line(s, "echo alive", "alive\n");
    vial_session_free(s);
}

static void a_time_out_kills_that_exec_alone(void **state)
{
    struct vial_exec_options slow = { .shell = "sleep 60 & echo $!; sleep 60",
                                      .timeout_ms = 300 };
    struct vial_exec *x, *other;
    struct vial_exec_status st;
    char *pid;
    char line[96];

    begin(on);
    struct vial_session *s = open_on(on);
    check_line(s, "(sleep 50 >/dev/null 2>&1 & echo $! > left)", "");
    other = start(s, "read x; echo other");
    vial_exec_free(
        other); /* its stdin was closed; one more channel has come and gone */
    other = start(s, "sleep 2; echo still here");
    good(vial_session_exec(s, &slow, &x, &err));
    st = wait_for(x);
    assert_int_equal(st.verdict, VIAL_TIMEOUT);
    assert_int_equal(st.exit_code, -1);
    assert_true(st.duration_ms >= 300 && st.duration_ms < 20000);
    pid = read_whole(x, 1);
    (void)snprintf(line, sizeof line, "test -d /proc/%d || echo dead", atoi(pid));
    check_line(s, line, "dead\n");
    free(pid);
    check_line(s, "test -d /proc/$(cat left) && echo left alone", "left alone\n");
    assert_output(other, 1, "still here\n");
    vial_session_free(s);
}

static void execs_run_at_once_and_output_is_told_apart(void **state)
{
    struct vial_exec *x[20];
    char line[64], want[32];
    size_t taken;

    begin(on);
    struct vial_session *s = open_on(on);
    for (int i = 0; i < 20; i++) {
        struct vial_exec_options o = { .shell = line, .stdin_live = true };

        (void)snprintf(line, sizeof line, "read x; echo ${x}%d; echo e%d >&2", i, i);
        good(vial_session_exec(s, &o, &x[i], &err));
    }
    for (int i = 19; i >= 0; i--) {
        good(vial_exec_write(x[i], "n\n", 2, -1, &taken, &err));
        (void)snprintf(want, sizeof want, "n%d\n", i);
        assert_output(x[i], 1, want);
        (void)snprintf(want, sizeof want, "e%d\n", i);
        assert_output(x[i], 2, want);
        assert_int_equal(wait_for(x[i]).verdict, VIAL_OK);
    }
    vial_session_free(s);
}

static void live_stdin_makes_a_conversation(void **state)
{
    struct vial_exec_options o = { .shell = "while read x; do echo got $x; done; "
                                            "while [ ! -e go ]; do sleep 0.05; done",
                                   .stdin_live = true };
    struct vial_chunk c;
    struct vial_exec *x;
    char buf[32];
    size_t taken;

    begin(on);
    struct vial_session *s = open_on(on);
    good(vial_session_exec(s, &o, &x, &err));
    good(vial_exec_write(x, "a\n", 2, -1, &taken, &err));
    good(vial_exec_read(x, 1, 0, buf, sizeof buf, -1, &c, &err));
    assert_memory_equal(buf, "got a\n", 6);
    good(vial_exec_write(x, "b\n", 2, -1, &taken, &err));
    good(vial_exec_close_stdin(x, &err));
    refused(vial_exec_write(x, "c\n", 2, -1, &taken, &err), "VIAL-VALUE");
    good(vial_session_put(s, "go", "", 0, 0, &err));
    assert_int_equal(wait_for(x).verdict, VIAL_OK);
    assert_output(x, 1, "got a\ngot b\n");
    refused(vial_exec_write(x, "c\n", 2, -1, &taken, &err), "VIAL-EXEC");
    vial_session_free(s);
}

static void stdin_that_nobody_reads_does_not_block_for_ever(void **state)
{
    struct vial_exec_options o = { .shell = "exec sleep 60", .stdin_live = true };
    struct vial_exec *x;
    char *big = calloc(1, 4 << 20);
    size_t taken;

    begin(on);
    struct vial_session *s = open_on(on);
    good(vial_session_exec(s, &o, &x, &err));
    good(vial_exec_write(x, big, 4 << 20, 200, &taken, &err));
    assert_true(taken > 0 && taken < 4 << 20);
    check_line(s, "echo others run", "others run\n");
    free(big);
    vial_session_free(s);
}

static void a_terminal_is_one_and_can_be_resized(void **state)
{
    static const char script[] =
        "test -t 0 && test -t 1 && test -t 2 && tty > /dev/null && echo $TERM; "
        "stty -echo; trap 'stty size' WINCH; stty size; echo e >&2; "
        "while ! read x; do :; done; echo got $x";
    struct vial_exec_options o = {
        .shell = script, .stdin_live = true, .rows = 24, .columns = 80
    };
    struct vial_chunk c;
    struct vial_exec *x;
    char text[256] = "";
    size_t len = 0, taken;

    begin(on);
    struct vial_session *s = open_on(on);
    good(vial_session_exec(s, &o, &x, &err));
    while (!strstr(text, "e\r\n")) {
        good(vial_exec_read(x, 1, len, text + len, 200 - len, 20000, &c, &err));
        assert_true(c.len > 0);
        len += c.len;
    }
    assert_string_equal(text, "xterm\r\n24 80\r\ne\r\n");
    refused(vial_exec_resize(x, 0, 80, &err), "VIAL-VALUE");
    good(vial_exec_resize(x, 30, 100, &err));
    while (!strstr(text, "30 100\r\n")) {
        good(vial_exec_read(x, 1, len, text + len, 200 - len, 20000, &c, &err));
        assert_true(c.len > 0);
        len += c.len;
    }
    good(vial_exec_write(x, "word\n", 5, -1, &taken, &err));
    assert_int_equal(wait_for(x).verdict, VIAL_OK);
    assert_output(x, 1, "xterm\r\n24 80\r\ne\r\n30 100\r\ngot word\r\n");
    assert_output(x, 2, "");
    refused(vial_exec_resize(x, 24, 80, &err), "VIAL-EXEC");
    o = (struct vial_exec_options){ .shell = "cat; seq 2000 | tail -n 2",
                                    .rows = 2,
                                    .columns = 2 };
    good(vial_session_exec(s, &o, &x, &err)); /* no stdin: its end comes at once */
    assert_int_equal(wait_for(x).verdict, VIAL_OK);
    assert_output(x, 1, "1999\r\n2000\r\n");
    x = start(s, "sleep 50");
    refused(vial_exec_resize(x, 24, 80, &err), "VIAL-VALUE");
    vial_session_free(s);
}

static void a_background_exec_can_be_polled_signalled_and_attached(void **state)
{
    struct vial_exec_status st;
    struct vial_chunk c;
    char buf[16];

    begin(on);
    struct vial_session *s = open_on(on);
    struct vial_exec *x =
        start(s, "trap 'echo bye; exit 3' TERM; echo up; while :; do sleep 0.05; done");
    good(vial_exec_read(x, 1, 0, buf, sizeof buf, -1, &c, &err));
    assert_int_equal(c.len, 3);
    vial_exec_wait(x, 0, &st);
    assert_true(st.running);
    assert_int_equal(st.stdout_bytes, 3);
    refused(vial_exec_signal(x, 0, false, &err), "VIAL-VALUE");
    good(vial_exec_signal(x, SIGTERM, false, &err));
    assert_int_equal(wait_for(x).exit_code, 3);
    assert_output(x, 1, "up\nbye\n");
    refused(vial_exec_signal(x, SIGTERM, false, &err), "VIAL-EXEC");
    x = start(s, "sleep 60 & sleep 60");
    good(vial_exec_signal(x, SIGKILL, true, &err));
    st = wait_for(x);
    assert_int_equal(st.verdict, VIAL_SIGNAL);
    assert_int_equal(st.signal, SIGKILL);
    vial_session_free(s);
}

static void a_closed_session_answers_with_a_typed_error(void **state)
{
    struct vial_exec_options o = { .shell = "true" };
    struct vial_session_report report;
    struct vial_exec_status st;
    struct vial_exec *x, *running;
    char buf[16];
    struct vial_chunk c;

    begin(on);
    struct vial_session *s = open_on(on);
    running = start(s, "echo kept; sleep 60");
    good(vial_exec_read(running, 1, 0, buf, sizeof buf, -1, &c, &err));
    vial_session_close(s, VIAL_SESSION_FAILED);
    vial_session_close(s, VIAL_SESSION_COMPLETED);
    vial_session_look(s, &report);
    assert_int_equal(report.outcome, VIAL_SESSION_FAILED);
    assert_string_equal(vial_outcome_name(report.outcome), "failed");
    refused(vial_session_exec(s, &o, &x, &err), "VIAL-SESSION");
    refused(vial_session_renew(s, 0, &err), "VIAL-SESSION");
    refused(vial_exec_signal(running, SIGTERM, false, &err), "VIAL-SESSION");
    vial_exec_wait(running, -1, &st);
    assert_int_equal(st.verdict, VIAL_CANCELLED);
    assert_string_equal(st.error.code, "VIAL-SESSION");
    assert_output(running, 1, "kept\n");
    vial_session_free(s);
}

/* Waits until the session has ended by itself. */
static struct vial_session_report wait_end(struct vial_session *s)
{
    struct vial_session_report report;
    struct vial_exec_options o = { .shell = "sleep 50" };
    struct vial_exec *x = NULL;
    struct vial_exec_status st;

    if (vial_session_exec(s, &o, &x, NULL) == 0)
        vial_exec_wait(x, 30000, &st);
    vial_session_look(s, &report);
    return report;
}

static void a_lease_that_runs_out_expires_the_session(void **state)
{
    struct vial_session_options options = { .lease_ms = 60000 };
    struct vial_session_report report;

    begin(on);
    struct vial_session *s = open_with(on, "'timeout':'60s'", &options);
    good(vial_session_renew(s, 600, &err));
    refused(vial_session_renew(s, -1, &err), "VIAL-VALUE");
    report = wait_end(s);
    assert_int_equal(report.outcome, VIAL_SESSION_EXPIRED);
    assert_string_equal(report.error.code, "VIAL-SESSION");
    assert_true(report.duration_ms >= 600);
    vial_session_free(s);
}

static void an_idle_session_expires_but_a_busy_one_does_not(void **state)
{
    struct vial_session_options options = { .idle_ms = 2500 };
    struct vial_session_report report = { 0 };

    begin(on);
    struct vial_session *s = open_with(on, "'timeout':'60s'", &options);
    check_line(s, "sleep 3; echo done", "done\n");
    /* Looking is not asking. */
    while (report.outcome == VIAL_SESSION_OPEN)
        vial_session_look(s, &report);
    assert_int_equal(report.outcome, VIAL_SESSION_EXPIRED);
    vial_session_free(s);
}

/* Two forks, a session of its own, no pipe held; and where a filter holds, the
 * attribute that keeps orphans is given back. Its 'pid' is there once it HIDES. */
#define HIDDEN(HIDES)                                                                  \
    "import os, time, sys, ctypes, threading\n"                                        \
    "libc = ctypes.CDLL(None)\n"                                                       \
    "def tell():\n"                                                                    \
    " open('pid.new', 'w').write(str(os.getpid()))\n"                                  \
    " os.rename('pid.new', 'pid')\n"                                                   \
    "def stay():\n"                                                                    \
    " tell()\n"                                                                        \
    " time.sleep(1000)\n"                                                              \
    "if sys.argv[1] == 'native':\n"                                                    \
    " libc.prctl(36, 0, 0, 0, 0)\n"                                                    \
    "if os.fork() == 0:\n"                                                             \
    " os.setsid()\n"                                                                   \
    " if os.fork() == 0:\n"                                                            \
    "  os.setsid()\n"                                                                  \
    "  os.closerange(0, 20)\n" HIDES " os._exit(0)\n"                                  \
    "time.sleep(1000)\n"

/* Whether ARGV had hidden before its time, MS, was over; a busy machine may be slow. */
static bool hides_within(struct vial_session *s, const char *const *argv, uint32_t ms)
{
    struct vial_exec_options o = { .argv = argv, .timeout_ms = ms };
    struct vial_exec *x = NULL;

    good(vial_session_exec(s, &o, &x, &err));
    assert_int_equal(wait_for(x).verdict, VIAL_TIMEOUT);
    vial_exec_free(x);
    return wait_for(start(s, "test -s pid")).exit_code == 0;
}

/* Runs ARGV beside another program until its time is over; then CHECK, which prints
 * "gone" when nothing of it is left, at once. */
static void check_hidden(struct vial_session *s, const char *const *argv,
                         const char *check)
{
    struct vial_exec *other = start(s, "sleep 1000");
    struct vial_exec_status st;
    uint32_t ms = 1000;

    while (!hides_within(s, argv, ms)) {
        ms *= 4;
        assert_true(ms < 30000);
    }
    check_line(s, check, "gone\n");
    vial_exec_wait(other, 0, &st);
    assert_true(st.running);
    good(vial_exec_signal(other, SIGTERM, false, &err)); /* it would wait if stopped */
    assert_int_equal(wait_for(other).signal, SIGTERM);
    vial_session_free(s);
}

static void check_code(const struct on *on, const char *code)
{
    const char *const argv[] = { "python3", "-c", code, on->driver, NULL };

    check_hidden(open_on(on), argv, "test -d /proc/$(cat pid) || echo gone");
}

static void a_timeout_finds_whoever_forked_twice_and_left_its_session(void **state)
{
    begin(on);
    check_code(on, HIDDEN("  stay()\n"));
}

static void whoever_a_timeout_ends_is_gone_when_it_is_told(void **state)
{
    begin(on);
    check_code(on, HIDDEN("  held = b'x' * (200 << 20)\n"
                          "  stay()\n"));
}

/* The kernel calls it a zombie then, though its other threads run on. */
static void a_timeout_finds_whoever_ended_its_first_thread(void **state)
{
    begin(on);
    check_code(on, HIDDEN("  threading.Thread(target=stay).start()\n"
                          "  exit = 60 if os.uname().machine == 'x86_64' else 93\n"
                          "  libc.syscall(ctypes.c_long(exit), 0)\n"));
}

/* Only the first process of a pid namespace can do that; elsewhere most runners are
 * caught, and on the host itself none shall be tried. */
static bool is_stopped_whole(const struct on *on)
{
    const char *place = getenv("VIAL_TEST_PLACE");

    return strcmp(on->driver, "process") != 0 && !(place && strcmp(place, "exec") == 0);
}

static void a_timeout_catches_whoever_runs_from_process_to_process(void **state)
{
    static const char *const argv[] = { "./runner", NULL };
    struct vial_session *s;
    char path[4096] = "";
    int fd;

    begin(on);
    if (!is_stopped_whole(on))
        skip();
    assert_true(readlink("/proc/self/exe", path, sizeof path - sizeof "/runner") > 0);
    (void)strcpy(strrchr(path, '/'), "/runner");
    fd = open(path, O_RDONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    s = open_on(on);
    good(vial_session_put_fd(s, "runner", fd, 0700, &err));
    (void)close(fd);
    check_hidden(
        s, argv,
        "a=$(cksum steps); sleep 0.5; test \"$a\" = \"$(cksum steps)\" && echo gone");
}

static void an_attempt_to_kill_the_guest_is_survived_or_told(void **state)
{
    struct vial_session_report report;
    struct vial_exec_options o = { .shell = "true" };
    struct vial_exec_status st;
    struct vial_exec *x;

    begin(on);
    struct vial_session *s = open_on(on);
    x = start(s, "kill -9 $PPID; sleep 0.2; echo alive");
    vial_exec_wait(x, 30000, &st);
    if (strcmp(on->driver, "process") != 0) { /* there it is an ordinary process */
        assert_int_equal(st.verdict, VIAL_OK);
        check_line(s, "echo more", "more\n");
        vial_session_free(s);
        return;
    }
    assert_int_equal(st.verdict, VIAL_FAILED);
    refused(vial_session_exec(s, &o, &x, &err), "VIAL-SESSION");
    vial_session_look(s, &report);
    assert_int_equal(report.outcome, VIAL_SESSION_FAILED);
    assert_error(&report.error, "VIAL-GUEST wait for the guest: it went away");
    vial_session_free(s);
}

static void output_beyond_output_max_ends_the_exec_alone(void **state)
{
    begin(on);
    struct vial_session *s = open_with(on, "'timeout':'60s','output_max':'100k'", NULL);
    struct vial_exec *x = start(s, "yes");

    assert_int_equal(wait_for(x).verdict, VIAL_OUTPUT_LIMIT);
    check_line(s, "echo next", "next\n");
    vial_session_free(s);
}

static void what_cannot_be_opened_is_refused(void **state)
{
    struct vial_session_options options = { .lease_ms = 25 * 3600 * 1000 };
    struct vial_session *s = NULL;

    begin(on);
    struct vial_request *req = case_request("{'end_on':['pids']}");
    refused(vial_session_open(on->engine, req, &options, &s, &err), "VIAL-VALUE");
    refused(vial_session_open(on->engine, req, NULL, &s, &err), "VIAL-UNSUPPORTED");
    vial_request_free(req);
    req = case_request("{'require':['no-such-layer']}");
    refused(vial_session_open(on->engine, req, NULL, &s, &err), "VIAL-VALUE");
    vial_request_free(req);
    vial_session_free(NULL);
    vial_exec_free(NULL);
}

static void *exec_many(void *context)
{
    struct vial_session *s = context;

    for (int i = 0; i < 10; i++) {
        struct vial_exec_options o = { .shell = "cat",
                                       .stdin_data = "x",
                                       .stdin_len = 1 };
        struct vial_exec_status st;
        struct vial_exec *x = NULL;

        if (vial_session_exec(s, &o, &x, NULL) < 0)
            return s;
        vial_exec_wait(x, 30000, &st);
        vial_exec_free(x);
        if (st.verdict != VIAL_OK || st.stdout_bytes != 1)
            return s;
    }
    return NULL;
}

static void one_session_serves_eight_threads(void **state)
{
    pthread_t threads[8];
    void *bad;

    begin(on);
    struct vial_session *s = open_on(on);
    for (size_t i = 0; i < 8; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, exec_many, s), 0);
    for (size_t i = 0; i < 8; i++) {
        assert_int_equal(pthread_join(threads[i], &bad), 0);
        assert_null(bad);
    }
    vial_session_free(s);
}

static void *open_in_thread(void *context)
{
    return open_on(context);
}

static void it_outlives_the_thread_that_opened_it(void **state)
{
    pthread_t thread;
    void *s;

    begin(on);
    struct on copy = *on;
    assert_int_equal(pthread_create(&thread, NULL, open_in_thread, &copy), 0);
    assert_int_equal(pthread_join(thread, &s), 0);
    check_line(s, "echo here", "here\n");
    vial_session_free(s);
}

static void many_sessions_leave_no_descriptor_or_thread_behind(void **state)
{
    size_t fds, threads;

    begin(on);
    vial_session_free(open_on(on));
    fds = count_entries("/proc/self/fd");
    threads = count_entries("/proc/self/task");
    for (int i = 0; i < 20; i++) {
        struct vial_session *s = open_on(on);

        (void)start(s, "sleep 60");
        vial_session_free(s);
    }
    assert_int_equal(count_entries("/proc/self/fd"), fds);
    assert_int_equal(count_entries("/proc/self/task"), threads);
}

/* A keeper whose policy names no networks and no hosts. */
static void refused_by_the_keeper(const struct on *on)
{
    struct vial_request *req = case_request("{'driver':'native','network':'gate'}");
    struct vial_session *s = NULL;

    refused(vial_session_open(on->engine, req, NULL, &s, &err), "VIAL-POLICY");
    vial_request_free(req);
}

static void a_port_is_reached_through_a_gate_and_without_one_refused(void **state)
{
    static const char listen[] =
        "python3 -c 'import socket; s = socket.create_server((\"127.0.0.1\", 8000));"
        "print(1, flush=True); c, _ = s.accept(); c.sendall(c.recv(9).upper())'";
    begin(on);
    struct vial_session *s = open_on(on);
    struct vial_exec *x = NULL;
    struct vial_chunk c = { 0 };
    char got[16] = "";
    int fd = -1;

    refused(vial_session_connect(s, 8000, &fd, &err), "VIAL-UNSUPPORTED");
    vial_session_free(s);
    if (strcmp(on->driver, "native") != 0)
        return; /* the others have none */
    if (kept_is_on()) {
        refused_by_the_keeper(on);
        return;
    }
    s = open_with(on, "'timeout':'60s','network':'gate'", NULL);
    refused(vial_session_connect(s, 0, &fd, &err), "VIAL-VALUE");
    good(vial_session_connect(s, 8000, &fd, &err));
    assert_int_equal(read(fd, got, sizeof got), 0); /* nobody listens */
    (void)close(fd);
    x = start(s, listen);
    good(vial_exec_read(x, 1, 0, got, 2, PATIENCE_MS, &c, &err));
    good(vial_session_connect(s, 8000, &fd, &err));
    assert_int_equal(write(fd, "hello", 5), 5);
    memset(got, 0, sizeof got);
    assert_int_equal(read(fd, got, sizeof got), 5);
    assert_string_equal(got, "HELLO");
    (void)close(fd);
    assert_int_equal(wait_for(x).verdict, VIAL_OK);
    vial_exec_free(x);
    vial_session_free(s);
}

#define TESTS(on)                                                                      \
    {                                                                                  \
        T(many_execs_share_one_place, on),                                             \
            T(argv_env_cwd_and_stdin_are_what_was_given, on),                          \
            T(the_pid_that_is_told_is_the_programs_own, on),                           \
            T(a_program_that_is_not_there_has_no_pid, on),                             \
            T(a_paused_session_does_nothing_until_it_is_resumed, on),                  \
            T(any_use_wakes_a_session_that_was_paused_so, on),                         \
            T(deadlines_and_leases_stand_still_while_a_session_is_paused, on),         \
            T(a_paused_session_can_be_closed_and_does_not_stay_for_ever, on),          \
            T(a_session_whose_programs_come_and_go_can_be_paused, on),                 \
            T(a_request_runs_in_a_session_as_it_would_alone, on),                      \
            T(what_is_a_sessions_own_is_refused_of_its_runs, on),                      \
            T(a_failing_exec_leaves_the_session_usable, on),                           \
            T(a_time_out_kills_that_exec_alone, on),                                   \
            T(execs_run_at_once_and_output_is_told_apart, on),                         \
            T(live_stdin_makes_a_conversation, on),                                    \
            T(stdin_that_nobody_reads_does_not_block_for_ever, on),                    \
            T(a_terminal_is_one_and_can_be_resized, on),                               \
            T(a_background_exec_can_be_polled_signalled_and_attached, on),             \
            T(a_closed_session_answers_with_a_typed_error, on),                        \
            T(a_lease_that_runs_out_expires_the_session, on),                          \
            T(an_idle_session_expires_but_a_busy_one_does_not, on),                    \
            T(a_timeout_finds_whoever_forked_twice_and_left_its_session, on),          \
            T(whoever_a_timeout_ends_is_gone_when_it_is_told, on),                     \
            T(a_timeout_finds_whoever_ended_its_first_thread, on),                     \
            T(a_timeout_catches_whoever_runs_from_process_to_process, on),             \
            T(an_attempt_to_kill_the_guest_is_survived_or_told, on),                   \
            T(output_beyond_output_max_ends_the_exec_alone, on),                       \
            T(what_cannot_be_opened_is_refused, on),                                   \
            T(a_port_is_reached_through_a_gate_and_without_one_refused, on),           \
            T(one_session_serves_eight_threads, on),                                   \
            T(it_outlives_the_thread_that_opened_it, on),                              \
            T(many_sessions_leave_no_descriptor_or_thread_behind, on),                 \
    }

run_on_driver(TESTS)
