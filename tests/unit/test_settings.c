/* SPDX-License-Identifier: Apache-2.0 */
#include "model_case.h"
#include "settings/settings.h"

static struct settings *load(const struct settings_sources *from)
{
    struct settings *s = NULL;
    struct vial_error err = { 0 };

    if (settings_load(from, &s, &err) < 0)
        fail_msg("%s: %s", err.code, err.message);
    return s;
}

static struct vial_error not_loaded(const struct settings_sources *from)
{
    struct settings *s = NULL;
    struct vial_error err = { 0 };

    if (settings_load(from, &s, &err) == 0) {
        settings_free(s);
        fail_msg("settings were loaded");
    }
    return err;
}

static void with_nothing_set_the_built_in_values_hold(void **state)
{
    struct settings_sources from = bare_sources(*state);
    struct settings *s = load(&from);

    assert_true(s->defaults.timeout == 30000);
    assert_true(s->defaults.memory == 512 << 20);
    assert_string_equal(s->origin[FIELD_ID_timeout], "built-in");
    assert_null(s->origin[FIELD_ID_image]);
    assert_true(s->defaults.builtin == s->defaults.set);
    settings_free(s);
    settings_free(NULL);
}

static void each_layer_wins_over_the_ones_outside_it(void **state)
{
    struct scratch *scratch = *state;
    struct settings_sources from = { .share_dir = share_dir(), .home = scratch->dir };
    char home[64] = "VIAL_PIDS=7";
    char *variables[] = { home, NULL };
    char project[128];
    char user[256];
    struct settings *s;

    (void)scratch_dir(scratch, ".config");
    (void)scratch_dir(scratch, ".config/vial");
    (void)snprintf(
        user, sizeof(user), "%s",
        scratch_write(
            scratch, ".config/vial/vial.yaml",
            "defaults: {timeout: 11, memory: 34m, pids: 5, network: bridge}"));
    (void)snprintf(project, sizeof(project), "%s", scratch_dir(scratch, "project"));
    (void)scratch_write(scratch, "project/vial.yaml",
                        "defaults: {memory: 33m, pids: 4}");
    from.project_dir = project;
    from.environ_ = variables;
    from.preset = "codomyrmex";
    s = load(&from);
    assert_true(s->defaults.cpus == 500);
    assert_string_equal(s->origin[FIELD_ID_cpus], "preset codomyrmex");
    assert_true(s->defaults.timeout == 11000);
    assert_string_equal(s->origin[FIELD_ID_timeout], user);
    assert_true(s->defaults.memory == 33 << 20);
    assert_string_equal(s->origin[FIELD_ID_memory],
                        scratch_path(scratch, "project/vial.yaml"));
    assert_true(s->defaults.pids == 7);
    assert_string_equal(s->origin[FIELD_ID_pids], "environment");
    assert_true(s->defaults.disk == 128 << 20);
    assert_true(s->policy.max_timeout == 300000);
    assert_int_equal(s->files.count, 3);
    assert_string_equal(s->preset, "codomyrmex");
    settings_free(s);
}

static void a_project_file_may_not_set_what_weakens_isolation(void **state)
{
    static const char *const forbidden[] = { "network: bridge",   "driver: process",
                                             "mounts: ['/a:/b']", "rootfs: /x",
                                             "seccomp: none",     "require: []" };
    struct settings_sources from = bare_sources(*state);

    for (size_t i = 0; i < sizeof(forbidden) / sizeof(forbidden[0]); i++) {
        char text[128];
        char change[64];
        struct vial_error err;

        (void)snprintf(text, sizeof(text), "defaults: {%s}", forbidden[i]);
        (void)scratch_write(*state, "vial.yaml", text);
        (void)snprintf(change, sizeof(change),
                       "vial.yaml' is not trusted, and would change %.*s",
                       (int)strcspn(forbidden[i], ":"), forbidden[i]);
        err = not_loaded(&from);
        assert_string_equal(err.code, "VIAL-TRUST");
        assert_non_null(strstr(err.message, change));
    }
    (void)scratch_write(*state, "vial.yaml", "languages: mine.yaml");
    assert_string_equal(not_loaded(&from).message,
                        "a project file may not set 'languages'");
}

static void how_often_what_was_left_is_removed_can_be_set(void **state)
{
    struct settings_sources from = bare_sources(*state);
    struct settings *s = load(&from);
    char config[256];

    assert_true(s->cleanup.interval_ms == 300000);
    settings_free(s);
    (void)snprintf(config, sizeof(config), "%s",
                   scratch_write(*state, "own.yaml", "cleanup: {interval: 90s}"));
    from.config = config;
    s = load(&from);
    assert_true(s->cleanup.interval_ms == 90000);
    settings_free(s);
    (void)scratch_write(*state, "own.yaml", "cleanup: {interval: 0}");
    s = load(&from);
    assert_true(s->cleanup.interval_ms == 0);
    settings_free(s);
    (void)scratch_write(*state, "own.yaml", "cleanup: {interval: 99ms}");
    assert_string_equal(not_loaded(&from).remedy,
                        "give at least 100ms, or 0 for never");
    (void)scratch_write(*state, "own.yaml", "cleanup: {often: 1s}");
    assert_string_equal(not_loaded(&from).remedy, "known key: interval");
    (void)scratch_write(*state, "own.yaml", "cleanup: 5m");
    assert_string_equal(not_loaded(&from).code, "VIAL-VALUE");
    from.config = NULL;
    (void)scratch_write(*state, "vial.yaml", "cleanup: {interval: 0}");
    assert_string_equal(not_loaded(&from).message,
                        "a project file may not set 'cleanup'");
}

static void a_project_file_may_tighten_the_policy_and_never_raise_it(void **state)
{
    struct settings_sources from = bare_sources(*state);
    struct settings *s;

    (void)scratch_write(*state, "vial.yaml", "policy: {max_timeout: 23h, max_pids: 9}");
    s = load(&from);
    assert_true(s->policy.max_timeout == 3600000);
    assert_true(s->policy.max_pids == 9);
    assert_true(s->defaults.pids == 9);
    assert_string_equal(s->origin[FIELD_ID_pids],
                        "built-in, lowered to the policy's cap");
    settings_free(s);
}

static void a_project_file_may_lower_a_limit_and_never_raise_it(void **state)
{
    struct scratch *scratch = *state;
    struct settings_sources from = bare_sources(scratch);
    char message[256];
    struct vial_error err;
    struct settings *s;

    (void)scratch_write(scratch, "vial.yaml", "defaults: {memory: 513m}");
    err = not_loaded(&from);
    (void)snprintf(
        message, sizeof(message),
        "project file '%s/vial.yaml' is not trusted, and would change memory "
        "from 512m to 513m",
        scratch->dir);
    assert_string_equal(err.code, "VIAL-TRUST");
    assert_string_equal(err.message, message);
    (void)snprintf(message, sizeof(message),
                   "read it; if you trust it: vial trust '%s/vial.yaml'", scratch->dir);
    assert_string_equal(err.remedy, message);
    (void)scratch_write(scratch, "vial.yaml", "defaults: {timeout: 31}");
    assert_string_equal(not_loaded(&from).code, "VIAL-TRUST");
    (void)scratch_write(scratch, "vial.yaml",
                        "defaults: {memory: 512m, pids: 2, cpu_time: 9}");
    s = load(&from);
    assert_true(s->defaults.memory == 512 << 20);
    assert_true(s->defaults.pids == 2);
    assert_true(s->defaults.cpu_time == 9000);
    settings_free(s);
}

static void a_link_in_place_of_a_project_file_is_not_read(void **state)
{
    struct settings_sources from = bare_sources(*state);
    struct vial_error err;

    assert_int_equal(symlink("/etc/passwd", scratch_path(*state, "vial.yaml")), 0);
    err = not_loaded(&from);
    assert_string_equal(err.code, "VIAL-FILE");
    assert_non_null(strstr(err.message, "vial.yaml' is not a regular file"));
}

static void an_unknown_key_is_an_error_with_a_suggestion(void **state)
{
    struct scratch *scratch = *state;
    struct settings_sources from = bare_sources(scratch);
    char message[192];
    struct vial_error err;

    (void)scratch_write(scratch, "vial.yaml", "defaults: {timout: 3}");
    err = not_loaded(&from);
    (void)snprintf(message, sizeof(message), "unknown key 'timout' in '%s/vial.yaml'",
                   scratch->dir);
    assert_string_equal(err.code, "VIAL-FIELD");
    assert_string_equal(err.message, message);
    assert_string_equal(err.remedy, "did you mean 'timeout'?");
    (void)scratch_write(scratch, "vial.yaml", "default: {}");
    assert_string_equal(not_loaded(&from).remedy, "did you mean 'defaults'?");
    (void)scratch_write(scratch, "vial.yaml", "timeout: 3");
    assert_string_equal(not_loaded(&from).remedy,
                        "put 'timeout' below the key 'defaults'");
    (void)scratch_write(scratch, "vial.yaml", "xyzzy: 3");
    assert_string_equal(
        not_loaded(&from).remedy,
        "known keys: defaults, policy, audit, cleanup, journal, languages, serve, "
        "images, secrets, kubernetes, volumes");
    (void)scratch_write(scratch, "vial.yaml", "[]");
    (void)snprintf(message, sizeof(message), "'%s/vial.yaml' is not a mapping of keys",
                   scratch->dir);
    assert_string_equal(not_loaded(&from).message, message);
    (void)scratch_write(scratch, "vial.yaml", "defaults: {code: x}");
    (void)snprintf(message, sizeof(message),
                   "key 'code' in '%s/vial.yaml' can only be given by a request",
                   scratch->dir);
    assert_string_equal(not_loaded(&from).message, message);
    (void)scratch_write(scratch, "vial.yaml", "defaults: {timeout: soon}");
    (void)snprintf(message, sizeof(message),
                   "%s/vial.yaml: timeout 'soon' is not a duration from 1ms to 24h",
                   scratch->dir);
    assert_string_equal(not_loaded(&from).message, message);
}

static void empty_blocks_are_allowed(void **state)
{
    struct settings_sources from = bare_sources(*state);
    struct settings *s;

    (void)scratch_write(*state, "vial.yaml", "defaults:\npolicy:\nlanguages:\n");
    s = load(&from);
    settings_free(s);
}

static void a_fifo_in_place_of_a_project_file_does_not_hold_vial(void **state)
{
    struct settings_sources from = bare_sources(*state);

    assert_int_equal(mkfifo(scratch_path(*state, "vial.yaml"), 0600), 0);
    assert_string_equal(not_loaded(&from).code, "VIAL-FILE");
}

static void a_file_that_was_named_must_exist(void **state)
{
    struct settings_sources from = bare_sources(*state);
    char variable[] = "VIAL_CONFIG=/nowhere/v.yaml";
    char *variables[] = { variable, NULL };

    from.config = "/nowhere/vial.yaml";
    assert_string_equal(not_loaded(&from).message,
                        "settings file '/nowhere/vial.yaml' does not exist");
    from.config = NULL;
    from.environ_ = variables;
    assert_string_equal(not_loaded(&from).message,
                        "settings file '/nowhere/v.yaml' does not exist");
}

static void variables_set_fields_and_lists_are_separated_by_commas(void **state)
{
    struct settings_sources from = bare_sources(*state);
    char timeout[] = "VIAL_TIMEOUT=5s";
    char require[] = "VIAL_REQUIRE=pid,net";
    char mounts[] = "VIAL_MOUNTS=/a:/b,/c:/d:rw";
    char empty[] = "VIAL_MEMORY=";
    char test[] = "VIAL_TEST_ANYTHING=1";
    char other[] = "HOME=/x";
    char *variables[] = { timeout, require, mounts, empty, test, other, NULL };
    struct settings *s;

    from.environ_ = variables;
    s = load(&from);
    assert_true(s->defaults.timeout == 5000);
    assert_int_equal(s->defaults.require.count, 2);
    assert_string_equal(s->defaults.require.items[1], "net");
    assert_int_equal(s->defaults.mounts.count, 2);
    assert_true(s->defaults.mounts.items[1].writable);
    assert_true(s->defaults.memory == 512 << 20);
    settings_free(s);
}

static void assert_bad_variable(struct scratch *s, const char *entry,
                                const char *message, const char *remedy)
{
    struct settings_sources from = bare_sources(s);
    char *copy = strdup(entry);
    char *variables[] = { copy, NULL };
    struct vial_error err;

    from.environ_ = variables;
    err = not_loaded(&from);
    assert_string_equal(err.message, message);
    assert_string_equal(err.remedy, remedy);
    free(copy);
}

static void an_unknown_variable_is_an_error_with_a_suggestion(void **state)
{
    static const char general[] = "unset it; `vial config show` lists the settings";

    assert_bad_variable(*state, "VIAL_TIMEUOT=5",
                        "unknown variable 'VIAL_TIMEUOT' in the environment",
                        "did you mean 'VIAL_TIMEOUT'?");
    assert_bad_variable(*state, "VIAL_CODE=5",
                        "unknown variable 'VIAL_CODE' in the environment", general);
    assert_bad_variable(*state, "VIAL_=5",
                        "unknown variable 'VIAL_' in the environment", general);
    assert_bad_variable(
        *state, "VIAL_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=5",
        "unknown variable 'VIAL_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA…' in the environment",
        general);
    assert_bad_variable(*state, "VIAL_PIDS=x",
                        "VIAL_PIDS: pids 'x' is not a whole number from 1 to 1000000",
                        "give a plain whole number");
    assert_bad_variable(*state, "VIAL_END_ON=x,pids",
                        "VIAL_END_ON: end_on 'x' is not one of: pids, disk",
                        "choose one of: pids, disk");
}

static void an_unknown_preset_names_the_known_ones(void **state)
{
    struct settings_sources from = bare_sources(*state);
    struct vial_error err;

    from.preset = "klow";
    err = not_loaded(&from);
    assert_string_equal(err.code, "VIAL-PRESET");
    assert_string_equal(err.message, "unknown preset 'klow'");
    assert_string_equal(err.remedy, "known presets: acode, antigravity, "
                                    "coding-agent, codomyrmex, klaw");
    from.preset = "../presets/klaw";
    assert_string_equal(not_loaded(&from).message, "unknown preset '../presets/klaw'");
}

static void every_preset_loads(void **state)
{
    static const char *const names[] = { "acode", "antigravity", "codomyrmex",
                                         "coding-agent", "klaw" };
    char variable[64];
    char *variables[] = { variable, NULL };
    struct settings_sources from = bare_sources(*state);

    from.environ_ = variables;
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        struct settings *s;

        (void)snprintf(variable, sizeof(variable), "VIAL_PRESET=%s", names[i]);
        s = load(&from);
        assert_string_equal(s->preset, names[i]);
        settings_free(s);
    }
}

static void a_language_file_lies_beside_the_file_that_names_it(void **state)
{
    struct scratch *scratch = *state;
    const struct language *found = NULL;
    char variable[128] = "VIAL_LANGUAGES=";
    char *variables[] = { variable, NULL };
    struct settings_sources from = bare_sources(scratch);
    struct vial_error err = { 0 };
    struct settings *s;

    (void)scratch_write(scratch, "mine.yaml", "zig: {file: m.zig, run: [zig]}");
    use_settings(scratch, "languages: mine.yaml");
    assert_int_equal(language_find(&scratch->settings->languages, "zig", &found, &err),
                     0);
    (void)snprintf(variable, sizeof(variable), "VIAL_LANGUAGES=%s/mine.yaml",
                   scratch->dir);
    from.environ_ = variables;
    s = load(&from);
    assert_int_equal(language_find(&s->languages, "zig", &found, &err), 0);
    settings_free(s);
    (void)snprintf(variable, sizeof(variable), "VIAL_LANGUAGES=/nowhere");
    assert_string_equal(not_loaded(&from).message, "VIAL_LANGUAGES: read '/nowhere'");
    from.environ_ = NULL;
    from.config = scratch_write(scratch, "config.yaml", "languages: 7");
    assert_non_null(strstr(not_loaded(&from).message, "languages '7' is not a path"));
}

static void without_its_data_vial_says_where_to_look(void **state)
{
    struct settings_sources from = bare_sources(*state);
    struct vial_error err;

    from.share_dir = "/nowhere";
    err = not_loaded(&from);
    assert_string_equal(err.code, "VIAL-FILE");
    assert_string_equal(err.message, "read '/nowhere/runtimes/languages.yaml'");
    assert_string_equal(err.remedy,
                        "install vial's data, or say where it is by VIAL_SHARE");
}

static void data_is_looked_for_beside_the_program_then_below_the_prefix(void **state)
{
    struct settings_sources from = bare_sources(*state);
    struct settings *s = NULL;
    struct vial_error err = { 0 };

    from.share_dir = NULL;
    if (settings_load(&from, &s, &err) == 0) /* vial is installed here */
        assert_string_equal(s->share_dir, VIAL_SHARE_DIR);
    else
        assert_string_equal(err.message,
                            "read '" VIAL_SHARE_DIR "/runtimes/languages.yaml'");
    settings_free(s);
}

static void settings_are_shown_with_where_they_came_from(void **state)
{
    struct settings_sources from = bare_sources(*state);
    struct settings *s;
    auto_json json_t *json = NULL;
    char *text;

    (void)scratch_write(*state, "vial.yaml", "defaults: {timeout: 3}");
    s = load(&from);
    json = settings_json(s);
    settings_free(s);
    text = json_dumps(json, JSON_COMPACT);
    assert_non_null(
        strstr(text, "\"memory\":{\"value\":\"512m\",\"from\":\"built-in\"}"));
    assert_non_null(strstr(text, "\"image\":{\"value\":null,\"from\":null}"));
    assert_non_null(strstr(text, "\"timeout\":{\"value\":\"3s\",\"from\":\"/tmp/"));
    assert_null(strstr(text, "\"code\""));
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        scratch_test(with_nothing_set_the_built_in_values_hold),
        scratch_test(each_layer_wins_over_the_ones_outside_it),
        scratch_test(a_project_file_may_not_set_what_weakens_isolation),
        scratch_test(how_often_what_was_left_is_removed_can_be_set),
        scratch_test(a_project_file_may_tighten_the_policy_and_never_raise_it),
        scratch_test(a_project_file_may_lower_a_limit_and_never_raise_it),
        scratch_test(a_link_in_place_of_a_project_file_is_not_read),
        scratch_test(an_unknown_key_is_an_error_with_a_suggestion),
        scratch_test(empty_blocks_are_allowed),
        scratch_test(a_fifo_in_place_of_a_project_file_does_not_hold_vial),
        scratch_test(a_file_that_was_named_must_exist),
        scratch_test(variables_set_fields_and_lists_are_separated_by_commas),
        scratch_test(an_unknown_variable_is_an_error_with_a_suggestion),
        scratch_test(an_unknown_preset_names_the_known_ones),
        scratch_test(every_preset_loads),
        scratch_test(a_language_file_lies_beside_the_file_that_names_it),
        scratch_test(without_its_data_vial_says_where_to_look),
        scratch_test(data_is_looked_for_beside_the_program_then_below_the_prefix),
        scratch_test(settings_are_shown_with_where_they_came_from),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
