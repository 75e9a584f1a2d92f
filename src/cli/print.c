/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/print.h"

#include <errno.h>
#include <stdarg.h>
#include <string.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/io.h"
#include "base/sys.h"
#include "cli/cli.h"

#define TABLE_COLUMNS 8

static void say_str(const struct str *line)
{
    auto_str struct str safe = { 0 };
    struct text_safe state = { 0 };

    if (!str_ok(line) || !line->data)
        return;
    text_safe(&state, &safe, line->data, line->len);
    text_safe_end(&state, &safe);
    str_putc(&safe, '\n');
    if (str_ok(&safe))
        (void)io_write_all(STDERR_FILENO, safe.data, safe.len);
}

void say(const char *format, ...)
{
    auto_str struct str line = { 0 };
    va_list args;

    str_puts(&line, "vial: ");
    va_start(args, format);
    str_vprintf(&line, format, args);
    va_end(args);
    say_str(&line);
}

void say_error(const struct vial_error *err)
{
    say_error_as(err, "error", "");
}

void say_error_as(const struct vial_error *err, const char *kind, const char *other)
{
    auto_str struct str line = { 0 };

    str_printf(&line, "vial: %s: %s", kind, err->message);
    if (err->cause[0])
        str_printf(&line, ": %s", err->cause);
    str_printf(&line, " [%s%s%s]", other, other[0] ? ", " : "", err->code);
    if (err->remedy[0])
        str_printf(&line, "; %s", err->remedy);
    say_str(&line);
}

int print_bytes(int fd, struct text_safe *state, const char *data, size_t len)
{
    auto_str struct str safe = { 0 };

    if (!isatty(fd))
        return data ? io_write_all(fd, data, len) : 0;
    if (data)
        text_safe(state, &safe, data, len);
    else
        text_safe_end(state, &safe);
    if (safe.failed)
        return -ENOMEM;
    return safe.len ? io_write_all(fd, safe.data, safe.len) : 0;
}

/* The status for what writing to stdout gave. */
static int status_of(int rc)
{
    if (rc == 0)
        return STATUS_OK;
    if (rc == -EPIPE)
        return STATUS_PIPE;
    say("error: write to standard output: %s", sys_text(-rc));
    return STATUS_VIAL;
}

static int write_out(const char *data, size_t len)
{
    return status_of(io_write_all(STDOUT_FILENO, data, len));
}

static int no_memory(void)
{
    say("error: out of memory");
    return STATUS_VIAL;
}

int print_part(struct text_safe *state, const char *data, size_t len)
{
    return status_of(print_bytes(STDOUT_FILENO, state, data, len));
}

int print_text(const struct str *text)
{
    auto_str struct str safe = { 0 };
    struct text_safe state = { 0 };

    if (!str_ok(text))
        return no_memory();
    if (text->len == 0)
        return STATUS_OK;
    if (!isatty(STDOUT_FILENO))
        return write_out(text->data, text->len);
    text_safe(&state, &safe, text->data, text->len);
    text_safe_end(&state, &safe);
    return str_ok(&safe) ? write_out(safe.data, safe.len) : no_memory();
}

int print_line(const char *text)
{
    auto_str struct str line = { 0 };

    if (!text)
        return no_memory();
    str_puts(&line, text);
    if (line.len == 0 || line.data[line.len - 1] != '\n')
        str_putc(&line, '\n');
    return print_text(&line);
}

int print_json(json_t *value)
{
    auto_free char *text = value ? json_dumps(value, JSON_INDENT(2)) : NULL;

    json_decref(value);
    return print_line(text);
}

int print_compact(json_t *value)
{
    auto_free char *text = value ? json_dumps(value, JSON_COMPACT) : NULL;

    json_decref(value);
    return print_line(text);
}

int print_indented(const char *json)
{
    return print_json(json_loads(json, 0, NULL));
}

/* Names may be a program's: none is more than one line. */
void table_add(struct table *t, const char *cell)
{
    auto_str struct str quoted = { 0 };

    if (cell && strpbrk(cell, "\n\r"))
        text_quote(&quoted, "", cell);
    strv_push(&t->cells, quoted.data ? quoted.data : cell ? cell : "");
}

static void add_row(struct str *out, char **cells, const size_t *width, size_t columns)
{
    for (size_t i = 0; i + 1 < columns; i++)
        str_printf(out, "%-*s  ", (int)width[i], cells[i]);
    str_puts(out, cells[columns - 1]);
    while (out->len && out->data[out->len - 1] == ' ')
        out->data[--out->len] = '\0';
    str_putc(out, '\n');
}

int table_print(struct table *t)
{
    auto_str struct str out = { 0 };
    size_t width[TABLE_COLUMNS] = { 0 };
    size_t rows = t->cells.count / t->columns;
    bool ok = strv_ok(&t->cells);

    for (size_t i = 0; ok && i < rows * t->columns; i++) {
        size_t len = strlen(t->cells.items[i]);

        if (len > width[i % t->columns])
            width[i % t->columns] = len;
    }
    for (size_t i = 0; ok && i < rows; i++)
        add_row(&out, t->cells.items + i * t->columns, width, t->columns);
    strv_done(&t->cells);
    return ok ? print_text(&out) : no_memory();
}
