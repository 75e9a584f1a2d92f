/* SPDX-License-Identifier: Apache-2.0 */
#include "fuzz_value.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    return fuzz_value(json_parse, data, len);
}
