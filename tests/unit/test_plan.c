/* SPDX-License-Identifier: Apache-2.0 */
#include "model/plan.h"
#include "model_case.h"

static bool has_env(const struct plan *plan, const char *entry)
{
    return strv_has(&plan->env, entry);
}

static void code_becomes_a_file_and_a_command(void **state)
{
    struct plan *plan = plan_of(
        *state, "{'language':'py','code':'print(1)','args':['{dir}','{file}']}");

    assert_string_equal(plan->language, "python");
    assert_int_equal(plan->file_count, 1);
    assert_string_equal(plan->files[0].path, "main.py");
    assert_int_equal(plan->files[0].mode, 0644);
    assert_string_equal(plan->files[0].content.data, "print(1)");
    assert_int_equal(plan->argv.count, 4);
    assert_string_equal(plan->argv.items[1], "{dir}/main.py");
    assert_string_equal(plan->argv.items[2], "{dir}");
    assert_string_equal(plan->argv.items[3], "{file}");
    assert_int_equal(plan->argv_own, 2);
    assert_string_equal(plan->workdir, "/work");
    assert_string_equal(plan->cwd, "/work");
    plan_free(plan);
    plan_free(NULL);
}

static void a_compiled_language_has_two_steps(void **state)
{
    struct plan *plan = plan_of(*state, "{'language':'c','code':'int main;'}");

    assert_string_equal(plan->compile_argv.items[0], "gcc");
    assert_true(strv_has(&plan->compile_argv, "{dir}/main.c"));
    assert_string_equal(plan->argv.items[0], "{dir}/main");
    plan_free(plan);
}

static void exactly_one_of_code_and_command_is_run(void **state)
{
    static const char usage[] = "VIAL-USAGE";

    assert_refused(*state, "{}", usage, "nothing to run: neither code nor a command");
    assert_refused(*state, "{'language':'sh','code':'','command':['ls']}", usage,
                   "both code and a command are given");
    assert_refused(*state, "{'code':'x'}", usage, "code is given without its language");
    assert_refused(*state, "{'language':'sh'}", usage,
                   "language 'sh' is given without code");
    assert_refused(*state, "{'command':['ls'],'args':['x']}", usage,
                   "args are given beside a command");
    assert_refused(*state, "{'command':['']}", "VIAL-VALUE",
                   "command names no program");
    assert_string_equal(refused(*state, "{}").remedy,
                        "give language and code, or command");
}

static void an_unknown_language_is_refused(void **state)
{
    struct vial_error err = refused(*state, "{'language':'pyton','code':''}");

    assert_string_equal(err.code, "VIAL-LANGUAGE");
    assert_string_equal(err.remedy, "did you mean 'python'?");
}

static void the_environment_is_made_from_scratch(void **state)
{
    struct plan *plan = plan_of(
        *state, "{'language':'python','code':'','env':{'LANG':'C','X':'{dir}'}}");

    assert_true(has_env(plan, "HOME={dir}"));
    assert_true(has_env(plan, "USER=vial"));
    assert_true(has_env(plan, "PYTHONDONTWRITEBYTECODE=1"));
    assert_true(has_env(plan, "LANG=C"));
    assert_false(has_env(plan, "LANG=C.UTF-8"));
    assert_string_equal(plan->env.items[plan->env.count - 1], "X={dir}");
    assert_int_equal(plan->env_own, plan->env.count - 2);
    plan_free(plan);
}

static void arguments_and_variables_have_a_size(void **state)
{
    struct str json = { 0 };

    str_printf(&json, "{'command':['x','%0131072d']}", 0);
    assert_refused(*state, json.data, "VIAL-VALUE",
                   "an entry of command has 131072 bytes; the most is 131071");
    str_done(&json);
    str_puts(&json, "{'command':['x']");
    for (int i = 0; i < 9; i++)
        str_printf(&json, "%s'V%d':'%0120000d'", i ? "," : ",'env':{", i, 0);
    str_puts(&json, "}}");
    assert_true(str_ok(&json));
    assert_refused(*state, json.data, "VIAL-VALUE",
                   "arguments and env take more than 1048576 bytes");
    str_done(&json);
}

static void an_explicit_limit_wins_over_the_language_and_that_over_built_in(
    void **state)
{
    struct plan *plan = plan_of(*state, "{'language':'java','code':''}");

    assert_true(plan->limits.memory_bytes == 1 << 30);
    assert_true(plan->limits.pids == 256);
    assert_true(plan->limits.wall_ms == 30000);
    plan_free(plan);
    plan = plan_of(*state, "{'language':'java','code':'','memory':'512m'}");
    assert_true(plan->limits.memory_bytes == 512 << 20);
    plan_free(plan);
    use_settings(*state, "defaults: {pids: 128}");
    plan = plan_of(*state, "{'language':'java','code':''}");
    assert_true(plan->limits.pids == 128);
    plan_free(plan);
}

static void a_language_cannot_exceed_a_cap(void **state)
{
    struct plan *plan;

    use_settings(*state, "policy: {max_memory: 64m, max_cpu_time: 7}");
    plan = plan_of(*state, "{'language':'java','code':''}");
    assert_true(plan->limits.memory_bytes == 64 << 20);
    assert_true(plan->limits.cpu_ms == 7000);
    plan_free(plan);
    assert_refused(*state, "{'language':'java','code':'','memory':'65m'}", "VIAL-CAP",
                   "memory 65m exceeds the policy's max_memory 64m");
}

static void a_plan_needs_the_limits_that_are_never_zero(void **state)
{
    auto_request struct vial_request req = { 0 };
    const struct plan_driver native = { "native", false };
    struct vial_error err = { 0 };
    struct plan *plan = NULL;
    struct scratch *s = *state;

    use_settings(s, "");
    assert_int_equal(vial_request_set(&req, "command", "ls", &err), 0);
    assert_int_equal(plan_build(&req, s->settings, &native, &plan, &err), -1);
    assert_string_equal(err.code, "VIAL-INTERNAL");
    assert_string_equal(err.message, "limit 'timeout' has no value");
}

static void cwd_stays_clear_of_the_kernel_and_of_dots(void **state)
{
    static const char *const bad[] = { "..",   "a/../b", "a//b",    "/proc/self/fd/8",
                                       "/dev", "/sys/x", "/a/../b", "/a//b",
                                       "./a" };
    struct plan *plan = plan_of(*state, "{'command':['ls'],'cwd':'sub/dir'}");

    assert_string_equal(plan->cwd, "/work/sub/dir");
    plan_free(plan);
    plan = plan_of(*state, "{'command':['ls'],'cwd':'/usr/share'}");
    assert_string_equal(plan->cwd, "/usr/share");
    plan_free(plan);
    plan = plan_of(*state, "{'command':['ls'],'cwd':'.'}");
    assert_string_equal(plan->cwd, "/work");
    plan_free(plan);
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        char json[96];

        (void)snprintf(json, sizeof(json), "{'command':['ls'],'cwd':'%s'}", bad[i]);
        assert_string_equal(refused(*state, json).code, "VIAL-PATH");
    }
    assert_refused(*state, "{'command':['ls'],'cwd':'/proc'}", "VIAL-PATH",
                   "cwd '/proc' is not allowed");
}

static void files_and_outputs_stay_below_the_workdir(void **state)
{
    static const char *const bad[] = { "../x",         "a/../../x", "/etc/passwd",
                                       "//etc/passwd", ".",         "",
                                       "a/",           "a//b",      "./a",
                                       "a/./b" };

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        char json[128];

        (void)snprintf(json, sizeof(json),
                       "{'command':['ls'],'files':[{'path':'%s','content':''}]}",
                       bad[i]);
        assert_string_equal(refused(*state, json).code, "VIAL-PATH");
        (void)snprintf(json, sizeof(json), "{'command':['ls'],'outputs':['%s']}",
                       bad[i]);
        assert_string_equal(refused(*state, json).code, "VIAL-PATH");
    }
    assert_refused(
        *state, "{'command':['ls'],'outputs':['../x\\n']}", "VIAL-PATH",
        "output '../x\\x0a' is not a plain path below the working directory");
    assert_refused(
        *state, "{'language':'py','code':'','files':[{'path':'main.py','content':''}]}",
        "VIAL-PATH", "file 'main.py' is given twice");
}

static int plan_with(struct scratch *s, const char *field, const char *value,
                     struct plan **out, struct vial_error *err)
{
    auto_request struct vial_request req = { 0 };

    if (!s->settings)
        use_settings(s, "");
    assert_int_equal(vial_request_set(&req, "command", "ls", err), 0);
    assert_int_equal(vial_request_set(&req, field, value, err), 0);
    return plan_request(s->settings, &req, "native", out, err);
}

static void a_named_file_is_read_with_its_mode(void **state)
{
    struct scratch *s = *state;
    struct vial_error err = { 0 };
    struct plan *plan = NULL;
    char arg[128];

    (void)chmod(scratch_write(s, "tool", "#!x"), 0700);
    (void)snprintf(arg, sizeof(arg), "%s/tool:bin/tool", s->dir);
    assert_int_equal(plan_with(s, "files", arg, &plan, &err), 0);
    assert_string_equal(plan->files[0].path, "bin/tool");
    assert_string_equal(plan->files[0].content.data, "#!x");
    assert_int_equal(plan->files[0].mode, 0755);
    plan_free(plan);
}

static void a_named_file_that_cannot_be_read_is_refused(void **state)
{
    struct scratch *s = *state;
    struct vial_error err = { 0 };
    struct plan *plan = NULL;
    char path[128];

    assert_int_equal(plan_with(s, "files", "/nowhere/x", &plan, &err), -1);
    assert_string_equal(err.code, "VIAL-FILE");
    assert_string_equal(err.message, "read file '/nowhere/x'");
    assert_int_equal(plan_with(s, "files", "/tmp:t", &plan, &err), -1);
    assert_string_equal(err.message, "file '/tmp' is not a regular file");
    (void)snprintf(path, sizeof(path), "%s", scratch_path(s, "pipe"));
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_int_equal(plan_with(s, "files", path, &plan, &err), -1);
    assert_string_equal(err.code, "VIAL-FILE");
    use_settings(s, "policy: {max_files: 3}");
    (void)snprintf(path, sizeof(path), "%s", scratch_write(s, "big", "four"));
    assert_int_equal(plan_with(s, "files", path, &plan, &err), -1);
    assert_string_equal(err.code, "VIAL-CAP");
    assert_string_equal(err.message, "files 4 exceeds the policy's max_files 3");
}

static void the_policy_judges_what_was_resolved(void **state)
{
    struct plan *plan;

    use_settings(*state, "policy: {languages: [py, node], require: [seccomp]}");
    plan = plan_of(*state, "{'language':'python3','code':'','require':['pid']}");
    assert_int_equal(plan->require.count, 2);
    assert_string_equal(plan->require.items[1], "seccomp");
    plan_free(plan);
    assert_refused(*state, "{'language':'sh','code':''}", "VIAL-POLICY",
                   "language 'sh' is not allowed by the policy");
    assert_refused(*state, "{'command':['ls']}", "VIAL-POLICY",
                   "language 'command' is not allowed by the policy");
    use_settings(*state, "policy: {drivers: [docker]}");
    assert_refused(*state, "{'command':['ls']}", "VIAL-POLICY",
                   "driver 'native' is not allowed by the policy");
}

static int plan_on(struct scratch *s, const char *driver, const char *json,
                   struct plan **out, struct vial_error *err)
{
    struct vial_request *req = NULL;
    int rc;

    assert_int_equal(parse_request(json, &req, err), 0);
    rc = plan_request(s->settings, req, driver, out, err);
    vial_request_free(req);
    return rc;
}

static void an_image_comes_from_request_settings_or_language(void **state)
{
    struct scratch *s = *state;
    struct vial_error err = { 0 };
    struct plan *plan = NULL;

    use_settings(s, "policy: {images: ['python:*']}");
    assert_int_equal(plan_on(s, "docker", "{'language':'py','code':''}", &plan, &err),
                     0);
    assert_string_equal(plan->image, "python:3.11-slim");
    plan_free(plan);
    assert_int_equal(plan_on(s, "docker", "{'command':['ls']}", &plan, &err), -1);
    assert_string_equal(err.message,
                        "image 'debian:12-slim' is not allowed by the policy");
    assert_int_equal(plan_on(s, "docker", "{'language':'sh','code':''}", &plan, &err),
                     -1);
    assert_string_equal(err.message,
                        "image 'debian:12-slim' is not allowed by the policy");
    assert_refused(s, "{'command':['ls'],'image':'python:3'}", "VIAL-UNSUPPORTED",
                   "driver 'native' uses no image");
    use_settings(s, "");
    assert_int_equal(plan_on(s, "docker", "{'command':['ls']}", &plan, &err), 0);
    assert_string_equal(plan->image, "debian:12-slim");
    plan_free(plan);
    use_settings(s, "defaults: {image: mine}");
    plan = plan_of(s, "{'command':['ls']}");
    assert_null(plan->image);
    plan_free(plan);
}

static void a_seccomp_profile_is_a_name_not_a_path(void **state)
{
    struct plan *plan = plan_of(*state, "{'command':['ls'],'seccomp':'strict'}");

    assert_string_equal(plan->seccomp, "strict");
    plan_free(plan);
    assert_refused(*state, "{'command':['ls'],'seccomp':'../x'}", "VIAL-VALUE",
                   "seccomp '../x' is not a profile's name");
}

static void short_shell_code_is_an_argument_and_no_file(void **state)
{
    struct plan *plan =
        plan_of(*state, "{'language':'sh','code':'secret','args':['{dir}']}");
    json_t *json = plan_json(plan);
    char *text = json_dumps(json, JSON_COMPACT);

    assert_int_equal(plan->file_count, 0);
    assert_string_equal(plan->argv.items[2], "{code}");
    assert_int_equal(plan->argv_own, 4);
    assert_string_equal(plan->argv.items[4], "{dir}");
    assert_string_equal(plan->code.data, "secret");
    assert_null(strstr(text, "secret"));
    free(text);
    json_decref(json);
    plan_free(plan);
}

static void shell_code_that_no_argument_can_hold_is_a_file(void **state)
{
    struct plan *plan = plan_of(*state, "{'language':'sh','code':'a\\u0000b'}");
    size_t size = 100 << 10;
    char *request = malloc(size + 64);

    assert_null(plan->code.data);
    assert_string_equal(plan->files[0].path, "main.sh");
    assert_string_equal(plan->argv.items[1], "{dir}/main.sh");
    plan_free(plan);
    assert_non_null(request);
    (void)sprintf(request, "{'language':'sh','code':'%0*d'}", (int)size, 0);
    plan = plan_of(*state, request);
    assert_null(plan->code.data);
    assert_int_equal(plan->files[0].content.len, size);
    free(request);
    plan_free(plan);
}

static void a_printed_plan_shows_sizes_and_hashes_of_contents(void **state)
{
    struct plan *plan =
        plan_of(*state, "{'language':'perl','code':'secret','stdin':'also'}");
    json_t *json = plan_json(plan);
    char *text = json_dumps(json, JSON_COMPACT);

    assert_null(strstr(text, "secret"));
    assert_null(strstr(text, "also"));
    assert_non_null(strstr(text, "{\"path\":\"main.pl\",\"mode\":\"0644\",\"bytes\":6,"
                                 "\"fnv1a64\":\"ab23f0eec020c951\"}"));
    free(text);
    json_decref(json);
    plan_free(plan);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        scratch_test(short_shell_code_is_an_argument_and_no_file),
        scratch_test(shell_code_that_no_argument_can_hold_is_a_file),
        scratch_test(code_becomes_a_file_and_a_command),
        scratch_test(a_compiled_language_has_two_steps),
        scratch_test(exactly_one_of_code_and_command_is_run),
        scratch_test(an_unknown_language_is_refused),
        scratch_test(the_environment_is_made_from_scratch),
        scratch_test(arguments_and_variables_have_a_size),
        scratch_test(an_explicit_limit_wins_over_the_language_and_that_over_built_in),
        scratch_test(a_language_cannot_exceed_a_cap),
        scratch_test(a_plan_needs_the_limits_that_are_never_zero),
        scratch_test(cwd_stays_clear_of_the_kernel_and_of_dots),
        scratch_test(files_and_outputs_stay_below_the_workdir),
        scratch_test(a_named_file_is_read_with_its_mode),
        scratch_test(a_named_file_that_cannot_be_read_is_refused),
        scratch_test(the_policy_judges_what_was_resolved),
        scratch_test(an_image_comes_from_request_settings_or_language),
        scratch_test(a_seccomp_profile_is_a_name_not_a_path),
        scratch_test(a_printed_plan_shows_sizes_and_hashes_of_contents),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
