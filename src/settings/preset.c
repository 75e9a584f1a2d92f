/* SPDX-License-Identifier: Apache-2.0 */
#include "settings/preset.h"

#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/fail.h"
#include "base/str.h"
#include "base/text.h"
#include "model/fields.h"
#include "model/policy.h"
#include "model/result.h"
#include "model/value.h"
#include "settings/serve_settings.h"
#include "settings/yaml_keys.h"

struct preset {
    char *name;
    json_t *block;
};

AUTO(preset, struct preset, preset_free)
#define auto_preset __attribute__((cleanup(auto_preset_)))

static const struct yaml_key map_shape[] = {
    { "sets", YAML_TEXT, false, NULL },     { "form", YAML_TEXT, false, NULL },
    { "percent", YAML_FLAG, false, NULL },  { "values", YAML_WORDS, false, NULL },
    { "refuses", YAML_WORDS, false, NULL }, { "default", YAML_TEXT, false, NULL },
    { "when", YAML_TEXT, false, NULL },     { 0 },
};

static const struct yaml_key config_shape[] = {
    { "file", YAML_TEXT, false, NULL },
    { "block", YAML_TEXT, true, NULL },
    { "keys", YAML_MAP, true, map_shape },
    { 0 },
};

static const struct yaml_key mount_shape[] = {
    { "source", YAML_TEXT, true, NULL },    { "target", YAML_TEXT, true, NULL },
    { "writable", YAML_FLAG, false, NULL }, { "create", YAML_FLAG, false, NULL },
    { "optional", YAML_FLAG, false, NULL }, { 0 },
};

static const struct yaml_key keep_shape[] = {
    { "alive", YAML_FLAG, true, NULL },
    { "executions", YAML_COUNT, true, NULL },
    { "idle", YAML_TEXT, true, NULL },
    { 0 },
};

static const struct yaml_key parameter_shape[] = {
    { "type", YAML_TEXT, true, NULL },      { "description", YAML_TEXT, true, NULL },
    { "field", YAML_TEXT, false, NULL },    { "part", YAML_TEXT, false, NULL },
    { "form", YAML_TEXT, false, NULL },     { "mode", YAML_TEXT, false, NULL },
    { "required", YAML_FLAG, false, NULL }, { "enum", YAML_ANY, false, NULL },
    { "minimum", YAML_COUNT, false, NULL }, { "maximum", YAML_ANY, false, NULL },
    { "default", YAML_ANY, false, NULL },   { 0 },
};

static const struct yaml_key line_shape[] = {
    { "when", YAML_TEXT, false, NULL },
    { "show", YAML_TEXT, true, NULL },
    { 0 },
};

static const struct yaml_key answer_shape[] = {
    { "text", YAML_LIST, true, line_shape }, { "characters", YAML_FLAG, false, NULL },
    { "share", YAML_FLAG, false, NULL },     { "note", YAML_TEXT, false, NULL },
    { "code", YAML_TEXT, false, NULL },      { "status", YAML_WORDS, false, NULL },
    { "json", YAML_ANY, false, NULL },       { 0 },
};

static const struct yaml_key tool_shape[] = {
    { "title", YAML_TEXT, true, NULL },
    { "description", YAML_TEXT, true, NULL },
    { "does", YAML_TEXT, true, NULL },
    { "keep", YAML_FLAG, false, NULL },
    { "repository", YAML_FLAG, false, NULL },
    { "set", YAML_WORDS, false, NULL },
    { "parameters", YAML_MAP, true, parameter_shape },
    { "answer", YAML_OBJECT, true, answer_shape },
    { 0 },
};

static const struct yaml_key message_shape[] = {
    { "message", YAML_TEXT, false, NULL },
    { "remedy", YAML_TEXT, false, NULL },
    { 0 },
};

/* What each is when the request gives none. */
static const struct yaml_key labels_shape[] = {
    { "session", YAML_TEXT, false, NULL },
    { "task", YAML_TEXT, false, NULL },
    { 0 },
};

static const struct yaml_key code_shape[] = {
    { "meaning", YAML_TEXT, true, NULL },
    { "remedy", YAML_TEXT, false, NULL },
    { 0 },
};

static const struct yaml_key block_shape[] = {
    { "about", YAML_TEXT, true, NULL },
    { "fallback", YAML_TEXT, false, NULL },
    { "variables", YAML_MAP, false, map_shape },
    { "config", YAML_OBJECT, false, config_shape },
    { "mounts", YAML_LIST, false, mount_shape },
    { "images", YAML_WORDS, false, NULL },
    { "languages", YAML_MAP, false, map_shape },
    { "keep", YAML_OBJECT, false, keep_shape },
    { "warm", YAML_FLAG, false, NULL },
    { "packages", YAML_FLAG, false, NULL },
    { "dotenv", YAML_TEXT, false, NULL },
    { "labels", YAML_OBJECT, false, labels_shape },
    { "commands", YAML_WORDS, false, NULL },
    { "codes", YAML_MAP, false, code_shape },
    { "errors", YAML_WORDS, false, NULL },
    { "verdicts", YAML_WORDS, false, NULL },
    { "messages", YAML_MAP, false, message_shape },
    { "tools", YAML_MAP, false, tool_shape },
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

static bool is_serve_setting(const char *name)
{
    const struct field *f = NULL;

    for (size_t i = 0; (f = serve_settings_row(i)); i++)
        if (strcmp(f->name, name) == 0)
            return true;
    return false;
}

/* Whether there is a place of that name for a value to go. */
static bool is_target(const char *sets)
{
    static const char *const others[] = { "keep.alive", "keep.executions", "keep.idle",
                                          "languages",  "engine",          NULL };

    if (str_starts(sets, "policy."))
        return policy_find(sets + strlen("policy.")) >= 0;
    if (str_starts(sets, "serve."))
        return is_serve_setting(sets + strlen("serve."));
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

/* What the lines of an answer can name: mcp/preset_answer.c tells it. */
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
    if ((block && yaml_keys_check(block, block_shape, where.data, err) < 0) ||
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
