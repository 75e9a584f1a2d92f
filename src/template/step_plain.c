/* SPDX-License-Identifier: Apache-2.0 */

/* Instructions that need no vessel, or none that is saved: what they say is remembered
 * for the steps that follow, and for the image's config. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/fail.h"
#include "base/json.h"
#include "base/path.h"
#include "template/build_state.h"
#include "template/words.h"

int build_put(struct strv *list, const char *pair, struct vial_error *err)
{
    size_t len = strcspn(pair, "=") + 1;

    for (size_t i = 0; i < list->count; i++)
        if (strncmp(list->items[i], pair, len) == 0) {
            char *copy = strdup(pair);

            if (!copy)
                return fail_memory(err);
            free(list->items[i]);
            list->items[i] = copy;
            return 0;
        }
    strv_push(list, pair);
    return list->failed ? fail_memory(err) : 0;
}

void build_variables(const struct build *b, struct strv *out)
{
    strv_copy(out, &b->args);
    for (size_t i = 0; i < b->env.count; i++)
        if (build_put(out, b->env.items[i], NULL) < 0)
            out->failed = true;
}

char *build_expand(const struct build *b, const char *text, struct vial_error *err)
{
    auto_strv struct strv variables = { 0 };

    build_variables(b, &variables);
    return words_expand(text, &variables, err);
}

/* "a/./b//" as "a/b"; NULL: it has "..", or there is no memory. */
char *build_path(const struct build *b, const char *path, struct vial_error *err)
{
    const char *under = path[0] == '/' || !b->cwd ? "" : b->cwd;
    auto_str struct str whole = { 0 };
    auto_str struct str clean = { 0 };
    char *rest = NULL;

    str_printf(&whole, "%s/%s", under, path);
    if (!str_ok(&whole)) {
        (void)fail_memory(err);
        return NULL;
    }
    rest = whole.data;
    for (char *part = strsep(&rest, "/"); part; part = strsep(&rest, "/"))
        if (*part && strcmp(part, ".") != 0)
            str_printf(&clean, "/%s", part);
    if (clean.len == 0)
        str_putc(&clean, '/');
    if (!clean.failed && !path_is_clean_absolute(clean.data)) {
        (void)fail(err, VIAL_E_TEMPLATE, "'%s' is no plain path", path);
        return NULL;
    }
    return str_take(&clean);
}

/* What variables have made of a pair may be none. */
static int check_pair(const char *pair, struct vial_error *err)
{
    size_t len = strcspn(pair, "=");

    return pair[len] && words_is_name(pair, len)
               ? 0
               : fail(err, VIAL_E_TEMPLATE, "'%.60s' is not NAME=VALUE", pair);
}

static int do_arg(struct build *b, const struct template_step *step,
                  struct vial_error *err)
{
    auto_free char *text = build_expand(b, step->text, err);
    size_t len = text ? strcspn(text, "=") : 0;
    const char *given = text ? words_lookup(b->order->args, text, len) : NULL;
    auto_str struct str pair = { 0 };

    if (!text)
        return -1;
    if (!given && !text[len]) /* neither a default nor a value */
        return 0;
    str_printf(&pair, "%.*s=%s", (int)len, text, given ? given : text + len + 1);
    if (!str_ok(&pair))
        return fail_memory(err);
    return check_pair(pair.data, err) < 0 ? -1 : build_put(&b->args, pair.data, err);
}

/* NAME=VALUE …, or NAME VALUE, to PUT one by one. */
static int each_pair(struct build *b, const struct template_step *step,
                     int (*put)(struct build *b, const char *pair,
                                struct vial_error *err),
                     struct vial_error *err)
{
    auto_strv struct strv variables = { 0 };
    auto_strv struct strv words = { 0 };
    auto_str struct str pair = { 0 };
    size_t len = strcspn(step->text, " \t=");

    build_variables(b, &variables);
    if (step->text[len] != '=' && step->text[len]) {
        auto_free char *value = words_expand(
            step->text + len + strspn(step->text + len, " \t"), &variables, err);

        str_printf(&pair, "%.*s=%s", (int)len, step->text, value ? value : "");
        return !value ? -1 : str_ok(&pair) ? put(b, pair.data, err) : fail_memory(err);
    }
    if (words_split(step->text, &variables, &words, err) < 0)
        return -1;
    for (size_t i = 0; i < words.count; i++)
        if (put(b, words.items[i], err) < 0)
            return -1;
    return 0;
}

static int put_env(struct build *b, const char *pair, struct vial_error *err)
{
    return check_pair(pair, err) < 0 ? -1 : build_put(&b->env, pair, err);
}

json_t *build_member(json_t *object, const char *key)
{
    if (!json_object_get(object, key))
        (void)json_object_set_new(object, key, json_object());
    return json_object_get(object, key);
}

static int put_label(struct build *b, const char *pair, struct vial_error *err)
{
    size_t len = strcspn(pair, "=");
    auto_free char *key = strndup(pair, len);

    if (!key)
        return fail_memory(err);
    if (str_starts(key, "vial."))
        return fail(err, VIAL_E_TEMPLATE, "labels 'vial.…' are vial's own");
    (void)json_object_set_new(build_member(b->config, "Labels"), key,
                              json_string(pair[len] ? pair + len + 1 : ""));
    return 0;
}

static int do_expose(struct build *b, const struct template_step *step,
                     struct vial_error *err)
{
    auto_strv struct strv ports = { 0 };

    if (words_split(step->text, NULL, &ports, err) < 0)
        return -1;
    for (size_t i = 0; i < ports.count; i++) {
        char key[32];

        (void)snprintf(key, sizeof(key), "%.20s%s", ports.items[i],
                       strchr(ports.items[i], '/') ? "" : "/tcp");
        (void)json_object_set_new(build_member(b->config, "ExposedPorts"), key,
                                  json_object());
    }
    return 0;
}

static int do_program(struct build *b, const struct template_step *step)
{
    const char *key = step->kind == TEMPLATE_CMD ? "Cmd" : "Entrypoint";
    bool shell = step->words.count == 0 && strcmp(step->text, "[]") != 0;
    json_t *words =
        shell ? json_pack("[s, s, s]", "/bin/sh", "-c", step->text) : json_array();

    for (size_t i = 0; i < step->words.count; i++)
        (void)json_array_append_new(words, json_string(step->words.items[i]));
    (void)json_object_set_new(b->config, key, words);
    if (step->kind == TEMPLATE_ENTRYPOINT && !json_object_get(b->config, "Cmd"))
        (void)json_object_set_new(b->config, "Cmd", json_null()); /* the base's is for
                                                                     its own */
    return 0;
}

static bool is_number(const char *text, size_t len)
{
    return len > 0 && len < 6 && strspn(text, "0123456789") >= len;
}

/* NAME's numbers, as the image has them. */
static int look_up(struct build *b, const char *name, struct vial_error *err)
{
    const char *const argv[] = { "/bin/sh", "-c", "id -u -- \"$1\" && id -g -- \"$1\"",
                                 "sh",      name, NULL };
    auto_session struct vial_session *s = NULL;
    auto_str struct str said = { 0 };
    unsigned uid = 0;
    unsigned gid = 0;

    if (step_open(b, &s, err) < 0)
        return -1;
    if (step_run(b, s, argv, "", &said, err) < 0 && !fail_is(err, VIAL_E_TEMPLATE))
        return -1;
    if (!said.data || !str_ok(&said) ||
        sscanf(said.data, "%5u\n%5u", &uid, &gid) != 2) {
        (void)fail(err, VIAL_E_TEMPLATE, "the image has no user '%.60s'", name);
        return fail_remedy(err, "make it before: 'RUN useradd %.60s'", name);
    }
    (void)snprintf(b->user, sizeof(b->user), "%u:%u", uid, gid);
    return 0;
}

static int do_user(struct build *b, const struct template_step *step,
                   struct vial_error *err)
{
    auto_free char *user = build_expand(b, step->text, err);
    size_t len = user ? strcspn(user, ":") : 0;
    const char *group = user && user[len] ? user + len + 1 : NULL;

    if (!user)
        return -1;
    if (str_eq(user, "root") || str_eq(user, "0") || str_eq(user, "0:0")) {
        b->user[0] = '\0';
        return 0;
    }
    if (is_number(user, len) && (!group || is_number(group, strlen(group)))) {
        (void)snprintf(b->user, sizeof(b->user), "%.*s:%s", (int)len, user,
                       group ? group : user);
        return 0;
    }
    if (group || !len || user[0] == '-')
        return fail(err, VIAL_E_TEMPLATE, "'%.60s' is neither NAME nor UID[:GID]",
                    user);
    return look_up(b, user, err);
}

static int do_workdir(struct build *b, const struct template_step *step,
                      struct vial_error *err)
{
    auto_free char *text = build_expand(b, step->text, err);
    char *path = text ? build_path(b, text, err) : NULL;

    if (!path)
        return -1;
    free(b->cwd);
    b->cwd = path;
    return 0;
}

/* What needs no vessel, or none that is saved. */
int step_plain(struct build *b, const struct template_step *step,
               struct vial_error *err)
{
    switch (step->kind) {
    case TEMPLATE_ARG:
        return do_arg(b, step, err);
    case TEMPLATE_ENV:
        return each_pair(b, step, put_env, err);
    case TEMPLATE_LABEL:
        return each_pair(b, step, put_label, err);
    case TEMPLATE_EXPOSE:
        return do_expose(b, step, err);
    case TEMPLATE_USER:
        return do_user(b, step, err);
    case TEMPLATE_CMD:
    case TEMPLATE_ENTRYPOINT:
        return do_program(b, step);
    case TEMPLATE_WORKDIR:
        return do_workdir(b, step, err);
    case TEMPLATE_RUN:
    case TEMPLATE_COPY:
        break;
    }
    return 0;
}
