/* SPDX-License-Identifier: Apache-2.0 */
/* What a program says to a host with a secret, and what the host answers. The first
 * byte says which; what goes on must be read by everybody as it was read here. */
#include <stdlib.h>
#include <string.h>

#include "fuzz_held.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

/* A head that goes on: it ends once, at its end, and says once how long its body is. */
static void check_head(const struct str *out, const struct body *body, bool request)
{
    struct head again = { 0 };
    struct body b = { 0 };
    bool twice = false;

    MUST(head_end((const uint8_t *)out->data, out->len) == (long)out->len);
    MUST(head_parse((const uint8_t *)out->data, out->len, &again));
    MUST(body_of(&again, &b));
    if (request) {
        MUST(head_find(&again, "Host", &twice) && !twice);
        MUST(head_find(&again, "Accept-Encoding", &twice) && !twice);
        MUST(head_find(&again, "X-Added", &twice) && !twice);
        MUST(b.kind == body->kind && b.left == body->left);
    }
    head_done(&again);
}

/* All of it, by pieces of STEP; what a client gets of an answer. */
static void walk(struct body *b, struct scrub *scrub, const uint8_t *data, size_t len,
                 size_t step, struct str *out)
{
    enum body_step said = BODY_DATA;
    size_t end = step < len ? step : len;
    size_t at = 0;

    while (said == BODY_DATA || said == BODY_MORE) {
        size_t used = 0, size = 0;

        said = body_next(b, data + at, end - at, &used, &size);
        MUST(used <= end - at && size <= used &&
             (said == BODY_DATA || size == 0 || said == BODY_BAD));
        if (said == BODY_DATA)
            MUST(scrub_add(scrub, data + at + used - size, size, false, out) == 0);
        at += used;
        if (said == BODY_MORE && used == 0 && end == len)
            break;
        if (said == BODY_MORE || at == end)
            end = end + step < len ? end + step : len;
    }
    MUST(scrub_add(scrub, NULL, 0, true, out) == 0);
    MUST(!out->len || !memmem(out->data, out->len, VALUE, strlen(VALUE)));
}

static void request(const struct held *held, const struct head *h, struct body *body,
                    struct scrub *scrub)
{
    const struct place to = { HOST, 443 };
    auto_str struct str out = { 0 };
    struct refusal wrong = { 0 };

    if (request_head_pass(held, to, h, body, scrub, &out, &wrong))
        check_head(&out, body, true);
    else
        MUST(wrong.status >= 400 && wrong.why);
}

static void answer(const struct head *h, struct body *body, struct scrub *scrub,
                   const uint8_t *rest, size_t len)
{
    auto_str struct str out = { 0 };
    auto_str struct str sent = { 0 };
    struct response r = { 0 };
    struct refusal wrong = { 0 };

    if (!response_head_pass(h, len % 7 == 0, 4000, body, scrub, &r, &out, &wrong))
        return;
    check_head(&out, body, false);
    MUST(!memmem(out.data, out.len, VALUE, strlen(VALUE)));
    walk(body, scrub, rest, len, 1 + len % 13, &sent);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    struct held *held = len > 1 ? hold() : NULL;
    struct scrub scrub = { .held = held };
    struct body body = { 0 };
    struct head h = { 0 };
    long head = held ? head_end(data + 1, len - 1) : 0;

    MUST(head <= (long)len - 1 || !held);
    if (head > 0 && head_parse(data + 1, (size_t)head, &h)) {
        if (data[0] % 2)
            request(held, &h, &body, &scrub);
        else
            answer(&h, &body, &scrub, data + 1 + head, len - 1 - (size_t)head);
    }
    head_done(&h);
    scrub_done(&scrub);
    if (held)
        let_go(held);
    return 0;
}
