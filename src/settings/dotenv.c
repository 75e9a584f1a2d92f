/* SPDX-License-Identifier: Apache-2.0 */
#include "settings/dotenv.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/fail.h"
#include "settings/sources.h"

static char *trim(char *text)
{
    size_t len;

    text += strspn(text, " \t\r");
    len = strlen(text);
    while (len > 0 && strchr(" \t\r", text[len - 1]))
        text[--len] = '\0';
    return text;
}

/* Without quotes, or up to a comment. NULL: quotes that do not end. */
static char *value_in(char *text)
{
    char *end;

    text = trim(text);
    if (*text == '"' || *text == '\'') {
        end = strchr(text + 1, *text);
        if (!end)
            return NULL;
        *end = '\0';
        return text + 1;
    }
    end = strstr(text, " #");
    if (end)
        *end = '\0';
    return trim(text);
}

static int read_line(char *line, const char *where, const json_t *wanted,
                     char *const *environ_, struct strv *out, struct vial_error *err)
{
    char *name = trim(line);
    char *value = NULL;

    if (strncmp(name, "export ", strlen("export ")) == 0)
        name = trim(name + strlen("export "));
    value = strchr(name, '=');
    if (!*name || *name == '#' || !value)
        return 0;
    *value++ = '\0';
    name = trim(name);
    if (!json_object_get(wanted, name) || source_variable(environ_, name))
        return 0;
    value = value_in(value);
    if (!value) {
        (void)fail(err, VIAL_E_VALUE, "%s: the value of '%s' has no closing quote",
                   where, name);
        return fail_remedy(err, "write it as NAME=VALUE");
    }
    strv_printf(out, "%s=%s", name, value);
    return 0;
}

int dotenv_read(const struct blob *text, const char *where, const json_t *wanted,
                char *const *environ_, struct strv *out, struct vial_error *err)
{
    auto_free char *copy = strndup(text->data ? text->data : "", text->len);
    char *rest = copy;
    char *line = NULL;

    if (!copy)
        return fail_memory(err);
    if (strlen(copy) != text->len)
        return fail(err, VIAL_E_VALUE, "'%s' holds a NUL byte", where);
    while ((line = strsep(&rest, "\n")))
        if (read_line(line, where, wanted, environ_, out, err) < 0)
            return -1;
    return strv_ok(out) ? 0 : fail_memory(err);
}
