/* SPDX-License-Identifier: Apache-2.0 */
#include "model/limits.h"

const struct limit_row limit_rows[LIMIT_COUNT] = {
#define LIMIT(field, member, needed, hold)                                             \
    { FIELD_ID_##field, #member, offsetof(struct limits, member), needed, hold },
#include "model/limits.def"
#undef LIMIT
};

int64_t *limits_at(struct limits *limits, const struct limit_row *row)
{
    return (int64_t *)(void *)((char *)limits + row->offset);
}

int64_t limits_get(const struct limits *limits, const struct limit_row *row)
{
    return *(const int64_t *)(const void *)((const char *)limits + row->offset);
}
