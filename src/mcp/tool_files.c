/* SPDX-License-Identifier: Apache-2.0 */

/* read_file, write_file and list_files. */

#include <inttypes.h>
#include <string.h>

#include "api/inside.h"
#include "base/auto.h"
#include "base/fail.h"
#include "base/json.h"
#include "base/text.h"
#include "mcp/tools.h"

#define READ_USUAL  (64u << 10)
#define IMAGE_MAX   (8u << 20)
#define ENTRIES_MAX 1000u

static uint64_t number(const struct mcp_call *call, const char *key, uint64_t usual)
{
    const json_t *value = json_object_get(call->arguments, key);

    return value ? (uint64_t)json_number_value(value) : usual;
}

/* A piece of a file, and how long the file is. */
struct piece {
    const char *name, *uri;
    struct blob data;
    uint64_t offset, total;
};

static int read_from_sandbox(struct mcp_call *call, const char *path, bool image,
                             struct piece *p, struct mcp_answer *answer)
{
    struct registered *held = tool_take(call, answer);
    struct vial_error err = { 0 };
    struct vial_entry entry;
    uint64_t len = number(call, "length", READ_USUAL);
    int rc;

    if (!held)
        return -1;
    rc = vial_session_stat_followed(held->session, path, &entry, &err);
    if (rc == 0)
        p->total = entry.size;
    if (rc == 0)
        vial_entry_done(&entry);
    if (image && p->total <= IMAGE_MAX) /* half an image is none */
        len = 0;
    if (rc == 0)
        rc = vial_session_get(held->session, path, p->offset, len, &p->data.data,
                              &p->data.len, &err);
    registry_release(call->registry, held);
    if (rc < 0)
        tool_fail(answer, &err);
    return rc;
}

static int read_from_run(struct mcp_call *call, const char *uri, struct piece *p,
                         struct mcp_answer *answer)
{
    struct vial_error err = { 0 };

    if (mcp_runs_read(call->runs, call->owner, uri, p->offset,
                      number(call, "length", READ_USUAL), &p->data, &p->total))
        return 0;
    (void)fail(&err, VIAL_E_NO_FILE, "there is nothing at '%.200s'", uri);
    (void)fail_remedy(&err, "outputs are kept for a while only: run it again");
    tool_fail(answer, &err);
    return -1;
}

static bool is_image(const char *media)
{
    return str_starts(media, "image/") && strcmp(media, "image/svg+xml") != 0;
}

static void say_more(struct str *s, const struct piece *p)
{
    uint64_t end = p->offset + p->data.len;

    if (p->offset > 0 || end < p->total)
        str_printf(s, "\n[bytes %" PRIu64 " to %" PRIu64 " of %" PRIu64, p->offset, end,
                   p->total);
    else
        return;
    if (end < p->total)
        str_printf(s, "; call again with offset %" PRIu64 " for more", end);
    str_puts(s, "]");
}

static void answer_text(struct mcp_answer *answer, const struct piece *p)
{
    text_repair(&answer->text, p->data.data, p->data.len);
    if (p->data.len == 0)
        str_puts(&answer->text, p->total == 0 ? "(the file is empty)" : "(nothing)");
    say_more(&answer->text, p);
}

static void answer_bytes(struct mcp_answer *answer, const struct piece *p,
                         const char *media)
{
    auto_str struct str base64 = { 0 };

    text_base64(&base64, p->data.data, p->data.len);
    if (is_image(media) && p->offset == 0 && p->data.len == p->total) {
        answer->content =
            json_pack("[{s:s, s:s, s:s}]", "type", "image", "data",
                      str_ok(&base64) ? base64.data : "", "mimeType", media);
        return;
    }
    str_printf(&answer->text,
               "%s is not text (%s, %" PRIu64 " bytes); its bytes come beside this.",
               p->name, media, p->total);
    say_more(&answer->text, p);
    answer->content = json_pack(
        "[{s:s, s:s}, {s:s, s:{s:s, s:s, s:s}}]", "type", "text", "text",
        str_ok(&answer->text) ? answer->text.data : "", "type", "resource", "resource",
        "uri", p->uri, "mimeType", media, "blob", str_ok(&base64) ? base64.data : "");
}

void tool_read_file(const struct mcp_tool *tool, struct mcp_call *call,
                    struct mcp_answer *answer)
{
    const char *uri = tool_text(call, "uri"), *path = tool_text(call, "path");
    struct piece p = { .name = uri ? uri : path, .offset = number(call, "offset", 0) };
    struct vial_error err = { 0 };
    auto_str struct str own_uri = { 0 };
    const char *media;
    int rc;

    (void)tool;
    if (!uri && (!path || !tool_text(call, "sandbox_id"))) {
        (void)fail(&err, VIAL_E_VALUE,
                   "a file is named by sandbox_id and path, or uri");
        tool_fail(answer, &err);
        return;
    }
    media = mcp_media(p.name);
    if (!uri)
        str_printf(&own_uri, "sandbox://%s/%s", tool_text(call, "sandbox_id"), path);
    p.uri = uri ? uri : own_uri.data ? own_uri.data : "";
    rc = uri ? read_from_run(call, uri, &p, answer)
             : read_from_sandbox(call, path, is_image(media), &p, answer);
    if (rc == 0 && !is_image(media) && text_is_utf8(p.data.data, p.data.len))
        answer_text(answer, &p);
    else if (rc == 0)
        answer_bytes(answer, &p, media);
    blob_done(&p.data);
}

/* Either form of content. */
static int content_of(const struct mcp_call *call, struct blob *out,
                      struct vial_error *err)
{
    const json_t *plain = json_object_get(call->arguments, "content");
    const json_t *base64 = json_object_get(call->arguments, "content_base64");

    if (!plain == !base64)
        return fail(err, VIAL_E_VALUE, "give either content or content_base64");
    if (plain)
        return blob_set(out, json_string_value(plain), json_string_length(plain)) < 0
                   ? fail_memory(err)
                   : 0;
    if (text_unbase64(json_string_value(base64), json_string_length(base64), out) < 0)
        return fail(err, VIAL_E_VALUE, "content_base64 is not base64");
    return 0;
}

void tool_write_file(const struct mcp_tool *tool, struct mcp_call *call,
                     struct mcp_answer *answer)
{
    const char *path = tool_text(call, "path");
    struct registered *held = tool_take(call, answer);
    struct vial_error err = { 0 };
    auto_str struct str uri = { 0 };
    struct blob data = { 0 };

    (void)tool;
    if (!held)
        return;
    if (content_of(call, &data, &err) < 0 ||
        vial_session_put(held->session, path, data.data, data.len, 0, &err) < 0) {
        tool_fail(answer, &err);
    } else {
        str_printf(&answer->text, "Wrote %zu bytes to %s.", data.len, path);
        answer->structured =
            json_pack("{s:s, s:I}", "path", path, "bytes", (json_int_t)data.len);
        str_printf(&uri, "sandbox://%s/%s", held->id,
                   inside_file_name(held->session, path));
        mcp_call_changed(call, "resources");
        if (str_ok(&uri))
            mcp_call_changed(call, uri.data);
    }
    blob_done(&data);
    registry_release(call->registry, held);
}

static json_t *entry_json(const struct vial_entry *e)
{
    static const char *const names[] = {
        ['f'] = "file", ['d'] = "directory", ['l'] = "link", ['o'] = "other"
    };

    return json_pack("{s:s, s:s, s:I}", "path", e->path, "type", names[(int)e->type],
                     "size", (json_int_t)e->size);
}

static void answer_list(struct mcp_answer *answer, const struct vial_entries *list)
{
    json_t *entries = json_array();

    for (size_t i = 0; i < list->count && i < ENTRIES_MAX; i++) {
        const struct vial_entry *e = &list->items[i];
        json_t *entry = entry_json(e);

        if (!entry) /* a name that is not UTF-8 */
            continue;
        (void)json_array_append_new(entries, entry);
        if (e->type == 'd')
            str_printf(&answer->text, "%s/\n", e->path);
        else
            str_printf(&answer->text, "%s  %" PRIu64 " bytes%s\n", e->path, e->size,
                       e->type == 'l' ? " (link)" : "");
    }
    if (list->count == 0)
        str_puts(&answer->text, "(empty)");
    if (list->count > ENTRIES_MAX)
        str_printf(&answer->text, "[%zu more are not shown; list a subdirectory]",
                   list->count - ENTRIES_MAX);
    answer->structured =
        json_pack("{s:o, s:I}", "entries", entries, "total", (json_int_t)list->count);
}

void tool_list_files(const struct mcp_tool *tool, struct mcp_call *call,
                     struct mcp_answer *answer)
{
    const char *path = tool_text(call, "path");
    bool deep = json_is_true(json_object_get(call->arguments, "recursive"));
    struct registered *held = tool_take(call, answer);
    struct vial_entries list = { 0 };
    struct vial_error err = { 0 };

    (void)tool;
    if (!held)
        return;
    if (vial_session_list(held->session, path ? path : "", deep, &list, &err) < 0)
        tool_fail(answer, &err);
    else
        answer_list(answer, &list);
    vial_entries_free(&list);
    registry_release(call->registry, held);
}
