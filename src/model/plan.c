/* SPDX-License-Identifier: Apache-2.0 */
#include "model/plan.h"

#include <stdlib.h>
#include <string.h>

#include "base/fail.h"
#include "model/field_type.h"
#include "model/value.h"

#define VARIABLE        "VIAL_REQUEST_ID"
#define CORRELATION_MAX 64u

static void file_done(struct plan_file *file)
{
    free(file->path);
    blob_done(&file->content);
}

static void mount_done(struct plan_mount *mount)
{
    free(mount->source);
    free(mount->target);
    strv_done(&mount->hidden);
}

static void container_done(struct plan_container *c)
{
    for (size_t i = 0; i < c->port_count; i++)
        free(c->ports[i].address);
    for (size_t i = 0; i < c->cache_count; i++) {
        free(c->caches[i].volume);
        free(c->caches[i].target);
    }
    free(c->ports);
    free(c->caches);
    strv_done(&c->dns);
    free(c->network_name);
    free(c->runtime);
    free(c->prefix);
}

static void gate_done(struct plan_gate *gate)
{
    strv_done(&gate->secrets);
    strv_done(&gate->allow);
    strv_done(&gate->deny);
    strv_done(&gate->unchecked);
    strv_done(&gate->resolvers);
    strv_done(&gate->private_in);
}

static void free_strings(struct plan *plan)
{
    char *const strings[] = {
        plan->driver,        plan->language,   plan->workdir,     plan->cwd,
        plan->image,         plan->rootfs,     plan->seccomp,     plan->hostname,
        plan->label_session, plan->label_task, plan->output_note, plan->correlation,
        plan->seccomp_file,  plan->root.store, plan->volume_store
    };

    for (size_t i = 0; i < sizeof(strings) / sizeof(strings[0]); i++)
        free(strings[i]);
}

const char *const plan_workdirs[] = { "/work", "/workspace", "/home/user", NULL };

const char *plan_scratch(const struct plan *plan)
{
    for (size_t i = 0; i < plan->mount_count; i++)
        if (str_eq(plan->mounts[i].target, plan->workdir))
            return "/work";
    for (size_t i = 0; plan_workdirs[i]; i++)
        if (str_eq(plan->workdir, plan_workdirs[i]))
            return plan_workdirs[i];
    return plan_workdirs[0];
}

bool plan_has_root(const struct plan *plan)
{
    return plan->root.store != NULL;
}

bool plan_writes_outside(const struct plan *plan)
{
    for (size_t i = 0; i < plan->mount_count; i++)
        if (plan->mounts[i].writable)
            return true;
    return plan->container.cache_count > 0;
}

const char *plan_code_file(const struct plan *plan)
{
    return plan->language && !plan->code.data && plan->file_count > 0
               ? plan->files[0].path
               : NULL;
}

void plan_expand(struct strv *out, const char *text, const char *dir)
{
    auto_str struct str s = { 0 };
    const char *at;

    while ((at = strstr(text, "{dir}")) != NULL) {
        str_add(&s, text, (size_t)(at - text));
        str_puts(&s, dir);
        text = at + strlen("{dir}");
    }
    str_puts(&s, text);
    if (str_ok(&s))
        strv_push(out, s.data);
    else
        out->failed = true;
}

/* The caller's own words are passed on letter by letter, though they may hold "{dir}"
 * too: only the plan's own words are expanded. */
void plan_argv(const struct plan *plan, bool compile, const char *dir, struct strv *out)
{
    const struct strv *from = compile ? &plan->compile_argv : &plan->argv;
    size_t own = compile ? from->count : plan->argv_own;

    for (size_t i = 0; i < from->count; i++) {
        if (i >= own)
            strv_push(out, from->items[i]);
        else if (str_eq(from->items[i], "{code}") && plan->code.data)
            strv_push(out, plan->code.data);
        else
            plan_expand(out, from->items[i], dir);
    }
}

int64_t plan_wall_ms(const struct plan *plan, bool compile)
{
    return compile ? plan->limits.compile_wall_ms : plan->limits.wall_ms;
}

int64_t plan_most_ms(const struct plan *plan)
{
    int64_t ms = plan_wall_ms(plan, false) + plan->stop_ms;

    return plan->compile_argv.count > 0 ? ms + plan_wall_ms(plan, true) : ms;
}

int plan_rename_code(struct plan *plan, int n)
{
    auto_str struct str name = { 0 };
    auto_str struct str before = { 0 };
    auto_str struct str after = { 0 };
    char *path = NULL;
    size_t stem;

    if (!plan_code_file(plan))
        return 0;
    path = plan->files[0].path;
    stem = strcspn(path, ".");
    str_printf(&name, "%.*s-%d%s", (int)stem, path, n, path + stem);
    str_printf(&before, "{dir}/%s", path);
    str_printf(&after, "{dir}/%s", name.data ? name.data : "");
    if (!str_ok(&name) || !str_ok(&before) || !str_ok(&after))
        return -1;
    for (size_t i = 0; i < plan->argv_own; i++) {
        if (!str_eq(plan->argv.items[i], before.data))
            continue;
        free(plan->argv.items[i]);
        plan->argv.items[i] = str_take(&after);
    }
    free(path);
    plan->files[0].path = str_take(&name);
    return 0;
}

void plan_free(struct plan *plan)
{
    if (!plan)
        return;
    for (size_t i = 0; i < plan->file_count; i++)
        file_done(&plan->files[i]);
    for (size_t i = 0; i < plan->mount_count; i++)
        mount_done(&plan->mounts[i]);
    blob_done(&plan->custom.filter);
    free(plan->files);
    free(plan->mounts);
    strv_done(&plan->compile_argv);
    strv_done(&plan->argv);
    strv_done(&plan->env);
    strv_done(&plan->outputs);
    free(plan->artifacts);
    strv_done(&plan->require);
    strv_done(&plan->end_on);
    blob_done(&plan->stdin_data);
    blob_done(&plan->code);
    container_done(&plan->container);
    gate_done(&plan->gate);
    pod_settings_done(&plan->pod);
    free_strings(plan);
    free(plan);
}

/* FNV-1a, 64 bits: tells two contents apart for people, proves nothing. */
static uint64_t fnv1a(const struct blob *b)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325);

    for (size_t i = 0; i < b->len; i++)
        hash = (hash ^ (unsigned char)b->data[i]) * UINT64_C(0x100000001b3);
    return hash;
}

static bool has_variable(const struct strv *env)
{
    for (size_t i = 0; i < env->count; i++)
        if (str_starts(env->items[i], VARIABLE "="))
            return true;
    return false;
}

int plan_correlate(struct plan *plan, const char *id, struct vial_error *err)
{
    size_t len = id ? strlen(id) : 0;

    if (len == 0)
        return 0;
    if (len > CORRELATION_MAX || !value_is_plain(id, len))
        return fail(err, VIAL_E_VALUE,
                    "the correlation id is not plain text of at most %u bytes",
                    CORRELATION_MAX);
    plan->correlation = strdup(id);
    if (!plan->correlation ||
        (!has_variable(&plan->env) &&
         field_put_env(&plan->env, VARIABLE, strlen(VARIABLE), id) < 0))
        return fail_memory(err);
    return 0;
}

static json_t *text(const char *s)
{
    return s ? value_text_json(s, strlen(s)) : json_null();
}

static json_t *list(const struct strv *v)
{
    json_t *array = json_array();

    for (size_t i = 0; i < v->count; i++)
        (void)json_array_append_new(array, text(v->items[i]));
    return array;
}

static json_t *content(const struct blob *b)
{
    return json_pack("{s:I, s:o}", "bytes", (json_int_t)b->len, "fnv1a64",
                     json_sprintf("%016llx", (unsigned long long)fnv1a(b)));
}

static json_t *file_json(const struct plan_file *file)
{
    json_t *object = json_object();

    (void)json_object_set_new(object, "path", text(file->path));
    (void)json_object_set_new(object, "mode", json_sprintf("%04o", file->mode));
    (void)json_object_update_new(object, content(&file->content));
    return object;
}

static json_t *files(const struct plan *plan)
{
    json_t *array = json_array();

    for (size_t i = 0; i < plan->file_count; i++)
        (void)json_array_append_new(array, file_json(&plan->files[i]));
    return array;
}

/* Without dev and ino, which differ from host to host. */
static json_t *mounts(const struct plan *plan)
{
    json_t *array = json_array();

    for (size_t i = 0; i < plan->mount_count; i++) {
        const struct plan_mount *m = &plan->mounts[i];

        const char *mode = m->overlay ? "overlay" : m->writable ? "rw" : "ro";

        (void)json_array_append_new(
            array, json_pack("{s:o, s:o, s:s, s:s, s:o*}", "source", text(m->source),
                             "target", text(m->target), "mode", mode, "kind",
                             m->volume   ? "volume"
                             : m->is_dir ? "directory"
                                         : "file",
                             "hidden", m->hidden.count ? list(&m->hidden) : NULL));
    }
    return array;
}

static json_t *stdin_json(const struct plan *plan)
{
    json_t *object = content(&plan->stdin_data);

    (void)json_object_set_new(object, "live", json_boolean(plan->stdin_live));
    return object;
}

/* 0, which means no limit, comes out as null. */
static json_t *limits(const struct plan *plan)
{
    json_t *object = json_object();

    for (size_t i = 0; i < LIMIT_COUNT; i++) {
        int64_t value = limits_get(&plan->limits, &limit_rows[i]);

        (void)json_object_set_new(object, limit_rows[i].name,
                                  value ? json_integer(value) : json_null());
    }
    return object;
}

const char *plan_network_name(enum plan_network network)
{
    static const char *const names[] = {
        [NETWORK_NONE] = "none", [NETWORK_BRIDGE] = "bridge", [NETWORK_GATE] = "gate"
    };

    return names[network];
}

static json_t *gate_json(const struct plan_gate *gate)
{
    json_t *object =
        json_pack("{s:o, s:o}", "allow", list(&gate->allow), "deny", list(&gate->deny));

    if (gate->secrets.count)
        (void)json_object_set_new(object, "secrets", list(&gate->secrets));
    return object;
}

static const char *keep_name(enum plan_keep keep)
{
    static const char *const names[] = { "head", "tail", "both" };

    return names[keep];
}

static json_t *ports(const struct plan_container *c)
{
    json_t *array = json_array();

    for (size_t i = 0; i < c->port_count; i++)
        (void)json_array_append_new(
            array,
            json_pack("{s:o, s:i, s:i, s:s}", "address", text(c->ports[i].address),
                      "host", (int)c->ports[i].host, "inside", (int)c->ports[i].inside,
                      "protocol", c->ports[i].udp ? "udp" : "tcp"));
    return array;
}

static json_t *caches(const struct plan_container *c)
{
    json_t *array = json_array();

    for (size_t i = 0; i < c->cache_count; i++)
        (void)json_array_append_new(
            array, json_pack("{s:o, s:o}", "volume", text(c->caches[i].volume),
                             "target", text(c->caches[i].target)));
    return array;
}

static const char *pull_name(enum plan_pull pull)
{
    static const char *const names[] = { "missing", "always", "never" };

    return names[pull];
}

static json_t *container(const struct plan_container *c)
{
    auto_str struct str user = { 0 };

    if (c->open_ms == 0) /* no engine */
        return json_null();
    if (c->uid)
        str_printf(&user, "%u:%u", c->uid, c->gid);
    return json_pack(
        "{s:o*, s:o*, s:o, s:o, s:o, s:o, s:o, s:o, s:I, s:I, s:I, s:o*, s:o*, s:o*, s:s, s:I}",
        "user", user.len ? text(user.data) : NULL, "nproc",
        c->nproc ? text("pids") : NULL, "prefix", text(c->prefix), "runtime",
        text(c->runtime), "network_name", text(c->network_name), "dns", list(&c->dns),
        "ports", ports(c), "caches", caches(c), "open_ms", (json_int_t)c->open_ms,
        "retries", (json_int_t)c->retries, "retry_ms", (json_int_t)c->retry_ms,
        "containers", c->most ? json_integer(c->most) : NULL, "all_containers",
        c->most_all ? json_integer(c->most_all) : NULL, "network_timeout_ms",
        c->network_ms ? json_integer(c->network_ms) : NULL, "pull", pull_name(c->pull),
        "pull_ms", (json_int_t)c->pull_ms);
}

/* Only what differs from the usual vessel. */
static int add_root(const struct plan_root *root, json_t *object)
{
    int rc = 0;

    if (root->writable)
        rc |= json_object_set_new(object, "root_mode", text("rw"));
    if (root->as_root)
        rc |= json_object_set_new(object, "user", text("root"));
    if (root->sudo)
        rc |= json_object_set_new(object, "sudo", text("nopasswd"));
    return rc;
}

json_t *plan_json(const struct plan *plan)
{
    const struct {
        const char *name;
        json_t *value;
    } members[] = {
        { "id", text(plan->id) },
        { "driver", text(plan->driver) },
        { "language", text(plan->language) },
        { "compile", list(&plan->compile_argv) },
        { "argv", list(&plan->argv) },
        { "env", list(&plan->env) },
        { "workdir", text(plan->workdir) },
        { "cwd", text(plan->cwd) },
        { "code", plan->code.data ? content(&plan->code) : json_null() },
        { "files", files(plan) },
        { "outputs", list(&plan->outputs) },
        { "artifacts", text(plan->artifacts) },
        { "stdin", stdin_json(plan) },
        { "limits", limits(plan) },
        { "network", text(plan_network_name(plan->network)) },
        { "output_keep", text(keep_name(plan->keep)) },
        { "mounts", mounts(plan) },
        { "image", text(plan->image) },
        { "rootfs", text(plan->rootfs) },
        { "seccomp", text(plan->seccomp) },
        { "hostname", text(plan->hostname) },
        { "require", list(&plan->require) },
        { "end_on", list(&plan->end_on) },
        { "session", text(plan->label_session) },
        { "task", text(plan->label_task) },
        { "container", container(&plan->container) },
    };
    json_t *object = json_object();
    int rc = object ? 0 : -1;

    rc |= object ? add_root(&plan->root, object) : 0;
    if (plan->network == NETWORK_GATE)
        rc |= json_object_set_new(object, "gate", gate_json(&plan->gate));
    if (plan->entrypoint)
        rc |= json_object_set_new(object, "entrypoint", text("image"));
    if (plan->count_denied)
        rc |= json_object_set_new(object, "denials", text("count"));
    if (plan->fixed_addresses)
        rc |= json_object_set_new(object, "addresses", text("fixed"));
    if (plan->seccomp_file)
        rc |= json_object_set_new(
            object, "seccomp_file",
            json_pack("{s:s, s:s, s:I}", "path", plan->seccomp_file, "sha256",
                      plan->custom.sha256, "rules", (json_int_t)plan->custom.rules));
    if (plan->output_note)
        rc |= json_object_set_new(object, "output_note", text(plan->output_note));
    if (plan->stop_ms > 0)
        rc |= json_object_set_new(object, "stop_ms",
                                  json_integer((json_int_t)plan->stop_ms));
    for (size_t i = 0; i < sizeof(members) / sizeof(members[0]); i++)
        rc |= json_object_set_new(object, members[i].name, members[i].value);
    if (rc == 0)
        return object;
    json_decref(object);
    return NULL;
}
