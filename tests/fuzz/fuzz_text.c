/* SPDX-License-Identifier: Apache-2.0 */
#include "base/text.h"
#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

static void fuzz_repair(const char *data, size_t len)
{
    auto_str struct str s = { 0 };

    text_repair(&s, data, len);
    MUST(text_is_utf8(s.data, s.len));
    if (text_is_utf8(data, len))
        MUST(s.len == len && memcmp(s.data, data, len) == 0);
}

static void fuzz_escape(const char *data, size_t len, size_t step, struct str *out)
{
    struct text_safe safe = { 0 };

    for (size_t at = 0; at < len; at += step)
        text_safe(&safe, out, data + at, len - at < step ? len - at : step);
    text_safe_end(&safe, out);
    str_add(out, "", 0);
}

/* However it is cut, the same comes out, and nothing of it moves a terminal. */
static void fuzz_safe(const char *data, size_t len)
{
    auto_str struct str whole = { 0 };

    fuzz_escape(data, len, len + 1, &whole);
    MUST(text_is_utf8(whole.data, whole.len));
    for (size_t i = 0; i < whole.len; i++) {
        unsigned char c = (unsigned char)whole.data[i];

        MUST(c >= 0x20 || c == '\t' || c == '\n' ||
             (c == '\r' && whole.data[i + 1] == '\n'));
        MUST(c != 0x7F);
    }
    for (size_t step = 1; step < 6; step++) {
        auto_str struct str cut = { 0 };

        fuzz_escape(data, len, step, &cut);
        MUST(cut.len == whole.len && memcmp(cut.data, whole.data, cut.len) == 0);
    }
}

/* One text for any bytes, and no second text for the same bytes. */
static void fuzz_base64(const char *data, size_t len)
{
    auto_str struct str s = { 0 }, again = { 0 };
    struct blob b = { 0 };

    text_base64(&s, data, len);
    MUST(text_unbase64(s.data, s.len, &b) == 0);
    MUST(b.len == len && memcmp(b.data, data, len) == 0);
    if (text_unbase64(data, len, &b) == 0) {
        text_base64(&again, b.data, b.len);
        MUST(again.len == len && memcmp(again.data, data, len) == 0);
    }
    blob_done(&b);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    static const char *const names[] = { "timeout", "memory", "network", NULL };
    struct blob word = { 0 };

    MUST(blob_set(&word, data, len) == 0);
    fuzz_repair(word.data, len);
    fuzz_safe(word.data, len);
    fuzz_base64(word.data, len);
    (void)text_suggest(word.data, names);
    blob_done(&word);
    return 0;
}
