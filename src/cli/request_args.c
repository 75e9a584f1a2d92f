/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/request_args.h"

#include <ctype.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/fail.h"
#include "base/io.h"
#include "base/state.h"
#include "base/str.h"
#include "cli/print.h"
#include "model/request.h"
#include "settings/project.h"

/* Far above what any policy allows, so that the refusal names the policy's cap. */
#define CODE_READ_MAX    ((size_t)64 << 20)
#define REQUEST_READ_MAX ((size_t)512 << 20)

const char *const request_args_without[] = { "language", "code",    "command",
                                             "args",     "outputs", NULL };

/* FILE or, for "-", standard input. */
static int read_named(const char *file, size_t max, struct blob *out,
                      struct vial_error *err)
{
    bool here = strcmp(file, "-") == 0;
    int rc = here ? io_read_fd(STDIN_FILENO, "standard input", max, out, err)
                  : io_read_file(file, max, out, err);

    if (rc == 0 || err->remedy[0])
        return rc;
    return fail_remedy(err, err->sys ? "name a file that you may read" : "give less");
}

static int begin(const char *request_file, struct vial_request **out,
                 struct vial_error *err)
{
    struct blob json = { 0 };
    int rc = 0;

    if (!request_file)
        return vial_request_new(out, err);
    if (read_named(request_file, REQUEST_READ_MAX, &json, err) < 0)
        return -1;
    rc = vial_request_parse(json.data ? json.data : "", json.len, out, err);
    blob_done(&json);
    return rc;
}

/* "NAME[:HOSTPATH]": the library is asked for NAME. */
static int set_output(struct vial_request *req, const char *value,
                      struct vial_error *err)
{
    auto_str struct str name = { 0 };

    str_add(&name, value, strcspn(value, ":"));
    if (!str_ok(&name))
        return fail_memory(err);
    return vial_request_set(req, "outputs", name.data ? name.data : "", err);
}

/* "a,b" is two entries, as in a variable of the environment; what only a request can
 * have, such as an argument, is taken as it is. */
static int set_field(struct vial_request *req, const struct field *f, const char *value,
                     struct vial_error *err)
{
    bool gathers = f->type == FIELD_LIST && (f->scope & FIELD_IN_SETTINGS);

    while (gathers && strchr(value, ',')) {
        size_t len = strcspn(value, ",");
        auto_free char *part = strndup(value, len);

        if (!part)
            return fail_memory(err);
        if (vial_request_set(req, f->name, part, err) < 0)
            return -1;
        value += len + 1;
    }
    return vial_request_set(req, f->name, value, err);
}

static int set_given(struct vial_request *req, const struct given *g,
                     struct vial_error *err)
{
    if (g->field)
        return set_field(req, g->field, g->value, err);
    if (strcmp(g->flag->name, "out") == 0)
        return set_output(req, g->value, err);
    return 0;
}

int request_args_flags(const struct cli *cli, struct vial_request **out,
                       struct vial_error *err)
{
    auto_ask struct vial_request *req = NULL;

    if (begin(cli_flag(cli, "request"), &req, err) < 0)
        return -1;
    for (size_t i = 0; i < cli->options.given_count; i++)
        if (set_given(req, &cli->options.given[i], err) < 0)
            return -1;
    *out = ptr_take(&req);
    return 0;
}

/* "vial run python main.py" runs the text "main.py"; who has such a file meant that. */
static void warn_of_file(const struct cli *cli, const char *code)
{
    struct stat st;

    if (!cli_flag(cli, "quiet") && strlen(code) < NAME_MAX && strpbrk(code, "./") &&
        !strpbrk(code, " \t\n;()") && stat(code, &st) == 0 && S_ISREG(st.st_mode))
        say("warning: '%s' is taken for code, not for the file of that name; write '@%s' "
            "to run the file",
            code, code);
}

/* "vial run main.py" names a file where the language stands. */
static int refuse_file(const char *language, struct vial_error *err)
{
    const char *dot = strrchr(language, '.');
    struct stat st;

    if ((!strchr(language, '/') && !(dot && isalpha((unsigned char)dot[1]))) ||
        stat(language, &st) < 0 || !S_ISREG(st.st_mode))
        return 0;
    (void)fail(err, VIAL_E_USAGE, "'%s' is a file, where a language belongs", language);
    return fail_remedy(err, "vial run LANG @%s; `vial languages` lists them", language);
}

static int set_code(struct vial_request *req, const char *code, struct vial_error *err)
{
    struct blob text = { 0 };
    int rc = 0;

    if (strcmp(code, "-") != 0 && code[0] != '@')
        return vial_request_set(req, "code", code, err);
    if (read_named(code[0] == '@' ? code + 1 : code, CODE_READ_MAX, &text, err) < 0)
        return fail_in(err, "code");
    rc = vial_request_set_bytes(req, "code", text.data ? text.data : "", text.len, err);
    blob_done(&text);
    return rc;
}

static int set_list(struct vial_request *req, const char *field, char *const *items,
                    struct vial_error *err)
{
    for (; *items; items++)
        if (vial_request_set(req, field, *items, err) < 0)
            return -1;
    return 0;
}

static int refuse_usage(const struct cli *cli, const char *what, struct vial_error *err)
{
    (void)fail(err, VIAL_E_USAGE, "%s", what);
    return fail_remedy(err, "usage: vial %s %s", cli->command->name,
                       cli->command->operands);
}

/* Whether somebody pipes code, or gives a file as standard input: not a terminal, and
 * not /dev/null. */
static bool is_piped(void)
{
    struct stat st;

    return fstat(STDIN_FILENO, &st) == 0 &&
           (S_ISFIFO(st.st_mode) || S_ISREG(st.st_mode) || S_ISSOCK(st.st_mode));
}

/* The operand, or "-" when there is none and code is piped. NULL: there is no code. */
static const char *code_operand(const struct cli *cli)
{
    size_t count = cli->options.operand_count;

    return count > 1 ? cli_operand(cli, 1) : count == 1 && is_piped() ? "-" : NULL;
}

static int refuse_no_code(const struct cli *cli, struct vial_error *err)
{
    if (cli->options.operand_count == 0)
        return refuse_usage(cli, "language is missing", err);
    (void)fail(err, VIAL_E_USAGE, "code is missing");
    return fail_remedy(err,
                       "usage: vial %s %s; CODE may be '@FILE', and is read from "
                       "standard input where that is piped",
                       cli->command->name, cli->command->operands);
}

int request_args_code(const struct cli *cli, struct vial_request **out,
                      struct vial_error *err)
{
    auto_ask struct vial_request *req = NULL;
    size_t count = cli->options.operand_count;
    const char *code = code_operand(cli);

    if (cli_flag(cli, "request")) {
        if (count > 0)
            return refuse_usage(cli, "'--request' and operands together", err);
        return request_args_flags(cli, out, err);
    }
    if (count > 0 && refuse_file(cli_operand(cli, 0), err) < 0)
        return -1;
    if (!code)
        return refuse_no_code(cli, err);
    warn_of_file(cli, code);
    if (request_args_flags(cli, &req, err) < 0 ||
        vial_request_set(req, "language", cli_operand(cli, 0), err) < 0 ||
        set_code(req, code, err) < 0 ||
        (count > 2 && set_list(req, "args", cli->options.operands + 2, err) < 0))
        return -1;
    if (count == 1 && req->code.len == 0) /* an empty pipe */
        return refuse_no_code(cli, err);
    *out = ptr_take(&req);
    return 0;
}

/* The repository as the workspace, and the same place in it as here. */
static int set_workspace(struct vial_request *req, bool set_cwd, struct vial_error *err)
{
    auto_free char *here = getcwd(NULL, 0);
    /* NOLINTNEXTLINE(concurrency-mt-unsafe): read only */
    auto_free char *state = state_path(getenv("HOME"));
    auto_str struct str root = { 0 };
    const char *inside = NULL;
    size_t len = 0;

    if (!here) {
        (void)fail_sys(err, "read the current directory");
        return fail_remedy(err, "go to one that exists, or name one by --workspace");
    }
    if (repository_find(here, state, &len, err) < 0) {
        const struct vial_error why = *err;

        return fail_remedy(err, "%s; or name what to show: --workspace .", why.remedy);
    }
    str_add(&root, here, len ? len : strlen(here));
    if (!str_ok(&root))
        return fail_memory(err);
    inside = here + root.len;
    inside += strspn(inside, "/");
    if (vial_request_set(req, "workspace", root.data, err) < 0)
        return -1;
    return set_cwd && *inside ? vial_request_set(req, "cwd", inside, err) : 0;
}

static bool field_given(const struct cli *cli, const char *name)
{
    for (size_t i = 0; i < cli->options.given_count; i++) {
        const struct field *f = cli->options.given[i].field;

        if (f && strcmp(f->name, name) == 0)
            return true;
    }
    return false;
}

/* An image that is named here has its own program, as with container engines. */
static int set_entrypoint(const struct cli *cli, struct vial_request *req,
                          struct vial_error *err)
{
    return field_given(cli, "image") && !field_given(cli, "entrypoint")
               ? vial_request_set(req, "entrypoint", "image", err)
               : 0;
}

int request_args_command(const struct cli *cli, char *const *command,
                         struct vial_request **out, struct vial_error *err)
{
    auto_ask struct vial_request *req = NULL;

    if (!*command && !field_given(cli, "image") && !field_given(cli, "entrypoint"))
        return refuse_usage(cli, "command is missing", err);
    if (request_args_flags(cli, &req, err) < 0 || set_entrypoint(cli, req, err) < 0 ||
        set_list(req, "command", command, err) < 0)
        return -1;
    if (!field_given(cli, "workspace") &&
        set_workspace(req, !field_given(cli, "cwd"), err) < 0)
        return -1;
    *out = ptr_take(&req);
    return 0;
}

int request_args_stdin(const struct cli *cli)
{
    const char *code = cli->command->program_at == 2 ? code_operand(cli) : NULL;

    if (cli_flag(cli, "request") || field_given(cli, "stdin"))
        return -1;
    if (code && strcmp(code, "-") == 0)
        return -1;
    return isatty(STDIN_FILENO) ? -1 : STDIN_FILENO;
}
