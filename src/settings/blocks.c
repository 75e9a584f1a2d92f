/* SPDX-License-Identifier: Apache-2.0 */
#include "settings/blocks.h"

#include <string.h>

#include "base/fail.h"
#include "base/sys.h"
#include "model/field_type.h"
#include "model/pod_settings.h"
#include "model/value.h"

#define CLEANUP_MAX_MS   INT64_C(86400000)
#define CLEANUP_LEAST_MS 100 /* more often, engines would do little else */
#define NAMES_MAX        128

#define BLOCK(name, rows)                                                              \
    {                                                                                  \
        name, rows, sizeof(rows) / sizeof((rows)[0])                                   \
    }

#define ROW(in, name, member, type, min, max, def, help)                               \
    {                                                                                  \
        { name, type, FIELD_IN_SETTINGS, NULL, NULL, min, max, def, help },            \
            offsetof(struct in, member), false                                         \
    }
/* MOST of them, as a list of KEY=VALUE or as an object. */
#define PAIRS(in, name, member, most, help)                                            \
    {                                                                                  \
        { name, FIELD_LIST, FIELD_IN_SETTINGS, NULL, NULL, 0, most, NULL, help },      \
            offsetof(struct in, member), true                                          \
    }

static const struct block_row serve_rows[] = {
#define SERVE(name, type, choices, min, max, def, help)                                \
    { { #name, type, FIELD_IN_SETTINGS, NULL, choices, min, max, def, help },          \
      offsetof(struct serve_settings, name) },
#include "settings/serve_settings.def"
#undef SERVE
};

static const struct block_row cleanup_rows[] = {
    ROW(cleaning, "interval", interval_ms, FIELD_MS, 0, CLEANUP_MAX_MS, "5m",
        "How often 'vial serve' and 'vial mcp' remove what dead callers left; "
        "0: never."),
};

static const struct block_row journal_rows[] = {
    ROW(journaling, "runs", runs, FIELD_COUNT_, 0, 100000, "0",
        "How many of the caller's runs 'vial logs' remembers without a daemon."),
    ROW(journaling, "output", output, FIELD_BYTES, 0, INT64_C(1) << 20, "16k",
        "How much of each stream of such a run is remembered."),
};

static const struct block_row images_rows[] = {
    ROW(image_settings, "store", store, FIELD_NAME, 1, 4095, NULL,
        "Where images are kept that need no container engine; VIAL_IMAGES has the last "
        "word."),
    ROW(image_settings, "registry", registry, FIELD_NAME, 1, 255, NULL,
        "The registry of images whose names do not begin with one: HOST, or HOST/PATH "
        "for names of one word."),
    ROW(image_settings, "mirrors", mirrors, FIELD_LIST, 0, 64, NULL,
        "Where to ask first instead of a registry: HOST=MIRROR."),
    ROW(image_settings, "plain", plain, FIELD_LIST, 0, 64, NULL,
        "Registries (HOST or HOST:PORT) that are asked by plain HTTP; those on "
        "loopback always may be."),
    ROW(image_settings, "max_size", max_bytes, FIELD_BYTES, 1024, INT64_C(1) << 46,
        "32g", "The most that one image may take, unpacked."),
    ROW(image_settings, "max_files", max_files, FIELD_COUNT_, 1, 100000000, "1000000",
        "The most files that one image may have."),
};

static const struct block_row kubernetes_rows[] = {
    PAIRS(pod_settings, "node_selector", node_selector, 64,
          "Labels that a node must have to get a pod: {KEY: VALUE}, or KEY=VALUE."),
    ROW(pod_settings, "tolerations", tolerations, FIELD_LIST, 0, 64, NULL,
        "Taints of nodes that keep no pod away: KEY or KEY=VALUE, with :NoSchedule, "
        ":PreferNoSchedule, :NoExecute or nothing behind it."),
    ROW(pod_settings, "pull_secrets", pull_secrets, FIELD_LIST, 0, 16, NULL,
        "Secrets of the namespace by which nodes pull images."),
    ROW(pod_settings, "priority_class", priority_class, FIELD_NAME, 1, 253, NULL,
        "The PriorityClass of pods; unset: the cluster's usual one."),
    PAIRS(pod_settings, "labels", labels, 64,
          "Further labels of pods: {KEY: VALUE}, or KEY=VALUE."),
    PAIRS(pod_settings, "annotations", annotations, 64,
          "Further annotations of pods: {KEY: VALUE}, or KEY=VALUE."),
};

static const struct block_row volumes_rows[] = {
    ROW(volume_settings, "store", store, FIELD_NAME, 1, 4095, NULL,
        "Where volumes are kept; VIAL_VOLUME_STORE has the last word."),
    ROW(volume_settings, "caller", caller, FIELD_COUNT_, 0, 65536, "0",
        "How many volumes there may be of one caller of a daemon, for whom the daemon "
        "makes them; 0: it makes none for callers."),
    ROW(volume_settings, "most", most, FIELD_COUNT_, 0, 65536, "1024",
        "How many volumes there may be in all before a daemon makes no more."),
    ROW(volume_settings, "size", size, FIELD_BYTES, 0, INT64_C(1) << 44, "0",
        "How large a new volume may become that is made without a size, from 16m on; 0: "
        "as the file system of the store."),
    ROW(volume_settings, "caller_size", caller_size, FIELD_BYTES, 0, INT64_C(1) << 50,
        "0",
        "How large the volumes of one caller of a daemon may be together, which all "
        "have a size then; 0: any."),
};

const struct block block_serve = BLOCK("serve", serve_rows);
const struct block block_cleanup = BLOCK("cleanup", cleanup_rows);
const struct block block_journal = BLOCK("journal", journal_rows);
const struct block block_images = BLOCK("images", images_rows);
const struct block block_kubernetes = BLOCK("kubernetes", kubernetes_rows);
const struct block block_volumes = BLOCK("volumes", volumes_rows);

static void *value_at(void *values, const struct block_row *row)
{
    return (char *)values + row->offset;
}

const struct block_row *block_find(const struct block *b, const char *name)
{
    for (size_t i = 0; i < b->count; i++)
        if (strcmp(b->rows[i].field.name, name) == 0)
            return &b->rows[i];
    return NULL;
}

int block_init(const struct block *b, void *values, struct vial_error *err)
{
    for (size_t i = 0; i < b->count; i++) {
        const struct field *f = &b->rows[i].field;
        void *at = value_at(values, &b->rows[i]);

        if (f->def &&
            field_ops_of(f->type)->parse(f, at, f->def, strlen(f->def), err) < 0)
            return -1;
    }
    return 0;
}

static int refuse_key(const struct block *b, const char *key, const char *where,
                      struct vial_error *err)
{
    const char *names[NAMES_MAX + 1] = { 0 };

    for (size_t i = 0; i < b->count && i < NAMES_MAX; i++)
        names[i] = b->rows[i].field.name;
    return value_unknown(err, "key", key, names, " in '%s': %s", where, b->name);
}

static int check_interval(const struct cleaning *c, const char *where,
                          struct vial_error *err)
{
    if (c->interval_ms == 0 || c->interval_ms >= CLEANUP_LEAST_MS)
        return 0;
    (void)fail(err, VIAL_E_VALUE, "%s: cleanup: an interval of %lld ms is too short",
               where, (long long)c->interval_ms);
    return fail_remedy(err, "give at least %dms, or 0 for never", CLEANUP_LEAST_MS);
}

const char *serve_settings_node(const struct serve_settings *s)
{
    const char *hyphen = s->node ? strrchr(s->node, '-') : NULL;

    return hyphen ? hyphen + 1 : s->node ? s->node : "";
}

static int check_node(const struct serve_settings *s, const char *where,
                      struct vial_error *err)
{
    const char *node = serve_settings_node(s);
    size_t len = strlen(node);

    if (!s->node || (len > 0 && len <= SYS_NODE &&
                     strspn(node, "abcdefghijklmnopqrstuvwxyz0123456789") == len))
        return 0;
    (void)fail(err, VIAL_E_VALUE,
               "%s: serve: node '%s' does not end in 1 to %d small letters and digits",
               where, s->node, SYS_NODE);
    return fail_remedy(err, "call it n1, or vial-1");
}

/* As many as the name of a unix socket may have. */
#define SOCKET_MOST 107u

static int check_sessions(const struct serve_settings *s, const char *where,
                          struct vial_error *err)
{
    if (!s->sessions_at || (str_starts(s->sessions_at, "unix:/") &&
                            strlen(s->sessions_at) <= strlen("unix:") + SOCKET_MOST))
        return 0;
    (void)fail(err, VIAL_E_VALUE,
               "%s: serve: sessions_at '%.200s' is not unix:PATH, of up to %u bytes",
               where, s->sessions_at, SOCKET_MOST);
    return fail_remedy(err,
                       "write it in full, as in unix:/run/vial-sessions/vial.sock");
}

static int check_serve(const struct serve_settings *s, const char *where,
                       struct vial_error *err)
{
    return check_node(s, where, err) < 0 ? -1 : check_sessions(s, where, err);
}

/* The rules that no range tells. */
static int check_block(const struct block *b, const void *values, const char *where,
                       struct vial_error *err)
{
    if (b == &block_cleanup)
        return check_interval(values, where, err);
    if (b == &block_kubernetes && pod_settings_check(values, err) < 0)
        return fail_in(err, "%s: kubernetes", where);
    return b == &block_serve ? check_serve(values, where, err) : 0;
}

static int read_pairs(const struct field *f, void *at, json_t *object,
                      struct vial_error *err)
{
    const char *key = NULL;
    json_t *value = NULL;

    json_object_foreach(object, key, value)
    {
        auto_str struct str pair = { 0 };

        if (!value_string(value))
            return value_refuse_json(f, value, "a string", err);
        str_printf(&pair, "%s=%s", key, value_string(value));
        if (!str_ok(&pair))
            return fail_memory(err);
        if (field_ops_of(f->type)->parse(f, at, pair.data, pair.len, err) < 0)
            return -1;
    }
    return 0;
}

/* A list of one may be a word alone. */
static int read_value(const struct block_row *row, void *at, json_t *value,
                      struct vial_error *err)
{
    const struct field *f = &row->field;
    const struct field_ops *kind = field_ops_of(f->type);

    kind->done(at);
    if (row->pairs && json_is_object(value))
        return read_pairs(f, at, value, err);
    if (f->type == FIELD_LIST && json_is_string(value))
        return kind->parse(f, at, json_string_value(value), json_string_length(value),
                           err);
    return kind->decode(f, at, value, err);
}

int block_read(const struct block *b, void *values, json_t *object, const char *where,
               struct vial_error *err)
{
    const char *key;
    json_t *value;

    if (!json_is_object(object))
        return fail(err, VIAL_E_VALUE, "%s: '%s' is not a block of keys", where,
                    b->name);
    json_object_foreach(object, key, value)
    {
        const struct block_row *row = block_find(b, key);

        if (!row)
            return refuse_key(b, key, where, err);
        if (read_value(row, value_at(values, row), value, err) < 0)
            return fail_in(err, "%s: %s", where, b->name);
    }
    return check_block(b, values, where, err);
}

bool serve_settings_warm(const struct serve_settings *s, struct strv *languages)
{
    bool warm = false;

    for (size_t i = 0; i < s->warm.count; i++) {
        bool none = str_eq(s->warm.items[i], "none");

        if (!none && !str_eq(s->warm.items[i], "auto"))
            strv_push(languages, s->warm.items[i]);
        warm = warm || !none;
    }
    return warm;
}

json_t *block_json(const struct block *b, const void *values)
{
    json_t *object = json_object();

    for (size_t i = 0; i < b->count; i++) {
        const struct field *f = &b->rows[i].field;
        json_t *value =
            field_ops_of(f->type)->json(f, (const char *)values + b->rows[i].offset);

        (void)json_object_set_new(object, f->name, value ? value : json_null());
    }
    return object;
}

void block_done(const struct block *b, void *values)
{
    for (size_t i = 0; i < b->count; i++)
        field_ops_of(b->rows[i].field.type)->done(value_at(values, &b->rows[i]));
}
