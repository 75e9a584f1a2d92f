/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/measure.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/fail.h"
#include "base/io.h"
#include "base/path.h"
#include "base/str.h"
#include "bench/bench.h"

#include "vial/keep.h"
#include "vial/session.h"
#include "vial/vessels.h"
#include "vial/warm.h"

#define READY_MS 120000
#define HELD     4
#define ORPHANS  10
#define MEBIBYTE (1024.0 * 1024.0)

/* No document's preset needs a network for these, and the native driver has none. */
static int new_place(struct trial *t, struct vial_request **out)
{
    if (vial_request_new(out, &t->err) == 0 &&
        vial_request_set(*out, "driver", t->driver, &t->err) == 0 &&
        vial_request_set(*out, "network", "none", &t->err) == 0)
        return 0;
    vial_request_free(*out);
    *out = NULL;
    return -1;
}

static int new_request(struct trial *t, const char *code, struct vial_request **out)
{
    if (new_place(t, out) == 0 &&
        vial_request_set(*out, "language", "python", &t->err) == 0 &&
        vial_request_set(*out, "code", code, &t->err) == 0)
        return 0;
    vial_request_free(*out);
    *out = NULL;
    return -1;
}

/* Takes RESULT if it is not the end that WANTED names. */
static int check_end(struct trial *t, struct vial_result *result,
                     enum vial_verdict wanted)
{
    if (result->verdict == wanted)
        return 0;
    if (result->error.code[0])
        t->err = result->error;
    else
        (void)fail(&t->err, VIAL_E_SYSTEM, "ended as '%s': %.100s",
                   vial_verdict_name(result->verdict),
                   result->err.data ? result->err.data : "");
    vial_result_free(result);
    return -1;
}

/* Runs REQ, which it takes; *OUT is the caller's. Its milliseconds, or -1. */
static double run_request(struct trial *t, struct vial_request *req,
                          const struct vial_watch *watch, enum vial_verdict wanted,
                          struct vial_result **out)
{
    int64_t begun = clock_now_ns();
    int rc = vial_run(t->engine, req, watch, out, &t->err);
    double ms = clock_ms_between(begun, clock_now_ns());

    vial_request_free(req);
    return rc < 0 || check_end(t, *out, wanted) < 0 ? -1 : ms;
}

double trial_whole_run(struct trial *t)
{
    struct vial_request *req = NULL;
    struct vial_result *result = NULL;
    double ms = 0;

    if (new_request(t, "pass", &req) < 0)
        return -1;
    ms = run_request(t, req, NULL, VIAL_OK, &result);
    if (ms >= 0)
        vial_result_free(result);
    return ms;
}

double trial_first_run(struct trial *t)
{
    const struct vial_engine_options options = { .preset = t->preset };
    struct trial fresh = *t;
    int64_t begun = clock_now_ns();
    double ms = -1;

    if (vial_engine_open(&options, &fresh.engine, &t->err) < 0)
        return -1;
    if (trial_whole_run(&fresh) >= 0)
        ms = clock_ms_between(begun, clock_now_ns());
    t->err = fresh.err;
    vial_engine_close(fresh.engine);
    return ms;
}

/* As a preset's server does (`warm`): pools are on, and one vessel waits, if vessels
 * can wait for such a request at all. */
static int make_ready(struct trial *t, const struct vial_request *req)
{
    if (!t->warm && trial_whole_run(t) < 0) /* says at once why not */
        return -1;
    if (!t->warm && vial_engine_warm(t->engine, NULL, &t->err) < 0)
        return -1;
    t->warm = true;
    if (vial_warm_ready(t->engine, req, 1, READY_MS, &t->err) == 0)
        return 0;
    return fail_is(&t->err, VIAL_E_UNSUPPORTED) ? 0 : -1;
}

/* Takes REQ. */
static double run_ready(struct trial *t, struct vial_request *req,
                        enum vial_verdict wanted)
{
    struct vial_result *result = NULL;
    double ms = 0;

    if (make_ready(t, req) < 0) {
        vial_request_free(req);
        return -1;
    }
    ms = run_request(t, req, NULL, wanted, &result);
    if (ms >= 0)
        vial_result_free(result);
    return ms;
}

double trial_warm_run(struct trial *t)
{
    struct vial_request *req = NULL;

    return new_request(t, "pass", &req) < 0 ? -1 : run_ready(t, req, VIAL_OK);
}

/* With the 5 seconds of the document's own table. */
double trial_timed_out(struct trial *t)
{
    struct vial_request *req = NULL;

    if (new_request(t, "while True: pass", &req) < 0)
        return -1;
    if (vial_request_set(req, "timeout", "5s", &t->err) == 0)
        return run_ready(t, req, VIAL_TIMEOUT);
    vial_request_free(req);
    return -1;
}

static struct vial_keep *open_keep(struct trial *t)
{
    static const struct vial_keep_options ever = { .max_calls = 1u << 30 };
    struct vial_request *base = NULL;

    if (new_place(t, &base) < 0)
        return NULL;
    if (vial_keep_open(t->engine, base, &ever, &t->keep, &t->err) < 0)
        t->keep = NULL;
    vial_request_free(base);
    return t->keep;
}

static double keep_call(struct trial *t)
{
    struct vial_request *req = NULL;
    struct vial_result *result = NULL;
    int64_t begun = 0;
    double ms = -1;

    if (vial_request_new(&req, &t->err) < 0)
        return -1;
    begun = clock_now_ns();
    if (vial_request_set(req, "language", "python", &t->err) == 0 &&
        vial_request_set(req, "code", "pass", &t->err) == 0 &&
        vial_keep_run(t->keep, req, NULL, &result, &t->err) == 0 &&
        check_end(t, result, VIAL_OK) == 0) {
        ms = clock_ms_between(begun, clock_now_ns());
        vial_result_free(result);
    }
    vial_request_free(req);
    return ms;
}

/* The first call opens the vessel, and is not counted. */
double trial_kept_run(struct trial *t)
{
    if (!t->keep && (!open_keep(t) || keep_call(t) < 0))
        return -1;
    return keep_call(t);
}

/* Takes the times of a run's stages from its result; with a mount besides if MOUNT is
 * one. */
static int stages(struct trial *t, const char *mount, struct vial_timing *out)
{
    struct vial_request *req = NULL;
    struct vial_result *result = NULL;

    if (new_request(t, "pass", &req) < 0)
        return -1;
    if (mount && vial_request_set(req, "mounts", mount, &t->err) < 0) {
        vial_request_free(req);
        return -1;
    }
    if (run_request(t, req, NULL, VIAL_OK, &result) < 0)
        return -1;
    *out = result->timing;
    vial_result_free(result);
    return 0;
}

double trial_opened(struct trial *t)
{
    struct vial_timing timing;

    return stages(t, NULL, &timing) < 0 ? -1 : timing.open_ms;
}

double trial_closed(struct trial *t)
{
    struct vial_timing timing;

    return stages(t, NULL, &timing) < 0 ? -1 : timing.close_ms;
}

/* Opening with a mount is compared with opening without, one after the other; less
 * than nothing is nothing. */
double trial_mounted(struct trial *t)
{
    char dir[] = "/tmp/vial-bench-XXXXXX";
    auto_str struct str mount = { 0 };
    struct vial_timing with;
    struct vial_timing without;
    int rc = 0;

    if (!mkdtemp(dir))
        return fail_sys(&t->err, "make '%s'", dir);
    str_printf(&mount, "%s:/mnt", dir);
    rc = stages(t, NULL, &without) < 0 || stages(t, mount.data, &with) < 0 ? -1 : 0;
    (void)rmdir(dir);
    if (rc < 0)
        return -1;
    return with.open_ms > without.open_ms ? with.open_ms - without.open_ms : 0;
}

static double bare_run(struct trial *t)
{
    static const char *const argv[] = { "python3", "-c", "pass", NULL };
    auto_free char *program = path_find_program("python3", PATH_SEARCH);
    int64_t begun = clock_now_ns();
    pid_t pid = 0;
    int status = 0;

    if (!program ||
        bench_spawn(&(struct bench_child){ program, argv, -1, -1, NULL }, &pid) < 0 ||
        waitpid(pid, &status, 0) != pid || status != 0)
        return fail(&t->err, VIAL_E_SYSTEM, "there is no python3 to compare with");
    return clock_ms_between(begun, clock_now_ns());
}

double trial_overhead(struct trial *t)
{
    double bare = bare_run(t);
    double ours = bare < 0 ? -1 : trial_whole_run(t);

    return ours < 0 ? -1 : ours > bare ? ours - bare : 0;
}

/* The program prints its clock, which is ours too; read when the bytes are here. */
static int note_lag(void *context, int stream, const void *data, size_t len)
{
    double *ms = context;
    char text[32] = "";

    if (stream == 1 && *ms < 0 && len < sizeof(text)) {
        memcpy(text, data, len);
        *ms = clock_ms_between(strtoll(text, NULL, 10), clock_now_ns());
    }
    return 0;
}

double trial_output_lag(struct trial *t)
{
    static const char code[] = "import time\n"
                               "print(time.clock_gettime_ns(time.CLOCK_MONOTONIC), "
                               "flush=True)\n";
    double ms = -1;
    const struct vial_watch watch = {
        .cancel_fd = -1, .stdin_fd = -1, .output = note_lag, .context = &ms
    };
    struct vial_request *req = NULL;
    struct vial_result *result = NULL;

    if (new_request(t, code, &req) < 0 ||
        run_request(t, req, &watch, VIAL_OK, &result) < 0)
        return -1;
    vial_result_free(result);
    return ms < 0 ? fail(&t->err, VIAL_E_SYSTEM, "it printed nothing") : ms;
}

/* One call of the engine's own interface, and what we make of the answer. */
double trial_listed(struct trial *t)
{
    int64_t begun = 0;
    auto_free char *json = NULL;

    if (trial_opened(t) < 0) /* an engine that is not there has no containers either */
        return -1;
    begun = clock_now_ns();
    if (vial_vessels(t->engine, &json, &t->err) < 0)
        return -1;
    return clock_ms_between(begun, clock_now_ns());
}

static double resident_bytes(void)
{
    char text[128] = "";
    auto_fd int fd = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
    char *second = n > 0 ? strchr(text, ' ') : NULL;

    return second ? strtod(second, NULL) * (double)sysconf(_SC_PAGESIZE) : 0;
}

double trial_held_open(struct trial *t)
{
    struct vial_session *held[HELD] = { NULL };
    double before = resident_bytes();
    double each = -1;
    size_t count = 0;

    for (; count < HELD; count++) {
        struct vial_request *req = NULL;
        int rc = new_place(t, &req);

        if (rc == 0)
            rc = vial_session_open(t->engine, req, NULL, &held[count], &t->err);
        vial_request_free(req);
        if (rc < 0)
            break;
    }
    if (count == HELD)
        each = (resident_bytes() - before) / HELD / MEBIBYTE;
    while (count > 0)
        vial_session_free(held[--count]);
    return each < 0 && t->err.code[0] == '\0' ? 0 : each;
}

/* A container whose owner is dead: ours, had it begun with the first tick of the
 * machine. What a killed caller leaves goes by itself, and cannot be waited for. */
static int make_orphan(struct trial *t, const char *docker)
{
    auto_str struct str owner = { 0 };
    struct stat space;
    pid_t pid = 0;
    int status = 0;

    if (stat("/proc/self/ns/pid", &space) < 0)
        return fail_sys(&t->err, "stat '/proc/self/ns/pid'");
    str_printf(&owner, "vial.owner=vial-%llu-%d-1-v-bench",
               (unsigned long long)space.st_ino, getpid());
    const char *const argv[] = {
        "docker",  "run",      "-d",        "--label", "vial.managed=true",
        "--label", owner.data, "--network", "none",    BENCH_IMAGE,
        "sleep",   "60",       NULL
    };

    if (str_ok(&owner) &&
        bench_spawn(&(struct bench_child){ docker, argv, -1, -1, NULL }, &pid) == 0 &&
        waitpid(pid, &status, 0) == pid && status == 0)
        return 0;
    return -1;
}

static int make_orphans(struct trial *t)
{
    auto_free char *docker = path_find_program("docker", PATH_SEARCH);

    for (int i = 0; i < ORPHANS; i++)
        if (!docker || make_orphan(t, docker) < 0)
            return fail(&t->err, VIAL_E_SYSTEM,
                        "no container engine with " BENCH_IMAGE " and its command");
    return 0;
}

double trial_swept(struct trial *t)
{
    int64_t begun = 0;
    unsigned removed = 0;

    if (make_orphans(t) < 0)
        return -1;
    begun = clock_now_ns();
    if (vial_cleanup(t->engine, &removed, &t->err) < 0)
        return -1;
    if (removed < ORPHANS)
        return fail(&t->err, VIAL_E_SYSTEM, "%u of %d were left to remove", removed,
                    ORPHANS);
    return clock_ms_between(begun, clock_now_ns());
}
