/* SPDX-License-Identifier: Apache-2.0 */
#include "api/languages.h"

#include <string.h>

#include "base/auto.h"
#include "base/fail.h"
#include "base/json.h"
#include "base/path.h"
#include "base/text.h"
#include "engine/run/run.h"
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

/* The first line, made valid UTF-8; null when there is none. */
static json_t *first_line(const struct vial_stream *stream)
{
    auto_str struct str line = { 0 };
    size_t len = stream->data ? strcspn(stream->data, "\r\n") : 0;

    if (len == 0)
        return json_null();
    text_repair(&line, stream->data, len);
    return str_ok(&line) ? json_stringn(line.data, line.len) : NULL;
}

/* Nobody asked for this program: it is in no log. */
static json_t *version_json(const struct vial_engine *e,
                            const struct language *language)
{
    struct vial_engine silent = { .settings = e->settings,
                                  .guest_fd = e->guest_fd,
                                  .drivers = e->drivers };
    auto_request struct vial_request req = { 0 };
    struct vial_result *result;
    json_t *version = NULL;

    if (language->version_argv.count == 0)
        return json_null();
    result = result_new();
    if (!result)
        return NULL;
    if (ask(&req, &language->version_argv) == 0)
        engine_run(&silent, &req, NULL, result);
    if (result->verdict != VIAL_OK)
        version = json_null();
    else if (result->out.len > 0)
        version = first_line(&result->out);
    else
        version = first_line(&result->err); /* java says it there */
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

static json_t *names_json(const struct strv *names)
{
    json_t *list = json_array();

    for (size_t i = 0; i < names->count; i++)
        if (json_array_append_new(list, json_string(names->items[i])) < 0) {
            json_decref(list);
            return NULL;
        }
    return list;
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

/* What the host has may be another version; an image is as the administrator says. */
static bool is_expected(const struct here *here, const struct language *language,
                        const json_t *version)
{
    const char *text = json_string_value(version);

    return !language->expects || !here->host ||
           (text && str_starts(text, language->expects));
}

static json_t *language_json(struct vial_engine *e, const struct here *here,
                             const struct language *language)
{
    const char *program = program_of(language);
    auto_free char *path = path_find_program(program, PATH_SEARCH);
    bool usable = is_there(e, here, language, path);
    json_t *version = usable ? version_json(e, language) : json_null();

    usable = usable && is_expected(here, language, version);
    return json_pack("{s:s, s:o, s:b, s:s, s:s?, s:o}", "name", language->name,
                     "aliases", names_json(&language->aliases), "usable", usable,
                     "program", program, "path", path, "version", version);
}

json_t *languages_json(struct vial_engine *e)
{
    const struct language_table *table = &e->settings->languages;
    const struct here here = look(e);
    json_t *list = json_array();

    for (size_t i = 0; i < table->count; i++)
        if (!table->items[i].hidden &&
            json_array_append_new(list, language_json(e, &here, &table->items[i])) <
                0) {
            json_decref(list);
            return NULL;
        }
    return list;
}

static bool is_offered(struct vial_engine *e, const struct here *here,
                       const struct language *language)
{
    auto_free char *path =
        here->host ? path_find_program(program_of(language), PATH_SEARCH) : NULL;
    auto_json json_t *version = NULL;

    if (language->hidden || !is_there(e, here, language, path))
        return false;
    if (language->expects && here->host)
        version = version_json(e, language);
    return is_expected(here, language, version);
}

json_t *languages_offered(struct vial_engine *e)
{
    const struct language_table *table = &e->settings->languages;
    const struct here here = look(e);
    json_t *list = json_array();

    for (size_t i = 0; i < table->count; i++)
        if (is_offered(e, &here, &table->items[i]))
            (void)json_array_append_new(list, json_string(table->items[i].name));
    return list;
}
