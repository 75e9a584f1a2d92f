/* SPDX-License-Identifier: Apache-2.0 */
#include "base/json.h"

#include <stdio.h>
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

/* Where the text goes beyond a bound, and what it does there; AT is NULL if it does
 * not. */
struct excess {
    const char *at;
    char what[48];
};

/* jansson recurses, and makes of a small value one 60 times as large: so this comes
 * first. It need not care whether the text is JSON otherwise. */
static struct excess find_excess(const char *text, size_t len)
{
    struct excess e = { 0 };
    unsigned depth = 0, values = 1;
    bool quoted = false;

    for (size_t i = 0; i < len && !e.at; i++) {
        char c = text[i];
        bool opens = !quoted && (c == '[' || c == '{');

        if (c == '"')
            quoted = !quoted;
        else if (quoted)
            i += c == '\\';
        else if ((c == ']' || c == '}') && depth > 0)
            depth--;
        depth += opens;
        values += opens || (!quoted && c == ',');
        if (depth > DEPTH_MAX || values > JSON_VALUES_MAX)
            e.at = text + i;
    }
    if (depth > DEPTH_MAX)
        (void)snprintf(e.what, sizeof e.what, "nested deeper than %d", DEPTH_MAX);
    else
        (void)snprintf(e.what, sizeof e.what, "more than %d values", JSON_VALUES_MAX);
    return e;
}

static int fail_excess(const char *text, const struct excess *e, const char *name,
                       struct vial_error *err)
{
    int line = 1, column = 1;

    for (; text < e->at; text++) {
        column = *text == '\n' ? 1 : column + 1;
        line += *text == '\n';
    }
    (void)fail(err, VIAL_E_JSON, "parse '%s': line %d, column %d: %s", name, line,
               column, e->what);
    return fail_remedy(err, "write it flatter and shorter: nothing here needs so much");
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
    struct excess excess = find_excess(text, len);
    json_error_t error;
    json_t *value;

    if (excess.at)
        return fail_excess(text, &excess, name, err);
    value = json_loadb(len > 0 ? text : "", len, flags, &error);
    if (!value)
        return fail_syntax(&error, name, err);
    *out = value;
    return 0;
}
