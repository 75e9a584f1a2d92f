/* SPDX-License-Identifier: Apache-2.0 */
#include "images/image_name.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "base/fail.h"
#include "base/str.h"

static int bad_name(const char *text, struct vial_error *err)
{
    (void)fail(err, VIAL_E_IMAGE, "'%s' is not the name of an image", text);
    return fail_remedy(err, "write 'name', 'name:tag' or 'name@sha256:' and 64 digits");
}

bool image_is_digest(const char *text)
{
    return str_starts(text, "sha256:") && strlen(text) == 7 + 64 &&
           strspn(text + 7, "0123456789abcdef") == 64;
}

bool image_names_host(const char *name)
{
    size_t len = strcspn(name, "/");

    return name[len] == '/' && (memchr(name, '.', len) || memchr(name, ':', len) ||
                                (len == 9 && memcmp(name, "localhost", 9) == 0));
}

static bool is_plain(const char *text, const char *others)
{
    for (const char *at = text; *at; at++) {
        unsigned char c = (unsigned char)*at;

        if (c >= 128 || (!isalnum(c) && !strchr(others, c)))
            return false;
    }
    return text[0] != '\0' && isalnum((unsigned char)text[0]);
}

int image_parse(const char *text, struct image_name *out, struct vial_error *err)
{
    const char *at = strchr(text, '@');
    const char *slash = strrchr(text, '/');
    const char *colon = strrchr(slash ? slash : text, ':');
    const char *cut = at ? at : colon;
    size_t len = cut ? (size_t)(cut - text) : strlen(text);

    *out = (struct image_name){ .pinned = at != NULL, .tag = "latest" };
    if (len == 0 || len >= sizeof(out->name) ||
        (cut && strlen(cut + 1) >= sizeof(out->tag)))
        return bad_name(text, err);
    memcpy(out->name, text, len);
    if (cut)
        (void)snprintf(out->tag, sizeof(out->tag), "%s", cut + 1);
    if (!is_plain(out->name, "._-/:") ||
        (at ? !image_is_digest(out->tag) : !is_plain(out->tag, "._-")))
        return bad_name(text, err);
    return 0;
}
