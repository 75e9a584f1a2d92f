/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_CLI_HELP_H
#define VIAL_CLI_HELP_H

/* Help, man page and shell completion, all made from the tables. Each prints to
 * stdout and returns an exit status. */

#include <jansson.h>

#include "base/str.h"

struct command;

int help_print(const struct command *command);
int help_hint(void);                         /* for `vial` alone: on stderr */
int help_man(const struct command *command); /* the man page, as roff */

/* The words that a preset adds: an object of theirs to ours. */
int help_preset(const char *name, json_t *words);
/* Shows the commands that begin with GROUP ("sandbox"); -1: none does. */
int help_group(const char *name, json_t *words, const char *group);
/* Their names, quoted; nothing: none does. */
void help_group_names(json_t *words, const char *group, struct str *out);

/* SHELL is bash, zsh or fish; -1 for any other. */
int complete_print(const char *shell);

/* The meaning of exit statuses: rows of { status, meaning }, up to one without a
 * status. */
struct status_row {
    const char *status, *meaning;
};

extern const struct status_row help_statuses[];

#endif
