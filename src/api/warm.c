/* SPDX-License-Identifier: Apache-2.0 */
#include "vial/warm.h"

#include "api/give.h"
#include "base/fail.h"
#include "engine/pool/pool.h"
#include "engine/run/run.h"

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
