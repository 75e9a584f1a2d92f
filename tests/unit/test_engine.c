/* SPDX-License-Identifier: Apache-2.0 */

/* The engine against guests that misbehave: the driver `fake` does what the
 * program's arguments say. */

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "engine/run/run.h"
#include "model/result.h"
#include "run_case.h"

static struct vial_result *run_fake(struct vial_engine *e, const char *fields_,
                                    const char *words, const struct vial_watch *watch)
{
    char json[4096];

    (void)snprintf(json, sizeof json, "{'driver':'fake',%s'command':['fake',%s]}",
                   fields_, words);
    return case_run(e, case_request(json), watch);
}

static void check_words(void **state, const char *words, enum vial_verdict want)
{
    struct vial_result *result = run_fake(*state, "", words, NULL);

    case_verdict(result, want);
    vial_result_free(result);
}

static void check_failure(void **state, const char *words, const char *text)
{
    struct vial_result *result = run_fake(*state, "", words, NULL);

    case_verdict(result, VIAL_FAILED);
    assert_error(&result->error, text);
    assert_int_equal(result->exit_code, -1);
    vial_result_free(result);
}

static void output_and_exit_code_are_the_programs(void **state)
{
    struct vial_result *result =
        run_fake(*state, "", "'out:hi','err:oh','out:!','exit:3'", NULL);

    case_verdict(result, VIAL_NONZERO);
    assert_int_equal(result->exit_code, 3);
    assert_int_equal(result->signal, 0);
    assert_string_equal(result->out.data, "hi!");
    assert_string_equal(result->err.data, "oh");
    assert_string_equal(result->stage, "run");
    assert_string_equal(result->driver, "fake");
    assert_string_equal(result->level, "none");
    assert_int_equal(strncmp(result->id, "r-", 2), 0);
    assert_int_equal(strncmp(result->vessel_id, "v-", 2), 0);
    assert_true(result->usage.cpu_user_ms == 5.0);
    assert_int_equal(result->usage.memory_peak_bytes, 4096);
    assert_true(result->duration_ms >= result->timing.run_ms);
    vial_result_free(result);
}

static void a_signal_is_told_apart_from_a_code(void **state)
{
    struct vial_result *result = run_fake(*state, "", "'signal:11'", NULL);

    case_verdict(result, VIAL_SIGNAL);
    assert_int_equal(result->signal, SIGSEGV);
    assert_int_equal(result->exit_code, -1);
    vial_result_free(result);
}

static void exit_137_is_no_signal_and_no_oom(void **state)
{
    check_words(state, "'exit:137'", VIAL_NONZERO);
    check_words(state, "'exit:124'", VIAL_NONZERO);
    check_words(state, "'signal:9'", VIAL_SIGNAL);
}

static void a_kill_is_oom_only_if_the_kernel_counted_one(void **state)
{
    struct vial_result *result = run_fake(*state, "", "'oom:1','signal:9'", NULL);

    case_verdict(result, VIAL_OOM);
    assert_int_equal(result->limits_hit, VIAL_LIMIT_MEMORY);
    assert_int_equal(result->signal, SIGKILL);
    vial_result_free(result);
}

static void a_shell_that_passes_a_kill_for_memory_on_is_oom(void **state)
{
    struct vial_result *result = run_fake(*state, "", "'oom:1','exit:137'", NULL);

    case_verdict(result, VIAL_OOM);
    assert_int_equal(result->exit_code, 137);
    assert_int_equal(result->signal, 0);
    vial_result_free(result);
    check_words(state, "'oom:1','exit:1'", VIAL_NONZERO);
    check_words(state, "'oom:1','exit:143'", VIAL_NONZERO);
}

static void an_oom_kill_that_was_survived_is_only_listed(void **state)
{
    struct vial_result *result =
        run_fake(*state, "", "'oom:2','pids:1','full','exit:0'", NULL);

    case_verdict(result, VIAL_OK);
    assert_int_equal(result->limits_hit,
                     VIAL_LIMIT_MEMORY | VIAL_LIMIT_PIDS | VIAL_LIMIT_DISK);
    vial_result_free(result);
}

static void a_guest_that_the_kernel_took_for_memory_is_oom(void **state)
{
    check_words(state, "'oom:1','out:x','die'", VIAL_OOM);
}

static void a_full_disk_ends_the_run_only_if_asked(void **state)
{
    struct vial_result *result =
        run_fake(*state, "'end_on':['disk'],", "'full','signal:9'", NULL);

    case_verdict(result, VIAL_DISK);
    assert_int_equal(result->limits_hit, VIAL_LIMIT_DISK);
    assert_int_equal(result->signal, 0);
    vial_result_free(result);
    result = run_fake(*state, "'end_on':['disk'],", "'full','exit:1'", NULL);
    case_verdict(result, VIAL_NONZERO);
    assert_int_equal(result->limits_hit, VIAL_LIMIT_DISK);
    vial_result_free(result);
    check_words(state, "'full','exit:1'", VIAL_NONZERO);
}

static void touching_the_pids_limit_ends_the_run_if_asked(void **state)
{
    struct vial_result *result =
        run_fake(*state, "'end_on':['pids'],", "'pids:1','cpu:1','hang'", NULL);

    case_verdict(result, VIAL_PIDS);
    vial_result_free(result);
    result = run_fake(*state, "'end_on':['pids'],", "'event:1','pids:1','hang'", NULL);
    case_verdict(result, VIAL_PIDS);
    vial_result_free(result);
    result = run_fake(*state, "'end_on':['pids'],", "'pids:1','exit:0'", NULL);
    case_verdict(result, VIAL_PIDS);
    vial_result_free(result);
}

/* With a driver that only pretends. covers: NFR-020-40 */
static void an_event_without_a_cause_ends_nothing(void **state)
{
    struct vial_result *result = run_fake(
        *state, "'end_on':['pids'],'timeout':'200ms',", "'event:1','hang'", NULL);

    case_verdict(result, VIAL_TIMEOUT);
    vial_result_free(result);
}

static void the_cpu_limit_is_judged_by_the_kernels_count(void **state)
{
    struct vial_result *result =
        run_fake(*state, "'cpu_time':'1s',", "'cpu:1001','hang'", NULL);

    case_verdict(result, VIAL_CPU_TIMEOUT);
    assert_int_equal(result->limits_hit, VIAL_LIMIT_CPU);
    assert_true(result->usage.cpu_user_ms == 1001.0);
    vial_result_free(result);
    result = run_fake(*state, "'cpu_time':'1s',", "'cpu:1500','signal:24'", NULL);
    case_verdict(result, VIAL_CPU_TIMEOUT);
    vial_result_free(result);
    result =
        run_fake(*state, "'cpu_time':'1s','timeout':'100ms',", "'cpu:2','hang'", NULL);
    case_verdict(result, VIAL_TIMEOUT);
    vial_result_free(result);
    result = run_fake(*state, "'cpu_time':'1s','cpus':'0.1',", "'signal:9'", NULL);
    case_verdict(result, VIAL_SIGNAL);
    vial_result_free(result);
}

static void a_deadline_keeps_what_was_printed_before(void **state)
{
    struct vial_result *result =
        run_fake(*state, "'timeout':'2s',", "'out:part','hang'", NULL);

    case_verdict(result, VIAL_TIMEOUT);
    assert_string_equal(result->out.data, "part");
    assert_int_equal(result->limits_hit, VIAL_LIMIT_TIME);
    assert_int_equal(result->exit_code, -1);
    assert_int_equal(result->signal, 0);
    assert_true(result->duration_ms >= 2000.0);
    vial_result_free(result);
}

static void a_guest_cannot_make_a_timeout_before_its_time(void **state)
{
    struct vial_result *result = run_fake(*state, "", "'late','signal:9'", NULL);

    case_verdict(result, VIAL_SIGNAL);
    assert_int_equal(result->signal, 9);
    vial_result_free(result);
}

static void a_file_too_large_is_listed(void **state)
{
    struct vial_result *result = run_fake(*state, "", "'signal:25'", NULL);

    case_verdict(result, VIAL_SIGNAL);
    assert_int_equal(result->limits_hit, VIAL_LIMIT_FSIZE);
    vial_result_free(result);
}

static void bytes_that_are_no_frame_fail_the_run(void **state)
{
    check_failure(state, "'raw:this is no frame at all'",
                  "VIAL-GUEST read from the guest: this is not a frame");
}

static void an_exit_before_the_start_fails_the_run(void **state)
{
    check_failure(state, "'early'",
                  "VIAL-GUEST guest frame 'EXIT' on channel 1: nothing was running");
}

static void output_after_its_end_fails_the_run(void **state)
{
    check_failure(state, "'undead'",
                  "VIAL-GUEST guest frame 'DATA' on channel 1: the stream has ended");
}

static void a_guest_that_dies_fails_the_run(void **state)
{
    struct vial_result *result = run_fake(*state, "", "'out:before','die'", NULL);

    case_verdict(result, VIAL_FAILED);
    assert_error(&result->error, "VIAL-LOST the vessel ended while its program ran");
    assert_string_equal(result->out.data, "before");
    vial_result_free(result);
}

static void a_missing_program_is_the_callers_to_mend(void **state)
{
    struct vial_result *result = run_fake(*state, "", "'failed:find:2'", NULL);

    case_verdict(result, VIAL_FAILED);
    assert_error(&result->error, "VIAL-EXEC start 'fake'");
    assert_string_equal(result->error.cause, "No such file or directory");
    assert_int_equal(result->error.sys, 2);
    assert_non_null(strstr(result->error.remedy, "PATH"));
    vial_result_free(result);
    check_failure(state, "'failed:exec:8'", "VIAL-EXEC start 'fake'");
}

static void a_missing_directory_has_its_own_code(void **state)
{
    struct vial_result *result =
        run_fake(*state, "'cwd':'nowhere',", "'failed:cwd:2'", NULL);

    assert_error(&result->error, "VIAL-CWD enter directory '/work/nowhere'");
    case_verdict(result, VIAL_FAILED);
    vial_result_free(result);
}

static void a_layer_that_could_not_be_put_on_fails_the_run(void **state)
{
    check_failure(state, "'failed:seccomp:22'", "VIAL-EXEC prepare 'fake': step 'seccomp'");
}

static void output_beyond_the_limit_is_counted_not_kept(void **state)
{
    struct vial_result *result =
        run_fake(*state, "'output_limit':'64k','output_keep':'head',",
                 "'flood:5000','exit:0'", NULL);

    case_verdict(result, VIAL_OK);
    assert_true(result->out.truncated);
    assert_int_equal(result->out.total_bytes, 5000 * 1024);
    assert_true(result->out.len > 65536 && result->out.len < 65536 + 64);
    assert_int_equal(result->limits_hit, VIAL_LIMIT_OUTPUT);
    vial_result_free(result);
}

static void output_max_ends_the_run_at_that_byte(void **state)
{
    struct vial_result *result =
        run_fake(*state, "'output_max':'100k','output_keep':'head',",
                 "'flood:100','out:x','hang'", NULL);

    case_verdict(result, VIAL_OUTPUT_LIMIT);
    assert_int_equal(result->limits_hit, VIAL_LIMIT_OUTPUT);
    assert_true(result->out.truncated);
    assert_int_equal(result->out.total_bytes, 100 * 1024 + 1);
    assert_non_null(strstr(result->out.data, "x\n[… 1 bytes left out …]\n"));
    vial_result_free(result);
    result = run_fake(*state, "'output_max':'100k',", "'flood:100','exit:0'", NULL);
    case_verdict(result, VIAL_OK);
    vial_result_free(result);
}

struct heard {
    size_t bytes, calls;
    size_t stop_after; /* 0: never */
};

static int hear(void *context, int stream, const void *data, size_t len)
{
    struct heard *h = context;

    (void)data;
    assert_true(stream == 1 || stream == 2);
    h->bytes += len;
    h->calls++;
    return h->stop_after && h->bytes >= h->stop_after;
}

static void a_live_listener_gets_every_byte(void **state)
{
    struct heard heard = { 0 };
    const struct vial_watch watch = { .cancel_fd = -1,
                                      .stdin_fd = -1,
                                      .output = hear,
                                      .context = &heard,
                                      .live_only = true };
    struct vial_result *result =
        run_fake(*state, "", "'flood:1000','err:e','exit:0'", &watch);

    case_verdict(result, VIAL_OK);
    assert_int_equal(heard.bytes, 1000 * 1024 + 1);
    assert_int_equal(result->out.total_bytes, 1000 * 1024);
    assert_string_equal(result->out.data, "");
    assert_false(result->out.truncated);
    vial_result_free(result);
}

static void keep_most(void *context, int64_t most_ms)
{
    *(int64_t *)context = most_ms;
}

static void a_run_tells_how_long_it_may_take(void **state)
{
    int64_t most_ms = 0;
    const struct vial_watch watch = {
        .cancel_fd = -1, .stdin_fd = -1, .context = &most_ms, .planned = keep_most
    };
    struct vial_result *result =
        run_fake(*state, "'timeout':'7s',", "'exit:0'", &watch);

    case_verdict(result, VIAL_OK);
    assert_int_equal(most_ms, 7000);
    vial_result_free(result);
}

static void a_limit_that_was_asked_for_holds_for_a_listener(void **state)
{
    static const char notice[] = "\n[… 1022976 bytes left out …]\n";
    struct heard heard = { 0 };
    const struct vial_watch watch = { .cancel_fd = -1,
                                      .stdin_fd = -1,
                                      .output = hear,
                                      .context = &heard,
                                      .live_only = true };
    struct vial_result *result = run_fake(*state, "'output_limit':'1k',",
                                          "'flood:1000','err:e','exit:0'", &watch);

    case_verdict(result, VIAL_OK);
    assert_int_equal(heard.bytes, 1024 + strlen(notice) + 1);
    assert_int_equal(result->out.total_bytes, 1000 * 1024);
    assert_string_equal(result->out.data, "");
    assert_true(result->out.truncated);
    assert_false(result->err.truncated);
    vial_result_free(result);
}

static void a_listener_that_has_enough_cancels(void **state)
{
    struct heard heard = { .stop_after = 10000 };
    const struct vial_watch watch = {
        .cancel_fd = -1, .stdin_fd = -1, .output = hear, .context = &heard
    };
    struct vial_result *result = run_fake(*state, "", "'flood:100000','hang'", &watch);
    size_t calls = heard.calls;

    case_verdict(result, VIAL_CANCELLED);
    assert_error(&result->error, "VIAL-CANCELLED the caller cancelled the run");
    assert_true(calls >= 1 && heard.bytes <= 10000 + 64 * 1024);
    vial_result_free(result);
}

static void a_readable_cancel_descriptor_cancels(void **state)
{
    int ends[2];
    struct vial_watch watch = { .stdin_fd = -1 };
    struct vial_result *result;

    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    (void)close(ends[1]);
    watch.cancel_fd = ends[0];
    result = run_fake(*state, "", "'hang'", &watch);
    case_verdict(result, VIAL_CANCELLED);
    vial_result_free(result);
    (void)close(ends[0]);
}

static void stdin_of_any_size_comes_through(void **state)
{
    const size_t size = 3u << 20;
    char *data = malloc(size);
    struct vial_request *req = case_request(
        "{'driver':'fake','output_limit':'8m','command':['fake','echo','exit:0']}");
    struct vial_result *result;

    memset(data, 'i', size);
    assert_int_equal(vial_request_set_bytes(req, "stdin", data, size, NULL), 0);
    result = case_run(*state, req, NULL);
    case_verdict(result, VIAL_OK);
    assert_int_equal(result->out.len, size);
    assert_memory_equal(result->out.data, data, size);
    vial_result_free(result);
    free(data);
}

static void *feed_pipe(void *context)
{
    const int *fd = context;
    char block[1000];

    memset(block, 'l', sizeof block);
    for (int i = 0; i < 1000; i++)
        if (write(*fd, block, sizeof block) < 0)
            break;
    (void)close(*fd);
    return NULL;
}

static void live_stdin_is_piped_until_its_end(void **state)
{
    int ends[2];
    struct vial_watch watch = { .cancel_fd = -1 };
    struct vial_result *result;
    pthread_t feeder;

    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    watch.stdin_fd = ends[0];
    assert_int_equal(pthread_create(&feeder, NULL, feed_pipe, &ends[1]), 0);
    result = run_fake(*state, "'output_limit':'4m',", "'echo','exit:0'", &watch);
    assert_int_equal(pthread_join(feeder, NULL), 0);
    case_verdict(result, VIAL_OK);
    assert_int_equal(result->out.total_bytes, 1000 * 1000);
    vial_result_free(result);
    (void)close(ends[0]);
}

static void live_stdin_that_nobody_reads_costs_no_memory(void **state)
{
    struct vial_watch watch = { .cancel_fd = -1 };
    struct vial_result *result;

    watch.stdin_fd = open("/dev/zero", O_RDONLY | O_CLOEXEC);
    result = run_fake(*state, "'timeout':'300ms',", "'hang'", &watch);
    case_verdict(result, VIAL_TIMEOUT);
    vial_result_free(result);
    (void)close(watch.stdin_fd);
}

static void outputs_come_back_or_say_why_not(void **state)
{
    struct vial_result *result = run_fake(
        *state, "'outputs':['a','missing','link','busy','b'],", "'exit:1'", NULL);

    case_verdict(result, VIAL_NONZERO);
    assert_int_equal(result->file_count, 5);
    assert_string_equal(result->files[0].path, "a");
    assert_string_equal(result->files[0].data, "content of a");
    assert_int_equal(result->files[0].len, 12);
    assert_string_equal(result->files[0].error.code, "");
    assert_null(result->files[1].data);
    assert_error(&result->files[1].error, "VIAL-NO-FILE fetch 'missing'");
    assert_error(&result->files[2].error, "VIAL-PATH fetch 'link'");
    assert_error(&result->files[3].error, "VIAL-FILE fetch 'busy'");
    assert_string_equal(result->files[4].data, "content of b");
    vial_result_free(result);
}

static void an_output_that_never_ends_is_given_up(void **state)
{
    struct vial_result *result =
        run_fake(*state, "'outputs':['endless','after'],", "'exit:0'", NULL);

    case_verdict(result, VIAL_OK);
    assert_null(result->files[0].data);
    assert_error(&result->files[0].error, "VIAL-FILE fetch 'endless': all outputs "
                                          "together are larger than 268435456 bytes");
    vial_result_free(result);
}

static void an_artifact_has_no_more_than_was_told(void **state)
{
    struct vial_result *result =
        run_fake(*state, "'artifacts':'liar',", "'exit:0'", NULL);

    case_verdict(result, VIAL_OK);
    assert_int_equal(result->artifact_count, 1);
    assert_string_equal(result->artifacts[0].path, "other");
    assert_true(result->artifacts_truncated);
    vial_result_free(result);
}

static void a_run_that_was_ended_has_no_outputs(void **state)
{
    struct vial_result *result =
        run_fake(*state, "'timeout':'100ms','outputs':['a'],", "'hang'", NULL);

    case_verdict(result, VIAL_TIMEOUT);
    assert_int_equal(result->file_count, 1);
    assert_error(&result->files[0].error,
                 "VIAL-FILE fetch 'a': the run was over before it could be");
    vial_result_free(result);
}

static void add_file(struct str *json, const char *path, const char *content)
{
    str_printf(json, "%s{'path':'%s','content':'%s'}", json->len > 0 ? "," : "", path,
               content);
}

static struct vial_result *run_with_files(void **state, const char *files)
{
    auto_str struct str json = { 0 };

    str_printf(&json, "{'driver':'fake','files':[%s],'command':['fake','exit:0']}",
               files);
    return case_run(*state, case_request(json.data), NULL);
}

static void more_files_than_channels_go_in(void **state)
{
    auto_str struct str files = { 0 };
    struct vial_result *result;
    char name[32];

    for (int i = 0; i < 600; i++) {
        (void)snprintf(name, sizeof name, "f%d", i);
        add_file(&files, name, "hello");
    }
    result = run_with_files(state, files.data);
    case_verdict(result, VIAL_OK);
    vial_result_free(result);
}

static void a_file_larger_than_its_credit_goes_in_first(void **state)
{
    auto_str struct str files = { 0 };
    auto_str struct str content = { 0 };
    struct vial_result *result;

    while (content.len < 1500000)
        str_puts(&content, "0123456789abcdef");
    add_file(&files, "large", content.data);
    add_file(&files, "small", "x");
    result = run_with_files(state, files.data);
    case_verdict(result, VIAL_OK);
    vial_result_free(result);
}

static void a_file_that_cannot_go_in_fails_the_run(void **state)
{
    struct vial_result *result = run_with_files(
        state, "{'path':'good','content':''},{'path':'refused','content':'x'}");

    case_verdict(result, VIAL_FAILED);
    assert_error(&result->error, "VIAL-FILE put 'refused' into the vessel");
    assert_string_equal(result->error.cause, "No space left on device");
    assert_string_equal(result->error.remedy, "raise 'disk', or bring less");
    vial_result_free(result);
}

static struct vial_result *run_language(void **state, const char *language,
                                        const struct vial_watch *watch)
{
    char json[256];

    (void)snprintf(json, sizeof json,
                   "{'driver':'fake','language':'%s','code':'x','args':['{dir}']}",
                   language);
    return case_run(*state, case_request(json), watch);
}

static void a_compile_error_is_about_the_compile_step(void **state)
{
    struct heard heard = { 0 };
    const struct vial_watch watch = {
        .cancel_fd = -1, .stdin_fd = -1, .output = hear, .context = &heard
    };
    struct vial_result *result = run_language(state, "fakebad", &watch);

    case_verdict(result, VIAL_NONZERO);
    assert_string_equal(result->stage, "compile");
    assert_string_equal(result->err.data, "syntax error");
    assert_int_equal(heard.bytes, strlen("syntax error"));
    vial_result_free(result);
}

static void a_compiler_that_succeeds_is_not_heard(void **state)
{
    struct heard heard = { 0 };
    const struct vial_watch watch = {
        .cancel_fd = -1, .stdin_fd = -1, .output = hear, .context = &heard
    };
    struct vial_result *result = run_language(state, "fakegood", &watch);

    case_verdict(result, VIAL_OK);
    assert_string_equal(result->stage, "run");
    assert_string_equal(result->out.data, "ran in /work");
    assert_int_equal(heard.bytes, strlen("ran in /work"));
    assert_int_equal(result->err.total_bytes, 0);
    vial_result_free(result);
}

static void a_missing_compiler_is_an_interpreter_error(void **state)
{
    struct vial_result *result = run_language(state, "fakelost", NULL);

    case_verdict(result, VIAL_FAILED);
    assert_error(&result->error, "VIAL-INTERPRETER start 'fakecc'");
    assert_string_equal(result->error.remedy,
                        "install 'fakecc' on this host, or run 'vial languages' to see "
                        "what is usable");
    vial_result_free(result);
}

static void a_compiler_has_a_deadline_of_its_own(void **state)
{
    struct vial_result *result =
        case_run(*state,
                 case_request("{'driver':'fake','language':'fakeslow','code':'x',"
                              "'timeout':'1h','compile_timeout':'2s'}"),
                 NULL);

    case_verdict(result, VIAL_TIMEOUT);
    assert_string_equal(result->stage, "compile");
    assert_string_equal(result->err.data, "thinking");
    vial_result_free(result);
}

/* A run in the vessel that PLAN's driver opens, as far as nobody has spoken with its
 * guest. */
static void open_run(struct run *r, struct vial_engine *e, const char *language)
{
    char json[128];
    struct vial_request *req;
    struct vial_error err = { 0 };
    struct vessel_order order;

    (void)snprintf(json, sizeof json,
                   "{'driver':'fake','language':'%s','code':'x','timeout':'1h'}",
                   language);
    req = case_request(json);
    run_init(r, e, NULL);
    if (engine_plan(e, req, &r->driver, &r->plan, &err) < 0)
        fail_msg("plan: %s", err.message);
    order = (struct vessel_order){ .driver = r->driver, .plan = r->plan };
    if (engine_vessel(e, &order, &r->vessel, &err) < 0)
        fail_msg("open: %s", err.message);
    vial_request_free(req);
}

/* Its vessel is two hours old, as its compiler took its time. */
static void the_time_of_a_compiler_is_not_the_programs(void **state)
{
    const int64_t hour_ns = INT64_C(3600) * 1000000000;
    const struct exit_message said = { .kind = EXIT_CODE, .value = 3, .timed_out = 1 };
    struct vial_result *result = result_new();
    auto_run struct run r;

    open_run(&r, *state, "fakegood");
    r.stage = LIFE_RUN;
    r.started_ns -= 2 * hour_ns;
    r.opened_ns = r.started_ns;
    r.due_ns = clock_now_ns() + hour_ns;
    step_exited(&r, 0, &said);
    r.ended_ns = clock_now_ns();
    collect(&r, result);
    case_verdict(result, VIAL_NONZERO);
    assert_int_equal(result->exit_code, 3);
    assert_int_equal(result->limits_hit, 0);
    vial_result_free(result);
}

/* Its last words come after the caller has cancelled the run. */
static void a_cancelled_compiler_does_not_go_on_to_the_program(void **state)
{
    const struct exit_message good = { .kind = EXIT_CODE };
    auto_run struct run r;

    open_run(&r, *state, "fakegood");
    r.stage = LIFE_COMPILE;
    run_stop(&r, RUN_CANCELLED);
    step_exited(&r, 0, &good);
    assert_int_equal(r.stage, LIFE_COMPILE);
    assert_int_equal(r.exec_channel, 0);
}

/* The same evidence, of one that has its vessel to itself, and of one among others. */
static void a_full_disk_is_no_word_about_a_program_among_others(void **state)
{
    const struct exit_message full = { .kind = EXIT_CODE,
                                       .disk_full = 1,
                                       .file_full = 1 };
    const struct plan plan = { 0 };
    struct evidence e = { .end = RUN_EXITED, .exit = &full, .limits_by = "cgroup2" };

    (void)state;
    assert_int_equal(judge(&e).limits_hit, 0);
    e.plan = &plan;
    assert_int_equal(judge(&e).limits_hit, VIAL_LIMIT_DISK | VIAL_LIMIT_FSIZE);
    assert_int_equal(judge(&e).verdict, VIAL_OK);
}

static void a_refusal_is_a_result(void **state)
{
    struct vial_result *result =
        run_fake(*state, "'require':['namespaces'],", "'exit:0'", NULL);

    case_verdict(result, VIAL_DENIED);
    assert_error(&result->error,
                 "VIAL-ISOLATION require 'namespaces': the vessel would "
                 "have level 'none'");
    assert_string_equal(result->vessel_id, "");
    assert_int_equal(strncmp(result->id, "r-", 2), 0);
    vial_result_free(result);
}

static void a_missing_guest_is_a_fault_with_a_remedy(void **state)
{
    struct vial_engine *e = *state;
    int guest_fd = e->guest_fd;
    struct vial_result *result;

    e->guest_fd = -1;
    result = run_fake(e, "", "'exit:0'", NULL);
    e->guest_fd = guest_fd;
    case_verdict(result, VIAL_FAILED);
    assert_string_equal(result->error.code, "VIAL-GUEST");
    assert_non_null(strstr(result->error.remedy, "VIAL_SHARE"));
    vial_result_free(result);
}

static void a_program_that_is_not_here_is_refused_before_opening(void **state)
{
    struct vial_result *result = case_run(
        *state, case_request("{'driver':'process','language':'fakegood','code':''}"),
        NULL);

    case_verdict(result, VIAL_DENIED);
    assert_error(
        &result->error,
        "VIAL-INTERPRETER run fakegood: there is no program 'fakecc' on this host");
    vial_result_free(result);
}

/* Writes TEXT to NAME in a fresh directory. */
static const char table[] =
    "fakegood:\n"
    "  file: main.x\n"
    "  compile: [fakecc, 'out:warning', 'err:warning', 'exit:0']\n"
    "  run: ['{dir}/main', 'out:ran in {dir}', 'exit:0']\n"
    "fakebad:\n"
    "  file: main.x\n"
    "  compile: [fakecc, 'err:syntax error', 'exit:1']\n"
    "  run: ['{dir}/main', 'exit:0']\n"
    "fakeslow:\n"
    "  file: main.x\n"
    "  compile: [fakecc, 'err:thinking', 'hang']\n"
    "  run: ['{dir}/main', 'exit:0']\n"
    "fakelost:\n"
    "  file: main.x\n"
    "  compile: [fakecc, 'failed:find:2']\n"
    "  run: ['{dir}/main', 'exit:0']\n";

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

/* The stages of PLAN's program, a letter each, in the order of enum life_stage. */
static void stages_of(const struct plan *plan, char out[LIFE_ENDED + 1])
{
    enum life_stage stage = LIFE_BEGIN;
    size_t n = 0;

    while ((stage = life_after(stage, plan)) != LIFE_ENDED)
        out[n++] = "-ICLROA"[stage];
    out[n] = '\0';
}

static void a_program_passes_only_the_stages_that_its_plan_needs(void **state)
{
    char word[] = "cc";
    char *words[] = { word };
    char here[] = "";
    struct plan plan = { .argv = { .items = words, .count = 1 } };
    char stages[LIFE_ENDED + 1];

    (void)state;
    stages_of(&plan, stages);
    assert_string_equal(stages, "R");
    plan.compile_argv = plan.argv;
    plan.file_count = 1;
    stages_of(&plan, stages);
    assert_string_equal(stages, "ICR");
    plan.outputs = plan.argv;
    plan.artifacts = here;
    stages_of(&plan, stages);
    assert_string_equal(stages, "ICLROA");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(output_and_exit_code_are_the_programs),
        cmocka_unit_test(a_program_passes_only_the_stages_that_its_plan_needs),
        cmocka_unit_test(a_signal_is_told_apart_from_a_code),
        cmocka_unit_test(exit_137_is_no_signal_and_no_oom),
        cmocka_unit_test(a_kill_is_oom_only_if_the_kernel_counted_one),
        cmocka_unit_test(a_shell_that_passes_a_kill_for_memory_on_is_oom),
        cmocka_unit_test(an_oom_kill_that_was_survived_is_only_listed),
        cmocka_unit_test(a_guest_that_the_kernel_took_for_memory_is_oom),
        cmocka_unit_test(a_full_disk_ends_the_run_only_if_asked),
        cmocka_unit_test(touching_the_pids_limit_ends_the_run_if_asked),
        cmocka_unit_test(an_event_without_a_cause_ends_nothing),
        cmocka_unit_test(the_cpu_limit_is_judged_by_the_kernels_count),
        cmocka_unit_test(a_deadline_keeps_what_was_printed_before),
        cmocka_unit_test(a_guest_cannot_make_a_timeout_before_its_time),
        cmocka_unit_test(a_file_too_large_is_listed),
        cmocka_unit_test(bytes_that_are_no_frame_fail_the_run),
        cmocka_unit_test(an_exit_before_the_start_fails_the_run),
        cmocka_unit_test(output_after_its_end_fails_the_run),
        cmocka_unit_test(a_guest_that_dies_fails_the_run),
        cmocka_unit_test(a_missing_program_is_the_callers_to_mend),
        cmocka_unit_test(a_missing_directory_has_its_own_code),
        cmocka_unit_test(a_layer_that_could_not_be_put_on_fails_the_run),
        cmocka_unit_test(output_beyond_the_limit_is_counted_not_kept),
        cmocka_unit_test(output_max_ends_the_run_at_that_byte),
        cmocka_unit_test(a_live_listener_gets_every_byte),
        cmocka_unit_test(a_run_tells_how_long_it_may_take),
        cmocka_unit_test(a_limit_that_was_asked_for_holds_for_a_listener),
        cmocka_unit_test(a_listener_that_has_enough_cancels),
        cmocka_unit_test(a_readable_cancel_descriptor_cancels),
        cmocka_unit_test(stdin_of_any_size_comes_through),
        cmocka_unit_test(live_stdin_is_piped_until_its_end),
        cmocka_unit_test(live_stdin_that_nobody_reads_costs_no_memory),
        cmocka_unit_test(outputs_come_back_or_say_why_not),
        cmocka_unit_test(an_output_that_never_ends_is_given_up),
        cmocka_unit_test(an_artifact_has_no_more_than_was_told),
        cmocka_unit_test(a_run_that_was_ended_has_no_outputs),
        cmocka_unit_test(more_files_than_channels_go_in),
        cmocka_unit_test(a_file_larger_than_its_credit_goes_in_first),
        cmocka_unit_test(a_file_that_cannot_go_in_fails_the_run),
        cmocka_unit_test(a_compile_error_is_about_the_compile_step),
        cmocka_unit_test(a_compiler_that_succeeds_is_not_heard),
        cmocka_unit_test(a_missing_compiler_is_an_interpreter_error),
        cmocka_unit_test(a_compiler_has_a_deadline_of_its_own),
        cmocka_unit_test(the_time_of_a_compiler_is_not_the_programs),
        cmocka_unit_test(a_cancelled_compiler_does_not_go_on_to_the_program),
        cmocka_unit_test(a_full_disk_is_no_word_about_a_program_among_others),
        cmocka_unit_test(a_refusal_is_a_result),
        cmocka_unit_test(a_missing_guest_is_a_fault_with_a_remedy),
        cmocka_unit_test(a_program_that_is_not_here_is_refused_before_opening),
    };

    return cmocka_run_group_tests(tests, open_engine, close_engine);
}
