/* SPDX-License-Identifier: Apache-2.0 */
#include "wires/piston_words.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/fail.h"
#include "base/text.h"
#include "model/request.h"
#include "model/value.h"
#include "wires/faces.h"
#include "wires/semver.h"
#include "wires/verdict_words.h"
#include "wires/wires.h"

#define FILES_MOST 1024u

static json_t *entries(const struct call *c)
{
    return json_object_get(c->serve->wires->languages, face_piston.name);
}

static bool is_called(json_t *entry, const char *name)
{
    json_t *aliases = json_object_get(entry, "aliases");

    if (str_eq(json_string_value(json_object_get(entry, "name")), name))
        return true;
    for (size_t i = 0; i < json_array_size(aliases); i++)
        if (str_eq(json_string_value(json_array_get(aliases, i)), name))
            return true;
    return false;
}

static bool look_at(struct call *c, json_t *entry, struct piston_runtime *out)
{
    auto_str struct str version = { 0 };

    if (!wires_version(c, json_string_value(json_object_get(entry, "language")),
                       &version) ||
        !str_ok(&version) || version.len >= sizeof(out->version))
        return false;
    out->entry = entry;
    out->name = json_string_value(json_object_get(entry, "name"));
    memcpy(out->version, version.data, version.len + 1);
    return true;
}

bool piston_find(struct call *c, const char *name, const char *range,
                 struct piston_runtime *out)
{
    json_t *all = entries(c);
    bool found = false;

    for (size_t i = 0; i < json_array_size(all); i++) {
        struct piston_runtime r;

        if (!is_called(json_array_get(all, i), name) ||
            !look_at(c, json_array_get(all, i), &r) || !semver_fits(range, r.version) ||
            (found && semver_compare(r.version, out->version) <= 0))
            continue;
        *out = r;
        found = true;
    }
    return found;
}

/* Two entries may be one version: python and python3.11. */
static bool is_listed(struct call *c, const struct piston_runtime *r)
{
    struct piston_runtime first;

    for (size_t i = 0; i < json_array_size(entries(c)); i++) {
        json_t *entry = json_array_get(entries(c), i);

        if (entry == r->entry)
            return false;
        if (look_at(c, entry, &first) && str_eq(first.name, r->name) &&
            str_eq(first.version, r->version))
            return true;
    }
    return false;
}

json_t *piston_list(struct call *c, piston_teller *told)
{
    json_t *list = json_array();
    json_t *all = entries(c);

    for (size_t i = 0; i < json_array_size(all); i++) {
        struct piston_runtime r;

        if (look_at(c, json_array_get(all, i), &r) && !is_listed(c, &r))
            (void)json_array_append_new(list, told(&r));
    }
    return list;
}

/* How a file's text is coded. */
enum coding { CODED_UTF8, CODED_BASE64, CODED_HEX };

static enum coding coding_of(json_t *file)
{
    const char *name = json_string_value(json_object_get(file, "encoding"));

    if (str_eq(name, "base64"))
        return CODED_BASE64;
    return str_eq(name, "hex") ? CODED_HEX : CODED_UTF8;
}

static int unhex(const char *text, size_t len, struct blob *out)
{
    auto_str struct str bytes = { 0 };

    if (len % 2 != 0)
        return -1;
    for (size_t i = 0; i < len; i += 2) {
        int high = text_unhex(text[i]);
        int low = text_unhex(text[i + 1]);

        if (high < 0 || low < 0)
            return -1;
        str_putc(&bytes, (char)(high << 4 | low));
    }
    return str_ok(&bytes) ? blob_set(out, bytes.data ? bytes.data : "", bytes.len) : -1;
}

static int decode(json_t *file, struct blob *out, struct vial_error *err)
{
    json_t *content = json_object_get(file, "content");
    const char *text = json_string_value(content);
    size_t len = json_string_length(content);
    int rc;

    switch (coding_of(file)) {
    case CODED_BASE64:
        rc = text_unbase64(text, len, out);
        break;
    case CODED_HEX:
        rc = unhex(text, len, out);
        break;
    case CODED_UTF8:
    default:
        rc = blob_set(out, text, len);
        break;
    }
    return rc < 0 ? fail(err, VIAL_E_VALUE, "a file's content is not coded as it says")
                  : 0;
}

/* The first file that is text is the program. */
static size_t find_main(json_t *files)
{
    size_t i = 0;

    while (i < json_array_size(files) &&
           coding_of(json_array_get(files, i)) != CODED_UTF8)
        i++;
    return i;
}

/* In Piston's order, and its words. */
static int check_job(struct call *c, json_t *body, struct piston_runtime *runtime,
                     struct vial_error *err)
{
    const char *language = value_string(json_object_get(body, "language"));
    const char *version = value_string(json_object_get(body, "version"));
    json_t *files = json_object_get(body, "files");

    if (!language)
        return fail(err, VIAL_E_VALUE, "language is required as a string");
    if (!version)
        return fail(err, VIAL_E_VALUE, "version is required as a string");
    if (!json_is_array(files))
        return fail(err, VIAL_E_VALUE, "files is required as an array");
    if (json_array_size(files) > FILES_MOST)
        return fail(err, VIAL_E_VALUE, "files cannot exceed the limit of %u files",
                    FILES_MOST);
    for (size_t i = 0; i < json_array_size(files); i++)
        if (!json_is_string(json_object_get(json_array_get(files, i), "content")))
            return fail(err, VIAL_E_VALUE, "files[%zu].content is required as a string",
                        i);
    if (!piston_find(c, language, version, runtime))
        return fail(err, VIAL_E_VALUE, "%.60s-%.40s runtime is unknown", language,
                    version);
    if (find_main(files) == json_array_size(files))
        return fail(err, VIAL_E_VALUE,
                    "files must include at least one utf8 encoded file");
    return 0;
}

struct bound {
    const char *name;
    enum field_id field; /* whose cap it has */
    int64_t usual;       /* 0: the settings' */
    int64_t value;       /* 0: the settings' */
};

/* A limit as the job says it, or as is usual; 0 and, for memory, -1 are no limit there
 * and the usual one here. */
static int read_bound(const struct call *c, json_t *body, struct bound *b,
                      struct vial_error *err)
{
    json_t *given = json_object_get(body, b->name);
    int64_t cap = policy_cap(&c->gen->settings->policy, b->field);
    double value = json_number_value(given);

    b->value = b->usual < cap ? b->usual : cap;
    if (!given || json_is_null(given))
        return 0;
    if (!json_is_number(given))
        return fail(err, VIAL_E_VALUE, "If specified, %s must be a number", b->name);
    if (value == 0 || (b->field == FIELD_ID_memory && value == -1))
        return 0;
    if (value > (double)cap)
        return fail(err, VIAL_E_VALUE,
                    "%s cannot exceed the configured limit of %" PRId64, b->name, cap);
    if (value < 0)
        return fail(err, VIAL_E_VALUE, "%s must be non-negative", b->name);
    b->value = value < 1 ? 1 : (int64_t)value;
    return 0;
}

enum {
    COMPILE_MEMORY,
    COMPILE_TIMEOUT,
    COMPILE_CPU,
    RUN_MEMORY,
    RUN_TIMEOUT,
    RUN_CPU,
    BOUNDS
};

static int put_limits(struct call *c, json_t *body, struct program *p,
                      struct vial_error *err)
{
    struct bound b[BOUNDS] = {
        [COMPILE_MEMORY] = { "compile_memory_limit", FIELD_ID_memory, 0, 0 },
        [COMPILE_TIMEOUT] = { "compile_timeout", FIELD_ID_timeout, 10000, 0 },
        [COMPILE_CPU] = { "compile_cpu_time", FIELD_ID_cpu_time, 10000, 0 },
        [RUN_MEMORY] = { "run_memory_limit", FIELD_ID_memory, 0, 0 },
        [RUN_TIMEOUT] = { "run_timeout", FIELD_ID_timeout, 3000, 0 },
        [RUN_CPU] = { "run_cpu_time", FIELD_ID_cpu_time, 3000, 0 },
    };

    for (size_t i = 0; i < BOUNDS; i++)
        if (read_bound(c, body, &b[i], err) < 0)
            return -1;
    p->compile.memory_bytes = b[COMPILE_MEMORY].value;
    p->compile.timeout_ms = b[COMPILE_TIMEOUT].value;
    p->compile.cpu_ms = b[COMPILE_CPU].value;
    /* A time that was asked for is cpu time as well, unless that is said: a longer run
     * would be cut short by what is only usual. */
    if (!json_object_get(body, "run_cpu_time") &&
        b[RUN_CPU].value < b[RUN_TIMEOUT].value)
        b[RUN_CPU].value = b[RUN_TIMEOUT].value;
    if (program_limit(p->req, FIELD_ID_timeout, b[RUN_TIMEOUT].value, err) < 0 ||
        program_limit(p->req, FIELD_ID_cpu_time, b[RUN_CPU].value, err) < 0)
        return -1;
    return b[RUN_MEMORY].value
               ? program_limit(p->req, FIELD_ID_memory, b[RUN_MEMORY].value, err)
               : 0;
}

static bool ends_in(const char *name, const char *ending)
{
    size_t len = strlen(name), end = strlen(ending);

    return len > end && strcmp(name + len - end, ending) == 0;
}

/* The program keeps its name, with the ending that its compiler looks for. */
static int name_main(struct vial_request *req, json_t *entry, json_t *file,
                     struct vial_error *err)
{
    const char *name = value_string(json_object_get(file, "name"));
    const char *ending = json_string_value(json_object_get(entry, "ending"));
    auto_str struct str whole = { 0 };

    if (!name || json_object_get(entry, "file"))
        return 0;
    if (!program_path(name))
        return fail(err, VIAL_E_PATH, "file '%.200s' lies outside /work", name);
    str_puts(&whole, program_path(name));
    if (ending && !ends_in(name, ending))
        str_puts(&whole, ending);
    free(req->words.file);
    req->words.file = str_take(&whole);
    return req->words.file ? 0 : fail_memory(err);
}

/* Other sources go to the compiler right behind the first. */
static int compile_too(struct vial_request *req, json_t *entry, const char *path)
{
    json_t *endings = json_object_get(entry, "together");
    auto_strv struct strv words = { 0 };
    bool source = false;

    for (size_t i = 0; i < json_array_size(endings); i++)
        source = source || ends_in(path, json_string_value(json_array_get(endings, i)));
    for (size_t i = 0; source && i < req->words.compile_argv.count; i++) {
        strv_push(&words, req->words.compile_argv.items[i]);
        if (str_eq(req->words.compile_argv.items[i], "{file}"))
            strv_printf(&words, "{dir}/%s", path);
    }
    if (!source)
        return 0;
    strv_done(&req->words.compile_argv);
    req->words.compile_argv = (struct strv){ 0 };
    strv_copy(&req->words.compile_argv, &words);
    return strv_ok(&words) && strv_ok(&req->words.compile_argv) ? 0 : -1;
}

static int put_file(struct vial_request *req, json_t *entry, json_t *file,
                    size_t number, struct vial_error *err)
{
    const char *name = value_string(json_object_get(file, "name"));
    struct blob content = { 0 };
    char usual[32];
    int rc;

    (void)snprintf(usual, sizeof(usual), "file%zu.code", number);
    if (decode(file, &content, err) < 0)
        return -1;
    rc = program_file(req, name ? name : usual, content.data ? content.data : "",
                      content.len, 0644, err);
    blob_done(&content);
    if (rc == 0 && name && coding_of(file) == CODED_UTF8 &&
        compile_too(req, entry, program_path(name)) < 0)
        return fail_memory(err);
    return rc;
}

static int put_files(struct vial_request *req, json_t *entry, json_t *files,
                     struct vial_error *err)
{
    size_t first = find_main(files);

    if (name_main(req, entry, json_array_get(files, first), err) < 0)
        return -1;
    for (size_t i = 0; i < json_array_size(files); i++)
        if (i != first && put_file(req, entry, json_array_get(files, i), i, err) < 0)
            return -1;
    return 0;
}

/* stdin ends with a newline, if there is any. */
static int put_input(struct vial_request *req, json_t *given, struct vial_error *err)
{
    auto_str struct str text = { 0 };

    str_add(&text, json_is_string(given) ? json_string_value(given) : "",
            json_string_length(given));
    if (text.len > 0 && text.data[text.len - 1] != '\n')
        str_putc(&text, '\n');
    if (text.len == 0)
        return 0;
    return str_ok(&text)
               ? vial_request_set_bytes(req, "stdin", text.data, text.len, err)
               : fail_memory(err);
}

static int put_rest(struct vial_request *req, json_t *body, const char *language,
                    struct vial_error *err)
{
    json_t *args = json_object_get(body, "args");
    auto_str struct str variable = { 0 };

    for (size_t i = 0; i < json_array_size(args); i++) {
        const char *word = value_string(json_array_get(args, i));

        if (word && vial_request_set(req, "args", word, err) < 0)
            return -1;
    }
    str_printf(&variable, "PISTON_LANGUAGE=%s", language);
    if (!str_ok(&variable))
        return fail_memory(err);
    if (vial_request_set(req, "env", variable.data, err) < 0)
        return -1;
    return put_input(req, json_object_get(body, "stdin"), err);
}

int piston_job(struct call *c, json_t *body, struct piston_runtime *runtime,
               struct program *out, struct vial_error *err)
{
    json_t *files = json_object_get(body, "files");
    json_t *code;

    if (check_job(c, body, runtime, err) < 0)
        return -1;
    code = json_object_get(json_array_get(files, find_main(files)), "content");
    if (wires_request(runtime->entry, json_string_value(code), json_string_length(code),
                      &out->req, err) < 0 ||
        put_limits(c, body, out, err) < 0 ||
        put_files(out->req, runtime->entry, files, err) < 0)
        return -1;
    return put_rest(out->req, body, runtime->name, err);
}

json_t *piston_code(const struct stage *s)
{
    return verdict_words[s->verdict].by == BY_EXIT ? json_integer(s->exit_code)
                                                   : json_null();
}

json_t *piston_signal(const struct stage *s)
{
    switch (verdict_words[s->verdict].by) {
    case BY_SIGNAL:
        return json_sprintf("SIG%s", vial_signal_name(s->signal));
    case BY_DEADLINE:
    case BY_KILL:
        return json_string("SIGKILL");
    case BY_EXIT:
    case BY_OTHERS:
        break;
    }
    return json_null();
}
