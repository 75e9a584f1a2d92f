/* SPDX-License-Identifier: Apache-2.0 */
#include "base/auto.h"
#include "base/json.h"
#include "model/policy.h"
#include "model/volume.h"
#include "model_case.h"

static int tighten(struct policy *p, const char *yaml, const char *where,
                   struct vial_error *err)
{
    auto_json json_t *object = NULL;

    assert_int_equal(yaml_parse(yaml, strlen(yaml), "test", &object, err), 0);
    return policy_tighten(p, object, where, err);
}

static void must_tighten(struct policy *p, const char *yaml, const char *where)
{
    struct vial_error err = { 0 };

    if (tighten(p, yaml, where, &err) < 0)
        fail_msg("%s: %s", err.code, err.message);
}

static struct policy fresh(void)
{
    struct policy p;
    struct vial_error err = { 0 };

    assert_int_equal(policy_init(&p, &err), 0);
    return p;
}

static int judge(const struct policy *p, const char *json, struct vial_error *err)
{
    struct vial_request *req = NULL;
    int rc;

    if (parse_request(json, &req, err) < 0)
        fail_msg("%s: %s", err->code, err->message);
    rc = policy_check(p, req, err);
    vial_request_free(req);
    return rc;
}

static void a_value_above_the_cap_is_refused_not_clipped(void **state)
{
    struct policy p = fresh();
    struct vial_error err = { 0 };

    (void)state;
    assert_int_equal(judge(&p, "{'timeout':'1h'}", &err), 0);
    assert_int_equal(judge(&p, "{'timeout':'2h'}", &err), -1);
    assert_string_equal(err.code, "VIAL-CAP");
    assert_string_equal(err.message, "timeout 2h exceeds the policy's max_timeout 1h");
    assert_string_equal(err.remedy,
                        "ask for less, or raise policy key 'max_timeout' in "
                        "/etc/vial/vial.yaml or ~/.config/vial/vial.yaml");
    policy_done(&p);
}

static void the_remedy_names_the_file_that_set_the_cap(void **state)
{
    struct policy p = fresh();
    struct vial_error err = { 0 };

    (void)state;
    must_tighten(&p, "max_memory: 128m", "/etc/vial/vial.yaml");
    assert_int_equal(judge(&p, "{'memory':'256m'}", &err), -1);
    assert_string_equal(err.message,
                        "memory 256m exceeds the policy's max_memory 128m");
    assert_string_equal(
        err.remedy,
        "ask for less, or raise policy key 'max_memory' in /etc/vial/vial.yaml");
    policy_done(&p);
}

static void caps_hold_for_texts_files_and_fields_that_share_one(void **state)
{
    struct policy p = fresh();
    struct vial_error err = { 0 };

    (void)state;
    must_tighten(&p, "{max_code: 2, max_files: 3, max_disk: 1m, max_timeout: 1s}", "f");
    assert_int_equal(judge(&p, "{'code':'abc'}", &err), -1);
    assert_string_equal(err.message, "code 3 exceeds the policy's max_code 2");
    assert_int_equal(judge(&p, "{'stdin':'abc'}", &err), -1);
    assert_string_equal(err.message, "stdin 3 exceeds the policy's max_code 2");
    assert_int_equal(judge(&p, "{'tmp':'2m'}", &err), -1);
    assert_string_equal(err.message, "tmp 2m exceeds the policy's max_disk 1m");
    assert_int_equal(judge(&p, "{'compile_timeout':2}", &err), -1);
    assert_string_equal(err.message,
                        "compile_timeout 2s exceeds the policy's max_timeout 1s");
    assert_int_equal(judge(&p,
                           "{'files':[{'path':'a','content':'xy'},"
                           "{'path':'b','content':'xy'}]}",
                           &err),
                     -1);
    assert_string_equal(err.message, "files 4 exceeds the policy's max_files 3");
    assert_true(policy_cap(&p, FIELD_ID_stdin) == 2);
    assert_true(policy_cap(&p, FIELD_ID_disk) == 1 << 20);
    assert_true(policy_cap(&p, FIELD_ID_inodes) == INT64_MAX);
    policy_done(&p);
}

static void the_first_file_may_raise_a_built_in_cap_and_later_ones_only_lower_it(
    void **state)
{
    struct policy p = fresh();

    (void)state;
    must_tighten(&p, "max_timeout: 3h", "a");
    assert_true(p.max_timeout == 3 * 3600000);
    must_tighten(&p, "max_timeout: 4h", "b");
    assert_true(p.max_timeout == 3 * 3600000);
    assert_string_equal(p.origin[POLICY_ID_max_timeout], "a");
    must_tighten(&p, "max_timeout: 2h", "c");
    assert_true(p.max_timeout == 2 * 3600000);
    assert_string_equal(p.origin[POLICY_ID_max_timeout], "c");
    policy_done(&p);
}

static void a_sealed_policy_cannot_be_raised_at_all(void **state)
{
    struct policy p = fresh();

    (void)state;
    policy_seal(&p);
    must_tighten(&p, "max_timeout: 3h", "project");
    assert_true(p.max_timeout == 3600000);
    must_tighten(&p, "max_timeout: 3s", "project");
    assert_true(p.max_timeout == 3000);
    policy_done(&p);
}

static void lists_intersect_and_requirements_add_up(void **state)
{
    struct policy p = fresh();

    (void)state;
    must_tighten(&p, "{drivers: [native, docker], require: [pid], images: ['py:*', a]}",
                 "a");
    must_tighten(
        &p, "{drivers: [docker, process], require: [net, pid], images: ['py:3']}", "b");
    assert_int_equal(p.drivers.count, 1);
    assert_string_equal(p.drivers.items[0], "docker");
    assert_int_equal(p.require.count, 2);
    assert_int_equal(p.images.count, 1);
    assert_string_equal(p.images.items[0], "py:3");
    policy_done(&p);
}

static void volumes_intersect_by_their_own_rule(void **state)
{
    struct policy p = fresh();

    (void)state;
    must_tighten(&p, "volumes: ['*', data, 'a/*']", "a");
    must_tighten(&p, "volumes: ['ann/*', 'data:ro', a/x, b]", "b");
    assert_int_equal(p.volumes.count, 3);
    assert_true(strv_has(&p.volumes, "data:ro"));
    assert_true(strv_has(&p.volumes, "a/x"));
    assert_true(strv_has(&p.volumes, "b"));
    policy_done(&p);
}

static void mount_roots_intersect_as_trees(void **state)
{
    struct policy p = fresh();
    struct vial_error err = { 0 };

    (void)state;
    must_tighten(&p, "mount_roots: [/srv, /home/a]", "a");
    must_tighten(&p, "mount_roots: [/srv/data, /home]", "b");
    assert_int_equal(p.mount_roots.count, 2);
    assert_true(strv_has(&p.mount_roots, "/srv/data"));
    assert_true(strv_has(&p.mount_roots, "/home/a"));
    assert_int_equal(tighten(&p, "mount_roots: [srv]", "c", &err), -1);
    assert_string_equal(err.message,
                        "c: policy: mount_roots 'srv' is not a clean absolute path");
    policy_done(&p);
}

static void what_a_list_lacks_is_refused(void **state)
{
    struct policy p = fresh();
    struct vial_error err = { 0 };

    (void)state;
    must_tighten(&p, "{networks: [none], drivers: [native], images: ['py:*']}", "/f");
    assert_int_equal(
        judge(&p, "{'network':'none','driver':'auto','image':'py:3'}", &err), 0);
    assert_int_equal(judge(&p, "{'network':'bridge'}", &err), -1);
    assert_string_equal(err.code, "VIAL-POLICY");
    assert_string_equal(err.message, "network 'bridge' is not allowed by the policy");
    assert_string_equal(err.remedy,
                        "choose one of: none (policy key 'networks' in /f)");
    assert_int_equal(judge(&p, "{'driver':'process'}", &err), -1);
    assert_string_equal(err.message, "driver 'process' is not allowed by the policy");
    assert_int_equal(judge(&p, "{'image':'x'}", &err), -1);
    assert_string_equal(err.message, "image 'x' is not allowed by the policy");
    must_tighten(&p, "networks: []", "/g");
    assert_int_equal(judge(&p, "{'network':'none'}", &err), -1);
    assert_string_equal(err.remedy,
                        "choose one of: none at all (policy key 'networks' in /g)");
    policy_done(&p);
}

static void unknown_and_bad_keys_are_errors(void **state)
{
    struct policy p = fresh();
    struct vial_error err = { 0 };

    (void)state;
    assert_int_equal(tighten(&p, "max_timout: 3", "/f", &err), -1);
    assert_string_equal(err.code, "VIAL-FIELD");
    assert_string_equal(err.message, "unknown key 'max_timout' in '/f'");
    assert_string_equal(err.remedy, "did you mean 'max_timeout'?");
    assert_int_equal(tighten(&p, "max_timeout: soon", "/f", &err), -1);
    assert_string_equal(
        err.message,
        "/f: policy: max_timeout 'soon' is not a duration from 1ms to 24h");
    assert_int_equal(tighten(&p, "networks: none", "/f", &err), -1);
    assert_string_equal(err.message,
                        "/f: policy: networks 'none' is not a list of strings");
    assert_int_equal(tighten(&p, "[]", "/f", &err), -1);
    assert_string_equal(err.message, "/f: policy is not an object");
    policy_done(&p);
}

static void a_policy_is_shown_with_where_it_came_from(void **state)
{
    struct policy p = fresh();
    auto_json json_t *json = NULL;
    auto_free char *text = NULL;

    (void)state;
    must_tighten(&p, "networks: [none]", "/f");
    json = policy_json(&p);
    text = json_dumps(json, JSON_COMPACT);
    assert_non_null(
        strstr(text, "\"max_timeout\":{\"value\":\"1h\",\"from\":\"built-in\"}"));
    assert_non_null(
        strstr(text, "\"networks\":{\"value\":[\"none\"],\"from\":\"/f\"}"));
    assert_non_null(strstr(text, "\"drivers\":{\"value\":null,\"from\":\"built-in\"}"));
    policy_done(&p);
}

static bool may(const struct policy *p, const char *caller, const char *name,
                bool writable)
{
    return volume_check_policy(p, caller, name, writable, NULL) == 0;
}

static void a_volume_is_for_whom_the_policy_says(void **state)
{
    struct policy p = fresh();

    (void)state;
    assert_true(may(&p, "ann", "any", true));
    must_tighten(&p, "volumes: ['{caller}/*', '{caller}/x', 'set-*:ro', log]", "a");
    assert_true(may(&p, "ann", "ann/data", true));
    assert_false(may(&p, "ann", "bob/data", false));
    assert_false(may(&p, "an", "ann/data", false));
    assert_false(may(&p, "ann", "ann", false));
    assert_false(may(&p, "", "/data", false));
    assert_false(may(&p, "ann/data", "ann/data", false));
    assert_true(may(&p, NULL, "bob/data", true)); /* it can be bob */
    assert_false(may(&p, NULL, "data", false));
    assert_true(may(&p, "ann", "set-1", false));
    assert_false(may(&p, "ann", "set-1", true));
    assert_false(may(&p, "ann", "set-bob/data", false)); /* a caller's own */
    assert_true(may(&p, "ann", "log", true));
    assert_false(may(&p, "ann", "log2", true));
    policy_done(&p);
}

static void a_layer_inside_can_only_narrow_which_volumes_there_are(void **state)
{
    struct policy p = fresh();

    (void)state;
    must_tighten(&p, "volumes: ['data*', 'set:ro']", "a");
    must_tighten(&p, "volumes: ['data-1:ro', 'set', 'other']", "b");
    assert_true(may(&p, "ann", "data-1", false));
    assert_false(may(&p, "ann", "data-1", true));
    assert_false(may(&p, "ann", "set", true));
    assert_false(may(&p, "ann", "other", false));
    policy_done(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_value_above_the_cap_is_refused_not_clipped),
        cmocka_unit_test(volumes_intersect_by_their_own_rule),
        cmocka_unit_test(the_remedy_names_the_file_that_set_the_cap),
        cmocka_unit_test(caps_hold_for_texts_files_and_fields_that_share_one),
        cmocka_unit_test(
            the_first_file_may_raise_a_built_in_cap_and_later_ones_only_lower_it),
        cmocka_unit_test(a_sealed_policy_cannot_be_raised_at_all),
        cmocka_unit_test(lists_intersect_and_requirements_add_up),
        cmocka_unit_test(mount_roots_intersect_as_trees),
        cmocka_unit_test(what_a_list_lacks_is_refused),
        cmocka_unit_test(a_volume_is_for_whom_the_policy_says),
        cmocka_unit_test(a_layer_inside_can_only_narrow_which_volumes_there_are),
        cmocka_unit_test(unknown_and_bad_keys_are_errors),
        cmocka_unit_test(a_policy_is_shown_with_where_it_came_from),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
