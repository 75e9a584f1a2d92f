/* SPDX-License-Identifier: Apache-2.0 */
#include "base/json.h"
#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

/* What is accepted can be written, and reads back as the same value. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    auto_json json_t *value = NULL, *again = NULL;
    auto_free char *text = NULL;
    struct vial_error err = { 0 };

    if (json_parse((const char *)data, len, "input", &value, &err) < 0) {
        MUST(!value && strncmp(err.code, "VIAL-", 5) == 0 && err.message[0]);
        return 0;
    }
    text = json_dumps(value, JSON_ENCODE_ANY);
    MUST(text);
    MUST(json_parse(text, strlen(text), "output", &again, &err) == 0);
    MUST(json_equal(value, again));
    return 0;
}
