/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "api/inside.h"
#include "base/auto.h"
#include "base/fail.h"
#include "base/json.h"
#include "base/path.h"
#include "cli/cli.h"
#include "cli/print.h"
#include "model/language.h"
#include "settings/sources.h"

enum config_kind { KIND_SETTINGS, KIND_PROJECT, KIND_PRESET, KIND_LANGUAGES };

static void add_value(struct table *t, json_t *value)
{
    auto_free char *text = NULL;

    if (json_is_null(value)) {
        table_add(t, "-");
        return;
    }
    if (json_is_string(value)) {
        table_add(t, json_string_value(value));
        return;
    }
    text = json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT | JSON_REAL_PRECISION(6));
    table_add(t, text);
}

/* A member of OBJECT is { "value": …, "from": … }; or the value alone, and where all of
 * them came from is the object's own "from". */
static void add_rows(struct table *t, const char *prefix, json_t *object)
{
    const char *source = json_string_value(json_object_get(object, "from"));

    for (void *at = json_object_iter(object); at;
         at = json_object_iter_next(object, at)) {
        auto_str struct str name = { 0 };
        json_t *entry = json_object_iter_value(at);
        const char *from = json_string_value(json_object_get(entry, "from"));

        if (strcmp(json_object_iter_key(at), "from") == 0)
            continue;
        str_printf(&name, "%s%s", prefix, json_object_iter_key(at));
        table_add(t, name.data);
        add_value(t, json_is_object(entry) ? json_object_get(entry, "value") : entry);
        table_add(t, from ? from : source ? source : "-");
    }
}

static int show(struct cli *cli, struct vial_engine *engine)
{
    struct table t = { .columns = 3 };
    auto_json json_t *config = settings_json(inside_settings(engine));

    if (cli_flag(cli, "json"))
        return print_compact(ptr_take(&config));
    add_rows(&t, "", json_object_get(config, "defaults"));
    add_rows(&t, "policy.", json_object_get(config, "policy"));
    add_rows(&t, "audit.", json_object_get(config, "audit"));
    add_rows(&t, "cleanup.", json_object_get(config, "cleanup"));
    add_rows(&t, "serve.", json_object_get(config, "serve"));
    return table_print(&t);
}

static int say_good(const struct cli *cli, enum config_kind kind)
{
    static const char *const names[] = { "settings", "project", "preset", "languages" };

    return cli_flag(cli, "json")
               ? print_json(json_pack("{sb, ss}", "ok", 1, "kind", names[kind]))
               : STATUS_OK;
}

/* A default that the policy forbids would refuse every request. */
static int check(struct cli *cli, struct vial_engine *engine)
{
    auto_ask struct vial_request *req = NULL;
    struct vial_plan *plan = NULL;
    struct vial_error err = { 0 };

    if (vial_request_new(&req, &err) < 0 ||
        vial_request_set(req, "command", "true", &err) < 0)
        return cli_fail(cli, &err);
    if (vial_plan_new(engine, req, &plan, &err) < 0 && fail_is(&err, VIAL_E_POLICY)) {
        (void)fail_in(&err, "the defaults do not fit the policy");
        return cli_fail(cli, &err);
    }
    vial_plan_free(plan);
    return say_good(cli, KIND_SETTINGS);
}

/* Whether vial would read it as the file of a project: vial.yaml here, or at the top of
 * a repository. */
static bool is_projects(const char *file)
{
    const char *slash = strrchr(file, '/');
    auto_free char *dir =
        slash ? strndup(file, (size_t)(slash - file) + 1) : strdup(".");
    auto_free char *git = dir ? path_join(dir, ".git") : NULL;
    struct stat here, there;

    if (strcmp(slash ? slash + 1 : file, "vial.yaml") != 0 || !git)
        return false;
    return access(git, F_OK) == 0 ||
           (stat(".", &here) == 0 && stat(dir, &there) == 0 &&
            here.st_ino == there.st_ino && here.st_dev == there.st_dev);
}

static bool is_language(const json_t *entry)
{
    return json_object_get(entry, "run") || json_object_get(entry, "like");
}

/* By what it says: a table of languages has entries that run something. */
static enum config_kind kind_of(const char *file, json_t *root)
{
    void *first = json_object_iter(root);

    if (json_object_get(root, "preset"))
        return KIND_PRESET;
    if (first && is_language(json_object_iter_value(first)))
        return KIND_LANGUAGES;
    return is_projects(file) ? KIND_PROJECT : KIND_SETTINGS;
}

/* What FILE is laid over: a project's over all that holds, others over what comes with
 * vial. */
static int load_below(const char *file, enum config_kind kind, struct settings **out,
                      struct vial_error *err)
{
    const char *slash = strrchr(file, '/');
    auto_free char *dir =
        slash ? strndup(file, (size_t)(slash - file) + 1) : strdup(".");
    const struct settings_sources bare = { .project_dir = "/" };
    const struct settings_sources whole = {
        .environ_ = environ,
        .home = getenv("HOME"), /* NOLINT(concurrency-mt-unsafe): read only */
        .project_dir = dir,
        .trusting = true,
    };

    return dir ? settings_load(kind == KIND_PROJECT ? &whole : &bare, out, err)
               : fail_memory(err);
}

/* Judges FILE by what it is meant as. Settings go on to be judged as a whole. */
static int check_file(const char *file, enum config_kind *kind, struct vial_error *err)
{
    auto_json json_t *root = NULL;
    struct settings *below = NULL;
    int rc;

    if (access(file, F_OK) < 0)
        return 0; /* as settings, that is told */
    if (yaml_read(file, &root, err) < 0)
        return -1;
    *kind = kind_of(file, root);
    if (*kind == KIND_SETTINGS)
        return 0;
    rc = load_below(file, *kind, &below, err);
    if (rc == 0 && *kind == KIND_PRESET)
        rc = source_check_preset(below, file, err);
    if (rc == 0 && *kind == KIND_LANGUAGES)
        rc = language_table_load(&below->languages, file, err);
    settings_free(below);
    return rc;
}

static int refuse(struct cli *cli, const char *what)
{
    struct vial_error err = { 0 };

    if (what)
        (void)fail(&err, VIAL_E_USAGE, "unknown argument '%s'", what);
    else
        (void)fail(&err, VIAL_E_USAGE, "what to do is missing");
    (void)fail_remedy(&err, "usage: vial config show|check [FILE]");
    return cli_fail(cli, &err);
}

static int run(struct cli *cli)
{
    auto_engine struct vial_engine *engine = NULL;
    const char *what = cli_operand(cli, 0);
    const char *file = cli_operand(cli, 1);
    struct vial_engine_options options = {
        .preset = cli_flag(cli, "preset"),
        .config = file ? file : cli_flag(cli, "config"),
    };
    struct vial_error err = { 0 };
    enum config_kind kind = KIND_SETTINGS;
    bool shows = what && strcmp(what, "show") == 0;

    if (!shows && !(what && strcmp(what, "check") == 0))
        return refuse(cli, what);
    if (!shows && file && check_file(file, &kind, &err) < 0)
        return cli_fail(cli, &err);
    if (kind != KIND_SETTINGS)
        return say_good(cli, kind);
    if (vial_engine_open(&options, &engine, &err) < 0)
        return cli_fail(cli, &err);
    return shows ? show(cli, engine) : check(cli, engine);
}

static const struct flag flags[] = {
    FLAG_ROW_JSON,
    { 0 },
};

extern const struct command command_config;
const struct command command_config = {
    .name = "config",
    .operands = "show|check [FILE]",
    .words = "show|check",
    .summary = "show the settings and where they come from, or check them",
    .text =
        "Settings, the later ones winning: built-in, preset, /etc/vial/vial.yaml,\n"
        "~/.config/vial/vial.yaml, the project's vial.yaml (see 'vial trust'), VIAL_*\n"
        "variables, flags. Limits of the policy can only be tightened on the way. With\n"
        "FILE, that file is read instead of the ones in /etc and ~. 'check FILE' judges\n"
        "it by what it is meant as: settings, a preset, a table of languages, or, as\n"
        "vial.yaml here or at the top of a repository, the file of a project. It is\n"
        "silent when all is well. 'check --config FILE' takes any file for settings.",
    .examples = "vial config show\n"
                "vial config check ./vial.yaml",
    .flags = flags,
    .max_operands = 2,
    .run = run,
};
