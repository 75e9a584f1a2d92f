/* SPDX-License-Identifier: Apache-2.0 */
#include <limits.h>

#include "base/auto.h"
#include "base/json.h"
#include "model/field_type.h"
#include "model/request.h"
#include "model_case.h"

static void assert_bad(const char *json, const char *code, const char *message)
{
    struct vial_request *req = NULL;
    struct vial_error err = { 0 };

    if (parse_request(json, &req, &err) == 0) {
        vial_request_free(req);
        fail_msg("accepted: %s", json);
    }
    assert_string_equal(err.message, message);
    assert_string_equal(err.code, code);
}

static struct vial_request *good(const char *json)
{
    struct vial_request *req = NULL;
    struct vial_error err = { 0 };

    if (parse_request(json, &req, &err) < 0)
        fail_msg("%s: %s: %s", json, err.code, err.message);
    return req;
}

static void an_unknown_field_is_refused_with_a_suggestion(void **state)
{
    struct vial_request *req = NULL;
    struct vial_error err = { 0 };

    (void)state;
    assert_int_equal(parse_request("{'timout':5}", &req, &err), -1);
    assert_string_equal(err.code, "VIAL-FIELD");
    assert_string_equal(err.message, "unknown field 'timout' in request");
    assert_string_equal(err.remedy, "did you mean 'timeout'?");
    assert_bad("{'privileged':true}", "VIAL-FIELD",
               "unknown field 'privileged' in request");
}

static void numbers_are_read_in_seconds_bytes_and_cores(void **state)
{
    struct vial_request *req =
        good("{'timeout':2.5,'memory':67108864,'cpus':0.5,'pids':64,'disk':'1.5m'}");

    (void)state;
    assert_int_equal(req->timeout, 2500);
    assert_int_equal(req->memory, 67108864);
    assert_int_equal(req->cpus, 500);
    assert_int_equal(req->pids, 64);
    assert_int_equal(req->disk, 1536 * 1024);
    assert_true(request_has(req, timeout));
    assert_false(request_has(req, tmp));
    vial_request_free(req);
}

static void a_number_out_of_range_names_field_value_and_range(void **state)
{
    static const char *const values[] = { "-1",   "0",  "0.0000001", "1e99", "true",
                                          "null", "[]", "{}",        "-0.0", "1e18" };
    static const char *const shown[] = { "-1",   "0",  "1e-7", "1e99", "true",
                                         "null", "[]", "{}",   "-0.0", "1e18" };

    (void)state;
    for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++) {
        char json[64];
        char message[128];

        (void)snprintf(json, sizeof(json), "{'timeout':%s}", values[i]);
        (void)snprintf(message, sizeof(message),
                       "timeout '%s' is not a duration from 1ms to 24h", shown[i]);
        assert_bad(json, "VIAL-VALUE", message);
    }
    assert_bad("{'timeout':'5x'}", "VIAL-VALUE",
               "timeout '5x' is not a duration from 1ms to 24h");
    assert_bad("{'memory':1}", "VIAL-VALUE", "memory '1' is not a size from 4m to 1t");
    assert_bad("{'memory':67108864.5}", "VIAL-VALUE",
               "memory '67108864.5' is not a size from 4m to 1t");
    assert_bad("{'memory':9223372036854775807}", "VIAL-VALUE",
               "memory '9223372036854775807' is not a size from 4m to 1t");
    assert_bad("{'timeout':9223372036854775807}", "VIAL-VALUE",
               "timeout '9223372036854775807' is not a duration from 1ms to 24h");
    assert_bad("{'cpus':0.001}", "VIAL-VALUE",
               "cpus '0.001' is not a number from 0.01 to 1024");
    assert_bad("{'pids':'64'}", "VIAL-VALUE",
               "pids '64' is not a whole number from 1 to 1000000");
    assert_bad("{'pids':2147483648}", "VIAL-VALUE",
               "pids '2147483648' is not a whole number from 1 to 1000000");
    assert_bad("{'timeout':NaN}", "VIAL-JSON",
               "parse 'request': line 1, column 14: invalid token near 'NaN'");
}

static void a_bad_number_says_which_forms_are_good(void **state)
{
    struct vial_request *req = NULL;
    struct vial_error err = { 0 };

    (void)state;
    assert_int_equal(parse_request("{'memory':'256x'}", &req, &err), -1);
    assert_string_equal(err.remedy,
                        "give bytes, or a number with a unit: '64k', '256m', '1g'");
    assert_int_equal(parse_request("{'cpus':'two'}", &req, &err), -1);
    assert_string_equal(err.remedy, "give a plain number, such as 0.5 or 2");
    assert_int_equal(parse_request("{'pids':-5}", &req, &err), -1);
    assert_string_equal(err.remedy, "give a plain whole number");
}

static void a_bad_choice_names_the_good_ones(void **state)
{
    (void)state;
    assert_bad("{'network':'host'}", "VIAL-VALUE",
               "network 'host' is not one of: none, bridge, gate");
    assert_bad("{'network':1}", "VIAL-VALUE",
               "network '1' is not one of: none, bridge, gate");
    assert_bad("{'end_on':['cpu']}", "VIAL-VALUE",
               "end_on 'cpu' is not one of: pids, disk");
}

static void wrong_types_are_refused(void **state)
{
    (void)state;
    assert_bad("{'code':123}", "VIAL-VALUE", "code '123' is not a string");
    assert_bad("{'code':['a']}", "VIAL-VALUE", "code '[]' is not a string");
    assert_bad("{'language':7}", "VIAL-VALUE", "language '7' is not a string");
    assert_bad("{'args':'a'}", "VIAL-VALUE", "args 'a' is not a list of strings");
    assert_bad("{'args':[1]}", "VIAL-VALUE", "args '1' is not a string");
    assert_bad("{'env':[]}", "VIAL-VALUE",
               "env '[]' is not an object of names and strings");
    assert_bad("{'env':{'A':1}}", "VIAL-VALUE",
               "env '1' is not a string without NUL bytes");
    assert_bad("{'files':{}}", "VIAL-VALUE",
               "files '{}' is not a list of objects with path and content");
    assert_bad("{'files':['a']}", "VIAL-VALUE",
               "files 'a' is not an object with path and content");
    assert_bad("{'mounts':'a'}", "VIAL-VALUE", "mounts 'a' is not a list of mounts");
    assert_bad("[]", "VIAL-VALUE", "request is not an object of fields");
    assert_bad("null", "VIAL-VALUE", "request is not an object of fields");
}

static void nul_bytes_are_kept_in_code_and_refused_elsewhere(void **state)
{
    struct vial_request *req = good("{'code':'a\\u0000b'}");

    (void)state;
    assert_int_equal(req->code.len, 3);
    assert_memory_equal(req->code.data, "a\0b", 3);
    vial_request_free(req);
    assert_bad("{'args':['a\\u0000b']}", "VIAL-VALUE",
               "args 'a\\x00b' is not text without NUL bytes");
    assert_bad("{'env':{'A':'a\\u0000b'}}", "VIAL-VALUE",
               "env 'a\\x00b' is not a string without NUL bytes");
    assert_bad(
        "{'task':'x\\r\\ny'}", "VIAL-VALUE",
        "task 'x\\x0d\\x0ay' is not plain text of 1 to 128 bytes without control "
        "characters");
    assert_bad("{'files':[{'path':'a\\u0000.txt','content':''}]}", "VIAL-VALUE",
               "a file needs 'path', a string without NUL bytes");
}

static void names_have_a_length_and_no_control_characters(void **state)
{
    char json[256];

    (void)state;
    assert_bad("{'language':''}", "VIAL-VALUE",
               "language '' is not plain text of 1 to 64 bytes without control "
               "characters");
    (void)snprintf(json, sizeof(json), "{'session':'%0129d'}", 0);
    assert_bad(
        json, "VIAL-VALUE",
        "session '0000000000000000000000000000000000000000…' is not plain text of "
        "1 to 128 bytes without control characters");
    assert_bad("{'session':'\xc2\x9b'}", "VIAL-VALUE",
               "session '\\u009b' is not plain text of 1 to 128 bytes without control "
               "characters");
}

static void variables_need_a_name_and_the_last_one_wins(void **state)
{
    struct vial_request *req = good("{'env':{'A':'1','B_2':'x=y'}}");
    struct vial_error err = { 0 };

    (void)state;
    assert_int_equal(vial_request_set(req, "env", "A=2", &err), 0);
    assert_int_equal(req->env.count, 2);
    assert_string_equal(req->env.items[0], "A=2");
    assert_string_equal(req->env.items[1], "B_2=x=y");
    assert_int_equal(vial_request_set(req, "env", "A", &err), -1);
    assert_string_equal(err.message, "env 'A' is not NAME=VALUE");
    vial_request_free(req);
    assert_bad("{'env':{'':'x'}}", "VIAL-VALUE", "env name '' is not allowed");
    assert_bad("{'env':{'A=B':'x'}}", "VIAL-VALUE", "env name 'A=B' is not allowed");
    assert_bad("{'env':{'A B':'x'}}", "VIAL-VALUE", "env name 'A B' is not allowed");
    assert_bad("{'env':{'é':'x'}}", "VIAL-VALUE", "env name 'é' is not allowed");
    assert_bad("{'env':{'1X':'x'}}", "VIAL-VALUE", "env name '1X' is not allowed");
}

static void files_bring_text_or_base64_and_a_mode(void **state)
{
    struct vial_request *req =
        good("{'files':[{'path':'a','content':'x'},"
             "{'path':'b','content_base64':'AAE=','mode':'0755'},"
             "{'path':'c','content':''}]}");

    (void)state;
    assert_int_equal(req->files.count, 3);
    assert_int_equal(req->files.items[0].mode, 0644);
    assert_int_equal(req->files.items[1].mode, 0755);
    assert_int_equal(req->files.items[1].content.len, 2);
    assert_memory_equal(req->files.items[1].content.data, "\0\1", 2);
    assert_int_equal(request_amount(req, FIELD_ID_files), 3);
    vial_request_free(req);
}

static void a_json_file_cannot_name_a_host_path(void **state)
{
    (void)state;
    assert_bad("{'files':[{'path':'a','source':'/etc/shadow'}]}", "VIAL-FIELD",
               "unknown field 'source' in files");
}

static void a_file_without_one_content_is_refused(void **state)
{
    (void)state;
    assert_bad("{'files':[{'path':'a'}]}", "VIAL-VALUE",
               "files: a file needs either the text 'content' or 'content_base64'");
    assert_bad("{'files':[{'path':'a','content':'','content_base64':''}]}",
               "VIAL-VALUE",
               "files: a file needs either the text 'content' or 'content_base64'");
    assert_bad("{'files':[{'path':'a','content_base64':'!'}]}", "VIAL-VALUE",
               "files: file content_base64 is not base64");
    assert_bad("{'files':[{'path':'a','content':'','mode':'4755'}]}", "VIAL-VALUE",
               "files: file mode '4755' is not octal text such as \"0644\"");
    assert_bad("{'files':[{'path':'a','content':'','mode':420}]}", "VIAL-VALUE",
               "files: file mode '420' is not octal text such as \"0644\"");
    assert_bad("{'files':[{'path':'a','content':'','mod':'0644'}]}", "VIAL-FIELD",
               "unknown field 'mod' in files");
}

static void text_of_a_file_names_a_host_path_and_may_rename_it(void **state)
{
    struct vial_request *req = good("{}");
    struct vial_error err = { 0 };

    (void)state;
    assert_int_equal(vial_request_set(req, "files", "/d/data.csv", &err), 0);
    assert_int_equal(vial_request_set(req, "files", "x:in/y", &err), 0);
    assert_string_equal(req->files.items[0].source, "/d/data.csv");
    assert_string_equal(req->files.items[0].path, "data.csv");
    assert_string_equal(req->files.items[1].source, "x");
    assert_string_equal(req->files.items[1].path, "in/y");
    assert_int_equal(vial_request_set(req, "files", "dir/", &err), -1);
    assert_string_equal(err.message, "files 'dir/' is not FILE or FILE:PATH");
    assert_int_equal(vial_request_set(req, "files", ":x", &err), -1);
    vial_request_free(req);
}

static void mounts_are_text_or_objects_and_read_only_by_default(void **state)
{
    struct vial_request *req = good(
        "{'mounts':['/a:/b','/a:/c:rw','/a:/d:ro','/x:y:/e',"
        "{'source':'/s','target':'/t','mode':'rw'},{'source':'/s','target':'/u'}]}");

    (void)state;
    assert_int_equal(req->mounts.count, 6);
    assert_string_equal(req->mounts.items[0].source, "/a");
    assert_string_equal(req->mounts.items[0].target, "/b");
    assert_false(req->mounts.items[0].writable);
    assert_true(req->mounts.items[1].writable);
    assert_string_equal(req->mounts.items[1].target, "/c");
    assert_false(req->mounts.items[2].writable);
    assert_string_equal(req->mounts.items[2].target, "/d");
    assert_string_equal(req->mounts.items[3].source, "/x:y");
    assert_true(req->mounts.items[4].writable);
    assert_false(req->mounts.items[5].writable);
    vial_request_free(req);
}

static void a_mount_of_another_form_is_refused(void **state)
{
    static const char form[] = "is not SOURCE:TARGET, SOURCE:TARGET:ro or "
                               "SOURCE:TARGET:rw";
    static const char object[] = "a mount needs 'source' and 'target', and may have "
                                 "'mode', ro or rw";
    char message[160];

    (void)state;
    (void)snprintf(message, sizeof(message), "mounts '/a' %s", form);
    assert_bad("{'mounts':['/a']}", "VIAL-VALUE", message);
    (void)snprintf(message, sizeof(message), "mounts '7' %s", form);
    assert_bad("{'mounts':[7]}", "VIAL-VALUE", message);
    (void)snprintf(message, sizeof(message), "mounts '/a:' %s", form);
    assert_bad("{'mounts':['/a:']}", "VIAL-VALUE", message);
    assert_bad("{'mounts':[{'source':'/a'}]}", "VIAL-VALUE", object);
    assert_bad("{'mounts':[{'source':'/a','target':'/b','mode':'rx'}]}", "VIAL-VALUE",
               object);
    assert_bad("{'mounts':[{'source':'/a','target':'/b','type':'bind'}]}", "VIAL-VALUE",
               object);
    assert_bad("{'mounts':['a:/b']}", "VIAL-VALUE",
               "mount source 'a' is not an absolute path");
}

static void a_list_that_is_too_long_is_refused(void **state)
{
    struct vial_request *req = good("{}");
    struct vial_error err = { 0 };
    int rc = 0;

    (void)state;
    for (int i = 0; i < 64 && rc == 0; i++)
        rc = vial_request_set(req, "mounts", "/a:/b", &err);
    assert_int_equal(rc, 0);
    assert_int_equal(vial_request_set(req, "mounts", "/a:/b", &err), -1);
    assert_string_equal(err.message, "mounts has more than 64 entries");
    for (int i = 0; i < 10000 && rc == 0; i++)
        rc = vial_request_set(req, "files", "a", &err);
    assert_int_equal(rc, 0);
    assert_int_equal(vial_request_set(req, "files", "a", &err), -1);
    assert_string_equal(err.message, "files has more than 10000 entries");
    vial_request_free(req);
}

static void text_sets_every_kind_of_field(void **state)
{
    struct vial_request *req = NULL;
    struct vial_error err = { 0 };

    (void)state;
    assert_int_equal(vial_request_new(&req, &err), 0);
    assert_int_equal(vial_request_set(req, "timeout", "500ms", &err), 0);
    assert_int_equal(vial_request_set(req, "network", "bridge", &err), 0);
    assert_int_equal(vial_request_set(req, "network", "none", &err), 0);
    assert_int_equal(vial_request_set(req, "language", "python", &err), 0);
    assert_int_equal(vial_request_set(req, "language", "bash", &err), 0);
    assert_int_equal(vial_request_set(req, "pids", "9", &err), 0);
    assert_int_equal(vial_request_set(req, "require", "pid", &err), 0);
    assert_int_equal(vial_request_set(req, "require", "net", &err), 0);
    assert_int_equal(vial_request_set_bytes(req, "code", "a\0b", 3, &err), 0);
    assert_int_equal(req->timeout, 500);
    assert_int_equal(req->network, 0);
    assert_string_equal(req->language, "bash");
    assert_int_equal(req->pids, 9);
    assert_int_equal(req->require.count, 2);
    assert_int_equal(req->code.len, 3);
    assert_int_equal(vial_request_set(req, "timeot", "1", &err), -1);
    assert_string_equal(err.message, "unknown field 'timeot' in request");
    assert_string_equal(err.remedy, "did you mean 'timeout'?");
    assert_int_equal(vial_request_set(req, "zzz", "1", &err), -1);
    assert_int_equal(vial_request_set(req, "pids", "x", &err), -1);
    assert_int_equal(vial_request_set_bytes(req, "timeout", "1\0", 2, &err), -1);
    assert_string_equal(err.message,
                        "timeout '1\\x00' is not a duration from 1ms to 24h");
    assert_int_equal(vial_request_set_bytes(req, "env", "A=1\0", 4, &err), -1);
    assert_int_equal(vial_request_set_bytes(req, "files", "A\0", 2, &err), -1);
    vial_request_free(req);
    vial_request_free(NULL);
}

static void filling_copies_only_what_is_missing(void **state)
{
    struct vial_request *from =
        good("{'timeout':5,'memory':'64m','code':'x','args':['a'],'env':{'A':'1'},"
             "'files':[{'path':'f','content':'c'},{'path':'g','content':'c'},"
             "{'path':'h','content':'c'}],"
             "'mounts':['/a:/b:rw'],'language':'sh','network':'bridge'}");
    auto_request struct vial_request req = { 0 };
    struct vial_error err = { 0 };

    (void)state;
    from->builtin = FIELD_BIT(FIELD_ID_memory);
    assert_int_equal(vial_request_set(from, "files", "/host:z", &err), 0);
    assert_int_equal(vial_request_set(&req, "timeout", "9", &err), 0);
    assert_int_equal(request_fill(&req, from, &err), 0);
    vial_request_free(from);
    assert_int_equal(req.timeout, 9000);
    assert_int_equal(req.memory, 64 << 20);
    assert_true(req.builtin == FIELD_BIT(FIELD_ID_memory));
    assert_string_equal(req.code.data, "x");
    assert_string_equal(req.args.items[0], "a");
    assert_string_equal(req.env.items[0], "A=1");
    assert_int_equal(req.files.count, 4);
    assert_string_equal(req.files.items[2].path, "h");
    assert_string_equal(req.files.items[3].source, "/host");
    assert_true(req.mounts.items[0].writable);
    assert_string_equal(req.language, "sh");
    assert_int_equal(req.network, 1);
    assert_int_equal(vial_request_set(&req, "files", "i", &err), 0);
    assert_int_equal(vial_request_set(&req, "memory", "65m", &err), 0);
    assert_true(req.builtin == 0);
}

static char *shown(const struct vial_request *req, enum field_id id)
{
    auto_json json_t *json = request_field_json(req, id);

    return json ? json_dumps(json, JSON_ENCODE_ANY | JSON_REAL_PRECISION(15)) : NULL;
}

static void assert_shown(const struct vial_request *req, enum field_id id,
                         const char *text)
{
    auto_free char *json = shown(req, id);

    assert_string_equal(json, text);
}

static void values_are_shown_as_they_are_written(void **state)
{
    struct vial_request *req = good(
        "{'timeout':90,'memory':'64m','cpus':0.5,'pids':3,'code':'x','args':['a'],"
        "'env':{'A':'1'},'files':[{'path':'f','content':'c'}],'mounts':['/a:/b:rw'],"
        "'language':'sh','network':'bridge'}");

    (void)state;
    assert_shown(req, FIELD_ID_timeout, "\"90s\"");
    assert_shown(req, FIELD_ID_memory, "\"64m\"");
    assert_shown(req, FIELD_ID_cpus, "0.5");
    assert_shown(req, FIELD_ID_pids, "3");
    assert_shown(req, FIELD_ID_code, "\"x\"");
    assert_shown(req, FIELD_ID_args, "[\"a\"]");
    assert_shown(req, FIELD_ID_env, "{\"A\": \"1\"}");
    assert_shown(req, FIELD_ID_files, "[{\"path\": \"f\", \"bytes\": 1}]");
    assert_shown(req, FIELD_ID_mounts, "[\"/a:/b:rw\"]");
    assert_shown(req, FIELD_ID_language, "\"sh\"");
    assert_shown(req, FIELD_ID_network, "\"bridge\"");
    assert_null(shown(req, FIELD_ID_stdin));
    vial_request_free(req);
}

static void a_switch_is_true_or_false(void **state)
{
    static const struct field f = { .name = "switch", .type = FIELD_BOOL };
    const struct field_ops *kind = field_ops_of(FIELD_BOOL);
    struct vial_error err = { 0 };
    json_t *json = NULL;
    bool copy = false;
    bool on = false;

    (void)state;
    assert_int_equal(kind->parse(&f, &on, "true", 4, &err), 0);
    assert_true(on);
    assert_int_equal(kind->copy(&copy, &on), 0);
    json = kind->json(&f, &copy);
    assert_true(json_is_true(json));
    assert_int_equal(kind->decode(&f, &on, json_false(), &err), 0);
    assert_false(on);
    kind->done(&copy);
    assert_false(copy);
    assert_int_equal(kind->parse(&f, &on, "yes", 3, &err), -1);
    assert_string_equal(err.message, "switch 'yes' is not true or false");
    assert_int_equal(kind->decode(&f, &on, json_null(), &err), -1);
    assert_string_equal(err.message, "switch 'null' is not true or false");
}

static void duplicate_keys_and_deep_nesting_are_refused(void **state)
{
    struct vial_request *req = NULL;
    struct vial_error err = { 0 };

    (void)state;
    assert_int_equal(parse_request("{'code':'a','code':'b'}", &req, &err), -1);
    assert_string_equal(err.code, "VIAL-JSON");
    assert_int_equal(parse_request("{}x", &req, &err), -1);
    assert_string_equal(err.code, "VIAL-JSON");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_unknown_field_is_refused_with_a_suggestion),
        cmocka_unit_test(numbers_are_read_in_seconds_bytes_and_cores),
        cmocka_unit_test(a_number_out_of_range_names_field_value_and_range),
        cmocka_unit_test(a_bad_number_says_which_forms_are_good),
        cmocka_unit_test(a_bad_choice_names_the_good_ones),
        cmocka_unit_test(wrong_types_are_refused),
        cmocka_unit_test(nul_bytes_are_kept_in_code_and_refused_elsewhere),
        cmocka_unit_test(names_have_a_length_and_no_control_characters),
        cmocka_unit_test(variables_need_a_name_and_the_last_one_wins),
        cmocka_unit_test(files_bring_text_or_base64_and_a_mode),
        cmocka_unit_test(a_json_file_cannot_name_a_host_path),
        cmocka_unit_test(a_file_without_one_content_is_refused),
        cmocka_unit_test(text_of_a_file_names_a_host_path_and_may_rename_it),
        cmocka_unit_test(mounts_are_text_or_objects_and_read_only_by_default),
        cmocka_unit_test(a_mount_of_another_form_is_refused),
        cmocka_unit_test(a_list_that_is_too_long_is_refused),
        cmocka_unit_test(text_sets_every_kind_of_field),
        cmocka_unit_test(filling_copies_only_what_is_missing),
        cmocka_unit_test(values_are_shown_as_they_are_written),
        cmocka_unit_test(a_switch_is_true_or_false),
        cmocka_unit_test(duplicate_keys_and_deep_nesting_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
