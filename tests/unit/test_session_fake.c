/* SPDX-License-Identifier: Apache-2.0 */

/* Sessions against a guest and a driver that do what a test says. */

#include <sys/eventfd.h>

#include "base/clock.h"
#include "base/fail.h"
#include "driver/fake/fake.h"
#include "engine/session/compile_once.h"
#include "engine/session/session.h"
#include "run_case.h"

static const char table[] = "traps:\n"
                            "  file: main.x\n"
                            "  compile: [fakecc, 'trap:0']\n"
                            "  run: ['{dir}/main', 'out:ran', 'exit:0']\n"
                            "good:\n"
                            "  file: once\n"
                            "  compile: [fakecc, 'make:program', 'exit:0']\n"
                            "  run: ['{dir}/program', 'exit:0']\n"
                            "grows:\n"
                            "  file: main.x\n"
                            "  compile: [fakecc, 'make:growing', 'exit:0']\n"
                            "  run: ['{dir}/growing', 'exit:0']\n";

static struct vial_session *open_fake(struct vial_engine *e, const char *words)
{
    struct vial_session *s = NULL;
    struct vial_error err = { 0 };
    struct vial_request *req;
    char json[256];

    (void)snprintf(json, sizeof json, "{'driver':'fake','command':['fake'%s]}", words);
    req = case_request(json);
    if (vial_session_open(e, req, NULL, &s, &err) < 0)
        fail_msg("open: %s: %s", err.code, err.message);
    vial_request_free(req);
    return s;
}

static struct vial_exec_status run_words_hit(struct vial_session *s, const char *first,
                                             const char *second, unsigned *hit)
{
    const char *const argv[] = { "fake", first, second, NULL };
    const struct vial_exec_options o = { .argv = argv };
    struct vial_exec_status status;
    struct vial_exec *x = NULL;
    struct vial_error err = { 0 };

    if (vial_session_exec(s, &o, &x, &err) < 0)
        fail_msg("exec: %s: %s", err.code, err.message);
    vial_exec_wait(x, -1, &status);
    *hit = x->limits_hit;
    vial_exec_free(x);
    return status;
}

static struct vial_exec_status run_words(struct vial_session *s, const char *first,
                                         const char *second)
{
    unsigned hit;

    return run_words_hit(s, first, second, &hit);
}

/* The kernel's count is of the whole session: only what it rose by is a program's. */
static void a_kill_for_memory_is_of_the_program_that_met_it(void **state)
{
    struct vial_session *s = open_fake(*state, ",'oom:1'");

    assert_int_equal(run_words(s, "exit:1", NULL).verdict, VIAL_NONZERO);
    assert_int_equal(run_words(s, "signal:9", NULL).verdict, VIAL_OOM);
    assert_int_equal(run_words(s, "signal:9", NULL).verdict, VIAL_SIGNAL);
    vial_session_free(s);
}

static void a_guest_cannot_make_a_timeout_of_a_sessions_program(void **state)
{
    struct vial_session *s = open_fake(*state, "");
    struct vial_exec_status status = run_words(s, "late", "exit:3");

    assert_int_equal(status.verdict, VIAL_NONZERO);
    assert_int_equal(status.exit_code, 3);
    vial_session_free(s);
}

/* The compiler ends well, though its caller has cancelled the run: it traps signals. */
static void a_cancelled_compiler_is_not_followed_by_its_program(void **state)
{
    struct vial_session *s = open_fake(*state, "");
    struct vial_request *req = case_request("{'language':'traps','code':'x'}");
    const struct vial_watch watch = { .cancel_fd = eventfd(1, EFD_CLOEXEC),
                                      .stdin_fd = -1 };
    struct vial_result *r = NULL;
    struct vial_error err = { 0 };

    if (vial_session_run(s, req, &watch, &r, &err) < 0)
        fail_msg("run: %s: %s", err.code, err.message);
    case_verdict(r, VIAL_CANCELLED);
    assert_string_equal(r->stage, "compile");
    assert_string_equal(r->out.data, "");
    assert_string_equal(r->error.code, "VIAL-CANCELLED");
    vial_result_free(r);
    vial_request_free(req);
    vial_session_free(s);
    (void)close(watch.cancel_fd);
}

static struct vial_request *compile(struct vial_engine *e, const char *language)
{
    struct vial_request *req, *made = NULL;
    double cpu_ms = 0;
    char json[128];

    (void)snprintf(json, sizeof json, "{'driver':'fake','language':'%s','code':'x'}",
                   language);
    req = case_request(json);
    assert_true(compile_fits(e, req));
    assert_int_equal(compile_once(e, req, NULL, &made, &cpu_ms, NULL), 0);
    assert_true(cpu_ms == 5.0);
    vial_request_free(req);
    return made;
}

static void what_a_compiler_made_comes_before_the_requests_files(void **state)
{
    struct vial_request *made = compile(*state, "good");

    assert_non_null(made);
    assert_string_equal(made->files.items[0].path, "program");
    assert_string_equal(made->files.items[0].content.data, "content of program");
    assert_string_equal(made->command.items[0], "/work/program");
    vial_request_free(made);
}

/* It was small when it was looked at. */
static void what_a_compiler_made_is_bounded_while_it_is_read(void **state)
{
    assert_null(compile(*state, "grows"));
}

static struct { /* what the driver below saw */
    struct vial_session *session;
    bool closed, within_reach;
} seen;

static void close_and_look(struct vessel *vessel)
{
    struct vial_session_report report;

    session_lock(seen.session);
    seen.within_reach = seen.session->vessel != NULL;
    session_unlock(seen.session);
    seen.closed = true;
    if (!seen.within_reach)
        vial_session_look(seen.session, &report); /* as others do at any time */
    driver_fake.close(vessel);
}

static void a_vessel_is_out_of_reach_before_it_is_closed(void **state)
{
    struct vial_engine *e = *state;
    const struct driver *const *usual = e->drivers;
    struct driver mine = driver_fake;
    const struct driver *const only[] = { &mine, NULL };

    mine.close = close_and_look;
    e->drivers = only;
    seen.session = open_fake(e, "");
    vial_session_close(seen.session, VIAL_SESSION_COMPLETED);
    assert_true(seen.closed);
    assert_false(seen.within_reach);
    vial_session_free(seen.session);
    e->drivers = usual;
}

static struct { /* what the kernel would count, as the driver below tells it */
    uint64_t kills, then;
    int looks;
} counted;

/* The first look at a program is before it began, the second at its end. */
static void count_kills(struct vessel *vessel, struct vessel_usage *out)
{
    (void)vessel;
    *out = (struct vessel_usage){ .oom_kills = counted.kills };
    if (counted.looks++ == 0)
        counted.kills = counted.then;
}

static int open_counted(const struct plan *plan, int guest_fd, struct vessel **out,
                        struct vial_error *err)
{
    int rc = driver_fake.open(plan, guest_fd, out, err);

    if (rc == 0)
        (*out)->limits_by = "cgroup1";
    return rc;
}

/* WORD is run while KILLS more are counted. */
static enum vial_verdict run_while(struct vial_session *s, uint64_t kills,
                                   const char *word, unsigned *hit)
{
    counted.looks = 0;
    counted.then = counted.kills + kills;
    return run_words_hit(s, word, NULL, hit).verdict;
}

static void a_kill_for_memory_that_was_survived_is_not_the_next_programs(void **state)
{
    struct vial_engine *e = *state;
    const struct driver *const *usual = e->drivers;
    struct driver mine = driver_fake;
    const struct driver *const only[] = { &mine, NULL };
    struct vial_session *s;
    unsigned hit = 0;

    mine.open = open_counted;
    mine.usage = count_kills;
    e->drivers = only;
    s = open_fake(e, "");
    assert_int_equal(run_while(s, 1, "exit:0", &hit), VIAL_OK);
    assert_int_equal(hit, VIAL_LIMIT_MEMORY);
    assert_int_equal(run_while(s, 0, "signal:9", &hit), VIAL_SIGNAL);
    assert_int_equal(hit, 0);
    counted.kills++; /* of what a program left going */
    assert_int_equal(run_while(s, 0, "signal:9", &hit), VIAL_SIGNAL);
    assert_int_equal(run_while(s, 1, "signal:9", &hit), VIAL_OOM);
    assert_int_equal(hit, VIAL_LIMIT_MEMORY);
    assert_int_equal(run_while(s, 0, "exit:0", &hit), VIAL_OK);
    assert_int_equal(hit, 0);
    vial_session_free(s);
    e->drivers = usual;
}

static void say_evicted(struct vessel *vessel, struct vial_error *err)
{
    (void)vessel;
    (void)fail(err, VIAL_E_CLUSTER_EVICTED, "the pod: its node evicted it");
}

static void a_session_that_was_lost_says_what_its_driver_knows(void **state)
{
    struct vial_engine *e = *state;
    const struct driver *const *usual = e->drivers;
    struct driver mine = driver_fake;
    const struct driver *const only[] = { &mine, NULL };
    struct vial_session_report report;
    struct vial_exec_status status;
    struct vial_session *s;

    mine.explain = say_evicted;
    e->drivers = only;
    s = open_fake(e, "");
    status = run_words(s, "die", NULL);
    assert_int_equal(status.verdict, VIAL_FAILED);
    assert_string_equal(status.error.cause, "the pod: its node evicted it");
    vial_session_look(s, &report);
    assert_int_equal(report.outcome, VIAL_SESSION_FAILED);
    assert_string_equal(report.error.code, "VIAL-CLUSTER-EVICTED");
    vial_session_free(s);
    e->drivers = usual;
}

static int64_t told_stay_ms;

static int open_until(const struct plan *plan, int guest_fd, struct vessel **out,
                      struct vial_error *err)
{
    int rc = driver_fake.open(plan, guest_fd, out, err);

    told_stay_ms = plan->stay_ms;
    if (rc == 0)
        (*out)->until_ns = clock_now_ns() + plan->stay_ms * 1000000;
    return rc;
}

static void a_lease_is_not_renewed_beyond_the_vessels_own_end(void **state)
{
    struct vial_engine *e = *state;
    const struct driver *const *usual = e->drivers;
    struct driver mine = driver_fake;
    const struct driver *const only[] = { &mine, NULL };
    struct vial_error err = { 0 };
    struct vial_session *s;

    mine.open = open_until;
    e->drivers = only;
    s = open_fake(e, "");
    assert_true(told_stay_ms > SESSION_LONGEST_MS);
    assert_int_equal(vial_session_renew(s, SESSION_LONGEST_MS, &err), 0);
    s->vessel->until_ns = clock_now_ns() + SESSION_LONGEST_MS / 2 * 1000000;
    assert_int_equal(vial_session_renew(s, SESSION_LONGEST_MS, &err), -1);
    assert_string_equal(err.code, "VIAL-CAP");
    assert_int_equal(vial_session_renew(s, SESSION_LONGEST_MS / 4, &err), 0);
    vial_session_free(s);
    e->drivers = usual;
}

static enum vial_event_kind first_event(struct vial_session *s, unsigned flags)
{
    struct vial_watcher *w = NULL;
    struct vial_event *event = calloc(1, sizeof *event);
    enum vial_event_kind kind;
    struct vial_error err = { 0 };

    assert_non_null(event);
    if (vial_session_watch(s, ".", flags, &w, &err) < 0)
        fail_msg("watch: %s: %s", err.code, err.message);
    assert_int_equal(vial_watcher_next(w, 60000, event, &err), 1);
    kind = event->kind;
    vial_watcher_free(w);
    free(event);
    return kind;
}

static void a_guest_tells_no_events_that_were_not_asked_for(void **state)
{
    struct vial_session *s = open_fake(*state, "");

    assert_int_equal(first_event(s, 0), VIAL_EVENT_CREATED);
    assert_int_equal(first_event(s, VIAL_WATCH_ATTRIBUTES), VIAL_EVENT_ATTRIBUTES);
    vial_session_free(s);
}

static int open_engine(void **state)
{
    (void)setenv("VIAL_TEST_FAKE", "1", 1);
    *state = case_engine_with(table, "");
    return 0;
}

static int close_engine(void **state)
{
    vial_engine_close(*state);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_kill_for_memory_is_of_the_program_that_met_it),
        cmocka_unit_test(a_kill_for_memory_that_was_survived_is_not_the_next_programs),
        cmocka_unit_test(a_guest_cannot_make_a_timeout_of_a_sessions_program),
        cmocka_unit_test(a_cancelled_compiler_is_not_followed_by_its_program),
        cmocka_unit_test(what_a_compiler_made_comes_before_the_requests_files),
        cmocka_unit_test(what_a_compiler_made_is_bounded_while_it_is_read),
        cmocka_unit_test(a_vessel_is_out_of_reach_before_it_is_closed),
        cmocka_unit_test(a_session_that_was_lost_says_what_its_driver_knows),
        cmocka_unit_test(a_lease_is_not_renewed_beyond_the_vessels_own_end),
        cmocka_unit_test(a_guest_tells_no_events_that_were_not_asked_for),
    };

    return cmocka_run_group_tests(tests, open_engine, close_engine);
}
