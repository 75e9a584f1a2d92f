/* SPDX-License-Identifier: Apache-2.0 */

/* Results in words for a model: the status first when it matters, stderr apart, and
 * for what was cut how to get the rest. */

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/fail.h"
#include "base/json.h"
#include "base/text.h"
#include "mcp/remedies.h"
#include "mcp/tools.h"
#include "model/result.h"

#define SHOWN_MAX  (24u << 10) /* bytes of a stream that a model is shown */
#define IMAGE_MAX  (8u << 20)
#define IMAGES_MAX 16u

void tool_fail(struct mcp_answer *answer, const struct vial_error *err)
{
    const char *remedy = mcp_remedy(err);

    answer->is_error = true;
    str_printf(&answer->text, "Error %s: ", err->code);
    mcp_say_sandbox(&answer->text, err->message);
    if (err->cause[0])
        str_printf(&answer->text, " (%s)", err->cause);
    str_puts(&answer->text, ".");
    if (!remedy[0])
        return;
    str_puts(&answer->text, "\nRemedy: ");
    mcp_say_sandbox(&answer->text, remedy);
    str_puts(&answer->text, ".");
}

int tool_stream(struct vial_stream *s, const char *data, size_t len, uint64_t total,
                bool truncated)
{
    struct blob copy = { 0 };

    if (blob_set(&copy, data ? data : "", len) < 0)
        return -1;
    free(s->data);
    *s = (struct vial_stream){
        .data = copy.data, .len = len, .total_bytes = total, .truncated = truncated
    };
    return 0;
}

/* Where a piece may be cut without cutting a character in two. */
static size_t before_character(const char *data, size_t at)
{
    while (at > 0 && ((unsigned char)data[at] & 0xc0) == 0x80)
        at--;
    return at;
}

/* A long stream is shown by its head and its tail; the whole is kept under a URI. */
static int shorten(struct mcp_call *call, const struct vial_result *r, const char *name,
                   struct vial_stream *s, struct str *note)
{
    auto_str struct str shown = { 0 };
    size_t head, tail;
    bool kept;

    if (s->len <= SHOWN_MAX && !s->truncated)
        return 0;
    kept = mcp_runs_keep(call->runs, call->owner, r->id, name, s->data, s->len);
    if (s->len > SHOWN_MAX) {
        head = before_character(s->data, SHOWN_MAX / 2);
        tail = before_character(s->data, s->len - SHOWN_MAX / 2);
        str_add(&shown, s->data, head);
        str_printf(&shown, "\n[… %zu bytes left out …]\n", tail - head);
        str_add(&shown, s->data + tail, s->len - tail);
        if (!str_ok(&shown) ||
            tool_stream(s, shown.data, shown.len, s->total_bytes, true) < 0)
            return -1;
    }
    str_printf(note, "\n[%s was cut: the program wrote %" PRIu64 " bytes.", name,
               s->total_bytes);
    if (kept)
        str_printf(note,
                   " Read more of it with read_file, uri \"" MCP_RUNS_URI
                   "%s/%s\", offset and length.",
                   r->id, name);
    str_puts(note, "]");
    return 0;
}

static void say_seconds(struct str *s, double ms)
{
    str_printf(s, "%.3g s", ms / 1000);
}

static void say_timeout(struct str *s, const struct vial_result *r,
                        const struct tool_texts *own, const struct tool_extra *extra)
{
    str_puts(s, "Timed out");
    if (extra->limit_ms > 0) {
        str_puts(s, " after ");
        say_seconds(s, (double)extra->limit_ms);
    }
    if (r->stage && strcmp(r->stage, "compile") == 0)
        str_puts(s, " while compiling");
    str_puts(s, "; everything it had started was ended. ");
    if (extra->limit_ms < own->max_timeout_ms)
        str_printf(s,
                   "If it needs longer, call again with a larger `timeout` (at most "
                   "%s); else let it do less at once.\n",
                   tool_word(own, "max_timeout"));
    else
        str_puts(s, "That is the most there is: let it do less at once.\n");
}

/* What there was of it is known of a run alone: a sandbox was made with its own. */
static void say_memory(struct str *s, const struct tool_extra *extra)
{
    if (extra->memory)
        str_printf(s,
                   "Out of memory: the limit (%s) was reached and the program was "
                   "killed. Use less memory, or ask for more with `memory`.\n",
                   extra->memory);
    else
        str_puts(s, "Out of memory: the sandbox's limit was reached and the program "
                    "was killed. Use less memory, or give create_sandbox more "
                    "`memory`.\n");
}

static void say_signal(struct str *s, const struct vial_result *r)
{
    const char *name = vial_signal_name(r->signal);

    str_printf(s, "Killed by signal %d%s%s%s.\n", r->signal, name ? " (SIG" : "",
               name ? name : "", name ? ")" : "");
}

/* Says what a model should know before it reads the output; nothing if all is well. */
static void say_status(struct str *s, const struct vial_result *r,
                       const struct tool_texts *own, const struct tool_extra *extra)
{
    switch (r->verdict) {
    case VIAL_OK:
        break;
    case VIAL_NONZERO:
        str_printf(s, "%s exit code %d.\n",
                   r->stage && strcmp(r->stage, "compile") == 0 ? "Compiling failed:"
                                                                : "Failed:",
                   r->exit_code);
        break;
    case VIAL_SIGNAL:
        say_signal(s, r);
        break;
    case VIAL_TIMEOUT:
        say_timeout(s, r, own, extra);
        break;
    case VIAL_CPU_TIMEOUT:
        str_puts(s, "The limit of cpu time was reached; the program was ended.\n");
        break;
    case VIAL_OOM:
        say_memory(s, extra);
        break;
    case VIAL_DISK:
    case VIAL_PIDS:
    case VIAL_OUTPUT_LIMIT:
        str_printf(s, "The limit '%s' was reached; the program was ended.\n",
                   vial_verdict_name(r->verdict));
        break;
    case VIAL_CANCELLED:
        str_puts(s, "Cancelled; everything it had started was ended.\n");
        break;
    case VIAL_DENIED:
    case VIAL_FAILED:
        break; /* the error says it */
    }
}

static void say_streams(struct str *s, const struct vial_result *r)
{
    if (r->out.len > 0)
        text_repair(s, r->out.data, r->out.len);
    if (r->err.len == 0)
        return;
    if (s->len > 0 && s->data[s->len - 1] != '\n')
        str_putc(s, '\n');
    str_puts(s, "stderr:\n");
    text_repair(s, r->err.data, r->err.len);
}

/* The plain form of a cell's last line. */
static void say_value(struct str *s, const json_t *value)
{
    const json_t *plain = json_object_get(value, "text/plain");

    if (!json_is_string(plain))
        return;
    if (s->len > 0 && s->data[s->len - 1] != '\n')
        str_putc(s, '\n');
    str_add(s, json_string_value(plain), json_string_length(plain));
}

bool tool_is_image(const char *media)
{
    return strcmp(media, "image/png") == 0 || strcmp(media, "image/jpeg") == 0 ||
           strcmp(media, "image/gif") == 0 || strcmp(media, "image/webp") == 0;
}

static void add_image(json_t *content, const char *base64, const char *media)
{
    if (json_array_size(content) < IMAGES_MAX &&
        strlen(base64) < (size_t)IMAGE_MAX / 3 * 4)
        (void)json_array_append_new(content,
                                    json_pack("{s:s, s:s, s:s}", "type", "image",
                                              "data", base64, "mimeType", media));
}

void tool_add_image(json_t *content, const char *media, const void *data, size_t len)
{
    auto_str struct str base64 = { 0 };

    if (!tool_is_image(media) || len > IMAGE_MAX)
        return;
    text_base64(&base64, data, len);
    if (str_ok(&base64))
        add_image(content, base64.data, media);
}

/* Figures of a cell: those of its value and of its displays. */
static void add_figures(json_t *content, const json_t *bundle)
{
    const char *key;
    json_t *data;

    json_object_foreach((json_t *)(uintptr_t)bundle, key, data)
    {
        if (tool_is_image(key) && json_is_string(data))
            add_image(content, json_string_value(data), key);
    }
}

char *tool_add_file(struct mcp_call *call, const char *run, const struct vial_file *f,
                    struct str *text, json_t *content)
{
    auto_str struct str uri = { 0 };
    const char *media = mcp_media(f->path);
    size_t before = strlen(MCP_RUNS_URI) + strlen(run) + 1;

    if (!f->data) {
        str_printf(text, "\n[file %s did not come back: %s%s%s]", f->path,
                   f->error.message, f->error.cause[0] ? ": " : "", f->error.cause);
        return NULL;
    }
    str_printf(text, "\n[file %s: %zu bytes]", f->path, f->len);
    str_printf(&uri, MCP_RUNS_URI "%s/files/%s", run, f->path);
    if (!str_ok(&uri))
        return NULL;
    tool_add_image(content, media, f->data, f->len);
    if (!mcp_runs_keep(call->runs, call->owner, run, uri.data + before, f->data,
                       f->len))
        return NULL;
    (void)json_array_append_new(content, json_pack("{s:s, s:s, s:s, s:s, s:I}", "type",
                                                   "resource_link", "uri", uri.data,
                                                   "name", f->path, "mimeType", media,
                                                   "size", (json_int_t)f->len));
    return ptr_take(&uri.data);
}

/* The text says it all to a model; programs may want to know this besides. */
static json_t *meta(const struct vial_result *r, const struct tool_extra *extra)
{
    json_t *brief = result_brief(r);

    (void)json_object_set_new(brief, "sandbox_id",
                              extra->sandbox_id ? json_string(extra->sandbox_id)
                                                : json_null());
    return json_pack("{s:o}", TOOL_META, brief);
}

static void say_all(struct mcp_call *call, const struct tool_texts *own,
                    struct vial_result *r, struct tool_extra *extra,
                    const struct str *notes, struct mcp_answer *answer)
{
    struct str *s = &answer->text;

    if (r->error.code[0])
        tool_fail(answer, &r->error);
    if (r->error.code[0] && (r->out.len > 0 || r->err.len > 0))
        str_putc(s, '\n');
    say_status(s, r, own, extra);
    say_streams(s, r);
    if (extra->value)
        say_value(s, extra->value);
    if (s->len == 0)
        str_puts(s, "(no output)");
    if (notes->len > 0)
        str_add(s, notes->data, notes->len);
    for (size_t i = 0; i < r->file_count; i++)
        free(tool_add_file(call, r->id, &r->files[i], s, answer->content));
}

void tool_answer(struct mcp_call *call, const struct tool_texts *own,
                 struct vial_result *result, struct tool_extra *extra,
                 struct mcp_answer *answer)
{
    auto_str struct str notes = { 0 };
    auto_json json_t *links = ptr_take(&extra->links);

    answer->is_error = mcp_is_failure(result->verdict);
    answer->content = json_array();
    if (shorten(call, result, "stdout", &result->out, &notes) < 0 ||
        shorten(call, result, "stderr", &result->err, &notes) < 0)
        answer->text.failed = true;
    for (size_t i = 0; i < json_array_size(extra->displays); i++)
        add_figures(answer->content, json_array_get(extra->displays, i));
    add_figures(answer->content, extra->value);
    say_all(call, own, result, extra, &notes, answer);
    if (links)
        (void)json_array_extend(answer->content, links);
    answer->meta = meta(result, extra);
    if (str_ok(&answer->text))
        (void)json_array_insert_new(answer->content, 0,
                                    json_pack("{s:s, s:s%}", "type", "text", "text",
                                              answer->text.data, answer->text.len));
    if (notes.len > 0 || result->file_count > 0)
        mcp_call_changed(call, "resources");
    mcp_call_log(call, result->verdict == VIAL_FAILED ? "error" : "debug",
                 json_pack("{s:s, s:s, s:s, s:f}", "run", result->id, "verdict",
                           vial_verdict_name(result->verdict), "driver", result->driver,
                           "duration_ms", result->duration_ms));
}
