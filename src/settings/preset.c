/* SPDX-License-Identifier: Apache-2.0 */
#include "settings/preset.h"

#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/fail.h"
#include "base/str.h"
#include "base/text.h"
#include "model/fields.h"
#include "model/members.h"
#include "model/policy.h"
#include "model/result.h"
#include "settings/blocks.h"

struct preset {
    char *name;
    json_t *block;
};

AUTO(preset, struct preset, preset_free)
#define auto_preset __attribute__((cleanup(auto_preset_)))

static const struct member map_shape[] = {
    { "sets", MEMBER_TEXT },     { "form", MEMBER_TEXT },
    { "percent", MEMBER_BOOL },  { "values", MEMBER_WORDS },
    { "refuses", MEMBER_WORDS }, { "default", MEMBER_TEXT },
    { "when", MEMBER_TEXT },     { 0 },
};

static const struct member config_shape[] = {
    { "file", MEMBER_TEXT },
    { "block", MEMBER_TEXT, .needed = true },
    { "keys", MEMBER_MAP, .needed = true, .inside = map_shape },
    { 0 },
};

static const struct member mount_shape[] = {
    { "source", MEMBER_TEXT, .needed = true },
    { "target", MEMBER_TEXT, .needed = true },
    { "writable", MEMBER_BOOL },
    { "create", MEMBER_BOOL },
    { "optional", MEMBER_BOOL },
    { 0 },
};

static const struct member keep_shape[] = {
    { "alive", MEMBER_BOOL, .needed = true },
    { "executions", MEMBER_COUNT, .needed = true },
    { "idle", MEMBER_TEXT, .needed = true },
    { 0 },
};

static const struct member parameter_shape[] = {
    { "type", MEMBER_TEXT, .needed = true },
    { "description", MEMBER_TEXT, .needed = true },
    { "field", MEMBER_TEXT },
    { "part", MEMBER_TEXT },
    { "form", MEMBER_TEXT },
    { "mode", MEMBER_TEXT },
    { "required", MEMBER_BOOL },
    { "enum", MEMBER_ANY },
    { "minimum", MEMBER_COUNT },
    { "maximum", MEMBER_ANY },
    { "default", MEMBER_ANY },
    { 0 },
};

static const struct member line_shape[] = {
    { "when", MEMBER_TEXT },
    { "show", MEMBER_TEXT, .needed = true },
    { 0 },
};

static const struct member answer_shape[] = {
    { "text", MEMBER_LIST, .needed = true, .inside = line_shape },
    { "characters", MEMBER_BOOL },
    { "share", MEMBER_BOOL },
    { "note", MEMBER_TEXT },
    { "code", MEMBER_TEXT },
    { "status", MEMBER_WORDS },
    { "json", MEMBER_ANY },
    { 0 },
};

static const struct member tool_shape[] = {
    { "title", MEMBER_TEXT, .needed = true },
    { "description", MEMBER_TEXT, .needed = true },
    { "does", MEMBER_TEXT, .needed = true },
    { "keep", MEMBER_BOOL },
    { "repository", MEMBER_BOOL },
    { "set", MEMBER_WORDS },
    { "parameters", MEMBER_MAP, .needed = true, .inside = parameter_shape },
    { "answer", MEMBER_OBJECT, .needed = true, .inside = answer_shape },
    { 0 },
};

static const struct member message_shape[] = {
    { "message", MEMBER_TEXT },
    { "remedy", MEMBER_TEXT },
    { 0 },
};

/* The labels' values for a request that gives none. */
static const struct member labels_shape[] = {
    { "session", MEMBER_TEXT },
    { "task", MEMBER_TEXT },
    { 0 },
};

static const struct member code_shape[] = {
    { "meaning", MEMBER_TEXT, .needed = true },
    { "remedy", MEMBER_TEXT },
    { 0 },
};

static const struct member block_shape[] = {
    { "about", MEMBER_TEXT, .needed = true },
    { "fallback", MEMBER_TEXT },
    { "variables", MEMBER_MAP, .inside = map_shape },
    { "config", MEMBER_OBJECT, .inside = config_shape },
    { "mounts", MEMBER_LIST, .inside = mount_shape },
    { "images", MEMBER_WORDS },
    { "languages", MEMBER_MAP, .inside = map_shape },
    { "keep", MEMBER_OBJECT, .inside = keep_shape },
    { "warm", MEMBER_BOOL },
    { "packages", MEMBER_BOOL },
    { "dotenv", MEMBER_TEXT },
    { "labels", MEMBER_OBJECT, .inside = labels_shape },
    { "commands", MEMBER_WORDS },
    { "codes", MEMBER_MAP, .inside = code_shape },
    { "errors", MEMBER_WORDS },
    { "verdicts", MEMBER_WORDS },
    { "messages", MEMBER_MAP, .inside = message_shape },
    { "tools", MEMBER_MAP, .inside = tool_shape },
    { 0 },
};

static bool is_one_of(const char *const *list, const char *text)
{
    for (; *list; list++)
        if (strcmp(*list, text) == 0)
            return true;
    return false;
}

static const char *text_of(json_t *object, const char *key)
{
    return json_string_value(json_object_get(object, key));
}

static bool is_setting(const char *name)
{
    const struct field *f = field_find(name);

    return f && (f->scope & FIELD_IN_SETTINGS);
}

/* Whether there is a place of that name for a value to go. */
static bool is_target(const char *sets)
{
    static const char *const others[] = { "keep.alive", "keep.executions", "keep.idle",
                                          "languages",  "engine",          NULL };

    if (str_starts(sets, "policy."))
        return policy_find(sets + strlen("policy.")) >= 0;
    if (str_starts(sets, "serve."))
        return block_find(&block_serve, sets + strlen("serve.")) != NULL;
    return is_setting(sets) || str_starts(sets, "images.") || is_one_of(others, sets);
}

static int check_map(const char *name, json_t *map, struct vial_error *err)
{
    const char *sets = text_of(map, "sets");
    const char *form = text_of(map, "form");

    if (sets && !is_target(sets))
        return fail(err, VIAL_E_VALUE, "%s sets '%s', which does not exist", name,
                    sets);
    if (form && !strstr(form, "{}"))
        return fail(err, VIAL_E_VALUE, "%s has a form without '{}'", name);
    return 0;
}

static int check_maps(json_t *maps, struct vial_error *err)
{
    for (void *at = json_object_iter(maps); at; at = json_object_iter_next(maps, at))
        if (check_map(json_object_iter_key(at), json_object_iter_value(at), err) < 0)
            return -1;
    return 0;
}

static bool is_code(const char *code)
{
    const char *known = NULL;

    for (unsigned i = 0; (known = vial_error_code(i, NULL)); i++)
        if (strcmp(known, code) == 0)
            return true;
    return false;
}

static int check_codes(const struct preset *p, struct vial_error *err)
{
    json_t *errors = preset_get(p, "errors");
    json_t *verdicts = preset_get(p, "verdicts");

    for (void *at = json_object_iter(errors); at;
         at = json_object_iter_next(errors, at))
        if (!is_code(json_object_iter_key(at)))
            return fail(err, VIAL_E_VALUE, "errors: there is no code '%s'",
                        json_object_iter_key(at));
    for (void *at = json_object_iter(verdicts); at;
         at = json_object_iter_next(verdicts, at))
        if (!is_one_of(result_verdicts, json_object_iter_key(at)))
            return fail(err, VIAL_E_VALUE, "verdicts: there is no verdict '%s'",
                        json_object_iter_key(at));
    return 0;
}

static int check_labels(const struct preset *p, struct vial_error *err)
{
    json_t *labels = preset_get(p, "labels");
    const char *session = text_of(labels, "session");
    const char *task = text_of(labels, "task");

    if ((session && strcmp(session, "repository") != 0) ||
        (task && strcmp(task, "unique") != 0))
        return fail(err, VIAL_E_VALUE,
                    "labels: session is 'repository', task is 'unique'");
    return 0;
}

/* "{name}" in texts: each must be one of NAMES. */
static int check_holes(const char *text, const char *const *names,
                       struct vial_error *err)
{
    for (const char *at = text; (at = strchr(at, '{')); at++) {
        auto_str struct str name = { 0 };

        str_add(&name, at + 1, strcspn(at + 1, "}"));
        if (!str_ok(&name))
            return fail_memory(err);
        if (!is_one_of(names, name.data ? name.data : ""))
            return fail(err, VIAL_E_VALUE, "there is nothing that '{%s}' stands for",
                        name.data ? name.data : "");
    }
    return 0;
}

/* A description repeats settings by name: mcp/settings_text.c tells them. */
static int check_description(json_t *described, struct vial_error *err)
{
    static const char *const settings[] = { "timeout",
                                            "max_timeout",
                                            "memory",
                                            "cpus",
                                            "pids",
                                            "disk",
                                            "tmp",
                                            "network",
                                            "networks",
                                            "output",
                                            "characters",
                                            "workspace_at",
                                            "workspace_mode",
                                            "idle",
                                            "lease",
                                            "executions",
                                            NULL };

    return check_holes(text_of(described, "description"), settings, err);
}

static int check_parameters(json_t *parameters, struct vial_error *err)
{
    static const char *const parts[] = { "shell", "id", "path", "content", NULL };
    static const char *const types[] = { "string",  "integer", "number",
                                         "boolean", "array",   NULL };

    for (void *at = json_object_iter(parameters); at;
         at = json_object_iter_next(parameters, at)) {
        json_t *one = json_object_iter_value(at);
        const char *field = text_of(one, "field");
        const char *part = text_of(one, "part");

        if ((field != NULL) == (part != NULL) || (field && !field_find(field)) ||
            (part && !is_one_of(parts, part)))
            return fail(err, VIAL_E_VALUE, "parameter '%s' goes nowhere",
                        json_object_iter_key(at));
        if (!is_one_of(types, text_of(one, "type")))
            return fail(err, VIAL_E_VALUE, "parameter '%s' has an unknown type",
                        json_object_iter_key(at));
        if (check_description(one, err) < 0)
            return fail_in(err, "parameter '%s'", json_object_iter_key(at));
    }
    return 0;
}

/* Judges an answer's lines. mcp/preset_answer.c says what they can name. */
static int check_answer(json_t *answer, struct vial_error *err)
{
    static const char *const flags[] = { "stdout", "stderr",  "truncated", "error",
                                         "remedy", "code",    "id",        "done",
                                         "silent", "network", "fallback",  "renewed",
                                         NULL };
    static const char *const values[] = {
        "stdout",  "stderr",  "truncated", "exit_code", "signal",
        "verdict", "status",  "error",     "code",      "remedy",
        "driver",  "level",   "image",     "duration",  "duration_ms",
        "timeout", "done",    "timed_out", "id",        "list",
        "items",   "removed", "limit",     "container", "network_refused",
        "warning", "renewed", "files",     "reason",    NULL
    };
    json_t *line = NULL;
    size_t i = 0;

    json_array_foreach(json_object_get(answer, "text"), i, line)
    {
        const char *when = text_of(line, "when");

        if (when && !is_one_of(flags, when) && !is_one_of(result_verdicts, when))
            return fail(err, VIAL_E_VALUE, "nothing happens 'when: %s'", when);
        if (check_holes(text_of(line, "show"), values, err) < 0)
            return -1;
    }
    return 0;
}

static int check_tool(json_t *tool, struct vial_error *err)
{
    static const char *const verbs[] = { "run",  "open",  "exec",    "read",    "write",
                                         "list", "close", "vessels", "cleanup", NULL };
    json_t *set = json_object_get(tool, "set");

    if (!is_one_of(verbs, text_of(tool, "does")))
        return fail(err, VIAL_E_VALUE, "'%s' is nothing that a tool does",
                    text_of(tool, "does"));
    for (void *at = json_object_iter(set); at; at = json_object_iter_next(set, at))
        if (!field_find(json_object_iter_key(at)))
            return fail(err, VIAL_E_VALUE, "set: there is no field '%s'",
                        json_object_iter_key(at));
    if (check_description(tool, err) < 0)
        return fail_in(err, "description");
    if (check_answer(json_object_get(tool, "answer"), err) < 0)
        return fail_in(err, "answer");
    return check_parameters(json_object_get(tool, "parameters"), err);
}

static int check_tools(json_t *tools, struct vial_error *err)
{
    for (void *at = json_object_iter(tools); at; at = json_object_iter_next(tools, at))
        if (check_tool(json_object_iter_value(at), err) < 0)
            return fail_in(err, "tool '%s'", json_object_iter_key(at));
    return 0;
}

static int judge(const struct preset *p, struct vial_error *err)
{
    if (check_maps(preset_get(p, "variables"), err) < 0 ||
        check_maps(preset_get(p, "languages"), err) < 0 ||
        check_maps(json_object_get(preset_get(p, "config"), "keys"), err) < 0 ||
        check_codes(p, err) < 0 || check_labels(p, err) < 0 ||
        check_tools(preset_get(p, "tools"), err) < 0)
        return fail_in(err, "preset %s", p->name);
    return 0;
}

int preset_new(const char *name, json_t *block, struct preset **out,
               struct vial_error *err)
{
    auto_preset struct preset *p = calloc(1, sizeof(*p));
    auto_str struct str where = { 0 };

    if (!p)
        return fail_memory(err);
    p->name = strdup(name);
    p->block = block ? json_incref(block) : json_object();
    str_printf(&where, "preset %s", name);
    if (!p->name || !p->block || !str_ok(&where))
        return fail_memory(err);
    if ((block && members_read(block, block_shape, where.data, err) < 0) ||
        judge(p, err) < 0)
        return -1;
    *out = ptr_take(&p);
    return 0;
}

void preset_free(struct preset *p)
{
    if (!p)
        return;
    json_decref(p->block);
    free(p->name);
    free(p);
}

const char *preset_name(const struct preset *p)
{
    return p->name;
}

json_t *preset_json(const struct preset *p)
{
    json_t *copy = p ? json_copy(p->block) : json_null();

    if (p && (!copy || json_object_set_new(copy, "name", json_string(p->name)) < 0)) {
        json_decref(copy);
        return NULL;
    }
    return copy;
}

json_t *preset_get(const struct preset *p, const char *key)
{
    return p ? json_object_get(p->block, key) : NULL;
}

const char *preset_code(const struct preset *p, const char *code, const char *verdict)
{
    const char *own = code ? text_of(preset_get(p, "errors"), code) : NULL;

    if (own || !verdict)
        return own;
    return text_of(preset_get(p, "verdicts"), verdict);
}

void preset_reword(const struct preset *p, struct vial_error *err)
{
    json_t *ours = json_object_get(preset_get(p, "messages"), err->code);
    const char *message = text_of(ours, "message");
    const char *remedy = text_of(ours, "remedy");

    if (message)
        (void)fail_in(err, "%s", message);
    if (remedy)
        (void)fail_remedy(err, "%s", remedy);
}

/* How many of WORDS the blank-separated PATTERN takes; 0: it does not fit. */
static size_t fits(const char *pattern, char *const *words)
{
    size_t count = 0;

    while (*pattern) {
        size_t len = strcspn(pattern, " ");

        if (!words[count] || strlen(words[count]) != len ||
            strncmp(words[count], pattern, len) != 0)
            return 0;
        count++;
        pattern += len + strspn(pattern + len, " ");
    }
    return count;
}

size_t preset_command(const struct preset *p, char *const *words, const char **becomes)
{
    json_t *commands = preset_get(p, "commands");
    size_t best = 0;

    for (void *at = json_object_iter(commands); at;
         at = json_object_iter_next(commands, at)) {
        size_t count = fits(json_object_iter_key(at), words);

        if (count <= best)
            continue;
        best = count;
        *becomes = json_string_value(json_object_iter_value(at));
    }
    return best;
}
