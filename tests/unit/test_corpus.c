/* SPDX-License-Identifier: Apache-2.0 */

/* Every input that a fuzz target starts from, or once failed on, as a test. */

#include <dirent.h>
#include <stdbool.h>
#include <stdlib.h>

#include "base/auto.h"
#include "base/io.h"
#include "base/path.h"
#include "check.h"

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
/* NOLINTEND(bugprone-suspicious-include) */

typedef int target_fn(const uint8_t *data, size_t len);

static void replay_file(const char *path, target_fn *target)
{
    struct blob input = { 0 };
    struct vial_error err = { 0 };
    uint8_t *exact; /* without the NUL of a blob, so that an overrun is seen */

    if (io_read_file(path, 1 << 20, &input, &err) < 0)
        fail_msg("%s", check_text(&err));
    exact = malloc(input.len > 0 ? input.len : 1);
    assert_non_null(exact);
    memcpy(exact, input.data, input.len);
    assert_int_equal(target(exact, input.len), 0);
    free(exact);
    blob_done(&input);
}

static void replay(const char *name, target_fn *target)
{
    const char *source = getenv("VIAL_TEST_SOURCE");
    auto_free char *corpora = path_join(source ? source : ".", "tests/fuzz/corpus");
    auto_free char *dir = path_join(corpora, name);
    DIR *list = opendir(dir);
    const struct dirent *entry;
    unsigned count = 0;

    if (!list)
        fail_msg("no corpus at '%s'", dir);
    while ((entry = readdir(list))) {
        auto_free char *path = path_join(dir, entry->d_name);

        if (entry->d_name[0] == '.')
            continue;
        replay_file(path, target);
        count++;
    }
    (void)closedir(list);
    assert_true(count > 0);
}

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
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
