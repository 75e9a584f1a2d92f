/* SPDX-License-Identifier: Apache-2.0 */
#include "base/json.h"

#include <string.h>
#include <sys/random.h>

#include "base/fail.h"
#include "base/text.h"

#define DEPTH_MAX 64

void json_seed(void)
{
    size_t seed = 0;

    if (getrandom(&seed, sizeof(seed), GRND_NONBLOCK) == (ssize_t)sizeof(seed) && seed)
        json_object_seed(seed);
}

/* Where an over-deep value starts, or NULL. jansson recurses, so this comes
 * first; it need not care whether the text is JSON otherwise. */
static const char *find_too_deep(const char *text, size_t len)
{
    unsigned depth = 0;
    bool quoted = false;

    for (size_t i = 0; i < len; i++) {
        char c = text[i];

        if (c == '"')
            quoted = !quoted;
        else if (quoted)
            i += c == '\\';
        else if ((c == '[' || c == '{') && ++depth > DEPTH_MAX)
            return text + i;
        else if ((c == ']' || c == '}') && depth > 0)
            depth--;
    }
    return NULL;
}

static int fail_depth(const char *text, const char *at, const char *name,
                      struct vial_error *err)
{
    int line = 1, column = 1;

    for (; text < at; text++) {
        column = *text == '\n' ? 1 : column + 1;
        line += *text == '\n';
    }
    (void)fail(err, VIAL_E_JSON,
               "parse '%s': line %d, column %d: nested deeper than %d", name, line,
               column, DEPTH_MAX);
    return fail_remedy(err, "write it flatter: nothing here needs such a depth");
}

/* jansson quotes the input, whose bytes may be anything. */
static int fail_syntax(const json_error_t *error, const char *name,
                       struct vial_error *err)
{
    auto_str struct str why = { 0 };
    struct text_safe safe = { 0 };

    /* Where memory was lacking, jansson often says nothing at all. */
    if (error->text[0] == '\0' || json_error_code(error) == json_error_out_of_memory)
        return fail_memory(err);
    text_safe(&safe, &why, error->text, strlen(error->text));
    text_safe_end(&safe, &why);
    (void)fail(err, VIAL_E_JSON, "parse '%s': line %d, column %d: %s", name,
               error->line < 1 ? 1 : error->line, error->column,
               str_ok(&why) && why.data ? why.data : "not valid JSON");
    return fail_remedy(err, "mend the JSON there; 'vial schema request' has the form");
}

int json_parse(const char *text, size_t len, const char *name, json_t **out,
               struct vial_error *err)
{
    size_t flags = JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL | JSON_DECODE_ANY;
    const char *deep = find_too_deep(text, len);
    json_error_t error;
    json_t *value;

    if (deep)
        return fail_depth(text, deep, name, err);
    value = json_loadb(len > 0 ? text : "", len, flags, &error);
    if (!value)
        return fail_syntax(&error, name, err);
    *out = value;
    return 0;
}
