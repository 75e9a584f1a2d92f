/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "api/inside.h"
#include "base/auto.h"
#include "base/fail.h"
#include "base/io.h"
#include "base/json.h"
#include "base/path.h"
#include "cli/cli.h"
#include "cli/image_verbs.h"
#include "cli/live.h"
#include "cli/print.h"
#include "cli/pull_progress.h"
#include "template/template_build.h"

#define NAMES "template.yaml, template.yml or Dockerfile"

/* How a build is shown: all of it on stderr. */
struct show {
    struct pull_show pulls;
    struct live live;
    bool quiet;
    bool new_line; /* what was printed last ended a line */
};

/* What is read, where COPY finds files, and what the image is called if nobody says. */
struct source {
    char *file, *dir, *name;
};

static void source_done(struct source *s)
{
    free(s->file);
    free(s->dir);
    free(s->name);
}

/* In lower case, as images are called; what does not fit is told when it is parsed. */
static char *name_of(const char *path)
{
    auto_free char *whole = realpath(path, NULL);
    const char *slash = whole ? strrchr(whole, '/') : NULL;
    char *name = slash ? strdup(slash + 1) : NULL;

    for (char *c = name; c && *c; c++)
        if (*c >= 'A' && *c <= 'Z')
            *c = (char)(*c - 'A' + 'a');
    return name;
}

static bool is_usual(const char *file)
{
    const char *base = strrchr(file, '/') ? strrchr(file, '/') + 1 : file;

    return strcmp(base, "Dockerfile") == 0 || str_starts(base, "template.y");
}

/* "app.yaml" is called app, "app/Dockerfile" too. */
static int name_source(const char *file, struct source *out, struct vial_error *err)
{
    out->name = name_of(is_usual(file) ? out->dir : file);
    if (!out->name)
        return fail_memory(err);
    if (!is_usual(file) && strrchr(out->name, '.') > out->name)
        *strrchr(out->name, '.') = '\0';
    return 0;
}

static int find_in(const char *dir, struct source *out, struct vial_error *err)
{
    static const char *const names[] = { "template.yaml", "template.yml",
                                         "Dockerfile" };

    for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
        free(out->file);
        out->file = path_join(dir, names[i]);
        if (!out->file)
            return fail_memory(err);
        if (access(out->file, F_OK) == 0)
            return 0;
    }
    (void)fail(err, VIAL_E_FILE, "'%s' has no " NAMES, dir);
    return fail_remedy(err, "name the file: 'vial template build FILE'");
}

static int find_source(const struct cli *cli, struct source *out,
                       struct vial_error *err)
{
    const char *what = cli_operand(cli, 1) ? cli_operand(cli, 1) : ".";
    const char *context = cli_flag(cli, "context");
    auto_free char *copy = strdup(what);
    struct stat st;

    if (stat(what, &st) < 0) {
        (void)fail_sys(err, "open '%s'", what);
        return fail_as(err, VIAL_E_FILE);
    }
    if (!copy)
        return fail_memory(err);
    if (S_ISDIR(st.st_mode) && find_in(what, out, err) < 0)
        return -1;
    out->file = out->file ? out->file : strdup(what);
    out->dir = strdup(S_ISDIR(st.st_mode) ? what : dirname(copy));
    if (!out->file || !out->dir || name_source(out->file, out, err) < 0)
        return fail_memory(err);
    if (context) {
        free(out->dir);
        out->dir = strdup(context);
    }
    return out->dir ? 0 : fail_memory(err);
}

/* Flags that are fields of a request, and what those are called. */
static const struct pass {
    const char *flag, *field;
    char kind; /* 't' text, 'n' number, 'l' one of several */
} passes[] = {
    { "memory", "memory", 't' },   { "disk", "disk", 't' },
    { "tmp", "tmp", 't' },         { "inodes", "inodes", 'n' },
    { "pids", "pids", 'n' },       { "cpus", "cpus", 't' },
    { "network", "network", 't' }, { "step-timeout", "timeout", 't' },
    { "allow", "allow", 'l' },     { "deny", "deny", 'l' },
    { "secret", "secrets", 'l' },
};

static void pass(json_t *asked, const struct pass *p, const char *value)
{
    json_t *list = json_object_get(asked, p->field);

    if (p->kind == 'n')
        (void)json_object_set_new(asked, p->field,
                                  json_integer(strtoll(value, NULL, 10)));
    else if (p->kind == 't')
        (void)json_object_set_new(asked, p->field, json_string(value));
    else if (list)
        (void)json_array_append_new(list, json_string(value));
    else
        (void)json_object_set_new(asked, p->field, json_pack("[s]", value));
}

static json_t *read_fields(const struct cli *cli)
{
    json_t *asked = json_object();

    for (size_t i = 0; i < cli->options.given_count; i++)
        for (size_t k = 0; k < sizeof(passes) / sizeof(*passes); k++)
            if (strcmp(cli->options.given[i].flag->name, passes[k].flag) == 0)
                pass(asked, &passes[k], cli->options.given[i].value);
    return asked;
}

static int read_args(const struct cli *cli, struct strv *out, struct vial_error *err)
{
    for (size_t i = 0; i < cli->options.given_count; i++) {
        const struct given *g = &cli->options.given[i];

        if (strcmp(g->flag->name, "build-arg") != 0)
            continue;
        if (!strchr(g->value, '='))
            return fail(err, VIAL_E_USAGE, "'--build-arg %s' is not NAME=VALUE",
                        g->value);
        strv_push(out, g->value);
    }
    return out->failed ? fail_memory(err) : 0;
}

static void show_step(void *context, size_t number, size_t count,
                      const struct template_step *step, bool cached)
{
    struct show *s = context;

    pull_show_end(&s->pulls);
    live_end(&s->live);
    if (!s->quiet)
        say("[%zu/%zu] %s%s %.200s", number, count, cached ? "cached " : "",
            template_word(step->kind), step->text);
}

/* All of it on stderr: what is made is on stdout. */
static int show_output(void *context, int stream, const void *data, size_t len)
{
    struct show *s = context;

    (void)stream;
    return s->quiet ? 0 : live_write(&s->live, 2, data, len);
}

static int show_pull(void *context, const char *layer, const char *status,
                     unsigned long long current, unsigned long long total)
{
    struct show *s = context;

    return pull_show(&s->pulls, layer, status, current, total);
}

static int do_build(struct cli *cli, struct vial_engine *engine,
                    const struct template *t, const struct source *source,
                    struct build_order *order, json_t **out, struct vial_error *err)
{
    auto_fd int signal_fd = signals_open();
    struct show show = { .pulls = pull_show_begin(cli),
                         .quiet = cli_flag(cli, "quiet") != NULL };
    int rc;

    if (signal_fd < 0)
        return fail_sys_rc(err, signal_fd, "watch for signals");
    live_open(&show.live, false, signal_fd);
    order->engine = engine;
    order->dir = source->dir;
    order->name = cli_flag(cli, "tag") ? cli_flag(cli, "tag") : source->name;
    order->no_cache = cli_flag(cli, "no-cache") != NULL;
    order->watch = (struct build_watch){ .cancel_fd = signal_fd,
                                         .step = show_step,
                                         .output = show_output,
                                         .pulling = show_pull,
                                         .context = &show };
    rc = template_build(t, order, out, err);
    pull_show_end(&show.pulls);
    live_end(&show.live);
    live_close(&show.live);
    if (rc < 0 && fail_is(err, VIAL_E_CANCELLED)) {
        int signal = signals_seen(signal_fd);

        return signal ? STATUS_SIGNAL + signal : -1;
    }
    return rc;
}

static int build_source(struct cli *cli, struct vial_engine *engine,
                        const struct source *source, struct vial_error *err)
{
    auto_template struct template t = { 0 };
    auto_blob struct blob text = { 0 };
    auto_strv struct strv args = { 0 };
    auto_json json_t *asked = read_fields(cli);
    auto_json json_t *made = NULL;
    struct build_order order = { .args = &args, .fields = asked };
    int status;

    if (io_read_file(source->file, TEMPLATE_BYTES, &text, err) < 0 ||
        template_parse(text.data ? text.data : "", text.len, source->file, &t, err) <
            0 ||
        read_args(cli, &args, err) < 0)
        return -1;
    status = do_build(cli, engine, &t, source, &order, &made, err);
    if (status != STATUS_OK)
        return status;
    if (cli_flag(cli, "json"))
        return print_compact(ptr_take(&made));
    return print_line(image_handle(made));
}

/* A directory's name may be a stranger's word: without '--tag' it replaces nothing but
 * what a template has made. */
static int check_name(struct vial_engine *engine, const char *name,
                      struct vial_error *err)
{
    auto_json json_t *image = NULL;
    struct vial_error missing = { 0 };

    if (inside_stored_image(engine, name, &image, &missing) < 0) {
        if (fail_is(&missing, VIAL_E_IMAGE))
            return 0;
        *err = missing;
        return -1;
    }
    if (json_object_get(image, "template"))
        return 0;
    (void)fail(
        err, VIAL_E_TEMPLATE,
        "it would be called '%s', as an image of the store that no template made",
        name);
    return fail_remedy(err, "say what it is called: '--tag NAME'");
}

static int build(struct cli *cli, struct vial_engine *engine, struct vial_error *err)
{
    __attribute__((cleanup(source_done))) struct source source = { 0 };

    if (find_source(cli, &source, err) < 0 ||
        (!cli_flag(cli, "tag") && check_name(engine, source.name, err) < 0))
        return -1;
    return build_source(cli, engine, &source, err);
}

static bool is_step(const char *name)
{
    return str_starts(name, BUILD_STEP_NAME ":");
}

/* Calls EACH for every name of an image that a template made, or of a step. */
static int each_name(struct vial_engine *engine, bool steps,
                     int (*each)(void *context, json_t *image, const char *name,
                                 struct vial_error *err),
                     void *context, struct vial_error *err)
{
    auto_json json_t *images = NULL;
    json_t *image = NULL;
    json_t *tag = NULL;
    size_t i = 0;
    size_t k = 0;

    if (inside_stored_images(engine, &images, err) < 0)
        return -1;
    json_array_foreach(images, i, image)
    {
        json_array_foreach(json_object_get(image, "tags"), k, tag)
        {
            const char *name = json_string_value(tag);

            if (is_step(name) == steps &&
                (steps || json_object_get(image, "template")) &&
                each(context, image, name, err) < 0)
                return -1;
        }
    }
    return 0;
}

static int add_row(void *context, json_t *image, const char *name,
                   struct vial_error *err)
{
    struct table *t = context;
    char size[32];

    (void)err;
    (void)snprintf(
        size, sizeof(size), "%lld MiB",
        (long long)(json_integer_value(json_object_get(image, "size")) >> 20));
    table_add(t, name);
    table_add(t, image_handle(image));
    table_add(t, size);
    return 0;
}

static int add_json(void *context, json_t *image, const char *name,
                    struct vial_error *err)
{
    json_t *row = json_pack(
        "{s:s, s:O, s:O, s:O, s:O}", "image", name, "digest",
        json_object_get(image, "digest"), "id", json_object_get(image, "id"), "size",
        json_object_get(image, "size"), "template", json_object_get(image, "template"));

    return json_array_append_new(context, row) < 0 ? fail_memory(err) : 0;
}

static int list(struct cli *cli, struct vial_engine *engine, struct vial_error *err)
{
    struct table t = { .columns = 3 };
    auto_json json_t *all = json_array();

    if (cli_flag(cli, "json"))
        return each_name(engine, false, add_json, all, err) < 0
                   ? -1
                   : print_compact(ptr_take(&all));
    table_add(&t, "TEMPLATE");
    table_add(&t, "DIGEST");
    table_add(&t, "SIZE");
    if (each_name(engine, false, add_row, &t, err) < 0) {
        strv_done(&t.cells);
        return -1;
    }
    return table_print(&t);
}

struct pruning {
    struct vial_engine *engine;
    json_int_t removed, freed;
};

/* One that a vessel uses stays. */
static int prune_one(void *context, json_t *image, const char *name,
                     struct vial_error *err)
{
    struct pruning *p = context;
    auto_json json_t *done = NULL;

    (void)image;
    if (inside_store_remove(p->engine, name, &done, err) < 0)
        return fail_is(err, VIAL_E_BUSY) ? 0 : -1;
    p->removed++;
    p->freed += json_integer_value(json_object_get(done, "freed_bytes"));
    return 0;
}

static int prune(struct cli *cli, struct vial_engine *engine, struct vial_error *err)
{
    struct pruning p = { .engine = engine };
    auto_str struct str out = { 0 };

    if (each_name(engine, true, prune_one, &p, err) < 0)
        return -1;
    str_printf(&out,
               cli_flag(cli, "json") ? "{\"removed\":%lld,\"freed_bytes\":%lld}\n"
                                     : "%lld steps removed, %lld bytes freed\n",
               (long long)p.removed, (long long)p.freed);
    return print_text(&out);
}

static const struct {
    const char *name;
    image_verb *run;
} verbs[] = { { "build", build },
              { "list", list },
              { "inspect", image_inspect },
              { "remove", image_remove },
              { "prune", prune } };

static int run_template(struct cli *cli)
{
    const char *what = cli_operand(cli, 0);
    auto_engine struct vial_engine *engine = NULL;
    struct vial_error err = { 0 };
    int status = -1;

    for (size_t i = 0; what && i < sizeof(verbs) / sizeof(*verbs); i++) {
        if (strcmp(verbs[i].name, what) != 0)
            continue;
        if (cli_engine(cli, &engine, &err) == 0)
            status = verbs[i].run(cli, engine, &err);
        return status < 0 ? cli_fail(cli, &err) : status;
    }
    (void)(what ? fail(&err, VIAL_E_USAGE, "unknown argument '%s'", what)
                : fail(&err, VIAL_E_USAGE, "what to do is missing"));
    (void)fail_remedy(&err, "usage: vial template build [FILE|DIR] | list | prune | "
                            "inspect|remove NAME");
    return cli_fail(cli, &err);
}

static const struct flag template_flags[] = {
    { "tag", "NAME",
      "What the image is called; usually as the file, or its directory." },
    { "context", "DIR", "Where COPY finds files; usually the file's directory." },
    { "build-arg", "NAME=VALUE", "A value for an ARG of the template." },
    { "no-cache", NULL, "Run every step, also those that were done before." },
    { "network", "MODE",
      "The network of steps: none, or gate; usually what the package managers of the "
      "template need.",
      "none|gate" },
    { "allow", "NAME", "What steps may reach through a gate, as in 'vial run'." },
    { "deny", "NAME", "What they may not." },
    { "secret", "NAME", "A secret of the settings for the hosts that it is for." },
    { "memory", "SIZE", "Memory of each step; 4g, unless told." },
    { "disk", "SIZE",
      "What each step may write; 2g, unless told. It counts as memory." },
    { "tmp", "SIZE", "Size of /tmp in each step; 1g, unless told." },
    { "inodes", "NUMBER", "How many files each step may write." },
    { "pids", "NUMBER", "How many processes each step may have." },
    { "cpus", "NUMBER", "How many cores each step may use." },
    { "step-timeout", "DURATION", "How long each step may take; 15m, unless told." },
    { "quiet", NULL, "Show neither steps nor what they print." },
    FLAG_ROW_JSON,
    { 0 },
};

extern const struct command command_template;
const struct command command_template = {
    .name = "template",
    .operands = "build|list|inspect|remove|prune [FILE|DIR|NAME]",
    .words = "build|list|inspect|remove|prune",
    .summary = "make images from a file, step by step in vessels",
    .text =
        "A template says how an image is made: in YAML (from, packages, copy, run, env,\n"
        "workdir, user, cmd …) or in the common instructions of a Dockerfile. build runs\n"
        "each step in a vessel of its own, shows what it prints on stderr, and keeps it,\n"
        "so that only what has changed is run again. Its result is an image of vial's\n"
        "store, whose digest it prints. Without FILE or DIR it reads template.yaml,\n"
        "template.yml or Dockerfile of the current directory. prune removes what was\n"
        "kept of steps; finished images stay.",
    .examples = "vial template build\n"
                "vial template build -t data:1 data.yaml\n"
                "vial template build --network gate --allow debian ./app\n"
                "vial run --image data:1 python 'import numpy'",
    .flags = template_flags,
    .max_operands = 2,
    .run = run_template,
};
