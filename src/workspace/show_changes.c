/* SPDX-License-Identifier: Apache-2.0 */
/* Changes as people and programs see them: unified diffs, JSON, text. */
#include <fcntl.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/fail.h"
#include "base/io.h"
#include "base/json.h"
#include "base/text.h"
#include "workspace/changes.h"
#include "workspace/patch.h"

static const char *const kind_names[] = { "added", "modified", "deleted", "mode",
                                          "type" };

const char *vial_change_name(enum vial_change_kind kind)
{
    return (unsigned)kind < sizeof(kind_names) / sizeof(*kind_names) ? kind_names[kind]
                                                                     : "?";
}

void vial_changes_free(struct vial_changes *changes)
{
    for (size_t i = 0; i < changes->count; i++) {
        free(changes->items[i].path);
        free(changes->items[i].diff);
        free(changes->items[i].obstacle);
    }
    free(changes->items);
    *changes = (struct vial_changes){ 0 };
}

/* The text of a file, or nothing: it is large, binary, or gone. */
static bool read_text(int root_fd, const char *path, char type, uint64_t max,
                      struct blob *out)
{
    struct vial_error ignored = { 0 };
    struct node node;
    auto_fd int fd = -1;

    if (type == 0)
        return true;
    if (type != 'f')
        return false;
    fd = tree_open_file(root_fd, path, &node);
    return fd >= 0 && node.size <= max &&
           io_read_fd(fd, path, (size_t)max, out, &ignored) == 0 && patch_is_text(out);
}

static void put_name(struct str *out, const char *mark, const char *prefix,
                     const char *path)
{
    str_puts(out, mark);
    text_quote(out, prefix, path);
    str_putc(out, '\n');
}

/* Names are the program's, and could otherwise be lines of a diff themselves. */
static void put_names(struct str *out, const struct vial_change *c)
{
    if (c->type_before)
        put_name(out, "--- ", "a/", c->path);
    else
        str_puts(out, "--- /dev/null\n");
    if (c->type)
        put_name(out, "+++ ", "b/", c->path);
    else
        str_puts(out, "+++ /dev/null\n");
}

static int add_diff(const struct sides *s, struct vial_change *c, uint64_t max,
                    struct vial_error *err)
{
    struct blob before = { 0 };
    struct blob after = { 0 };
    auto_str struct str out = { 0 };
    bool text = read_text(s->root_fd, c->path, c->type_before, max, &before) &&
                read_text(s->layer_fd, c->path, c->type, max, &after);

    if (text && (before.len || after.len)) {
        put_names(&out, c);
        patch_hunks(&out, &before, &after);
        c->diff = str_take(&out);
    }
    blob_done(&before);
    blob_done(&after);
    return text && out.failed ? fail_memory(err) : 0;
}

int changes_add_diffs(const struct sides *s, struct vial_changes *c, uint64_t max,
                      struct vial_error *err)
{
    for (size_t i = 0; i < c->count; i++) {
        struct vial_change *at = &c->items[i];
        bool file = at->type == 'f' || (at->type == 0 && at->type_before == 'f');

        if (file && at->kind != VIAL_CHANGE_MODE && add_diff(s, at, max, err) < 0)
            return -1;
    }
    return 0;
}

/* Names and diffs are bytes; JSON is UTF-8. */
static json_t *text_json(const char *text)
{
    auto_str struct str repaired = { 0 };

    if (!text)
        return json_null();
    text_repair(&repaired, text, strlen(text));
    return str_ok(&repaired) ? json_string(repaired.data ? repaired.data : "") : NULL;
}

static json_t *type_json(char type)
{
    char text[] = { type, '\0' };

    return type ? json_string(text) : json_null();
}

static json_t *before_json(const struct vial_change *c)
{
    if (!c->type_before)
        return json_null();
    return json_pack("{s:o, s:i, s:I}", "type", type_json(c->type_before), "mode",
                     (int)c->mode_before, "size", (json_int_t)c->size_before);
}

static json_t *change_json(const struct vial_change *c)
{
    return json_pack("{s:o, s:s, s:o, s:i, s:I, s:o, s:o, s:b, s:o}", "path",
                     text_json(c->path), "kind", vial_change_name(c->kind), "type",
                     type_json(c->type), "mode", (int)c->mode, "size",
                     (json_int_t)c->size, "before", before_json(c), "diff",
                     text_json(c->diff), "conflict", (int)c->conflict, "obstacle",
                     text_json(c->obstacle));
}

char *vial_changes_json(const struct vial_changes *changes)
{
    auto_json json_t *list = json_array();

    for (size_t i = 0; i < changes->count; i++)
        if (json_array_append_new(list, change_json(&changes->items[i])) < 0)
            return NULL;
    return json_dumps(list, JSON_COMPACT);
}

static void put_note(struct str *out, const struct vial_change *c)
{
    text_quote(out, "", c->path);
    if (c->kind == VIAL_CHANGE_MODE)
        str_printf(out, ": mode %04o, was %04o\n", c->mode, c->mode_before & 0777);
    else
        str_printf(out, ": %s%s\n", vial_change_name(c->kind),
                   c->type == 'd' || (!c->type && c->type_before == 'd') ? " directory"
                   : c->type == 'l'                                      ? " link"
                                                                         : "");
}

static void put_remark(struct str *out, const struct vial_change *c, const char *what,
                       const char *why)
{
    text_quote(out, "", c->path);
    str_printf(out, ": %s: %s\n", what, why);
}

char *vial_changes_text(const struct vial_changes *changes)
{
    struct str out = { 0 };

    for (size_t i = 0; i < changes->count; i++) {
        const struct vial_change *c = &changes->items[i];

        if (c->diff)
            str_puts(&out, c->diff);
        else
            put_note(&out, c);
        if (c->conflict)
            put_remark(&out, c, "conflict", "the host's own has changed");
        if (c->obstacle)
            put_remark(&out, c, "not to be committed", c->obstacle);
    }
    return str_take(&out);
}
