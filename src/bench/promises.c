/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Every duration that one of the five documents promises, and the one size, measured
 * here beside its bound. Each is measured with its document's preset, as its reader
 * would meet it, on the native driver and on a container engine.
 */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/fail.h"
#include "base/str.h"
#include "bench/bench.h"
#include "bench/measure.h"
#include "cli/print.h"

#include "vial/keep.h"

struct promise {
    const char *id, *preset, *what; /* PRESET: NULL for none */
    trial_measure *measure;
    const char *driver;  /* NULL: both */
    double target, most; /* 0: the document names none */
    bool slow;           /* measured twice, whatever was asked for */
    const char *unit;    /* NULL: ms */
};

/* In the documents' order. What the documents promise of containers is measured on the
 * native driver too, where it means something there. */
static const struct promise promises[] = {
    { "K-02", "klaw", "a call in the kept container", trial_kept_run, .most = 100 },
    { "K-03", "klaw", "a call in a container of its own", trial_whole_run,
      .most = 5000 },
    { "A-11", "antigravity", "the first run", trial_first_run, "native", .most = 50 },
    { "A-11", "antigravity", "a warm run", trial_warm_run, "native", .most = 50 },
    { "A-11", "antigravity", "the first run", trial_first_run, "docker", .most = 3000 },
    { "A-11", "antigravity", "a warm run", trial_warm_run, "docker", .most = 100 },
    { "A-11", "antigravity", "the end by a time-out of 5 s", trial_timed_out,
      .most = 5100, .slow = true },
    { "NFR-020-01", "acode", "creation (with the start)", trial_opened, NULL, 1000,
      2000 },
    { "NFR-020-02", "acode", "cleanup (with the stop)", trial_closed, NULL, 500, 1000 },
    { "NFR-020-03", "acode", "more than direct execution", trial_overhead, NULL, 300,
      500 },
    { "NFR-020-05", "acode", "output, from write to callback", trial_output_lag, NULL,
      10, 50 },
    { "NFR-020-06", NULL, "setting up a mount", trial_mounted, NULL, 100, 500 },
    { "NFR-020-07", "acode", "start (with the creation)", trial_opened, NULL, 200,
      500 },
    { "NFR-020-08", "acode", "stop (with the cleanup)", trial_closed, NULL, 500, 2000 },
    { "NFR-020-09", "acode", "a call of the engine's API", trial_listed, "docker", 50,
      200 },
    { "NFR-020-11", "acode", "memory for one container", trial_held_open, NULL, 5, 20,
      .slow = true, .unit = "MB" },
    { "NFR-020-12", NULL, "cleanup of 10 orphans", trial_swept, "docker", 5000, 15000,
      .slow = true },
};

static int by_size(const void *a, const void *b)
{
    const double *x = a;
    const double *y = b;

    return (*x > *y) - (*x < *y);
}

static const char *judged(const struct promise *p, double p50)
{
    if (p50 > p->most)
        return "over the maximum";
    return p->target > 0 && p50 > p->target ? "over the target" : "holds";
}

static json_t *promise_json(const struct promise *p, const char *driver)
{
    return json_pack("{ss ss ss ss sf sf}", "id", p->id, "what", p->what, "driver",
                     driver, "unit", p->unit ? p->unit : "ms", "target", p->target,
                     "most", p->most);
}

static json_t *measure_promise(const struct promise *p, const char *driver,
                               size_t rounds)
{
    const struct vial_engine_options options = { .preset = p->preset };
    struct trial t = { .preset = p->preset, .driver = driver };
    size_t wanted = p->slow && rounds > 2 ? 2 : rounds;
    auto_free double *values = calloc(wanted, sizeof(*values));
    json_t *row = promise_json(p, driver);
    size_t count = 0;

    if (values && vial_engine_open(&options, &t.engine, &t.err) == 0)
        while (count < wanted && (values[count] = p->measure(&t)) >= 0)
            count++;
    if (count < wanted) {
        (void)json_object_set_new(row, "absent", json_string(t.err.message));
    } else {
        qsort(values, count, sizeof(*values), by_size);
        (void)json_object_update_new(
            row, json_pack("{sI sf sf ss}", "runs", (json_int_t)count, "p50",
                           values[count / 2], "worst", values[count - 1], "judged",
                           judged(p, values[count / 2])));
    }
    vial_keep_close(t.keep);
    vial_engine_close(t.engine);
    return row;
}

int bench_promises(size_t rounds, json_t **out, struct vial_error *err)
{
    static const char *const drivers[] = { "native", "docker" };
    json_t *rows = json_array();
    double load = 0;

    (void)getloadavg(&load, 1);
    for (size_t i = 0; i < sizeof(promises) / sizeof(*promises); i++)
        for (size_t k = 0; k < 2; k++)
            if (!promises[i].driver || str_eq(promises[i].driver, drivers[k]))
                (void)json_array_append_new(
                    rows, measure_promise(&promises[i], drivers[k], rounds));
    *out = json_pack("{so sf sI}", "promises", rows, "load_before", load, "processors",
                     (json_int_t)sysconf(_SC_NPROCESSORS_ONLN));
    return *out ? 0 : fail_memory(err);
}

static void add_value(struct table *t, const json_t *row, const char *name)
{
    double value = json_number_value(json_object_get(row, name));
    char cell[48] = "";

    if (value > 0 || json_is_real(json_object_get(row, "p50")))
        (void)snprintf(cell, sizeof(cell), value < 10 ? "%.2f" : "%.0f", value);
    table_add(t, value > 0 || strcmp(name, "p50") == 0 ? cell : "");
}

static const char *text_of(const json_t *row, const char *name)
{
    const char *text = json_string_value(json_object_get(row, name));

    return text ? text : "";
}

int bench_print_promises(const json_t *result)
{
    static const char *const heads[] = { "row",    "what",    "driver",
                                         "unit",   "target",  "maximum",
                                         "median", "slowest", "" };
    static const char *const texts[] = { "id", "what", "driver", "unit" };
    static const char *const values[] = { "target", "most", "p50", "worst" };
    struct table t = { .columns = 9 };
    const json_t *row = NULL;
    size_t i = 0;

    for (size_t k = 0; k < 9; k++)
        table_add(&t, heads[k]);
    json_array_foreach(json_object_get(result, "promises"), i, row)
    {
        const char *absent = text_of(row, "absent");

        for (size_t k = 0; k < 4; k++)
            table_add(&t, text_of(row, texts[k]));
        for (size_t k = 0; k < 4; k++)
            add_value(&t, row, values[k]);
        table_add(&t, *absent ? "not measured" : text_of(row, "judged"));
        if (*absent)
            say("not measured: %s on %s: %s", text_of(row, "what"),
                text_of(row, "driver"), absent);
    }
    return table_print(&t);
}
