/* SPDX-License-Identifier: Apache-2.0 */

/* Paths as E2B's clients give them: absolute, or below the user's home. They are made
 * plain here, by their text alone; what they lead to is judged inside the vessel. */

#include <limits.h>
#include <string.h>

#include "base/str.h"
#include "e2b/connect.h"

static void up(struct str *out)
{
    while (out->len > 0 && out->data[--out->len] != '/')
        ;
    if (out->data)
        out->data[out->len] = '\0';
}

static void add_parts(struct str *out, const char *path)
{
    while (*path) {
        size_t len = strcspn(path, "/");

        if (len == 2 && strncmp(path, "..", 2) == 0) {
            up(out);
        } else if (len > 0 && !(len == 1 && *path == '.')) {
            str_putc(out, '/');
            str_add(out, path, len);
        }
        path += len + (path[len] == '/');
    }
}

int box_path(const char *home, const char *path, struct str *out,
             struct connect_error *e)
{
    if (strlen(path) >= PATH_MAX)
        return connect_fail(e, CONNECT_INVALID, "the path is too long");
    if (path[0] == '~' && path[1] && path[1] != '/')
        return connect_fail(e, CONNECT_INVALID,
                            "path '%.128s' is in another user's home", path);
    if (path[0] != '/')
        add_parts(out, home);
    add_parts(out, path[0] == '~' ? path + 1 : path);
    if (out->len == 0)
        str_putc(out, '/');
    return str_ok(out) ? 0 : connect_fail(e, CONNECT_INTERNAL, "out of memory");
}

const char *box_home(const struct ask *a)
{
    return a->root ? "/" BOX_ROOT : BOX_HOME;
}

const char *box_name(const char *path)
{
    size_t len = strlen(BOX_HOME);

    if (strncmp(path, BOX_HOME, len) != 0 || (path[len] && path[len] != '/'))
        return path;
    return path[len] ? path + len + 1 : path + len;
}
