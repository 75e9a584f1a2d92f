/* SPDX-License-Identifier: Apache-2.0 */
#include "images/fetch/entry_path.h"

#include <string.h>

#include "base/fail.h"
#include "base/str.h"

static int refuse(const char *text, const char *why, struct vial_error *err)
{
    auto_str struct str shown = { 0 };

    for (const char *c = text; *c && shown.len < 160; c++)
        str_putc(&shown, *c < ' ' || *c == 127 ? '?' : *c);
    return fail(err, VIAL_E_IMAGE_BAD, "the entry '%s' %s",
                shown.data ? shown.data : "", why);
}

int entry_path(const char *text, char out[PATH_MAX], struct vial_error *err)
{
    size_t len = 0;
    size_t depth = 0;

    for (const char *at = text; *at;) {
        size_t part = strcspn(at, "/");
        const char *name = at;

        at += part + (at[part] == '/');
        if (part == 0 || (part == 1 && name[0] == '.'))
            continue;
        if (part == 2 && name[0] == '.' && name[1] == '.')
            return refuse(text, "leads out of the image", err);
        if (part > NAME_MAX || len + part + 2 > PATH_MAX || ++depth > ENTRY_DEPTH)
            return refuse(text, "has too long a path", err);
        if (len > 0)
            out[len++] = '/';
        memcpy(out + len, name, part);
        len += part;
    }
    out[len] = '\0';
    return 0;
}
