/* SPDX-License-Identifier: Apache-2.0 */

/* What the public API says about itself, its settings and this host. */

#include <jansson.h>

#include "run_case.h"

/* Takes TEXT. */
static json_t *parse(char *text)
{
    json_t *value;

    assert_non_null(text);
    value = json_loads(text, JSON_REJECT_DUPLICATES, NULL);
    assert_non_null(value);
    free(text);
    return value;
}

static const char *text_of(const json_t *object, const char *key)
{
    return json_string_value(json_object_get(object, key));
}

static void a_plan_is_shown_without_being_opened(void **state)
{
    struct vial_request *req =
        case_request("{'driver':'process','command':['no-such-program']}");
    char *text = NULL;
    json_t *plan;

    assert_int_equal(vial_plan(*state, req, &text, NULL), 0);
    plan = parse(text);
    assert_string_equal(text_of(plan, "driver"), "process");
    json_decref(plan);
    vial_request_free(req);
}

static void a_plan_that_is_refused_says_why(void **state)
{
    struct vial_request *req = case_request("{'driver':'process','language':'klingon',"
                                            "'code':'x'}");
    struct vial_error err = { 0 };
    char *text = NULL;

    assert_int_equal(vial_plan(*state, req, &text, &err), -1);
    assert_string_equal(err.code, "VIAL-LANGUAGE");
    assert_null(text);
    vial_request_free(req);
}

static const json_t *language(const json_t *list, const char *name)
{
    size_t i;
    const json_t *item;

    json_array_foreach(list, i,
                       item) if (strcmp(text_of(item, "name"), name) == 0) return item;
    return NULL;
}

static void languages_say_what_is_usable_and_its_version(void **state)
{
    char *text = NULL;
    json_t *list;
    const json_t *bash, *ghost;

    assert_int_equal(vial_languages(*state, &text, NULL), 0);
    list = parse(text);
    bash = language(list, "bash");
    assert_non_null(bash);
    assert_true(json_is_true(json_object_get(bash, "usable")));
    assert_non_null(strstr(text_of(bash, "version"), "bash"));
    assert_non_null(strstr(text_of(bash, "path"), "/bash"));
    ghost = language(list, "ghost");
    assert_non_null(ghost);
    assert_true(json_is_false(json_object_get(ghost, "usable")));
    assert_true(json_is_null(json_object_get(ghost, "version")));
    assert_true(json_is_null(json_object_get(ghost, "path")));
    json_decref(list);
}

static void settings_are_shown(void **state)
{
    char *text = NULL;

    assert_int_equal(vial_config(*state, &text, NULL), 0);
    json_decref(parse(text));
}

static void the_doctor_knows_the_automatic_driver(void **state)
{
    char *text = NULL;
    json_t *report;
    const json_t *automatic;

    assert_int_equal(vial_doctor(*state, &text, NULL), 0);
    report = parse(text);
    assert_string_equal(text_of(report, "version"), vial_version());
    assert_true(json_is_true(json_object_get(report, "guest")));
    assert_true(json_array_size(json_object_get(report, "drivers")) >= 2);
    automatic = json_object_get(report, "automatic");
    assert_true(json_is_null(json_object_get(automatic, "driver")) !=
                json_is_null(json_object_get(automatic, "error")));
    json_decref(report);
}

static void every_schema_is_an_object_and_no_other_exists(void **state)
{
    static const char *const kinds[] = { "request", "result", "settings" };
    struct vial_error err = { 0 };
    char *text = NULL;

    (void)state;
    for (size_t i = 0; i < 3; i++) {
        json_t *schema;

        assert_int_equal(vial_schema(kinds[i], &text, NULL), 0);
        schema = parse(text);
        assert_true(json_is_object(schema));
        json_decref(schema);
    }
    assert_int_equal(vial_schema("session", &text, &err), -1);
    assert_error(&err, "VIAL-VALUE schema 'session' does not exist");
}

static void bad_settings_do_not_open_an_engine(void **state)
{
    const struct vial_engine_options options = { .config = "/no/such/file" };
    struct vial_engine *e = NULL;
    struct vial_error err = { 0 };

    (void)state;
    assert_int_equal(vial_engine_open(&options, &e, &err), -1);
    assert_null(e);
    assert_string_equal(err.code, "VIAL-FILE");
    vial_engine_close(NULL);
}

static int open_engine(void **state)
{
    *state = case_engine_with(
        "ghost:\n  file: main.x\n  run: [no-such-interpreter, '{file}']\n"
        "  version: [no-such-interpreter]\n",
        "defaults:\n  driver: process\n");
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
        cmocka_unit_test(a_plan_is_shown_without_being_opened),
        cmocka_unit_test(a_plan_that_is_refused_says_why),
        cmocka_unit_test(languages_say_what_is_usable_and_its_version),
        cmocka_unit_test(settings_are_shown),
        cmocka_unit_test(the_doctor_knows_the_automatic_driver),
        cmocka_unit_test(every_schema_is_an_object_and_no_other_exists),
        cmocka_unit_test(bad_settings_do_not_open_an_engine),
    };

    return cmocka_run_group_tests(tests, open_engine, close_engine);
}
