/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_CLI_OPTIONS_H
#define VIAL_CLI_OPTIONS_H

/*
 * The only option parser. Flags come from two tables that it treats alike: the
 * request fields (model/fields.def) and a command's own flags. Parsing judges
 * nothing but spelling; values of fields are judged by the library when they
 * are put into a request.
 */

#include <stddef.h>

#include "model/fields.h"

#include "vial/error.h"

struct command;

/* A flag that is no request field. */
struct flag {
    const char *name; /* without "--" */
    const char
        *metavar;     /* NULL: a switch; "[URL]": a switch that may have an address */
    const char *help; /* one sentence */
    const char *choices; /* "a|b", or NULL */
};

/* Rows that several commands share. */
#define FLAG_ROW_JSON                                                                  \
    {                                                                                  \
        "json", NULL, "Print JSON instead of text."                                    \
    }

/* One flag as it came. Exactly one of FLAG and FIELD is set; borrowed. */
struct given {
    const struct flag *flag;
    const struct field *field;
    const char *value; /* "" for a switch */
};

struct options {
    struct given *given;
    size_t given_count;
    char **operands; /* borrowed strings, NULL-terminated */
    size_t operand_count;
};

/* Reads ARGV for COMMAND. OUT is filled as far as it went even on failure, and
 * must be given to options_done either way. */
int options_parse(const struct command *command, int argc, char **argv,
                  struct options *out, struct vial_error *err);
void options_done(struct options *o);

/* The last value of flag NAME, or NULL. */
const char *options_get(const struct options *o, const char *name);

/* A flag as a person sees it, for help, man page and completion. */
struct option_row {
    const char *group;                          /* "Limits" */
    char letter;                                /* or 0 */
    char name[32];                              /* without "--" */
    char other[32];                             /* a second spelling, or "" */
    const char *metavar, *choices, *def, *help; /* each but HELP may be NULL */
};

typedef void option_fn(void *context, const struct option_row *row);

/* Calls FN for every flag of COMMAND, group by group. */
void options_each(const struct command *command, option_fn *fn, void *context);

#endif
