/* SPDX-License-Identifier: Apache-2.0 */
#include "mcp/remedies.h"

#include <ctype.h>
#include <string.h>

#include "base/fail.h"

#define LANGUAGES "list_languages tells which there are"
#define HOST                                                                           \
    "no argument changes this: tell whoever runs this server, where 'vial doctor' "    \
    "says what is missing"

/* Codes whose own remedy speaks of arguments have none here; codes that are not listed
 * are about the host. */
static const struct {
    enum fail_code code;
    const char *remedy; /* NULL: the error's own */
} rows[] = {
    { VIAL_E_FIELD, NULL },
    { VIAL_E_VALUE, NULL },
    { VIAL_E_PATH, NULL },
    { VIAL_E_FILE, NULL },
    { VIAL_E_NO_FILE, NULL },
    { VIAL_E_OFFSET, NULL },
    { VIAL_E_BUSY, NULL },
    { VIAL_E_RATE, NULL },
    { VIAL_E_CONTEXT, NULL },
    { VIAL_E_CANCELLED, NULL },
    { VIAL_E_CAP, "ask for less" },
    { VIAL_E_POLICY, "do without it: whoever runs this server does not allow it" },
    { VIAL_E_LANGUAGE, LANGUAGES },
    { VIAL_E_INTERPRETER, LANGUAGES },
    { VIAL_E_CWD, "name a directory that is there, or leave out 'cwd'" },
    { VIAL_E_EXEC, "run a program that is there; run_command with 'command -v NAME' "
                   "tells" },
    { VIAL_E_UNSUPPORTED, "do without it: it cannot be had here" },
    { VIAL_E_QUOTA, "delete files that are no longer needed, or write less; a large "
                    "file can be read by its pieces" },
    { VIAL_E_LOST, "try again" },
    { VIAL_E_PAUSED, "somebody paused this sandbox: use another, or ask whoever did" },
    { VIAL_E_SESSION, "sandboxes end when they are idle for long; list_sandboxes tells "
                      "which there are, create_sandbox makes one" },
};

/* People have flags, commands and variables. */
static bool is_for_people(const char *remedy)
{
    static const char *const signs[] = { "--", "'vial ", "`vial ", "VIAL_" };

    for (size_t i = 0; i < sizeof signs / sizeof *signs; i++)
        if (strstr(remedy, signs[i]))
            return true;
    return false;
}

const char *mcp_remedy(const struct vial_error *err)
{
    static const char meant[] = "did you mean";

    if (strncmp(err->remedy, meant, sizeof meant - 1) == 0 ||
        strcmp(err->remedy, TOOL_ALONE) == 0)
        return err->remedy;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (fail_is(err, rows[i].code)) {
            if (rows[i].remedy)
                return rows[i].remedy;
            return is_for_people(err->remedy) ? "" : err->remedy;
        }
    return HOST;
}

/* How long the word is that is said otherwise; 0: TEXT begins with no such word. */
static size_t replaced(const char *text)
{
    static const char *const words[] = { "session", "vessel" };

    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        size_t len = strlen(words[i]);

        if (strncmp(text, words[i], len) == 0)
            return len;
    }
    return 0;
}

void mcp_say_sandbox(struct str *out, const char *text)
{
    bool quoted = false;
    bool begins = true; /* a word */

    while (*text) {
        size_t len = quoted || !begins ? 0 : replaced(text);

        if (len && !isalpha((unsigned char)text[len + (text[len] == 's')])) {
            str_puts(out, text[len] == 's' ? "sandboxes" : "sandbox");
            text += len + (text[len] == 's');
            begins = false;
            continue;
        }
        if (*text == '\'' && (quoted || begins))
            quoted = !quoted;
        begins = !isalnum((unsigned char)*text);
        str_putc(out, *text++);
    }
}
