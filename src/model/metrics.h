/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_MODEL_METRICS_H
#define VIAL_MODEL_METRICS_H

/* The daemon's counters, for Prometheus. All functions may be called from several
 * threads. */

#include <jansson.h>
#include <pthread.h>
#include <stdint.h>

#include "base/str.h"

#include "vial/result.h"

#define METRICS_BUCKETS  46
#define METRICS_VERDICTS 12
#define METRICS_LIMITS   8
#define METRICS_CLAIM    1000000 /* of what one vessel says */

/* How many drivers there are. */
enum {
#define DRIVER(name, ...) METRICS_DRIVER_##name,
#include "model/drivers.def"
    METRICS_DRIVERS
};

struct histogram {
    uint64_t buckets[METRICS_BUCKETS + 1]; /* the last: above all others */
    uint64_t count;
    double sum_s;
};

struct metrics {
    pthread_mutex_t lock;
    struct histogram queue, open, run, close;
    uint64_t verdicts[METRICS_VERDICTS];
    uint64_t limits[METRICS_LIMITS]; /* by bit of enum vial_limit */
    uint64_t http[6];   /* answers by hundreds */
    uint64_t refused_auth, refused_scope, refused_rate, refused_busy;
    uint64_t sessions_started;
    uint64_t throttled_ms, cpu_ms;
    uint64_t gate_made, gate_refused, gate_in, gate_out; /* as gates say */
    uint64_t gate_over_quota;
    uint64_t network_refused; /* as vessels say: each adds at most METRICS_CLAIM */
    uint64_t pulls, pulls_failed, pulls_now;
    uint64_t pull_bytes;             /* as far as engines told us */
    uint64_t swept[METRICS_DRIVERS]; /* orphans that were removed, by driver */
};

/* Values that are looked up when somebody asks. */
struct metrics_gauges {
    unsigned running, waiting, sessions, connections, handlers;
    unsigned vessels, orphans, pooled, keeper_restarts;
    uint64_t output_memory, output_disk; /* bytes */
    int64_t started_s;
    const char *version;
};

int metrics_init(struct metrics *m);
void metrics_done(struct metrics *m);
void metrics_run(struct metrics *m, const struct vial_result *result);
void metrics_add(struct metrics *m, uint64_t *counter, uint64_t amount);
void metrics_swept(struct metrics *m, const char *driver, unsigned count);
void metrics_http(struct metrics *m, unsigned status);
/* Parts of what metrics_write writes, for who has no more. */
void metrics_write_runs(const struct metrics *m, struct str *out);
void metrics_write_vessels(unsigned vessels, unsigned orphans, struct str *out);

/* The first gives the sums of all runs as a JSON object; NULL: no memory. The second
 * adds such an object to M; a number that makes no sense counts as 0. */
json_t *metrics_json(const struct metrics *m);
void metrics_add_json(struct metrics *m, json_t *from);

void metrics_write(struct metrics *m, const struct metrics_gauges *g, struct str *out);

#endif
