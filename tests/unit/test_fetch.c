/* SPDX-License-Identifier: Apache-2.0 */

/* Pulls and prunes, with an engine that says what the test wants: what of them is in
 * the audit log, and what callers get. */

#include <stdlib.h>
#include <unistd.h>

#include "audit/audit.h"
#include "base/fail.h"
#include "base/json.h"
#include "engine/run/fetch_image.h"
#include "run_case.h"

struct world {
    char dir[64], log[96];
    struct vial_engine *engine;
};

static void open_engine(struct world *w, const char *settings)
{
    char config[96];
    const struct vial_engine_options options = { .config = config,
                                                 .project_dir = "/",
                                                 .audit = w->log };
    struct vial_error err = { 0 };

    (void)snprintf(config, sizeof config, "%s/vial.yaml", w->dir);
    case_write(config, settings);
    if (vial_engine_open(&options, &w->engine, &err) < 0)
        fail_msg("open: %s: %s (%s)", err.code, err.message, err.cause);
    (void)unlink(config);
}

static int begin(void **state)
{
    struct world *w = calloc(1, sizeof *w);

    (void)snprintf(w->dir, sizeof w->dir, "/tmp/vial-fetch-XXXXXX");
    assert_non_null(mkdtemp(w->dir));
    (void)snprintf(w->log, sizeof w->log, "%s/log", w->dir);
    *state = w;
    return 0;
}

static int end(void **state)
{
    struct world *w = *state;
    char head[128];

    vial_engine_close(w->engine);
    (void)snprintf(head, sizeof head, "%s.head", w->log);
    (void)unlink(head);
    (void)unlink(w->log);
    (void)rmdir(w->dir);
    free(w);
    return 0;
}

/* What the engine answers to a pull or a prune, with names of LEN bytes. */
static json_t *report(size_t len)
{
    auto_free char *name = calloc(1, len + 1);

    assert_non_null(name);
    memset(name, 'i', len);
    return json_pack("{s:s, s:[s], s:i, s:[s], s:i, s:s}", "id", name, "digests",
                     "a@sha256:0", "size", 7, "removed", name, "freed_bytes", 8,
                     "secret", "x");
}

static int pull_well(const struct vial_pull *pull, json_t **json,
                     struct vial_error *err)
{
    (void)err;
    assert_true(pull->timeout_ms > 0); /* filled in from the settings */
    *json = report(3);
    return 0;
}

static int pull_much(const struct vial_pull *pull, json_t **json,
                     struct vial_error *err)
{
    (void)pull;
    (void)err;
    *json = report(AUDIT_LINE_MAX);
    return 0;
}

static int pull_badly(const struct vial_pull *pull, json_t **json,
                      struct vial_error *err)
{
    (void)json;
    return fail(err, VIAL_E_PULL, "pull image '%s'", pull->name);
}

static int prune_well(bool all, json_t **json, struct vial_error *err)
{
    (void)err;
    assert_true(all);
    *json = report(3);
    return 0;
}

static int prune_much(bool all, json_t **json, struct vial_error *err)
{
    (void)all;
    (void)err;
    *json = report(AUDIT_LINE_MAX);
    return 0;
}

static int prune_badly(bool all, json_t **json, struct vial_error *err)
{
    (void)all;
    (void)json;
    return fail(err, VIAL_E_INTERNAL, "remove images");
}

static const struct vial_pull wanted = {
    .name = "a:1", .cancel_fd = -1, .caller = "token:ci", .correlation = "c-1"
};
static const struct vial_prune pruned = { .all = true,
                                          .caller = "token:ci",
                                          .correlation = "c-1" };

static int pull_by(struct world *w,
                   int (*pull)(const struct vial_pull *, json_t **,
                               struct vial_error *),
                   json_t **json, struct vial_error *err)
{
    const struct driver driver = { .name = "test", .pull = pull };

    return fetch_pull(w->engine, &driver, &wanted, json, err);
}

static int keep_last(void *context, const char *line, size_t len)
{
    json_t **last = context;

    json_decref(*last);
    *last = json_loadb(line, len, 0, NULL);
    return *last ? 0 : -1;
}

/* The newest record has the members of WANT, a JSON object with ' for ". */
static void check_record(const struct world *w, const char *want)
{
    auto_json json_t *last = NULL;
    auto_json json_t *members = NULL;
    char text[512] = "";
    const char *name = NULL;
    json_t *value = NULL;

    (void)snprintf(text, sizeof text, "%s", want);
    for (char *at = text; *at; at++)
        *at = *at == '\'' ? '"' : *at;
    members = json_loads(text, 0, NULL);
    assert_non_null(members);
    assert_int_equal(audit_read(w->log, keep_last, &last, NULL), 0);
    assert_non_null(last);
    json_object_foreach(members, name, value)
    {
        if (!json_equal(value, json_object_get(last, name)))
            fail_msg("'%s' is not as wanted in the record", name);
    }
    assert_null(json_object_get(last, "secret"));
}

static void a_pull_is_recorded_with_what_came(void **state)
{
    struct world *w = *state;
    auto_json json_t *json = NULL;
    struct vial_error err = { 0 };

    open_engine(w, "{}");
    assert_int_equal(pull_by(w, pull_well, &json, &err), 0);
    assert_string_equal(json_string_value(json_object_get(json, "id")), "iii");
    check_record(w, "{'event':'image.pull','image':'a:1','outcome':'ok','error':null,"
                    "'id':'iii','digests':['a@sha256:0'],'size':7}");
}

static void a_pull_that_failed_is_recorded_as_that(void **state)
{
    struct world *w = *state;
    auto_json json_t *json = NULL;
    struct vial_error err = { 0 };

    open_engine(w, "{}");
    assert_int_equal(pull_by(w, pull_badly, &json, &err), -1);
    assert_error(&err, "VIAL-PULL pull image 'a:1'");
    assert_null(json);
    check_record(w, "{'event':'image.pull','image':'a:1','outcome':'failed'}");
}

/* Who releases what they were given must not release it a second time. */
static void what_cannot_be_recorded_gives_an_error_and_nothing_to_release(void **state)
{
    struct world *w = *state;
    auto_json json_t *json = NULL;
    auto_json json_t *removed = NULL;
    struct vial_error err = { 0 };

    open_engine(w, "{}");
    assert_int_equal(pull_by(w, pull_much, &json, &err), -1);
    assert_string_equal(err.code, "VIAL-AUDIT");
    assert_null(json);
    err = (struct vial_error){ 0 };
    assert_int_equal(fetch_prune(w->engine, &pruned, prune_much, &removed, &err), -1);
    assert_string_equal(err.code, "VIAL-AUDIT");
    assert_null(removed);
}

static void an_image_that_a_plan_needs_is_pulled_and_what_was_told_is_released(
    void **state)
{
    struct world *w = *state;
    const struct driver good = { .name = "test", .pull = pull_well };
    const struct driver much = { .name = "test", .pull = pull_much };
    struct plan plan = { .container = { .pull_ms = 1000 } };
    struct vial_error err = { 0 };
    char name[] = "b:2";

    open_engine(w, "{}");
    plan.image = name;
    assert_int_equal(fetch_for(w->engine, &good, &plan, NULL, &err), 0);
    check_record(w, "{'event':'image.pull','image':'b:2','outcome':'ok'}");
    assert_int_equal(fetch_for(w->engine, &much, &plan, NULL, &err), -1);
    assert_string_equal(err.code, "VIAL-AUDIT");
}

static void a_policy_without_pulls_never_asks_the_engine(void **state)
{
    struct world *w = *state;
    auto_json json_t *json = NULL;
    struct vial_error err = { 0 };

    open_engine(w, "policy: {pulls: [never]}");
    assert_int_equal(pull_by(w, NULL, &json, &err), -1);
    assert_error(&err, "VIAL-POLICY pull image 'a:1': the policy allows no pulls");
    check_record(w, "{'event':'image.pull','image':'a:1','outcome':'failed'}");
}

static void a_prune_is_recorded_with_what_it_removed(void **state)
{
    struct world *w = *state;
    auto_json json_t *json = NULL;
    struct vial_error err = { 0 };

    open_engine(w, "{}");
    assert_int_equal(fetch_prune(w->engine, &pruned, prune_well, &json, &err), 0);
    assert_non_null(json);
    check_record(w, "{'event':'image.prune','all':true,'outcome':'ok','error':null,"
                    "'removed':['iii'],'freed_bytes':8}");
    assert_int_equal(fetch_prune(w->engine, &pruned, prune_badly, &json, &err), -1);
    assert_error(&err, "VIAL-INTERNAL remove images");
    check_record(w, "{'event':'image.prune','all':true,'outcome':'failed'}");
}

#define T(name) cmocka_unit_test_setup_teardown(name, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(a_pull_is_recorded_with_what_came),
        T(a_pull_that_failed_is_recorded_as_that),
        T(what_cannot_be_recorded_gives_an_error_and_nothing_to_release),
        T(an_image_that_a_plan_needs_is_pulled_and_what_was_told_is_released),
        T(a_policy_without_pulls_never_asks_the_engine),
        T(a_prune_is_recorded_with_what_it_removed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
