/* SPDX-License-Identifier: Apache-2.0 */
#include "driver/e2b/answers.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fail.h"
#include "base/json.h"
#include "base/path.h"
#include "base/text.h"
#include "http/connect_envelope.h"

static int nonsense(const char *what, struct vial_error *err)
{
    (void)fail(err, VIAL_E_REMOTE, "the service's answer makes no sense: %s", what);
    return fail_remedy(err, "see whether the address is that of a service which speaks "
                            "E2B's wire");
}

static bool is_made_of(const char *text, const char *letters)
{
    return strspn(text, letters) == strlen(text);
}

#define SMALL  "abcdefghijklmnopqrstuvwxyz"
#define DIGITS "0123456789"

/* What becomes part of a header is printable, and has no space. */
static bool is_printable(const char *text)
{
    for (; *text; text++)
        if (*text <= ' ' || *text > '~')
            return false;
    return true;
}

/* A text that may be absent or null. */
static int read_text(json_t *answer, const char *key, char *out, size_t size,
                     struct vial_error *err)
{
    json_t *value = json_object_get(answer, key);
    const char *text = json_string_value(value);

    out[0] = '\0';
    if (!value || json_is_null(value))
        return 0;
    if (!text || strlen(text) >= size || !is_printable(text))
        return nonsense(key, err);
    (void)snprintf(out, size, "%s", text);
    return 0;
}

int e2b_read_id(json_t *answer, char out[E2B_ID + 1], struct vial_error *err)
{
    if (read_text(answer, "sandboxID", out, E2B_ID + 1, err) < 0)
        return -1;
    if (out[0] && is_made_of(out, SMALL DIGITS))
        return 0;
    out[0] = '\0';
    return nonsense("sandboxID", err);
}

int e2b_read_box(json_t *answer, struct e2b_box *out, struct vial_error *err)
{
    *out = (struct e2b_box){ 0 };
    if (e2b_read_id(answer, out->id, err) < 0 ||
        read_text(answer, "envdAccessToken", out->token, sizeof(out->token), err) < 0 ||
        read_text(answer, "trafficAccessToken", out->traffic, sizeof(out->traffic),
                  err) < 0 ||
        read_text(answer, "domain", out->domain, sizeof(out->domain), err) < 0)
        return -1;
    return is_made_of(out->domain, SMALL "ABCDEFGHIJKLMNOPQRSTUVWXYZ" DIGITS "-.:")
               ? 0
               : nonsense("domain", err);
}

int e2b_read_home(json_t *answer, const char *name, char *out, struct vial_error *err)
{
    const char *path =
        json_string_value(json_object_get(json_array_get(answer, 0), "path"));
    size_t len = path ? strlen(path) : 0;
    size_t name_len = strlen(name);

    if (len <= name_len + 1 || len >= E2B_PATH || !path_is_clean_absolute(path) ||
        !is_printable(path) || path[len - name_len - 1] != '/' ||
        !str_eq(path + len - name_len, name))
        return nonsense("the path of a file that was brought", err);
    (void)snprintf(out, E2B_PATH, "%.*s", (int)(len - name_len - 1), path);
    return 0;
}

static void show(const char *text, char *out, size_t size)
{
    auto_str struct str safe = { 0 };
    struct text_safe state = { 0 };

    if (text)
        text_safe(&state, &safe, text, strnlen(text, size));
    text_safe_end(&state, &safe);
    (void)snprintf(out, size, "%s", str_ok(&safe) && safe.data ? safe.data : "");
}

static int read_data(json_t *data, struct e2b_event *out, struct vial_error *err)
{
    json_t *text = json_object_get(data, "stdout");

    out->kind = text ? EVENT_OUT : EVENT_ERR;
    text = text ? text : json_object_get(data, "stderr");
    if (!text) {
        out->kind = EVENT_OTHER;
        return 0;
    }
    if (!json_is_string(text) ||
        text_unbase64(json_string_value(text), json_string_length(text), &out->data) <
            0)
        return nonsense("output that is not base64", err);
    return 0;
}

static int read_event(json_t *message, struct e2b_event *out, struct vial_error *err)
{
    json_t *event = json_object_get(message, "event");
    json_t *start = json_object_get(event, "start");
    json_t *data = json_object_get(event, "data");
    json_t *end = json_object_get(event, "end");
    json_int_t pid = json_integer_value(json_object_get(start, "pid"));

    if (start && (pid <= 0 || pid > UINT32_MAX))
        return nonsense("the guest's pid", err);
    if (start) {
        out->kind = EVENT_START;
        out->pid = (uint32_t)pid;
    } else if (end) {
        out->kind = EVENT_END;
        show(json_string_value(json_object_get(end, "status")), out->status,
             sizeof(out->status));
    } else if (data) {
        return read_data(data, out, err);
    }
    return 0;
}

/* The last frame. */
static int read_last(json_t *message, struct vial_error *err)
{
    json_t *error = json_object_get(message, "error");
    char code[32];
    char text[200];

    if (!error)
        return 0;
    show(json_string_value(json_object_get(error, "code")), code, sizeof(code));
    show(json_string_value(json_object_get(error, "message")), text, sizeof(text));
    (void)fail(err, VIAL_E_REMOTE, "the sandbox says '%s'", code);
    return text[0] ? fail_cause(err, "%s", text) : -1;
}

/* The one that is held, which is whole. */
static int read_frame(struct e2b_frames *f, e2b_take *take, void *context,
                      struct vial_error *err)
{
    const unsigned flags = connect_head_read(f->held.data).flags;
    auto_json json_t *message = NULL;
    struct e2b_event event = { 0 };
    int rc = 0;

    if (f->over || (flags & ~CONNECT_LAST) != 0)
        return nonsense("a frame that is compressed, or behind the last", err);
    if (json_parse(f->held.data + CONNECT_HEAD, f->held.len - CONNECT_HEAD, "a frame",
                   &message, err) < 0)
        return fail_as(err, VIAL_E_REMOTE);
    if (flags & CONNECT_LAST) {
        f->over = true;
        return read_last(message, err);
    }
    rc = read_event(message, &event, err);
    if (rc == 0)
        rc = take(context, &event, err);
    blob_done(&event.data);
    return rc;
}

/* How long the frame is that is held so far, as far as that is known. */
static size_t whole_of(const struct str *held)
{
    return held->len < CONNECT_HEAD ? CONNECT_HEAD
                                    : CONNECT_HEAD + connect_head_read(held->data).len;
}

/* The frame that is held so far is made longer by what it lacks; how many bytes. */
static size_t fill(struct str *held, size_t whole, const char *data, size_t len)
{
    size_t lacks = whole - held->len;
    size_t n = len < lacks ? len : lacks;

    str_add(held, data, n);
    return n;
}

int e2b_feed(struct e2b_frames *f, const char *data, size_t len, e2b_take *take,
             void *context, struct vial_error *err)
{
    while (len > 0) {
        size_t n = fill(&f->held, whole_of(&f->held), data, len);

        data += n;
        len -= n;
        if (f->held.failed)
            return fail_memory(err);
        if (whole_of(&f->held) > CONNECT_HEAD + E2B_FRAME_MAX)
            return nonsense("a frame that is too long", err);
        if (f->held.len < whole_of(&f->held))
            continue;
        if (read_frame(f, take, context, err) < 0)
            return -1;
        f->held.len = 0;
    }
    return 0;
}
