/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/fail.h"
#include "base/path.h"
#include "base/str.h"
#include "bench/bench.h"

#define READY_MS    120000
#define READY_COUNT 8
#define LEAD_NS     INT64_C(500000000)
#define PASSES      3

static bool run_in(const struct way *way, const struct measured *m,
                   const char *container, const struct bench_group *group)
{
    const char *argv[BENCH_ARGS] = { NULL };
    const struct bench_child child = { m->program, argv, -1, m->filter_fd, group };
    size_t count = 0;
    pid_t pid = 0;
    int status = 0;

    for (size_t i = 0; i < BENCH_ARGS && way->argv[i]; i++) {
        bool walls = str_eq(way->argv[i], BENCH_WALLS);
        size_t more = walls ? m->walls->count : 1;

        if (count + more >= BENCH_ARGS) /* less of them would not be the same */
            return false;
        for (size_t k = 0; walls && k < more; k++)
            argv[count++] = m->walls->items[k];
        if (!walls)
            argv[count++] =
                str_eq(way->argv[i], "{container}") ? container : way->argv[i];
    }
    return bench_spawn(&child, &pid) == 0 && waitpid(pid, &status, 0) == pid &&
           status == 0;
}

static bool run_library(const struct measured *m)
{
    struct vial_result *result = NULL;
    int rc = m->keep ? vial_keep_run(m->keep, m->request, NULL, &result, NULL)
                     : vial_run(m->engine, m->request, NULL, &result, NULL);
    bool good = rc == 0 && result->verdict == VIAL_OK;

    vial_result_free(result);
    return good;
}

static double time_run(const struct way *way, const struct measured *m,
                       const char *container, const struct bench_group *group)
{
    int64_t start = clock_now_ns();
    bool good = way->kind == BENCH_SPAWN ? run_in(way, m, container, group)
                : m->server              ? bench_server_ask(m->server) != BENCH_BAD
                                         : run_library(m);

    return good ? clock_ms_between(start, clock_now_ns()) : -1;
}

/* One run; milliseconds, or -1. vial removes what it made when its caller has the
 * answer; so do we, for those that are the same. */
static double bench_once(const struct way *way, const struct measured *m,
                         const char *container)
{
    int64_t start = clock_now_ns();
    struct bench_group group;
    double made_ms = 0;
    double ms = 0;

    if (!way->same)
        return time_run(way, m, container, NULL);
    if (bench_group_make(m->limits, &group) < 0)
        return -1;
    made_ms = clock_ms_between(start, clock_now_ns());
    ms = time_run(way, m, container, &group);
    bench_group_remove(m->limits, &group);
    return ms < 0 ? ms : made_ms + ms;
}

static void race(struct bench *b, size_t i)
{
    struct measured *m = &b->at[i];
    double ms = 0;

    if (m->absent[0])
        return;
    ms = bench_once(&bench_ways[i], m, b->container);
    if (ms < 0)
        (void)snprintf(m->absent, sizeof(m->absent), "did not exit 0");
    else
        m->ms[m->count++] = ms;
    /* Filling up is not the next one's burden. */
    if (bench_ways[i].kind == BENCH_WARM &&
        vial_warm_ready(m->engine, m->request, READY_COUNT, READY_MS, NULL) < 0)
        (void)snprintf(m->absent, sizeof(m->absent), "the pool ran dry");
    if (m->server)
        bench_server_rest();
}

static int by_size(const void *a, const void *b)
{
    const double *x = a;
    const double *y = b;

    return (*x > *y) - (*x < *y);
}

void bench_race(struct bench *b)
{
    for (size_t round = 0; round < b->rounds; round++)
        for (size_t i = 0; i < bench_way_count; i++)
            race(b, i);
    for (size_t i = 0; i < bench_way_count; i++)
        qsort(b->at[i].ms, b->at[i].count, sizeof(double), by_size);
}

/* Counted is what ends between FROM and UNTIL: before, what lay ready is used up. */
struct crowd {
    const struct way *way;
    const struct measured *measured;
    int64_t from_ns, until_ns;
    atomic_uint done, failed;
};

static void *ask(void *context)
{
    struct crowd *c = context;

    while (clock_now_ns() < c->until_ns) {
        bool good = bench_once(c->way, c->measured, "") >= 0;
        int64_t now_ns = clock_now_ns();

        if (!good)
            atomic_fetch_add(&c->failed, 1);
        else if (now_ns >= c->from_ns && now_ns < c->until_ns)
            atomic_fetch_add(&c->done, 1);
    }
    return NULL;
}

/* A way of which runs fail is not measured: its rate would be that of the others. */
static double crowd_of(const struct way *way, struct measured *m, unsigned clients,
                       double seconds)
{
    pthread_t threads[64];
    int64_t from_ns = clock_now_ns() + LEAD_NS;
    struct crowd c = { way, m, from_ns, from_ns + (int64_t)(seconds * 1e9), 0, 0 };
    unsigned started = 0;

    while (started < clients && pthread_create(&threads[started], NULL, ask, &c) == 0)
        started++;
    for (unsigned i = 0; i < started; i++)
        (void)pthread_join(threads[i], NULL);
    if (atomic_load(&c.failed) > 0)
        (void)snprintf(m->absent, sizeof(m->absent), "%u runs among %u clients failed",
                       atomic_load(&c.failed), clients);
    return (double)atomic_load(&c.done) / seconds;
}

/* A vessel that waits is weighed once it is at rest. */
static void let_rest(const struct bench *b)
{
    for (size_t i = 0; i < bench_way_count; i++)
        if (bench_ways[i].kind == BENCH_WARM && !b->at[i].absent[0])
            (void)!vial_warm_ready(b->at[i].engine, b->at[i].request, 2 * READY_COUNT,
                                   READY_MS, NULL);
}

/* Adds to what each way has by now. */
static void pass(struct bench *b, size_t k, double seconds)
{
    size_t row = 0;

    for (size_t i = 0; i < bench_way_count; i++) {
        if (!bench_ways[i].crowd)
            continue;
        if (!b->at[i].absent[0])
            b->crowd[row][k] +=
                crowd_of(&bench_ways[i], &b->at[i], bench_crowds[k], seconds) / PASSES;
        if (b->at[i].absent[0])
            b->crowd[row][k] = 0;
        row++;
    }
}

/* In turns, as the rounds are: a busy moment meets one of them in one of its turns. */
void bench_crowd(struct bench *b, double seconds)
{
    for (size_t k = 0; k < BENCH_CROWDS && seconds > 0; k++)
        for (int i = 0; i < PASSES; i++)
            pass(b, k, seconds / PASSES);
    let_rest(b);
}

/* A container that idles, for `docker exec`. */
static void start_container(struct bench *b)
{
    const char *const argv[] = { "docker", "run",       "-d",    "--rm", "--network",
                                 "none",   BENCH_IMAGE, "sleep", "3600", NULL };
    char *program = path_find_program("docker", PATH_SEARCH);
    int ends[2] = { -1, -1 };
    pid_t pid = 0;
    int status = 0;

    if (program && pipe2(ends, O_CLOEXEC) == 0 &&
        bench_spawn(&(struct bench_child){ program, argv, ends[1], -1, NULL }, &pid) ==
            0) {
        ssize_t n = 0;

        (void)close(ends[1]);
        n = read(ends[0], b->container, sizeof(b->container) - 1);
        (void)waitpid(pid, &status, 0);
        b->container[n > 0 && status == 0 ? n : 0] = '\0';
        b->container[strcspn(b->container, "\n")] = '\0';
    }
    if (ends[0] >= 0)
        (void)close(ends[0]);
    free(program);
}

/* The vessel is opened by a call that is not counted. */
static int make_kept(const struct way *way, struct measured *m, struct vial_error *err)
{
    static const struct vial_keep_options ever = { .max_calls = 1u << 30 };
    struct vial_request *base = NULL;
    struct vial_result *first = NULL;
    int rc = vial_request_new(&base, err);

    if (rc == 0)
        rc = vial_request_set(base, "driver", way->driver, err);
    if (rc == 0)
        rc = vial_keep_open(m->engine, base, &ever, &m->keep, err);
    if (rc == 0)
        rc = vial_keep_run(m->keep, m->request, NULL, &first, err);
    vial_result_free(first);
    vial_request_free(base);
    return rc;
}

static int make_request(const struct way *way, struct measured *m,
                        struct vial_error *err)
{
    if (vial_request_new(&m->request, err) < 0 ||
        vial_request_set(m->request, "language", way->language, err) < 0 ||
        vial_request_set(m->request, "code", way->code, err) < 0)
        return -1;
    if (way->kind == BENCH_KEPT)
        return make_kept(way, m, err);
    if (way->image && (vial_request_set(m->request, "image", BENCH_IMAGE, err) < 0 ||
                       vial_request_set(m->request, "pull", "never", err) < 0))
        return -1;
    return way->driver ? vial_request_set(m->request, "driver", way->driver, err) : 0;
}

/* An image that is not here is told at once: a pool would wait for it. */
static int try_image(struct bench *b, const struct measured *m, struct vial_error *err)
{
    struct vial_result *r = NULL;
    int rc = vial_run(b->plain, m->request, NULL, &r, err);

    if (rc == 0 && r->verdict != VIAL_OK) {
        *err = r->error;
        rc = -1;
    }
    vial_result_free(r);
    return rc;
}

static void prepare_library(struct bench *b, const struct way *way, struct measured *m)
{
    struct vial_error err = { 0 };

    m->engine = way->kind != BENCH_WARM ? b->plain
                : way->imports          ? b->imported
                                        : b->warm;
    if (make_request(way, m, &err) < 0 || (way->image && try_image(b, m, &err) < 0) ||
        (way->kind == BENCH_WARM &&
         vial_warm_ready(m->engine, m->request, READY_COUNT, READY_MS, &err) < 0))
        (void)snprintf(m->absent, sizeof(m->absent), "%.150s", err.message);
}

static void prepare_server(const struct way *way, struct measured *m)
{
    struct vial_error err = { 0 };

    if (bench_server_open(way, &m->server, &err) < 0)
        (void)snprintf(m->absent, sizeof(m->absent), "%.150s", err.message);
}

static int prepare_way(struct bench *b, size_t i, struct vial_error *err)
{
    const struct way *way = &bench_ways[i];
    struct measured *m = &b->at[i];

    m->filter_fd = way->same ? b->filter_fd : -1;
    m->walls = &b->walls;
    m->limits = &b->limits;
    m->ms = calloc(b->rounds, sizeof(double));
    if (!m->ms)
        return fail_memory(err);
    if (way->same && b->not_same.code[0])
        (void)snprintf(m->absent, sizeof(m->absent), "%.150s", b->not_same.message);
    else if (way->container && !b->container[0])
        (void)snprintf(m->absent, sizeof(m->absent),
                       "no container engine with " BENCH_IMAGE);
    else if (way->kind == BENCH_DAEMON || way->kind == BENCH_MCP)
        prepare_server(way, m);
    else if (way->kind != BENCH_SPAWN)
        prepare_library(b, way, m);
    else
        m->program = str_eq(way->argv[0], BENCH_SELF)
                         ? strdup("/proc/self/exe")
                         : path_find_program(way->argv[0], PATH_SEARCH);
    if (way->kind == BENCH_SPAWN && !m->program && !m->absent[0])
        (void)snprintf(m->absent, sizeof(m->absent), "not on this host");
    return 0;
}

int bench_prepare(struct bench *b, size_t rounds, struct vial_error *err)
{
    static const char *const imports[] = { "numpy", "pandas", NULL };
    const struct vial_warm_options plain = { .target = READY_COUNT };
    const struct vial_warm_options imported = { .target = READY_COUNT,
                                                .imports = imports };

    b->rounds = rounds;
    b->at = calloc(bench_way_count, sizeof(*b->at));
    if (!b->at)
        return fail_memory(err);
    if (vial_engine_open(NULL, &b->plain, err) < 0 ||
        vial_engine_open(NULL, &b->warm, err) < 0 ||
        vial_engine_open(NULL, &b->imported, err) < 0 ||
        vial_engine_warm(b->warm, &plain, err) < 0 ||
        vial_engine_warm(b->imported, &imported, err) < 0)
        return -1;
    start_container(b);
    b->filter_fd = bench_open_filter(&b->not_same);
    if (b->filter_fd >= 0 && bench_limits_open(&b->limits, &b->not_same) == 0)
        (void)!bench_walls(b->plain, &b->walls, &b->not_same);
    for (size_t i = 0; i < bench_way_count; i++)
        if (prepare_way(b, i, err) < 0)
            return -1;
    return 0;
}

static void stop_container(const struct bench *b)
{
    const char *const argv[] = { "docker", "kill", b->container, NULL };
    char *program = path_find_program("docker", PATH_SEARCH);
    pid_t pid = 0;

    if (program && b->container[0] &&
        bench_spawn(&(struct bench_child){ program, argv, -1, -1, NULL }, &pid) == 0)
        (void)waitpid(pid, NULL, 0);
    free(program);
}

void bench_done(struct bench *b)
{
    for (size_t i = 0; b->at && i < bench_way_count; i++) {
        free(b->at[i].program);
        free(b->at[i].ms);
        vial_keep_close(b->at[i].keep);
        bench_server_close(b->at[i].server);
        vial_request_free(b->at[i].request);
    }
    free(b->at);
    auto_fd_(&b->filter_fd);
    strv_done(&b->walls);
    bench_limits_close(&b->limits);
    vial_engine_close(b->plain);
    vial_engine_close(b->warm);
    vial_engine_close(b->imported);
    stop_container(b);
}
