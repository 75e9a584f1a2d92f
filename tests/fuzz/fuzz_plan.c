/* SPDX-License-Identifier: Apache-2.0 */
#include "fuzz.h"
#include "keeper/talk/codec.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

/* A plan that is taken is the bytes it was written in: there is one way to say it. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    struct unpack u = { .data = data, .len = len };
    struct plan *plan = NULL;
    struct vial_error err = { 0 };
    struct pack again = { 0 };

    if (plan_unpack(&u, &plan, &err) < 0) {
        MUST(strncmp(err.code, "VIAL-", 5) == 0 && err.message[0]);
        return 0;
    }
    MUST(plan->driver && plan->workdir && plan->hostname && plan->seccomp);
    MUST(plan->mount_count <= CODEC_MOUNTS && plan->require.count <= CODEC_REQUIRE);
    MUST(plan->limits.wall_ms > 0 && plan->limits.memory_bytes >= 0);
    plan_pack(&again, plan);
    MUST(!again.bad && again.len == len && memcmp(again.data, data, len) == 0);
    pack_done(&again);
    plan_free(plan);
    return 0;
}
