/* SPDX-License-Identifier: Apache-2.0 */
#include "serve/access_log.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/io.h"
#include "base/str.h"
#include "base/text.h"

/* A line is one line: what a terminal would take for a move is written as an escape. */
static void add_escaped(struct str *line, char c)
{
    static const char moves[] = "\n\t\r";
    static const char letters[] = "ntr";
    const char *move = c ? strchr(moves, c) : NULL;

    if (c == '"' || c == '\\' || move)
        str_putc(line, '\\');
    if (move)
        c = letters[move - moves];
    str_putc(line, c);
}

static void add_quoted(struct str *line, const char *text)
{
    struct text_safe state = { 0 };
    auto_str struct str safe = { 0 };

    text_safe(&state, &safe, text, strlen(text));
    text_safe_end(&state, &safe);
    if (safe.len && !strpbrk(safe.data, " \"=\t\n\r\\")) {
        str_add(line, safe.data, safe.len);
        return;
    }
    str_putc(line, '"');
    for (size_t i = 0; i < safe.len; i++)
        add_escaped(line, safe.data[i]);
    str_putc(line, '"');
}

static void add_value(struct str *line, const json_t *value)
{
    auto_free char *text = NULL;

    if (json_is_string(value)) {
        add_quoted(line, json_string_value(value));
        return;
    }
    text = json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT | JSON_REAL_PRECISION(6));
    str_puts(line, text ? text : "?");
}

static void write_logfmt(struct str *line, json_t *all)
{
    for (void *at = json_object_iter(all); at; at = json_object_iter_next(all, at)) {
        if (json_is_null(json_object_iter_value(at)))
            continue;
        str_printf(line, "%s%s=", line->len ? " " : "", json_object_iter_key(at));
        add_value(line, json_object_iter_value(at));
    }
}

void log_line(const struct log *log, const char *level, const char *event,
              json_t *fields)
{
    auto_str struct str line = { 0 };
    char when[CLOCK_STAMP_SIZE];
    json_t *all;

    clock_stamp(when, 3);
    all = json_pack("{s:s, s:s, s:s}", "time", when, "level", level, "event", event);
    if (all && fields)
        (void)json_object_update(all, fields);
    json_decref(fields);
    if (log->form == LOG_JSON) {
        char *text = json_dumps(all, JSON_COMPACT | JSON_REAL_PRECISION(6));

        str_puts(&line, text ? text : "{}");
        free(text);
    } else if (log->form == LOG_LOGFMT) {
        write_logfmt(&line, all);
    }
    json_decref(all);
    if (log->form == LOG_NONE)
        return;
    str_putc(&line, '\n');
    if (str_ok(&line))
        (void)io_write_all(STDERR_FILENO, line.data, line.len);
}
