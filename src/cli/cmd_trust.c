/* SPDX-License-Identifier: Apache-2.0 */
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fail.h"
#include "base/io.h"
#include "base/json.h"
#include "base/path.h"
#include "base/sha256.h"
#include "base/state.h"
#include "cli/cli.h"
#include "cli/print.h"
#include "model/value.h"
#include "settings/settings.h"
#include "settings/trust.h"

#define FILE_MAX ((size_t)1 << 20)

static const char *text_of(json_t *object, const char *key)
{
    return json_string_value(json_object_get(object, key));
}

/* PATH as records have it: absolute, its directory free of links. The file itself need
 * not exist. malloc'ed. */
static int name_path(const char *path, char **out, struct vial_error *err)
{
    const char *slash = strrchr(path, '/');
    size_t len = slash ? (size_t)(slash - path) : 0;
    auto_free char *dir = slash ? strndup(path, len ? len : 1) : strdup(".");
    auto_free char *real = dir ? realpath(dir, NULL) : NULL;

    if (!dir)
        return fail_memory(err);
    if (!real && path[0] == '/') /* gone, with all that was around it */
        *out = strdup(path);
    else if (!real) {
        (void)fail_sys(err, "find '%s'", path);
        return fail_as(err, VIAL_E_FILE);
    } else
        *out = path_join(real, slash ? slash + 1 : path);
    return *out ? 0 : fail_memory(err);
}

/* The directory of the project that FILE would be found from: above the preset's own
 * file there may be several. malloc'ed. */
static int name_project(const struct cli *cli, const char *file, char **out,
                        struct vial_error *err)
{
    const struct settings_sources from = { .preset = cli_flag(cli, "preset"),
                                           .environ_ = environ };
    struct preset *preset = NULL;
    const char *own = NULL;
    size_t len = strlen(file);
    size_t tail = 0;

    if (settings_find_preset(&from, &preset, err) < 0)
        return -1;
    own = text_of(preset_get(preset, "config"), "file");
    tail = own ? strlen(own) : 0;
    if (tail == 0 || tail >= len || strcmp(file + len - tail, own) != 0)
        tail = len - (size_t)(strrchr(file, '/') - file) - 1;
    preset_free(preset);
    len -= tail;
    *out = strndup(file, len > 1 ? len - 1 : len);
    return *out ? 0 : fail_memory(err);
}

/* Finds the project's files, and what they would change if they were trusted. Looks at
 * FILE alone, or with NULL at those that are found from here. */
static int look(const struct cli *cli, const char *file, const char *state,
                struct settings **out, struct vial_error *err)
{
    auto_free char *dir = NULL;
    struct settings_sources from = {
        .preset = cli_flag(cli, "preset"),
        .config = cli_flag(cli, "config"),
        .environ_ = environ,
        .home = getenv("HOME"), /* NOLINT(concurrency-mt-unsafe): read only */
        .state = state,
        .trusting = true,
    };

    if (file && name_project(cli, file, &dir, err) < 0)
        return -1;
    from.project_dir = dir;
    return settings_load(&from, out, err);
}

/* NAME -> what it is set to. */
static json_t *sets_of(json_t *project)
{
    json_t *changes = json_object_get(project, "changes");
    json_t *sets = json_object();

    for (void *at = json_object_iter(changes); at;
         at = json_object_iter_next(changes, at))
        (void)json_object_set(sets, json_object_iter_key(at),
                              json_object_get(json_object_iter_value(at), "to"));
    return sets;
}

static void tell(struct str *out, json_t *project)
{
    json_t *changes = json_object_get(project, "changes");

    str_printf(out, "trusted: %s\n", text_of(project, "path"));
    for (void *at = json_object_iter(changes); at;
         at = json_object_iter_next(changes, at)) {
        const char *name = json_object_iter_key(at);
        const char *from = text_of(json_object_iter_value(at), "from");
        const char *to = text_of(json_object_iter_value(at), "to");
        struct shown what = value_show(name, strlen(name));
        struct shown was = value_show(from ? from : "", from ? strlen(from) : 0);
        struct shown is = value_show(to ? to : "", to ? strlen(to) : 0);

        str_printf(out, "  %s%s%s to %s\n", what.text, from ? " from " : "", was.text,
                   is.text);
    }
}

/* All of PROJECTS, or FILE alone. What is recorded is the hash of the bytes whose
 * effect is TOLD. */
static int record(json_t *projects, const char *file, const char *state, json_t *told,
                  struct str *text, struct vial_error *err)
{
    json_t *one = NULL;
    size_t i = 0;

    json_array_foreach(projects, i, one)
    {
        auto_json json_t *sets = sets_of(one);

        if (file && !str_eq(text_of(one, "path"), file))
            continue;
        if (trust_write(state, text_of(one, "path"), text_of(one, "sha256"), sets,
                        err) < 0)
            return -1;
        tell(text, one);
        (void)json_array_append(told, one);
    }
    return 0;
}

static int refuse_none(const char *file, struct vial_error *err)
{
    if (file)
        (void)fail(err, VIAL_E_TRUST, "'%s' is no settings file that vial would read",
                   file);
    else
        (void)fail(err, VIAL_E_TRUST, "there is no settings file of a project here");
    return fail_remedy(err,
                       "name a vial.yaml or, with --preset, the preset's own file");
}

static int trust_files(struct cli *cli, const char *file, const char *state,
                       struct vial_error *err)
{
    struct settings *settings = NULL;
    auto_json json_t *told = json_array();
    auto_str struct str text = { 0 };
    int rc;

    if (look(cli, file, state, &settings, err) < 0)
        return -1;
    rc = record(settings->projects, file, state, told, &text, err);
    settings_free(settings);
    if (rc < 0)
        return -1;
    if (json_array_size(told) == 0)
        return refuse_none(file, err);
    return cli_flag(cli, "json") ? print_json(json_incref(told)) : print_text(&text);
}

static int trust_repository(struct cli *cli, const char *dir, const char *state,
                            struct vial_error *err)
{
    auto_free char *git = path_join(dir, ".git");
    auto_str struct str text = { 0 };
    struct stat st;

    if (!git)
        return fail_memory(err);
    if (lstat(git, &st) < 0) {
        (void)fail(err, VIAL_E_TRUST, "'%s' is no repository: it has no '.git'", dir);
        return fail_remedy(err, "name the directory that holds it, or a file");
    }
    if (trust_write(state, dir, NULL, NULL, err) < 0)
        return -1;
    str_printf(&text, "trusted: %s\n", dir);
    return cli_flag(cli, "json") ? print_json(json_pack("[{s:s}]", "path", dir))
                                 : print_text(&text);
}

static int trust(struct cli *cli, const char *state, struct vial_error *err)
{
    const char *operand = cli_operand(cli, 0);
    auto_free char *path = NULL;
    struct stat st;

    if (!operand)
        return trust_files(cli, NULL, state, err);
    if (stat(operand, &st) == 0 && S_ISDIR(st.st_mode)) {
        path = realpath(operand, NULL);
        if (!path)
            return fail_sys(err, "find '%s'", operand);
        return trust_repository(cli, path, state, err);
    }
    if (name_path(operand, &path, err) < 0)
        return -1;
    return trust_files(cli, path, state, err);
}

static int remove_one(const char *path, const char *state, unsigned *count,
                      struct vial_error *err)
{
    int rc = trust_remove(state, path, err);

    *count += rc > 0;
    return rc < 0 ? -1 : 0;
}

static int take_back(struct cli *cli, const char *state, struct vial_error *err)
{
    const char *operand = cli_operand(cli, 0);
    auto_free char *real = operand ? realpath(operand, NULL) : NULL;
    auto_free char *path = NULL;
    auto_str struct str text = { 0 };
    unsigned count = 0;

    if (!operand) {
        (void)fail(err, VIAL_E_USAGE, "what to revoke is missing");
        return fail_remedy(err, "name a path that 'vial trust --list' shows");
    }
    if (name_path(operand, &path, err) < 0 ||
        remove_one(path, state, &count, err) < 0 ||
        (real && remove_one(real, state, &count, err) < 0))
        return -1;
    if (count == 0) {
        (void)fail(err, VIAL_E_TRUST, "'%s' is not trusted", path);
        return fail_remedy(err, "'vial trust --list' shows what is");
    }
    str_printf(&text, "no longer trusted: %s\n", path);
    return cli_flag(cli, "json") ? print_json(json_pack("{s:s}", "revoked", path))
                                 : print_text(&text);
}

/* Says what has become of a file since it was trusted. */
static const char *state_of(json_t *record)
{
    struct vial_error ignored = { 0 };
    struct blob text = { 0 };
    struct sha256 h;
    struct stat st;
    char hash[65];

    if (lstat(text_of(record, "path"), &st) < 0)
        return "gone";
    if (!text_of(record, "sha256"))
        return "trusted";
    if (!S_ISREG(st.st_mode) ||
        io_read_file(text_of(record, "path"), FILE_MAX, &text, &ignored) < 0)
        return "changed";
    sha256_init(&h);
    sha256_add(&h, text.data, text.len);
    sha256_text(&h, hash);
    blob_done(&text);
    return strcmp(hash, text_of(record, "sha256")) == 0 ? "trusted" : "changed";
}

static int list(struct cli *cli, const char *state, struct vial_error *err)
{
    auto_json json_t *records = NULL;
    struct table t = { .columns = 4 };
    json_t *one = NULL;
    size_t i = 0;

    if (trust_list(state, &records, err) < 0)
        return -1;
    table_add(&t, "STATE");
    table_add(&t, "SINCE");
    table_add(&t, "WHAT");
    table_add(&t, "PATH");
    json_array_foreach(records, i, one)
    {
        (void)json_object_set_new(one, "state", json_string(state_of(one)));
        table_add(&t, text_of(one, "state"));
        table_add(&t, text_of(one, "since"));
        table_add(&t, text_of(one, "sha256") ? "file" : "repository");
        table_add(&t, text_of(one, "path"));
    }
    return cli_flag(cli, "json") ? print_json(json_incref(records)) : table_print(&t);
}

static int run(struct cli *cli)
{
    /* NOLINTNEXTLINE(concurrency-mt-unsafe): read only */
    auto_free char *state = state_path(getenv("HOME"));
    struct vial_error err = { 0 };
    int status;

    if (cli_flag(cli, "list"))
        status = list(cli, state, &err);
    else if (cli_flag(cli, "revoke"))
        status = take_back(cli, state, &err);
    else
        status = trust(cli, state, &err);
    return status < 0 ? cli_fail(cli, &err) : status;
}

static const struct flag flags[] = {
    { "list", NULL, "Show what is trusted, and what of it has changed since." },
    { "revoke", NULL, "Trust it no longer." },
    FLAG_ROW_JSON,
    { 0 },
};

extern const struct command command_trust;
const struct command command_trust = {
    .name = "trust",
    .operands = "[FILE|DIR]",
    .summary = "let a project's settings file, or a repository, do more",
    .text =
        "A settings file that lies in a project (vial.yaml, or a preset's own, such as\n"
        "acode's .agent/config.yml) may have been written by anybody. A stranger's can\n"
        "only lower limits. FILE, once trusted, can set whatever the policy allows; what\n"
        "it changes is printed. It is trusted as it is, at the path where it lies: with\n"
        "one byte changed it is a stranger's again. Without FILE: the files that are\n"
        "found from here. DIR is a repository that belongs to another user, in which\n"
        "'vial exec' may then work. Records are yours alone, in your state directory.",
    .examples = "vial trust\n"
                "vial trust --preset acode .agent/config.yml\n"
                "vial trust /srv/shared/repository\n"
                "vial trust --list\n"
                "vial trust --revoke ./vial.yaml",
    .flags = flags,
    .max_operands = 1,
    .run = run,
};
