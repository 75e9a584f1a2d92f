/* SPDX-License-Identifier: Apache-2.0 */

/* What the library itself does in a second, with vessels that wait: warm_rate THREADS
 * RUNS. tools/bench-batch holds `vial batch` against it. */

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "vial/vial.h"

struct work {
    struct vial_engine *engine;
    atomic_long left;
    atomic_long wrong;
};

static void run_one(struct work *w, long number)
{
    struct vial_request *req = NULL;
    struct vial_result *result = NULL;
    struct vial_error err;
    char code[64];

    (void)snprintf(code, sizeof(code), "print(%ld)", number);
    if (vial_request_new(&req, &err) < 0 ||
        vial_request_set(req, "language", "python", &err) < 0 ||
        vial_request_set(req, "code", code, &err) < 0 ||
        vial_run(w->engine, req, NULL, &result, &err) < 0 ||
        result->verdict != VIAL_OK)
        atomic_fetch_add(&w->wrong, 1);
    vial_result_free(result);
    vial_request_free(req);
}

static void *work(void *context)
{
    struct work *w = context;
    long number;

    while ((number = atomic_fetch_sub(&w->left, 1)) > 0)
        run_one(w, number);
    return NULL;
}

int main(int argc, char **argv)
{
    unsigned threads = argc > 2 ? (unsigned)atoi(argv[1]) : 2;
    long runs = argc > 2 ? atol(argv[2]) : 100;
    const struct vial_warm_options warm = { .target = threads };
    struct vial_error err;
    struct timespec from;
    struct timespec to;
    struct work w = { .left = runs };
    pthread_t ids[64];

    if (threads > 64 || vial_engine_open(NULL, &w.engine, &err) < 0 ||
        vial_engine_warm(w.engine, &warm, &err) < 0)
        return fprintf(stderr, "%s\n", err.message), 1;
    (void)clock_gettime(CLOCK_MONOTONIC, &from);
    for (unsigned i = 0; i < threads; i++)
        if (pthread_create(&ids[i], NULL, work, &w) != 0)
            return 1;
    for (unsigned i = 0; i < threads; i++)
        (void)pthread_join(ids[i], NULL);
    (void)clock_gettime(CLOCK_MONOTONIC, &to);
    printf("%.2f\n",
           (double)runs / ((double)(to.tv_sec - from.tv_sec) +
                           (double)(to.tv_nsec - from.tv_nsec) / 1e9));
    vial_engine_close(w.engine);
    return atomic_load(&w.wrong) ? 1 : 0;
}
