/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "relay/inside.h"

/* Room for LEN bytes behind those that are there. */
static bool make_room(struct relay_rest *rest, size_t len, size_t cap)
{
    uint8_t *larger = NULL;

    if (rest->at + rest->len + len <= rest->cap)
        return true;
    if (rest->len)
        memmove(rest->data, rest->data + rest->at, rest->len);
    rest->at = 0;
    if (rest->len + len <= rest->cap)
        return true;
    larger = realloc(rest->data, cap);
    if (!larger)
        return false;
    rest->data = larger;
    rest->cap = cap;
    return true;
}

bool rest_keep(struct relay_rest *rest, const uint8_t *data, size_t len, size_t cap)
{
    if (!make_room(rest, len, cap))
        return false;
    memcpy(rest->data + rest->at + rest->len, data, len);
    rest->len += len;
    return true;
}

void rest_eat(struct relay_rest *rest, size_t len)
{
    rest->at += len;
    rest->len -= len;
    if (!rest->len)
        rest_free(rest); /* most connections never need it again */
}

void rest_free(struct relay_rest *rest)
{
    free(rest->data);
    *rest = (struct relay_rest){ 0 };
}
