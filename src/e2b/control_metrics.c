/* SPDX-License-Identifier: Apache-2.0 */

/* What a sandbox uses: of its processors and memory as its control group has it, of its
 * disk as a program inside sees it. It is looked at when somebody asks, once a second
 * at most, and what was seen is kept for a while. */

#include <stdlib.h>
#include <string.h>

#include "api/inside.h"
#include "base/auto.h"
#include "base/clock.h"
#include "base/fail.h"
#include "base/unit.h"
#include "e2b/control.h"

#define SOON_MS 1000 /* it was just looked at */
#define DISK_MS 3000 /* for who says how full the disk is */
#define IDS     100  /* asked for at once */

/* 0 when there is none. */
static uint64_t next_number(const char **at)
{
    char *end;
    uint64_t number = strtoull(*at, &end, 10);

    *at = end;
    return number;
}

/* How much of the disk is taken, in bytes; 0: that cannot be had. */
static uint64_t disk_used(struct ask *a, struct box *box)
{
    static const char *const argv[] = { "/bin/sh", "-c", "stat -f -c '%S %b %f' .",
                                        NULL };
    const struct vial_exec_options o = { .argv = argv,
                                         .cwd = BOX_HOME,
                                         .timeout_ms = DISK_MS,
                                         .ended = ask_ended,
                                         .context = box->caller };
    struct vial_error ignored = { 0 };
    struct vial_exec *exec = NULL;
    struct vial_exec_status status;
    struct vial_chunk chunk = { 0 };
    uint64_t size, all, left;
    char text[128] = "";
    const char *at = text;

    if (ask_start(a, &ignored) < 0)
        return 0;
    if (vial_session_exec(box_session(box), &o, &exec, &ignored) < 0) {
        ask_ended(box->caller);
        return 0;
    }
    vial_exec_wait(exec, DISK_MS + SOON_MS, &status);
    if (vial_exec_read(exec, 1, 0, text, sizeof(text) - 1, 0, &chunk, &ignored) == 0)
        text[chunk.len] = '\0';
    vial_exec_free(exec);
    /* The sandbox's word: no more than it can have. */
    size = next_number(&at);
    all = next_number(&at);
    left = next_number(&at);
    if (left > all || (all - left) > (uint64_t)box->disk_bytes / (size ? size : 1))
        return 0;
    return (all - left) * size;
}

/* Of all processors that it may use, since it was looked at before. */
static double cpu_share(const struct box *box, const struct box_load *before,
                        const struct box_load *now)
{
    double ms = (double)(now->at_ms - (before ? before->at_ms : box->started_ms));
    double cores = (double)(box->cpus_milli ? box->cpus_milli : 1000) / 1000;
    double share =
        ms > 0 ? 100 * (now->cpu_ms - (before ? before->cpu_ms : 0)) / ms / cores : 0;

    return share < 0 ? 0 : share;
}

static void keep(struct box *box, struct box_load *now)
{
    (void)pthread_mutex_lock(&box->lock);
    now->cpu_pct = cpu_share(
        box, box->load_count ? &box->loads[(box->load_count - 1) % BOX_LOADS] : NULL,
        now);
    box->loads[box->load_count++ % BOX_LOADS] = *now;
    (void)pthread_mutex_unlock(&box->lock);
}

static bool is_fresh(struct box *box, int64_t now_ms)
{
    bool fresh;

    (void)pthread_mutex_lock(&box->lock);
    fresh = box->load_count > 0 &&
            now_ms - box->loads[(box->load_count - 1) % BOX_LOADS].at_ms < SOON_MS;
    (void)pthread_mutex_unlock(&box->lock);
    return fresh;
}

/* A paused one does nothing: what was seen last holds. */
static void look(struct ask *a, struct box *box)
{
    struct box_load now = { .at_ms = control_now_ms() };
    struct inside_load load = { 0 };
    struct vial_error ended = { 0 };

    if (atomic_load(&box->paused_ms) || is_fresh(box, now.at_ms))
        return;
    now.disk_bytes = disk_used(a, box);
    if (inside_load(box_session(box), &load, &ended) < 0)
        return;
    now.cpu_ms = load.cpu_ms;
    now.memory_bytes = load.memory_bytes;
    now.cache_bytes = load.cache_bytes;
    now.at_ms = control_now_ms();
    keep(box, &now);
}

static json_t *metric(const struct box *box, const struct box_load *l)
{
    char stamp[CONTROL_STAMP];

    control_stamp(l->at_ms, stamp);
    return json_pack("{s:s, s:I, s:I, s:f, s:I, s:I, s:I, s:I, s:I}", "timestamp",
                     stamp, "timestampUnix", (json_int_t)(l->at_ms / 1000), "cpuCount",
                     (json_int_t)((box->cpus_milli + 999) / 1000), "cpuUsedPct",
                     l->cpu_pct, "memUsed",
                     (json_int_t)(l->memory_bytes - l->cache_bytes), "memTotal",
                     (json_int_t)box->memory_bytes, "memCache",
                     (json_int_t)l->cache_bytes, "diskUsed", (json_int_t)l->disk_bytes,
                     "diskTotal", (json_int_t)box->disk_bytes);
}

static json_t *metrics_between(struct box *box, int64_t from_s, int64_t to_s)
{
    json_t *all = json_array();
    unsigned first;

    (void)pthread_mutex_lock(&box->lock);
    first = box->load_count > BOX_LOADS ? box->load_count - BOX_LOADS : 0;
    for (unsigned i = first; i < box->load_count; i++) {
        const struct box_load *l = &box->loads[i % BOX_LOADS];

        if (l->at_ms / 1000 >= from_s && l->at_ms / 1000 <= to_s)
            (void)json_array_append_new(all, metric(box, l));
    }
    (void)pthread_mutex_unlock(&box->lock);
    return all;
}

static int read_time(struct ask *a, const char *name, int64_t *out,
                     struct vial_error *err)
{
    const char *text = web_query(a->web, name);

    return !text || unit_parse_count(text, out) == 0
               ? 0
               : fail(err, VIAL_E_VALUE, "'%s' is not a time in seconds", name);
}

void control_metrics(struct ask *a)
{
    auto_box struct box *box = control_own(a);
    struct vial_error err = { 0 };
    int64_t from_s = 0;
    int64_t to_s = INT64_MAX;

    if (!box)
        return;
    if (read_time(a, "start", &from_s, &err) < 0 ||
        read_time(a, "end", &to_s, &err) < 0) {
        ask_error(a, &err);
        return;
    }
    look(a, box);
    ask_json(a, 200, metrics_between(box, from_s, to_s));
}

static void add_newest(struct ask *a, json_t *all, const char *id)
{
    auto_box struct box *box = boxes_find(a->e2b, id);
    auto_json json_t *list = NULL;

    if (!box || strcmp(box->owner, a->owner.name) != 0)
        return;
    look(a, box);
    list = metrics_between(box, 0, INT64_MAX);
    if (json_array_size(list) > 0)
        (void)json_object_set(all, id, json_array_get(list, json_array_size(list) - 1));
}

/* Those that are not the caller's are left out. */
void control_all_metrics(struct ask *a)
{
    const char *ids = web_query(a->web, "sandbox_ids");
    auto_free char *copy = strdup(ids ? ids : "");
    json_t *all = json_object();
    char *rest = copy;
    unsigned count = 0;

    for (char *id = copy ? strsep(&rest, ",") : NULL; id; id = strsep(&rest, ","))
        if (*id && count++ < IDS)
            add_newest(a, all, id);
    if (count <= IDS) {
        ask_json(a, 200, json_pack("{s:o}", "sandboxes", all));
        return;
    }
    json_decref(all);
    ask_refuse(a, 400, "'sandbox_ids' has more than %d", IDS);
}
