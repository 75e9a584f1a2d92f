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
                         .times = calloc(TALLY_TIMES, sizeof(*t->times)) };
    return t->times && samples_open(&t->tasks) == 0 ? 0 : -1;
}

void tally_done(struct tally *t)
{
    free(t->times);
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

void tally_add(struct tally *t, const struct row *row, const struct grade *g)
{
    keep_time(t, g->run_ms);
    t->done++;
    t->passed += g->passed;
    t->verdicts[g->verdict]++;
    t->retried += g->attempts > 1;
    t->cpu_ms += g->cpu_ms;
    if (g->verdict == VIAL_FAILED && !t->first.code[0])
        t->first = g->error;
    t->flaky += g->flaky;
    keep_slip(t, row);
    count_reference(t, row->rest, g->passed);
    samples_add(&t->tasks, row->id, g->passed);
}

void tally_resume(struct tally *t, const json_t *line)
{
    const char *verdict = json_string_value(json_object_get(line, "verdict"));
    bool passed = json_is_true(json_object_get(line, "passed"));

    t->resumed++;
    t->passed += passed;
    for (size_t i = 0; verdict && result_verdicts[i]; i++)
        t->verdicts[i] += strcmp(result_verdicts[i], verdict) == 0;
    t->flaky += json_is_true(json_object_get(line, "flaky"));
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

static json_t *verdicts_json(const struct tally *t)
{
    json_t *verdicts = json_object();

    for (size_t i = 0; result_verdicts[i]; i++)
        if (t->verdicts[i])
            (void)json_object_set_new(verdicts, result_verdicts[i],
                                      json_integer((json_int_t)t->verdicts[i]));
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

    return json_pack(
        "{s:I, s:I, s:I, s:I, s:{s:I, s:I}, s:o, s:o, s:I, s:f, s:f, s:f, s:f, s:f, s:s, "
        "s:o}",
        "rows", (json_int_t)rows, "resumed", (json_int_t)t->resumed, "passed",
        (json_int_t)t->passed, "flaky", (json_int_t)t->flaky, "references", "rows",
        (json_int_t)t->references, "failed", (json_int_t)t->bad_references, "verdicts",
        verdicts_json(t), "pass_at", samples_rates(&t->tasks), "retried",
        (json_int_t)t->retried, "seconds", wall, "rows_per_second",
        wall > 0 ? (double)t->done / wall : 0, "cpu_seconds", t->cpu_ms / 1000,
        "median_ms", quantile(t, 50), "p95_ms", quantile(t, 95), "version",
        vial_version(), "error", error_json(&t->first));
}
