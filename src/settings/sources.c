/* SPDX-License-Identifier: Apache-2.0 */
#include "settings/sources.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/auto.h"
#include "base/fail.h"
#include "base/io.h"
#include "base/json.h"
#include "base/path.h"
#include "base/sha256.h"
#include "base/sys.h"
#include "base/text.h"
#include "model/value.h"
#include "settings/foreign.h"
#include "settings/foreign_files.h"
#include "settings/secret_block.h"
#include "settings/user_packages.h"

#define PREFIX      "VIAL_"
#define PROJECT_MAX ((size_t)1 << 20)

static int name_source(struct source *out, const char *where, struct vial_error *err)
{
    out->where = strdup(where);
    return out->where ? 0 : fail_memory(err);
}

void source_done(struct source *source)
{
    request_done(&source->values);
    free(source->where);
    source->where = NULL;
    json_decref(source->beyond);
    source->beyond = NULL;
}

int source_note(struct source *source, const char *name, const char *from,
                const char *to, struct vial_error *err)
{
    json_t *one = json_pack("{s:s?, s:s?}", "from", from, "to", to);

    if (!source->beyond)
        source->beyond = json_object();
    if (json_object_set_new(source->beyond, name, one) < 0)
        return fail_memory(err);
    return 0;
}

const char *source_variable(char *const *environ_, const char *name)
{
    size_t len = strlen(name);

    for (; environ_ && *environ_; environ_++)
        if (strncmp(*environ_, name, len) == 0 && (*environ_)[len] == '=')
            return (*environ_)[len + 1] ? *environ_ + len + 1 : NULL;
    return NULL;
}

/* A path in a file is meant relative to that file. */
static char *resolve(const char *file, const char *path)
{
    const char *slash = strrchr(file, '/');
    auto_free char *dir = NULL;

    if (path[0] == '/' || !slash)
        return strdup(path);
    dir = strndup(file, (size_t)(slash - file) + 1);
    return dir ? path_join(dir, path) : NULL;
}

/* A preset's languages are all that there are under it. */
static int load_languages(struct settings *s, json_t *json, const char *path,
                          bool preset, struct vial_error *err)
{
    const char *name = value_string(json);
    auto_free char *file = NULL;
    struct shown shown;

    shown = value_show_json(json);
    if (!name || !*name)
        return fail(err, VIAL_E_VALUE, "%s: languages '%s' is not a path", path,
                    shown.text);
    file = resolve(path, name);
    if (!file)
        return fail_memory(err);
    if (preset)
        language_table_hide(&s->languages);
    if (language_table_load(&s->languages, file, err) == 0)
        return 0;
    (void)fail_in(err, "%s: languages", path);
    return err->remedy[0]
               ? -1
               : fail_remedy(err, "name a file in the form of "
                                  "runtimes/languages.yaml, or remove the key");
}

static const char *const known_keys[] = { "defaults",   "policy",  "audit",
                                          "cleanup",    "journal", "languages",
                                          "serve",      "images",  "secrets",
                                          "kubernetes", "volumes", NULL };

static bool is_known(const char *key)
{
    for (const char *const *one = known_keys; *one; one++)
        if (strcmp(key, *one) == 0)
            return true;
    return false;
}

static int unknown_key(const char *key, const char *path, struct vial_error *err)
{
    (void)value_unknown(err, "key", key, known_keys, " in '%s'", path);
    if (field_find(key) && !text_suggest(key, known_keys))
        return fail_remedy(err, "put '%s' below the key 'defaults'", key);
    return -1;
}

static int not_regular(const char *path, struct vial_error *err)
{
    (void)fail(err, VIAL_E_FILE, "'%s' is not a regular file", path);
    return fail_remedy(err, "put a file in its place, or remove it");
}

struct reading {
    struct settings *s;
    struct source *out;
    const char *path;
    bool project;       /* code may have written it */
    const char *preset; /* its name, when this is its file */
    bool seed;          /* the file is not ours: only the preset's block counts */
};

static bool is_block(const struct reading *r, const char *key)
{
    return !r->project && !r->preset && str_eq(key, foreign_block_name(r->s));
}

/* Whether a project may never set this key, trusted or not. Such keys name other files,
 * whose bytes nobody has looked at, or are the operator's own. */
static bool is_operators(const char *key)
{
    static const char *const keys[] = { "languages", "audit",      "cleanup",
                                        "journal",   "serve",      "images",
                                        "secrets",   "kubernetes", "volumes" };

    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
        if (strcmp(key, keys[i]) == 0)
            return true;
    return false;
}

static int refuse_operators(const struct reading *r, const char *key,
                            struct vial_error *err)
{
    (void)fail(err, VIAL_E_POLICY, "a project file may not set '%s'", key);
    (void)fail_cause(err, "%s", r->path);
    return fail_remedy(err, "set it in ~/.config/vial/vial.yaml");
}

static int read_key(const struct reading *r, const char *key, json_t *value,
                    struct vial_error *err)
{
    struct settings *s = r->s;

    if (r->project && is_operators(key) && !json_is_null(value))
        return refuse_operators(r, key, err);
    if (r->preset && strcmp(key, "preset") == 0)
        return preset_new(r->preset, value, &s->seed, err);
    if (is_block(r, key))
        return foreign_block(s, r->out, value, r->path, false, err);
    if (!is_known(key))
        return unknown_key(key, r->path, err);
    if (json_is_null(value)) /* an empty block in YAML */
        return 0;
    if (strcmp(key, "defaults") == 0)
        return request_decode(&r->out->values, value, FIELD_IN_SETTINGS, r->path, err);
    if (strcmp(key, "policy") == 0)
        return policy_tighten(&s->policy, value, r->path, err);
    if (strcmp(key, "languages") == 0)
        return load_languages(s, value, r->path, r->preset != NULL, err);
    if (strcmp(key, "audit") == 0)
        return r->preset ? auditing_read_usual(&s->audit, value, r->path, s->home, err)
                         : auditing_read(&s->audit, value, r->path, err);
    if (strcmp(key, "journal") == 0)
        return block_read(&block_journal, &s->journal, value, r->path, err);
    if (strcmp(key, "images") == 0)
        return block_read(&block_images, &s->image_store, value, r->path, err);
    if (strcmp(key, "kubernetes") == 0)
        return block_read(&block_kubernetes, &s->pods, value, r->path, err);
    if (strcmp(key, "volumes") == 0)
        return block_read(&block_volumes, &s->volumes, value, r->path, err);
    if (strcmp(key, "secrets") == 0)
        return secret_block_read(&s->secrets, value, r->path, err);
    if (strcmp(key, "cleanup") == 0)
        return block_read(&block_cleanup, &s->cleanup, value, r->path, err);
    return block_read(&block_serve, &s->serve, value, r->path, err);
}

/* A project's file may be a link to one that only the caller can read, of which a
 * message would then quote a line. It is read once: what is parsed is what HASH is of.
 */
static int read_bytes(const char *path, struct blob *text, char hash[65],
                      struct vial_error *err)
{
    auto_fd int fd = sys_openat2(AT_FDCWD, path, O_RDONLY | O_NONBLOCK | O_CLOEXEC, 0,
                                 RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS);
    struct sha256 h;
    struct stat st;

    if (fd < 0 && fd != -ELOOP) {
        (void)fail_sys_rc(err, fd, "read '%s'", path);
        return fail_as(err, VIAL_E_FILE);
    }
    if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
        return not_regular(path, err);
    if (io_read_fd(fd, path, PROJECT_MAX, text, err) < 0)
        return -1;
    sha256_init(&h);
    sha256_add(&h, text->data, text->len);
    sha256_text(&h, hash);
    return 0;
}

static int read_own_file(const char *path, json_t **out, char hash[65],
                         struct vial_error *err)
{
    struct blob text = { 0 };
    int rc = read_bytes(path, &text, hash, err);

    if (rc < 0)
        return -1;
    rc = yaml_parse(text.data, text.len, path, out, err);
    blob_done(&text);
    return rc;
}

/* A file of the preset's system, named as if it were ours. */
static bool is_theirs(const struct reading *r, json_t *root)
{
    const char *block = r->preset ? NULL : foreign_block_name(r->s);

    return block && json_object_get(root, block) &&
           !json_object_get(root, "defaults") && !json_object_get(root, "policy") &&
           !json_object_get(root, "languages");
}

static int read_block(const struct reading *r, json_t *root, struct vial_error *err)
{
    json_t *block = json_object_get(root, foreign_block_name(r->s));

    if (block && foreign_block(r->s, r->out, block, r->path, r->project, err) < 0)
        return -1;
    strv_push(&r->s->files, r->path);
    return strv_ok(&r->s->files) ? 0 : fail_memory(err);
}

#define SHOW "make it readable for the user who runs vial"
#define MEND "settings are a YAML file; 'vial schema settings' has the form"

static int read_keys(const struct reading *r, struct vial_error *err)
{
    auto_json json_t *root = NULL;

    if ((r->project ? read_own_file(r->path, &root, r->out->hash, err)
                    : yaml_read(r->path, &root, err)) < 0)
        return err->remedy[0]
                   ? -1
                   : fail_remedy(err, "%s", err->sys == EACCES ? SHOW : MEND);
    if (!json_is_object(root)) {
        (void)fail(err, VIAL_E_VALUE, "'%s' is not a mapping of keys", r->path);
        return fail_remedy(err, "%s", MEND);
    }
    if (r->seed || (!r->project && is_theirs(r, root)))
        return read_block(r, root, err);
    for (void *at = json_object_iter(root); at; at = json_object_iter_next(root, at))
        if (read_key(r, json_object_iter_key(at), json_object_iter_value(at), err) < 0)
            return -1;
    strv_push(&r->s->files, r->path);
    return strv_ok(&r->s->files) ? 0 : fail_memory(err);
}

/* 1: there is a file, 0: there is nothing. A FIFO in a usual place could make
 * vial wait for ever; who NAMED the file may use /dev/null and the like. */
static int is_there(const char *path, bool named, bool project, struct vial_error *err)
{
    int flags = project ? AT_SYMLINK_NOFOLLOW : 0;
    struct stat st;

    if (fstatat(AT_FDCWD, path, &st, flags) == 0)
        return named || S_ISREG(st.st_mode) ? 1 : not_regular(path, err);
    /* A directory that we may not even search holds nothing of ours (a HOME left
     * over from another user, say); the operator's must not be passed over. */
    if (errno == ENOENT || errno == ENOTDIR ||
        (errno == EACCES && !named && !path_is_beneath(path, "/etc")))
        return 0;
    (void)fail_sys(err, "read '%s'", path);
    (void)fail_as(err, VIAL_E_FILE);
    return fail_remedy(err, "%s", SHOW);
}

int source_read_file(struct settings *s, struct source *out, const char *path,
                     bool required, struct vial_error *err)
{
    const struct reading r = { .s = s, .out = out, .path = path };
    int there = is_there(path, required, false, err);

    if (there < 0)
        return -1;
    if (!there && required) {
        (void)fail(err, VIAL_E_FILE, "settings file '%s' does not exist", path);
        return fail_remedy(err, "name one that does; without --config the usual files "
                                "are read");
    }
    if (!there)
        return 0;
    return read_keys(&r, err) < 0 ? -1 : name_source(out, path, err);
}

static int read_if_there(const struct reading *r, struct vial_error *err)
{
    int there = is_there(r->path, false, r->project, err);

    if (there <= 0)
        return there;
    return read_keys(r, err) < 0 ? -1 : name_source(r->out, r->path, err);
}

int source_read_project(struct settings *s, struct source *out, const char *path,
                        struct vial_error *err)
{
    const struct reading r = { .s = s, .out = out, .path = path, .project = true };

    return read_if_there(&r, err);
}

int source_read_dotenv(struct settings *s, struct source *out, const char *path,
                       struct vial_error *err)
{
    auto_strv struct strv found = { 0 };
    struct blob text = { 0 };
    int rc = is_there(path, false, true, err);

    if (rc <= 0)
        return rc;
    rc = read_bytes(path, &text, out->hash, err);
    if (rc == 0)
        rc = dotenv_read(&text, path, preset_get(s->seed, "variables"), s->environ_,
                         &found, err);
    blob_done(&text);
    if (rc < 0 || found.count == 0)
        return rc;
    strv_copy(&s->variables, &found);
    for (char *const *at = s->environ_; at && *at; at++)
        strv_push(&s->variables, *at);
    if (!strv_ok(&s->variables))
        return fail_memory(err);
    s->environ_ = s->variables.items;
    return foreign_dotenv(s, out, path, &found, err) < 0 ? -1
                                                         : name_source(out, path, err);
}

int source_read_seed(struct settings *s, struct source *out, const char *path,
                     bool project, struct vial_error *err)
{
    const struct reading r = {
        .s = s, .out = out, .path = path, .project = project, .seed = true
    };

    return read_if_there(&r, err);
}

static int is_preset(const struct dirent *entry)
{
    const char *dot = strrchr(entry->d_name, '.');

    return entry->d_name[0] != '.' && dot && strcmp(dot, ".yaml") == 0;
}

static void list_presets(const char *dir, struct str *out)
{
    struct dirent **entries = NULL;
    int count = scandir(dir, &entries, is_preset, alphasort);

    for (int i = 0; i < count; i++) {
        const char *name = entries[i]->d_name;

        str_printf(out, "%s%.*s", i ? ", " : "", (int)strlen(name) - 5, name);
        free(entries[i]);
    }
    free(entries);
}

static int unknown_preset(const char *dir, const char *name, struct vial_error *err)
{
    auto_str struct str known = { 0 };
    struct shown shown;

    shown = value_show(name, strlen(name));
    list_presets(dir, &known);
    (void)fail(err, VIAL_E_PRESET, "unknown preset '%s'", shown.text);
    return fail_remedy(err, "known presets: %s", known.len ? known.data : "none");
}

/* Where preset NAME lies. */
static int preset_path(const char *share_dir, const char *name, struct str *out,
                       struct vial_error *err)
{
    auto_free char *dir = path_join(share_dir, "presets");
    size_t plain = strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789-");
    int there;

    if (!dir)
        return fail_memory(err);
    str_printf(out, "%s/%s.yaml", dir, name);
    if (!str_ok(out))
        return fail_memory(err);
    there = *name && name[plain] == '\0' ? is_there(out->data, false, false, err) : 0;
    if (there == 0)
        return unknown_preset(dir, name, err);
    return there < 0 ? -1 : 0;
}

int source_find_preset(const char *share_dir, const char *name, struct preset **out,
                       struct vial_error *err)
{
    auto_str struct str path = { 0 };
    auto_json json_t *root = NULL;

    if (preset_path(share_dir, name, &path, err) < 0 ||
        yaml_read(path.data, &root, err) < 0)
        return -1;
    return preset_new(name, json_object_get(root, "preset"), out, err);
}

int source_read_preset(struct settings *s, struct source *out, const char *name,
                       struct vial_error *err)
{
    auto_str struct str path = { 0 };
    auto_str struct str where = { 0 };
    struct reading r = { .s = s, .out = out, .preset = name };

    if (preset_path(s->share_dir, name, &path, err) < 0)
        return -1;
    str_printf(&where, "preset %s", name);
    if (!str_ok(&where))
        return fail_memory(err);
    r.path = path.data;
    return read_keys(&r, err) < 0 ? -1 : name_source(out, where.data, err);
}

int source_check_preset(struct settings *s, const char *path, struct vial_error *err)
{
    struct source out = { 0 };
    const struct reading r = { .s = s, .out = &out, .path = path, .preset = "checked" };
    auto_json json_t *root = NULL;
    struct preset *preset = NULL;
    int rc = yaml_read(path, &root, err);

    if (rc == 0)
        rc = preset_new("checked", json_object_get(root, "preset"), &preset, err);
    if (rc == 0)
        rc = read_keys(&r, err);
    preset_free(preset);
    source_done(&out);
    return rc < 0 ? fail_in(err, "preset '%s'", path) : 0;
}

static char lower(char c)
{
    return (char)(tolower)((unsigned char)c); /* the function, not the macro */
}

static char upper(char c)
{
    return (char)(toupper)((unsigned char)c);
}

/* VIAL_CPU_TIME -> cpu_time. False: not one of our fields' names. */
static bool field_of(const char *variable, size_t len, char *out, size_t size)
{
    size_t prefix = strlen(PREFIX);

    if (len <= prefix || len - prefix >= size)
        return false;
    for (size_t i = prefix; i < len; i++)
        *out++ = lower(variable[i]);
    *out = '\0';
    return true;
}

static bool is_ours(const char *variable, size_t len)
{
    static const char *const known[] = { "VIAL_SHARE",
                                         "VIAL_CONFIG",
                                         "VIAL_PRESET",
                                         "VIAL_LANGUAGES",
                                         "VIAL_ENGINE_PLAIN",
                                         "VIAL_STATE",
                                         "VIAL_TOKEN",
                                         "VIAL_IMAGES",
                                         "VIAL_ZYGOTE_WITHOUT",
                                         "VIAL_VOLUME_STORE",
                                         "VIAL_KUBERNETES_CONTEXT",
                                         "VIAL_KUBERNETES_NAMESPACE",
                                         "VIAL_KUBERNETES_POD",
                                         "VIAL_REQUEST_ID" /* of a program inside */ };

    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
        if (strlen(known[i]) == len && strncmp(variable, known[i], len) == 0)
            return true;
    return strncmp(variable, "VIAL_TEST_", strlen("VIAL_TEST_")) == 0;
}

static int unknown_variable(const char *variable, size_t len, const char *field,
                            struct vial_error *err)
{
    const char *near = text_suggest(field, field_names);
    const struct field *f = near ? field_find(near) : NULL;
    auto_str struct str name = { 0 };
    struct shown shown;

    shown = value_show(variable, len);
    (void)fail(err, VIAL_E_FIELD, "unknown variable '%s' in the environment",
               shown.text);
    if (!f || !(f->scope & FIELD_IN_SETTINGS))
        return fail_remedy(err, "unset it; `vial config show` lists the settings");
    for (const char *c = f->name; *c; c++)
        str_putc(&name, upper(*c));
    return fail_remedy(err, "did you mean '" PREFIX "%s'?", name.data ? name.data : "");
}

static bool gathers(const struct field *f)
{
    return f->type == FIELD_LIST || f->type == FIELD_MOUNTS;
}

/* A field that gathers takes "a,b,c". */
static int set_field(struct vial_request *values, const struct field *f,
                     const char *where, const char *value, struct vial_error *err)
{
    while (gathers(f) && strchr(value, ',')) {
        size_t len = strcspn(value, ",");
        auto_free char *part = strndup(value, len);

        if (!part)
            return fail_memory(err);
        if (request_set_text(values, field_id_of(f), part, len, where, err) < 0)
            return -1;
        value += len + 1;
    }
    return request_set_text(values, field_id_of(f), value, strlen(value), where, err);
}

static int read_variable(struct source *out, const char *entry, struct vial_error *err)
{
    size_t len = strcspn(entry, "=");
    auto_free char *where = NULL;
    const struct field *f;
    char name[32] = "";

    if (!str_starts(entry, PREFIX) || is_ours(entry, len))
        return 0;
    f = field_of(entry, len, name, sizeof(name)) ? field_find(name) : NULL;
    if (!f || !(f->scope & FIELD_IN_SETTINGS))
        return unknown_variable(entry, len, name, err);
    if (entry[len] == '\0' || entry[len + 1] == '\0')
        return 0;
    where = strndup(entry, len);
    if (!where)
        return fail_memory(err);
    return set_field(&out->values, f, where, entry + len + 1, err);
}

int source_read_environ(struct settings *s, struct source *out, char *const *environ_,
                        struct vial_error *err)
{
    const char *languages = source_variable(environ_, "VIAL_LANGUAGES");
    const char *active = source_variable(environ_, "VIRTUAL_ENV");

    if (foreign_environ(s, out, environ_, err) < 0)
        return -1;
    if (active && !s->serves && packages_is_environment(active) &&
        !source_variable(environ_, "VIAL_VENV") &&
        request_set_text(&out->values, FIELD_ID_venv, active, strlen(active),
                         "VIRTUAL_ENV", err) < 0)
        return -1;
    for (char *const *entry = environ_; entry && *entry; entry++)
        if (read_variable(out, *entry, err) < 0)
            return -1;
    if (languages && language_table_load(&s->languages, languages, err) < 0) {
        (void)fail_in(err, "VIAL_LANGUAGES");
        return err->remedy[0] ? -1 : fail_remedy(err, "name a file, or unset it");
    }
    return name_source(out, "environment", err);
}

int source_read_builtin(struct source *out, struct vial_error *err)
{
    for (size_t i = 0; i < FIELD_ID__COUNT; i++) {
        const char *def = fields[i].def;

        if (def && request_set_text(&out->values, (enum field_id)i, def, strlen(def),
                                    "built-in", err) < 0)
            return -1;
    }
    out->values.builtin = out->values.set;
    return name_source(out, "built-in", err);
}
