/* SPDX-License-Identifier: Apache-2.0 */
#include "plan/mountinfo.h"

#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/fail.h"
#include "base/io.h"
#include "base/path.h"

#define TABLE    "/proc/self/mountinfo"
#define READ_MAX ((size_t)64 << 20)

static bool is_octal(const char *c)
{
    return c[0] >= '0' && c[0] <= '3' && c[1] >= '0' && c[1] <= '7' && c[2] >= '0' &&
           c[2] <= '7';
}

/* "\040" is a space; in place. */
static void decode(char *text)
{
    char *to = text;

    for (const char *from = text; *from; to++) {
        if (*from == '\\' && is_octal(from + 1)) {
            *to = (char)((from[1] - '0') << 6 | (from[2] - '0') << 3 | (from[3] - '0'));
            from += 4;
        } else {
            *to = *from++;
        }
    }
    *to = '\0';
}

static char *next_word(char **at)
{
    char *word = NULL;

    while ((word = strsep(at, " ")) && *word == '\0')
        ;
    return word;
}

/* ID PARENT DEVICE ROOT POINT OPTIONS [TAG…] - TYPE SOURCE OPTIONS */
static int parse_line(char *line, struct mount_row *out)
{
    char *words[6] = { 0 };
    char *word = NULL;

    for (size_t i = 0; i < 6; i++)
        words[i] = next_word(&line);
    while ((word = next_word(&line)) && strcmp(word, "-") != 0)
        ;
    word = next_word(&line);
    if (!words[5] || !word)
        return -1;
    decode(words[3]);
    decode(words[4]);
    *out = (struct mount_row){
        .device = words[2], .root = words[3], .point = words[4], .type = word
    };
    return 0;
}

static size_t count_lines(const char *text)
{
    size_t n = 1;

    for (; *text; text++)
        n += *text == '\n';
    return n;
}

int mountinfo_parse(struct mount_table *out, struct blob *text, struct vial_error *err)
{
    char *rest = NULL;
    char *line = NULL;

    out->text = *text;
    *text = (struct blob){ 0 };
    rest = out->text.data;
    out->rows = calloc(rest ? count_lines(rest) : 1, sizeof(*out->rows));
    if (!out->rows)
        return fail_memory(err);
    while ((line = strsep(&rest, "\n"))) {
        if (*line && parse_line(line, &out->rows[out->count++]) < 0)
            return fail(err, VIAL_E_MOUNT, "'" TABLE "' has a line of another form");
    }
    return 0;
}

int mountinfo_read(struct mount_table *out, struct vial_error *err)
{
    struct blob text = { 0 };

    if (io_read_file(TABLE, READ_MAX, &text, err) < 0)
        return fail_as(err, VIAL_E_MOUNT);
    return mountinfo_parse(out, &text, err);
}

void mountinfo_done(struct mount_table *table)
{
    blob_done(&table->text);
    free(table->rows);
    *table = (struct mount_table){ 0 };
}

const struct mount_row *mountinfo_of(const struct mount_table *table, const char *path)
{
    const struct mount_row *found = NULL;

    /* Of two on one point the later lies on top. */
    for (size_t i = 0; i < table->count; i++) {
        const struct mount_row *row = &table->rows[i];

        if (path_is_beneath(path, row->point) &&
            (!found || strlen(row->point) >= strlen(found->point)))
            found = row;
    }
    return found;
}

/* DIR without a slash at its end, so that "/" is "". */
static size_t stem(const char *dir)
{
    return strcmp(dir, "/") == 0 ? 0 : strlen(dir);
}

bool mountinfo_alias(const struct mount_row *row, const char *path,
                     const struct mount_row *other, struct str *out)
{
    auto_str struct str inner = { 0 };

    if (strcmp(row->device, other->device) != 0)
        return false;
    str_printf(&inner, "%.*s%s", (int)stem(row->root), row->root,
               path + stem(row->point));
    if (!str_ok(&inner))
        return true; /* OUT is as sticky: the caller sees it */
    if (inner.len == 0 || strcmp(inner.data, "/") == 0)
        inner.len = 0;
    if (inner.len == 0 ? strcmp(other->root, "/") != 0
                       : !path_is_beneath(inner.data, other->root))
        return false;
    str_printf(out, "%.*s%s", (int)stem(other->point), other->point,
               inner.len ? inner.data + stem(other->root) : "");
    if (out->len == 0)
        str_putc(out, '/');
    return true;
}
