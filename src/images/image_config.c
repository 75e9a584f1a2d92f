/* SPDX-License-Identifier: Apache-2.0 */
#include "images/image_config.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/fail.h"
#include "base/path.h"
#include "model/field_type.h"

#define ENV_COUNT  256
#define ENV_BYTES  ((size_t)32 << 10) /* of all together */
#define CWD_BYTES  4095
#define VOLUMES    64
#define POSING     64
#define ARGS_COUNT 256
/* With ENV and all else of a vessel they fit into one message (keeper/talk/talk.h). */
#define ARGS_BYTES ((size_t)4 << 10)

static int refuse(const char *image, const char *what, struct vial_error *err)
{
    (void)fail(err, VIAL_E_IMAGE_CONFIG, "image '%s' has %s", image, what);
    return fail_remedy(err, "use another image: '--image NAME'");
}

/* Anything but "=", and nothing that a terminal would obey. */
static bool is_name(const char *text, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if ((unsigned char)text[i] <= ' ' || text[i] == 127)
            return false;
    return len > 0;
}

static int add_env(struct image_config *c, const json_t *entry, const char *image,
                   struct vial_error *err)
{
    const char *text = json_string_value(entry);
    size_t len = text ? strcspn(text, "=") : 0;

    if (!text || strlen(text) != json_string_length(entry) || !text[len] ||
        !is_name(text, len))
        return refuse(image, "an ENV that is not NAME=VALUE", err);
    return field_put_env(&c->env, text, len, text + len + 1) < 0 ? fail_memory(err) : 0;
}

static int read_env(struct image_config *c, json_t *list, const char *image,
                    struct vial_error *err)
{
    size_t bytes = 0;
    json_t *entry = NULL;
    size_t i = 0;

    if (json_array_size(list) > ENV_COUNT)
        return refuse(image, "more ENV than vial takes: 256 variables", err);
    json_array_foreach(list, i, entry)
    {
        bytes += json_string_length(entry) + 1;
        if (bytes > ENV_BYTES)
            return refuse(image, "more ENV than vial takes: 32 KiB", err);
        if (add_env(c, entry, image, err) < 0)
            return -1;
    }
    return 0;
}

/* No way into what the kernel shows of processes and devices. */
static bool is_off_limits(const char *path)
{
    static const char *const off_limits[] = { "/proc", "/sys", "/dev" };

    for (size_t i = 0; i < sizeof(off_limits) / sizeof(*off_limits); i++)
        if (path_is_beneath(path, off_limits[i]))
            return true;
    return false;
}

/* As a request's cwd. */
static int read_cwd(struct image_config *c, const char *cwd, const char *image,
                    struct vial_error *err)
{
    if (!cwd || !*cwd || str_eq(cwd, "/"))
        return 0;
    if (strlen(cwd) > CWD_BYTES || !path_is_clean_absolute(cwd))
        return refuse(image, "a WORKDIR that is not a clean absolute path", err);
    if (is_off_limits(cwd))
        return refuse(image, "a WORKDIR below /proc, /sys or /dev", err);
    c->cwd = strdup(cwd);
    return c->cwd ? 0 : fail_memory(err);
}

/* PATH without slashes at its end, of which engines make nothing. */
static int add_volume(struct image_config *c, const char *path, const char *image,
                      struct vial_error *err)
{
    char clean[CWD_BYTES + 1];
    size_t len = strlen(path);

    while (len > 1 && path[len - 1] == '/')
        len--;
    if (len < 2 || len > CWD_BYTES)
        return refuse(image, "a VOLUME that is not a clean absolute path", err);
    (void)snprintf(clean, sizeof(clean), "%.*s", (int)len, path);
    if (!path_is_clean_absolute(clean))
        return refuse(image, "a VOLUME that is not a clean absolute path", err);
    if (is_off_limits(clean))
        return refuse(image, "a VOLUME below /proc, /sys or /dev", err);
    if (!strv_has(&c->volumes, clean))
        strv_push(&c->volumes, clean);
    return strv_ok(&c->volumes) ? 0 : fail_memory(err);
}

static int read_volumes(struct image_config *c, json_t *volumes, const char *image,
                        struct vial_error *err)
{
    const char *path = NULL;
    json_t *value = NULL;

    if (json_object_size(volumes) > VOLUMES)
        return refuse(image, "more VOLUMEs than vial takes: 64", err);
    json_object_foreach(volumes, path, value)
    {
        if (add_volume(c, path, image, err) < 0)
            return -1;
    }
    return 0;
}

/* As we, or a preset, would label a container. */
static bool is_posing(const char *key)
{
    static const char *const endings[] = { ".managed", ".session", ".task" };
    size_t len = strlen(key);

    if (str_starts(key, "vial."))
        return true;
    for (size_t i = 0; i < sizeof(endings) / sizeof(*endings); i++) {
        size_t tail = strlen(endings[i]);

        if (len > tail && str_eq(key + len - tail, endings[i]))
            return true;
    }
    return false;
}

static int read_labels(struct image_config *c, json_t *labels, const char *image,
                       struct vial_error *err)
{
    const char *key = NULL;
    json_t *value = NULL;

    json_object_foreach(labels, key, value)
    {
        if (!is_posing(key))
            continue;
        if (c->posing.count == POSING)
            return refuse(image, "more labels that look like vial's than it takes: 64",
                          err);
        strv_push(&c->posing, key);
    }
    return !c->posing.failed ? 0 : fail_memory(err);
}

bool config_is_module(const char *name)
{
    size_t len = strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                              "0123456789_.");

    return len > 0 && len < 128 && !name[len] && name[0] != '.';
}

/* Whoever made the image may say anything here: what makes no sense is passed over. */
static int read_template(struct image_config *c, json_t *labels, struct vial_error *err)
{
    const char *imports =
        json_string_value(json_object_get(labels, CONFIG_LABEL_IMPORTS));
    const char *pool = json_string_value(json_object_get(labels, CONFIG_LABEL_POOL));
    auto_free char *text = imports ? strdup(imports) : NULL;
    char *rest = text;
    unsigned long count = pool ? strtoul(pool, NULL, 10) : 0;

    c->is_template = json_object_get(labels, CONFIG_LABEL) != NULL;
    c->pool = count <= CONFIG_POOL ? (unsigned)count : 0;
    if (imports && !text)
        return fail_memory(err);
    while (rest && c->imports.count < CONFIG_IMPORTS) {
        const char *word = strsep(&rest, " ");

        if (config_is_module(word))
            strv_push(&c->imports, word);
    }
    return c->imports.failed ? fail_memory(err) : 0;
}

/* Numbers alone. What a name means is written in the image, which could call root by
 * any name: such programs are who they would be without it. */
static void read_user(struct image_config *c, const char *text)
{
    char *end = NULL;
    unsigned long uid = 0;
    unsigned long gid = 0;

    c->named = text && *text && !isdigit((unsigned char)*text) &&
               strcmp(text, "root") != 0 && !str_starts(text, "root:");
    if (!text || strlen(text) > 19 || strspn(text, "0123456789:") != strlen(text) ||
        !*text || *text == ':')
        return;
    uid = gid = strtoul(text, &end, 10);
    if (*end == ':')
        gid = strtoul(end + 1, &end, 10);
    if (*end || uid == 0 || gid == 0 || uid > 999999999 || gid > 999999999)
        return;
    c->uid = (unsigned)uid;
    c->gid = (unsigned)gid;
}

static int read_args(struct strv *out, json_t *list, const char *image,
                     struct vial_error *err)
{
    size_t bytes = 0;
    json_t *entry = NULL;
    size_t i = 0;

    json_array_foreach(list, i, entry)
    {
        const char *text = json_string_value(entry);

        bytes += json_string_length(entry) + 1;
        if (i >= ARGS_COUNT || bytes > ARGS_BYTES)
            return refuse(image, "a longer ENTRYPOINT or CMD than vial takes: 4 KiB",
                          err);
        if (!text || strlen(text) != json_string_length(entry))
            return refuse(image, "an ENTRYPOINT or CMD that is not a list of words",
                          err);
        strv_push(out, text);
    }
    return out->failed ? fail_memory(err) : 0;
}

int config_parse(json_t *config, const char *image, struct image_config *out,
                 struct vial_error *err)
{
    struct image_config c = { 0 };

    read_user(&c, json_string_value(json_object_get(config, "User")));
    if (read_env(&c, json_object_get(config, "Env"), image, err) < 0 ||
        read_cwd(&c, json_string_value(json_object_get(config, "WorkingDir")), image,
                 err) < 0 ||
        read_volumes(&c, json_object_get(config, "Volumes"), image, err) < 0 ||
        read_labels(&c, json_object_get(config, "Labels"), image, err) < 0 ||
        read_template(&c, json_object_get(config, "Labels"), err) < 0 ||
        read_args(&c.entrypoint, json_object_get(config, "Entrypoint"), image, err) <
            0 ||
        read_args(&c.args, json_object_get(config, "Cmd"), image, err) < 0) {
        config_done(&c);
        return -1;
    }
    *out = c;
    return 0;
}

static bool is_variable(const char *entry)
{
    size_t len = strspn(entry, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                               "0123456789_");

    return len > 0 && entry[len] == '=' && !(entry[0] >= '0' && entry[0] <= '9');
}

void config_variables(const struct image_config *c, struct strv *out)
{
    for (size_t i = 0; i < c->env.count; i++)
        if (is_variable(c->env.items[i]))
            strv_push(out, c->env.items[i]);
}

void config_done(struct image_config *c)
{
    strv_done(&c->env);
    strv_done(&c->volumes);
    strv_done(&c->posing);
    strv_done(&c->entrypoint);
    strv_done(&c->args);
    strv_done(&c->imports);
    free(c->cwd);
    *c = (struct image_config){ 0 };
}
