/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/help.h"

#include <string.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/io.h"
#include "base/str.h"
#include "cli/cli.h"
#include "cli/print.h"
#include "model/value.h"

#define HELP_COLUMN 30
#define HELP_WIDTH  88

const struct status_row help_statuses[] = {
    { "0", "the program ended well" },
    { "n", "the program's own exit status" },
    { "124", "the wall-clock or cpu-time limit ended it" },
    { "125", "vial refused or failed, or another limit ended the run" },
    { "126, 127", "the command cannot be executed, was not found" },
    { "128+n", "signal n killed the program, or vial was told by it to stop" },
    { "137", "out of memory (or the program was killed by SIGKILL)" },
    { "141", "nobody reads vial's output any more" },
    { 0 },
};

/* Appends TEXT broken into lines; the first one already stands at INDENT. */
static void add_wrapped(struct str *out, const char *text, size_t indent)
{
    size_t column = indent;

    while (*(text += strspn(text, " "))) {
        size_t len = strcspn(text, " ");

        if (column > indent && column + 1 + len > HELP_WIDTH) {
            str_printf(out, "\n%*s", (int)indent, "");
            column = indent;
        } else if (column > indent) {
            str_putc(out, ' ');
            column++;
        }
        str_add(out, text, len);
        column += len;
        text += len;
    }
    str_putc(out, '\n');
}

struct listing {
    struct str *out;
    const char *group;
};

static void add_help_text(struct str *out, const struct option_row *row, size_t column)
{
    auto_str struct str text = { 0 };

    str_puts(&text, row->help);
    if (row->choices)
        str_printf(&text, " One of %.*s.", (int)value_choices_told(row->choices),
                   row->choices);
    if (row->def)
        str_printf(&text, " Default: %s.", row->def);
    if (column + 2 > HELP_COLUMN) {
        str_putc(out, '\n');
        column = 0;
    }
    str_printf(out, "%*s", (int)(HELP_COLUMN - column), "");
    if (str_ok(&text))
        add_wrapped(out, text.data, HELP_COLUMN);
}

static void add_option(void *context, const struct option_row *row)
{
    struct listing *list = context;
    size_t start = 0;

    if (!list->group || strcmp(list->group, row->group) != 0)
        str_printf(list->out, "\n%s:\n", row->group);
    list->group = row->group;
    start = list->out->len;
    if (row->letter)
        str_printf(list->out, "  -%c, --%s", row->letter, row->name);
    else
        str_printf(list->out, "      --%s", row->name);
    if (row->other[0])
        str_printf(list->out, ", --%s", row->other);
    if (row->metavar)
        str_printf(list->out, " %s", row->metavar);
    add_help_text(list->out, row, list->out->len - start);
}

static void add_commands(struct str *out)
{
    str_puts(out, "\nCommands:\n");
    for (const struct command *const *c = commands; *c; c++)
        str_printf(out, "  %-12s %s\n", (*c)->name, (*c)->summary);
    str_puts(out, "\n'vial COMMAND --help' tells more about each.\n");
}

static void add_statuses(struct str *out)
{
    str_puts(out, "\nExit status:\n");
    for (const struct status_row *row = help_statuses; row->status; row++)
        str_printf(out, "  %-10s %s\n", row->status, row->meaning);
}

static void add_examples(struct str *out, const char *examples)
{
    str_puts(out, "\nExamples:\n");
    while (*examples) {
        size_t len = strcspn(examples, "\n");

        str_printf(out, "  %.*s\n", (int)len, examples);
        examples += len + (examples[len] == '\n');
    }
}

static void add_help(struct str *out, const struct command *c)
{
    struct listing list = { .out = out };
    const char *operands = c->operands ? c->operands : "";

    if (c == &command_vial) {
        str_printf(out, "vial: %s\n\nUsage: vial [OPTION…] %s\n", c->summary,
                   c->operands);
        add_commands(out);
    } else {
        str_printf(out, "vial %s: %s\n\nUsage: vial %s [OPTION…]%s%s\n", c->name,
                   c->summary, c->name, operands[0] ? " " : "", operands);
    }
    if (c->text)
        str_printf(out, "\n%s\n", c->text);
    if (c->examples)
        add_examples(out, c->examples);
    options_each(c, add_option, &list);
    if (c->shows_status)
        add_statuses(out);
}

int help_print(const struct command *command)
{
    auto_str struct str out = { 0 };

    add_help(&out, command);
    return print_text(&out);
}

int help_preset(const char *name, json_t *words)
{
    auto_str struct str out = { 0 };

    if (json_object_size(words) == 0)
        return STATUS_OK;
    str_printf(&out, "\nUnder preset %s also:\n", name);
    for (void *at = json_object_iter(words); at; at = json_object_iter_next(words, at))
        str_printf(&out, "  %-18s as 'vial %s'\n", json_object_iter_key(at),
                   json_string_value(json_object_iter_value(at)));
    return print_text(&out);
}

static bool is_in(const char *words, const char *group)
{
    size_t len = strlen(group);

    return strncmp(words, group, len) == 0 && words[len] == ' ';
}

int help_group(const char *name, json_t *words, const char *group)
{
    auto_str struct str out = { 0 };

    for (void *at = json_object_iter(words); at;
         at = json_object_iter_next(words, at)) {
        const char *theirs = json_object_iter_key(at);
        const char *ours = json_string_value(json_object_iter_value(at));
        auto_free char *word = strndup(ours, strcspn(ours, " "));
        const struct command *c = word ? command_find(word) : NULL;

        if (is_in(theirs, group))
            str_printf(&out, "  %-18s %s\n", theirs, c ? c->summary : ours);
    }
    if (out.len == 0)
        return -1;
    str_printf(&out, "\n'vial --preset %s %s COMMAND --help' tells more about each.\n",
               name, group);
    return print_text(&out);
}

void help_group_names(json_t *words, const char *group, struct str *out)
{
    for (void *at = json_object_iter(words); at; at = json_object_iter_next(words, at))
        if (is_in(json_object_iter_key(at), group))
            str_printf(out, "%s'%s'", out->len ? ", " : "", json_object_iter_key(at));
}

int help_hint(void)
{
    auto_str struct str out = { 0 };

    add_help(&out, &command_vial);
    if (str_ok(&out))
        (void)io_write_all(STDERR_FILENO, out.data, out.len);
    return STATUS_VIAL;
}
