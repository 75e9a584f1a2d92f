/* SPDX-License-Identifier: Apache-2.0 */
#include "base/auto.h"
#include "base/fail.h"
#include "base/json.h"
#include "engine/engine.h"
#include "engine/record/run_log.h"
#include "model/vessel_list.h"

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
