/* SPDX-License-Identifier: Apache-2.0 */
#include <signal.h>
#include <stdlib.h>

#include "base/fail.h"
#include "base/str.h"
#include "check.h"
#include "model/result.h"

static void put_stream(struct vial_stream *stream, const char *data, size_t len)
{
    stream->data = malloc(len + 1);
    assert_non_null(stream->data);
    memcpy(stream->data, data, len);
    stream->data[len] = '\0';
    stream->len = len;
    stream->total_bytes = len;
}

static void assert_json(const struct vial_result *result, bool raw, const char *part)
{
    char *json = vial_result_json(result, raw);

    assert_non_null(json);
    if (!strstr(json, part))
        fail_msg("'%s' is not in %s", part, json);
    free(json);
}

static void every_verdict_has_its_name(void **state)
{
    (void)state;
    assert_string_equal(vial_verdict_name(VIAL_OK), "ok");
    assert_string_equal(vial_verdict_name(VIAL_CPU_TIMEOUT), "cpu_timeout");
    assert_string_equal(vial_verdict_name(VIAL_OUTPUT_LIMIT), "output_limit");
    assert_string_equal(vial_verdict_name(VIAL_FAILED), "failed");
    assert_string_equal(vial_verdict_name((enum vial_verdict)99), "failed");
}

static void signals_have_short_names(void **state)
{
    (void)state;
    assert_string_equal(vial_signal_name(SIGKILL), "KILL");
    assert_string_equal(vial_signal_name(SIGSEGV), "SEGV");
    assert_null(vial_signal_name(0));
    assert_null(vial_signal_name(999));
}

static void a_new_result_claims_nothing(void **state)
{
    struct vial_result *result = result_new();

    (void)state;
    assert_int_equal(result->verdict, VIAL_FAILED);
    assert_int_equal(result->exit_code, -1);
    assert_json(result, false,
                "\"exit_code\": null, \"signal\": null, \"stdout\": \"\"");
    assert_json(result, false,
                "\"isolation\": {\"level\": \"none\", \"layers\": [], \"limits_by\": "
                "\"none\"}");
    assert_json(
        result, false,
        "\"driver\": null, \"vessel_id\": null, \"container_id\": null, \"name\": "
        "null, \"image\": null");
    assert_json(result, false, "\"error\": null");
    vial_result_free(result);
    vial_result_free(NULL);
}

static void numbers_are_printed_as_they_were_meant(void **state)
{
    struct vial_result *result = result_new();

    (void)state;
    result->verdict = VIAL_OK;
    result->exit_code = 0;
    result->duration_ms = 3.1;
    result->timing.run_ms = 2.60049;
    result->timing.open_ms = -1;
    result->usage.memory_peak_bytes = UINT64_MAX;
    assert_json(result, false,
                "\"verdict\": \"ok\", \"stage\": \"run\", \"exit_code\": 0");
    assert_json(result, false, "\"duration_ms\": 3.1,");
    assert_json(result, false, "\"open_ms\": 0.0, \"run_ms\": 2.6,");
    assert_json(result, false, "\"memory_peak_bytes\": 9223372036854775807");
    vial_result_free(result);
}

static void a_stream_that_is_not_utf8_also_comes_as_base64(void **state)
{
    struct vial_result *result = result_new();

    (void)state;
    put_stream(&result->out, "a\xff\0b", 4);
    put_stream(&result->err, "fine", 4);
    assert_json(result, false,
                "\"stdout\": \"a\xef\xbf\xbd\\u0000b\", \"stderr\": \"fine\"");
    assert_json(result, false, "\"stdout_base64\": \"Yf8AYg==\", \"duration_ms\"");
    assert_json(result, true, "\"stderr_base64\": \"ZmluZQ==\"");
    vial_result_free(result);
}

static void signals_and_limits_are_named(void **state)
{
    struct vial_result *result = result_new();

    (void)state;
    result->signal = SIGSEGV;
    result->limits_hit = VIAL_LIMIT_MEMORY | VIAL_LIMIT_TIME;
    assert_json(result, false, "\"signal\": \"SEGV\"");
    assert_json(result, false, "\"limits_hit\": [\"memory\", \"time\"]");
    result->signal = 40;
    assert_json(result, false, "\"signal\": \"40\"");
    vial_result_free(result);
}

static void files_carry_text_bytes_or_an_error(void **state)
{
    struct vial_result *result = result_new();

    (void)state;
    result->files = calloc(3, sizeof(*result->files));
    assert_non_null(result->files);
    result->file_count = 3;
    for (size_t i = 0; i < 3; i++)
        result->files[i].path = strdup("p");
    result->files[0].data = strdup("text");
    result->files[0].len = 4;
    result->files[1].data = strdup("\xff");
    result->files[1].len = 1;
    (void)fail(&result->files[2].error, VIAL_E_NO_FILE, "no");
    assert_json(
        result, false,
        "{\"path\": \"p\", \"bytes\": 4, \"content\": \"text\", \"error\": null}");
    assert_json(result, false,
                "{\"path\": \"p\", \"bytes\": 1, \"content\": null, "
                "\"content_base64\": \"/w==\", \"error\": null}");
    assert_json(
        result, false,
        "\"content\": null, \"error\": {\"code\": \"VIAL-NO-FILE\", \"message\": "
        "\"no\", \"cause\": \"\", \"remedy\": \"\"}}");
    vial_result_free(result);
}

static void layers_are_listed_and_freed(void **state)
{
    struct vial_result *result = result_new();

    (void)state;
    result->layers = calloc(3, sizeof(*result->layers));
    assert_non_null(result->layers);
    result->layers[0] = strdup("pid");
    result->layers[1] = strdup("net");
    result->image = strdup("i");
    assert_json(result, false, "\"layers\": [\"pid\", \"net\"]");
    assert_json(result, false, "\"image\": \"i\"");
    vial_result_free(result);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_verdict_has_its_name),
        cmocka_unit_test(signals_have_short_names),
        cmocka_unit_test(a_new_result_claims_nothing),
        cmocka_unit_test(numbers_are_printed_as_they_were_meant),
        cmocka_unit_test(a_stream_that_is_not_utf8_also_comes_as_base64),
        cmocka_unit_test(signals_and_limits_are_named),
        cmocka_unit_test(files_carry_text_bytes_or_an_error),
        cmocka_unit_test(layers_are_listed_and_freed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
