/* SPDX-License-Identifier: Apache-2.0 */

/* Lists in pages. A cursor is the number of entries before it, made opaque. */

#include <inttypes.h>
#include <stdio.h>

#include "base/auto.h"
#include "base/text.h"
#include "base/unit.h"
#include "mcp/core.h"

#define PAGE 100u

static int read_cursor(const json_t *params, size_t count, size_t *from)
{
    const json_t *cursor = json_object_get(params, "cursor");
    const char *text = rpc_text(params, "cursor");
    struct blob plain = { 0 };
    int64_t number = 0;
    int rc;

    *from = 0;
    if (!cursor)
        return 0;
    if (!text || text_unbase64(text, json_string_length(cursor), &plain) < 0)
        return -1;
    rc = plain.data ? unit_parse_count(plain.data, &number) : -1;
    blob_done(&plain);
    if (rc < 0 || number <= 0 || (uint64_t)number >= count)
        return -1;
    *from = (size_t)number;
    return 0;
}

static int add_cursor(json_t *result, size_t next)
{
    auto_str struct str cursor = { 0 };
    char number[24];
    int len = snprintf(number, sizeof number, "%zu", next);

    text_base64(&cursor, number, (size_t)len);
    if (!str_ok(&cursor))
        return -1;
    return json_object_set_new(result, "nextCursor", json_string(cursor.data));
}

static json_t *slice(json_t *list, size_t from)
{
    json_t *page = json_array();

    for (size_t i = from; i < json_array_size(list) && i < from + PAGE; i++)
        (void)json_array_append(page, json_array_get(list, i));
    return page;
}

int page_of(const struct mcp_exchange *x, const char *key, json_t *list,
            json_t **result, struct rpc_error *err)
{
    size_t count = json_array_size(list), from;
    int rc = 0;

    if (!list)
        return -1;
    if (read_cursor(x->message->params, count, &from) < 0) {
        json_decref(list);
        return rpc_fail(err, RPC_PARAMS, 0, NULL, "Invalid params: unknown cursor");
    }
    *result = json_pack("{s:o}", key, slice(list, from));
    if (*result && from + PAGE < count)
        rc = add_cursor(*result, from + PAGE);
    json_decref(list);
    return *result ? rc : -1;
}
