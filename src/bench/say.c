/* SPDX-License-Identifier: Apache-2.0 */

/* Tells what was measured: as JSON, and from that as tables and as a picture. */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "bench/bench.h"
#include "cli/print.h"

static double quantile(const struct measured *m, double q)
{
    size_t at = (size_t)((double)m->count * q);

    return m->ms[at < m->count ? at : m->count - 1];
}

static const struct measured *base_of(const struct bench *b, size_t i)
{
    size_t first = 0;

    while (strcmp(bench_ways[first].group, bench_ways[i].group) != 0)
        first++;
    return &b->at[first];
}

static json_t *row_json(const struct bench *b, size_t i)
{
    const struct measured *m = &b->at[i];
    const struct measured *base = base_of(b, i);
    json_t *row =
        json_pack("{ss ss}", "group", bench_ways[i].group, "name", bench_ways[i].name);

    if (m->absent[0] || m->count == 0) {
        (void)json_object_set_new(row, "absent", json_string(m->absent));
        return row;
    }
    (void)json_object_update_new(
        row, json_pack("{sI sf sf sf}", "runs", (json_int_t)m->count, "p50_ms",
                       quantile(m, 0.5), "p90_ms", quantile(m, 0.9), "p99_ms",
                       quantile(m, 0.99)));
    if (base->count > 0)
        (void)json_object_update_new(
            row, json_pack("{sf sf}", "ratio", quantile(m, 0.5) / quantile(base, 0.5),
                           "ratio_p99", quantile(m, 0.99) / quantile(base, 0.5)));
    return row;
}

/* By number of clients; null: not measured. WARM: those of the library, to be compared
 * with, or NULL. */
static json_t *rates_json(const double *rates, const double *warm)
{
    json_t *all = json_object();

    for (size_t k = 0; k < BENCH_CROWDS; k++) {
        bool measured = rates[k] > 0 && (!warm || warm[k] > 0);
        char name[16];

        (void)snprintf(name, sizeof(name), "%u", bench_crowds[k]);
        (void)json_object_set_new(
            all, name,
            measured ? json_real(warm ? rates[k] / warm[k] : rates[k]) : json_null());
    }
    return all;
}

static json_t *crowds_json(const struct bench *b)
{
    json_t *all = json_array();
    const double *warm = NULL;
    size_t row = 0;

    for (size_t i = 0; i < bench_way_count; i++) {
        const struct way *way = &bench_ways[i];
        json_t *told;

        if (!way->crowd)
            continue;
        warm = way->kind == BENCH_WARM ? b->crowd[row] : warm;
        told = json_pack("{ss so}", "name", way->name, "runs_per_second",
                         rates_json(b->crowd[row], NULL));
        if (warm && way->kind != BENCH_WARM)
            (void)json_object_set_new(told, "times_warm",
                                      rates_json(b->crowd[row], warm));
        (void)json_array_append_new(all, told);
        row++;
    }
    return all;
}

static json_t *report_of(struct vial_engine *engine)
{
    char *text = NULL;
    json_t *report = NULL;

    if (vial_warm_report(engine, &text, NULL) == 0)
        report = json_loads(text, 0, NULL);
    free(text);
    return report ? report : json_object();
}

json_t *bench_json(const struct bench *b)
{
    json_t *rows = json_array();

    for (size_t i = 0; i < bench_way_count; i++)
        (void)json_array_append_new(rows, row_json(b, i));
    return json_pack("{so so so so}", "results", rows, "throughput", crowds_json(b),
                     "pool", report_of(b->warm), "pool_with_imports",
                     report_of(b->imported));
}

static const char *text_of(json_t *row, const char *name)
{
    const char *text = json_string_value(json_object_get(row, name));

    return text ? text : "";
}

static void add_number(struct table *t, json_t *object, const char *name,
                       const char *format)
{
    json_t *value = json_object_get(object, name);
    char cell[32] = "";

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
    if (json_is_number(value))
        (void)snprintf(cell, sizeof(cell), format, json_number_value(value));
#pragma GCC diagnostic pop
    table_add(t, cell);
}

static int print_times(json_t *result)
{
    static const char *const heads[] = { "program", "way",        "p50 ms",  "p90 ms",
                                         "p99 ms",  "times bare", "p99/bare" };
    struct table t = { .columns = 7 };
    json_t *row = NULL;
    size_t i = 0;

    for (size_t k = 0; k < 7; k++)
        table_add(&t, heads[k]);
    json_array_foreach(json_object_get(result, "results"), i, row)
    {
        if (json_object_get(row, "absent"))
            continue;
        table_add(&t, text_of(row, "group"));
        table_add(&t, text_of(row, "name"));
        add_number(&t, row, "p50_ms", "%.2f");
        add_number(&t, row, "p90_ms", "%.2f");
        add_number(&t, row, "p99_ms", "%.2f");
        add_number(&t, row, "ratio", "%.3f");
        add_number(&t, row, "ratio_p99", "%.3f");
    }
    return table_print(&t);
}

static void add_rates(struct table *t, const char *name, json_t *rates,
                      const char *format)
{
    table_add(t, name);
    for (void *at = json_object_iter(rates); at; at = json_object_iter_next(rates, at))
        add_number(t, rates, json_object_iter_key(at), format);
}

static int print_crowds(json_t *result)
{
    struct table t = { .columns = 1 + BENCH_CROWDS };
    json_t *row = NULL;
    size_t i = 0;

    table_add(&t, "runs a second, clients:");
    for (size_t k = 0; k < BENCH_CROWDS; k++) {
        char head[16];

        (void)snprintf(head, sizeof(head), "%u", bench_crowds[k]);
        table_add(&t, head);
    }
    json_array_foreach(json_object_get(result, "throughput"), i, row)
    {
        json_t *times = json_object_get(row, "times_warm");

        add_rates(&t, text_of(row, "name"), json_object_get(row, "runs_per_second"),
                  "%.1f");
        if (times)
            add_rates(&t, "  times vial warm", times, "%.2f");
    }
    return table_print(&t);
}

static int print_pool(json_t *result, const char *name)
{
    json_t *pool = json_object_get(result, name);
    struct table t = { .columns = 5 };
    json_t *row = NULL;
    size_t i = 0;

    table_add(&t, name);
    table_add(&t, "language");
    table_add(&t, "refill ms");
    table_add(&t, "idle PSS bytes");
    table_add(&t, "refills");
    json_array_foreach(json_object_get(pool, "shapes"), i, row)
    {
        table_add(&t, text_of(row, "driver"));
        table_add(&t, text_of(row, "language"));
        add_number(&t, row, "refill_ms", "%.2f");
        add_number(&t, row, "pss_bytes", "%.0f");
        add_number(&t, row, "refills", "%.0f");
    }
    return table_print(&t);
}

static void print_absent(json_t *result)
{
    json_t *row = NULL;
    size_t i = 0;

    json_array_foreach(json_object_get(result, "results"), i, row)
    {
        if (json_object_get(row, "absent"))
            say("not measured: %s, %s: %s", text_of(row, "group"), text_of(row, "name"),
                text_of(row, "absent"));
    }
}

int bench_print(json_t *result)
{
    int status = print_times(result);

    if (status == 0)
        status = print_line("");
    if (status == 0)
        status = print_crowds(result);
    if (status == 0)
        status = print_line("");
    if (status == 0)
        status = print_pool(result, "pool");
    if (status == 0)
        status = print_pool(result, "pool_with_imports");
    print_absent(result);
    return status;
}

#define LEFT     170
#define RIGHT    640
#define STEP     22
#define DOUBLE   33.0
#define LEAST_MS 0.05

/* On a scale of powers of two, with straight lines between them: what is 100 times
 * faster must still be seen. */
static double across(double ms)
{
    double times = ms / LEAST_MS;
    int doublings = 0;
    double x = 0;

    while (times > 2) {
        times /= 2;
        doublings++;
    }
    x = LEFT + doublings * DOUBLE + (times > 1 ? (times - 1) * DOUBLE : 0);
    return x > RIGHT ? RIGHT : x;
}

static void plot_row(struct str *s, json_t *row, int y)
{
    double p50 = json_number_value(json_object_get(row, "p50_ms"));
    double p99 = json_number_value(json_object_get(row, "p99_ms"));
    bool ours = strncmp(text_of(row, "name"), "vial", 4) == 0;

    str_printf(s,
               "<text x=\"%d\" y=\"%d\" text-anchor=\"end\">%s, %s</text>\n"
               "<rect x=\"%d\" y=\"%d\" width=\"%.1f\" height=\"14\" fill=\"%s\"/>\n"
               "<line x1=\"%.1f\" x2=\"%.1f\" y1=\"%d\" y2=\"%d\" stroke=\"#444\"/>\n"
               "<text x=\"%.1f\" y=\"%d\">%.2f ms</text>\n",
               LEFT - 8, y + 11, text_of(row, "group"), text_of(row, "name"), LEFT, y,
               across(p50) - LEFT, ours ? "#2a7" : "#99a", across(p50), across(p99),
               y + 7, y + 7, across(p99) + 6, y + 11, p50);
}

char *bench_plot(json_t *result)
{
    struct str s = { 0 };
    json_t *row = NULL;
    size_t i = 0;
    int y = 40;

    str_puts(&s,
             "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"760\" height=\"660\" "
             "font-family=\"sans-serif\" font-size=\"12\">\n"
             "<rect width=\"760\" height=\"660\" fill=\"white\"/>\n"
             "<text x=\"20\" y=\"20\" font-size=\"14\">a program that does nothing: "
             "p50 (bar) and p99 (line), logarithmic</text>\n");
    json_array_foreach(json_object_get(result, "results"), i, row)
    {
        if (json_object_get(row, "absent"))
            continue;
        plot_row(&s, row, y);
        y += STEP;
    }
    str_puts(&s, "</svg>\n");
    return str_take(&s);
}
