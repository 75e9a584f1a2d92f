/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Measures what an open session costs: a program started in it beside one started bare,
 * in turn; and a large file into and out of it beside cat with the same bytes through a
 * pipe.
 */

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/fail.h"
#include "base/io.h"
#include "bench/bench.h"
#include "cli/print.h"

#define FILE_BYTES  ((size_t)100 << 20)
#define FILE_ROUNDS 5
#define PIECE       ((size_t)64 << 10)

static const char *const program[] = { "/bin/true", NULL };

static double since(int64_t begun)
{
    return clock_ms_between(begun, clock_now_ns());
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a;
    double y = *(const double *)b;

    return (x > y) - (x < y);
}

static double median(double *ms, size_t count)
{
    qsort(ms, count, sizeof(*ms), compare);
    return ms[count / 2];
}

/* Starts a program that reads IN and writes to OUT; its pid, or -1. */
static pid_t start_bare(const char *const *argv, int in, int out,
                        struct vial_error *err)
{
    pid_t pid = fork();

    if (pid == 0) {
        (void)dup2(in, 0);
        (void)dup2(out, 1);
        (void)execv(argv[0], (char *const *)(uintptr_t)argv);
        _exit(127);
    }
    return pid < 0 ? fail_sys(err, "fork") : pid;
}

static int run_bare(struct vial_error *err)
{
    auto_fd int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    pid_t pid = start_bare(program, null, null, err);

    if (pid < 0)
        return -1;
    return waitpid(pid, NULL, 0) < 0 ? fail_sys(err, "wait") : 0;
}

static int run_inside(struct vial_session *s, struct vial_error *err)
{
    struct vial_exec_options o = { .argv = program };
    struct vial_exec_status status;
    struct vial_exec *x = NULL;

    if (vial_session_exec(s, &o, &x, err) < 0)
        return -1;
    vial_exec_wait(x, -1, &status);
    vial_exec_free(x);
    return 0;
}

static int race_execs(struct vial_session *s, size_t rounds, json_t **out,
                      struct vial_error *err)
{
    auto_free double *bare = calloc(rounds, sizeof(*bare));
    auto_free double *inside = calloc(rounds, sizeof(*inside));
    double a = 0;
    double b = 0;

    if (!bare || !inside)
        return fail_memory(err);
    for (size_t i = 0; i < rounds; i++) {
        int64_t begun = clock_now_ns();

        if (run_bare(err) < 0)
            return -1;
        bare[i] = since(begun);
        begun = clock_now_ns();
        if (run_inside(s, err) < 0)
            return -1;
        inside[i] = since(begun);
    }
    a = median(bare, rounds);
    b = median(inside, rounds);
    /* Both are sorted now; the fastest tenth met no busy moment. */
    *out = json_pack("{s:f, s:f, s:f, s:f}", "bare_ms", a, "session_ms", b, "ratio",
                     b / a, "quiet_ratio", inside[rounds / 10] / bare[rounds / 10]);
    return *out ? 0 : fail_memory(err);
}

/* The file from one end of a pipe to the other. */
static int through_cat(int file, struct vial_error *err)
{
    static const char *const cat[] = { "/bin/cat", NULL };
    auto_free char *piece = malloc(PIECE);
    int ends[2];
    pid_t pid = -1;

    if (!piece)
        return fail_memory(err);
    if (lseek(file, 0, SEEK_SET) < 0 || pipe2(ends, O_CLOEXEC) < 0)
        return fail_sys(err, "make a pipe");
    pid = start_bare(cat, file, ends[1], err);
    (void)close(ends[1]);
    while (pid > 0 && read(ends[0], piece, PIECE) > 0)
        ;
    (void)close(ends[0]);
    if (pid > 0)
        (void)waitpid(pid, NULL, 0);
    return pid < 0 ? -1 : 0;
}

static int fill_file(int file, struct vial_error *err)
{
    char block[4096];
    int rc = file < 0 ? -1 : 0;

    memset(block, 'v', sizeof(block));
    for (size_t i = 0; rc == 0 && i < FILE_BYTES; i += sizeof(block))
        rc = io_write_all(file, block, sizeof(block));
    return rc < 0 ? fail(err, VIAL_E_MEMORY, "there is no memory for a file") : 0;
}

/* In and out again, each in milliseconds. */
static int move_file(struct vial_session *s, int file, double *in, double *out,
                     struct vial_error *err)
{
    auto_fd int null = open("/dev/null", O_WRONLY | O_CLOEXEC);
    int64_t begun = clock_now_ns();

    if (lseek(file, 0, SEEK_SET) < 0)
        return fail_sys(err, "rewind a file");
    if (vial_session_put_fd(s, "file", file, 0, err) < 0)
        return -1;
    *in = since(begun);
    begun = clock_now_ns();
    if (vial_session_get_fd(s, "file", 0, 0, null, err) < 0)
        return -1;
    *out = since(begun);
    return 0;
}

static int race_files(struct vial_session *s, json_t **out, struct vial_error *err)
{
    auto_fd int file = memfd_create("bench", MFD_CLOEXEC);
    double ms[3][FILE_ROUNDS];
    double cat = 0;

    if (fill_file(file, err) < 0)
        return -1;
    for (size_t i = 0; i < FILE_ROUNDS; i++) {
        int64_t begun = clock_now_ns();

        if (through_cat(file, err) < 0)
            return -1;
        ms[0][i] = since(begun);
        if (move_file(s, file, &ms[1][i], &ms[2][i], err) < 0)
            return -1;
    }
    cat = median(ms[0], FILE_ROUNDS);
    *out = json_pack("{s:I, s:f, s:f, s:f}", "bytes", (json_int_t)FILE_BYTES, "cat_ms",
                     cat, "in", cat / median(ms[1], FILE_ROUNDS), "out",
                     cat / median(ms[2], FILE_ROUNDS));
    return 0;
}

static int race(struct vial_session *s, size_t rounds, json_t **out,
                struct vial_error *err)
{
    json_t *execs = NULL;
    json_t *files = NULL;

    if (race_execs(s, rounds, &execs, err) < 0)
        return -1;
    if (race_files(s, &files, err) < 0) {
        json_decref(execs);
        return -1;
    }
    *out = json_pack("{s:o, s:o}", "exec", execs, "file", files);
    return *out ? 0 : fail_memory(err);
}

int bench_session(size_t rounds, json_t **out, struct vial_error *err)
{
    static const char asked[] = "{\"driver\": \"native\", \"disk\": \"256m\"}";
    struct vial_engine *engine = NULL;
    struct vial_request *req = NULL;
    struct vial_session *session = NULL;
    int rc = -1;

    if (vial_engine_open(NULL, &engine, err) == 0 &&
        vial_request_parse(asked, sizeof(asked) - 1, &req, err) == 0 &&
        vial_session_open(engine, req, NULL, &session, err) == 0)
        rc = race(session, rounds, out, err);
    vial_session_free(session);
    vial_request_free(req);
    vial_engine_close(engine);
    return rc;
}

static double number_at(const json_t *result, const char *key, const char *inner)
{
    return json_number_value(json_object_get(json_object_get(result, key), inner));
}

int bench_print_session(const json_t *result)
{
    auto_str struct str text = { 0 };

    str_printf(&text,
               "exec in an open session: %.2f times a bare fork and exec "
               "(%.2f in quiet moments)\n",
               number_at(result, "exec", "ratio"),
               number_at(result, "exec", "quiet_ratio"));
    str_printf(&text,
               "a file of 100 MiB: in at %.2f, out at %.2f times the rate of cat\n",
               number_at(result, "file", "in"), number_at(result, "file", "out"));
    return print_text(&text);
}
