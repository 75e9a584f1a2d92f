/* SPDX-License-Identifier: Apache-2.0 */

/* What a build says, and what its owner is told of it. */

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/fail.h"
#include "e2b/builds.h"
#include "e2b/control.h"
#include "model/value.h"

#define LINE  2048u        /* bytes of an entry */
#define ENTRY ((size_t)64) /* that one costs, however short it is */
#define FULL  "what is printed from here on is not kept"

/* With the lock held. */
static void add(struct build *b, const char *level, const char *text, size_t len)
{
    struct build_entry *more;
    bool full = b->log_bytes + len + ENTRY > BUILD_LOG_BYTES;

    if (b->log_full)
        return;
    more = reallocarray(b->log, b->log_count + 1, sizeof(*more));
    if (!more)
        return;
    b->log = more;
    b->log[b->log_count] = (struct build_entry){
        .at_ms = control_now_ms(),
        .level = full ? "warn" : level,
        .text = full ? strdup(FULL) : strndup(text, len),
    };
    if (!b->log[b->log_count].text)
        return;
    b->log_count++;
    b->log_bytes += len + ENTRY;
    b->log_full = full;
}

void build_say(struct build *b, const char *level, const char *text, size_t len)
{
    build_lock(b);
    while (len > 0) {
        const char *end = memchr(text, '\n', len);
        size_t line = end ? (size_t)(end - text) : len;
        size_t skip = line + (end != NULL);

        if (line > LINE)
            line = skip = LINE;
        add(b, level, text, line);
        text += skip;
        len -= skip;
    }
    build_unlock(b);
}

void build_tell(struct build *b, const char *format, ...)
{
    char text[LINE];
    va_list args;

    va_start(args, format);
    (void)vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    build_say(b, "info", text, strlen(text));
}

static const char *state_name(enum build_state state)
{
    static const char *const names[] = {
        [BUILD_WAITS] = "waiting",
        [BUILD_RUNS] = "building",
        [BUILD_READY] = "ready",
        [BUILD_FAILED] = "error",
    };

    return names[state];
}

static json_t *text_of(const char *text)
{
    return value_text_json(text, strlen(text));
}

/* With the lock held. */
static json_t *page(const struct build *b, size_t offset, json_t *lines)
{
    json_t *entries = json_array();

    for (size_t i = offset; i < b->log_count && i - offset < BUILD_LOG_PAGE; i++) {
        const struct build_entry *e = &b->log[i];
        char stamp[CONTROL_STAMP];

        control_stamp(e->at_ms, stamp);
        (void)json_array_append_new(entries, json_pack("{s:s, s:s, s:o}", "timestamp",
                                                       stamp, "level", e->level,
                                                       "message", text_of(e->text)));
        (void)json_array_append_new(lines, text_of(e->text));
    }
    return entries;
}

json_t *build_status(struct build *b, size_t offset)
{
    json_t *lines = json_array();
    json_t *reason = NULL;
    json_t *out;

    build_lock(b);
    if (b->state == BUILD_FAILED)
        reason = json_pack("{s:o, s:s*, s:[]}", "message",
                           text_of(b->why ? b->why : "the build failed"), "step",
                           b->step, "logEntries");
    out = json_pack("{s:s, s:s, s:s, s:o, s:o, s:o*}", "templateID", b->saved.name,
                    "buildID", b->saved.build, "status", state_name(b->state),
                    "logEntries", page(b, offset, lines), "logs", lines, "reason",
                    reason);
    build_unlock(b);
    return out;
}
