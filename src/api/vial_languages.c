/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "api/give.h"
#include "api/inside.h"
#include "base/auto.h"
#include "base/fail.h"
#include "base/path.h"
#include "base/text.h"
#include "engine/run/run.h"
#include "model/doctor.h"
#include "model/result.h"

#define PROBE_TIMEOUT "2s"
#define PROBE_OUTPUT  "4k"

/* Where languages would run now. */
struct here {
    const struct driver *driver; /* NULL: nowhere */
    bool host;                   /* with this host's own programs */
};

static struct here look(struct vial_engine *e)
{
    static const struct strv nothing = { 0 };
    auto_request struct vial_request none = { 0 };
    auto_request struct vial_request full = { 0 };
    struct here h = { 0 };

    if (admit(e, &none, &full, &h.driver, NULL) < 0)
        return (struct here){ 0 };
    h.host = h.driver->needs_programs_here;
    if (!h.host && driver_works(h.driver, &nothing, NULL) < 0)
        h.driver = NULL;
    return h;
}

/* Images are not pulled for a look at them. */
static int ask(struct vial_request *req, const struct strv *argv)
{
    if (request_set_text(req, FIELD_ID_pull, "never", strlen("never"), "version probe",
                         NULL) < 0)
        return -1;
    for (size_t i = 0; i < argv->count; i++)
        if (request_set_text(req, FIELD_ID_command, argv->items[i],
                             strlen(argv->items[i]), "version probe", NULL) < 0)
            return -1;
    if (request_set_text(req, FIELD_ID_timeout, PROBE_TIMEOUT, strlen(PROBE_TIMEOUT),
                         "version probe", NULL) < 0)
        return -1;
    return request_set_text(req, FIELD_ID_output_limit, PROBE_OUTPUT,
                            strlen(PROBE_OUTPUT), "version probe", NULL);
}

/* The first line, made valid UTF-8; malloc'ed, or NULL when there is none. */
static char *first_line(const struct vial_stream *stream)
{
    struct str line = { 0 };
    size_t len = stream->data ? strcspn(stream->data, "\r\n") : 0;

    if (len == 0)
        return NULL;
    text_repair(&line, stream->data, len);
    return str_take(&line);
}

/* malloc'ed, or NULL. Nobody asked for this program: it is in no log. */
static char *version_of(const struct vial_engine *e, const struct language *language)
{
    struct vial_engine silent = { .settings = e->settings,
                                  .guest_fd = e->guest_fd,
                                  .drivers = e->drivers };
    auto_request struct vial_request req = { 0 };
    struct vial_result *result;
    char *version = NULL;

    if (language->version_argv.count == 0)
        return NULL;
    result = result_new();
    if (!result)
        return NULL;
    if (ask(&req, &language->version_argv) == 0)
        engine_run(&silent, &req, NULL, result);
    if (result->verdict == VIAL_OK) /* java says it on the other stream */
        version = first_line(result->out.len > 0 ? &result->out : &result->err);
    vial_result_free(result);
    return version;
}

/* The program that must exist: the compiler, or the interpreter. */
static const char *program_of(const struct language *language)
{
    const struct strv *argv = language->compile_argv.count > 0 ? &language->compile_argv
                                                               : &language->run_argv;

    return argv->count > 0 ? argv->items[0] : "";
}

static bool is_allowed(const struct vial_engine *e, const struct language *language)
{
    const struct strv *allowed = &e->settings->policy.languages;

    return allowed->count == 0 || strv_has(allowed, language->name);
}

/* Whether it can run, as far as that is seen without running anything. */
static bool is_there(const struct vial_engine *e, const struct here *here,
                     const struct language *language, const char *path)
{
    if (!here->driver || !is_allowed(e, language))
        return false;
    return here->host ? path != NULL : language->image || e->settings->defaults.image;
}

/* The host may have another version; an image is as the administrator says. */
static bool is_expected(const struct here *here, const struct language *language,
                        const char *version)
{
    return !language->expects || !here->host ||
           (version && str_starts(version, language->expects));
}

static struct vial_language look_at(struct vial_engine *e, const struct here *here,
                                    const struct language *language)
{
    struct vial_language l = { .name = language->name,
                               .aliases = (const char *const *)language->aliases.items,
                               .program = program_of(language) };

    l.path = path_find_program(l.program, PATH_SEARCH);
    l.usable = is_there(e, here, language, l.path);
    if (l.usable)
        l.version = version_of(e, language);
    l.usable = l.usable && is_expected(here, language, l.version);
    return l;
}

static struct vial_language look_quickly(struct vial_engine *e, const struct here *here,
                                         const struct language *language)
{
    struct vial_language l = { .name = language->name,
                               .aliases = (const char *const *)language->aliases.items,
                               .program = program_of(language) };
    auto_free char *path =
        here->host ? path_find_program(l.program, PATH_SEARCH) : NULL;
    auto_free char *version = NULL;

    l.usable = is_there(e, here, language, path);
    if (l.usable && language->expects && here->host)
        version = version_of(e, language);
    l.usable = l.usable && is_expected(here, language, version);
    return l;
}

static int list(struct vial_engine *e, bool offered, struct vial_languages *out,
                struct vial_error *err)
{
    const struct language_table *table = &e->settings->languages;
    const struct here here = look(e);
    struct vial_languages all = { calloc(table->count + 1, sizeof(*all.items)), 0 };

    if (!all.items)
        return fail_memory(err);
    for (size_t i = 0; i < table->count; i++) {
        const struct language *language = &table->items[i];
        struct vial_language l = { 0 };

        if (language->hidden)
            continue;
        l = offered ? look_quickly(e, &here, language) : look_at(e, &here, language);
        if (l.usable || !offered)
            all.items[all.count++] = l;
    }
    *out = all;
    return 0;
}

bool inside_gives_network(struct vial_engine *engine)
{
    const struct settings *s = engine->settings;
    const struct here here = look(engine);

    /* Names are the operator's to give: no caller of tools names any. */
    if (here.driver && str_eq(here.driver->name, "native") && s->defaults.allow.count &&
        policy_check_list(&s->policy, POLICY_ID_networks, "network", "gate", NULL) == 0)
        return true;
    return here.driver && !here.host &&
           policy_check_list(&engine->settings->policy, POLICY_ID_networks, "network",
                             "bridge", NULL) == 0;
}

char *inside_language_version(struct vial_engine *engine, const char *name)
{
    const struct here here = look(engine);
    const struct language *language;
    struct vial_error ignored = { 0 };
    auto_free char *path = NULL;

    if (language_find(&engine->settings->languages, name, &language, &ignored) < 0)
        return NULL;
    path = path_find_program(program_of(language), PATH_SEARCH);
    return is_there(engine, &here, language, path) ? version_of(engine, language)
                                                   : NULL;
}

int vial_language_list(struct vial_engine *engine, struct vial_languages *out,
                       struct vial_error *err)
{
    return list(engine, false, out, err);
}

int vial_language_list_offered(struct vial_engine *engine, struct vial_languages *out,
                               struct vial_error *err)
{
    return list(engine, true, out, err);
}

void vial_languages_free(struct vial_languages *languages)
{
    for (size_t i = 0; i < languages->count; i++) {
        free(languages->items[i].path);
        free(languages->items[i].version);
    }
    free(languages->items);
    *languages = (struct vial_languages){ 0 };
}

int vial_languages(struct vial_engine *engine, char **json, struct vial_error *err)
{
    auto_languages struct vial_languages all = { 0 };

    return list(engine, false, &all, err) < 0
               ? -1
               : text_give(languages_json(&all), json, err);
}

int vial_languages_offered(struct vial_engine *engine, char **json,
                           struct vial_error *err)
{
    auto_languages struct vial_languages all = { 0 };

    return list(engine, true, &all, err) < 0
               ? -1
               : text_give(languages_names_json(&all), json, err);
}
