/* SPDX-License-Identifier: Apache-2.0 */
#include "e2b/http_ask.h"

#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/auto.h"
#include "base/fail.h"
#include "model/value.h"

#define JSON_TYPE   "application/json"
#define WORDS_BYTES ((size_t)64 << 10) /* they are kept as long as the sandbox */

int ask_body(struct ask *a, json_t **out, struct vial_error *err)
{
    size_t len;
    const char *text = web_body(a->web, &len);

    if (len == 0) {
        *out = json_object();
        return *out ? 0 : fail_memory(err);
    }
    if (json_parse(text, len, "body", out, err) < 0)
        return -1;
    if (json_is_object(*out))
        return 0;
    json_decref(*out);
    *out = NULL;
    return fail(err, VIAL_E_VALUE, "the body is not a JSON object");
}

int ask_check_words(const char *name, const json_t *value, struct vial_error *err)
{
    json_t *all = (json_t *)(uintptr_t)value; /* the loop wants it so */
    const char *key;
    json_t *text;
    size_t bytes = 0;

    if (!json_is_object(value) || json_object_size(value) > ASK_WORDS_COUNT)
        return fail(err, VIAL_E_VALUE, "'%s' is not an object of at most %d texts",
                    name, ASK_WORDS_COUNT);
    json_object_foreach(all, key, text)
    {
        if (!value_string(text))
            return fail(err, VIAL_E_VALUE, "'%s' is not an object of texts", name);
        bytes += strlen(key) + json_string_length(text);
    }
    return bytes <= WORDS_BYTES
               ? 0
               : fail(err, VIAL_E_VALUE, "'%s' is not at most 64 KiB of text", name);
}

int ask_check_members(json_t *object, const char *const *known, size_t count,
                      const char *where, struct vial_error *err)
{
    const char *name;
    json_t *value;

    json_object_foreach(object, name, value)
    {
        struct shown shown = value_show(name, strlen(name));
        bool is_known = json_is_null(value);

        for (size_t i = 0; i < count; i++)
            is_known = is_known || strcmp(known[i], name) == 0;
        if (!is_known)
            return fail(err, VIAL_E_UNSUPPORTED,
                        "%s'%s' is not supported by this server", where, shown.text);
    }
    return 0;
}

void ask_text(struct ask *a, unsigned status, const char *type, const char *text)
{
    a->turn->status = status;
    (void)web_reply(a->web, status, type, text, strlen(text));
}

void ask_json(struct ask *a, unsigned status, json_t *value)
{
    char *text = value ? json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY |
                                               JSON_REAL_PRECISION(12))
                       : NULL;

    json_decref(value);
    if (!text) {
        ask_text(a, 500, JSON_TYPE, "{\"code\":500,\"message\":\"out of memory\"}");
        return;
    }
    a->turn->status = status;
    (void)web_give(a->web, status, JSON_TYPE, text, strlen(text));
}

void ask_done(struct ask *a)
{
    a->turn->status = 204;
    (void)web_reply(a->web, 204, NULL, "", 0);
}

void ask_refuse(struct ask *a, unsigned status, const char *format, ...)
{
    char text[ASK_WORDS];
    char seconds[16];
    va_list args;

    va_start(args, format);
    (void)vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    if (status == 429 || status == 503) {
        (void)snprintf(seconds, sizeof(seconds), "%u", a->retry_s ? a->retry_s : 1);
        (void)web_set_header(a->web, "Retry-After", seconds);
    }
    ask_json(a, status,
             json_pack("{s:i, s:o}", "code", (int)status, "message",
                       json_stringn_nocheck(text, strlen(text))));
}

unsigned ask_status_of(const struct vial_error *err)
{
    static const struct {
        enum fail_code code;
        unsigned status;
    } table[] = {
        { VIAL_E_JSON, 400 },       { VIAL_E_FIELD, 400 },       { VIAL_E_VALUE, 400 },
        { VIAL_E_PATH, 400 },       { VIAL_E_CWD, 400 },         { VIAL_E_EXEC, 400 },
        { VIAL_E_CAP, 400 },        { VIAL_E_UNSUPPORTED, 400 }, { VIAL_E_AUTH, 401 },
        { VIAL_E_SCOPE, 403 },      { VIAL_E_POLICY, 403 },      { VIAL_E_ROUTE, 404 },
        { VIAL_E_NO_FILE, 404 },    { VIAL_E_IMAGE, 404 },       { VIAL_E_RATE, 429 },
        { VIAL_E_BUSY, 503 },       { VIAL_E_KEEPER, 503 },      { VIAL_E_QUOTA, 507 },
        { VIAL_E_NAME_TAKEN, 409 }, { VIAL_E_OFFSET, 416 },      { VIAL_E_VOLUME, 404 },
        { VIAL_E_MOUNT, 400 },
    };

    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++)
        if (fail_is(err, table[i].code))
            return table[i].status;
    return 500;
}

void ask_words(const struct vial_error *err, char out[ASK_WORDS])
{
    (void)snprintf(out, ASK_WORDS, "%s%s%s%s%s", err->message,
                   err->cause[0] ? ": " : "", err->cause, err->remedy[0] ? "; " : "",
                   err->remedy);
}

void ask_error(struct ask *a, const struct vial_error *err)
{
    char words[ASK_WORDS];

    ask_words(err, words);
    ask_refuse(a, ask_status_of(err), "%s", words);
}

void ask_proxy(struct ask *a, unsigned status, const char *id, const char *message)
{
    ask_json(a, status,
             json_pack("{s:s, s:s, s:i}", "sandboxId", id, "message", message, "code",
                       (int)status));
}

bool ask_matches(struct ask *a, const char *pattern, char args[2][ASK_ARG])
{
    const char *path = a->path;
    unsigned count = 0;

    while (*pattern) {
        size_t len = strcspn(path, "/");

        if (strncmp(pattern, "{}", 2) == 0) {
            if (len == 0 || len >= ASK_ARG || count == 2)
                return false;
            memcpy(args[count], path, len);
            args[count++][len] = '\0';
            pattern += 2;
            path += len;
        } else if (*pattern++ != *path++) {
            return false;
        }
    }
    a->arg = count > 0 ? args[0] : NULL;
    a->arg2 = count > 1 ? args[1] : NULL;
    return *path == '\0';
}

int ask_start(struct ask *a, struct vial_error *err)
{
    struct gate_pass pass = { 0 };
    int rc = gate_start(a->e2b->options.gate, a->caller, &pass, err);

    a->retry_s = pass.retry_s;
    return rc;
}

void ask_ended(void *caller)
{
    struct caller *c = caller;

    gate_end(c->gate, c);
}

bool ask_is_gone(struct ask *a)
{
    struct pollfd gone = { .fd = web_gone_fd(a->web), .events = POLLIN };

    return poll(&gone, 1, 0) > 0;
}
