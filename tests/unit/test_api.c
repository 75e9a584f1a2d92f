/* SPDX-License-Identifier: Apache-2.0 */

/* What the public API says about itself, its settings and this host. */

#include <jansson.h>

#include "model/vessel_list.h"
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

static void a_plan_comes_as_values(void **state)
{
    struct vial_request *req =
        case_request("{'driver':'process','language':'ghost','code':'x','timeout':'2s',"
                     "'env':{'A':'b'}}");
    struct vial_plan *plan = NULL;
    bool found = false;

    assert_int_equal(vial_plan_new(*state, req, &plan, NULL), 0);
    assert_string_equal(plan->driver, "process");
    assert_string_equal(plan->language, "ghost");
    assert_string_equal(plan->file, "main.x");
    assert_string_equal(plan->argv[0], "no-such-interpreter");
    assert_string_equal(plan->argv[1], "{dir}/main.x");
    assert_null(plan->argv[2]);
    assert_null(plan->compile);
    assert_null(plan->image);
    for (size_t i = 0; plan->env[i]; i++)
        found = found || strcmp(plan->env[i], "A=b") == 0;
    assert_true(found);
    assert_int_equal(vial_plan_limit(plan, "timeout"), 2000);
    assert_true(vial_plan_limit(plan, "disk") > 0);
    assert_int_equal(vial_plan_limit(plan, "colour"), 0);
    vial_plan_free(plan);
    vial_request_free(req);
    vial_plan_free(NULL);
}

static void a_command_has_neither_language_nor_file(void **state)
{
    struct vial_request *req = case_request("{'driver':'process','command':['true'],"
                                            "'files':[{'path':'a','content':''}]}");
    struct vial_plan *plan = NULL;

    assert_int_equal(vial_plan_new(*state, req, &plan, NULL), 0);
    assert_null(plan->language);
    assert_null(plan->file);
    vial_plan_free(plan);
    vial_request_free(req);
}

static void a_refused_plan_gives_nothing(void **state)
{
    struct vial_request *req =
        case_request("{'driver':'process','language':'klingon','code':'x'}");
    struct vial_error err = { 0 };
    struct vial_plan *plan = NULL;

    assert_int_equal(vial_plan_new(*state, req, &plan, &err), -1);
    assert_string_equal(err.code, "VIAL-LANGUAGE");
    assert_null(plan);
    vial_request_free(req);
}

static const struct vial_language *language_in(const struct vial_languages *list,
                                               const char *name)
{
    for (size_t i = 0; i < list->count; i++)
        if (strcmp(list->items[i].name, name) == 0)
            return &list->items[i];
    return NULL;
}

static void languages_come_as_values(void **state)
{
    struct vial_languages list = { 0 };
    const struct vial_language *bash, *ghost;

    assert_int_equal(vial_language_list(*state, &list, NULL), 0);
    bash = language_in(&list, "bash");
    assert_non_null(bash);
    assert_true(bash->usable);
    assert_non_null(strstr(bash->version, "bash"));
    assert_non_null(strstr(bash->path, "/bash"));
    ghost = language_in(&list, "ghost");
    assert_non_null(ghost);
    assert_false(ghost->usable);
    assert_string_equal(ghost->program, "no-such-interpreter");
    assert_null(ghost->path);
    assert_null(ghost->version);
    vial_languages_free(&list);
    assert_int_equal(list.count, 0);
}

static void only_what_can_run_is_offered(void **state)
{
    struct vial_languages list = { 0 };

    assert_int_equal(vial_language_list_offered(*state, &list, NULL), 0);
    assert_non_null(language_in(&list, "bash"));
    assert_null(language_in(&list, "ghost"));
    vial_languages_free(&list);
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

static void the_doctor_names_every_driver_with_its_layers(void **state)
{
    struct vial_doctor *d = NULL;
    const struct vial_driver *process;

    assert_int_equal(vial_doctor_look(*state, &d, NULL), 0);
    assert_string_equal(d->version, vial_version());
    assert_true(d->guest);
    assert_true((d->automatic != NULL) == (d->no_automatic.code[0] == '\0'));
    assert_string_equal(d->wanted, "process");
    assert_string_equal(d->takes, "process");
    assert_null(d->fallback);
    process = &d->drivers[d->driver_count - 1];
    assert_string_equal(process->name, "process");
    assert_true(process->usable);
    assert_false(process->automatic);
    assert_string_equal(process->level, "none");
    assert_string_equal(process->error.code, "");
    for (size_t i = 0; i < d->driver_count; i++)
        for (size_t n = 0; n < d->drivers[i].layer_count; n++)
            assert_true(d->drivers[i].layers[n].name && d->drivers[i].layers[n].fix);
    vial_doctor_free(d);
    vial_doctor_free(NULL);
}

static const struct vial_vessel *vessel_of(const struct vial_vessels *list, int owner)
{
    for (size_t i = 0; i < list->count; i++)
        if (list->items[i].owner == owner)
            return &list->items[i];
    return NULL;
}

static void an_open_session_is_among_the_vessels(void **state)
{
    struct vial_request *req = case_request("{'driver':'process'}");
    struct vial_session *session = NULL;
    struct vial_vessels list = { 0 };
    const struct vial_vessel *mine;

    assert_int_equal(vial_session_open(*state, req, NULL, &session, NULL), 0);
    /* Its guest has started once it answers. */
    assert_int_equal(vial_session_put(session, "here", "", 0, 0, NULL), 0);
    assert_int_equal(vial_vessel_list(*state, NULL, &list, NULL), 0);
    mine = vessel_of(&list, getpid());
    assert_non_null(mine);
    assert_string_equal(mine->driver, "process");
    assert_string_equal(mine->state, "running");
    assert_true(mine->pid > 1);
    assert_false(mine->orphan);
    vial_vessels_free(&list);
    assert_int_equal(vial_vessel_list(*state, "no-such-prefix", &list, NULL), 0);
    assert_int_equal(list.count, 0);
    vial_vessels_free(&list);
    vial_session_free(session);
    vial_request_free(req);
}

/* As a keeper sends them to the daemon's front. */
static void vessels_survive_being_written_and_read(void **state)
{
    static const char *const ports[] = { "127.0.0.1:1:2/tcp", "[::1]:3:4/udp", NULL };
    const struct vial_vessel one = { .driver = "docker",
                                     .id = "aa",
                                     .name = "p-s-t",
                                     .state = "running",
                                     .task = "t",
                                     .created = 7,
                                     .ports = ports,
                                     .orphan = true };
    const struct vial_vessel other = { .driver = "docker", .name = "q-s-t" };
    struct vial_vessels list = { 0 };
    struct vial_vessels read = { 0 };
    json_t *json;

    (void)state;
    assert_int_equal(vessels_add(&list, &one), 0);
    assert_int_equal(vessels_add(&list, &other), 0);
    json = vessels_json(&list);
    assert_int_equal(vessels_decode(&read, json), 0);
    json_decref(json);
    assert_int_equal(read.count, 2);
    vessels_keep(&read, "p");
    assert_int_equal(read.count, 1);
    assert_string_equal(read.items[0].id, "aa");
    assert_string_equal(read.items[0].task, "t");
    assert_null(read.items[0].session);
    assert_int_equal(read.items[0].created, 7);
    assert_true(read.items[0].orphan);
    assert_string_equal(read.items[0].ports[1], "[::1]:3:4/udp");
    assert_null(read.items[0].ports[2]);
    vial_vessels_free(&list);
    vial_vessels_free(&read);
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
        cmocka_unit_test(a_plan_comes_as_values),
        cmocka_unit_test(a_command_has_neither_language_nor_file),
        cmocka_unit_test(a_refused_plan_gives_nothing),
        cmocka_unit_test(languages_come_as_values),
        cmocka_unit_test(only_what_can_run_is_offered),
        cmocka_unit_test(the_doctor_names_every_driver_with_its_layers),
        cmocka_unit_test(an_open_session_is_among_the_vessels),
        cmocka_unit_test(vessels_survive_being_written_and_read),
        cmocka_unit_test(languages_say_what_is_usable_and_its_version),
        cmocka_unit_test(settings_are_shown),
        cmocka_unit_test(the_doctor_knows_the_automatic_driver),
        cmocka_unit_test(every_schema_is_an_object_and_no_other_exists),
        cmocka_unit_test(bad_settings_do_not_open_an_engine),
    };

    return cmocka_run_group_tests(tests, open_engine, close_engine);
}
