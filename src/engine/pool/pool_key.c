/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/pool/pool_key.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/fail.h"
#include "base/text.h"

#define FORKED_MAX (64u << 10) /* of arguments and environment, sent in one go */

/* Labels and caches are part of a container from its beginning; and what a registry is
 * to be asked for anew cannot have been opened before. */
bool pool_can_wait(const struct driver *driver, const struct plan *plan)
{
    bool labelled = plan->label_session || plan->label_task;

    if (driver->far && plan_most_ms(plan) > POOL_STAY_MS / 2)
        return false;
    return driver->waits && plan->mount_count == 0 && plan->network != NETWORK_BRIDGE &&
           plan->container.cache_count == 0 && plan->container.port_count == 0 &&
           plan->container.pull != PULL_ALWAYS && !(driver->wants_image && labelled);
}

/* "python3 {dir}/main.py", whatever its version. One that was started before has the
 * addresses of whoever started it. */
static bool is_python(const struct plan *plan)
{
    return plan->language && !plan->rootfs && plan->argv_own == 2 &&
           !plan->count_denied && !plan->fixed_addresses && plan->argv.count >= 2 &&
           plan->compile_argv.count == 0 && plan->code.len == 0 &&
           str_starts(plan->argv.items[0], "python3") &&
           str_eq(plan->argv.items[1], "{dir}/main.py") &&
           str_eq(plan->workdir, "/work");
}

/* "node {dir}/main.js" of a language whose own places are the vessel's. */
static bool is_node(const struct plan *plan)
{
    return plan->language && !plan->rootfs && plan->argv_own == 2 &&
           !plan->fixed_addresses && plan->argv.count >= 2 &&
           plan->compile_argv.count == 0 && plan->code.len == 0 &&
           str_eq(plan->argv.items[0], "node") &&
           str_eq(plan->argv.items[1], "{dir}/main.js");
}

/* A zygote is a python of this host, which is none of an image's. */
bool pool_can_fork(const struct driver *driver, const struct plan *plan)
{
    return driver->fork_into && is_python(plan) && !plan->seccomp_file &&
           !plan_has_root(plan);
}

/* An image's own python is started in the vessel where it stays. */
bool pool_can_prestart(const struct driver *driver, const struct plan *plan)
{
    return driver->waits && (is_node(plan) || (driver->fork_into && is_python(plan) &&
                                               plan_has_root(plan)));
}

static void add_text(struct str *s, const char *text)
{
    str_printf(s, "%s\n", text ? text : "-");
}

static void add_some(struct str *s, const struct strv *list, size_t count)
{
    for (size_t i = 0; i < count && i < list->count; i++)
        add_text(s, list->items[i]);
}

static void add_limits(struct str *s, const struct limits *limits)
{
    for (size_t i = 0; i < LIMIT_COUNT; i++)
        if (limit_rows[i].hold == LIMIT_AT_OPENING)
            str_printf(s, "%lld\n", (long long)limits_get(limits, &limit_rows[i]));
}

/* NULL ends them. */
static void add_lists(struct str *s, const struct strv *const *lists)
{
    for (; *lists; lists++) {
        str_printf(s, "%zu\n", (*lists)->count);
        add_some(s, *lists, (*lists)->count);
    }
}

/* Its gate is there as long as the vessel is, with the rules that it began with. */
static void add_gate(struct str *s, const struct plan_gate *gate)
{
    const struct strv *const lists[] = { &gate->allow,
                                         &gate->deny,
                                         &gate->unchecked,
                                         &gate->resolvers,
                                         &gate->private_in,
                                         &gate->secrets,
                                         NULL };

    add_lists(s, lists);
}

/* A pod has them from its beginning. */
static void add_pod(struct str *s, const struct pod_settings *pod)
{
    const struct strv *const lists[] = { &pod->node_selector, &pod->tolerations,
                                         &pod->pull_secrets,  &pod->labels,
                                         &pod->annotations,   NULL };

    add_lists(s, lists);
    add_text(s, pod->priority_class);
}

char *pool_key(const struct driver *driver, const struct plan *plan)
{
    const struct plan_container *c = &plan->container;
    auto_str struct str s = { 0 };

    add_text(&s, driver->name);
    add_text(&s, plan->image);
    add_text(&s, plan->root.store);
    str_printf(&s, "%d%d%d\n", (int)plan->root.writable, (int)plan->root.as_root,
               (int)plan->root.sudo);
    add_text(&s, plan->rootfs);
    add_text(&s, plan->seccomp);
    add_text(&s, plan->seccomp_file);
    add_text(&s, plan->custom.sha256);
    add_text(&s, plan->count_denied ? "denied" : NULL);
    add_text(&s, plan->fixed_addresses ? "fixed" : NULL);
    add_text(&s, plan->hostname);
    add_text(&s, plan->workdir);
    /* A runtime is asked for as a wall: a vessel without it is another one. */
    add_text(&s, c->runtime);
    add_text(&s, c->prefix);
    str_printf(&s, "%u:%u %d\n", c->uid, c->gid, (int)c->nproc);
    str_printf(&s, "%d\n", (int)plan->network);
    add_gate(&s, &plan->gate);
    add_pod(&s, &plan->pod);
    add_limits(&s, &plan->limits);
    if (pool_can_fork(driver, plan) || pool_can_prestart(driver, plan)) {
        add_some(&s, &plan->argv, plan->argv_own);
        add_some(&s, &plan->env, plan->env_own);
    }
    return str_ok(&s) ? str_take(&s) : NULL;
}

static bool is_lower(int64_t wanted, int64_t open)
{
    return open == 0 || (wanted != 0 && wanted <= open);
}

bool pool_fits(const struct limits *open, const struct plan *plan)
{
    for (size_t i = 0; i < LIMIT_COUNT; i++) {
        const struct limit_row *row = &limit_rows[i];

        if ((row->hold == LIMIT_LOWERED || row->hold == LIMIT_BY_BOTH) &&
            !is_lower(limits_get(&plan->limits, row), limits_get(open, row)))
            return false;
    }
    return true;
}

bool pool_needs_limits(const struct limits *open, const struct plan *plan)
{
    for (size_t i = 0; i < LIMIT_COUNT; i++) {
        const struct limit_row *row = &limit_rows[i];

        if (row->hold == LIMIT_LOWERED &&
            limits_get(&plan->limits, row) != limits_get(open, row))
            return true;
    }
    return false;
}

/* Whether interpreters, their libraries or the dynamic linker read this variable as
 * they start. */
static bool is_read_at_start(const char *entry)
{
    static const char *const prefixes[] = {
        "PYTHON",  "LD_",    "LC_",   "LANG",  "GLIBC_", "MALLOC_", "OPENSSL_",
        "SSL_",    "TZ",     "OMP_",  "GOTO",  "OPENBL", "MKL_",    "BLIS_",
        "NUMEXPR", "NPY_",   "NUMPY", "PANDA", "MPL",    "GCONV_",  "NLSP",
        "LOCPATH", "TMPDIR", "XDG_",  "HOME=", "NODE_",  "UV_",     "ICU_",
    };

    for (size_t i = 0; i < sizeof(prefixes) / sizeof(*prefixes); i++)
        if (str_starts(entry, prefixes[i]))
            return true;
    return false;
}

/* A program can be an archive too, which python looks for before its first line;
 * and it looks for packages of the user's own. */
static bool is_looked_at_early(const struct plan_file *file)
{
    if (str_starts(file->path, ".local/") || str_starts(file->path, ".config/") ||
        str_eq(file->path, "pyvenv.cfg"))
        return true;
    return str_eq(file->path, "main.py") && file->content.len >= 4 &&
           memmem(file->content.data, file->content.len, "PK\5\6", 4) != NULL;
}

/* Whether node can be told it as JSON, which holds text alone, and lengthens control
 * characters sixfold. */
static bool can_be_said(const struct strv *list)
{
    for (size_t i = 0; i < list->count; i++) {
        const char *text = list->items[i];

        if (!text_is_utf8(text, strlen(text)))
            return false;
        for (; *text; text++)
            if ((unsigned char)*text < ' ' && !strchr("\t\n\r", *text))
                return false;
    }
    return true;
}

/* One that has started already, where it stays. */
static bool may_go_on(const struct plan *plan, bool node)
{
    return str_eq(plan->cwd, plan->workdir) && !strv_has(&plan->end_on, "disk") &&
           (!node || (can_be_said(&plan->argv) && can_be_said(&plan->env)));
}

bool pool_may_use_forked(const struct plan *plan)
{
    size_t total = 0;
    bool node = str_eq(plan->argv.items[0], "node");

    if ((node || plan_has_root(plan)) && !may_go_on(plan, node))
        return false;
    for (size_t i = plan->env_own; i < plan->env.count; i++)
        if (is_read_at_start(plan->env.items[i]))
            return false;
    for (size_t i = 0; i < plan->file_count; i++)
        if (is_looked_at_early(&plan->files[i]))
            return false;
    for (size_t i = 0; i < plan->env.count; i++)
        total += strlen(plan->env.items[i]) + 8;
    for (size_t i = 0; i < plan->argv.count; i++)
        total += strlen(plan->argv.items[i]) + 8;
    return total < FORKED_MAX;
}

static char *copy(const char *text, bool *failed)
{
    char *out = text ? strdup(text) : NULL;

    *failed = *failed || (text && !out);
    return out;
}

static void copy_some(struct strv *to, const struct strv *from, size_t count)
{
    for (size_t i = 0; i < count && i < from->count; i++)
        strv_push(to, from->items[i]);
}

/* Copies the parts that a plan which can wait may have. */
static void copy_container(struct plan_container *to, const struct plan_container *from,
                           bool *failed)
{
    to->runtime = copy(from->runtime, failed);
    to->prefix = copy(from->prefix, failed);
    to->uid = from->uid;
    to->gid = from->gid;
    to->nproc = from->nproc;
    to->open_ms = from->open_ms;
    to->retries = from->retries;
    to->retry_ms = from->retry_ms;
    to->most = from->most;
    to->most_all = from->most_all;
    to->network_ms = from->network_ms;
    to->pull = from->pull;
    to->pull_ms = from->pull_ms;
}

static bool copy_gate(struct plan_gate *to, const struct plan_gate *from)
{
    strv_copy(&to->secrets, &from->secrets);
    strv_copy(&to->allow, &from->allow);
    strv_copy(&to->deny, &from->deny);
    strv_copy(&to->unchecked, &from->unchecked);
    strv_copy(&to->resolvers, &from->resolvers);
    strv_copy(&to->private_in, &from->private_in);
    return strv_ok(&to->allow) && strv_ok(&to->deny) && strv_ok(&to->unchecked) &&
           strv_ok(&to->resolvers) && strv_ok(&to->private_in) && strv_ok(&to->secrets);
}

static int copy_custom(struct custom_profile *to, const struct custom_profile *from)
{
    memcpy(to->sha256, from->sha256, sizeof(to->sha256));
    to->rules = from->rules;
    return from->filter.len ? blob_set(&to->filter, from->filter.data, from->filter.len)
                            : 0;
}

int pool_template(const struct plan *plan, struct plan **out, struct vial_error *err)
{
    auto_plan struct plan *p = calloc(1, sizeof(*p));
    bool failed = false;

    if (!p)
        return fail_memory(err);
    memcpy(p->id, plan->id, sizeof(p->id));
    p->driver = copy(plan->driver, &failed);
    p->language = copy(plan->language, &failed);
    p->workdir = copy(plan->workdir, &failed);
    p->cwd = copy(plan->workdir, &failed);
    p->image = copy(plan->image, &failed);
    p->rootfs = copy(plan->rootfs, &failed);
    p->root = plan->root;
    p->root.store = copy(plan->root.store, &failed);
    p->seccomp = copy(plan->seccomp, &failed);
    p->count_denied = plan->count_denied;
    p->fixed_addresses = plan->fixed_addresses;
    p->seccomp_file = copy(plan->seccomp_file, &failed);
    failed = failed || copy_custom(&p->custom, &plan->custom) < 0;
    p->hostname = copy(plan->hostname, &failed);
    copy_container(&p->container, &plan->container, &failed);
    p->limits = plan->limits;
    p->network = plan->network;
    failed = failed || !copy_gate(&p->gate, &plan->gate) ||
             pod_settings_copy(&p->pod, &plan->pod) < 0;
    p->keep = plan->keep;
    p->stay_ms = POOL_STAY_MS;
    p->argv_own = plan->argv_own;
    p->env_own = plan->env_own;
    copy_some(&p->argv, &plan->argv, plan->argv_own);
    copy_some(&p->env, &plan->env, plan->env_own);
    strv_copy(&p->compile_argv, &plan->compile_argv);
    if (failed || !strv_ok(&p->argv) || !strv_ok(&p->env) || !strv_ok(&p->compile_argv))
        return fail_memory(err);
    *out = ptr_take(&p);
    return 0;
}
