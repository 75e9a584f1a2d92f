/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/str.h"
#include "cli/cli.h"
#include "cli/help.h"
#include "cli/print.h"
#include "model/value.h"

/* Text as roff: a line never begins with a control character, and backslashes
 * and hyphens are themselves. */
static void add_roff(struct str *out, const char *text)
{
    bool at_start = out->len == 0 || out->data[out->len - 1] == '\n';

    for (; *text; text++) {
        if (at_start && (*text == '.' || *text == '\''))
            str_puts(out, "\\&");
        at_start = *text == '\n';
        if (*text == '\\')
            str_puts(out, "\\e");
        else if (*text == '-')
            str_puts(out, "\\-");
        else
            str_putc(out, *text);
    }
}

struct listing {
    struct str *out;
    const char *group;
};

static void add_option(void *context, const struct option_row *row)
{
    struct listing *list = context;
    struct str *out = list->out;

    if (!list->group || strcmp(list->group, row->group) != 0)
        str_printf(out, ".PP\n%s:\n", row->group);
    list->group = row->group;
    str_puts(out, ".TP\n.B ");
    if (row->letter)
        str_printf(out, "\\-%c, ", row->letter);
    str_puts(out, "\\-\\-");
    add_roff(out, row->name);
    if (row->other[0]) {
        str_puts(out, ", \\-\\-");
        add_roff(out, row->other);
    }
    if (row->metavar)
        str_printf(out, " \\fI%s\\fR", row->metavar);
    str_putc(out, '\n');
    add_roff(out, row->help);
    if (row->choices)
        str_printf(out, " One of %.*s.", (int)value_choices_told(row->choices),
                   row->choices);
    if (row->def)
        str_printf(out, " Default: %s.", row->def);
    str_putc(out, '\n');
}

static void add_examples(struct str *out, const char *examples)
{
    str_puts(out, ".PP\n.nf\n");
    while (*examples) {
        auto_str struct str line = { 0 };
        size_t len = strcspn(examples, "\n");

        str_add(&line, examples, len);
        str_puts(out, "    ");
        add_roff(out, str_ok(&line) && line.data ? line.data : "");
        str_putc(out, '\n');
        examples += len + (examples[len] == '\n');
    }
    str_puts(out, ".fi\n");
}

static void add_head(struct str *out, const char *name, const char *summary)
{
    auto_str struct str title = { 0 };

    for (const char *c = name; *c; c++)
        str_putc(&title, *c >= 'a' && *c <= 'z' ? (char)(*c - 'a' + 'A') : *c);
    str_printf(out, ".TH %s 1 \"\" \"vial %s\" \"User Commands\"\n.SH NAME\n",
               str_ok(&title) ? title.data : "", vial_version());
    add_roff(out, name);
    str_puts(out, " \\- ");
    add_roff(out, summary);
    str_puts(out, "\n.SH SYNOPSIS\n.B vial");
}

static void add_statuses(struct str *out)
{
    str_puts(out, ".SH EXIT STATUS\n");
    for (const struct status_row *row = help_statuses; row->status; row++) {
        str_printf(out, ".TP\n.B %s\n", row->status);
        add_roff(out, row->meaning);
        str_puts(out, ".\n");
    }
}

static void add_command_page(struct str *out, const struct command *c)
{
    auto_str struct str name = { 0 };
    struct listing list = { .out = out };

    str_printf(&name, "vial-%s", c->name);
    add_head(out, str_ok(&name) ? name.data : "", c->summary);
    str_printf(out, " %s\n[OPTION…]", c->name);
    if (c->operands)
        str_printf(out, " %s", c->operands);
    str_puts(out, "\n.SH DESCRIPTION\n");
    add_roff(out, c->text ? c->text : c->summary);
    str_puts(out, c->text ? "\n" : ".\n");
    if (c->examples) {
        str_puts(out, ".SH EXAMPLES\n");
        add_examples(out, c->examples);
    }
    str_puts(out, ".SH OPTIONS\n");
    options_each(c, add_option, &list);
    if (c->shows_status)
        add_statuses(out);
    str_puts(out, ".SH SEE ALSO\n.BR vial (1)\n");
}

static void add_main_page(struct str *out)
{
    struct listing list = { .out = out };

    add_head(out, "vial", command_vial.summary);
    str_puts(out, "\n[OPTION…] COMMAND …\n.SH COMMANDS\nEach has a page of its own.\n");
    for (const struct command *const *c = commands; *c; c++) {
        str_printf(out, ".TP\n.BR vial\\-%s (1)\n", (*c)->name);
        add_roff(out, (*c)->summary);
        str_putc(out, '\n');
    }
    str_puts(out, ".SH OPTIONS\n");
    options_each(&command_vial, add_option, &list);
    str_puts(out,
             ".SH FILES\n.I /etc/vial/vial.yaml\n.br\n.I ~/.config/vial/vial.yaml\n"
             ".br\n.I vial.yaml\nin the project\n.br\n.I ~/.local/state/vial\n"
             "(of root: /var/lib/vial): what is trusted, and other records\n"
             ".SH ENVIRONMENT\nVIAL_TIMEOUT, VIAL_MEMORY and so "
             "on set the field of that name.\n");
}

int help_man(const struct command *command)
{
    auto_str struct str out = { 0 };

    if (command == &command_vial)
        add_main_page(&out);
    else
        add_command_page(&out, command);
    return print_text(&out);
}
