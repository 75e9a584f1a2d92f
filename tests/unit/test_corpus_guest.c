/* SPDX-License-Identifier: Apache-2.0 */

/* A guest that was taken over, as fuzz_guest.c plays it. */

#include "replay.h"

/* NOLINTBEGIN(bugprone-suspicious-include) */
#define LLVMFuzzerTestOneInput replay_guest
#include "../fuzz/fuzz_guest.c"
#undef LLVMFuzzerTestOneInput
/* NOLINTEND(bugprone-suspicious-include) */

static void the_guest_corpus_holds(void **state)
{
    (void)state;
    replay("guest", replay_guest);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(the_guest_corpus_holds) };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
