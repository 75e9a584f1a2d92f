/* SPDX-License-Identifier: Apache-2.0 */
#include "base/io.h"
#include "model_case.h"
#include "settings/foreign_files.h"
#include "settings/preset.h"
#include "settings/settings.h"

static const struct plan_driver docker = { "docker", true };

static const char *const presets[] = { "acode", "antigravity", "codomyrmex",
                                       "coding-agent", "klaw" };

#define PRESETS (sizeof(presets) / sizeof(presets[0]))

static struct preset *judge(const char *text, struct vial_error *err)
{
    struct preset *p = NULL;
    auto_json json_t *block = NULL;

    *err = (struct vial_error){ 0 };
    assert_int_equal(yaml_parse(text, strlen(text), "test", &block, err), 0);
    return preset_new("mine", block, &p, err) < 0 ? NULL : p;
}

static struct settings *load(struct scratch *scratch, const char *preset,
                             char *const *variables, struct vial_error *err)
{
    struct settings_sources from = bare_sources(scratch);
    struct settings *s = NULL;

    from.config = NULL;
    from.home = scratch->dir;
    from.preset = preset;
    from.environ_ = variables;
    *err = (struct vial_error){ 0 };
    return settings_load(&from, &s, err) < 0 ? NULL : s;
}

static struct settings *loaded(struct scratch *scratch, const char *preset,
                               char *const *variables)
{
    struct vial_error err;
    struct settings *s = load(scratch, preset, variables, &err);

    if (!s)
        fail_msg("%s: %s", err.code, err.message);
    return s;
}

static void a_misspelt_key_is_refused_with_a_suggestion(void **state)
{
    struct vial_error err;

    (void)state;
    assert_null(judge("{about: x, variabels: {}}", &err));
    assert_string_equal(err.code, "VIAL-FIELD");
    assert_string_equal(err.message, "unknown key 'variabels' in 'preset mine'");
    assert_string_equal(err.remedy, "did you mean 'variables'?");
    assert_null(judge("{about: x, variables: {A: {set: timeout}}}", &err));
    assert_string_equal(err.message, "unknown key 'set' in 'preset mine.variables.A'");
}

static void a_preset_can_only_name_what_exists(void **state)
{
    static const char *const bad[][2] = {
        { "{}", "preset mine lacks the key 'about'" },
        { "{about: 5}", "preset mine.about is not a text" },
        { "{about: x, variables: {A: {sets: privileged}}}",
          "preset mine: A sets 'privileged', which does not exist" },
        { "{about: x, variables: {A: {sets: code}}}",
          "preset mine: A sets 'code', which does not exist" },
        { "{about: x, variables: {A: {sets: policy.max_fun}}}",
          "preset mine: A sets 'policy.max_fun', which does not exist" },
        { "{about: x, variables: {A: {sets: timeout, form: s}}}",
          "preset mine: A has a form without '{}'" },
        { "{about: x, errors: {VIAL-NOPE: X-1}}",
          "preset mine: errors: there is no code 'VIAL-NOPE'" },
        { "{about: x, verdicts: {dead: X-1}}",
          "preset mine: verdicts: there is no verdict 'dead'" },
        { "{about: x, tools: {t: {title: T, description: D, does: magic, parameters: {}, "
          "answer: {text: []}}}}",
          "preset mine: tool 't': 'magic' is nothing that a tool does" },
        { "{about: x, tools: {t: {title: T, description: D, does: run, parameters: "
          "{p: {type: string, description: P, field: privileged}}, "
          "answer: {text: []}}}}",
          "preset mine: tool 't': parameter 'p' goes nowhere" },
        { "{about: x, tools: {t: {title: T, description: D, does: run, parameters: {}, "
          "answer: {text: [{when: dead, show: x}]}}}}",
          "preset mine: tool 't': answer: nothing happens 'when: dead'" },
        { "{about: x, tools: {t: {title: T, description: D, does: run, parameters: {}, "
          "answer: {text: [{show: 'it is {fine}'}]}}}}",
          "preset mine: tool 't': answer: there is nothing that '{fine}' stands for" },
    };

    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct vial_error err;

        assert_null(judge(bad[i][0], &err));
        assert_string_equal(err.message, bad[i][1]);
    }
}

/* covers: K-07 */
static void no_preset_has_a_word_for_what_is_forbidden(void **state)
{
    static const char *const words[] = {
        "privileged", "docker.sock", "network: host", "pid: host",  "NetworkMode",
        "cap_add",    "CapAdd",      "seccomp: none", "unconfined", "driver: process"
    };

    (void)state;
    for (size_t i = 0; i < PRESETS; i++) {
        char path[512];
        struct blob text = { 0 };
        struct vial_error err = { 0 };

        (void)snprintf(path, sizeof(path), "%s/presets/%s.yaml", share_dir(),
                       presets[i]);
        assert_int_equal(io_read_file(path, 1 << 20, &text, &err), 0);
        for (size_t w = 0; w < sizeof(words) / sizeof(words[0]); w++)
            if (strstr(text.data, words[w]))
                fail_msg("%s says '%s'", path, words[w]);
        blob_done(&text);
    }
}

/* covers: K-07 */
static void what_is_forbidden_stays_so_under_every_preset(void **state)
{
    static const char *const lines[] = { "privileged: true", "pid: host",
                                         "cap_add: [ALL]", "security_opt: []" };

    for (size_t i = 0; i < PRESETS; i++) {
        for (size_t n = 0; n < sizeof(lines) / sizeof(lines[0]); n++) {
            char text[64];
            struct vial_error err;

            (void)snprintf(text, sizeof(text), "defaults: {%s}", lines[n]);
            (void)scratch_write(*state, "vial.yaml", text);
            assert_null(load(*state, presets[i], NULL, &err));
            assert_string_equal(err.code, "VIAL-FIELD");
        }
        (void)scratch_write(*state, "vial.yaml", "defaults: {network: host}");
        struct vial_error err;
        assert_null(load(*state, presets[i], NULL, &err));
        assert_string_equal(err.code, "VIAL-VALUE");
    }
}

static void antigravitys_variables_are_settings(void **state)
{
    char type[] = "SANDBOX_TYPE=docker";
    char seconds[] = "SANDBOX_TIMEOUT_SEC=60";
    char output[] = "SANDBOX_MAX_OUTPUT_KB=100";
    char image[] = "DOCKER_IMAGE=antigravity-sandbox:latest";
    char network[] = "DOCKER_NETWORK_ENABLED=True";
    char cpu[] = "DOCKER_CPU_LIMIT=1.5";
    char memory[] = "DOCKER_MEMORY_LIMIT=512m";
    char *all[] = { type, seconds, output, image, network, cpu, memory, NULL };
    char *without[] = { seconds, output, image, network, cpu, memory, NULL };
    char *only[] = { type, NULL };
    struct settings *s = loaded(*state, "antigravity", NULL);
    char name[32];

    request_choice(&s->defaults, FIELD_ID_driver, name);
    assert_string_equal(name, "native");
    assert_true(s->defaults.timeout == 30000 && s->defaults.output_limit == 10240);
    assert_true(s->defaults.memory == INT64_C(4) << 30 && s->defaults.cpus == 2000);
    settings_free(s);

    s = loaded(*state, "antigravity", only);
    assert_true(s->defaults.memory == 256 << 20 && s->defaults.cpus == 500);
    assert_string_equal(s->defaults.image, "python:3.11-slim");
    settings_free(s);

    s = loaded(*state, "antigravity", all);
    request_choice(&s->defaults, FIELD_ID_driver, name);
    assert_string_equal(name, "docker");
    request_choice(&s->defaults, FIELD_ID_network, name);
    assert_string_equal(name, "bridge");
    assert_true(s->defaults.timeout == 60000 && s->defaults.output_limit == 102400);
    assert_true(s->defaults.memory == 512 << 20 && s->defaults.cpus == 1500);
    assert_string_equal(s->defaults.image, "antigravity-sandbox:latest");
    assert_string_equal(s->origin[FIELD_ID_timeout], "environment");
    settings_free(s);

    /* The variables for Docker count only with Docker. */
    s = loaded(*state, "antigravity", without);
    assert_string_equal(s->defaults.image, "python:3.11-slim");
    assert_true(s->defaults.memory == INT64_C(4) << 30);
    assert_true(s->defaults.timeout == 60000);
    settings_free(s);
    /* And none of them without the preset. */
    s = loaded(*state, NULL, all);
    assert_true(s->defaults.timeout == 30000 && !s->defaults.image);
    settings_free(s);
}

/* Of a project's file of variables, only the preset's own that nobody has exported. */
static void lines_of_variables_are_read_as_they_are(void **state)
{
    static char text[] = "# SANDBOX_TYPE=docker\nexport SANDBOX_TYPE = 'local' # x\r\n"
                         "VIAL_NETWORK=bridge\nno line\n=\nDOCKER_HOST=unix:///x\n"
                         "SANDBOX_TIMEOUT_SEC=$(id) # y\nDOCKER_IMAGE=mine\n";
    char exported[] = "DOCKER_IMAGE=theirs";
    char *environ_[] = { exported, NULL };
    struct settings *s = loaded(*state, "antigravity", NULL);
    const json_t *wanted = preset_get(s->seed, "variables");
    struct blob all = { .data = text, .len = sizeof text - 1 };
    struct vial_error err = { 0 };
    auto_strv struct strv out = { 0 };

    assert_int_equal(dotenv_read(&all, ".env", wanted, environ_, &out, &err), 0);
    assert_int_equal(out.count, 2);
    assert_string_equal(out.items[0], "SANDBOX_TYPE=local");
    assert_string_equal(out.items[1], "SANDBOX_TIMEOUT_SEC=$(id)");
    (void)strcpy(text, "SANDBOX_TYPE='local\n");
    all.len = strlen(text);
    assert_int_equal(dotenv_read(&all, ".env", wanted, environ_, &out, &err), -1);
    all.len = strlen(text) + 1;
    assert_int_equal(dotenv_read(&all, ".env", wanted, environ_, &out, &err), -1);
    settings_free(s);
}

static void a_bad_value_of_a_variable_is_refused_by_its_name(void **state)
{
    static const char *const cases[][2] = {
        { "SANDBOX_TYPE=podman",
          "SANDBOX_TYPE 'podman' is not one of local, docker, e2b" },
        { "SANDBOX_TIMEOUT_SEC=5m", "SANDBOX_TIMEOUT_SEC '5m' is not a number" },
        { "SANDBOX_TIMEOUT_SEC=-1", "SANDBOX_TIMEOUT_SEC '-1' is not a number" },
        { "SANDBOX_MAX_OUTPUT_KB=lots",
          "SANDBOX_MAX_OUTPUT_KB 'lots' is not a number" },
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char variable[64];
        char *variables[] = { variable, NULL };
        struct vial_error err;

        (void)snprintf(variable, sizeof(variable), "%s", cases[i][0]);
        assert_null(load(*state, "antigravity", variables, &err));
        assert_string_equal(err.message, cases[i][1]);
    }
}

static void codomyrmexs_variables_are_defaults_and_caps(void **state)
{
    char most[] = "SANDBOX_GLOBAL_MAX_TIMEOUT_SECONDS=600";
    char usual[] = "SANDBOX_DEFAULT_TIMEOUT_SECONDS=20";
    char memory[] = "SANDBOX_DEFAULT_MEMORY_LIMIT_MB=128";
    char quota[] = "SANDBOX_DEFAULT_CPU_QUOTA_PERCENT=75";
    char pids[] = "SANDBOX_PID_LIMIT=50";
    char socket[] = "DOCKER_SOCKET_PATH=unix:///run/mine.sock";
    char *all[] = { most, usual, memory, quota, pids, socket, NULL };
    struct settings *s = loaded(*state, "codomyrmex", NULL);

    assert_true(s->policy.max_timeout == 300000 && s->defaults.timeout == 30000);
    assert_true(s->defaults.memory == 256 << 20 && s->defaults.cpus == 500);
    assert_true(s->defaults.pids == 100);
    settings_free(s);
    s = loaded(*state, "codomyrmex", all);
    assert_true(s->policy.max_timeout == 600000 && s->defaults.timeout == 20000);
    assert_true(s->defaults.memory == 128 << 20 && s->defaults.cpus == 750);
    assert_true(s->defaults.pids == 50);
    assert_string_equal(s->engine, "unix:///run/mine.sock");
    settings_free(s);
}

#define LANGUAGE_FILE                                                                  \
    "{\n"                                                                              \
    "  \"python3.10\": {\n"                                                            \
    "    \"image\": \"codomyrmex/sandbox-python:3.10.12-slim-bullseye\",\n"            \
    "    \"seccomp_profile\": \"python3.json\", // Path to custom seccomp profile\n"   \
    "    \"default_memory_mb\": 64\n"                                                  \
    "  },\n"                                                                           \
    "  \"nodejs18\": {\n"                                                              \
    "    \"image\": \"http//x\",\n"                                                    \
    "    \"seccomp_profile\": \"default.json\",\n"                                     \
    "    \"default_memory_mb\": 192,\n"                                                \
    "    \"allow_network\": false // Explicitly state default\n"                       \
    "  }\n"                                                                            \
    "}\n"

static void a_language_file_says_which_languages_there_are(void **state)
{
    char variable[4200];
    char *variables[] = { variable, NULL };
    const struct language *l = NULL;
    struct vial_error err = { 0 };
    struct settings *s;

    (void)snprintf(variable, sizeof(variable), "SANDBOX_LANGUAGE_CONFIG_FILE=%s",
                   scratch_write(*state, "sandbox_languages.json", LANGUAGE_FILE));
    s = loaded(*state, "codomyrmex", variables);
    assert_int_equal(language_find(&s->languages, "python3.10", &l, &err), 0);
    assert_string_equal(l->image, "codomyrmex/sandbox-python:3.10.12-slim-bullseye");
    assert_string_equal(l->seccomp, "default");
    assert_string_equal(l->seccomp_file, scratch_path(*state, "python3.json"));
    assert_true(l->limits.memory_bytes == 64 << 20 && l->firm);
    assert_int_equal(language_find(&s->languages, "nodejs18", &l, &err), 0);
    assert_string_equal(l->image, "http//x");
    assert_string_equal(l->network, "none");
    assert_int_equal(language_find(&s->languages, "bash", &l, &err), -1);
    assert_string_equal(err.message,
                        "unknown language 'bash'; known: python3.10, nodejs18");
    settings_free(s);

    (void)scratch_write(*state, "sandbox_languages.json", "{\"cobol\": {}}");
    assert_null(load(*state, "codomyrmex", variables, &err));
    assert_string_equal(err.code, "VIAL-LANGUAGE");
    (void)scratch_write(*state, "sandbox_languages.json",
                        "{\"bash\": {\"privileged\": true}}");
    assert_null(load(*state, "codomyrmex", variables, &err));
    assert_string_equal(err.code, "VIAL-FIELD");
    assert_non_null(strstr(err.message, "unknown key 'privileged'"));
}

static void a_languages_own_limits_and_network_win_over_the_presets(void **state)
{
    char variable[4200];
    char *variables[] = { variable, NULL };
    struct vial_request req = { 0 };
    struct vial_error err = { 0 };
    auto_plan struct plan *plan = NULL;
    auto_json json_t *none = json_pack("{s:[s]}", "networks", "none");
    struct settings *s;

    (void)snprintf(variable, sizeof(variable), "SANDBOX_LANGUAGE_CONFIG_FILE=%s",
                   scratch_write(*state, "l.json",
                                 "{\"bash\": {\"default_memory_mb\": 64, "
                                 "\"allow_network\": true, \"image\": \"i:1\"}}"));
    s = loaded(*state, "codomyrmex", variables);
    assert_int_equal(request_set_text(&req, FIELD_ID_language, "bash", 4, "t", &err),
                     0);
    assert_int_equal(request_set_text(&req, FIELD_ID_code, "true", 4, "t", &err), 0);
    req.own = req.set;
    assert_int_equal(request_fill(&req, &s->defaults, &err), 0);
    assert_int_equal(plan_build(&req, s, &docker, &plan, &err), 0);
    assert_true(plan->limits.memory_bytes == 64 << 20);
    assert_true(plan->network == NETWORK_BRIDGE);
    assert_string_equal(plan->image, "i:1");
    /* The policy has the last word. */
    assert_int_equal(policy_tighten(&s->policy, none, "t", &err), 0);
    plan_free(plan);
    plan = NULL;
    assert_int_equal(plan_build(&req, s, &docker, &plan, &err), -1);
    assert_string_equal(err.code, "VIAL-POLICY");
    request_done(&req);
    settings_free(s);
}

#define ENGINE_YAML                                                                    \
    "models: {default: x}\n"                                                           \
    "codeExecution:\n"                                                                 \
    "  dockerImage: mine:1\n"                                                          \
    "  timeout: 45\n"                                                                  \
    "  allowNetwork: false\n"                                                          \
    "  maxMemory: 128m\n"                                                              \
    "  maxCpus: 0.5\n"                                                                 \
    "  keepAlive: false\n"                                                             \
    "  keepAliveIdleTimeoutMin: 3\n"                                                   \
    "  keepAliveMaxExecutions: 7\n"                                                    \
    "  volumeMounts:\n"                                                                \
    "    - /srv/a:/a:ro\n"                                                             \
    "    - {hostPath: $KLAW_WORKSPACE/b, containerPath: /b}\n"

/* covers: K-05 K-06 K-13 */
static void klaws_block_of_engine_yaml_is_read(void **state)
{
    const char *skills =
        scratch_dir(*state, "skills"); /* it is mounted if it is there */
    auto_str struct str workspace = { 0 };
    char *variables[] = { NULL, NULL };
    struct settings *s = NULL;
    char name[32];

    str_printf(&workspace, "KLAW_WORKSPACE=%.*s",
               (int)(strlen(skills) - strlen("/skills")), skills);
    variables[0] = workspace.data;
    s = loaded(*state, "klaw", variables);
    assert_true(s->keep.alive && s->keep.executions == 50);
    assert_true(s->keep.idle_ms == 600000);
    assert_true(s->defaults.tmp == 64 << 20 && s->defaults.memory == 256 << 20);
    assert_int_equal(s->defaults.mounts.count, 3);
    assert_string_equal(s->defaults.mounts.items[0].source, skills);
    assert_string_equal(s->defaults.mounts.items[0].target, "/skills");
    assert_false(s->defaults.mounts.items[0].writable);
    assert_string_equal(s->defaults.mounts.items[1].target, "/output");
    assert_true(s->defaults.mounts.items[1].writable);
    assert_string_equal(s->defaults.mounts.items[2].target, "/tmp/klaw-sandbox");
    assert_true(s->defaults.mounts.items[2].writable);
    settings_free(s);

    (void)scratch_dir(*state, ".config");
    (void)scratch_dir(*state, ".config/klaw");
    (void)scratch_write(*state, ".config/klaw/engine.yaml", ENGINE_YAML);
    s = loaded(*state, "klaw", variables);
    assert_string_equal(s->defaults.image, "mine:1");
    assert_true(s->defaults.timeout == 45000 && s->defaults.cpus == 500);
    assert_true(s->defaults.memory == 128 << 20);
    request_choice(&s->defaults, FIELD_ID_network, name);
    assert_string_equal(name, "none");
    assert_true(!s->keep.alive && s->keep.executions == 7);
    assert_true(s->keep.idle_ms == 180000);
    assert_int_equal(s->defaults.mounts.count, 5); /* further ones, not instead */
    settings_free(s);
}

static void a_misspelt_key_of_a_block_is_refused(void **state)
{
    struct vial_error err;

    (void)scratch_dir(*state, ".agent");
    (void)scratch_write(*state, ".agent/config.yml",
                        "sandbox: {defaults: {cpu_limits: 1}}");
    assert_null(load(*state, "acode", NULL, &err));
    assert_string_equal(err.code, "VIAL-FIELD");
    assert_string_equal(err.remedy, "did you mean 'defaults.cpu_limit'?");
}

static void a_strangers_file_of_acode_can_lower_and_not_raise(void **state)
{
    static const char *const refused[] = { "memory_mb: 1024", "cpu_limit: 8",
                                           "network: true", "pids_limit: 9999" };
    struct vial_error err;
    struct settings *s;

    (void)scratch_dir(*state, ".agent");
    (void)scratch_write(*state, ".agent/config.yml",
                        "model: x\n"
                        "sandbox:\n  enabled: true\n"
                        "  defaults: {cpu_limit: 1, memory_mb: 256, network: false}\n"
                        "  images: {node: 'node:20-alpine'}\n");
    s = loaded(*state, "acode", NULL);
    assert_true(s->defaults.memory == 256 << 20);
    settings_free(s);
    for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++) {
        char text[128];

        (void)snprintf(text, sizeof(text), "sandbox: {defaults: {%s}}", refused[i]);
        (void)scratch_write(*state, ".agent/config.yml", text);
        assert_null(load(*state, "acode", NULL, &err));
        assert_string_equal(err.code, "VIAL-TRUST");
    }
    /* An image's name could carry data out when it is pulled. */
    (void)scratch_write(*state, ".agent/config.yml",
                        "sandbox: {images: {node: 'evil.example/secret'}}");
    assert_null(load(*state, "acode", NULL, &err));
    assert_string_equal(err.code, "VIAL-TRUST");
    (void)scratch_write(*state, ".agent/config.yml", "sandbox: {enabled: false}");
    assert_null(load(*state, "acode", NULL, &err));
    assert_string_equal(err.code, "VIAL-UNSUPPORTED");
}

/* In detail: tests/presets/test_acode.py. */
static void a_commands_program_chooses_its_image(void **state)
{
    static const char *const cases[][2] = {
        { "dotnet build", "mcr.microsoft.com/dotnet/sdk:8.0" },
        { "/usr/bin/dotnet test", "mcr.microsoft.com/dotnet/sdk:8.0" },
        { "npm test", "node:20-alpine" },
        { "node x.js", "node:20-alpine" },
        { "make", "debian:12-slim" },
        { "dotnetx build", "debian:12-slim" },
    };
    struct settings *s = loaded(*state, "acode", NULL);

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct vial_request req = { 0 };
        struct vial_error err = { 0 };
        auto_plan struct plan *plan = NULL;
        const char *argv[] = { "sh", "-c", cases[i][0] };

        for (size_t n = 0; n < 3; n++)
            assert_int_equal(request_set_text(&req, FIELD_ID_command, argv[n],
                                              strlen(argv[n]), "t", &err),
                             0);
        assert_int_equal(request_fill(&req, &s->defaults, &err), 0);
        assert_int_equal(plan_build(&req, s, &docker, &plan, &err), 0);
        assert_string_equal(plan->image, cases[i][1]);
        request_done(&req);
    }
    settings_free(s);
}

static void codes_and_commands_are_translated(void **state)
{
    struct settings *s = loaded(*state, "acode", NULL);
    char sandbox[] = "sandbox";
    char exec[] = "exec";
    char line[] = "dotnet build";
    char *words[] = { sandbox, exec, line, NULL };
    const char *becomes = NULL;

    assert_string_equal(preset_code(s->seed, "VIAL-OPEN", NULL), "ACODE-SBX-001");
    assert_string_equal(preset_code(s->seed, "VIAL-PULL", NULL), "ACODE-SBX-002");
    assert_string_equal(preset_code(s->seed, "VIAL-MOUNT-OUTSIDE", NULL),
                        "ACODE-SBX-003");
    assert_string_equal(preset_code(s->seed, "", "oom"), "ACODE-SBX-004");
    assert_null(preset_code(s->seed, "VIAL-USAGE", "denied"));
    assert_null(preset_code(NULL, "VIAL-OPEN", "oom"));
    assert_int_equal(preset_command(s->seed, words, &becomes), 2);
    assert_string_equal(becomes, "exec");
    words[1] = NULL;
    assert_int_equal(preset_command(s->seed, words, &becomes), 0);
    assert_int_equal(preset_command(NULL, words, &becomes), 0);
    settings_free(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_misspelt_key_is_refused_with_a_suggestion),
        cmocka_unit_test(a_preset_can_only_name_what_exists),
        cmocka_unit_test(no_preset_has_a_word_for_what_is_forbidden),
        scratch_test(what_is_forbidden_stays_so_under_every_preset),
        scratch_test(antigravitys_variables_are_settings),
        scratch_test(lines_of_variables_are_read_as_they_are),
        scratch_test(a_bad_value_of_a_variable_is_refused_by_its_name),
        scratch_test(codomyrmexs_variables_are_defaults_and_caps),
        scratch_test(a_language_file_says_which_languages_there_are),
        scratch_test(a_languages_own_limits_and_network_win_over_the_presets),
        scratch_test(klaws_block_of_engine_yaml_is_read),
        scratch_test(a_misspelt_key_of_a_block_is_refused),
        scratch_test(a_strangers_file_of_acode_can_lower_and_not_raise),
        scratch_test(a_commands_program_chooses_its_image),
        scratch_test(codes_and_commands_are_translated),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
