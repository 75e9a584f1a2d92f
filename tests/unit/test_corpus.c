/* SPDX-License-Identifier: Apache-2.0 */

/* Every input that a fuzz target starts from, or once failed on, as a test. */

#include "replay.h"

/* NOLINTBEGIN(bugprone-suspicious-include) */
#define LLVMFuzzerTestOneInput replay_json
#include "../fuzz/fuzz_json.c"
#undef LLVMFuzzerTestOneInput
#define LLVMFuzzerTestOneInput replay_yaml
#include "../fuzz/fuzz_yaml.c"
#undef LLVMFuzzerTestOneInput
#define LLVMFuzzerTestOneInput replay_text
#include "../fuzz/fuzz_text.c"
#undef LLVMFuzzerTestOneInput
#define LLVMFuzzerTestOneInput replay_unit
#include "../fuzz/fuzz_unit.c"
#undef LLVMFuzzerTestOneInput
#define LLVMFuzzerTestOneInput replay_wire
#include "../fuzz/fuzz_wire.c"
#undef LLVMFuzzerTestOneInput
#define LLVMFuzzerTestOneInput replay_request
#include "../fuzz/fuzz_request.c"
#undef LLVMFuzzerTestOneInput
#define LLVMFuzzerTestOneInput replay_http
#include "../fuzz/fuzz_http.c"
#undef LLVMFuzzerTestOneInput
#define LLVMFuzzerTestOneInput replay_plan
#include "../fuzz/fuzz_plan.c"
#undef LLVMFuzzerTestOneInput
#define LLVMFuzzerTestOneInput replay_mcp
#include "../fuzz/fuzz_mcp.c"
#undef LLVMFuzzerTestOneInput
#define LLVMFuzzerTestOneInput replay_template
#include "../fuzz/fuzz_template.c"
#undef LLVMFuzzerTestOneInput
#define LLVMFuzzerTestOneInput replay_protobuf
#include "../fuzz/fuzz_protobuf.c"
#undef LLVMFuzzerTestOneInput
#define LLVMFuzzerTestOneInput replay_service
#include "../fuzz/fuzz_service.c"
#undef LLVMFuzzerTestOneInput
/* NOLINTEND(bugprone-suspicious-include) */

static void the_json_corpus_holds(void **state)
{
    (void)state;
    replay("json", replay_json);
}

static void the_yaml_corpus_holds(void **state)
{
    (void)state;
    replay("yaml", replay_yaml);
}

static void the_text_corpus_holds(void **state)
{
    (void)state;
    replay("text", replay_text);
}

static void the_unit_corpus_holds(void **state)
{
    (void)state;
    replay("unit", replay_unit);
}

static void the_wire_corpus_holds(void **state)
{
    (void)state;
    replay("wire", replay_wire);
}

static void the_request_corpus_holds(void **state)
{
    (void)state;
    replay("request", replay_request);
}

static void the_http_corpus_holds(void **state)
{
    (void)state;
    replay("http", replay_http);
}

static void the_plan_corpus_holds(void **state)
{
    (void)state;
    replay("plan", replay_plan);
}

static void the_mcp_corpus_holds(void **state)
{
    (void)state;
    replay("mcp", replay_mcp);
}

static void the_template_corpus_holds(void **state)
{
    (void)state;
    replay("template", replay_template);
}

static void the_protobuf_corpus_holds(void **state)
{
    (void)state;
    replay("protobuf", replay_protobuf);
}

static void the_service_corpus_holds(void **state)
{
    (void)state;
    replay("service", replay_service);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_json_corpus_holds),
        cmocka_unit_test(the_yaml_corpus_holds),
        cmocka_unit_test(the_text_corpus_holds),
        cmocka_unit_test(the_unit_corpus_holds),
        cmocka_unit_test(the_wire_corpus_holds),
        cmocka_unit_test(the_request_corpus_holds),
        cmocka_unit_test(the_http_corpus_holds),
        cmocka_unit_test(the_plan_corpus_holds),
        cmocka_unit_test(the_mcp_corpus_holds),
        cmocka_unit_test(the_template_corpus_holds),
        cmocka_unit_test(the_protobuf_corpus_holds),
        cmocka_unit_test(the_service_corpus_holds),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
