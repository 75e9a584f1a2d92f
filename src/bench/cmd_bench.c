/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/fail.h"
#include "base/io.h"
#include "base/unit.h"
#include "bench/bench.h"
#include "cli/cli.h"
#include "cli/print.h"

#define MAX_ROUNDS  10000
#define MAX_SECONDS 600

struct number {
    const char *flag;
    int64_t otherwise, min, max;
};

static int read_number(const struct cli *cli, const struct number *n, int64_t *out,
                       struct vial_error *err)
{
    const char *text = cli_flag(cli, n->flag);

    *out = n->otherwise;
    if (!text || (unit_parse_count(text, out) == 0 && *out >= n->min && *out <= n->max))
        return 0;
    (void)fail(err, VIAL_E_VALUE, "%s '%s' is not a number from %lld to %lld", n->flag,
               text, (long long)n->min, (long long)n->max);
    return fail_remedy(err, "try --%s %lld", n->flag, (long long)n->otherwise);
}

static int refuse_file(const char *path, int rc, struct vial_error *err)
{
    (void)fail_sys_rc(err, rc, "write '%s'", path);
    (void)fail_as(err, VIAL_E_FILE);
    return fail_remedy(err, "name a file in a directory that you may write");
}

/* Before the minutes that it takes to have something to write. Leaves what it finds. */
static int try_file(const char *path, struct vial_error *err)
{
    int fd = path ? open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644) : -1;
    int rc = fd < 0 ? -errno : 0;

    if (!path)
        return 0;
    if (fd >= 0)
        (void)unlink(path);
    if (rc == -EEXIST) {
        fd = open(path, O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
        rc =
            fd < 0 && errno != ENXIO ? -errno : 0; /* ENXIO: a FIFO, to be waited for */
    }
    if (fd >= 0)
        (void)close(fd);
    return rc < 0 ? refuse_file(path, rc, err) : 0;
}

static int write_file(const char *path, const char *text, struct vial_error *err)
{
    auto_fd int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    int rc = fd < 0 ? -errno : io_write_all(fd, text, strlen(text));

    return rc < 0 ? refuse_file(path, rc, err) : 0;
}

/* Takes TEXT, which may be NULL for want of memory. */
static int give(const char *path, char *text, struct vial_error *err)
{
    int rc = 0;

    if (path)
        rc = text ? write_file(path, text, err) : fail_memory(err);
    free(text);
    return rc;
}

static int measure(const struct cli *cli, json_t **out, struct vial_error *err)
{
    __attribute__((cleanup(bench_done))) struct bench b = { .filter_fd = -1,
                                                            .limits =
                                                                BENCH_LIMITS_NONE };
    int64_t rounds = 0;
    int64_t seconds = 0;

    if (read_number(cli,
                    &(struct number){ "rounds", cli_flag(cli, "requirements") ? 10 : 50,
                                      1, MAX_ROUNDS },
                    &rounds, err) < 0 ||
        read_number(cli, &(struct number){ "seconds", 2, 0, MAX_SECONDS }, &seconds,
                    err) < 0)
        return -1;
    if (cli_flag(cli, "sessions"))
        return bench_session((size_t)rounds, out, err);
    if (cli_flag(cli, "requirements"))
        return bench_promises((size_t)rounds, out, err);
    if (bench_prepare(&b, (size_t)rounds, err) < 0)
        return -1;
    bench_race(&b);
    bench_crowd(&b, (double)seconds);
    *out = bench_json(&b);
    return *out ? 0 : fail_memory(err);
}

static int run(struct cli *cli)
{
    json_t *result = NULL;
    struct vial_error err = { 0 };
    const char *output = cli_flag(cli, "output");
    const char *plot = cli_flag(cli, "plot");
    int status = 0;

    if (try_file(output, &err) < 0 || try_file(plot, &err) < 0 ||
        measure(cli, &result, &err) < 0 ||
        give(output, output ? json_dumps(result, JSON_INDENT(1)) : NULL, &err) < 0 ||
        give(plot, plot ? bench_plot(result) : NULL, &err) < 0) {
        json_decref(result);
        return cli_fail(cli, &err);
    }
    if (cli_flag(cli, "json"))
        return print_json(result);
    status = cli_flag(cli, "sessions")       ? bench_print_session(result)
             : cli_flag(cli, "requirements") ? bench_print_promises(result)
                                             : bench_print(result);
    json_decref(result);
    return status;
}

static const struct flag flags[] = {
    { "rounds", "NUMBER",
      "How often each way runs; 50 unless given, or 10 of the requirements." },
    { "seconds", "NUMBER",
      "How long each crowd of clients is counted; 2 unless given." },
    { "sessions", NULL,
      "Measure an open session instead: programs, and a large file." },
    { "requirements", NULL,
      "Measure what the presets' documents promise instead, beside its bounds." },
    { "output", "FILE", "Write everything as JSON to FILE." },
    { "plot", "FILE", "Draw the times into FILE, as SVG." },
    FLAG_ROW_JSON,
    { 0 },
};

extern const struct command command_bench;
const struct command command_bench = {
    .name = "bench",
    .operands = "",
    .summary = "measure vial beside the bare interpreter, bubblewrap and containers",
    .text =
        "Runs programs that do nothing, in turn: bare; in bubblewrap, nsjail, isolate\n"
        "and containers where they are there; and in vessels, cold and warm, by the\n"
        "library, a daemon and an MCP server. Then as many as go, asked for by 1, 4, 16\n"
        "and 64 clients. Only the ratios mean\n"
        "something; times depend on the machine.",
    .examples = "vial bench\n"
                "vial bench --sessions\n"
                "vial bench --requirements\n"
                "vial bench --rounds 200 --output bench.json --plot bench.svg",
    .flags = flags,
    .run = run,
};
