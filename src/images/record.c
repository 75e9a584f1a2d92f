/* SPDX-License-Identifier: Apache-2.0 */
#include "images/record.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/fail.h"
#include "base/text.h"

#define FORM "vial-image 1"

enum kind { DIGEST, WORD, NUMBER, FLAG, LIST, TEXT, UNSIGNED };

struct row {
    const char *key;
    enum kind kind;
    size_t offset;
};

#define ROW(key, kind, member)                                                         \
    {                                                                                  \
        key, kind, offsetof(struct stored_image, member)                               \
    }

static const struct row rows[] = {
    ROW("digest", DIGEST, digest),
    ROW("id", DIGEST, id),
    ROW("platform", WORD, platform),
    ROW("user_xattr", FLAG, user_xattr),
    ROW("owners_kept", FLAG, owners_kept),
    ROW("size", NUMBER, size),
    ROW("created", NUMBER, created),
    ROW("env", LIST, env),
    ROW("entrypoint", LIST, entrypoint),
    ROW("cmd", LIST, cmd),
    ROW("cwd", TEXT, cwd),
    ROW("user", TEXT, user),
    ROW("uid", UNSIGNED, uid),
    ROW("gid", UNSIGNED, gid),
    ROW("template", TEXT, template_pool),
    ROW("import", LIST, imports),
    ROW("layer", LIST, chains),
};

#define ROWS (sizeof(rows) / sizeof(*rows))

void record_escape(struct str *out, const char *text)
{
    for (const unsigned char *c = (const unsigned char *)text; *c; c++) {
        if (*c <= ' ' || *c == '%' || *c >= 127)
            str_printf(out, "%%%02X", *c);
        else
            str_putc(out, (char)*c);
    }
}

static void write_text(struct str *out, const char *key, const char *text)
{
    str_printf(out, "%s ", key);
    record_escape(out, text);
    str_putc(out, '\n');
}

static void write_row(struct str *out, const struct row *row, const void *at)
{
    const struct strv *list = at;

    switch (row->kind) {
    case DIGEST:
    case WORD:
        write_text(out, row->key, at);
        break;
    case NUMBER:
        str_printf(out, "%s %lld\n", row->key, (long long)*(const int64_t *)at);
        break;
    case UNSIGNED:
        str_printf(out, "%s %u\n", row->key, *(const unsigned *)at);
        break;
    case FLAG:
        str_printf(out, "%s %d\n", row->key, *(const bool *)at);
        break;
    case TEXT:
        if (*(char *const *)at)
            write_text(out, row->key, *(char *const *)at);
        break;
    case LIST:
        for (size_t i = 0; i < list->count; i++)
            write_text(out, row->key, list->items[i]);
        break;
    }
}

void record_write(struct str *out, const struct stored_image *image)
{
    str_puts(out, FORM "\n");
    for (size_t i = 0; i < ROWS; i++)
        write_row(out, &rows[i], (const char *)image + rows[i].offset);
}

/* malloc'ed, or NULL: no memory, or not an escaped text. */
static char *unescape(const char *text)
{
    auto_str struct str out = { 0 };

    for (; *text; text++) {
        if (*text != '%') {
            str_putc(&out, *text);
            continue;
        }
        if (text_unhex(text[1]) < 0 || text_unhex(text[2]) < 0 ||
            (text[1] == '0' && text[2] == '0'))
            return NULL;
        str_putc(&out, (char)(text_unhex(text[1]) << 4 | text_unhex(text[2])));
        text += 2;
    }
    return str_take(&out);
}

static bool read_number(const char *text, long long max, long long *out)
{
    size_t len = strlen(text);

    if (len == 0 || len > 18 || strspn(text, "0123456789") != len)
        return false;
    *out = strtoll(text, NULL, 10);
    return *out <= max;
}

static bool read_value(const struct row *row, void *at, const char *text)
{
    auto_free char *plain = unescape(text);
    long long number = 0;

    if (!plain)
        return false;
    switch (row->kind) {
    case DIGEST:
        return snprintf(at, STORE_DIGEST, "%s", plain) < STORE_DIGEST;
    case WORD:
        return snprintf(at, sizeof(((struct stored_image *)0)->platform), "%s", plain) <
               (int)sizeof(((struct stored_image *)0)->platform);
    case NUMBER:
        return read_number(plain, INT64_MAX, &number) && ((*(int64_t *)at = number), 1);
    case UNSIGNED:
        return read_number(plain, UINT32_MAX, &number) &&
               ((*(unsigned *)at = (unsigned)number), 1);
    case FLAG:
        return read_number(plain, 1, &number) && ((*(bool *)at = number != 0), 1);
    case TEXT:
        free(*(char **)at);
        *(char **)at = ptr_take(&plain);
        return true;
    case LIST:
        strv_push(at, plain);
        return strv_ok(at);
    }
    return false;
}

static bool read_line(char *line, struct stored_image *out)
{
    char *blank = strchr(line, ' ');

    if (!blank)
        return false;
    *blank = '\0';
    for (size_t i = 0; i < ROWS; i++)
        if (str_eq(rows[i].key, line))
            return read_value(&rows[i], (char *)out + rows[i].offset, blank + 1);
    return false;
}

static bool are_chains(const struct strv *chains)
{
    for (size_t i = 0; i < chains->count; i++)
        if (strlen(chains->items[i]) != 64 ||
            strspn(chains->items[i], "0123456789abcdef") != 64)
            return false;
    return chains->count > 0;
}

int record_read(const char *text, struct stored_image *out, struct vial_error *err)
{
    auto_free char *copy = strdup(text);
    char *rest = NULL;
    char *line = copy ? strtok_r(copy, "\n", &rest) : NULL;
    bool good = line && str_eq(line, FORM);

    while (good && (line = strtok_r(NULL, "\n", &rest)))
        good = read_line(line, out);
    if (good && are_chains(&out->chains))
        return 0;
    return fail(err, VIAL_E_FILE, "it is not a record of this version of vial");
}
