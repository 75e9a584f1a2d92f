/* SPDX-License-Identifier: Apache-2.0 */

/* The steps of a build as clients give them. All of it is judged before any is run. */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/fail.h"
#include "e2b/builds.h"
#include "model/value.h"

#define ARGS    256u
#define SPECIAL "*?[{\\!" /* what patterns of the SDK's begin with */

static const struct {
    const char *word;
    unsigned least, most; /* arguments */
} kinds[] = {
    [STEP_COPY] = { "COPY", 2, 4 },  [STEP_RUN] = { "RUN", 1, 2 },
    [STEP_ENV] = { "ENV", 2, ARGS }, [STEP_WORKDIR] = { "WORKDIR", 1, 1 },
    [STEP_USER] = { "USER", 1, 1 },
};

const char *build_word(enum build_kind kind)
{
    return kinds[kind].word;
}

static int wrong(size_t number, const char *why, struct vial_error *err)
{
    return fail(err, VIAL_E_VALUE, "step %zu: %s", number, why);
}

static int read_kind(const json_t *step, size_t number, enum build_kind *out,
                     struct vial_error *err)
{
    const char *type = value_string(json_object_get(step, "type"));
    struct shown shown = value_show(type ? type : "", type ? strlen(type) : 0);

    for (size_t i = 0; type && i < sizeof(kinds) / sizeof(kinds[0]); i++)
        if (strcmp(kinds[i].word, type) == 0) {
            *out = (enum build_kind)i;
            return 0;
        }
    return fail(err, VIAL_E_UNSUPPORTED,
                "step %zu: '%s' is not supported by this server", number, shown.text);
}

static int read_args(const json_t *step, size_t number, struct build_step *out,
                     struct vial_error *err)
{
    const json_t *args = json_object_get(step, "args");
    size_t count = json_array_size(args);

    if (count < kinds[out->kind].least || count > kinds[out->kind].most)
        return wrong(number, "it has too few arguments, or too many", err);
    for (size_t i = 0; i < count; i++) {
        const char *text = value_string(json_array_get(args, i));

        if (!text)
            return wrong(number, "its arguments are not all texts", err);
        strv_push(&out->args, text);
    }
    return strv_ok(&out->args) ? 0 : fail_memory(err);
}

static bool is_name(const char *text)
{
    static const char letters[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789";

    return *text && strspn(text, letters) == strlen(text) &&
           (*text < '0' || *text > '9');
}

static int check_env(const struct build_step *s, size_t number, struct vial_error *err)
{
    if (!s->args.items || s->args.count % 2)
        return wrong(number, "a variable has no value", err);
    for (size_t i = 0; i < s->args.count; i += 2)
        if (!is_name(s->args.items[i]))
            return wrong(number, "a variable's name is none", err);
    return 0;
}

static bool is_mode(const char *text)
{
    size_t len = strlen(text);

    return len == 0 || (len <= 4 && strspn(text, "01234567") == len);
}

/* "user", "user:group", or numbers. */
static bool is_owner(const char *text)
{
    static const char letters[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789.-:";

    return strspn(text, letters) == strlen(text) && text[0] != '-';
}

static int check_copy(const json_t *step, size_t number, struct build_step *s,
                      struct vial_error *err)
{
    const char *hash = value_string(json_object_get(step, "filesHash"));
    auto_free char *source = s->args.items ? build_source(s->args.items[0]) : NULL;

    if (!hash || !*hash || strlen(hash) >= sizeof(s->hash) ||
        strspn(hash, "0123456789abcdef") != strlen(hash))
        return wrong(number, "'filesHash' is not a hash", err);
    memcpy(s->hash, hash, strlen(hash) + 1);
    if (!source || !s->args.items)
        return wrong(number, "its source leads out of the files", err);
    if (!s->args.items[1][0])
        return wrong(number, "it does not say where to", err);
    if (s->args.count > 2 && !is_owner(s->args.items[2]))
        return wrong(number, "its owner is none", err);
    if (s->args.count > 3 && !is_mode(s->args.items[3]))
        return wrong(number, "its mode is not octal", err);
    return 0;
}

/* What only says how the client made it, or that nothing is to be kept, which nothing
 * is. */
static int check_members(json_t *step, size_t number, struct vial_error *err)
{
    static const char *const known[] = { "type",  "args",        "filesHash",
                                         "force", "forceUpload", "resolveSymlinks",
                                         "gzip" };
    char where[32];

    (void)snprintf(where, sizeof(where), "step %zu: ", number);
    return ask_check_members(step, known, sizeof(known) / sizeof(known[0]), where, err);
}

static int read_step(json_t *step, size_t number, struct build_step *out,
                     struct vial_error *err)
{
    if (!json_is_object(step))
        return wrong(number, "it is not an object", err);
    if (check_members(step, number, err) < 0 ||
        read_kind(step, number, &out->kind, err) < 0 ||
        read_args(step, number, out, err) < 0)
        return -1;
    if (out->kind == STEP_ENV)
        return check_env(out, number, err);
    return out->kind == STEP_COPY ? check_copy(step, number, out, err) : 0;
}

int build_plan_read(const json_t *steps, struct build_plan *out, struct vial_error *err)
{
    size_t count = json_array_size(steps);

    *out = (struct build_plan){ 0 };
    if (steps && !json_is_array(steps) && !json_is_null(steps))
        return fail(err, VIAL_E_VALUE, "'steps' is not a list");
    if (count > BUILD_STEPS)
        return fail(err, VIAL_E_VALUE, "there are more than %u steps", BUILD_STEPS);
    out->steps = calloc(count + 1, sizeof(*out->steps));
    if (!out->steps)
        return fail_memory(err);
    for (size_t i = 0; i < count; i++) {
        out->count = i + 1;
        if (read_step(json_array_get(steps, i), i + 1, &out->steps[i], err) < 0) {
            build_plan_done(out);
            return -1;
        }
    }
    return 0;
}

void build_plan_done(struct build_plan *p)
{
    for (size_t i = 0; i < p->count; i++)
        strv_done(&p->steps[i].args);
    free(p->steps);
    *p = (struct build_plan){ 0 };
}

static bool is_part(const char *part, size_t len, const char *what)
{
    return len == strlen(what) && strncmp(part, what, len) == 0;
}

/* Takes the last part off; false: there is none. */
static bool take_off(struct str *path)
{
    const char *slash;

    if (!path->data || path->len == 0)
        return false;
    slash = strrchr(path->data, '/');
    path->len = slash ? (size_t)(slash - path->data) : 0;
    path->data[path->len] = '\0';
    return true;
}

char *build_source(const char *source)
{
    auto_str struct str out = { 0 };

    if (*source == '/')
        return NULL;
    while (*source) {
        size_t len = strcspn(source, "/");
        size_t plain = strcspn(source, SPECIAL);

        if (plain < len) /* a pattern: what it matches lies in what is before it */
            break;
        if (is_part(source, len, "..") && !take_off(&out))
            return NULL;
        if (len > 0 && !is_part(source, len, ".") && !is_part(source, len, ".."))
            str_printf(&out, "%s%.*s", out.len ? "/" : "", (int)len, source);
        source += len + (source[len] == '/');
    }
    if (out.len == 0 && !out.failed) {
        str_done(&out);
        out = (struct str){ 0 };
        str_puts(&out, ".");
    }
    return str_take(&out);
}
