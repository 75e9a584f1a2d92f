/* SPDX-License-Identifier: Apache-2.0 */
#include "base/membership.h"

#include <stdbool.h>
#include <string.h>

/* A line is "ID:controller,controller:/path". */
static bool line_has(const char *line, const char *controller, const char **path)
{
    const char *names = strchr(line, ':');
    const char *end = names ? strchr(names + 1, ':') : NULL;
    size_t len = strlen(controller);

    if (!end)
        return false;
    *path = end + 1;
    names++;
    if (len == 0)
        return names == end;
    while (names < end) {
        size_t n = strcspn(names, ",:");

        if (n == len && memcmp(names, controller, len) == 0)
            return true;
        names += n + 1;
    }
    return false;
}

int membership_path(const char *text, const char *controller, char *out, size_t size)
{
    for (const char *line = text; line && *line; line = strchr(line, '\n')) {
        const char *path = NULL;
        size_t len = 0;

        line += *line == '\n';
        if (!line_has(line, controller, &path))
            continue;
        len = strcspn(path, "\n");
        if (len >= size)
            return -1;
        memcpy(out, path, len);
        out[len] = '\0';
        return 0;
    }
    return -1;
}
