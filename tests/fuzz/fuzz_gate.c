/* SPDX-License-Identifier: Apache-2.0 */
/* The first bytes of a connection through a gate. What was decided is not decided
 * otherwise when more of them come. */
#include "fuzz.h"
#include "gate/gate.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    static const uint16_t ports[] = { 443, 80, 9000, 8443 };
    enum first_verdict verdict = FIRST_MORE;
    uint16_t port = len ? ports[data[0] % 4] : 80;
    size_t step = len > 64 ? len / 32 : 1;

    for (size_t end = 2; end <= len; end += step) {
        enum first_verdict now =
            first_bytes_judge(data + 1, end - 1, false, "a.test", port);

        MUST(verdict == FIRST_MORE || now == verdict);
        verdict = now;
    }
    return 0;
}
