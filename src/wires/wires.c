/* SPDX-License-Identifier: Apache-2.0 */
#include "wires/wires.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/fail.h"
#include "base/io.h"
#include "base/json.h"
#include "base/text.h"
#include "model/request.h"
#include "serve/job.h"

#include "vial/host.h"

#define SCRIPT_MOST (64u << 10)
#define auto_found  __attribute__((cleanup(vial_languages_free)))

static int read_languages(struct wires *w, const char *share_dir,
                          struct vial_error *err)
{
    w->languages = json_object();
    for (size_t i = 0; w->languages && faces[i]; i++) {
        auto_str struct str path = { 0 };
        json_t *table = NULL;

        str_printf(&path, "%s/runtimes/wires/%s.yaml", share_dir, faces[i]->name);
        if (!str_ok(&path))
            return fail_memory(err);
        if (yaml_read(path.data, &table, err) < 0)
            return -1;
        (void)json_object_set_new(w->languages, faces[i]->name, table);
    }
    return w->languages ? 0 : fail_memory(err);
}

static int read_unzip(struct wires *w, const char *share_dir, struct vial_error *err)
{
    auto_str struct str path = { 0 };

    str_printf(&path, "%s/runtimes/wires/unzip.py", share_dir);
    if (!str_ok(&path))
        return fail_memory(err);
    return io_read_file(path.data, SCRIPT_MOST, &w->unzip, err);
}

AUTO(wires, struct wires, wires_close)
#define auto_wires __attribute__((cleanup(auto_wires_)))

int wires_open(const char *share_dir, struct wires **out, struct vial_error *err)
{
    auto_wires struct wires *w = calloc(1, sizeof(*w));

    if (!w || pthread_mutex_init(&w->lock, NULL) != 0 ||
        submissions_init(&w->submissions) < 0 || wire_files_init(&w->files) < 0)
        return fail_memory(err);
    if (read_languages(w, share_dir, err) < 0 || read_unzip(w, share_dir, err) < 0)
        return -1;
    *out = ptr_take(&w);
    return 0;
}

void wires_close(struct wires *wires)
{
    if (!wires)
        return;
    submissions_done(&wires->submissions);
    wire_files_done(&wires->files);
    blob_done(&wires->unzip);
    json_decref(wires->languages);
    json_decref(wires->versions);
    (void)pthread_mutex_destroy(&wires->lock);
    free(wires);
}

json_t *wires_language(const struct wires *w, const char *wire, const char *name)
{
    return json_object_get(json_object_get(w->languages, wire), name);
}

/* "g++ (Debian 12.2.0-14) 12.2.0" -> "12.2.0": the first number with a dot, and three
 * parts in any case. NULL: there is none. */
static json_t *plain_version(const char *said)
{
    auto_str struct str out = { 0 };
    unsigned parts = 1;

    while (*said &&
           !(isdigit((unsigned char)*said) && said[strspn(said, "0123456789")] == '.'))
        said += isdigit((unsigned char)*said) ? strspn(said, "0123456789") : 1;
    for (; isdigit((unsigned char)*said) ||
           (*said == '.' && isdigit((unsigned char)said[1]) && parts < 3);
         said++) {
        parts += *said == '.';
        str_putc(&out, *said);
    }
    for (; out.len > 0 && parts < 3; parts++)
        str_puts(&out, ".0");
    return out.len > 0 && str_ok(&out) ? json_string(out.data) : NULL;
}

/* With the lock held. */
static void look(struct wires *w, const struct generation *gen)
{
    auto_found struct vial_languages all = { 0 };
    struct vial_error err;

    json_decref(w->versions);
    w->versions = json_object();
    w->looked_at = gen->number;
    if (!w->versions || vial_language_list(gen->engine, &all, &err) < 0)
        return;
    for (size_t i = 0; i < all.count; i++)
        if (all.items[i].usable && all.items[i].version)
            (void)json_object_set_new(w->versions, all.items[i].name,
                                      plain_version(all.items[i].version));
}

bool wires_version(struct call *c, const char *language, struct str *out)
{
    struct wires *w = c->serve->wires;
    const char *found;

    (void)pthread_mutex_lock(&w->lock);
    if (w->looked_at != c->gen->number)
        look(w, c->gen);
    found = json_string_value(json_object_get(w->versions, language));
    if (found)
        str_puts(out, found);
    (void)pthread_mutex_unlock(&w->lock);
    return found != NULL;
}

void wires_try_later(struct call *c)
{
    char seconds[16];

    (void)snprintf(seconds, sizeof(seconds), "%u", c->retry_s ? c->retry_s : 1);
    (void)web_set_header(c->web, "Retry-After", seconds);
}

int wires_unbase64(const char *text, size_t len, struct blob *out)
{
    auto_str struct str letters = { 0 };

    for (size_t i = 0; i < len; i++)
        if (isalnum((unsigned char)text[i]) || text[i] == '+' || text[i] == '/')
            str_putc(&letters, text[i]);
    while (letters.len % 4 != 0)
        str_putc(&letters, '=');
    if (letters.len == 0)
        return blob_set(out, "", 0);
    return str_ok(&letters) ? text_unbase64(letters.data, letters.len, out) : -1;
}

static int put_words(struct strv *to, json_t *from)
{
    for (size_t i = 0; i < json_array_size(from); i++)
        strv_push(to, json_string_value(json_array_get(from, i)));
    return strv_ok(to) || to->count == 0 ? 0 : -1;
}

int wires_request(json_t *entry, const char *code, size_t len,
                  struct vial_request **out, struct vial_error *err)
{
    auto_vial_request struct vial_request *req = NULL;
    const char *language = json_string_value(json_object_get(entry, "language"));
    const char *file = json_string_value(json_object_get(entry, "file"));
    const char *begin = json_string_value(json_object_get(entry, "begin"));
    const char *absent = json_string_value(json_object_get(entry, "absent"));
    auto_str struct str text = { 0 };

    if (absent)
        return fail(err, VIAL_E_UNSUPPORTED, "this language is not supported: %s",
                    absent);

    /* PHP's programs begin with a mark that is forgotten sometimes; what stands before
     * it would be printed. */
    for (; begin && len > 0 && isspace((unsigned char)*code); len--)
        code++;
    if (begin && (len < strlen(begin) || strncmp(code, begin, strlen(begin)) != 0))
        str_printf(&text, "%s\n", begin);
    str_add(&text, code, len);
    if (!str_ok(&text) || vial_request_new(&req, err) < 0 ||
        vial_request_set(req, "language", language ? language : "", err) < 0 ||
        vial_request_set_bytes(req, "code", text.data ? text.data : "", text.len, err) <
            0)
        return -1;
    req->words.file = file ? strdup(file) : NULL;
    req->words.interpreted = json_is_true(json_object_get(entry, "interpreted"));
    if ((file && !req->words.file) ||
        put_words(&req->words.compile_argv, json_object_get(entry, "compile")) < 0 ||
        put_words(&req->words.run_argv, json_object_get(entry, "run")) < 0)
        return fail_memory(err);
    *out = ptr_take(&req);
    return 0;
}
