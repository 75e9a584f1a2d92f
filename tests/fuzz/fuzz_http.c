/* SPDX-License-Identifier: Apache-2.0 */
#include "base/str.h"
#include "driver/docker/mux.h"
#include "fuzz.h"
#include "http/parse.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

static int keep_body(void *context, const char *data, size_t len,
                     struct vial_error *err)
{
    (void)err;
    str_add(context, data, len);
    return 0;
}

/* What an answer comes to when it arrives in pieces of STEP bytes. */
static enum parse_state fuzz_answer(const char *data, size_t len, size_t step,
                                    struct str *body)
{
    struct parse p = { 0 };
    enum parse_state state = PARSE_HEAD;

    for (size_t at = 0; at < len && p.state != PARSE_DONE; at += step) {
        size_t n = len - at < step ? len - at : step;
        ssize_t used = parse_feed(&p, data + at, n, keep_body, body, NULL);

        if (used < 0)
            break;
        MUST((size_t)used == n || p.state == PARSE_DONE);
    }
    state = p.state;
    MUST(state == PARSE_HEAD || (p.status >= 100 && p.status <= 999));
    parse_done(&p);
    return state;
}

static size_t fuzz_strip(const uint8_t *data, size_t len, size_t step, uint8_t *out)
{
    struct mux m = { 0 };
    size_t kept = 0;

    for (size_t at = 0; at < len; at += step) {
        size_t n = len - at < step ? len - at : step;
        ssize_t got = 0;

        memcpy(out + kept, data + at, n);
        got = mux_strip(&m, out + kept, n);
        if (got < 0)
            break;
        MUST((size_t)got <= n);
        kept += (size_t)got;
    }
    return kept;
}

/* However it is cut, the same comes out. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    auto_str struct str whole = { 0 };
    auto_str struct str cut = { 0 };
    const char *text = (const char *)data;
    uint8_t *out = malloc(len + 1);
    enum parse_state end = fuzz_answer(text, len, len + 1, &whole);

    MUST(out);
    if (end == PARSE_DONE) {
        MUST(fuzz_answer(text, len, 1, &cut) == PARSE_DONE);
        MUST(cut.len == whole.len);
        MUST(cut.len == 0 || memcmp(cut.data, whole.data, cut.len) == 0);
    }
    (void)fuzz_strip(data, len, len + 1, out);
    (void)fuzz_strip(data, len, 3, out);
    free(out);
    return 0;
}
