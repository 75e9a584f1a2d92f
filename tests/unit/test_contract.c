/* SPDX-License-Identifier: Apache-2.0 */

/*
 * What every driver promises, through the public API. Each test runs once for
 * each driver; one that cannot work on this host is skipped, with its reason.
 * covers: NFR-020-39
 */

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include "driver/driver.h"
#include "engine/pool/pool_limits.h"
#include "left_behind.h"
#include "on_driver.h"

#include "vial/warm.h"

/* The test machine is emulated: what takes others tenths of a second takes it seconds.
 */
static bool is_slow(void)
{
    return getenv("ATTACK_SHORT_S") != NULL;
}

/* A deadline before which a program need not have done anything. */
static const char *brief(void)
{
    return is_slow() ? "'timeout':'5s'" : "'timeout':'300ms'";
}

/* One before which a program has printed, however busy the machine is. */
#define AMPLE "'timeout':'3s'"

/* Long before what a program sleeps for. */
#define SOON_MS 50000

/* The request's members after the driver's name. */
static struct vial_request *request_on(const struct on *on, const char *members)
{
    char json[2048];

    (void)snprintf(json, sizeof json, "{'driver':'%s',%s}", on->driver, members);
    return case_request(json);
}

static struct vial_result *run_on(const struct on *on, const char *members)
{
    return case_run(on->engine, request_on(on, members), NULL);
}

/* A shell script, whose text may hold quotes. */
static struct vial_request *script_on(const struct on *on, const char *members,
                                      const char *script)
{
    struct vial_request *req = request_on(on, members);

    case_set(req, "command", "sh");
    case_set(req, "command", "-c");
    case_set(req, "command", script);
    return req;
}

static struct vial_result *run_script(const struct on *on, const char *members,
                                      const char *script)
{
    return case_run(on->engine, script_on(on, members, script), NULL);
}

#define ANY "'timeout':'60s'"

static void a_program_that_ends_well_is_ok(void **state)
{
    begin(on);
    struct vial_result *r = run_script(on, ANY, "echo hello; echo oops >&2");

    case_verdict(r, VIAL_OK);
    assert_int_equal(r->exit_code, 0);
    assert_string_equal(r->out.data, "hello\n");
    assert_string_equal(r->err.data, "oops\n");
    assert_int_equal(r->out.total_bytes, 6);
    assert_int_equal(r->limits_hit, 0);
    assert_string_equal(r->driver, on->driver);
    assert_true(r->vessel_id[0] == 'v');
    assert_true(r->timing.run_ms > 0);
    vial_result_free(r);
}

static void exit_codes_come_back_unchanged(void **state)
{
    static const int codes[] = {
        1, 2, 124, 125, 126, 127, 128, 134, 137, 139, 143, 255
    };
    char script[32];

    begin(on);
    for (size_t i = 0; i < sizeof codes / sizeof *codes; i++) {
        (void)snprintf(script, sizeof script, "exit %d", codes[i]);
        struct vial_result *r = run_script(on, ANY, script);

        case_verdict(r, VIAL_NONZERO);
        assert_int_equal(r->exit_code, codes[i]);
        assert_int_equal(r->signal, 0);
        vial_result_free(r);
    }
}

static void a_program_killed_by_itself_is_a_signal(void **state)
{
    begin(on);
    struct vial_result *r = run_script(on, ANY, "kill -9 $$");

    case_verdict(r, VIAL_SIGNAL);
    assert_int_equal(r->signal, SIGKILL);
    assert_int_equal(r->exit_code, -1);
    assert_int_equal(r->limits_hit, 0);
    vial_result_free(r);
}

static void a_deadline_ends_it_and_keeps_its_output(void **state)
{
    begin(on);
    struct vial_result *r = run_script(on, AMPLE, "echo part; sleep 60");

    case_verdict(r, VIAL_TIMEOUT);
    assert_string_equal(r->out.data, "part\n");
    assert_int_equal(r->limits_hit, VIAL_LIMIT_TIME);
    assert_true(r->duration_ms >= 3000 && r->duration_ms < SOON_MS);
    vial_result_free(r);
}

static void a_stopped_program_still_meets_its_deadline(void **state)
{
    begin(on);
    struct vial_result *r = run_script(on, brief(), "kill -STOP $$");

    case_verdict(r, VIAL_TIMEOUT);
    assert_true(r->duration_ms < SOON_MS);
    vial_result_free(r);
}

static void a_cancelled_run_is_cancelled(void **state)
{
    int ends[2];
    struct vial_watch watch = { .stdin_fd = -1 };

    begin(on);
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    watch.cancel_fd = ends[0];
    assert_int_equal(write(ends[1], "x", 1), 1);
    struct vial_result *r =
        case_run(on->engine, script_on(on, ANY, "sleep 60"), &watch);
    case_verdict(r, VIAL_CANCELLED);
    assert_string_equal(r->error.code, "VIAL-CANCELLED");
    vial_result_free(r);
    (void)close(ends[0]);
    (void)close(ends[1]);
}

static void too_much_output_ends_the_run_if_asked(void **state)
{
    begin(on);
    struct vial_result *r = run_script(on, ANY ",'output_max':'100k'", "yes");

    case_verdict(r, VIAL_OUTPUT_LIMIT);
    assert_int_equal(r->limits_hit, VIAL_LIMIT_OUTPUT);
    assert_true(r->out.total_bytes > 100 * 1024);
    vial_result_free(r);
}

static void what_is_beyond_a_cap_is_denied(void **state)
{
    begin(on);
    struct vial_result *r = run_script(on, "'timeout':'23h'", "true");

    case_verdict(r, VIAL_DENIED);
    assert_string_equal(r->error.code, "VIAL-CAP");
    assert_string_equal(r->vessel_id, "");
    vial_result_free(r);
}

static void what_cannot_be_had_is_denied(void **state)
{
    begin(on);
    struct vial_result *r = run_script(on, ANY ",'require':['no-such-layer']", "true");

    case_verdict(r, VIAL_DENIED);
    assert_string_equal(r->error.code, "VIAL-VALUE");
    assert_true(r->error.remedy[0] != '\0');
    vial_result_free(r);
}

static void a_program_that_is_not_there_is_a_failure(void **state)
{
    begin(on);
    struct vial_result *r = run_on(on, ANY ",'command':['no-such-program','x']");

    case_verdict(r, VIAL_FAILED);
    assert_error(&r->error, "VIAL-EXEC start 'no-such-program'");
    assert_int_equal(r->error.sys, ENOENT);
    vial_result_free(r);
    r = run_on(on, ANY ",'command':['/etc/passwd']");
    case_verdict(r, VIAL_FAILED);
    assert_error(&r->error, "VIAL-EXEC start '/etc/passwd'");
    assert_int_equal(r->error.sys, EACCES);
    vial_result_free(r);
}

static void a_directory_that_is_not_there_is_a_failure(void **state)
{
    begin(on);
    struct vial_result *r = run_script(on, ANY ",'cwd':'nowhere'", "true");

    case_verdict(r, VIAL_FAILED);
    assert_error(&r->error, "VIAL-CWD enter directory '/work/nowhere'");
    vial_result_free(r);
}

static void stdin_reaches_the_program_whole(void **state)
{
    begin(on);
    const size_t size = 2u << 20;
    char *data = malloc(size);
    struct vial_request *req;

    req = script_on(on, ANY ",'output_limit':'4m'", "cat");
    for (size_t i = 0; i < size; i++)
        data[i] = (char)(i * 7 + i / 251);
    assert_int_equal(vial_request_set_bytes(req, "stdin", data, size, NULL), 0);
    struct vial_result *r = case_run(on->engine, req, NULL);
    case_verdict(r, VIAL_OK);
    assert_int_equal(r->out.len, size);
    assert_memory_equal(r->out.data, data, size);
    vial_result_free(r);
    free(data);
}

static void stdin_that_nobody_reads_hinders_nothing(void **state)
{
    begin(on);
    const size_t size = 2u << 20;
    char *data = calloc(1, size);
    struct vial_request *req;

    req = script_on(on, ANY, "echo done");
    assert_int_equal(vial_request_set_bytes(req, "stdin", data, size, NULL), 0);
    struct vial_result *r = case_run(on->engine, req, NULL);
    case_verdict(r, VIAL_OK);
    assert_string_equal(r->out.data, "done\n");
    vial_result_free(r);
    free(data);
}

static void without_stdin_it_is_at_its_end(void **state)
{
    begin(on);
    struct vial_result *r = run_script(on, ANY, "cat; echo end");

    case_verdict(r, VIAL_OK);
    assert_string_equal(r->out.data, "end\n");
    vial_result_free(r);
}

/* Answers the program's question when it has been asked. */
struct talk {
    int fd;
    bool answered;
};

static int answer(void *context, int stream, const void *data, size_t len)
{
    struct talk *t = context;

    (void)data;
    if (stream == 1 && len > 0 && !t->answered) {
        t->answered = true;
        assert_int_equal(write(t->fd, "Ada\n", 4), 4);
        (void)close(t->fd);
    }
    return 0;
}

static void live_stdin_makes_a_conversation(void **state)
{
    int ends[2];
    struct talk talk = { 0 };
    struct vial_watch watch = { .cancel_fd = -1, .output = answer, .context = &talk };

    begin(on);
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    watch.stdin_fd = ends[0];
    talk.fd = ends[1];
    struct vial_result *r =
        case_run(on->engine,
                 script_on(on, ANY, "echo name?; read n; echo hello $n; cat"), &watch);
    case_verdict(r, VIAL_OK);
    assert_string_equal(r->out.data, "name?\nhello Ada\n");
    vial_result_free(r);
    (void)close(ends[0]);
}

static void the_environment_is_only_what_was_given(void **state)
{
    begin(on);
    (void)setenv("VIAL_TEST_SECRET", "hunter2", 1);
    struct vial_result *r = run_script(on, ANY ",'env':{'GREETING':'{dir} $x'}",
                                       "env; echo \"[$GREETING]\"");

    (void)unsetenv("VIAL_TEST_SECRET");
    case_verdict(r, VIAL_OK);
    assert_null(strstr(r->out.data, "hunter2"));
    assert_non_null(strstr(r->out.data, "[{dir} $x]\n"));
    assert_non_null(strstr(r->out.data, "LANG=C.UTF-8\n"));
    vial_result_free(r);
}

static void a_callers_words_are_not_expanded(void **state)
{
    begin(on);
    struct vial_result *r = run_on(on, ANY ",'command':['echo','{dir}','{file}']");

    case_verdict(r, VIAL_OK);
    assert_string_equal(r->out.data, "{dir} {file}\n");
    vial_result_free(r);
}

static void it_starts_in_an_empty_directory_of_its_own(void **state)
{
    begin(on);
    struct vial_result *r = run_script(
        on, ANY, "ls -A | wc -l; test \"$PWD\" = \"$HOME\" && : > x && echo writable");

    case_verdict(r, VIAL_OK);
    assert_string_equal(r->out.data, "0\nwritable\n");
    vial_result_free(r);
}

static void files_go_in_and_come_out(void **state)
{
    begin(on);
    struct vial_result *r =
        run_script(on,
                   ANY ",'cwd':'in','files':[{'path':'in/a.txt','content':'alpha'}],"
                       "'outputs':['in/b.txt','none.txt']",
                   "cat a.txt; printf 'beta\\0!' > b.txt");

    case_verdict(r, VIAL_OK);
    assert_string_equal(r->out.data, "alpha");
    assert_int_equal(r->file_count, 2);
    assert_int_equal(r->files[0].len, 6);
    assert_memory_equal(r->files[0].data, "beta\0!", 6);
    assert_null(r->files[1].data);
    assert_error(&r->files[1].error, "VIAL-NO-FILE fetch 'none.txt'");
    vial_result_free(r);
}

static void an_output_that_is_a_link_or_a_pipe_is_refused(void **state)
{
    begin(on);
    struct vial_result *r =
        run_script(on, ANY ",'outputs':['link','pipe','dir','d/passwd']",
                   "ln -s /etc/passwd link; mkfifo pipe; mkdir dir; ln -s /etc d");

    case_verdict(r, VIAL_OK);
    for (size_t i = 0; i < 4; i++) {
        assert_null(r->files[i].data);
        assert_true(r->files[i].error.code[0] != '\0');
    }
    assert_string_equal(r->files[0].error.code, "VIAL-PATH");
    vial_result_free(r);
}

/* Prints the numbers from 1 to 9999, one a line: 48,888 bytes with newlines. */
#define NUMBERS       "seq 1 9999"
#define NUMBERS_BYTES 48888

static void check_kept(const struct on *on, const char *keep, const char *start,
                       const char *end)
{
    char members[128];
    struct vial_result *r;

    (void)snprintf(members, sizeof members,
                   "'timeout':'60s','output_limit':'100','output_keep':'%s'", keep);
    r = run_script(on, members, NUMBERS);
    case_verdict(r, VIAL_OK);
    assert_true(r->out.truncated);
    assert_int_equal(r->out.total_bytes, NUMBERS_BYTES);
    assert_int_equal(r->limits_hit, VIAL_LIMIT_OUTPUT);
    assert_non_null(strstr(r->out.data, "[… 48788 bytes left out …]\n"));
    assert_int_equal(strncmp(r->out.data, start, strlen(start)), 0);
    assert_string_equal(r->out.data + r->out.len - strlen(end), end);
    vial_result_free(r);
}

static void long_output_is_cut_where_asked(void **state)
{
    begin(on);
    check_kept(on, "head", "1\n2\n", "left out …]\n");
    check_kept(on, "tail", "[… ", "9998\n9999\n");
    check_kept(on, "both", "1\n2\n", "9998\n9999\n");
}

static void a_flood_on_both_streams_ends_by_the_deadline(void **state)
{
    begin(on);
    struct vial_result *r =
        run_script(on, AMPLE ",'output_limit':'1k'", "yes out & yes err >&2 & wait");

    case_verdict(r, VIAL_TIMEOUT);
    assert_true(r->out.truncated && r->err.truncated);
    assert_true(r->duration_ms < SOON_MS);
    vial_result_free(r);
}

static void a_background_process_does_not_delay_the_result(void **state)
{
    begin(on);
    struct vial_result *r =
        run_script(on, ANY, "(sleep 600; echo late) & echo now; exit 3");

    case_verdict(r, VIAL_NONZERO);
    assert_int_equal(r->exit_code, 3);
    assert_string_equal(r->out.data, "now\n");
    assert_true(r->duration_ms < SOON_MS);
    vial_result_free(r);
}

/* Whether a process with MARK on its command line exists on this host. */
static void what_has_left_its_session_dies_too(void **state)
{
    char script[256], mark[32];

    begin(on);
    (void)snprintf(mark, sizeof mark, "98%d.25", getpid());
    (void)snprintf(script, sizeof script,
                   "(setsid sh -c 'sleep %s & sleep %s' >/dev/null 2>&1 &); exit 0",
                   mark, mark);
    struct vial_result *r = run_script(on, ANY, script);
    case_verdict(r, VIAL_OK);
    assert_false(is_running(mark));
    vial_result_free(r);
    (void)snprintf(script, sizeof script,
                   "trap '' TERM HUP INT; (setsid sleep %s &); sleep %s", mark, mark);
    r = run_script(on, brief(), script);
    case_verdict(r, VIAL_TIMEOUT);
    assert_false(is_running(mark));
    vial_result_free(r);
}

static void closing_the_streams_is_not_the_end(void **state)
{
    begin(on);
    struct vial_result *r = run_script(on, ANY, "exec >&- 2>&-; sleep 0.5; exit 7");

    case_verdict(r, VIAL_NONZERO);
    assert_int_equal(r->exit_code, 7);
    assert_true(r->duration_ms >= 500);
    vial_result_free(r);
}

static void code_runs_with_its_arguments(void **state)
{
    begin(on);
    struct vial_request *req =
        request_on(on, "'language':'python','args':['a b','{dir}'],'timeout':'60s'");

    case_set(req, "code", "import sys\nprint(sys.argv[1:])\nprint(6*7)\n");
    struct vial_result *r = case_run(on->engine, req, NULL);
    case_verdict(r, VIAL_OK);
    assert_string_equal(r->out.data, "['a b', '{dir}']\n42\n");
    vial_result_free(r);
}

static void a_compile_error_names_its_stage(void **state)
{
    begin(on);
    struct vial_request *req = request_on(on, "'language':'c','timeout':'60s'");

    case_set(req, "code", "int main(void) { return oops; }\n");
    struct vial_result *r = case_run(on->engine, req, NULL);
    if (r->verdict == VIAL_DENIED && strcmp(r->error.code, "VIAL-INTERPRETER") == 0) {
        vial_result_free(r);
        print_message("no C compiler on this host\n");
        skip();
    }
    case_verdict(r, VIAL_NONZERO);
    assert_string_equal(r->stage, "compile");
    assert_non_null(strstr(r->err.data, "oops"));
    vial_result_free(r);
    req = request_on(on, "'language':'c','timeout':'60s'");
    case_set(req, "code", "#include <stdio.h>\nint main(void) { puts(\"made\"); }\n");
    r = case_run(on->engine, req, NULL);
    case_verdict(r, VIAL_OK);
    assert_string_equal(r->stage, "run");
    assert_string_equal(r->out.data, "made\n");
    vial_result_free(r);
}

static void *run_many(void *context)
{
    const struct on *on = context;
    size_t good = 0;

    for (int i = 0; i < 5; i++) {
        struct vial_request *req = script_on(on, ANY, "read x; echo got $x");
        struct vial_result *r;

        case_set(req, "stdin", "word\n");
        r = case_run(on->engine, req, NULL);
        good += r->verdict == VIAL_OK && strcmp(r->out.data, "got word\n") == 0;
        vial_result_free(r);
    }
    return good == 5 ? NULL : context;
}

static void one_engine_serves_eight_threads(void **state)
{
    pthread_t threads[8];
    void *bad;
    int bad_count = 0;

    begin(on);
    struct on shared = *on;
    for (size_t i = 0; i < 8; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, run_many, &shared), 0);
    for (size_t i = 0; i < 8; i++) {
        assert_int_equal(pthread_join(threads[i], &bad), 0);
        bad_count += bad != NULL;
    }
    assert_int_equal(bad_count, 0);
}

static void many_runs_leave_no_descriptor_behind(void **state)
{
    size_t before;

    begin(on);
    vial_result_free(run_script(on, ANY, "true"));
    before = count_entries("/proc/self/fd");
    for (int i = 0; i < 50; i++) {
        struct vial_result *r = run_script(on, ANY, "echo x > f; mkdir -p a/b; true");

        case_verdict(r, VIAL_OK);
        vial_result_free(r);
    }
    assert_int_equal(count_entries("/proc/self/fd"), before);
}

#define WARM_MS 60000

static void want_warm(const struct on *on, struct vial_engine *e, unsigned count)
{
    struct vial_request *req = script_on(on, ANY, "true");
    struct vial_error err = { 0 };

    if (vial_warm_ready(e, req, count, WARM_MS, &err) < 0)
        fail_msg("%s: %s", err.code, err.message);
    vial_request_free(req);
}

static void a_waiting_vessel_holds_no_more_descriptors_than_is_reckoned_with(
    void **state)
{
    const struct vial_warm_options options = { .target = 1 };
    struct vial_engine *e = NULL;
    struct vial_error err = { 0 };
    unsigned with_one;

    begin(on);
    if (!driver_find(drivers, on->driver)->waits) {
        assert_string_not_equal(on->driver, "native"); /* nothing would ever be warm */
        return;
    }
    e = case_engine(NULL);
    assert_int_equal(vial_engine_warm(e, &options, &err), 0);
    want_warm(on, e, 1);
    with_one = descriptors_now().open;
    want_warm(on, e, 2);
    assert_in_range(descriptors_now().open - with_one, 2, DESCRIPTORS_EACH);
    vial_engine_close(e);
}

#define TESTS(setup)                                                                   \
    {                                                                                  \
        T(a_program_that_ends_well_is_ok, setup),                                      \
            T(exit_codes_come_back_unchanged, setup),                                  \
            T(a_program_killed_by_itself_is_a_signal, setup),                          \
            T(a_deadline_ends_it_and_keeps_its_output, setup),                         \
            T(a_stopped_program_still_meets_its_deadline, setup),                      \
            T(a_cancelled_run_is_cancelled, setup),                                    \
            T(too_much_output_ends_the_run_if_asked, setup),                           \
            T(what_is_beyond_a_cap_is_denied, setup),                                  \
            T(what_cannot_be_had_is_denied, setup),                                    \
            T(a_program_that_is_not_there_is_a_failure, setup),                        \
            T(a_directory_that_is_not_there_is_a_failure, setup),                      \
            T(stdin_reaches_the_program_whole, setup),                                 \
            T(stdin_that_nobody_reads_hinders_nothing, setup),                         \
            T(without_stdin_it_is_at_its_end, setup),                                  \
            T(live_stdin_makes_a_conversation, setup),                                 \
            T(the_environment_is_only_what_was_given, setup),                          \
            T(a_callers_words_are_not_expanded, setup),                                \
            T(it_starts_in_an_empty_directory_of_its_own, setup),                      \
            T(files_go_in_and_come_out, setup),                                        \
            T(an_output_that_is_a_link_or_a_pipe_is_refused, setup),                   \
            T(long_output_is_cut_where_asked, setup),                                  \
            T(a_flood_on_both_streams_ends_by_the_deadline, setup),                    \
            T(a_background_process_does_not_delay_the_result, setup),                  \
            T(what_has_left_its_session_dies_too, setup),                              \
            T(closing_the_streams_is_not_the_end, setup),                              \
            T(code_runs_with_its_arguments, setup),                                    \
            T(a_compile_error_names_its_stage, setup),                                 \
            T(one_engine_serves_eight_threads, setup),                                 \
            T(many_runs_leave_no_descriptor_behind, setup),                            \
            T(a_waiting_vessel_holds_no_more_descriptors_than_is_reckoned_with,        \
              setup),                                                                  \
    }

static void prepare(struct on *on)
{
    struct vial_result *r = run_script(on, ANY, "true");

    if (strcmp(r->error.code, "VIAL-DRIVER") == 0)
        (void)snprintf(on->why_not, sizeof on->why_not, "%s: %s", r->error.code,
                       r->error.message);
    vial_result_free(r);
}

run_on_driver(TESTS)
