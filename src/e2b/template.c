/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "e2b/control.h"

/* What SDKs ask for unless they are told otherwise. */
static const char *const usual[] = { "base", "code-interpreter-v1" };

/* "NAME" or "NAME=IMAGE" */
static bool is_row(const char *row, const char *name, size_t len, const char **image)
{
    size_t row_len = strcspn(row, "=");

    if (row_len != len || strncmp(row, name, len) != 0)
        return false;
    *image = row[row_len] ? row + row_len + 1 : "";
    return true;
}

bool template_find(const struct settings *settings, const char *name,
                   const char **image)
{
    const struct strv *rows = &settings->serve.e2b_templates;
    size_t len = strcspn(name, ":");

    if (name[len] && strcmp(name + len, ":default") != 0)
        return false;
    for (size_t i = 0; i < rows->count; i++)
        if (is_row(rows->items[i], name, len, image))
            return true;
    for (size_t i = 0; rows->count == 0 && i < sizeof(usual) / sizeof(usual[0]); i++)
        if (is_row(usual[i], name, len, image))
            return true;
    return false;
}
