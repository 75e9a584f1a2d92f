/* SPDX-License-Identifier: Apache-2.0 */
#include "model/metrics.h"

#include <stddef.h>

#include "model/result.h"

/* Seconds: from what a vessel that waits takes to a run of an hour. Each is at most
 * twice the one before, so that a quantile is off by less than that. */
static const double bounds[METRICS_BUCKETS] = {
    0.00005, 0.000075, 0.0001, 0.00015, 0.0002, 0.0003, 0.0005, 0.00075, 0.001, 0.0015,
    0.002,   0.003,    0.005,  0.0075,  0.01,   0.015,  0.02,   0.03,    0.05,  0.075,
    0.1,     0.15,     0.2,    0.3,     0.5,    0.75,   1,      1.5,     2,     3,
    5,       7.5,      10,     15,      20,     30,     45,     60,      90,    120,
    180,     300,      600,    1200,    1800,   3600
};

static const char *const drivers[METRICS_DRIVERS] = {
#define DRIVER(name, ...) #name,
#include "model/drivers.def"
};

int metrics_init(struct metrics *m)
{
    *m = (struct metrics){ 0 };
    return pthread_mutex_init(&m->lock, NULL) == 0 ? 0 : -1;
}

void metrics_done(struct metrics *m)
{
    (void)pthread_mutex_destroy(&m->lock);
}

static void observe(struct histogram *h, double ms)
{
    double seconds = ms / 1000;
    size_t i = 0;

    while (i < METRICS_BUCKETS && seconds > bounds[i])
        i++;
    h->buckets[i]++;
    h->count++;
    h->sum_s += seconds;
}

void metrics_run(struct metrics *m, const struct vial_result *result)
{
    const struct vial_usage *u = &result->usage;

    (void)pthread_mutex_lock(&m->lock);
    m->verdicts[result->verdict]++;
    for (size_t i = 0; i < sizeof(m->limits) / sizeof(m->limits[0]); i++)
        m->limits[i] += (result->limits_hit >> i) & 1u;
    m->network_refused += result->network_refused < METRICS_CLAIM
                              ? result->network_refused
                              : METRICS_CLAIM;
    if (result->network) {
        m->gate_made += result->network->made;
        m->gate_refused += result->network->refused;
        m->gate_over_quota += result->network->over_quota;
        m->gate_in += result->network->bytes_in;
        m->gate_out += result->network->bytes_out;
    }
    m->throttled_ms += (uint64_t)u->throttled_ms;
    m->cpu_ms += (uint64_t)(u->cpu_user_ms + u->cpu_system_ms);
    observe(&m->queue, result->timing.queue_ms);
    if (result->vessel_id[0]) {
        observe(&m->open, result->timing.open_ms);
        observe(&m->run, result->timing.run_ms);
        observe(&m->close, result->timing.close_ms);
    }
    (void)pthread_mutex_unlock(&m->lock);
}

void metrics_add(struct metrics *m, uint64_t *counter, uint64_t amount)
{
    (void)pthread_mutex_lock(&m->lock);
    *counter += amount;
    (void)pthread_mutex_unlock(&m->lock);
}

void metrics_swept(struct metrics *m, const char *driver, unsigned count)
{
    for (size_t i = 0; i < METRICS_DRIVERS; i++)
        if (str_eq(driver, drivers[i]))
            metrics_add(m, &m->swept[i], count);
}

void metrics_http(struct metrics *m, unsigned status)
{
    if (status / 100 < 6)
        metrics_add(m, &m->http[status / 100], 1);
}

static void say(struct str *out, const char *name, const char *type, const char *help)
{
    str_printf(out, "# HELP vial_%s %s\n# TYPE vial_%s %s\n", name, help, name, type);
}

static void counter(struct str *out, const char *name, const char *help, uint64_t value)
{
    say(out, name, "counter", help);
    str_printf(out, "vial_%s %llu\n", name, (unsigned long long)value);
}

static void seconds(struct str *out, const char *name, const char *help, uint64_t ms)
{
    say(out, name, "counter", help);
    str_printf(out, "vial_%s %.3f\n", name, (double)ms / 1000);
}

static void gauge(struct str *out, const char *name, const char *help, uint64_t value)
{
    say(out, name, "gauge", help);
    str_printf(out, "vial_%s %llu\n", name, (unsigned long long)value);
}

static void histogram(struct str *out, const char *name, const char *help,
                      const struct histogram *h)
{
    uint64_t below = 0;

    say(out, name, "histogram", help);
    for (size_t i = 0; i < METRICS_BUCKETS; i++) {
        below += h->buckets[i];
        str_printf(out, "vial_%s_bucket{le=\"%g\"} %llu\n", name, bounds[i],
                   (unsigned long long)below);
    }
    str_printf(out, "vial_%s_bucket{le=\"+Inf\"} %llu\nvial_%s_sum %.6f\n", name,
               (unsigned long long)h->count, name, h->sum_s);
    str_printf(out, "vial_%s_count %llu\n", name, (unsigned long long)h->count);
}

void metrics_write_runs(const struct metrics *m, struct str *out)
{
    say(out, "runs_total", "counter", "Runs that ended, by verdict.");
    for (size_t i = 0; result_verdicts[i]; i++)
        str_printf(out, "vial_runs_total{verdict=\"%s\"} %llu\n", result_verdicts[i],
                   (unsigned long long)m->verdicts[i]);
    say(out, "limits_hit_total", "counter", "Runs that touched a limit.");
    for (size_t i = 0; result_limits[i]; i++)
        str_printf(out, "vial_limits_hit_total{limit=\"%s\"} %llu\n", result_limits[i],
                   (unsigned long long)m->limits[i]);
    histogram(out, "queue_seconds", "How long runs waited for their turn.", &m->queue);
    histogram(out, "open_seconds", "How long vessels took to open.", &m->open);
    histogram(out, "run_seconds", "How long programs ran.", &m->run);
    histogram(out, "close_seconds", "How long vessels took to be removed.", &m->close);
    counter(out, "network_refused_total",
            "Tries of programs at a network that they do not have.",
            m->network_refused);
    counter(out, "gate_connections_total", "Connections that gates made.",
            m->gate_made);
    counter(out, "gate_refused_total", "Connections and names that gates refused.",
            m->gate_refused);
    counter(out, "gate_over_quota_total",
            "Connections that gates refused, or ended, by the caller's quota.",
            m->gate_over_quota);
    counter(out, "gate_in_bytes_total", "Bytes that gates let in.", m->gate_in);
    counter(out, "gate_out_bytes_total", "Bytes that gates let out.", m->gate_out);
    seconds(out, "cpu_seconds_total", "Cpu time that runs used.", m->cpu_ms);
    seconds(out, "throttled_seconds_total", "Time that runs were held back.",
            m->throttled_ms);
}

static void write_front(const struct metrics *m, struct str *out)
{
    say(out, "http_responses_total", "counter", "Answers, by kind of status.");
    for (size_t i = 1; i < 6; i++)
        str_printf(out, "vial_http_responses_total{code=\"%zuxx\"} %llu\n", i,
                   (unsigned long long)m->http[i]);
    say(out, "refused_total", "counter", "Requests that were refused, and why.");
    str_printf(out, "vial_refused_total{why=\"auth\"} %llu\n",
               (unsigned long long)m->refused_auth);
    str_printf(out, "vial_refused_total{why=\"scope\"} %llu\n",
               (unsigned long long)m->refused_scope);
    str_printf(out, "vial_refused_total{why=\"rate\"} %llu\n",
               (unsigned long long)m->refused_rate);
    str_printf(out, "vial_refused_total{why=\"busy\"} %llu\n",
               (unsigned long long)m->refused_busy);
    counter(out, "sessions_started_total", "Sessions that were opened.",
            m->sessions_started);
    counter(out, "pulls_total", "Images that were pulled.", m->pulls);
    counter(out, "pulls_failed_total", "Pulls that failed.", m->pulls_failed);
    gauge(out, "pulls_now", "Pulls under way.", m->pulls_now);
    counter(out, "pull_bytes_total", "Bytes that pulls have brought.", m->pull_bytes);
    say(out, "orphans_removed_total", "counter",
        "Vessels of dead owners that were removed.");
    for (size_t i = 0; i < METRICS_DRIVERS; i++)
        str_printf(out, "vial_orphans_removed_total{driver=\"%s\"} %llu\n", drivers[i],
                   (unsigned long long)m->swept[i]);
}

void metrics_write_vessels(unsigned vessels, unsigned orphans, struct str *out)
{
    gauge(out, "vessels", "Vessels on this host.", vessels);
    gauge(out, "vessels_orphaned", "Vessels whose owner has died.", orphans);
}

static void write_gauges(const struct metrics_gauges *g, struct str *out)
{
    gauge(out, "runs_active", "Runs that go on.", g->running);
    gauge(out, "queue_length", "Runs that wait for their turn.", g->waiting);
    gauge(out, "sessions_open", "Sessions that are open.", g->sessions);
    metrics_write_vessels(g->vessels, g->orphans, out);
    gauge(out, "vessels_pooled", "Vessels that wait to be used.", g->pooled);
    gauge(out, "output_memory_bytes", "Memory taken for the output of programs.",
          g->output_memory);
    gauge(out, "output_disk_bytes", "Disk taken for the output of programs.",
          g->output_disk);
    counter(out, "keeper_restarts_total", "Keepers that died and were replaced.",
            g->keeper_restarts);
    gauge(out, "http_connections", "Open connections.", g->connections);
    gauge(out, "http_handlers", "Requests being handled.", g->handlers);
    gauge(out, "start_time_seconds", "When the daemon started.",
          (uint64_t)g->started_s);
    say(out, "build_info", "gauge", "Always 1.");
    str_printf(out, "vial_build_info{version=\"%s\"} 1\n", g->version);
}

void metrics_write(struct metrics *m, const struct metrics_gauges *g, struct str *out)
{
    (void)pthread_mutex_lock(&m->lock);
    metrics_write_runs(m, out);
    write_front(m, out);
    (void)pthread_mutex_unlock(&m->lock);
    write_gauges(g, out);
}

/* The counters that are kept from one process to the next. */
static const struct {
    const char *name;
    size_t offset, count;
} kept[] = {
    { "verdicts", offsetof(struct metrics, verdicts), METRICS_VERDICTS },
    { "limits", offsetof(struct metrics, limits), METRICS_LIMITS },
    { "throttled_ms", offsetof(struct metrics, throttled_ms), 1 },
    { "cpu_ms", offsetof(struct metrics, cpu_ms), 1 },
    { "network_refused", offsetof(struct metrics, network_refused), 1 },
    { "gate_made", offsetof(struct metrics, gate_made), 1 },
    { "gate_refused", offsetof(struct metrics, gate_refused), 1 },
    { "gate_over_quota", offsetof(struct metrics, gate_over_quota), 1 },
    { "gate_in", offsetof(struct metrics, gate_in), 1 },
    { "gate_out", offsetof(struct metrics, gate_out), 1 },
};

static const struct {
    const char *name;
    size_t offset;
} kept_histograms[] = {
    { "queue", offsetof(struct metrics, queue) },
    { "open", offsetof(struct metrics, open) },
    { "run", offsetof(struct metrics, run) },
    { "close", offsetof(struct metrics, close) },
};

#define KEPT       (sizeof(kept) / sizeof(kept[0]))
#define HISTOGRAMS (sizeof(kept_histograms) / sizeof(kept_histograms[0]))

static json_t *numbers_json(const uint64_t *numbers, size_t count)
{
    json_t *list = json_array();

    for (size_t i = 0; i < count; i++)
        (void)json_array_append_new(list, json_integer((json_int_t)numbers[i]));
    return list;
}

json_t *metrics_json(const struct metrics *m)
{
    json_t *json = json_object();
    const char *base = (const char *)m;

    for (size_t i = 0; i < KEPT; i++)
        (void)json_object_set_new(
            json, kept[i].name,
            numbers_json((const void *)(base + kept[i].offset), kept[i].count));
    for (size_t i = 0; i < HISTOGRAMS; i++) {
        const struct histogram *h = (const void *)(base + kept_histograms[i].offset);

        (void)json_object_set_new(
            json, kept_histograms[i].name,
            json_pack("{s:o, s:f}", "buckets",
                      numbers_json(h->buckets, METRICS_BUCKETS + 1), "sum_s",
                      h->sum_s));
    }
    return json;
}

static uint64_t number_of(const json_t *list, size_t i)
{
    json_int_t value = json_integer_value(json_array_get(list, i));

    return value > 0 && value < INT64_MAX / 4 ? (uint64_t)value : 0;
}

void metrics_add_json(struct metrics *m, json_t *from)
{
    char *base = (char *)m;

    for (size_t i = 0; i < KEPT; i++) {
        uint64_t *numbers = (void *)(base + kept[i].offset);

        for (size_t k = 0; k < kept[i].count; k++)
            numbers[k] += number_of(json_object_get(from, kept[i].name), k);
    }
    for (size_t i = 0; i < HISTOGRAMS; i++) {
        struct histogram *h = (void *)(base + kept_histograms[i].offset);
        json_t *one = json_object_get(from, kept_histograms[i].name);
        double sum_s = json_number_value(json_object_get(one, "sum_s"));

        if (json_array_size(json_object_get(one, "buckets")) != METRICS_BUCKETS + 1)
            continue; /* of a version that had others */
        h->sum_s += sum_s > 0 ? sum_s : 0;
        for (size_t k = 0; k <= METRICS_BUCKETS; k++) {
            h->buckets[k] += number_of(json_object_get(one, "buckets"), k);
            h->count += number_of(json_object_get(one, "buckets"), k);
        }
    }
}
