/* SPDX-License-Identifier: Apache-2.0 */

/* A front that was taken over, as fuzz_keeper.c plays it. */

#include "replay.h"

/* NOLINTBEGIN(bugprone-suspicious-include) */
#define LLVMFuzzerTestOneInput replay_keeper
#include "../fuzz/fuzz_keeper.c"
#undef LLVMFuzzerTestOneInput
/* NOLINTEND(bugprone-suspicious-include) */

static void the_keeper_corpus_holds(void **state)
{
    (void)state;
    replay("keeper", replay_keeper);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(the_keeper_corpus_holds) };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
