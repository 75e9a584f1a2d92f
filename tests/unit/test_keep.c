/* SPDX-License-Identifier: Apache-2.0 */

/* One vessel for many calls, on each driver. covers: K-02 K-05 K-09 */

#include <poll.h>
#include <pthread.h>

#include "base/budget.h"
#include "engine/engine.h"
#include "session_case.h"

#include "vial/keep.h"

static struct vial_keep *keep_on(const struct on *on, const char *members,
                                 unsigned max_calls, int64_t idle_ms)
{
    const struct vial_keep_options o = { .max_calls = max_calls, .idle_ms = idle_ms };
    struct vial_keep *k = NULL;
    struct vial_request *base;
    char json[512];

    (void)snprintf(json, sizeof(json), "{'driver':'%s'%s}", on->driver, members);
    base = case_request(json);
    good(vial_keep_open(on->engine, base, &o, &k, &err));
    vial_request_free(base);
    return k;
}

static struct vial_result *call(struct vial_keep *k, const char *json)
{
    struct vial_request *req = case_request(json);
    struct vial_result *r = NULL;

    good(vial_keep_run(k, req, NULL, &r, &err));
    vial_request_free(req);
    return r;
}

static void check_call(struct vial_keep *k, const char *json, const char *want)
{
    struct vial_result *r = call(k, json);

    case_verdict(r, VIAL_OK);
    assert_string_equal(r->out.data, want);
    vial_result_free(r);
}

#define LEAVE "{'language':'bash','code':'echo x >left; echo $$ >&2'}"
#define LOOK  "{'language':'bash','code':'cat left 2>/dev/null || echo nothing'}"

static void calls_share_a_vessel_and_what_is_in_it(void **state)
{
    begin(on);
    struct vial_keep *k = keep_on(on, "", 0, 0);
    struct vial_keep_report r;

    check_call(k, LEAVE, "");
    check_call(k, LOOK, "x\n");
    check_call(k, "{'command':['cat','left']}", "x\n");
    vial_keep_look(k, &r);
    assert_int_equal(r.calls, 3);
    assert_int_equal(r.vessels, 1);
    vial_keep_close(k);
}

static void after_so_many_calls_nothing_is_left(void **state)
{
    begin(on);
    struct vial_keep *k = keep_on(on, "", 2, 0);
    struct vial_keep_report before, after;

    check_call(k, LEAVE, "");
    vial_keep_look(k, &before);
    check_call(k, LOOK, "x\n");
    check_call(k, LOOK, "nothing\n");
    vial_keep_look(k, &after);
    assert_string_not_equal(before.vessel_id, after.vessel_id);
    assert_int_equal(after.vessels, 2);
    assert_int_equal(after.calls, 1);
    vial_keep_close(k);
}

static void after_an_idle_while_nothing_is_left(void **state)
{
    begin(on);
    struct vial_keep *k = keep_on(on, "", 0, 300);
    struct vial_keep_report r;

    check_call(k, LEAVE, "");
    do {
        (void)poll(NULL, 0, 20);
        vial_keep_look(k, &r);
    } while (r.vessel_id[0]);
    check_call(k, LOOK, "nothing\n");
    vial_keep_look(k, &r);
    assert_int_equal(r.vessels, 2);
    vial_keep_close(k);
}

/* Here it would be over before it could be used. */
static void a_vessel_is_not_idle_while_a_call_is_about_to_use_it(void **state)
{
    begin(on);
    struct vial_keep *k = keep_on(on, "", 0, 1);

    for (int i = 0; i < 3; i++) {
        struct vial_result *r = call(k, "{'command':['sh','-c','echo x >f'],"
                                        "'outputs':['f']}");

        case_verdict(r, VIAL_OK);
        assert_string_equal(r->files[0].data, "x\n");
        vial_result_free(r);
    }
    vial_keep_close(k);
}

static void a_call_that_had_to_be_killed_takes_the_vessel_along(void **state)
{
    begin(on);
    struct vial_keep *k = keep_on(on, "", 0, 0);
    struct vial_result *r = NULL;

    check_call(k, LEAVE, "");
    r = call(k, "{'language':'bash','code':'echo out; sleep 60','timeout':'3s'}");
    case_verdict(r, VIAL_TIMEOUT);
    assert_string_equal(r->out.data, "out\n");
    assert_int_equal(r->limits_hit, VIAL_LIMIT_TIME);
    vial_result_free(r);
    check_call(k, LOOK, "nothing\n");
    vial_keep_close(k);
}

static void a_program_that_fails_leaves_the_vessel_alone(void **state)
{
    begin(on);
    struct vial_keep *k = keep_on(on, "", 0, 0);
    struct vial_result *r = NULL;

    check_call(k, LEAVE, "");
    r = call(k, "{'language':'bash','code':'echo bad >&2; exit 3'}");
    case_verdict(r, VIAL_NONZERO);
    assert_int_equal(r->exit_code, 3);
    assert_string_equal(r->err.data, "bad\n");
    assert_string_equal(r->driver, on->driver);
    vial_result_free(r);
    check_call(k, LOOK, "x\n");
    vial_keep_close(k);
}

static void files_input_and_outputs_belong_to_the_call(void **state)
{
    begin(on);
    struct vial_keep *k = keep_on(on, "", 0, 0);
    struct vial_result *r =
        call(k, "{'language':'bash','code':'cat in; cat; echo made >made; echo $A $1',"
                "'files':[{'path':'in','content':'given '}],'stdin':'piped ',"
                "'outputs':['made','absent'],'env':{'A':'set'},'args':['arg']}");

    case_verdict(r, VIAL_OK);
    assert_string_equal(r->out.data, "given piped set arg\n");
    assert_int_equal(r->file_count, 2);
    assert_string_equal(r->files[0].data, "made\n");
    assert_null(r->files[1].data);
    assert_string_equal(r->files[1].error.code, "VIAL-NO-FILE");
    vial_result_free(r);
    vial_keep_close(k);
}

static void many_and_large_files_come_whole(void **state)
{
    begin(on);
    struct vial_keep *k = keep_on(on, "", 0, 0);
    auto_str struct str json = { 0 };

    /* More than go along with the program, and one that does not fit beside it. */
    for (int files = 0; files < 2; files++) {
        json.len = 0;
        str_puts(&json, "{'command':['bash','-c','cat f* | wc -c'],'files':[");
        for (int i = 0; i < (files ? 1 : 20); i++)
            str_printf(&json, "%s{'path':'f%d','content':'%0*d'}", i ? "," : "", i,
                       files ? 300000 : 1000, 0);
        str_puts(&json, "]}");
        assert_true(str_ok(&json));
        check_call(k, json.data, files ? "319000\n" : "20000\n");
    }
    vial_keep_close(k);
}

static void a_file_that_cannot_be_put_spoils_the_call(void **state)
{
    begin(on);
    struct vial_keep *k = keep_on(on, "", 0, 0);
    struct vial_result *r = NULL;

    check_call(k, "{'command':['mkdir','taken']}", "");
    r = call(k, "{'command':['true'],'files':[{'path':'taken','content':'x'}]}");
    case_verdict(r, VIAL_FAILED);
    assert_string_equal(r->error.code, "VIAL-FILE");
    assert_int_equal(r->exit_code, -1);
    vial_result_free(r);
    check_call(k, "{'command':['ls']}", ""); /* another vessel */
    vial_keep_close(k);
}

static void output_beyond_the_limit_is_cut_and_marked(void **state)
{
    begin(on);
    struct vial_keep *k = keep_on(on, ",'output_limit':100,'output_keep':'head'", 0, 0);
    struct vial_result *r = call(k, "{'command':['seq','1','9999']}");

    case_verdict(r, VIAL_OK);
    assert_true(r->out.truncated);
    assert_int_equal(r->out.total_bytes, 48888);
    assert_memory_equal(r->out.data, "1\n2\n3\n", 6);
    vial_result_free(r);
    vial_keep_close(k);
}

/* With all that was kept of it whole, too. */
static void a_call_that_prints_too_much_says_which_limit_it_met(void **state)
{
    begin(on);
    struct vial_keep *k = keep_on(on, ",'output_limit':'1m','output_max':'100k'", 0, 0);
    struct vial_result *r = call(k, "{'command':['yes']}");

    case_verdict(r, VIAL_OUTPUT_LIMIT);
    assert_int_equal(r->limits_hit & VIAL_LIMIT_OUTPUT, VIAL_LIMIT_OUTPUT);
    vial_result_free(r);
    vial_keep_close(k);
}

static void a_call_cannot_change_the_vessel(void **state)
{
    begin(on);
    struct vial_keep *k = keep_on(on, "", 0, 0);
    struct vial_result *r = call(k, "{'command':['true'],'memory':'1g'}");

    case_verdict(r, VIAL_DENIED);
    assert_string_equal(r->error.message,
                        "'memory' is the kept vessel's, and not a call's");
    vial_result_free(r);
    vial_keep_close(k);
}

/* As a run would be: there is nothing wrong with vial. */
static void a_call_for_which_there_is_no_memory_is_denied(void **state)
{
    begin(on);
    struct vial_keep *k = keep_on(on, ",'output_limit':100", 0, 0);
    struct vial_budget *usual = on->engine->budget, *small = budget_new();
    struct vial_result *r = NULL;

    budget_set(small, BUDGET_MEMORY, 400);
    assert_true(budget_take(small, BUDGET_MEMORY, "", 100));
    on->engine->budget = small;
    r = call(k, "{'command':['true']}");
    on->engine->budget = usual;
    case_verdict(r, VIAL_DENIED);
    assert_string_equal(r->error.code, "VIAL-BUSY");
    vial_result_free(r);
    budget_unref(small);
    vial_keep_close(k);
}

static int cancel_now(void *context, int stream, const void *data, size_t len)
{
    (void)stream;
    (void)data;
    assert_int_equal(write(*(int *)context, "x", len > 0), 1);
    return 0;
}

static void a_call_can_be_cancelled(void **state)
{
    begin(on);
    struct vial_keep *k = keep_on(on, "", 0, 0);
    struct vial_request *req =
        case_request("{'command':['sh','-c','echo x; exec sleep 60']}");
    struct vial_result *r = NULL;
    int ends[2];

    assert_int_equal(pipe(ends), 0);
    good(vial_keep_run(k, req,
                       &(struct vial_watch){ .cancel_fd = ends[0],
                                             .stdin_fd = -1,
                                             .output = cancel_now,
                                             .context = &ends[1] },
                       &r, &err));
    case_verdict(r, VIAL_CANCELLED);
    assert_string_equal(r->out.data, "x\n");
    vial_result_free(r);
    vial_request_free(req);
    (void)close(ends[0]);
    (void)close(ends[1]);
    vial_keep_close(k);
}

/* covers: K-02 */
static void a_call_that_was_cancelled_before_it_began_never_runs(void **state)
{
    begin(on);
    struct vial_keep *k = keep_on(on, "", 0, 0);
    struct vial_request *req = case_request(LEAVE);
    struct vial_result *r = NULL;
    int ends[2];

    check_call(k, "{'command':['true']}", "");
    assert_int_equal(pipe(ends), 0);
    assert_int_equal(write(ends[1], "x", 1), 1);
    good(vial_keep_run(k, req,
                       &(struct vial_watch){ .cancel_fd = ends[0], .stdin_fd = -1 }, &r,
                       &err));
    case_verdict(r, VIAL_CANCELLED);
    assert_string_equal(r->out.data, "");
    vial_result_free(r);
    vial_request_free(req);
    (void)close(ends[0]);
    (void)close(ends[1]);
    check_call(k, LOOK, "nothing\n");
    vial_keep_close(k);
}

static void *count_up(void *argument)
{
    for (int i = 0; i < 3; i++)
        vial_result_free(call(argument, "{'language':'bash','code':'echo >>n'}"));
    return NULL;
}

static void calls_from_several_threads_share_a_vessel(void **state)
{
    begin(on);
    struct vial_keep *k = keep_on(on, "", 0, 0);
    pthread_t threads[3];

    for (int i = 0; i < 3; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, count_up, k), 0);
    for (int i = 0; i < 3; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    check_call(k, "{'command':['grep','-c','','n']}", "9\n");
    vial_keep_close(k);
}

/* Each says that it is there, and waits for the other: one after the other, the first
 * would wait for ever. Each has its program in a file, whose text is its own. */
static void *meet(void *argument)
{
    static const char *const codes[] = {
        "{'language':'python','code':'import os, time\\nos.mkdir(chr(97))\\nwhile not "
        "os.path.exists(chr(98)): time.sleep(.01)\\nprint(1)'}",
        "{'language':'python','code':'import os, time\\nos.mkdir(chr(98))\\nwhile not "
        "os.path.exists(chr(97)): time.sleep(.01)\\nprint(2)'}",
    };
    struct {
        struct vial_keep *k;
        int who;
    } *one = argument;

    check_call(one->k, codes[one->who], one->who ? "2\n" : "1\n");
    return NULL;
}

/* covers: K-02 */
static void calls_that_need_each_other_work_side_by_side(void **state)
{
    begin(on);
    struct vial_keep *k = keep_on(on, "", 0, 0);
    struct {
        struct vial_keep *k;
        int who;
    } both[2] = { { k, 0 }, { k, 1 } };
    struct vial_keep_report r;
    pthread_t other;

    assert_int_equal(pthread_create(&other, NULL, meet, &both[1]), 0);
    meet(&both[0]);
    assert_int_equal(pthread_join(other, NULL), 0);
    vial_keep_look(k, &r);
    assert_int_equal(r.vessels, 1);
    vial_keep_close(k);
}

static void what_calls_leave_going_does_not_crowd_out_later_ones(void **state)
{
    begin(on);
    struct vial_keep *k = keep_on(on, ",'pids':24", 0, 0);
    struct vial_result *r = NULL;

    check_call(k, "{'command':['sh','-c','sleep 1000 >/dev/null 2>&1 & echo one']}",
               "one\n");
    check_call(k,
               "{'command':['sh','-c','for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14; "
               "do sleep 1000 >/dev/null 2>&1 & done; echo more']}",
               "more\n");
    r = call(k, "{'command':['echo','next']}");
    case_verdict(r, VIAL_OK);
    assert_string_equal(r->out.data, "next\n");
    assert_int_equal(r->renewed, 15);
    vial_result_free(r);
    r = call(k, "{'command':['true']}");
    assert_int_equal(r->renewed, 0);
    vial_result_free(r);
    vial_keep_close(k);
}

#define TESTS(on)                                                                      \
    {                                                                                  \
        T(calls_share_a_vessel_and_what_is_in_it, on),                                 \
            T(after_so_many_calls_nothing_is_left, on),                                \
            T(after_an_idle_while_nothing_is_left, on),                                \
            T(a_vessel_is_not_idle_while_a_call_is_about_to_use_it, on),               \
            T(a_call_that_had_to_be_killed_takes_the_vessel_along, on),                \
            T(a_program_that_fails_leaves_the_vessel_alone, on),                       \
            T(files_input_and_outputs_belong_to_the_call, on),                         \
            T(many_and_large_files_come_whole, on),                                    \
            T(a_file_that_cannot_be_put_spoils_the_call, on),                          \
            T(output_beyond_the_limit_is_cut_and_marked, on),                          \
            T(a_call_that_prints_too_much_says_which_limit_it_met, on),                \
            T(a_call_cannot_change_the_vessel, on),                                    \
            T(a_call_for_which_there_is_no_memory_is_denied, on),                      \
            T(a_call_can_be_cancelled, on),                                            \
            T(a_call_that_was_cancelled_before_it_began_never_runs, on),               \
            T(calls_from_several_threads_share_a_vessel, on),                          \
            T(calls_that_need_each_other_work_side_by_side, on),                       \
            T(what_calls_leave_going_does_not_crowd_out_later_ones, on),               \
    }

run_on_driver(TESTS)
