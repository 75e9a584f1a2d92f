/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "api/give.h"
#include "api/inside.h"
#include "base/auto.h"
#include "base/budget.h"
#include "base/fail.h"
#include "base/json.h"
#include "engine/engine.h"
#include "engine/pool/pool.h"
#include "engine/record/run_log.h"
#include "engine/run/run.h"
#include "engine/session/compile_once.h"
#include "model/result.h"
#include "model/vessel_list.h"
#include "settings/schema.h"

#include "vial/budget.h"
#include "vial/engine.h"
#include "vial/warm.h"

int vial_engine_open(const struct vial_engine_options *options,
                     struct vial_engine **out, struct vial_error *err)
{
    return engine_open(options, NULL, out, err);
}

void vial_engine_close(struct vial_engine *engine)
{
    engine_close(engine);
}

int vial_run(struct vial_engine *engine, const struct vial_request *req,
             const struct vial_watch *watch, struct vial_result **out,
             struct vial_error *err)
{
    struct vial_result *result = result_new();

    if (!result)
        return fail_memory(err);
    engine_run(engine, req, watch, result);
    *out = result;
    return 0;
}

int text_give(json_t *value, char **json, struct vial_error *err)
{
    char *text = value ? json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY) : NULL;

    json_decref(value);
    if (!text)
        return fail_memory(err);
    *json = text;
    return 0;
}

int vial_config(struct vial_engine *engine, char **json, struct vial_error *err)
{
    return text_give(settings_json(engine->settings), json, err);
}

int vial_schema(const char *kind, char **json, struct vial_error *err)
{
    json_t *schema = NULL;

    return schema_find(kind, &schema, err) < 0 ? -1 : text_give(schema, json, err);
}

int vial_preset(struct vial_engine *engine, char **json, struct vial_error *err)
{
    return text_give(preset_json(engine->settings->seed), json, err);
}

const char *vial_preset_name(const struct vial_engine *engine)
{
    return engine->settings->preset;
}

const char *vial_preset_code(const struct vial_engine *engine, const char *code)
{
    return preset_code(engine->settings->seed, code, NULL);
}

const char *vial_version(void)
{
    return VIAL_VERSION;
}

static int need_pool(const struct vial_engine *e, struct vial_error *err)
{
    if (e->pool)
        return 0;
    (void)fail(err, VIAL_E_USAGE, "the engine keeps no vessels warm");
    return fail_remedy(err, "call vial_engine_warm first");
}

int vial_engine_warm(struct vial_engine *engine,
                     const struct vial_warm_options *options, struct vial_error *err)
{
    if (engine->pool)
        return fail(err, VIAL_E_USAGE, "the engine keeps vessels warm already");
    return pool_open(engine, options, &engine->pool, err);
}

int vial_warm_ready(struct vial_engine *engine, const struct vial_request *req,
                    unsigned count, unsigned timeout_ms, struct vial_error *err)
{
    auto_plan struct plan *plan = NULL;
    const struct driver *driver = NULL;

    if (need_pool(engine, err) < 0 ||
        engine_plan(engine, req, &driver, &plan, err) < 0 ||
        admit_programs(driver, plan, err) < 0)
        return -1;
    return pool_want(engine->pool, driver, plan, count, timeout_ms, err);
}

unsigned vial_warm_waiting(struct vial_engine *engine)
{
    return engine->pool ? pool_waiting(engine->pool) : 0;
}

int vial_warm_report(struct vial_engine *engine, char **json, struct vial_error *err)
{
    if (need_pool(engine, err) < 0)
        return -1;
    return text_give(pool_json(engine->pool), json, err);
}

struct vial_budget *vial_budget_new(uint64_t memory_bytes, uint64_t disk_bytes)
{
    struct vial_budget *b = budget_new();

    vial_budget_set(b, memory_bytes, disk_bytes);
    return b;
}

void vial_budget_set(struct vial_budget *budget, uint64_t memory_bytes,
                     uint64_t disk_bytes)
{
    budget_set(budget, BUDGET_MEMORY, memory_bytes);
    budget_set(budget, BUDGET_DISK, disk_bytes);
}

void vial_budget_look(struct vial_budget *budget, uint64_t *memory_bytes,
                      uint64_t *disk_bytes)
{
    *memory_bytes = budget_used(budget, BUDGET_MEMORY);
    *disk_bytes = budget_used(budget, BUDGET_DISK);
}

void vial_budget_free(struct vial_budget *budget)
{
    budget_unref(budget);
}

int vial_journal(struct vial_engine *engine, const char *run, char **json,
                 struct vial_error *err)
{
    const char *home = engine->settings->home;
    struct vial_error why = { 0 };
    auto_json json_t *value = NULL;
    int rc =
        run ? run_log_find(home, run, &value, &why) : run_log_list(home, &value, &why);

    if (rc < 0 && err)
        *err = why;
    if (rc < 0)
        return -1;
    *json = json_dumps(value, JSON_COMPACT);
    return *json ? 0 : fail_memory(err);
}

/* An engine that does not answer has none. */
static void write_vessels(struct vial_engine *engine, struct str *out)
{
    struct vial_error err = { 0 };
    auto_vessels struct vial_vessels list = { 0 };
    unsigned orphans = 0;

    if (vial_vessel_list(engine, NULL, &list, &err) < 0)
        list = (struct vial_vessels){ 0 };
    for (size_t i = 0; i < list.count; i++)
        orphans += list.items[i].orphan;
    metrics_write_vessels((unsigned)list.count, orphans, out);
}

int vial_metrics(struct vial_engine *engine, char **text, struct vial_error *err)
{
    auto_str struct str out = { 0 };
    struct vial_error why = { 0 };
    struct metrics m;
    int rc;

    if (metrics_init(&m) < 0)
        return fail_memory(err);
    rc = run_log_count(engine->settings->home, &m, &why);
    if (rc == 0)
        metrics_write_runs(&m, &out);
    metrics_done(&m);
    if (rc < 0 && err)
        *err = why;
    if (rc < 0)
        return -1;
    write_vessels(engine, &out);
    *text = str_take(&out);
    return *text ? 0 : fail_memory(err);
}

int inside_open(const struct vial_engine_options *options, struct settings *settings,
                struct vial_engine **out, struct vial_error *err)
{
    return engine_open(options, settings, out, err);
}

void inside_share(struct vial_engine *engine, const struct network_shares *shares)
{
    engine->shares = *shares;
}

const struct settings *inside_settings(const struct vial_engine *engine)
{
    return engine->settings;
}

bool inside_compiles(struct vial_engine *engine, const struct vial_request *req)
{
    return compile_fits(engine, req);
}

int inside_compile(struct vial_engine *engine, const struct vial_request *req,
                   const struct vial_session_options *options,
                   struct vial_request **out, double *cpu_ms, struct vial_error *err)
{
    return compile_once(engine, req, options, out, cpu_ms, err);
}

int inside_compile_told(struct vial_engine *engine, const struct vial_request *req,
                        const struct vial_session_options *options,
                        struct vial_request **out, struct vial_result **told,
                        struct vial_error *err)
{
    return compile_told(engine, req, options, out, told, err);
}
