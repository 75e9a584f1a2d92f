/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/batch_jobs.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "api/inside.h"
#include "base/auto.h"
#include "base/json.h"
#include "batch/batch.h"
#include "model/request.h"

AUTO(sample, struct vial_request, vial_request_free)
#define auto_sample __attribute__((cleanup(auto_sample_)))

int batch_jobs_sample(const struct vial_request *usual, struct vial_request **out)
{
    auto_sample struct vial_request *req = NULL;
    struct vial_error ignored = { 0 };

    if (vial_request_new(&req, &ignored) < 0 ||
        (usual && request_fill(req, usual, &ignored) < 0) ||
        vial_request_set(req, "command", "true", &ignored) < 0)
        return -1;
    *out = ptr_take(&req);
    return 0;
}

/* 0: nobody knows. */
static uint64_t available_bytes(void)
{
    static const char name[] = "MemAvailable:";
    FILE *file = fopen("/proc/meminfo", "re");
    uint64_t kib = 0;
    char line[128];

    if (!file)
        return 0;
    while (kib == 0 && fgets(line, sizeof(line), file))
        if (strncmp(line, name, strlen(name)) == 0)
            kib = strtoull(line + strlen(name), NULL, 10);
    (void)fclose(file);
    return kib << 10;
}

/* 0: it has no limit, or none that can be told. */
static uint64_t memory_of_row(struct vial_engine *engine,
                              const struct vial_request *usual)
{
    auto_sample struct vial_request *req = NULL;
    auto_json json_t *plan = NULL;
    struct vial_error ignored = { 0 };
    json_t *limits;

    if (batch_jobs_sample(usual, &req) < 0 ||
        inside_plan(engine, req, &plan, &ignored) < 0)
        return 0;
    limits = json_object_get(plan, "limits");
    return (uint64_t)json_integer_value(json_object_get(limits, "memory_bytes"));
}

unsigned batch_jobs_usual(struct vial_engine *engine, const struct vial_request *usual)
{
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    uint64_t jobs = cores > 0 ? (uint64_t)cores : 1;
    uint64_t bytes = engine ? memory_of_row(engine, usual) : 0;
    uint64_t all_bytes = bytes ? available_bytes() : 0;

    if (all_bytes && all_bytes / bytes < jobs)
        jobs = all_bytes / bytes;
    if (jobs > BATCH_JOBS_MOST)
        jobs = BATCH_JOBS_MOST;
    return jobs ? (unsigned)jobs : 1;
}
