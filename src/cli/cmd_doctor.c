/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "api/inside.h"
#include "base/auto.h"
#include "base/fail.h"
#include "base/path.h"
#include "base/state.h"
#include "cli/cli.h"
#include "cli/print.h"
#include "cli/watch_run.h"
#include "model/doctor.h"

static void add_layer(struct str *out, const struct vial_layer *layer)
{
    str_printf(out, "  %-8s %-14s %s\n", layer->available ? "ok" : "missing",
               layer->name, layer->reason);
    if (!layer->available && layer->fix[0])
        str_printf(out, "  %-8s %-14s fix: %s\n", "", "", layer->fix);
}

static void add_driver(struct str *out, const struct vial_driver *d)
{
    if (d->usable)
        str_printf(out, "%s: usable%s%s, isolation %s, limits by %s%s\n", d->name,
                   d->version ? ", engine " : "", d->version ? d->version : "",
                   d->level, d->limits_by, d->automatic ? "" : ", only when asked for");
    else
        str_printf(out, "%s: not usable: %s\n", d->name, d->error.message);
    if (d->error.remedy[0])
        str_printf(out, "  fix: %s\n", d->error.remedy);
    for (size_t i = 0; i < d->layer_count; i++)
        add_layer(out, &d->layers[i]);
}

/* Adds what a request gets that names no driver. */
static void add_needed(struct str *out, const struct vial_doctor *d)
{
    str_printf(out, "settings: driver %s", d->wanted);
    if (!d->takes)
        str_puts(out, ", which cannot be used here");
    else if (str_eq(d->wanted, "auto"))
        str_printf(out, ", which is %s here", d->takes);
    else if (!str_eq(d->wanted, d->takes))
        str_printf(out, ", for which %s stands in", d->takes);
    str_putc(out, '\n');
}

static int print_report(const struct vial_doctor *d)
{
    auto_str struct str out = { 0 };

    for (size_t i = 0; i < d->driver_count; i++)
        add_driver(&out, &d->drivers[i]);
    add_needed(&out, d);
    return print_text(&out);
}

/* One of the drivers is taken by itself. */
static bool is_fit(const struct vial_doctor *d)
{
    for (size_t i = 0; i < d->driver_count; i++)
        if (d->drivers[i].automatic)
            return true;
    return false;
}

static int run_doctor(struct cli *cli)
{
    auto_engine struct vial_engine *engine = NULL;
    auto_doctor struct vial_doctor *doctor = NULL;
    struct vial_error err = { 0 };
    int status;

    if (cli_engine(cli, &engine, &err) < 0 ||
        vial_doctor_look(engine, &doctor, &err) < 0)
        return cli_fail(cli, &err);
    status = cli_flag(cli, "json") ? print_compact(doctor_json(doctor))
                                   : print_report(doctor);
    return status == STATUS_OK && !is_fit(doctor) ? STATUS_UNFIT : status;
}

static const struct flag doctor_flags[] = {
    FLAG_ROW_JSON,
    { 0 },
};

extern const struct command command_doctor;
const struct command command_doctor = {
    .name = "doctor",
    .summary = "show what this host can enforce, and how to get what is missing",
    .text =
        "For each driver: whether it can be used here, and every layer of protection\n"
        "with the reason and the fix where it is missing. Exit status 1: no driver here\n"
        "isolates.",
    .flags = doctor_flags,
    .run = run_doctor,
};

static int print_table(const struct vial_languages *list)
{
    struct table t = { .columns = 3 };

    table_add(&t, "LANGUAGE");
    table_add(&t, "USABLE");
    table_add(&t, "VERSION");
    for (size_t i = 0; i < list->count; i++) {
        table_add(&t, list->items[i].name);
        table_add(&t, list->items[i].usable ? "yes" : "no");
        table_add(&t, list->items[i].version);
    }
    return table_print(&t);
}

/* The request that makes a language's cache at PATH, in a vessel of its own. */
static int cache_request(const struct language *l, const char *path,
                         struct vial_request **out, struct vial_error *err)
{
    static const char *const fixed[][2] = { { "driver", "native" },
                                            { "memory", "2g" },
                                            { "pids", "512" },
                                            { "timeout", "10m" },
                                            { "env", "HOME=/tmp" } };
    auto_ask struct vial_request *req = NULL;
    auto_str struct str own = { 0 };

    str_printf(&own, "%s=/workspace", l->cache_env);
    if (!str_ok(&own))
        return fail_memory(err);
    if (vial_request_new(&req, err) < 0 ||
        vial_request_set(req, "workspace", path, err) < 0)
        return -1;
    for (size_t i = 0; i < sizeof fixed / sizeof *fixed; i++)
        if (vial_request_set(req, fixed[i][0], fixed[i][1], err) < 0)
            return -1;
    for (size_t i = 0; i < l->cache_argv.count; i++)
        if (vial_request_set(req, "command", l->cache_argv.items[i], err) < 0)
            return -1;
    for (size_t i = 0; i < l->env.count; i++)
        if (!strstr(l->env.items[i], "{dir}") &&
            vial_request_set(req, "env", l->env.items[i], err) < 0)
            return -1;
    if (vial_request_set(req, "env", own.data, err) < 0)
        return -1;
    *out = ptr_take(&req);
    return 0;
}

static int remove_entry(const char *path, const struct stat *st, int kind,
                        struct FTW *at)
{
    (void)st;
    (void)kind;
    (void)at;
    return remove(path);
}

static void remove_all(const char *path)
{
    /* NOLINTNEXTLINE(concurrency-mt-unsafe): the vessel is gone, and we are alone */
    (void)nftw(path, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
}

/* Where it is made: beside our own directory, where nothing may be written, and empty,
 * so that nothing of an earlier one is believed. */
static int open_fresh(const char *all, char **path, struct vial_error *err)
{
    auto_str struct str name = { 0 };
    auto_fd int fd = -1;

    str_printf(&name, "%s-XXXXXX", all);
    if (!str_ok(&name))
        return fail_memory(err);
    if (!mkdtemp(name.data))
        return fail_sys(err, "make '%s'", name.data);
    *path = ptr_take(&name.data);
    fd = open(*path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 || fchmod(fd, 0755) < 0) /* programs of vessels read it */
        return fail_sys(err, "open '%s'", *path);
    return fd_take(&fd);
}

static int make_cache(struct vial_engine *engine, const struct vial_request *req,
                      struct vial_error *err)
{
    struct vial_result *result = NULL;
    struct text_safe safe = { 0 };
    int status;

    if (vial_run(engine, req, NULL, &result, err) < 0)
        return -1;
    status = watch_run_status(result);
    if (result->error.code[0])
        say_error(&result->error);
    if (status != STATUS_OK && result->err.data)
        (void)print_bytes(STDERR_FILENO, &safe, result->err.data, result->err.len);
    vial_result_free(result);
    return status;
}

/* FRESH, open as FD, is whole and takes the place of what was there. */
static int put_cache(int fd, const char *fresh, const char *all, const char *name,
                     struct vial_error *err)
{
    auto_free char *path = path_join(all, name);
    auto_fd int mark = -1;

    if (!path)
        return fail_memory(err);
    mark = openat(fd, LANGUAGE_CACHE_WHOLE, O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC,
                  0644);
    if (mark < 0)
        return fail_sys(err, "write to '%s'", fresh);
    remove_all(path);
    return rename(fresh, path) < 0 ? fail_sys(err, "make '%s'", path) : STATUS_OK;
}

static int prepare_language(struct vial_engine *engine, const struct language *l,
                            struct vial_error *err)
{
    auto_free char *all = state_cache_path(inside_settings(engine)->home);
    auto_ask struct vial_request *req = NULL;
    auto_free char *fresh = NULL;
    auto_fd int old = -1;
    auto_fd int fd = -1;
    int status = -1;

    if (!all)
        return fail(err, VIAL_E_FILE, "there is no place for the caller's caches");
    old = state_open(all, l->name, true, err); /* ours alone, or refused */
    if (old < 0)
        return -1;
    fd = open_fresh(all, &fresh, err);
    if (fd >= 0 && cache_request(l, fresh, &req, err) == 0)
        status = make_cache(engine, req, err);
    if (status == STATUS_OK)
        status = put_cache(fd, fresh, all, l->name, err);
    if (status != STATUS_OK && fresh)
        remove_all(fresh);
    return status;
}

static int prepare(struct cli *cli, const char *name, struct vial_error *err)
{
    auto_engine struct vial_engine *engine = NULL;
    const struct language *l;

    if (cli_engine(cli, &engine, err) < 0 ||
        language_find(&inside_settings(engine)->languages, name, &l, err) < 0)
        return -1;
    if (!l->cache_env || l->cache_argv.count == 0)
        return fail(err, VIAL_E_UNSUPPORTED, "language '%s' has nothing to prepare",
                    l->name);
    return prepare_language(engine, l, err);
}

static int run_languages(struct cli *cli)
{
    auto_engine struct vial_engine *engine = NULL;
    auto_languages struct vial_languages list = { 0 };
    struct vial_error err = { 0 };
    int status;

    if (cli_flag(cli, "prepare")) {
        status = prepare(cli, cli_flag(cli, "prepare"), &err);
        return status < 0 ? cli_fail(cli, &err) : status;
    }
    if (cli_engine(cli, &engine, &err) < 0 ||
        vial_language_list(engine, &list, &err) < 0)
        return cli_fail(cli, &err);
    return cli_flag(cli, "json") ? print_compact(languages_json(&list))
                                 : print_table(&list);
}

static const struct flag languages_flags[] = {
    { "prepare", "LANG",
      "Compile its standard library once; later runs are shown that read-only (go)." },
    FLAG_ROW_JSON,
    { 0 },
};

extern const struct command command_languages;
const struct command command_languages = {
    .name = "languages",
    .summary = "list the languages, and which are usable here",
    .flags = languages_flags,
    .run = run_languages,
};
