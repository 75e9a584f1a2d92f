/* SPDX-License-Identifier: Apache-2.0 */

/* Pools of waiting vessels, through the public API: with the fake driver, whose
 * guests do as they are told, and with the native one. */

#include <dirent.h>
#include <errno.h>
#include <jansson.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "driver/fake/fake.h"
#include "engine/engine.h"
#include "engine/pool/pool_key.h"
#include "engine/pool/pool_limits.h"
#include "engine/pool/stock.h"
#include "run_case.h"

#include "vial/warm.h"

#define WAIT_MS 60000

static const char *const no_names[] = { NULL };

static struct vial_engine *warm_engine(unsigned ceiling)
{
    const struct vial_warm_options options = { .languages = no_names,
                                               .ceiling = ceiling };
    struct vial_engine *e = case_engine(NULL);
    struct vial_error err = { 0 };

    if (vial_engine_warm(e, &options, &err) < 0)
        fail_msg("warm: %s %s", err.code, err.message);
    return e;
}

static void want(struct vial_engine *e, const char *request, unsigned count)
{
    struct vial_request *req = case_request(request);
    struct vial_error err = { 0 };

    if (vial_warm_ready(e, req, count, WAIT_MS, &err) < 0)
        fail_msg("ready: %s: %s (%s)", err.code, err.message, err.cause);
    vial_request_free(req);
}

static struct vial_result *run(struct vial_engine *e, const char *request)
{
    return case_run(e, case_request(request), NULL);
}

static void check_start(struct vial_engine *e, const char *request, const char *start)
{
    struct vial_result *result = run(e, request);

    case_verdict(result, VIAL_OK);
    assert_string_equal(result->start, start);
    vial_result_free(result);
}

/* The number NAME of the first shape. */
static json_int_t reported(struct vial_engine *e, const char *name)
{
    struct vial_error err = { 0 };
    char *text = NULL;
    json_t *all = NULL;
    json_int_t value = 0;

    assert_int_equal(vial_warm_report(e, &text, &err), 0);
    all = json_loads(text, 0, NULL);
    value = json_integer_value(
        json_object_get(json_array_get(json_object_get(all, "shapes"), 0), name));
    json_decref(all);
    free(text);
    return value;
}

#define FAKE "'driver':'fake','command':['fake','out:hi','exit:0']"

static void a_waiting_vessel_is_taken_and_says_so(void **state)
{
    struct vial_engine *e = warm_engine(8);
    struct vial_result *result = NULL;

    (void)state;
    want(e, "{" FAKE "}", 2);
    result = run(e, "{" FAKE "}");
    case_verdict(result, VIAL_OK);
    assert_string_equal(result->start, "warm");
    assert_string_equal(result->out.data, "hi");
    assert_int_equal(reported(e, "taken"), 1);
    assert_int_equal(reported(e, "missed"), 0);
    vial_result_free(result);
    vial_engine_close(e);
}

static void no_vessel_is_used_twice(void **state)
{
    struct vial_engine *e = warm_engine(4);
    char seen[20][32];

    (void)state;
    want(e, "{" FAKE "}", 4);
    for (int i = 0; i < 20; i++) {
        struct vial_result *result = run(e, "{" FAKE "}");

        memcpy(seen[i], result->vessel_id, sizeof(seen[i]));
        for (int k = 0; k < i; k++)
            assert_string_not_equal(seen[k], seen[i]);
        vial_result_free(result);
    }
    vial_engine_close(e);
}

static void an_empty_stock_is_no_reason_to_wait(void **state)
{
    struct vial_engine *e = warm_engine(1);

    (void)state;
    check_start(e, "{" FAKE "}", "cold");
    assert_int_equal(reported(e, "missed"), 1);
    vial_engine_close(e);
}

static void what_is_asked_for_again_becomes_warm(void **state)
{
    struct vial_engine *e = warm_engine(4);
    struct vial_result *result = NULL;
    bool warm = false;

    (void)state;
    for (int i = 0; i < 1000 && !warm; i++) {
        result = run(e, "{" FAKE "}");
        case_verdict(result, VIAL_OK);
        warm = strcmp(result->start, "warm") == 0;
        vial_result_free(result);
    }
    assert_true(warm);
    vial_engine_close(e);
}

static void what_can_still_be_set_is_no_obstacle(void **state)
{
    struct vial_engine *e = warm_engine(8);

    (void)state;
    want(e, "{" FAKE "}", 6);
    check_start(e, "{" FAKE ",'timeout':60}", "warm");
    check_start(e, "{" FAKE ",'env':{'A':'b'}}", "warm");
    check_start(e, "{" FAKE ",'stdin':'text'}", "warm");
    check_start(e, "{" FAKE ",'output_limit':100}", "warm");
    check_start(e, "{" FAKE ",'files':[{'path':'x','content':'y'}]}", "warm");
    vial_engine_close(e);
}

static void what_was_fixed_at_opening_goes_cold(void **state)
{
    struct vial_engine *e = warm_engine(8);

    (void)state;
    want(e, "{" FAKE "}", 4);
    check_start(e, "{" FAKE ",'disk':'7m'}", "cold");
    check_start(e, "{" FAKE ",'seccomp':'strict'}", "cold");
    check_start(e, "{" FAKE ",'memory':'9g'}", "cold");
    /* The fake driver cannot lower one. */
    check_start(e, "{" FAKE ",'memory':'9m'}", "cold");
    vial_engine_close(e);
}

/* Dead, and left to whoever waits for it. */
static bool kill_and_see_dead(pid_t pid)
{
    siginfo_t info;

    if (kill(pid, SIGKILL) < 0)
        return false;
    while (waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT) < 0 && errno == EINTR)
        ;
    return true;
}

/* Children belong to the thread that made them. */
static unsigned kill_children(void)
{
    DIR *threads = opendir("/proc/self/task");
    struct dirent *entry = NULL;
    unsigned killed = 0;

    while ((entry = readdir(threads))) { /* NOLINT: a test */
        char path[320];
        FILE *file = NULL;
        int pid = 0;

        (void)snprintf(path, sizeof path, "/proc/self/task/%s/children", entry->d_name);
        file = entry->d_name[0] == '.' ? NULL : fopen(path, "re");
        while (file && fscanf(file, "%d", &pid) == 1) /* NOLINT: a test */
            killed += kill_and_see_dead(pid);
        if (file)
            (void)fclose(file);
    }
    (void)closedir(threads);
    return killed;
}

static void a_guest_that_died_waiting_is_not_used(void **state)
{
    struct vial_engine *e = warm_engine(8);

    (void)state;
    want(e, "{" FAKE "}", 3);
    assert_true(kill_children() >= 3);
    for (int i = 0; i < 5; i++) {
        struct vial_result *result = run(e, "{" FAKE "}");

        case_verdict(result, VIAL_OK);
        vial_result_free(result);
    }
    vial_engine_close(e);
}

static void pools_are_asked_for_once(void **state)
{
    struct vial_engine *e = warm_engine(1);
    struct vial_error err = { 0 };

    (void)state;
    assert_int_equal(vial_engine_warm(e, NULL, &err), -1);
    assert_error(&err, "VIAL-USAGE the engine keeps vessels warm already");
    vial_engine_close(e);
}

static void without_a_pool_there_is_no_report(void **state)
{
    struct vial_engine *e = case_engine(NULL);
    struct vial_error err = { 0 };
    char *text = NULL;

    (void)state;
    assert_int_equal(vial_warm_report(e, &text, &err), -1);
    assert_error(&err, "VIAL-USAGE the engine keeps no vessels warm");
    assert_int_equal(vial_warm_waiting(e), 0);
    vial_engine_close(e);
}

static void vessels_that_wait_are_counted(void **state)
{
    struct vial_engine *e = warm_engine(2);

    (void)state;
    assert_int_equal(vial_warm_waiting(e), 0);
    want(e, "{" FAKE "}", 2);
    assert_int_equal(vial_warm_waiting(e), 2);
    vial_engine_close(e);
}

static void a_request_that_cannot_wait_is_refused(void **state)
{
    struct vial_engine *e = warm_engine(1);
    struct vial_request *req = case_request("{'driver':'process','command':['true']}");
    struct vial_error err = { 0 };

    (void)state;
    assert_int_equal(vial_warm_ready(e, req, 1, WAIT_MS, &err), -1);
    assert_string_equal(err.code, "VIAL-UNSUPPORTED");
    vial_request_free(req);
    vial_engine_close(e);
}

static void the_pool_stays_within_its_memory(void **state)
{
    const struct vial_warm_options options = { .languages = no_names,
                                               .memory_bytes = 30u << 20 };
    struct vial_engine *e = case_engine(NULL);
    json_int_t idle = 0;
    struct vial_request *req = case_request("{" FAKE "}");
    struct vial_error err = { 0 };

    (void)state;
    assert_int_equal(vial_engine_warm(e, &options, &err), 0);
    assert_int_equal(vial_warm_ready(e, req, 1, WAIT_MS, &err), 0);
    (void)vial_warm_ready(e, req, 64, 500, &err);
    idle = reported(e, "idle");
    /* The first one's weight is not known before it is there. */
    assert_true(idle <= 1 ||
                idle * reported(e, "pss_bytes") <= (json_int_t)options.memory_bytes);
    assert_true(idle < 64);
    vial_request_free(req);
    vial_engine_close(e);
}

#define DESCRIPTORS 128
#define FIRST       (DESCRIPTORS / 2 - DESCRIPTORS_EACH) /* open, and no second fits */

struct few {
    struct rlimit before;
    struct vial_engine *engine;
    struct vial_request *req;
    int mine[DESCRIPTORS];
    unsigned count;
};

/* The program itself has so many. */
static void hold(struct few *f, unsigned open)
{
    while (descriptors_now().open < open)
        assert_true((f->mine[f->count++] = dup(0)) >= 0);
}

static int open_few(void **state)
{
    struct few *f = calloc(1, sizeof *f);
    struct rlimit files;

    assert_non_null(f);
    *state = f;
    f->engine = warm_engine(64);
    f->req = case_request("{" FAKE "}");
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &f->before), 0);
    files = f->before;
    files.rlim_cur = DESCRIPTORS;
    return setrlimit(RLIMIT_NOFILE, &files);
}

static int close_few(void **state)
{
    struct few *f = *state;

    while (f->count > 0)
        (void)close(f->mine[--f->count]);
    (void)setrlimit(RLIMIT_NOFILE, &f->before);
    vial_request_free(f->req);
    vial_engine_close(f->engine);
    free(f);
    return 0;
}

/* A word that the first shape has under NAME, or "". */
static void reported_text(struct vial_engine *e, const char *name, char *out,
                          size_t size)
{
    struct vial_error err = { 0 };
    char *text = NULL;
    json_t *all = NULL;
    const char *value = NULL;

    assert_int_equal(vial_warm_report(e, &text, &err), 0);
    all = json_loads(text, 0, NULL);
    value = json_string_value(
        json_object_get(json_array_get(json_object_get(all, "shapes"), 0), name));
    (void)snprintf(out, size, "%s", value ? value : "");
    json_decref(all);
    free(text);
}

static void the_pool_leaves_half_of_the_descriptors_to_the_program(void **state)
{
    struct few *f = *state;
    struct vial_error err = { 0 };
    char lacks[32];

    hold(f, FIRST);
    assert_int_equal(vial_warm_ready(f->engine, f->req, 3, WAIT_MS, &err), -1);
    assert_string_equal(err.code, "VIAL-BUSY");
    assert_non_null(strstr(err.message, "1 of 3 vessels wait: "));
    assert_non_null(strstr(err.message, "of this process's 128 descriptors are open"));
    assert_string_equal(err.remedy, "raise the soft limit of open files (ulimit -n)");
    assert_int_equal(reported(f->engine, "idle"), 1);
    reported_text(f->engine, "lacks", lacks, sizeof lacks);
    assert_string_equal(lacks, "descriptors");
    for (int i = 0; i < 5; i++) {
        struct vial_result *result = run(f->engine, "{" FAKE "}");

        case_verdict(result, VIAL_OK);
        vial_result_free(result);
        assert_true(descriptors_now().open <= DESCRIPTORS / 2);
    }
}

static void a_program_that_needs_descriptors_gets_the_pools(void **state)
{
    struct few *f = *state;

    want(f->engine, "{" FAKE "}", 3);
    hold(f, DESCRIPTORS - DESCRIPTORS / 4 + 1);
    for (int waited = 0; reported(f->engine, "idle") == 3; waited++) {
        assert_true(waited < WAIT_MS / 10);
        (void)usleep(10000); /* its thread looks by itself */
    }
}

static void a_pool_that_can_have_none_says_so_and_runs_go_on(void **state)
{
    const struct rlimit files = { 40, ((struct few *)*state)->before.rlim_max };
    struct few *f = *state;
    struct vial_error err = { 0 };

    assert_int_equal(setrlimit(RLIMIT_NOFILE, &files), 0);
    assert_int_equal(vial_warm_ready(f->engine, f->req, 1, WAIT_MS, &err), -1);
    assert_string_equal(err.code, "VIAL-BUSY");
    assert_non_null(strstr(err.message, "0 of 1 vessels wait: "));
    for (int i = 0; i < 3; i++)
        check_start(f->engine, "{" FAKE "}", "cold");
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &f->before), 0);
    want(f->engine, "{" FAKE "}", 1); /* the limit is asked for each time */
}

#define PYTHON "{'driver':'native','language':'python','code':'print(6*7)'}"

static void an_interpreter_waits_in_a_native_vessel(void **state)
{
    struct vial_engine *e = warm_engine(4);
    struct vial_request *req = case_request(PYTHON);
    struct vial_error err = { 0 };
    struct vial_result *result = NULL;

    (void)state;
    if (vial_warm_ready(e, req, 2, WAIT_MS, &err) < 0) {
        vial_request_free(req);
        vial_engine_close(e);
        skip(); /* no driver native here */
    }
    vial_request_free(req);
    result = run(e, PYTHON);
    case_verdict(result, VIAL_OK);
    assert_string_equal(result->start, "warm");
    assert_string_equal(result->out.data, "42\n");
    assert_int_equal(result->usage.pids_peak, 1);
    vial_result_free(result);
    /* What python reads before its program cannot be changed any more. */
    check_start(e,
                "{'driver':'native','language':'python','code':'','env':{'TZ':'UTC'}}",
                "cold");
    check_start(e, "{'driver':'native','language':'python','code':'','env':{'A':'b'}}",
                "warm");
    vial_engine_close(e);
}

/* A plan of the container engine's, with RUNTIME for its wall. */
static struct plan *container_plan(const char *runtime, unsigned uid)
{
    struct plan *p = calloc(1, sizeof(*p));

    p->driver = strdup("docker");
    p->image = strdup("debian:12");
    p->seccomp = strdup("default");
    p->container.runtime = runtime ? strdup(runtime) : NULL;
    p->container.prefix = strdup("vial");
    p->container.uid = p->container.gid = uid;
    p->container.retries = 3;
    return p;
}

static void a_waiting_container_has_the_runtime_and_user_that_are_asked_for(
    void **state)
{
    const struct driver driver = { .name = "docker", .waits = true };
    struct plan *plans[] = { container_plan(NULL, 0), container_plan("runsc", 0),
                             container_plan(NULL, 1234) };
    struct plan_cache cache = { 0 };
    struct vial_error err = { 0 };
    struct plan *made = NULL;
    char *keys[3];

    (void)state;
    for (size_t i = 0; i < 3; i++)
        keys[i] = pool_key(&driver, plans[i]);
    assert_string_not_equal(keys[0], keys[1]);
    assert_string_not_equal(keys[0], keys[2]);
    assert_int_equal(pool_template(plans[1], &made, &err), 0);
    assert_string_equal(made->container.runtime, "runsc");
    assert_string_equal(made->container.prefix, "vial");
    assert_int_equal(made->container.retries, 3);
    assert_true(pool_can_wait(&driver, plans[0]));
    plans[0]->container.caches = &cache;
    plans[0]->container.cache_count = 1;
    assert_false(pool_can_wait(&driver, plans[0]));
    plans[0]->container.caches = NULL;
    plans[0]->container.cache_count = 0;
    plan_free(made);
    for (size_t i = 0; i < 3; i++) {
        free(keys[i]);
        plan_free(plans[i]);
    }
}

static unsigned opened; /* by the driver below */

/* The first of them has as little time left as an old one. */
static int open_until(const struct plan *plan, int guest_fd, struct vessel **out,
                      struct vial_error *err)
{
    int64_t left_ms = opened++ == 0 ? POOL_STAY_MS / 2 - 1 : plan->stay_ms;
    int rc = driver_fake.open(plan, guest_fd, out, err);

    if (rc == 0)
        (*out)->until_ns = clock_now_ns() + left_ms * 1000000;
    return rc;
}

static void what_somebody_else_will_end_is_replaced_in_time(void **state)
{
    struct vial_engine *e = warm_engine(8);
    struct driver mine = driver_fake;
    const struct driver *const only[] = { &mine, NULL };
    int64_t end_ns = clock_now_ns() + (int64_t)WAIT_MS * 1000000;

    (void)state;
    opened = 0;
    mine.open = open_until;
    e->drivers = only;
    want(e, "{" FAKE "}", 1);
    while (reported(e, "refills") < 2 && clock_now_ns() < end_ns)
        (void)usleep(10000);
    assert_int_equal(reported(e, "refills"), 2);
    assert_int_equal(reported(e, "lost"), 0);
    check_start(e, "{" FAKE "}", "warm");
    vial_engine_close(e);
}

/* A driver that makes vessels elsewhere: those of the pool take until they are let go.
 */
static struct held {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    pthread_t own; /* whose vessels are there at once */
    bool let_go;
    unsigned opened; /* by anybody else than the pool */
} held = { .lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER };

static int open_held(const struct plan *plan, int guest_fd, struct vessel **out,
                     struct vial_error *err)
{
    (void)pthread_mutex_lock(&held.lock);
    held.opened += plan->stay_ms == 0;
    while (!held.let_go && !pthread_equal(held.own, pthread_self()))
        (void)pthread_cond_wait(&held.changed, &held.lock);
    (void)pthread_mutex_unlock(&held.lock);
    return driver_fake.open(plan, guest_fd, out, err);
}

static void let_go(void)
{
    (void)pthread_mutex_lock(&held.lock);
    held.let_go = true;
    (void)pthread_cond_broadcast(&held.changed);
    (void)pthread_mutex_unlock(&held.lock);
}

static void *run_third(void *engine)
{
    return run(engine, "{" FAKE "}");
}

/* Until as many of the first shape are being made, and waited for. */
static bool becomes(struct vial_engine *e, unsigned made, unsigned waited_for)
{
    const int64_t end_ns = clock_now_ns() + (int64_t)WAIT_MS * 1000000;
    bool is = false;

    while (!is && clock_now_ns() < end_ns) {
        const struct stock *s = e->pool->stocks[0];

        (void)pthread_mutex_lock(&e->pool->lock);
        is = s->making >= made && s->queue.count >= waited_for;
        (void)pthread_mutex_unlock(&e->pool->lock);
        (void)usleep(1000);
    }
    return is;
}

static void what_is_being_made_elsewhere_is_waited_for(void **state)
{
    struct vial_engine *e = warm_engine(8);
    struct driver mine = driver_fake;
    const struct driver *const only[] = { &mine, NULL };
    struct vial_result *result;
    pthread_t third;
    bool waited;
    void *made;

    (void)state;
    mine.open = open_held;
    mine.far = true;
    e->drivers = only;
    held.own = pthread_self();
    check_start(e, "{" FAKE "}", "cold");
    check_start(e, "{" FAKE "}", "cold");
    assert_true(becomes(e, 1, 0));
    assert_int_equal(pthread_create(&third, NULL, run_third, e), 0);
    waited = becomes(e, 1, 1);
    let_go();
    assert_int_equal(pthread_join(third, &made), 0);
    result = made;
    case_verdict(result, VIAL_OK);
    assert_true(waited);
    assert_string_equal(result->start, "warm");
    assert_int_equal(held.opened, 2);
    vial_result_free(result);
    vial_engine_close(e);
}

static void what_may_take_longer_than_a_vessel_is_kept_elsewhere_opens_its_own(
    void **state)
{
    const struct driver far = { .name = "kubernetes", .waits = true, .far = true };
    const struct driver near = { .name = "docker", .waits = true };
    struct plan *p = container_plan(NULL, 0);
    struct vial_error err = { 0 };
    struct plan *made = NULL;

    (void)state;
    p->limits.wall_ms = POOL_STAY_MS / 2;
    assert_true(pool_can_wait(&far, p));
    assert_int_equal(pool_template(p, &made, &err), 0);
    assert_true(made->stay_ms == POOL_STAY_MS);
    p->limits.wall_ms++;
    assert_false(pool_can_wait(&far, p));
    assert_true(pool_can_wait(&near, p));
    plan_free(made);
    plan_free(p);
}

/* It would be told them as JSON, without what is no text. */
static void a_waiting_node_is_not_told_what_is_no_text(void **state)
{
    static const char *const bad[] = { "a\xff", "\xc3", "a\1", "\x7f\x80" };
    static const char *const good[] = { "", "a\tb\n", "\xc3\xa9", "\"\\" };

    (void)state;
    for (size_t i = 0; i < 2 * (sizeof bad / sizeof *bad); i++) {
        bool fits = i % 2 == 0;
        struct plan *p = container_plan(NULL, 0);

        strv_push(&p->argv, "node");
        strv_push(&p->argv, "{dir}/main.js");
        strv_push(&p->argv, fits ? good[i / 2] : bad[i / 2]);
        assert_int_equal(pool_may_use_forked(p), fits);
        plan_free(p);
    }
}

#define with_few_descriptors(test)                                                     \
    cmocka_unit_test_setup_teardown(test, open_few, close_few)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_waiting_vessel_is_taken_and_says_so),
        cmocka_unit_test(no_vessel_is_used_twice),
        cmocka_unit_test(
            a_waiting_container_has_the_runtime_and_user_that_are_asked_for),
        cmocka_unit_test(an_empty_stock_is_no_reason_to_wait),
        cmocka_unit_test(what_is_asked_for_again_becomes_warm),
        cmocka_unit_test(what_can_still_be_set_is_no_obstacle),
        cmocka_unit_test(what_was_fixed_at_opening_goes_cold),
        cmocka_unit_test(a_guest_that_died_waiting_is_not_used),
        cmocka_unit_test(pools_are_asked_for_once),
        cmocka_unit_test(without_a_pool_there_is_no_report),
        cmocka_unit_test(vessels_that_wait_are_counted),
        cmocka_unit_test(a_request_that_cannot_wait_is_refused),
        cmocka_unit_test(the_pool_stays_within_its_memory),
        with_few_descriptors(the_pool_leaves_half_of_the_descriptors_to_the_program),
        with_few_descriptors(a_program_that_needs_descriptors_gets_the_pools),
        with_few_descriptors(a_pool_that_can_have_none_says_so_and_runs_go_on),
        cmocka_unit_test(an_interpreter_waits_in_a_native_vessel),
        cmocka_unit_test(a_waiting_node_is_not_told_what_is_no_text),
        cmocka_unit_test(what_somebody_else_will_end_is_replaced_in_time),
        cmocka_unit_test(what_is_being_made_elsewhere_is_waited_for),
        cmocka_unit_test(
            what_may_take_longer_than_a_vessel_is_kept_elsewhere_opens_its_own),
    };

    (void)setenv("VIAL_TEST_FAKE", "1", 1); /* NOLINT: before any thread */
    return cmocka_run_group_tests(tests, NULL, NULL);
}
