/* SPDX-License-Identifier: Apache-2.0 */
#include "batch/tally.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "model/result.h"

#define FAILED_FEW 20u /* so many rows may fail in any batch without ending it */

int tally_init(struct tally *t)
{
    *t = (struct tally){ .started_ns = clock_now_ns(),
                         .times = calloc(TALLY_TIMES, sizeof(*t->times)),
                         .ids = json_object(),
                         .languages = json_object() };
    return t->times && t->ids && t->languages && samples_open(&t->tasks) == 0 ? 0 : -1;
}

void tally_done(struct tally *t)
{
    free(t->times);
    json_decref(t->ids);
    json_decref(t->languages);
    samples_close(&t->tasks);
}

/* The upper half of a positive float's bits: its order is that of the numbers, and two
 * in one place differ by less than a hundredth. */
static size_t place_of(double ms)
{
    float value = ms > 0 ? (float)ms : 0;
    uint32_t bits;

    memcpy(&bits, &value, sizeof(bits));
    return bits >> 16;
}

static double time_at(size_t place)
{
    uint32_t bits = (uint32_t)place << 16;
    float value;

    memcpy(&value, &bits, sizeof(value));
    return (double)value;
}

static void keep_time(struct tally *t, double ms)
{
    t->times[place_of(ms)]++;
    t->timed++;
}

/* A row with `reference: true` has a solution that is known to be right. */
static void count_reference(struct tally *t, const json_t *row, bool passed)
{
    if (!json_is_true(json_object_get(row, "reference")))
        return;
    t->references++;
    t->bad_references += !passed;
}

bool tally_fails_much(const struct tally *t, double share)
{
    size_t failed = t->verdicts[VIAL_FAILED];

    return failed >= FAILED_FEW &&
           (double)failed > share * (double)(t->done + t->resumed);
}

static void keep_slip(struct tally *t, const struct row *row)
{
    if (t->slip.line || !row->meant)
        return;
    t->slip.line = row->line;
    (void)snprintf(t->slip.name, sizeof(t->slip.name), "%s", row->slip);
    (void)snprintf(t->slip.meant, sizeof(t->slip.meant), "%s", row->meant);
}

static void keep_id(struct tally *t, const char *kind, json_t *id)
{
    json_t *list = json_object_get(t->ids, kind);

    if (!list) {
        list = json_array();
        (void)json_object_set_new(t->ids, kind, list);
    }
    if (json_array_size(list) < TALLY_IDS && json_string_length(id) <= TALLY_ID_BYTES)
        (void)json_array_append(list, id);
}

/* Who looks for a row that did not pass finds it here. */
static void keep_ids(struct tally *t, json_t *id, const char *verdict, bool passed,
                     bool flaky)
{
    bool is_ok = strcmp(verdict, "ok") == 0;

    if (!is_ok || !passed)
        keep_id(t, is_ok ? "wrong" : verdict, id);
    if (flaky)
        keep_id(t, "flaky", id);
}

static void keep_language(struct tally *t, const json_t *fields)
{
    const char *name = json_string_value(json_object_get(fields, "language"));

    if (name && strlen(name) <= TALLY_ID_BYTES &&
        json_object_size(t->languages) < TALLY_LANGUAGES)
        (void)json_object_set_new(t->languages, name, json_null());
}

void tally_add(struct tally *t, const struct row *row, const struct grade *g)
{
    keep_time(t, g->run_ms);
    t->done++;
    t->passed += g->passed;
    t->verdicts[g->verdict]++;
    t->compiles[g->verdict] += g->in_compile;
    keep_ids(t, row->id, vial_verdict_name(g->verdict), g->passed, g->flaky);
    keep_language(t, row->fields);
    t->retried += g->attempts > 1;
    t->cpu_ms += g->cpu_ms;
    if (g->verdict == VIAL_FAILED && !t->first.code[0])
        t->first = g->error;
    t->flaky += g->flaky;
    keep_slip(t, row);
    count_reference(t, row->rest, g->passed);
    samples_add(&t->tasks, row->id, g->passed);
}

/* Of a line: that of its first test which was not passed has the row's verdict. */
static bool is_of_compiler(const json_t *line)
{
    const json_t *tests = json_object_get(line, "tests");
    const json_t *told = line;

    for (size_t i = 0; i < json_array_size(tests); i++) {
        told = json_array_get(tests, i);
        if (!json_is_true(json_object_get(told, "passed")))
            break;
    }
    told = json_object_get(told, "stage");
    return json_is_string(told) && strcmp(json_string_value(told), "compile") == 0;
}

void tally_resume(struct tally *t, const json_t *line)
{
    const char *verdict = json_string_value(json_object_get(line, "verdict"));
    bool passed = json_is_true(json_object_get(line, "passed"));
    bool flaky = json_is_true(json_object_get(line, "flaky"));
    bool compiles = is_of_compiler(line);

    t->resumed++;
    t->passed += passed;
    for (size_t i = 0; verdict && result_verdicts[i]; i++)
        if (strcmp(result_verdicts[i], verdict) == 0) {
            t->verdicts[i]++;
            t->compiles[i] += compiles;
            keep_ids(t, json_object_get(line, "id"), verdict, passed, flaky);
        }
    t->flaky += flaky;
    count_reference(t, line, passed);
    samples_add(&t->tasks, json_object_get(line, "id"), passed);
}

static double seconds(const struct tally *t)
{
    return clock_ms_between(t->started_ns, clock_now_ns()) / 1000;
}

void tally_progress(const struct tally *t, struct str *out)
{
    size_t done = t->done + t->resumed;
    double rate = seconds(t) > 0 ? (double)t->done / seconds(t) : 0;

    if (t->total)
        str_printf(out, "%zu/%zu %zu%%", done, t->total, done * 100 / t->total);
    else
        str_printf(out, "%zu done", done);
    str_printf(out, "  %.1f/s", rate);
    if (t->total && rate > 0)
        str_printf(out, "  %.0f s left", (double)(t->total - done) / rate);
    str_printf(out, "  passed %zu", t->passed);
    for (size_t i = 1; result_verdicts[i]; i++)
        if (t->verdicts[i])
            str_printf(out, "  %s %zu", result_verdicts[i], t->verdicts[i]);
}

static json_t *counts_json(const size_t *counts)
{
    json_t *verdicts = json_object();

    for (size_t i = 0; result_verdicts[i]; i++)
        if (counts[i])
            (void)json_object_set_new(verdicts, result_verdicts[i],
                                      json_integer((json_int_t)counts[i]));
    return verdicts;
}

/* The smallest of the times that PERCENT of them do not exceed, to a hundredth. */
static double quantile(const struct tally *t, size_t percent)
{
    size_t rank = (t->timed * percent + 99) / 100;
    size_t seen = 0;

    for (size_t place = 0; place < TALLY_TIMES && t->timed; place++) {
        seen += t->times[place];
        if (seen >= rank)
            return time_at(place);
    }
    return 0;
}

json_t *tally_json(struct tally *t)
{
    double wall = seconds(t);
    size_t rows = t->done + t->resumed;
    json_t *tasks = NULL;
    json_t *rates = samples_rates(&t->tasks, &tasks);

    return json_pack(
        "{s:I, s:I, s:I, s:I, s:{s:I, s:I}, s:o, s:{s:o}, s:O, s:o, s:o, s:I, s:f, s:f, "
        "s:f, s:f, s:f, s:s, s:o}",
        "rows", (json_int_t)rows, "resumed", (json_int_t)t->resumed, "passed",
        (json_int_t)t->passed, "flaky", (json_int_t)t->flaky, "references", "rows",
        (json_int_t)t->references, "failed", (json_int_t)t->bad_references, "verdicts",
        counts_json(t->verdicts), "stages", "compile", counts_json(t->compiles), "ids",
        t->ids, "pass_at", rates, "tasks", tasks, "retried", (json_int_t)t->retried,
        "seconds", wall, "rows_per_second", wall > 0 ? (double)t->done / wall : 0,
        "cpu_seconds", t->cpu_ms / 1000, "median_ms", quantile(t, 50), "p95_ms",
        quantile(t, 95), "version", vial_version(), "error", error_json(&t->first));
}
