/* SPDX-License-Identifier: Apache-2.0 */
#include "api/languages.h"

#include <string.h>

#include "base/auto.h"
#include "base/fail.h"
#include "base/path.h"
#include "base/text.h"
#include "model/result.h"

#define PROBE_TIMEOUT "2s"
#define PROBE_OUTPUT  "4k"

static int ask(struct vial_request *req, const struct strv *argv)
{
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

static json_t *version_json(struct vial_engine *e, const struct language *language)
{
    auto_request struct vial_request req = { 0 };
    struct vial_result *result;
    json_t *version = NULL;

    if (language->version_argv.count == 0)
        return json_null();
    result = result_new();
    if (!result)
        return NULL;
    if (ask(&req, &language->version_argv) == 0)
        engine_run(e, &req, NULL, result);
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

static json_t *language_json(struct vial_engine *e, const struct language *language)
{
    const char *program = program_of(language);
    auto_free char *path = path_find_program(program, PATH_SEARCH);
    bool usable = path && is_allowed(e, language);
    json_t *version = usable ? version_json(e, language) : json_null();
    const char *text = json_string_value(version);

    if (language->expects && !(text && str_starts(text, language->expects)))
        usable = false;
    return json_pack("{s:s, s:o, s:b, s:s, s:s?, s:o}", "name", language->name,
                     "aliases", names_json(&language->aliases), "usable", usable,
                     "program", program, "path", path, "version", version);
}

json_t *languages_json(struct vial_engine *e)
{
    const struct language_table *table = &e->settings->languages;
    json_t *list = json_array();

    for (size_t i = 0; i < table->count; i++)
        if (!table->items[i].hidden &&
            json_array_append_new(list, language_json(e, &table->items[i])) < 0) {
            json_decref(list);
            return NULL;
        }
    return list;
}
