/* SPDX-License-Identifier: Apache-2.0 */

/* The YAML spelling: each key becomes instructions, in the order of a fixed table. */
#include <stdio.h>
#include <string.h>

#include "base/auto.h"
#include "base/fail.h"
#include "base/json.h"
#include "images/image_config.h"
#include "model/members.h"
#include "template/template.h"
#include "template/words.h"

#define PACKAGE_LETTERS                                                                \
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._+~:=<>!@/[],-"
#define REACH_LETTERS                                                                  \
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.:*_-"

struct keys {
    const char *from, *workdir, *user;
    json_t *apt, *pip, *npm, *copy, *run, *cmd, *env, *network, *imports;
    int64_t pool;
};

struct source {
    const char *text;
    size_t len;
    struct template *t;
    struct vial_error *err;
};

/* Of each manager, how it installs what is named behind it, and what it must reach. */
static const struct manager {
    const char *name, *before, *after, *list;
} managers[] = {
    { "apt",
      "export DEBIAN_FRONTEND=noninteractive; apt-get update && "
      "apt-get install -y --no-install-recommends",
      " && rm -rf /var/lib/apt/lists/"
      "*",
      "debian" },
    { "pip",
      "PIP_BREAK_SYSTEM_PACKAGES=1 PIP_ROOT_USER_ACTION=ignore "
      "python3 -m pip install --no-input --no-cache-dir",
      "", "python-packages" },
    { "npm", "npm install -g --no-fund --no-audit", "", "npm" },
};

static int read_keys(json_t *object, struct keys *k, struct vial_error *err)
{
    const struct member packages[] = {
        { "apt", MEMBER_TEXTS, &k->apt },
        { "pip", MEMBER_TEXTS, &k->pip },
        { "npm", MEMBER_TEXTS, &k->npm },
        { 0 },
    };
    const struct member table[] = {
        { "from", MEMBER_TEXT, &k->from, true },
        { "packages", MEMBER_OBJECT, NULL, false, packages },
        { "copy", MEMBER_TEXTS, &k->copy },
        { "run", MEMBER_ANY, &k->run },
        { "env", MEMBER_WORDS, &k->env },
        { "workdir", MEMBER_TEXT, &k->workdir },
        { "user", MEMBER_TEXT, &k->user },
        { "cmd", MEMBER_ANY, &k->cmd },
        { "network", MEMBER_TEXTS, &k->network },
        { "imports", MEMBER_TEXTS, &k->imports },
        { "pool", MEMBER_COUNT, &k->pool },
        { 0 },
    };

    if (json_object_get(object, "start")) {
        (void)fail(err, VIAL_E_UNSUPPORTED,
                   "key 'start' is not supported yet: no vessel begins with a program "
                   "that has run");
        return fail_remedy(err, "start it by the first exec of a session");
    }
    return members_read(object, table, "template", err);
}

static int add(const struct source *s, const char *path, const char *word,
               const char *text)
{
    return template_add(s->t, word, text, yaml_line(s->text, s->len, path), s->err);
}

static int add_one(const struct source *s, const char *key, const char *word,
                   const char *value)
{
    auto_str struct str text = { 0 };

    if (!value)
        return 0;
    words_quote(&text, value);
    return str_ok(&text) ? add(s, key, word, text.data) : fail_memory(s->err);
}

/* Variables in values are replaced, as ENV does it. */
static int add_env(const struct source *s, json_t *env)
{
    const char *name = NULL;
    json_t *value = NULL;

    json_object_foreach(env, name, value)
    {
        auto_str struct str text = { 0 };
        char path[256];

        str_printf(&text, "%s=\"", name);
        for (const char *c = json_string_value(value); *c; c++)
            str_printf(&text, *c == '"' || *c == '\\' ? "\\%c" : "%c", *c);
        str_putc(&text, '"');
        (void)snprintf(path, sizeof(path), "env/%s", name);
        if (!str_ok(&text))
            return fail_memory(s->err);
        if (add(s, path, "ENV", text.data) < 0)
            return -1;
    }
    return 0;
}

static int add_names(const struct source *s, const struct manager *m, json_t *names,
                     struct str *out)
{
    json_t *name = NULL;
    size_t i = 0;

    json_array_foreach(names, i, name)
    {
        const char *text = json_string_value(name);

        if (!*text || text[0] == '-' || text[strspn(text, PACKAGE_LETTERS)])
            return fail(s->err, VIAL_E_TEMPLATE, "line %u: '%.60s' names no package",
                        yaml_line(s->text, s->len, "packages"), text);
        str_printf(out, " '%s'", text);
    }
    str_puts(out, m->after);
    return str_ok(out) ? 0 : fail_memory(s->err);
}

static int add_packages(const struct source *s, const struct manager *m, json_t *names)
{
    auto_str struct str text = { 0 };
    char path[32];

    if (json_array_size(names) == 0)
        return 0;
    str_puts(&text, m->before);
    if (add_names(s, m, names, &text) < 0)
        return -1;
    strv_push(&s->t->allow, m->list);
    (void)snprintf(path, sizeof(path), "packages/%s", m->name);
    return add(s, path, "RUN", text.data);
}

/* A line for a shell, or a list of words. */
static int add_program(const struct source *s, const char *path, const char *word,
                       json_t *program)
{
    auto_free char *list =
        json_is_array(program) ? json_dumps(program, JSON_COMPACT) : NULL;
    const char *text = list ? list : json_string_value(program);

    if (!text)
        return fail(s->err, VIAL_E_TEMPLATE,
                    "line %u: it is neither a line for a shell nor a list of words",
                    yaml_line(s->text, s->len, path));
    return add(s, path, word, text);
}

static int add_list(const struct source *s, const char *key, const char *word,
                    json_t *list)
{
    json_t *item = NULL;
    size_t i = 0;

    if (list && !json_is_array(list))
        return add_program(s, key, word, list);
    json_array_foreach(list, i, item)
    {
        char path[48];

        (void)snprintf(path, sizeof(path), "%s/%zu", key, i);
        if (add_program(s, path, word, item) < 0)
            return -1;
    }
    return 0;
}

static int add_texts(struct strv *out, json_t *texts, struct vial_error *err)
{
    json_t *text = NULL;
    size_t i = 0;

    json_array_foreach(texts, i, text)
    {
        strv_push(out, json_string_value(text));
    }
    return out->failed ? fail_memory(err) : 0;
}

/* They are shown as flags that can be copied: so nothing else than names. */
static int add_wanted(const struct source *s, json_t *names)
{
    struct strv *wanted = &s->t->wanted;

    if (add_texts(wanted, names, s->err) < 0)
        return -1;
    for (size_t i = 0; i < wanted->count; i++) {
        const char *name = wanted->items[i];

        if (!*name || name[0] == '-' || name[strspn(name, REACH_LETTERS)])
            return fail(s->err, VIAL_E_TEMPLATE, "line %u: '%.60s' cannot be reached",
                        yaml_line(s->text, s->len, "network"), name);
    }
    return 0;
}

static int add_warmth(const struct source *s, const struct keys *k)
{
    if (k->pool > CONFIG_POOL)
        return fail(s->err, VIAL_E_TEMPLATE, "line %u: pool is at most %d",
                    yaml_line(s->text, s->len, "pool"), CONFIG_POOL);
    s->t->pool = (unsigned)k->pool;
    if (add_texts(&s->t->imports, k->imports, s->err) < 0)
        return -1;
    for (size_t i = 0; i < s->t->imports.count; i++)
        if (i >= CONFIG_IMPORTS || !config_is_module(s->t->imports.items[i]))
            return fail(s->err, VIAL_E_TEMPLATE,
                        "line %u: '%.60s' is not a module's name, or one too many",
                        yaml_line(s->text, s->len, "imports"), s->t->imports.items[i]);
    return 0;
}

static int add_all(const struct source *s, const struct keys *k)
{
    json_t *const packages[] = { k->apt, k->pip, k->npm };

    if (add(s, "from", "FROM", k->from) < 0 || add_env(s, k->env) < 0)
        return -1;
    for (size_t i = 0; i < sizeof(managers) / sizeof(*managers); i++)
        if (add_packages(s, &managers[i], packages[i]) < 0)
            return -1;
    if (add_one(s, "workdir", "WORKDIR", k->workdir) < 0 ||
        add_list(s, "copy", "COPY", k->copy) < 0 ||
        add_list(s, "run", "RUN", k->run) < 0 ||
        add_one(s, "user", "USER", k->user) < 0 ||
        (k->cmd && add_program(s, "cmd", "CMD", k->cmd) < 0))
        return -1;
    return add_wanted(s, k->network) < 0 ? -1 : add_warmth(s, k);
}

int template_parse_yaml(const char *text, size_t len, const char *name,
                        struct template *out, struct vial_error *err)
{
    const struct source s = { .text = text, .len = len, .t = out, .err = err };
    auto_json json_t *object = NULL;
    struct keys k = { 0 };

    if (yaml_parse(text, len, name, &object, err) < 0)
        return -1;
    if (!json_is_object(object))
        return fail(err, VIAL_E_TEMPLATE, "it is not a list of keys");
    if (read_keys(object, &k, err) < 0)
        return -1;
    return add_all(&s, &k);
}
