/* SPDX-License-Identifier: Apache-2.0 */
#include "settings/settings.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/fail.h"
#include "base/json.h"
#include "base/path.h"
#include "base/sys.h"
#include "settings/foreign.h"
#include "settings/project.h"
#include "settings/secret_block.h"
#include "settings/sources.h"

#define SYSTEM_FILE "/etc/vial/vial.yaml"
#define USER_FILE   ".config/vial/vial.yaml"

/* Outermost first, as they are read. */
enum layer { BUILTIN, PRESET, SYSTEM, USER, SEED, PROJECT, ENVIRON, LAYER_COUNT };

AUTO(settings, struct settings, settings_free)
#define auto_settings __attribute__((cleanup(auto_settings_)))

/* The caller's word wins over the environment. */
static const char *pick(const struct settings_sources *from, const char *given,
                        const char *variable)
{
    return given ? given : source_variable(from->environ_, variable);
}

static char *find_share_dir(const struct settings_sources *from)
{
    const char *given = pick(from, from->share_dir, "VIAL_SHARE");
    auto_free char *self = NULL;
    auto_free char *guest = NULL;

    if (given)
        return strdup(given);
    self = path_self_dir();
    guest = self ? path_join(self, "vial-init") : NULL;
    if (guest && access(guest, F_OK) == 0)
        return ptr_take(&self);
    return strdup(VIAL_SHARE_DIR);
}

static int load_languages(struct settings *s, struct vial_error *err)
{
    auto_free char *path = path_join(s->share_dir, "runtimes/languages.yaml");

    if (!path)
        return fail_memory(err);
    if (language_table_load(&s->languages, path, err) == 0)
        return 0;
    return fail_remedy(err, "install vial's data, or say where it is by VIAL_SHARE");
}

static int read_usual_files(struct settings *s, const struct settings_sources *from,
                            struct source *layers, struct vial_error *err)
{
    auto_free char *user = from->home ? path_join(from->home, USER_FILE) : NULL;

    if (from->home && !user)
        return fail_memory(err);
    if (source_read_file(s, &layers[SYSTEM], SYSTEM_FILE, false, err) < 0)
        return -1;
    if (!user)
        return 0;
    return source_read_file(s, &layers[USER], user, false, err);
}

/* The preset's own settings file: in the caller's home, or in the project. */
static int read_seed(struct settings *s, const struct settings_sources *from,
                     struct source *layers, struct vial_error *err)
{
    const char *file =
        json_string_value(json_object_get(preset_get(s->seed, "config"), "file"));
    bool home = file && strncmp(file, "~/", 2) == 0;
    auto_free char *path = NULL;

    if (!file || (home && !from->home))
        return 0;
    path = home ? path_join(from->home, file + 2)
                : project_find(from->project_dir, file, from->state);
    if (!path)
        return fail_memory(err);
    if (!home)
        policy_seal(&s->policy); /* untrusted code may have written it */
    if (source_read_seed(s, &layers[SEED], path, !home, err) < 0)
        return -1;
    return home ? 0 : project_judge(s, from, layers, SEED, err);
}

/* A file of variables that the preset's system reads where it is started. */
static int read_dotenv(struct settings *s, const struct settings_sources *from,
                       struct source *layers, struct vial_error *err)
{
    const char *file = json_string_value(preset_get(s->seed, "dotenv"));
    auto_free char *path =
        file ? project_find(from->project_dir, file, from->state) : NULL;

    if (!file)
        return 0;
    if (!path)
        return fail_memory(err);
    policy_seal(&s->policy); /* untrusted code may have written it */
    if (source_read_dotenv(s, &layers[SEED], path, err) < 0)
        return -1;
    return project_judge(s, from, layers, SEED, err);
}

static int read_project(struct settings *s, const struct settings_sources *from,
                        struct source *layers, struct vial_error *err)
{
    auto_free char *path = project_find(from->project_dir, "vial.yaml", from->state);

    if (!path)
        return fail_memory(err);
    policy_seal(&s->policy); /* untrusted code may have written it */
    if (source_read_project(s, &layers[PROJECT], path, err) < 0)
        return -1;
    return project_judge(s, from, layers, PROJECT, err);
}

static int read_layers(struct settings *s, const struct settings_sources *from,
                       struct source *layers, struct vial_error *err)
{
    const char *config = pick(from, from->config, "VIAL_CONFIG");

    if (source_read_builtin(&layers[BUILTIN], err) < 0)
        return -1;
    s->environ_ = from->environ_;
    if (s->preset && (source_read_preset(s, &layers[PRESET], s->preset, err) < 0 ||
                      foreign_begin(s, &layers[PRESET], from->environ_, err) < 0))
        return -1;
    if (config && source_read_file(s, &layers[SYSTEM], config, true, err) < 0)
        return -1;
    if (!config &&
        (read_usual_files(s, from, layers, err) < 0 ||
         read_seed(s, from, layers, err) < 0 || read_dotenv(s, from, layers, err) < 0))
        return -1;
    if (read_project(s, from, layers, err) < 0)
        return -1;
    return source_read_environ(s, &layers[ENVIRON], s->environ_, err);
}

/* Innermost first: each outer layer fills what is still unset. */
static int merge(struct settings *s, const struct source *layers,
                 struct vial_error *err)
{
    for (size_t n = LAYER_COUNT; n-- > 0;) {
        field_set before = s->defaults.set;

        if (request_fill(&s->defaults, &layers[n].values, err) < 0)
            return -1;
        for (size_t i = 0; i < FIELD_ID__COUNT; i++) {
            if (!(((s->defaults.set & ~before) >> i) & 1u))
                continue;
            s->origin[i] = strdup(layers[n].where);
            if (!s->origin[i])
                return fail_memory(err);
        }
    }
    return 0;
}

/* A variable of ours is as much as a flag: what it asks for is refused, not lowered. */
static bool is_asked(const struct settings *s, size_t i)
{
    char name[64];
    int len = snprintf(name, sizeof(name), "VIAL_%s", fields[i].name);

    for (int k = 0; k < len && k < (int)sizeof(name); k++)
        name[k] = (char)(toupper)((unsigned char)name[k]);
    return source_variable(s->environ_, name) != NULL;
}

static int lower_defaults(struct settings *s, struct vial_error *err)
{
    for (size_t i = 0; i < FIELD_ID__COUNT; i++) {
        enum field_id id = (enum field_id)i;
        int64_t cap = policy_cap(&s->policy, id);
        char *origin = NULL;

        if (cap == INT64_MAX || request_amount(&s->defaults, id) <= cap ||
            is_asked(s, i))
            continue;
        if (asprintf(&origin, "%s, lowered to the policy's cap", s->origin[i]) < 0)
            return fail_memory(err);
        *(int64_t *)request_member(&s->defaults, id) = cap;
        free(s->origin[i]);
        s->origin[i] = origin;
    }
    return 0;
}

static int load(struct settings *s, const struct settings_sources *from,
                struct source *layers, struct vial_error *err)
{
    const char *preset = pick(from, from->preset, "VIAL_PRESET");

    s->serves = from->serves;
    if (sys_random(s->secret_seed, sizeof(s->secret_seed)) < 0)
        return fail(err, VIAL_E_SYSTEM, "there is no randomness");
    s->share_dir = find_share_dir(from);
    s->preset = preset ? strdup(preset) : NULL;
    s->home = from->home ? strdup(from->home) : NULL;
    s->state = from->state ? strdup(from->state) : NULL;
    if (!s->share_dir || (preset && !s->preset) || (from->home && !s->home) ||
        (from->state && !s->state))
        return fail_memory(err);
    if (policy_init(&s->policy, err) < 0 ||
        block_init(&block_serve, &s->serve, err) < 0 ||
        block_init(&block_cleanup, &s->cleanup, err) < 0 ||
        block_init(&block_journal, &s->journal, err) < 0 ||
        block_init(&block_images, &s->image_store, err) < 0 ||
        block_init(&block_kubernetes, &s->pods, err) < 0 ||
        block_init(&block_volumes, &s->volumes, err) < 0 ||
        load_languages(s, err) < 0 || read_layers(s, from, layers, err) < 0 ||
        merge(s, layers, err) < 0)
        return -1;
    return lower_defaults(s, err);
}

int settings_load(const struct settings_sources *from, struct settings **out,
                  struct vial_error *err)
{
    auto_settings struct settings *s = calloc(1, sizeof(*s));
    struct source layers[LAYER_COUNT] = { 0 };
    int rc;

    if (!s)
        return fail_memory(err);
    rc = load(s, from, layers, err);
    for (size_t i = 0; i < LAYER_COUNT; i++)
        source_done(&layers[i]);
    if (rc < 0)
        return -1;
    *out = ptr_take(&s);
    return 0;
}

int settings_find_preset(const struct settings_sources *from, struct preset **out,
                         struct vial_error *err)
{
    const char *name = pick(from, from->preset, "VIAL_PRESET");
    auto_free char *share = name ? find_share_dir(from) : NULL;

    *out = NULL;
    if (!name)
        return 0;
    if (!share)
        return fail_memory(err);
    return source_find_preset(share, name, out, err);
}

static json_t *field_json(const struct settings *s, size_t i)
{
    json_t *value = request_field_json(&s->defaults, (enum field_id)i);

    return json_pack("{s:o, s:s?}", "value", value ? value : json_null(), "from",
                     s->origin[i]);
}

json_t *settings_languages_json(const struct settings *s)
{
    json_t *names = json_array();

    for (size_t i = 0; i < s->languages.count; i++)
        if (!s->languages.items[i].hidden)
            (void)json_array_append_new(names, json_string(s->languages.items[i].name));
    return names;
}

static json_t *keep_json(const struct settings *s)
{
    return json_pack("{s:b, s:I, s:f}", "alive", s->keep.alive, "executions",
                     (json_int_t)s->keep.executions, "idle",
                     (double)s->keep.idle_ms / 1000);
}

json_t *settings_json(const struct settings *s)
{
    json_t *root = json_object();
    json_t *values = json_object();
    json_t *files = json_array();

    for (size_t i = 0; i < s->files.count; i++)
        (void)json_array_append_new(files, json_string(s->files.items[i]));
    for (size_t i = 0; i < FIELD_ID__COUNT; i++)
        if (fields[i].scope & FIELD_IN_SETTINGS)
            (void)json_object_set_new(values, fields[i].name, field_json(s, i));
    (void)json_object_set_new(root, "share_dir", json_string(s->share_dir));
    (void)json_object_set_new(root, "preset",
                              s->preset ? json_string(s->preset) : json_null());
    (void)json_object_set_new(root, "files", files);
    (void)json_object_set_new(root, "projects",
                              s->projects ? json_incref(s->projects) : json_array());
    (void)json_object_set_new(root, "languages", settings_languages_json(s));
    (void)json_object_set_new(root, "keep", keep_json(s));
    (void)json_object_set_new(root, "engine",
                              s->engine ? json_string(s->engine) : json_null());
    (void)json_object_set_new(root, "defaults", values);
    (void)json_object_set_new(root, "policy", policy_json(&s->policy));
    (void)json_object_set_new(root, "serve", block_json(&block_serve, &s->serve));
    (void)json_object_set_new(root, "audit", auditing_json(&s->audit));
    (void)json_object_set_new(root, "cleanup", block_json(&block_cleanup, &s->cleanup));
    (void)json_object_set_new(root, "journal", block_json(&block_journal, &s->journal));
    (void)json_object_set_new(root, "images",
                              block_json(&block_images, &s->image_store));
    (void)json_object_set_new(root, "kubernetes",
                              block_json(&block_kubernetes, &s->pods));
    (void)json_object_set_new(root, "volumes", block_json(&block_volumes, &s->volumes));
    (void)json_object_set_new(root, "secrets", secret_block_json(&s->secrets));
    return root;
}

void settings_free(struct settings *s)
{
    if (!s)
        return;
    request_done(&s->defaults);
    policy_done(&s->policy);
    block_done(&block_serve, &s->serve);
    block_done(&block_images, &s->image_store);
    block_done(&block_kubernetes, &s->pods);
    block_done(&block_volumes, &s->volumes);
    preset_free(s->seed);
    strv_done(&s->images);
    strv_done(&s->secrets);
    strv_done(&s->places);
    strv_done(&s->packages);
    strv_done(&s->variables);
    free(s->engine);
    auditing_done(&s->audit);
    language_table_done(&s->languages);
    strv_done(&s->files);
    for (size_t i = 0; i < FIELD_ID__COUNT; i++)
        free(s->origin[i]);
    free(s->share_dir);
    free(s->preset);
    free(s->home);
    free(s->state);
    json_decref(s->projects);
    free(s);
}
