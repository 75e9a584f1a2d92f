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
    struct vial_session_options options = { .idle_ms = 1000 };
    struct vial_session_report report = { 0 };

    begin(on);
    struct vial_session *s = open_with(on, "'timeout':'60s'", &options);
    check_line(s, "sleep 1.5; echo done", "done\n");
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

#define TESTS(on)                                                                      \
    {                                                                                  \
        T(many_execs_share_one_place, on),                                             \
            T(argv_env_cwd_and_stdin_are_what_was_given, on),                          \
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
            T(one_session_serves_eight_threads, on),                                   \
            T(it_outlives_the_thread_that_opened_it, on),                              \
            T(many_sessions_leave_no_descriptor_or_thread_behind, on),                 \
    }

run_on_driver(TESTS)
