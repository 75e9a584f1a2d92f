/* SPDX-License-Identifier: Apache-2.0 */

/* File URLs that carry their own right: a hash over what may be done, and the
 * sandbox's token, which only who had it could make. */

#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/auto.h"
#include "base/str.h"
#include "base/text.h"
#include "base/unit.h"
#include "e2b/box.h"

#define EXPIRES_MAX 32 /* a number of seconds */

static const char *query(const struct web_request *req, const char *name)
{
    const char *value = web_query(req, name);

    return value ? value : "";
}

/* Without BOX's token, which comes last but one. */
bool signature_read(const struct web_request *req, struct signature *out)
{
    const char *const parts[] = { query(req, "path"),
                                  ":",
                                  strcmp(web_method(req), "POST") == 0 ? "write"
                                                                       : "read",
                                  ":",
                                  query(req, "username"),
                                  ":" };

    *out = (struct signature){ .given = web_query(req, "signature"),
                               .expires = web_query(req, "signature_expiration") };
    if (!out->given || strlen(parts[0]) >= PATH_MAX || strlen(parts[4]) >= NAME_MAX ||
        (out->expires && strlen(out->expires) >= EXPIRES_MAX))
        return false;
    sha256_init(&out->hash);
    for (size_t i = 0; i < sizeof(parts) / sizeof(*parts); i++)
        sha256_add(&out->hash, parts[i], strlen(parts[i]));
    return true;
}

static void hash_end(struct sha256 *hash, unsigned char out[32])
{
    char hex[65];

    sha256_text(hash, hex);
    for (size_t i = 0; i < 32; i++)
        out[i] =
            (unsigned char)(text_unhex(hex[2 * i]) << 4 | text_unhex(hex[2 * i + 1]));
}

bool signature_fits(const struct signature *s, const struct box *box)
{
    struct sha256 hash = s->hash;
    auto_str struct str right = { 0 };
    unsigned char bytes[32];

    sha256_add(&hash, box->token, strlen(box->token));
    if (s->expires) {
        sha256_add(&hash, ":", 1);
        sha256_add(&hash, s->expires, strlen(s->expires));
    }
    hash_end(&hash, bytes);
    str_puts(&right, "v1_");
    text_base64(&right, bytes, sizeof(bytes));
    while (str_ok(&right) && right.data[right.len - 1] == '=')
        right.data[--right.len] = '\0';
    return str_ok(&right) && box_same(right.data, s->given);
}

const char *signature_wrong(const struct box *box, const struct web_request *req)
{
    struct signature s;
    int64_t until = 0;

    if (!web_query(req, "signature"))
        return "missing signature query parameter";
    if (!signature_read(req, &s) || !signature_fits(&s, box))
        return "invalid signature";
    if (s.expires && (unit_parse_count(s.expires, &until) < 0 || until < time(NULL)))
        return "signature is already expired";
    return NULL;
}
