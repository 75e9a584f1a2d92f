/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_CLI_CLI_H
#define VIAL_CLI_CLI_H

/*
 * The command line: a table of commands (commands.def), each a file cmd_*.c that
 * defines one struct command. Everything else here is driven by that table and
 * by the table of request fields: parsing, help, man page, completion.
 */

#include <stdbool.h>
#include <stddef.h>

#include "base/str.h"
#include "cli/options.h"

#include "vial/vial.h"

/* Exit statuses that are vial's own; the rest is the program's. */
enum status {
    STATUS_OK = 0,
    STATUS_UNFIT = 1, /* doctor: no driver here isolates */
    STATUS_TIMEOUT = 124,
    STATUS_VIAL = 125, /* vial itself refused or failed */
    STATUS_NOT_EXECUTABLE = 126,
    STATUS_NOT_FOUND = 127,
    STATUS_SIGNAL = 128, /* plus the signal's number */
    STATUS_OOM = 137,
    STATUS_PIPE = 141, /* nobody reads our output any more */
};

/* One invocation. */
struct cli {
    const struct command *command;
    struct options global, options; /* before and after the command's name */
    struct strv alias;              /* ours for the preset's words, if they were used */
};

struct command {
    const char *name;
    const char *operands; /* as help shows them: "LANG CODE [ARG…]" */
    const char *words;    /* what the first operand can be: "show|check", or NULL */
    const char *summary;  /* lower case, no full stop */
    const char *text;     /* paragraphs for --help, or NULL */
    const char *examples; /* one per line, or NULL */

    const struct flag *flags;    /* its own, up to a row without a name; or NULL */
    bool shows_status;           /* its exit status is the program's */
    bool takes_fields;           /* every request field is a flag, … */
    const char *const *without;  /* … but these; NULL-terminated, or NULL */
    size_t program_at;           /* after this many operands all belongs to the
                                    program; 0: flags may come anywhere */
    size_t max_operands;         /* more are refused; ignored with program_at */
    int (*run)(struct cli *cli); /* an exit status */
};

/* NULL-terminated, in the order of commands.def. */
extern const struct command *const commands[];

const struct command *command_find(const char *name); /* NULL: unknown */

/* The program itself, as a command: what may stand before a command's name. */
extern const struct command command_vial;

/* The last value given for one of the command's own flags or a global one; ""
 * for a switch; NULL: not given. */
const char *cli_flag(const struct cli *cli, const char *name);

/* Operand INDEX, or NULL. */
const char *cli_operand(const struct cli *cli, size_t index);

/* Opens the engine with the settings that --preset and --config ask for. */
int cli_engine(const struct cli *cli, struct vial_engine **out, struct vial_error *err);

/* Says why the command cannot go on: a line on stderr or, with --json, an
 * object on stdout. Returns the exit status. */
int cli_fail(const struct cli *cli, const struct vial_error *err);
/* The same with the code that the engine's preset has for it. */
int cli_fail_coded(const struct cli *cli, const struct vial_engine *engine,
                   const struct vial_error *err);

/* The same for `run` and `exec`, whose JSON is always a result. */
int cli_deny(const struct cli *cli, const struct vial_error *err);

int cli_main(int argc, char **argv);

static inline void auto_engine_(struct vial_engine **engine)
{
    vial_engine_close(*engine);
}
#define auto_engine __attribute__((cleanup(auto_engine_)))

static inline void auto_ask_(struct vial_request **req)
{
    vial_request_free(*req);
}
#define auto_ask __attribute__((cleanup(auto_ask_)))

#endif
