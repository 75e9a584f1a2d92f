/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/str.h"
#include "cli/cli.h"
#include "cli/help.h"
#include "cli/print.h"
#include "model/value.h"

/* The parts of a shell's script, besides its frame. */
struct writer {
    struct str *out;
    const struct command *command;
};

static void add_words(struct str *out, const char *choices)
{
    const char *end = choices + value_choices_told(choices);

    for (; choices < end; choices++)
        str_putc(out, (char)(*choices == '|' ? ' ' : *choices));
}

/* Inside single quotes of any of the three shells. */
static void add_quoted(struct str *out, const char *text)
{
    for (; *text; text++) {
        if (*text == '\'')
            str_puts(out, "’");
        else if (*text == '\\')
            str_puts(out, "\\\\");
        else
            str_putc(out, *text);
    }
}

static bool wants_file(const struct option_row *row)
{
    return row->metavar && !row->choices &&
           (strstr(row->metavar, "FILE") || strstr(row->metavar, "DIR") ||
            strstr(row->metavar, "SRC"));
}

static void add_names(struct str *out)
{
    for (const struct command *const *c = commands; *c; c++)
        str_printf(out, "%s%s", c == commands ? "" : " ", (*c)->name);
}

static void bash_flag(void *context, const struct option_row *row)
{
    struct writer *w = context;

    str_printf(w->out, " --%s", row->name);
    if (row->other[0])
        str_printf(w->out, " --%s", row->other);
    if (row->letter)
        str_printf(w->out, " -%c", row->letter);
}

/* A case of "what can follow this flag". */
static void bash_value(void *context, const struct option_row *row)
{
    struct writer *w = context;

    if (!row->metavar)
        return;
    str_printf(w->out, "    %s:--%s", w->command->name, row->name);
    if (row->other[0])
        str_printf(w->out, "|%s:--%s", w->command->name, row->other);
    if (row->letter)
        str_printf(w->out, "|%s:-%c", w->command->name, row->letter);
    if (row->choices) {
        str_puts(w->out, ") words='");
        add_words(w->out, row->choices);
        str_puts(w->out, "' ;;\n");
    } else {
        str_puts(w->out, wants_file(row) ? ") files=1 ;;\n" : ") return ;;\n");
    }
}

static bool takes_language(const struct command *c)
{
    return c->operands && str_starts(c->operands, "LANG");
}

static void bash_command(struct str *out, const struct command *c)
{
    struct writer w = { .out = out, .command = c };

    options_each(c, bash_value, &w);
    str_printf(out, "    %s:*) files=1 flags='", c->name);
    options_each(c, bash_flag, &w);
    str_puts(out, "'\n");
    if (takes_language(c))
        str_puts(out, "        _vial_language\n");
    if (c->words || strcmp(c->name, "help") == 0) {
        str_puts(out,
                 "        [ \"$COMP_CWORD\" -eq $((at + 1)) ] && files='' words='");
        if (c->words)
            add_words(out, c->words);
        else
            add_names(out);
        str_puts(out, "'\n");
    }
    str_puts(out, "        ;;\n");
}

static void write_bash(struct str *out)
{
    str_puts(
        out,
        "# bash completion for vial\n"
        "# Languages, until one of them is there; in the variables of _vial.\n"
        "_vial_language() {\n"
        "    local names word\n"
        "    names=\" $(\"${COMP_WORDS[0]}\" completion languages 2>/dev/null | tr '\\n' ' ') \"\n"
        "    for word in \"${COMP_WORDS[@]:at+1:COMP_CWORD-at-1}\"; do\n"
        "        case $names in *\" $word \"*) return ;; esac\n"
        "    done\n"
        "    words=$names files=''\n"
        "}\n"
        "_vial() {\n"
        "    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]}\n"
        "    local words='' flags='' files='' command='' at=1\n"
        "    COMPREPLY=()\n"
        "    for ((; at < COMP_CWORD; at++)); do\n"
        "        case ${COMP_WORDS[at]} in\n"
        "        --preset | --config) ((at++)) ;;\n"
        "        -*) ;;\n"
        "        *) command=${COMP_WORDS[at]} && break ;;\n"
        "        esac\n"
        "    done\n"
        "    case \"$command:$prev\" in\n");
    str_puts(out, "    :--preset) words='");
    add_words(out, VIAL_PRESETS);
    str_puts(out, "' ;;\n    :--config) files=1 ;;\n    :*) words='");
    add_names(out);
    str_puts(out, "' flags='--help --version --preset --config' ;;\n");
    for (const struct command *const *c = commands; *c; c++)
        bash_command(out, *c);
    str_puts(out, "    esac\n"
                  "    case \"$cur\" in -*) words=$flags files='' ;; esac\n"
                  "    while IFS='' read -r word; do COMPREPLY+=(\"$word\"); done \\\n"
                  "        < <(compgen -W \"$words\" ${files:+-f} -- \"$cur\")\n"
                  "}\n"
                  "complete -o filenames -F _vial vial\n");
}

/* Inside the brackets of an _arguments specification. */
static void add_bracketed(struct str *out, const char *text)
{
    for (; *text; text++)
        if (!strchr("[]'\\:", *text))
            str_putc(out, *text);
}

static void zsh_spelling(struct str *out, const char *name,
                         const struct option_row *row)
{
    str_printf(out, "            '*--%s[", name);
    add_bracketed(out, row->help);
    str_putc(out, ']');
    if (wants_file(row))
        str_puts(out, ":file:_files");
    else if (row->metavar)
        str_puts(out, ":value:(");
    if (row->choices)
        add_words(out, row->choices);
    str_puts(out, row->metavar && !wants_file(row) ? ")' \\\n" : "' \\\n");
}

static void zsh_flag(void *context, const struct option_row *row)
{
    struct writer *w = context;

    zsh_spelling(w->out, row->name, row);
    if (row->other[0])
        zsh_spelling(w->out, row->other, row);
}

static void zsh_command(struct str *out, const struct command *c)
{
    struct writer w = { .out = out, .command = c };

    str_printf(out, "    %s)\n        _arguments \\\n", c->name);
    options_each(c, zsh_flag, &w);
    if (takes_language(c))
        str_puts(out, "            \":language:($($vial completion languages "
                      "2>/dev/null))\" \\\n");
    if (c->words) {
        str_puts(out, "            ':what:(");
        add_words(out, c->words);
        str_puts(out, ")' \\\n");
    }
    str_puts(out, "            '*:argument:_files'\n        ;;\n");
}

static void write_zsh(struct str *out)
{
    str_puts(out, "#compdef vial\n"
                  "_vial() {\n"
                  "    local -a commands\n"
                  "    commands=(\n");
    for (const struct command *const *c = commands; *c; c++) {
        str_printf(out, "        '%s:", (*c)->name);
        add_quoted(out, (*c)->summary);
        str_puts(out, "'\n");
    }
    str_puts(out, "    )\n"
                  "    if (( CURRENT == 2 )); then\n"
                  "        _describe command commands\n"
                  "        return\n"
                  "    fi\n"
                  "    local vial=$words[1] command=$words[2]\n"
                  "    shift words\n"
                  "    (( CURRENT-- ))\n"
                  "    case $command in\n");
    for (const struct command *const *c = commands; *c; c++)
        zsh_command(out, *c);
    str_puts(out, "    esac\n"
                  "}\n"
                  "if [ \"$funcstack[1]\" = _vial ]; then\n"
                  "    _vial \"$@\"\n"
                  "else\n"
                  "    compdef _vial vial\n"
                  "fi\n");
}

static void fish_flag(void *context, const struct option_row *row)
{
    struct writer *w = context;

    str_printf(w->out, "complete -c vial -n '__fish_seen_subcommand_from %s' -l %s",
               w->command->name, row->name);
    if (row->other[0])
        str_printf(w->out, " -l %s", row->other);
    if (row->letter)
        str_printf(w->out, " -s %c", row->letter);
    if (row->metavar)
        str_puts(w->out, wants_file(row) ? " -r -F" : " -x");
    if (row->choices) {
        str_puts(w->out, " -a '");
        add_words(w->out, row->choices);
        str_puts(w->out, "'");
    }
    str_puts(w->out, " -d '");
    add_quoted(w->out, row->help);
    str_puts(w->out, "'\n");
}

static void fish_command(struct str *out, const struct command *c)
{
    struct writer w = { .out = out, .command = c };

    str_printf(out, "complete -c vial -n __fish_use_subcommand -f -a %s -d '", c->name);
    add_quoted(out, c->summary);
    str_puts(out, "'\n");
    if (c->words) {
        str_printf(out, "complete -c vial -n '__fish_seen_subcommand_from %s' -f -a '",
                   c->name);
        add_words(out, c->words);
        str_puts(out, "'\n");
    }
    if (takes_language(c))
        str_printf(
            out,
            "complete -c vial -n '__fish_seen_subcommand_from %s; and not "
            "__fish_seen_subcommand_from (vial completion languages 2>/dev/null)' "
            "-f -a '(vial completion languages 2>/dev/null)'\n",
            c->name);
    options_each(c, fish_flag, &w);
}

int complete_print(const char *shell)
{
    auto_str struct str out = { 0 };

    if (strcmp(shell, "bash") == 0) {
        write_bash(&out);
    } else if (strcmp(shell, "zsh") == 0) {
        write_zsh(&out);
    } else if (strcmp(shell, "fish") == 0) {
        str_puts(&out, "# fish completion for vial\n");
        for (const struct command *const *c = commands; *c; c++)
            fish_command(&out, *c);
    } else {
        return -1;
    }
    return print_text(&out);
}
