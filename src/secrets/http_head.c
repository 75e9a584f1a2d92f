/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "secrets/secrets.h"

long head_end(const uint8_t *data, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        if (data[i] == 0 || (data[i] == '\n' && (i == 0 || data[i - 1] != '\r')))
            return HEAD_BAD;
        if (data[i] != '\r')
            continue;
        if (i == 0 || (i + 1 < len && data[i + 1] != '\n'))
            return HEAD_BAD;
        if (i + 1 < len && i >= 2 && data[i - 1] == '\n')
            return i + 2 <= HEAD_MAX ? (long)i + 2 : HEAD_BAD;
    }
    return len >= HEAD_MAX ? HEAD_BAD : HEAD_MORE;
}

bool head_is_value(const char *text, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if (((unsigned char)text[i] < ' ' && text[i] != '\t') || text[i] == 0x7f)
            return false;
    return true;
}

/* "Name: value", without the line's end; no white space before the colon, and no line
 * that goes on with the one before. */
static bool parse_field(char *line, struct head_field *f)
{
    char *colon = strchr(line, ':');
    char *value = NULL;
    size_t len = 0;

    if (!colon || !secret_is_token(line, (size_t)(colon - line)))
        return false;
    *colon = '\0';
    value = colon + 1 + strspn(colon + 1, " \t");
    len = strlen(value);
    while (len && (value[len - 1] == ' ' || value[len - 1] == '\t'))
        len--;
    value[len] = '\0';
    *f = (struct head_field){ line, value, (size_t)(colon - line), len };
    return head_is_value(value, len);
}

bool head_parse(const uint8_t *data, size_t len, struct head *out)
{
    char *line = NULL;

    *out = (struct head){ .text = malloc(len + 1) };
    if (!out->text || len < 4)
        return false;
    memcpy(out->text, data, len);
    out->text[len - 2] = '\0'; /* the empty line's end: each other is found */
    out->first = out->text;
    line = strstr(out->text, "\r\n");
    while (line) {
        *line = '\0';
        line += 2;
        if (!*line)
            return head_is_value(out->first, strlen(out->first));
        if (out->count == HEAD_FIELDS)
            return false;
        char *end = strstr(line, "\r\n");

        if (!end)
            return false;
        *end = '\0';
        if (!parse_field(line, &out->fields[out->count++]))
            return false;
        *end = '\r';
        line = end;
    }
    return false;
}

void head_done(struct head *h)
{
    free(h->text);
    *h = (struct head){ 0 };
}

bool head_is(const struct head_field *f, const char *name)
{
    return strcasecmp(f->name, name) == 0;
}

const struct head_field *head_find(const struct head *h, const char *name, bool *twice)
{
    const struct head_field *found = NULL;

    *twice = false;
    for (size_t i = 0; i < h->count; i++) {
        if (!head_is(&h->fields[i], name))
            continue;
        *twice = *twice || found;
        found = &h->fields[i];
    }
    return found;
}

static bool list_has(const char *list, const char *word)
{
    while (*list) {
        size_t len = 0;

        list += strspn(list, " \t,");
        len = strcspn(list, " \t,;");
        if (len == strlen(word) && strncasecmp(list, word, len) == 0)
            return true;
        list += strcspn(list, ",");
    }
    return false;
}

bool head_lists(const struct head *h, const char *name, const char *word)
{
    for (size_t i = 0; i < h->count; i++)
        if (head_is(&h->fields[i], name) && list_has(h->fields[i].value, word))
            return true;
    return false;
}

bool head_is_hop(const struct head *h, const struct head_field *f)
{
    static const char *const hops[] = { "Connection",       "Keep-Alive",
                                        "Proxy-Connection", "TE",
                                        "Trailer",          "Transfer-Encoding",
                                        "Upgrade",          "HTTP2-Settings",
                                        "Content-Length",   NULL };

    for (size_t i = 0; hops[i]; i++)
        if (head_is(f, hops[i]))
            return true;
    return head_lists(h, "Connection", f->name);
}
