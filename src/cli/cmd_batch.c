/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "api/inside.h"
#include "base/auto.h"
#include "base/fail.h"
#include "base/json.h"
#include "base/unit.h"
#include "batch/batch.h"
#include "batch/patience.h"
#include "cli/batch_files.h"
#include "cli/batch_jobs.h"
#include "cli/batch_places.h"
#include "cli/batch_summary.h"
#include "cli/cli.h"
#include "cli/live.h"
#include "cli/print.h"
#include "cli/request_args.h"

#define TERMINAL_MS   INT64_C(200) /* between two looks of a person … */
#define LOG_MS        INT64_C(30000)
#define PAUSE_MOST_MS INT64_C(86400000)

/* What one invocation holds. */
struct job {
    const struct cli *cli;
    struct vial_engine *engine;
    struct vial_request *usual;
    struct batch_files files;
    struct batch_places places;
    char *fields; /* of --fields, cut into words */
    const char *members[64];
    int cancel_fd;
    bool quiet, terminal;
};

static bool is_remote(const struct cli *cli)
{
    return cli_flag(cli, "daemon") || cli_flag(cli, "socket");
}

/* Of the terminal: a line that is wider could not be written over. */
static int columns(void)
{
    struct winsize size = { 0 };

    return ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 1 ? size.ws_col
                                                                           : 80;
}

static void show_progress(void *context, const struct tally *t)
{
    struct job *job = context;
    auto_str struct str line = { 0 };
    size_t waiting = atomic_load(&job->places.waiting);

    tally_progress(t, &line);
    if (waiting > 0)
        str_printf(&line, "  %zu wait to be let in", waiting);
    if (str_ok(&line) && job->terminal)
        (void)fprintf(stderr, "\r\033[K%.*s", columns() - 1, line.data);
    else if (str_ok(&line))
        say("%s", line.data);
}

/* How many rows there are, if IN is a file. */
static size_t count_rows(FILE *in)
{
    auto_free char *text = NULL;
    size_t count = 0;
    size_t cap = 0;
    ssize_t len;

    if (fseek(in, 0, SEEK_END) != 0 || fseek(in, 0, SEEK_SET) != 0)
        return 0;
    while ((len = getline(&text, &cap, in)) > 0)
        count += !row_is_blank(text, (size_t)len);
    return lseek(fileno(in), 0, SEEK_SET) == 0 ? count : 0;
}

static int number(const struct cli *cli, const char *name, long usual, long most,
                  long *out, struct vial_error *err)
{
    const char *text = cli_flag(cli, name);
    char *end = NULL;

    *out = text ? strtol(text, &end, 10) : usual;
    if (!text || (end != text && !*end && *out >= 0 && *out <= most))
        return 0;
    return fail(err, VIAL_E_USAGE, "--%s '%.32s' is not a number from 0 to %ld", name,
                text, most);
}

/* Broken rows end a strict batch before it has begun. */
static int check_rows(FILE *in, const struct grader *g, const struct row_rules *rules,
                      struct vial_error *err)
{
    auto_free char *text = NULL;
    struct vial_error wrong = { 0 };
    size_t cap = 0;
    size_t line = 0;
    ssize_t len;

    while (!wrong.code[0] && (len = getline(&text, &cap, in)) > 0) {
        struct row row = { .line = line + 1 };

        line++;
        if (row_is_blank(text, (size_t)len))
            continue;
        row_read(text, (size_t)len, rules, &row);
        (void)grade_check(g, &row, &wrong);
        row_done(&row);
    }
    if (fseek(in, 0, SEEK_SET) != 0)
        return fail(err, VIAL_E_USAGE,
                    "--strict wants a file, which can be read twice");
    if (!wrong.code[0])
        return 0;
    *err = wrong;
    return fail_in(err, "line %zu", line);
}

static int run_here(void *context, const struct vial_request *req,
                    const struct vial_watch *watch, struct vial_result **out,
                    struct vial_error *err)
{
    struct job *job = context;
    struct patience patience = { .waiting = &job->places.waiting };
    int rc;

    do {
        vial_result_free(ptr_take(out));
        fail_clear(err);
        rc = vial_run(job->engine, req, watch, out, err);
    } while (patience_turned_away(rc, *out, err) &&
             patience_wait(&patience, 0, watch->cancel_fd));
    return rc;
}

static int run_there(void *context, const struct vial_request *req,
                     const struct vial_watch *watch, struct vial_result **out,
                     struct vial_error *err)
{
    return batch_places_run(&((struct job *)context)->places, req, watch, out, err);
}

static void run_many_there(void *context, const struct grade_many *many)
{
    batch_places_run_many(&((struct job *)context)->places, many);
}

static int begin(struct job *job, struct grader *g, struct batch_options *o,
                 struct vial_error *err)
{
    struct vial_warm_options warm = { 0 };

    if (request_args_flags(job->cli, &job->usual, err) < 0)
        return -1;
    g->usual = job->usual;
    if (cli_engine(job->cli, &job->engine, err) < 0)
        return -1;
    if (o->jobs == 0)
        o->jobs =
            batch_jobs_usual(is_remote(job->cli) ? NULL : job->engine, job->usual);
    if (is_remote(job->cli))
        return batch_places_find(&job->places, job->cli, err);
    g->engine = job->engine;
    warm.target = o->jobs;
    return vial_engine_warm(job->engine, &warm, err);
}

static void finish(struct job *job)
{
    struct vial_error ignored = { 0 };

    (void)batch_files_close(&job->files, &ignored);
    if (job->cancel_fd >= 0)
        (void)close(job->cancel_fd);
    batch_places_done(&job->places);
    free(job->fields);
    vial_request_free(job->usual);
    vial_engine_close(job->engine);
}

static int write_json(json_t *s, const char *path, struct vial_error *err)
{
    if (!path)
        return 0;
    return json_dump_file(s, path, JSON_INDENT(2)) < 0
               ? fail_sys(err, "write '%s'", path)
               : 0;
}

/* For people on stderr; as JSON into a file, or where the rows are not. */
static int tell_summary(struct job *job, struct batch *b, struct vial_error *err)
{
    const char *path = cli_flag(job->cli, "summary");
    bool prints = cli_flag(job->cli, "json") != NULL;
    char hash[65];
    struct batch_summary where = { .engine = job->engine,
                                   .places = is_remote(job->cli) ? &job->places : NULL,
                                   .usual = job->usual,
                                   .input_sha256 = hash,
                                   .jobs = b->options.jobs,
                                   .cancel_fd = job->cancel_fd };
    auto_json json_t *s = NULL;

    batch_input_hash(b, hash);
    if (job->terminal && !job->quiet)
        (void)fputs("\r\033[K", stderr);
    if (path || prints)
        s = batch_summary_json(&b->tally, &where);
    if ((path || prints) && !s)
        return fail_memory(err);
    if (write_json(s, path, err) < 0)
        return -1;
    if (prints)
        return print_json(json_incref(s)) == STATUS_OK ? 0 : fail_sys(err, "print");
    if (!job->quiet)
        batch_summary_show(&b->tally);
    return 0;
}

/* What people who come here first get wrong. */
static void say_hints(const struct job *job, const struct tally *t)
{
    if (job->quiet)
        return;
    if (t->done + t->resumed == 0)
        say("there was no row: write one JSON object a line, or name a directory with "
            "programs (.py, .c, .cpp …); 'vial batch --help' has examples");
    if (t->slip.line)
        say("line %zu: '%s' is no field of a request, and comes back untouched; did you "
            "mean '%s'?",
            t->slip.line, t->slip.name, t->slip.meant);
}

static int status_of(const struct job *job, const struct batch *b)
{
    if (b->tally.bad_references > 0)
        say("WARNING: %zu of %zu reference solutions did not pass: the tests, or the "
            "limits, are wrong",
            b->tally.bad_references, b->tally.references);
    if (b->tally.verdicts[VIAL_FAILED] > 0) {
        if (b->tally.first.code[0])
            say_error(&b->tally.first);
        say("vial failed on %zu rows: --resume --retry-failed runs them again",
            b->tally.verdicts[VIAL_FAILED]);
        return STATUS_VIAL;
    }
    return cli_flag(job->cli, "fail-on-wrong") &&
                   b->tally.passed < b->tally.done + b->tally.resumed
               ? STATUS_UNFIT
               : STATUS_OK;
}

/* Stopped by somebody: what is written, is whole. */
static int say_stopped(const struct job *job, const struct batch *b)
{
    int signal = signals_seen(job->cancel_fd);

    if (!job->quiet)
        say("stopped after %zu rows%s", b->tally.done + b->tally.resumed,
            cli_flag(job->cli, "output") ? "; --resume goes on from there" : "");
    return STATUS_SIGNAL + signal;
}

static int run_batch(struct job *job, struct batch *b)
{
    struct vial_error err = { 0 };

    int rc = batch_run(b, &err);

    if (job->terminal && !job->quiet)
        show_progress(job, &b->tally);
    if (rc == 0) {
        if (tell_summary(job, b, &err) < 0)
            return cli_fail(job->cli, &err);
        say_hints(job, &b->tally);
        return status_of(job, b);
    }
    if (job->terminal && !job->quiet)
        (void)fputc('\n', stderr);
    return err.code[0] ? cli_fail(job->cli, &err) : say_stopped(job, b);
}

static int start(struct job *job, struct grader *g, struct batch_options *o)
{
    const char *path = cli_flag(job->cli, "output");
    bool resume = cli_flag(job->cli, "resume") != NULL;
    struct batch b = { 0 };
    struct vial_error err = { 0 };
    int status;

    if (batch_open(&b, o, g, fileno(job->files.in), job->files.out_fd, &err) < 0)
        return cli_fail(job->cli, &err);
    b.tally.total = job->files.in == stdin ? 0 : count_rows(job->files.in);
    status = resume && batch_resume(&b, path, &err) < 0 ? cli_fail(job->cli, &err)
                                                        : run_batch(job, &b);
    batch_close(&b);
    if (batch_files_close(&job->files, &err) < 0 && status < STATUS_SIGNAL)
        return cli_fail(job->cli, &err);
    return status;
}

/* Between two looks at how it gets on. */
static int read_pause(const struct job *job, int64_t *out, struct vial_error *err)
{
    const char *text = cli_flag(job->cli, "progress");

    *out = job->terminal ? TERMINAL_MS : LOG_MS;
    if (!text || (unit_parse_ms(text, out) == 0 && *out > 0 && *out <= PAUSE_MOST_MS))
        return 0;
    (void)fail(err, VIAL_E_USAGE, "--progress '%.32s' is not a time up to 24h", text);
    return fail_remedy(err, "write it as 10s or 500ms; --quiet shows none");
}

/* "1%", or "1". */
static int read_share(const struct cli *cli, double *out, struct vial_error *err)
{
    const char *text = cli_flag(cli, "max-infra");
    char *end = NULL;
    double percent = text ? strtod(text, &end) : 1;

    if (text && (end == text || (*end && strcmp(end, "%") != 0) || !(percent >= 0) ||
                 percent > 100))
        return fail(err, VIAL_E_USAGE,
                    "--max-infra '%.32s' is not a share from 0%% to 100%%", text);
    *out = percent / 100;
    return 0;
}

/* "stdout,usage" */
static int read_members(struct job *job, struct grader *g, struct vial_error *err)
{
    const char *given = cli_flag(job->cli, "fields");
    size_t most = sizeof(job->members) / sizeof(job->members[0]) - 1;
    size_t count = 0;
    char *rest = NULL;
    char *word;

    if (!given)
        return 0;
    job->fields = strdup(given);
    if (!job->fields)
        return fail_memory(err);
    for (word = strtok_r(job->fields, ",", &rest); word;
         word = strtok_r(NULL, ",", &rest)) {
        if (count == most)
            return fail(err, VIAL_E_USAGE, "--fields names more than %zu members",
                        most);
        job->members[count++] = word;
    }
    g->members = job->members;
    return 0;
}

static int check_flags(const struct cli *cli, struct vial_error *err)
{
    if (cli_flag(cli, "resume") && !cli_flag(cli, "output"))
        return fail(err, VIAL_E_USAGE, "--resume goes on with a file: name --output");
    if (cli_flag(cli, "retry-failed") && !cli_flag(cli, "resume"))
        return fail(err, VIAL_E_USAGE, "--retry-failed goes with --resume");
    if (!cli_flag(cli, "json") || cli_flag(cli, "output"))
        return 0;
    (void)fail(err, VIAL_E_USAGE,
               "--json prints the summary where the rows are printed");
    return fail_remedy(err, "name --output for the rows, or --summary for the summary");
}

static int read_flags(struct job *job, struct grader *g, struct batch_options *o,
                      struct vial_error *err)
{
    const struct cli *cli = job->cli;
    const char *order = cli_flag(cli, "order");
    const char *compare = cli_flag(cli, "compare");
    long jobs = 0;
    long retries = 0;
    long repeats = 0;

    if (check_flags(cli, err) < 0 || read_pause(job, &o->progress_ms, err) < 0 ||
        read_share(cli, &o->failed_most, err) < 0 || read_members(job, g, err) < 0 ||
        number(cli, "repeat", 1, 1000, &repeats, err) < 0)
        return -1;
    if (number(cli, "jobs", 0, BATCH_JOBS_MOST, &jobs, err) < 0 ||
        number(cli, "retries", 2, 10, &retries, err) < 0 ||
        compare_parse(compare ? compare : "exact", &o->rules.compare, err) < 0)
        return -1;
    o->jobs = jobs == 0 && cli_flag(cli, "jobs") ? 1 : (unsigned)jobs;
    o->in_order = order && strcmp(order, "input") == 0;
    o->rules.trusts = cli_flag(cli, "trust-rows") != NULL;
    o->progress = job->quiet ? NULL : show_progress;
    o->context = job;
    g->retries = (unsigned)retries;
    g->stops = cli_flag(cli, "stop") && strcmp(cli_flag(cli, "stop"), "first") == 0;
    g->deterministic = cli_flag(cli, "deterministic") != NULL;
    g->no_times = cli_flag(cli, "no-times") != NULL;
    g->repeats = (unsigned)repeats;
    g->by_cpu = cli_flag(cli, "timeout-kind") &&
                strcmp(cli_flag(cli, "timeout-kind"), "cpu") == 0;
    g->humaneval = cli_flag(cli, "result-format") &&
                   strcmp(cli_flag(cli, "result-format"), "humaneval") == 0;
    return 0;
}

static int run(struct cli *cli)
{
    struct job job = { .cli = cli,
                       .files = { .out_fd = -1 },
                       .cancel_fd = -1,
                       .quiet = cli_flag(cli, "quiet") != NULL,
                       .terminal = isatty(STDERR_FILENO) == 1 };
    struct grader g = { .context = &job,
                        .run = is_remote(cli) ? run_there : run_here,
                        .run_many = is_remote(cli) ? run_many_there : NULL };
    struct batch_options o = { 0 };
    struct vial_error err = { 0 };
    int status;

    if (read_flags(&job, &g, &o, &err) < 0 || begin(&job, &g, &o, &err) < 0 ||
        batch_files_in(&job.files, cli_operand(cli, 0), inside_settings(job.engine),
                       &err) < 0 ||
        (cli_flag(cli, "strict") && check_rows(job.files.in, &g, &o.rules, &err) < 0) ||
        (cli_flag(cli, "retry-failed") &&
         done_drop_failed(cli_flag(cli, "output"), &err) < 0) ||
        batch_files_out(&job.files, cli_flag(cli, "output"),
                        cli_flag(cli, "resume") != NULL, &err) < 0 ||
        grader_init(&g) < 0) {
        finish(&job);
        return cli_fail(cli, &err);
    }
    job.cancel_fd = signals_open();
    g.cancel_fd = job.cancel_fd;
    status = start(&job, &g, &o);
    grader_done(&g);
    finish(&job);
    return status;
}

/* What a row alone can say; `retries` is ours here. */
static const char *const without[] = { "language", "code",    "command", "args",
                                       "outputs",  "retries", NULL };

static const struct flag flags[] = {
    { "output", "FILE", "Write the rows there instead of to standard output." },
    { "resume", NULL, "Go on with --output where it was stopped; no row runs twice." },
    { "retry-failed", NULL,
      "With --resume: run those rows again that vial itself failed on." },
    { "jobs", "NUMBER",
      "How many programs run at once; else as many as there are cores, and no more than "
      "the memory that is free allows by their limit." },
    { "order", "WHICH", "Write rows as they end, or in the order of the input.",
      "end|input" },
    { "compare", "HOW",
      "How output is compared with 'expected': exact, lines, tokens, float:1e-6, "
      "lower." },
    { "stop", "WHEN", "Leave out a row's other tests after the first that fails.",
      "first|never" },
    { "retries", "NUMBER",
      "How often a run is tried again that vial itself failed on (2)." },
    { "max-infra", "SHARE",
      "End the batch when vial failed on more rows than this (1%), and on 20 at least." },
    { "repeat", "NUMBER", "Run each row so often, and mark as flaky what varies." },
    { "timeout-kind", "WHICH",
      "What a row's timeout counts: the clock, or the program's own cpu time.",
      "wall|cpu" },
    { "result-format", "WHICH",
      "Add 'result' in the words of another harness: passed, timed out, failed: why.",
      "vial|humaneval" },
    { "fields", "NAMES",
      "Write these members alone, besides index, id, verdict, passed and hash." },
    { "name", "TEXT", "What a daemon's page calls this batch; else the file's name." },
    { "deterministic", NULL,
      "Fix the addresses, the hash seed, the locale and the time zone of programs." },
    { "no-times", NULL, "Leave out times and usage, so that outputs can be compared." },
    { "trust-rows", NULL,
      "Let rows set everything that a request can: driver, mounts, network, image." },
    { "strict", NULL, "Refuse the whole batch if one of its rows is broken." },
    { "fail-on-wrong", NULL, "Exit with 1 unless all rows passed." },
    { "summary", "FILE", "Write the summary there, as JSON." },
    { "daemon", "[URL]",
      "Have the daemon run them: this user's, or https://HOST:PORT, "
      "http://127.0.0.1:PORT, unix:/PATH; several, with commas between or the flag "
      "repeated, share the rows." },
    { "token-file", "FILE",
      "Where the token for those daemons is; else it is in VIAL_TOKEN." },
    { "ca-file", "FILE",
      "Which authorities daemons' certificates are checked against; else the host's." },
    { "socket", "PATHS",
      "The daemon's unix socket, instead of the usual ones; several, with commas between, "
      "share the rows." },
    { "json", NULL, "With --output, print the summary as JSON." },
    { "progress", "TIME",
      "How often it tells how it gets on (30s; on a terminal the line is kept up)." },
    { "quiet", NULL, "Show neither progress nor summary." },
    { 0 },
};

extern const struct command command_batch;
const struct command command_batch = {
    .name = "batch",
    .operands = "[FILE]",
    .summary = "run many programs, and judge what they print",
    .text =
        "FILE has one JSON object a line: a request's fields, as --request of 'vial run'\n"
        "has them, and besides 'id', 'tests' (a list of objects with stdin, args, files,\n"
        "expected, checker; stdin_base64 and expected_base64 for bytes), 'expected',\n"
        "'compare' and 'checker'. What else stands there comes back untouched. Without\n"
        "FILE, or with '-', it is standard input; a directory means the programs in it.\n"
        "For each row one line comes out, with its verdict and whether it passed. A\n"
        "program with several tests is compiled once. A checker is\n"
        "a program like any other, called with the names of three files: input, output,\n"
        "expected answer; it exits with 0 for right, 1 or 2 for wrong. A broken row is a\n"
        "row with an error.\n"
        "Flags of 'vial run' hold for rows that do not say otherwise.",
    .examples =
        "vial batch programs.jsonl --output results.jsonl\n"
        "vial batch programs.jsonl --output results.jsonl --resume\n"
        "vial batch --timeout 5s --compare lines --order input < in > out\n"
        "vial batch solutions/ --jobs 8\n"
        "vial batch programs.jsonl --daemon https://a.example,https://b.example",
    .flags = flags,
    .takes_fields = true,
    .without = without,
    .max_operands = 1,
    .run = run,
};
