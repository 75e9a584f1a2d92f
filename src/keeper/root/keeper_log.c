/* SPDX-License-Identifier: Apache-2.0 */
#include "keeper/root/keeper_log.h"

#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/io.h"
#include "base/str.h"
#include "keeper/root/keeper.h"

static void add_time(struct str *line, bool json)
{
    char now[CLOCK_STAMP_SIZE];

    clock_stamp(now, 3);
    str_printf(line, json ? "{\"time\":\"%s\"" : "time=%s", now);
}

/* Texts come from a front that may have been taken over: what is not plain ASCII is
 * shown as such, so that no line can be forged. */
static void add_quoted(struct str *line, const char *text)
{
    str_putc(line, '"');
    for (const char *at = text; *at; at++) {
        unsigned char c = (unsigned char)*at;

        if (c == '"' || c == '\\')
            str_printf(line, "\\%c", c);
        else if (c < ' ' || c > '~')
            str_printf(line, "\\u%04x", c);
        else
            str_putc(line, (char)c);
    }
    str_putc(line, '"');
}

static void add_text(struct str *line, bool json, const char *name, const char *text)
{
    if (!text || !*text)
        return;
    str_printf(line, json ? ",\"%s\":" : " %s=", name);
    if (json || strpbrk(text, " \"=\\") ||
        strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                     "-_.:/@+,") != strlen(text))
        add_quoted(line, text);
    else
        str_puts(line, text);
}

static void add_ms(struct str *line, bool json, const char *name, double ms)
{
    str_printf(line, json ? ",\"%s\":%.3f" : " %s=%.3f", name, ms);
}

static void begin(struct str *line, bool json, const char *level, const char *event,
                  const struct plan *plan)
{
    add_time(line, json);
    add_text(line, json, "level", level);
    add_text(line, json, "event", event);
    add_text(line, json, "part", "keeper");
    add_text(line, json, "driver", keeper_driver->name);
    add_text(line, json, "request", plan ? plan->correlation : NULL);
    add_text(line, json, "run", plan ? plan->id : NULL);
}

static void end(struct str *line, bool json)
{
    str_puts(line, json ? "}\n" : "\n");
    if (str_ok(line))
        (void)io_write_all(STDERR_FILENO, line->data, line->len);
}

void journal_vessel(const struct rules *rules, const struct plan *plan,
                    const char *vessel_id, double open_ms, double lived_ms)
{
    auto_str struct str line = { 0 };
    bool json = rules->log == RULES_LOG_JSON;

    if (rules->log == RULES_LOG_NONE)
        return;
    begin(&line, json, "info", "vessel", plan);
    add_text(&line, json, "vessel", vessel_id);
    add_ms(&line, json, "open_ms", open_ms);
    add_ms(&line, json, "ms", lived_ms);
    end(&line, json);
}

void journal_refusal(const struct rules *rules, const struct plan *plan,
                     const struct vial_error *err)
{
    auto_str struct str line = { 0 };
    bool json = rules->log == RULES_LOG_JSON;

    if (rules->log == RULES_LOG_NONE)
        return;
    begin(&line, json, "warn", "no vessel", plan);
    add_text(&line, json, "code", err->code);
    add_text(&line, json, "message", err->message);
    add_text(&line, json, "cause", err->cause);
    end(&line, json);
}
