/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/events.h"

#include <string.h>

#include "base/auto.h"
#include "base/fail.h"
#include "base/json.h"
#include "base/text.h"

#define LINE_MAX_BYTES ((size_t)512 << 20)

static int see_line(struct events *e, struct vial_error *err)
{
    auto_json json_t *object = json_loadb(e->line.data, e->line.len, 0, NULL);
    const char *event = json_string_value(json_object_get(object, "event"));

    e->line.len = 0;
    if (!event)
        return fail(err, VIAL_E_DAEMON, "the daemon sent what is no event");
    return e->see(e->context, event, object, err);
}

int events_take(void *context, const char *data, size_t len, struct vial_error *err)
{
    struct events *e = context;

    while (len > 0) {
        const char *end = memchr(data, '\n', len);
        size_t part = end ? (size_t)(end - data) : len;

        str_add(&e->line, data, part);
        if (!str_ok(&e->line) || e->line.len > LINE_MAX_BYTES)
            return fail_memory(err);
        if (!end)
            return 0;
        if (see_line(e, err) < 0)
            return -1;
        data += part + 1;
        len -= part + 1;
    }
    return 0;
}

void events_done(struct events *e)
{
    str_done(&e->line);
}

int events_output(const char *event, json_t *object, struct blob *out)
{
    json_t *text = json_object_get(object, "data");
    json_t *coded = json_object_get(object, "base64");
    int stream = strcmp(event, "stdout") == 0   ? 1
                 : strcmp(event, "stderr") == 0 ? 2
                                                : 0;

    if (!stream)
        return 0;
    if (json_is_string(text))
        return blob_set(out, json_string_value(text), json_string_length(text)) == 0
                   ? stream
                   : 0;
    if (!json_is_string(coded) ||
        text_unbase64(json_string_value(coded), json_string_length(coded), out) < 0)
        return 0;
    return stream;
}
