/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/fail.h"
#include "base/path.h"
#include "base/unit.h"
#include "cli/cli.h"
#include "cli/print.h"

#define MAX_ARGS   40
#define MAX_ROUNDS 10000

/* Bubblewrap with the walls it has that vial has too. */
#define BWRAP                                                                          \
    "bwrap", "--ro-bind", "/usr", "/usr", "--symlink", "usr/bin", "/bin", "--symlink", \
        "usr/lib", "/lib", "--symlink", "usr/lib64", "/lib64", "--proc", "/proc",      \
        "--dev", "/dev", "--tmpfs", "/tmp", "--tmpfs", "/work", "--chdir", "/work",    \
        "--unshare-all", "--die-with-parent", "--new-session", "--clearenv",           \
        "--cap-drop", "ALL"

/* One way to run a program that does nothing. The first row of a group is what
 * the others are compared with; SELF stands for this command. */
struct contestant {
    const char *group, *name;
    const char *argv[MAX_ARGS];
};

#define SELF "vial"

static const struct contestant contestants[] = {
    { "python", "bare", { "python3", "-c", "pass" } },
    { "python", "bwrap", { BWRAP, "python3", "-c", "pass" } },
    { "python", "vial", { SELF, "run", "python", "pass" } },
    { "bash", "bare", { "bash", "-c", ":" } },
    { "bash", "bwrap", { BWRAP, "bash", "-c", ":" } },
    { "bash", "vial", { SELF, "run", "bash", ":" } },
    { "node", "bare", { "node", "-e", "0" } },
    { "node", "vial", { SELF, "run", "node", "0" } },
};

#define CONTESTANTS (sizeof(contestants) / sizeof(contestants[0]))

struct measured {
    char *program; /* NULL: not on this host */
    double *ms;    /* one per round, sorted at the end */
    size_t count;
    bool failed; /* the program did not exit 0 */
};

static void measured_done(struct measured (*all)[CONTESTANTS])
{
    struct measured *m = *all;

    for (size_t i = 0; i < CONTESTANTS; i++) {
        free(m[i].program);
        free(m[i].ms);
    }
}

static int prepare(struct measured *m, size_t rounds, struct vial_error *err)
{
    for (size_t i = 0; i < CONTESTANTS; i++) {
        const char *name = contestants[i].argv[0];

        m[i].program = strcmp(name, SELF) == 0 ? strdup("/proc/self/exe")
                                               : path_find_program(name, PATH_SEARCH);
        m[i].ms = calloc(rounds, sizeof(double));
        if (!m[i].ms)
            return fail_memory(err);
    }
    return 0;
}

/* The same environment for all, with the locale that a vessel has. */
static int spawn(const char *program, const char *const *argv, pid_t *pid)
{
    char path[] = "PATH=" PATH_SEARCH;
    char lang[] = "LANG=C.UTF-8";
    char *const env[] = { path, lang, NULL };
    posix_spawn_file_actions_t actions;
    int rc = posix_spawn_file_actions_init(&actions);

    if (rc != 0)
        return rc;
    for (int fd = 0; rc == 0 && fd < 3; fd++)
        rc = posix_spawn_file_actions_addopen(&actions, fd, "/dev/null", O_RDWR, 0);
    if (rc == 0)
        rc = posix_spawn(pid, program, &actions, NULL, (char *const *)(uintptr_t)argv,
                         env);
    (void)posix_spawn_file_actions_destroy(&actions);
    return rc;
}

static void race(const struct contestant *c, struct measured *m)
{
    int64_t start = clock_now_ns();
    pid_t pid = 0;
    int status = 0;

    if (!m->program || m->failed)
        return;
    m->failed = spawn(m->program, c->argv, &pid) != 0 ||
                waitpid(pid, &status, 0) != pid || status != 0;
    if (!m->failed)
        m->ms[m->count++] = clock_ms_between(start, clock_now_ns());
}

static int by_size(const void *a, const void *b)
{
    const double *x = a;
    const double *y = b;

    return (*x > *y) - (*x < *y);
}

static double quantile(const struct measured *m, double q)
{
    size_t at = (size_t)((double)m->count * q);

    return m->ms[at < m->count ? at : m->count - 1];
}

static const struct measured *base_of(const struct measured *all, size_t i)
{
    size_t first = 0;

    while (strcmp(contestants[first].group, contestants[i].group) != 0)
        first++;
    return &all[first];
}

static json_t *row_json(const struct measured *all, size_t i)
{
    const struct measured *m = &all[i];
    const struct measured *base = base_of(all, i);
    json_t *row = json_pack("{ss ss}", "group", contestants[i].group, "name",
                            contestants[i].name);

    if (m->failed || m->count == 0) {
        (void)json_object_set_new(
            row, "absent",
            json_string(m->failed ? "did not exit 0" : "not on this host"));
        return row;
    }
    (void)json_object_update_new(
        row, json_pack("{sI sf sf sf}", "runs", (json_int_t)m->count, "p50_ms",
                       quantile(m, 0.5), "p90_ms", quantile(m, 0.9), "p99_ms",
                       quantile(m, 0.99)));
    if (base->count > 0)
        (void)json_object_set_new(row, "ratio",
                                  json_real(quantile(m, 0.5) / quantile(base, 0.5)));
    return row;
}

static int print_table(const struct measured *all)
{
    static const char *const heads[] = { "program", "way",    "p50 ms",
                                         "p90 ms",  "p99 ms", "times bare" };
    struct table t = { .columns = 6 };
    char cell[32];

    for (size_t i = 0; i < 6; i++)
        table_add(&t, heads[i]);
    for (size_t i = 0; i < CONTESTANTS; i++) {
        const struct measured *m = &all[i];
        double q[] = { 0.5, 0.9, 0.99 };

        if (m->failed || m->count == 0)
            continue;
        table_add(&t, contestants[i].group);
        table_add(&t, contestants[i].name);
        for (size_t k = 0; k < 3; k++) {
            (void)snprintf(cell, sizeof(cell), "%.2f", quantile(m, q[k]));
            table_add(&t, cell);
        }
        (void)snprintf(cell, sizeof(cell), "%.2f",
                       quantile(m, 0.5) / quantile(base_of(all, i), 0.5));
        table_add(&t, cell);
    }
    return table_print(&t);
}

static int report(const struct cli *cli, const struct measured *all)
{
    json_t *rows = json_array();

    if (!cli_flag(cli, "json")) {
        json_decref(rows);
        return print_table(all);
    }
    for (size_t i = 0; i < CONTESTANTS; i++)
        (void)json_array_append_new(rows, row_json(all, i));
    return print_json(json_pack("{so}", "results", rows));
}

static int read_rounds(const struct cli *cli, int64_t *out, struct vial_error *err)
{
    const char *text = cli_flag(cli, "rounds");

    *out = 50;
    if (text && (unit_parse_count(text, out) < 0 || *out < 1 || *out > MAX_ROUNDS)) {
        (void)fail(err, VIAL_E_VALUE, "rounds '%s' is not a number from 1 to %d", text,
                   MAX_ROUNDS);
        return fail_remedy(err, "try --rounds 50");
    }
    return 0;
}

static int run(struct cli *cli)
{
    __attribute__((cleanup(measured_done))) struct measured all[CONTESTANTS] = { 0 };
    struct vial_error err = { 0 };
    int64_t rounds = 0;

    if (read_rounds(cli, &rounds, &err) < 0 || prepare(all, (size_t)rounds, &err) < 0)
        return cli_fail(cli, &err);
    /* Interleaved, so that a busy moment of the machine meets all of them. */
    for (int64_t round = 0; round < rounds; round++) {
        for (size_t i = 0; i < CONTESTANTS; i++)
            race(&contestants[i], &all[i]);
    }
    for (size_t i = 0; i < CONTESTANTS; i++)
        qsort(all[i].ms, all[i].count, sizeof(double), by_size);
    return report(cli, all);
}

static const struct flag flags[] = {
    { "rounds", "NUMBER", "How often each one runs; 50 unless given." },
    FLAG_ROW_JSON,
    { 0 },
};

extern const struct command command_bench;
const struct command command_bench = {
    .name = "bench",
    .operands = "",
    .summary = "measure vial beside the bare interpreter and bubblewrap",
    .text =
        "Runs programs that do nothing: bare, in bubblewrap where it is installed, and\n"
        "in a vessel, in turn. Only the ratios mean something; times depend on the "
        "machine.",
    .examples = "vial bench\n"
                "vial bench --rounds 200 --json",
    .flags = flags,
    .run = run,
};
