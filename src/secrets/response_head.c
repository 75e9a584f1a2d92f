/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>
#include <strings.h>

#include "secrets/secrets.h"

static bool refuse(struct refusal *wrong, const char *why)
{
    *wrong = (struct refusal){ 502, why, GATE_RESPONSE };
    return false;
}

/* "HTTP/1.1 200 OK". */
static bool read_status(const char *first, struct response *r)
{
    bool good =
        (strncmp(first, "HTTP/1.1 ", 9) == 0 || strncmp(first, "HTTP/1.0 ", 9) == 0) &&
        strspn(first + 9, "0123456789") == 3 && (first[12] == ' ' || !first[12]);

    r->status =
        good ? (first[9] - '0') * 100 + (first[10] - '0') * 10 + first[11] - '0' : 0;
    r->closes = good && first[7] == '0';
    return good && r->status >= 100;
}

static bool is_coded(const struct head *h)
{
    for (size_t i = 0; i < h->count; i++) {
        const struct head_field *f = &h->fields[i];

        if ((head_is(f, "Content-Encoding") || head_is(f, "Grpc-Encoding")) &&
            f->value_len && strcasecmp(f->value, "identity") != 0)
            return true;
    }
    return false;
}

/* Another way to the same host would not lead through us. */
static bool is_dropped(const struct head *h, const struct head_field *f)
{
    return head_is_hop(h, f) || head_is(f, "Alt-Svc");
}

static bool frame(const struct head *h, bool to_head, struct response *r,
                  struct body *body, struct str *out)
{
    bool twice = false;
    const struct head_field *length = head_find(h, "Content-Length", &twice);

    if (!body_of(h, body))
        return false;
    if (to_head || r->status < 200 || r->status == 204 || r->status == 304) {
        body->kind = BODY_NONE;
        if (length && r->status >= 200 && r->status != 204)
            str_printf(out, "Content-Length: %s\r\n", length->value);
        return true;
    }
    if (body->kind == BODY_NONE) {
        body->kind = BODY_TO_END;
        r->closes = true;
    } else if (body->kind == BODY_CHUNKED) {
        str_puts(out, "Transfer-Encoding: chunked\r\n");
    } else {
        str_printf(out, "Content-Length: %llu\r\n", (unsigned long long)body->left);
    }
    return true;
}

bool response_head_pass(const struct head *h, bool to_head, uint64_t most,
                        struct body *body, struct scrub *scrub, struct response *r,
                        struct str *out, struct refusal *wrong)
{
    auto_str struct str text = { 0 };

    if (!read_status(h->first, r))
        return refuse(wrong, "the host's answer is not HTTP/1.1");
    if (r->status == 101)
        return refuse(wrong, "the host wants to go on in another protocol");
    if (r->status >= 200 && is_coded(h))
        return refuse(wrong, "the host's answer is compressed, though nobody asked");
    r->closes = r->closes || head_lists(h, "Connection", "close");
    str_printf(&text, "%s\r\n", h->first);
    for (size_t i = 0; i < h->count; i++)
        if (!is_dropped(h, &h->fields[i]))
            str_printf(&text, "%s: %s\r\n", h->fields[i].name, h->fields[i].value);
    *body = (struct body){ .most = most };
    if (!frame(h, to_head, r, body, &text))
        return refuse(wrong, "the host's answer does not say plainly where it ends");
    if (most && body->kind == BODY_LENGTH && body->left > most)
        return refuse(wrong, "the answer is larger than the secret's rules allow");
    if (r->closes && r->status >= 200)
        str_puts(&text, "Connection: close\r\n");
    str_puts(&text, "\r\n");
    if (!str_ok(&text) || scrub_add(scrub, text.data, text.len, true, out) < 0 ||
        out->len > HEAD_NEW_MAX)
        return refuse(wrong, "the answer's head is too large");
    return true;
}
