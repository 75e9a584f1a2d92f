/* SPDX-License-Identifier: Apache-2.0 */
#include "base/unit.h"
#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

static void fuzz_one(const char *text, int (*parse)(const char *, int64_t *),
                     void (*write)(struct str *, int64_t))
{
    auto_str struct str s = { 0 };
    int64_t value = -1, again = -1;

    if (parse(text, &value) < 0) {
        MUST(value == -1);
        return;
    }
    MUST(value >= 0);
    write(&s, value);
    MUST(parse(s.data, &again) == 0 && again == value);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    struct blob text = { 0 };
    int64_t count;

    MUST(blob_set(&text, data, len) == 0);
    fuzz_one(text.data, unit_parse_ms, unit_write_ms);
    fuzz_one(text.data, unit_parse_bytes, unit_write_bytes);
    fuzz_one(text.data, unit_parse_milli, unit_write_milli);
    MUST(unit_parse_count(text.data, &count) < 0 || count >= 0);
    blob_done(&text);
    return 0;
}
