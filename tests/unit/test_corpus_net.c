/* SPDX-License-Identifier: Apache-2.0 */

/* What a vessel says to its gate and to a secret's host, and what that answers, as
 * fuzz_gate.c and fuzz_secrets.c play them. */

#include "replay.h"

/* NOLINTBEGIN(bugprone-suspicious-include) */
#define LLVMFuzzerTestOneInput replay_gate
#include "../fuzz/fuzz_gate.c"
#undef LLVMFuzzerTestOneInput
#define LLVMFuzzerTestOneInput replay_secrets
#include "../fuzz/fuzz_secrets.c"
#undef LLVMFuzzerTestOneInput
/* NOLINTEND(bugprone-suspicious-include) */

static void the_gate_corpus_holds(void **state)
{
    (void)state;
    replay("gate", replay_gate);
}

static void the_secrets_corpus_holds(void **state)
{
    (void)state;
    replay("secrets", replay_secrets);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_gate_corpus_holds),
        cmocka_unit_test(the_secrets_corpus_holds),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
