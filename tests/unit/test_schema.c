/* SPDX-License-Identifier: Apache-2.0 */
#include <sys/wait.h>

#include "base/fail.h"
#include "model/result.h"
#include "model_case.h"
#include "settings/schema.h"

static void write_json(struct scratch *s, const char *name, json_t *json)
{
    assert_non_null(json);
    assert_int_equal(json_dump_file(json, scratch_path(s, name), 0), 0);
    json_decref(json);
}

static int python(const char *script, const char *dir)
{
    char program[] = "/usr/bin/python3";
    char option[] = "-c";
    char *const argv[] = { program, option, (char *)(uintptr_t)script,
                           (char *)(uintptr_t)dir, NULL };
    pid_t pid = fork();
    int status = 0;

    assert_true(pid >= 0);
    if (pid == 0) {
        (void)execv(program, argv);
        _exit(127);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* An independent validator says whether schema.json is one, and value.json
 * fits it: 0 yes, 1 no, 3 there is no validator here. */
static int judge(struct scratch *s)
{
    static const char script[] =
        "import json, sys\n"
        "try:\n"
        "    from jsonschema import Draft202012Validator as V\n"
        "except ImportError:\n"
        "    sys.exit(3)\n"
        "read = lambda n: json.load(open(sys.argv[1] + '/' + n))\n"
        "V.check_schema(read('schema.json'))\n"
        "errors = list(V(read('schema.json')).iter_errors(read('value.json')))\n"
        "sys.exit(1 if errors else 0)\n";
    int rc = python(script, s->dir);

    if (rc == 3 || rc == 127) {
        print_message("skipped: python3-jsonschema is not installed\n");
        skip();
    }
    return rc;
}

static json_t *json_of(const char *text)
{
    char *copy = strdup(text);
    json_t *json;

    assert_non_null(copy);
    for (char *at = copy; *at; at++)
        if (*at == '\'')
            *at = '"';
    json = json_loads(copy, 0, NULL);
    free(copy);
    return json;
}

static struct vial_result *full_result(void)
{
    struct vial_result *r = result_new();

    assert_non_null(r);
    r->files = calloc(2, sizeof(*r->files));
    assert_non_null(r->files);
    r->file_count = 2;
    r->files[0].path = strdup("a");
    r->files[0].data = strdup("\xff");
    r->files[0].len = 1;
    r->files[1].path = strdup("b");
    (void)fail(&r->files[1].error, VIAL_E_NO_FILE, "no");
    (void)fail(&r->error, VIAL_E_OPEN, "no");
    r->limits_hit = VIAL_LIMIT_PIDS;
    r->signal = 9;
    r->exit_code = 1;
    return r;
}

static void every_result_fits_the_result_schema(void **state)
{
    struct scratch *s = *state;

    for (int raw = 0; raw < 2; raw++) {
        struct vial_result *r = raw ? full_result() : result_new();

        write_json(s, "schema.json", schema_result());
        write_json(s, "value.json", result_tree(r, raw, NULL));
        vial_result_free(r);
        assert_int_equal(judge(s), 0);
    }
}

static void a_result_with_another_member_does_not_fit(void **state)
{
    struct scratch *s = *state;
    struct vial_result *r = result_new();
    json_t *json = result_tree(r, false, NULL);

    vial_result_free(r);
    (void)json_object_set_new(json, "more", json_true());
    write_json(s, "schema.json", schema_result());
    write_json(s, "value.json", json);
    assert_int_equal(judge(s), 1);
}

static void the_request_schema_agrees_with_the_decoder(void **state)
{
    static const char *const values[] = {
        "{'language':'python','code':'x','timeout':'5s','memory':'1.5g','cpus':0.5}",
        "{'command':['ls'],'timeout':2.5,'memory':67108864,'cpus':'2','pids':3}",
        "{'files':[{'path':'a','content':''},{'path':'b','content_base64':'','mode':"
        "'0755'}]}",
        "{'mounts':['/a:/b:rw',{'source':'/a','target':'/b'}],'env':{'A':'1'}}",
        "{'network':'none','end_on':['pids'],'output_keep':'head'}",
        "{'timout':1}",
        "{'timeout':-1}",
        "{'timeout':'5x'}",
        "{'timeout':true}",
        "{'timeout':1e99}",
        "{'memory':1}",
        "{'pids':'3'}",
        "{'pids':0}",
        "{'network':'host'}",
        "{'env':{'1A':'x'}}",
        "{'env':{'A':1}}",
        "{'files':[{'path':'a'}]}",
        "{'files':[{'path':'a','content':'','source':'/etc/passwd'}]}",
        "{'mounts':[{'source':'/a'}]}",
        "{'end_on':['cpu']}",
        "{'language':''}",
        "{'code':1}",
    };
    struct scratch *s = *state;

    write_json(s, "schema.json", schema_request());
    for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++) {
        struct vial_request *req = NULL;
        struct vial_error err = { 0 };
        int decoded = parse_request(values[i], &req, &err);

        vial_request_free(decoded == 0 ? req : NULL);
        write_json(s, "value.json", json_of(values[i]));
        if (judge(s) != (decoded == 0 ? 0 : 1))
            fail_msg("schema and decoder disagree on %s", values[i]);
    }
}

static void the_settings_schema_fits_a_settings_file(void **state)
{
    struct scratch *s = *state;

    write_json(s, "schema.json", schema_settings());
    write_json(s, "value.json",
               json_of("{'defaults':{'timeout':5,'network':'none'},"
                       "'policy':{'max_timeout':'1h','max_code':'1m',"
                       "'networks':['none']},'languages':'x.yaml'}"));
    assert_int_equal(judge(s), 0);
    write_json(s, "value.json", json_of("{'defaults':{'code':'x'}}"));
    assert_int_equal(judge(s), 1);
    write_json(s, "value.json", json_of("{'policy':{'max_timeout':'soon'}}"));
    assert_int_equal(judge(s), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        scratch_test(every_result_fits_the_result_schema),
        scratch_test(a_result_with_another_member_does_not_fit),
        scratch_test(the_request_schema_agrees_with_the_decoder),
        scratch_test(the_settings_schema_fits_a_settings_file),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
