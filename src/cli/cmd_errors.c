/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/fail.h"
#include "base/json.h"
#include "base/text.h"
#include "cli/cli.h"
#include "cli/print.h"
#include "settings/settings.h"

#define KNOWN_MAX 512

static void auto_preset_(struct preset **p)
{
    preset_free(*p);
}
#define auto_preset __attribute__((cleanup(auto_preset_)))

/* "cap" and "vial-cap" mean VIAL-CAP. */
static bool is_meant(const char *word, const char *code)
{
    return strcasecmp(word, code) == 0 || strcasecmp(word, code + strlen("VIAL-")) == 0;
}

static const char *meaning_of(const char *code)
{
    const char *known = NULL;
    const char *meaning = NULL;

    for (unsigned i = 0; (known = vial_error_code(i, &meaning)); i++)
        if (strcmp(known, code) == 0)
            return meaning;
    return "";
}

/* Returns the keys of MAP whose value is CODE. */
static json_t *keys_to(json_t *map, const char *code)
{
    json_t *list = json_array();

    for (void *at = json_object_iter(map); at; at = json_object_iter_next(map, at))
        if (strcmp(json_string_value(json_object_iter_value(at)), code) == 0)
            (void)json_array_append_new(list, json_string(json_object_iter_key(at)));
    return list;
}

static json_t *describe(const struct preset *p, const char *code)
{
    json_t *known = json_object_get(preset_get(p, "codes"), code);

    return json_pack("{s:s, s:s, s:O?, s:O?, s:o, s:o}", "code", code, "preset",
                     preset_name(p), "meaning", json_object_get(known, "meaning"),
                     "remedy", json_object_get(known, "remedy"), "errors",
                     keys_to(preset_get(p, "errors"), code), "verdicts",
                     keys_to(preset_get(p, "verdicts"), code));
}

static bool is_listed(json_t *list, const char *code)
{
    size_t i;
    json_t *entry;

    json_array_foreach(list, i, entry)
    {
        if (strcmp(json_string_value(json_object_get(entry, "code")), code) == 0)
            return true;
    }
    return false;
}

/* Every code of P that WORD means (NULL: any), in the order of its tables. */
static void add_preset(json_t *list, const struct preset *p, const char *word)
{
    static const char *const tables[] = { "errors", "verdicts" };

    for (size_t i = 0; i < sizeof(tables) / sizeof(*tables); i++) {
        json_t *map = preset_get(p, tables[i]);

        for (void *at = json_object_iter(map); at;
             at = json_object_iter_next(map, at)) {
            const char *code = json_string_value(json_object_iter_value(at));

            if ((!word || strcasecmp(word, code) == 0) && !is_listed(list, code))
                (void)json_array_append_new(list, describe(p, code));
        }
    }
}

static int open_preset(const char *name, struct preset **out, struct vial_error *err)
{
    const struct settings_sources from = { .preset = name, .environ_ = environ };

    return settings_find_preset(&from, out, err);
}

/* The codes of the preset in force; a code that is asked for, of any preset. */
static int add_presets(const struct cli *cli, const char *word, json_t *list,
                       struct vial_error *err)
{
    auto_preset struct preset *mine = NULL;
    auto_free char *names = strdup(VIAL_PRESETS);
    char *rest = NULL;

    if (!names)
        return fail_memory(err);
    if (open_preset(cli_flag(cli, "preset"), &mine, err) < 0)
        return -1;
    if (mine)
        add_preset(list, mine, word);
    for (char *name = strtok_r(names, "|", &rest); word && name;
         name = strtok_r(NULL, "|", &rest)) {
        auto_preset struct preset *p = NULL;

        if (json_array_size(list) == 0 && open_preset(name, &p, err) == 0)
            add_preset(list, p, word);
    }
    return 0;
}

static int refuse(const struct cli *cli, const char *word)
{
    const char *known[KNOWN_MAX + 1] = { 0 };
    struct vial_error err = { 0 };
    const char *near;

    for (unsigned i = 0; i < KNOWN_MAX && (known[i] = vial_error_code(i, NULL)); i++)
        ;
    near = text_suggest(word, known);
    (void)fail(&err, VIAL_E_VALUE, "there is no error code '%s'", word);
    if (near)
        (void)fail_remedy(&err, "did you mean '%s'?", near);
    else
        (void)fail_remedy(&err, "'vial errors' lists them");
    return cli_fail(cli, &err);
}

static void add_own(json_t *list, const char *word)
{
    const char *meaning = NULL;
    const char *code = NULL;

    for (unsigned i = 0; (code = vial_error_code(i, &meaning)); i++)
        if (!word || is_meant(word, code))
            (void)json_array_append_new(
                list, json_pack("{s:s, s:s}", "code", code, "meaning", meaning));
}

/* Tells what leads to a preset's code, and what to do then. */
static void explain(struct table *t, json_t *entry)
{
    const char *remedy = json_string_value(json_object_get(entry, "remedy"));
    json_t *item;
    size_t i;

    json_array_foreach(json_object_get(entry, "errors"), i, item)
    {
        table_add(t, "");
        table_add(t, json_string_value(item));
        table_add(t, meaning_of(json_string_value(item)));
    }
    json_array_foreach(json_object_get(entry, "verdicts"), i, item)
    {
        table_add(t, "");
        table_add(t, json_string_value(item));
        table_add(t, "A run's verdict.");
    }
    if (!remedy)
        return;
    table_add(t, "");
    table_add(t, "fix");
    table_add(t, remedy);
}

static int print(json_t *list, bool whole)
{
    struct table t = { .columns = whole ? 3 : 2 };
    json_t *entry;
    size_t i;

    json_array_foreach(list, i, entry)
    {
        const char *meaning = json_string_value(json_object_get(entry, "meaning"));
        const char *preset = json_string_value(json_object_get(entry, "preset"));

        table_add(&t, json_string_value(json_object_get(entry, "code")));
        if (whole)
            table_add(&t, preset ? preset : "vial");
        table_add(&t, meaning ? meaning : "");
        if (whole)
            explain(&t, entry);
    }
    return table_print(&t);
}

static int run(struct cli *cli)
{
    const char *word = cli_operand(cli, 0);
    auto_json json_t *list = json_array();
    struct vial_error err = { 0 };

    add_own(list, word);
    if ((!word || json_array_size(list) == 0) && add_presets(cli, word, list, &err) < 0)
        return cli_fail(cli, &err);
    if (json_array_size(list) == 0)
        return refuse(cli, word);
    if (cli_flag(cli, "json"))
        return print_json(json_incref(list));
    return print(list, word && json_object_get(json_array_get(list, 0), "preset"));
}

static const struct flag flags[] = {
    FLAG_ROW_JSON,
    { 0 },
};

extern const struct command command_errors;
const struct command command_errors = {
    .name = "errors",
    .operands = "[CODE]",
    .summary = "list the error codes and what they mean",
    .text =
        "With a preset its own codes as well. A preset's code is told with the errors and\n"
        "verdicts of vial that lead to it, and what to do.",
    .examples = "vial errors\n"
                "vial errors VIAL-CAP\n"
                "vial errors ACODE-SBX-003",
    .flags = flags,
    .max_operands = 1,
    .run = run,
};
