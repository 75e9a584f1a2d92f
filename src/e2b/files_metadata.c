/* SPDX-License-Identifier: Apache-2.0 */

/* A file's metadata: what E2B keeps in extended attributes, where programs inside find
 * it too. */

#include <ctype.h>
#include <string.h>
#include <strings.h>

#include "base/str.h"
#include "e2b/filesystem.h"

#define HEADER  "X-Metadata-"
#define PREFIX  "e2b."
#define KEY_MAX 246u  /* with "user." and PREFIX, what the kernel takes */
#define ALL_MAX 3072u /* keys and values together */

static bool has_line(const struct str *lines, const char *line)
{
    size_t len = strcspn(line, "=") + 1;

    for (const char *at = lines->data; at && *at; at = strchr(at, '\n') + 1)
        if (strncmp(at, line, len) == 0)
            return true;
    return false;
}

static char lower(char c)
{
    return (char)(tolower)((unsigned char)c); /* the macro branches */
}

static int add(const char *key, const char *value, struct str *out,
               struct connect_error *e)
{
    size_t len = strlen(key);
    char name[sizeof(PREFIX) + KEY_MAX + 2] = PREFIX;

    if (len == 0 || len > KEY_MAX || strchr(key, '='))
        return connect_fail(e, CONNECT_INVALID,
                            "metadata key '%.64s' has no characters, a '=', or more "
                            "than %u",
                            key, KEY_MAX);
    for (size_t i = 0; i < len; i++)
        name[strlen(PREFIX) + i] = lower(key[i]);
    name[strlen(PREFIX) + len] = '=';
    for (const char *c = value; *c; c++)
        if (*c < ' ' || *c > '~')
            return connect_fail(e, CONNECT_INVALID,
                                "the metadata value of '%.64s' is not printable ASCII",
                                key);
    if (has_line(out, name))
        return connect_fail(e, CONNECT_INVALID, "metadata key '%.64s' comes twice",
                            key);
    str_puts(out, name);
    str_puts(out, value);
    str_putc(out, '\n');
    return str_ok(out) ? 0 : connect_fail(e, CONNECT_INTERNAL, "out of memory");
}

int metadata_read(const struct ask *a, struct str *out, struct connect_error *e)
{
    const char *value = NULL;
    const char *name;

    for (size_t i = 0; (name = web_header_at(a->web, i, &value)); i++)
        if (strncasecmp(name, HEADER, strlen(HEADER)) == 0 &&
            add(name + strlen(HEADER), value, out, e) < 0)
            return -1;
    if (out->len > ALL_MAX)
        return connect_fail(e, CONNECT_INVALID,
                            "metadata is more than %u bytes together", ALL_MAX);
    return out->failed ? connect_fail(e, CONNECT_INTERNAL, "out of memory") : 0;
}

json_t *metadata_json(const char *attributes)
{
    json_t *all = NULL;

    while (attributes && *attributes) {
        const char *end = strchr(attributes, '\n');
        const char *value = strchr(attributes, '=');
        size_t skip = strlen(PREFIX);

        if (!end || !value || value > end)
            break;
        if (strncmp(attributes, PREFIX, skip) == 0 && attributes + skip < value) {
            if (!all)
                all = json_object();
            (void)json_object_setn_new(
                all, attributes + skip, (size_t)(value - attributes) - skip,
                json_stringn(value + 1, (size_t)(end - value - 1)));
        }
        attributes = end + 1;
    }
    return all;
}
