/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/options.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/fail.h"
#include "base/str.h"
#include "base/text.h"
#include "cli/cli.h"

/* Friendlier spellings. `name` may be NULL where only a letter is added. */
static const struct alias {
    const char *target; /* a field's or a flag's name */
    const char *name;
    char letter;
} aliases[] = {
    { "files", "in", 0 },       { "out", "outputs", 0 },     { "mounts", "mount", 0 },
    { "env", NULL, 'e' },       { "timeout", NULL, 't' },    { "memory", NULL, 'm' },
    { "secrets", "secret", 0 }, { "ports", "publish", 'p' }, { "caches", "cache", 0 },
    { "volumes", "volume", 0 }, { "quiet", NULL, 'q' },      { "help", NULL, 'h' },
    { "output", NULL, 'o' },    { "jobs", NULL, 'j' },       { "tag", NULL, 't' },
};

/* Every command has these. */
static const struct flag global_flags[] = {
    { "preset", "NAME", "Use the settings of a preset.", VIAL_PRESETS },
    { "config", "FILE", "Read this settings file instead of the usual ones." },
    { "help", NULL, "Show this help." },
    { 0 },
};

/* A group begins at the named field and lasts until the next one, so that a new
 * row of fields.def belongs where it stands. */
static const struct group {
    const char *title, *first_field;
} groups[] = {
    { "Program", "language" },  { "Limits", "timeout" }, { "Output", "output_limit" },
    { "Isolation", "network" }, { "Labels", "session" },
};

#define LENGTH(array) (sizeof(array) / sizeof((array)[0]))

static bool excluded(const struct command *c, const char *field)
{
    for (const char *const *name = c->without; name && *name; name++)
        if (strcmp(*name, field) == 0)
            return true;
    return false;
}

static const struct flag *find_flag(const struct flag *table, const char *name)
{
    for (; table && table->name; table++)
        if (strcmp(table->name, name) == 0)
            return table;
    return NULL;
}

static void spell(const char *from, char was, char becomes, char out[32])
{
    size_t len = strnlen(from, 31);

    memcpy(out, from, len);
    out[len] = '\0';
    for (char *c = out; (c = strchr(c, was)); c++)
        *c = becomes;
}

/* Finds NAME itself, without aliases. */
static bool find_plain(const struct command *c, const char *name, struct given *out)
{
    char field[32];

    out->flag = find_flag(c->flags, name);
    if (!out->flag)
        out->flag = find_flag(global_flags, name);
    if (out->flag)
        return true;
    if (!c->takes_fields || strlen(name) >= sizeof(field) || strchr(name, '_'))
        return false;
    spell(name, '-', '_', field);
    out->field = field_find(field);
    return out->field && !excluded(c, field);
}

static bool find_named(const struct command *c, const char *name, struct given *out)
{
    if (find_plain(c, name, out))
        return true;
    for (size_t i = 0; i < LENGTH(aliases); i++)
        if (aliases[i].name && strcmp(aliases[i].name, name) == 0)
            return find_plain(c, aliases[i].target, out);
    return false;
}

static bool find_letter(const struct command *c, char letter, struct given *out)
{
    for (size_t i = 0; i < LENGTH(aliases); i++)
        if (aliases[i].letter == letter && find_plain(c, aliases[i].target, out))
            return true;
    return false;
}

static void push_name(void *context, const struct option_row *row)
{
    struct strv *names = context;

    strv_printf(names, "--%s", row->name);
    if (row->other[0])
        strv_printf(names, "--%s", row->other);
}

static int refuse_unknown(const struct command *c, const char *arg, size_t len,
                          struct vial_error *err)
{
    auto_strv struct strv names = { 0 };
    auto_str struct str word = { 0 };
    const char *near = NULL;

    str_add(&word, arg, len);
    options_each(c, push_name, &names);
    if (!str_ok(&word) || !strv_ok(&names))
        return fail_memory(err);
    near = text_suggest(word.data, (const char *const *)names.items);
    (void)fail(err, VIAL_E_FIELD, "unknown flag '%s'", word.data);
    if (near)
        return fail_remedy(err, "did you mean '%s'?", near);
    if (c == &command_vial)
        return fail_remedy(err, "see 'vial --help'");
    return fail_remedy(err, "see 'vial %s --help'", c->name);
}

static bool takes_value(const struct given *g)
{
    return g->flag ? g->flag->metavar != NULL : g->field->type != FIELD_BOOL;
}

/* A switch whose value may be left out: the next word is one if it is an address, and
 * else an operand. */
static bool is_left_out(const struct given *g, const char *value, const char *next)
{
    return !value && g->flag && g->flag->metavar && g->flag->metavar[0] == '[' &&
           !(next && (strncmp(next, "unix:", 5) == 0 || strstr(next, "://")));
}

/* Gives G its value: VALUE when it was joined to the flag, else NEXT. Returns
 * how many arguments were used. */
static int take_value(struct given *g, const char *arg, const char *value,
                      const char *next, struct vial_error *err)
{
    if (!takes_value(g) || is_left_out(g, value, next)) {
        if (value && g->flag) {
            (void)fail(err, VIAL_E_USAGE, "flag '--%s' takes no value", g->flag->name);
            return fail_remedy(err, "write '--%s' alone", g->flag->name);
        }
        g->value = value ? value : g->field ? "true" : "";
        return 1;
    }
    g->value = value ? value : next;
    if (!g->value) {
        (void)fail(err, VIAL_E_USAGE, "flag '%s' needs a value", arg);
        return fail_remedy(err, "write '%s %s'", arg,
                           g->flag ? g->flag->metavar : g->field->metavar);
    }
    return value ? 1 : 2;
}

static int take_letter(const struct command *c, const char *arg, const char *next,
                       struct given *out, struct vial_error *err)
{
    const char *joined = arg[2] ? arg + 2 : NULL;

    if (!find_letter(c, arg[1], out))
        return refuse_unknown(c, arg, strlen(arg), err);
    if (joined && *joined == '=')
        joined++;
    return take_value(out, arg, joined, next, err);
}

static int take_long(const struct command *c, const char *arg, const char *next,
                     struct given *out, struct vial_error *err)
{
    size_t len = strcspn(arg, "=");
    char name[32];

    if (len - 2 >= sizeof(name))
        return refuse_unknown(c, arg, len, err);
    memcpy(name, arg + 2, len - 2);
    name[len - 2] = '\0';
    if (!find_named(c, name, out))
        return refuse_unknown(c, arg, len, err);
    return take_value(out, arg, arg[len] ? arg + len + 1 : NULL, next, err);
}

/* Reads the flag at ARGV[0]; returns how many arguments it used, or -1. */
static int take_flag(const struct command *c, char **argv, struct options *o,
                     struct vial_error *err)
{
    struct given g = { 0 };
    int used = argv[0][1] == '-' ? take_long(c, argv[0], argv[1], &g, err)
                                 : take_letter(c, argv[0], argv[1], &g, err);

    if (used > 0)
        o->given[o->given_count++] = g;
    return used;
}

int options_parse(const struct command *command, int argc, char **argv,
                  struct options *out, struct vial_error *err)
{
    bool ended = false;

    *out = (struct options){ 0 };
    out->given = calloc((size_t)argc + 1, sizeof(*out->given));
    out->operands = calloc((size_t)argc + 1, sizeof(*out->operands));
    if (!out->given || !out->operands)
        return fail_memory(err);

    for (int i = 0, used; i < argc; i += used) {
        used = 1;
        if (ended || argv[i][0] != '-' || !argv[i][1]) {
            out->operands[out->operand_count++] = argv[i];
            ended = ended || out->operand_count == command->program_at;
        } else if (strcmp(argv[i], "--") == 0) {
            ended = true;
        } else {
            used = take_flag(command, argv + i, out, err);
            if (used < 0)
                return -1;
        }
    }
    return 0;
}

void options_done(struct options *o)
{
    free(o->given);
    free((void *)o->operands);
    *o = (struct options){ 0 };
}

const char *options_get(const struct options *o, const char *name)
{
    for (size_t i = o->given_count; i > 0; i--)
        if (o->given[i - 1].flag && strcmp(o->given[i - 1].flag->name, name) == 0)
            return o->given[i - 1].value;
    return NULL;
}

static void add_aliases(struct option_row *row, const char *target)
{
    for (size_t i = 0; i < LENGTH(aliases); i++) {
        if (strcmp(aliases[i].target, target) != 0)
            continue;
        if (aliases[i].letter)
            row->letter = aliases[i].letter;
        if (aliases[i].name)
            spell(aliases[i].name, '_', '-', row->other);
    }
}

static void each_flag(const struct flag *table, const char *group, option_fn *fn,
                      void *context)
{
    for (; table && table->name; table++) {
        struct option_row row = { .group = group,
                                  .metavar = table->metavar,
                                  .choices = table->choices,
                                  .help = table->help };

        spell(table->name, '_', '-', row.name);
        add_aliases(&row, table->name);
        fn(context, &row);
    }
}

/* "--in, --files": what people type comes first. */
static void prefer_alias(struct option_row *row)
{
    char name[sizeof(row->name)];

    if (!row->other[0])
        return;
    memcpy(name, row->name, sizeof(name));
    memcpy(row->name, row->other, sizeof(name));
    memcpy(row->other, name, sizeof(name));
}

static void each_field(const struct command *c, option_fn *fn, void *context)
{
    const char *group = "";

    for (size_t i = 0; i < FIELD_ID__COUNT; i++) {
        const struct field *f = &fields[i];
        struct option_row row = { .choices = f->choices,
                                  .def = f->def,
                                  .help = f->help };

        for (size_t g = 0; g < LENGTH(groups); g++)
            if (strcmp(groups[g].first_field, f->name) == 0)
                group = groups[g].title;
        if (excluded(c, f->name))
            continue;
        row.group = group;
        row.metavar = f->type == FIELD_BOOL ? NULL : f->metavar;
        spell(f->name, '_', '-', row.name);
        add_aliases(&row, f->name);
        prefer_alias(&row);
        fn(context, &row);
    }
}

void options_each(const struct command *command, option_fn *fn, void *context)
{
    each_flag(command->flags, "Options", fn, context);
    if (command->takes_fields)
        each_field(command, fn, context);
    each_flag(global_flags, "Every command", fn, context);
}
