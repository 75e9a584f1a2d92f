/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/watch_run.h"

#include <errno.h>
#include <malloc.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/fail.h"
#include "base/str.h"
#include "base/sys.h"
#include "cli/live.h"
#include "cli/outputs.h"
#include "cli/print.h"
#include "cli/pull_progress.h"
#include "cli/remote.h"
#include "model/result.h"

#include "vial/warm.h"

#define WARM_MS 60000 /* for a vessel to wait, imports included */

static int failed_status(const struct vial_result *r)
{
    if (!fail_is(&r->error, VIAL_E_EXEC))
        return STATUS_VIAL;
    return r->error.sys == ENOENT ? STATUS_NOT_FOUND : STATUS_NOT_EXECUTABLE;
}

int watch_run_status(const struct vial_result *result)
{
    switch (result->verdict) {
    case VIAL_OK:
    case VIAL_NONZERO:
        return result->exit_code;
    case VIAL_SIGNAL:
        return STATUS_SIGNAL + result->signal;
    case VIAL_TIMEOUT:
    case VIAL_CPU_TIMEOUT:
        return STATUS_TIMEOUT;
    case VIAL_OOM:
        return STATUS_OOM;
    case VIAL_CANCELLED:
        return STATUS_SIGNAL + SIGINT;
    case VIAL_FAILED:
        return failed_status(result);
    case VIAL_DISK:
    case VIAL_PIDS:
    case VIAL_OUTPUT_LIMIT:
    case VIAL_DENIED:
        return STATUS_VIAL;
    }
    return STATUS_VIAL;
}

static const char *stage_of(const struct vial_result *r)
{
    return r->stage && strcmp(r->stage, "compile") == 0 ? " while compiling" : "";
}

/* A limit that ended the run, with what the preset calls that. */
static void say_limit(const struct vial_result *r, const char *what)
{
    bool named = r->preset_code[0];

    say("%s%s%s%s%s", what, stage_of(r), named ? " [" : "", r->preset_code,
        named ? "]" : "");
}

static void say_verdict(const struct vial_result *r)
{
    const char *name = r->signal ? vial_signal_name(r->signal) : NULL;

    switch (r->verdict) {
    case VIAL_OK:
    case VIAL_NONZERO:
    case VIAL_CANCELLED:
        break;
    case VIAL_SIGNAL:
        say("killed by signal %d%s%s%s", r->signal, name ? " (SIG" : "",
            name ? name : "", name ? ")" : "");
        break;
    case VIAL_TIMEOUT:
        say("timeout after %.3g s%s", r->timing.run_ms / 1000, stage_of(r));
        break;
    case VIAL_CPU_TIMEOUT:
        say_limit(r, "cpu-time limit reached");
        break;
    case VIAL_OOM:
        say_limit(r, "out of memory: the memory limit was reached");
        break;
    case VIAL_DISK:
        say_limit(r, "ended because the disk limit was touched");
        break;
    case VIAL_PIDS:
        say_limit(r, "ended because the pids limit was touched");
        break;
    case VIAL_OUTPUT_LIMIT:
        say_limit(r, "ended because it printed more than output_max");
        break;
    case VIAL_DENIED:
    case VIAL_FAILED:
        say_error_as(&r->error, "error", r->preset_code);
        break;
    }
}

#define REFUSALS_TOLD 3

/* What its gate refused, and what would let it out. */
static void say_refusals(const struct vial_network *n)
{
    unsigned told = 0;

    for (size_t i = 0; i < n->count && told < REFUSALS_TOLD; i++) {
        const struct vial_connection *c = &n->connections[i];

        if (strcmp(c->verdict, "ok") == 0 || strcmp(c->verdict, "abandoned") == 0)
            continue;
        told++;
        if (strcmp(c->verdict, "denied") == 0)
            say("note: the program asked for '%s', which is not allowed; '--allow %s' "
                "lets it out where the policy allows",
                c->name, c->name);
        else
            say("note: '%s' port %u was not reached: %s", c->name, c->port, c->verdict);
    }
}

/* Why a program may have failed that knows no more than "unreachable". */
static void say_network(const struct vial_result *r)
{
    if (r->network && r->verdict != VIAL_OK)
        say_refusals(r->network);
    else if (r->network_refused && r->verdict != VIAL_OK)
        say("note: the program tried the network %llu time%s, and has none; "
            "'--network gate --allow NAME' gives it names, '--network bridge' all, where "
            "the policy allows",
            (unsigned long long)r->network_refused, r->network_refused == 1 ? "" : "s");
}

static void say_module(const struct vial_result *r, const struct live *live)
{
    if (live->lacks_module && r->verdict == VIAL_NONZERO &&
        strcmp(r->driver, "native") == 0)
        say("note: a vessel's Python has the packages of /usr; '--venv DIR' shows it an "
            "environment of yours instead, and runs the code with that");
}

/* The weaker tier is never used without a word. */
static void say_weak(const struct vial_result *r, const struct live *live)
{
    auto_str struct str text = { 0 };

    if (r->wanted_driver[0] && r->verdict != VIAL_DENIED && !live->told) {
        result_stand_in(&text, r->driver, r->wanted_driver);
        say("warning: %s", str_ok(&text) ? text.data : "");
    }
    if (strcmp(r->level, "landlock") == 0)
        say("note: no namespaces on this host, so Landlock, seccomp and rlimits alone "
            "held the program; 'vial doctor' says why, '--require namespaces' refuses");
}

/* Before the output, so that who reads it knows what it is worth. */
static void say_notice(void *context, const char *text)
{
    struct live *live = context;

    say("warning: %s", text);
    live->told = true;
}

static void say_report(const struct vial_result *r)
{
    auto_str struct str line = { 0 };

    str_puts(&line, vial_verdict_name(r->verdict));
    if (r->exit_code >= 0)
        str_printf(&line, ", exit %d", r->exit_code);
    if (r->signal)
        str_printf(&line, ", signal %d", r->signal);
    str_printf(&line, ", %.1f ms", r->duration_ms);
    if (r->out.total_bytes || r->err.total_bytes)
        str_printf(&line, ", %llu + %llu bytes", (unsigned long long)r->out.total_bytes,
                   (unsigned long long)r->err.total_bytes);
    if (r->container_id[0])
        str_printf(&line, ", container %.12s", r->container_id);
    if (r->name[0])
        str_printf(&line, ", named '%s'", r->name);
    if (r->driver[0]) {
        str_printf(&line, ", %s (%s", r->driver, r->level);
        for (char **layer = r->layers; layer && *layer; layer++)
            str_printf(&line, "%s%s", layer == r->layers ? ": " : " ", *layer);
        str_printf(&line, "), limits by %s", r->limits_by);
    }
    if (str_ok(&line))
        say("%s", line.data);
}

static void say_artifacts(const struct vial_result *r)
{
    for (size_t i = 0; i < r->artifact_count; i++)
        say("artifact '%s': %s, %llu bytes", r->artifacts[i].path,
            r->artifacts[i].media, (unsigned long long)r->artifacts[i].size);
    if (r->artifacts_truncated)
        say("there are more artifacts");
}

/* Returns the exit status. A signal, or a failure of our own output, may decide it. */
static int own_status(const struct vial_result *r, const struct live *live,
                      int signal_fd)
{
    int signal = r->verdict == VIAL_CANCELLED ? signals_seen(signal_fd) : 0;

    if (signal)
        return STATUS_SIGNAL + signal;
    switch (live->error) {
    case 0:
    case ECANCELED:
        return watch_run_status(r);
    case EPIPE:
        return STATUS_PIPE;
    case ETIMEDOUT:
        say("timeout: nobody read the output before the deadline");
        return STATUS_TIMEOUT;
    default:
        say("error: write output: %s", sys_text(live->error));
        return STATUS_VIAL;
    }
}

struct printing {
    struct text_safe state;
    int status;
};

static int print_piece(void *context, const void *data, size_t len)
{
    struct printing *p = context;

    p->status = print_part(&p->state, data, len);
    return p->status == STATUS_OK ? 0 : -1;
}

static int print_result(const struct cli *cli, const struct vial_result *r)
{
    struct printing p = { .status = STATUS_OK };
    const struct json_sink to = { print_piece, &p };

    if (result_write(r, cli_flag(cli, "raw") != NULL, &to) == 0)
        return print_part(&p.state, "\n", 1);
    return p.status == STATUS_OK ? print_line(NULL) : p.status;
}

static int conclude(const struct cli *cli, const struct outputs *b,
                    const struct vial_result *r, const struct live *live, int signal_fd)
{
    bool json = cli_flag(cli, "json") != NULL;
    int printed = json ? print_result(cli, r) : STATUS_OK;
    bool own_fault = r->verdict == VIAL_DENIED || r->verdict == VIAL_FAILED;
    int status = 0;
    int brought = 0;

    if (!json && (own_fault || !cli_flag(cli, "quiet")))
        say_verdict(r);
    if (!json && !cli_flag(cli, "quiet"))
        say_network(r);
    if (!json && !cli_flag(cli, "quiet"))
        say_module(r, live);
    if (!json && !cli_flag(cli, "quiet"))
        say_weak(r, live);
    if (!json && !cli_flag(cli, "quiet"))
        say_artifacts(r);
    if (cli_flag(cli, "report"))
        say_report(r);
    brought = outputs_files(cli, b, r);
    status = own_status(r, live, signal_fd);
    if (status == STATUS_OK)
        status = brought;
    return status == STATUS_OK ? printed : status;
}

static int show_pull(void *context, const char *layer, const char *status,
                     unsigned long long current, unsigned long long total)
{
    const struct live *live = context;

    return pull_show(live->pulls, layer, status, current, total);
}

/* Where no vessel can wait for such a request, the result says "cold". */
static int warm_up(struct vial_engine *engine, const struct vial_request *req,
                   struct vial_error *err)
{
    const struct vial_warm_options options = { .ceiling = 1 };
    struct vial_error why = { 0 };

    if (vial_engine_warm(engine, &options, err) < 0)
        return -1;
    if (vial_warm_ready(engine, req, 1, WARM_MS, &why) < 0)
        return 0; /* the run itself says more about it */
    return 0;
}

static int follow_remote(const struct cli *cli, const struct vial_request *req,
                         const struct vial_watch *watch, struct live *live,
                         const struct outputs *places)
{
    struct vial_result *result = NULL;
    struct vial_error err = { 0 };
    int status;

    if (remote_run(cli, req, watch, &result, &err) < 0)
        return cli_deny(cli, &err);
    pull_show_end(live->pulls);
    live_end(live);
    status = conclude(cli, places, result, live, watch->cancel_fd);
    vial_result_free(result);
    return status;
}

/* All is done and said. The kernel takes everything back at once, in less time than we
 * need for it piece by piece; but where leaks are looked for we go that way. */
static void leave(struct live *live, int status)
{
#ifndef __SANITIZE_ADDRESS__
    live_close(live);
    (void)fflush(NULL);
    _exit(status);
#else
    (void)live;
    (void)status;
#endif
}

/* A caller who names a socket believes that its daemon runs the program. Without
 * --daemon none does. */
static int refuse_idle_socket(const struct cli *cli, struct vial_error *err)
{
    if (!cli_flag(cli, "socket") || cli_flag(cli, "daemon"))
        return 0;
    (void)fail(err, VIAL_E_USAGE, "'--socket' has no effect without '--daemon'");
    return fail_remedy(err, "add --daemon");
}

static int follow_run(const struct cli *cli, const struct vial_request *req,
                      struct vial_watch *watch, struct live *live)
{
    auto_engine struct vial_engine *engine = NULL;
    auto_outputs struct outputs places = { 0 };
    struct vial_result *result = NULL;
    struct vial_error err = { 0 };
    int status = STATUS_VIAL;

    if (refuse_idle_socket(cli, &err) < 0 || outputs_open(cli, &places, &err) < 0)
        return cli_deny(cli, &err);
    if (cli_flag(cli, "daemon"))
        return follow_remote(cli, req, watch, live, &places);
    if (cli_engine(cli, &engine, &err) < 0)
        return cli_deny(cli, &err);
    if (cli_flag(cli, "warm") && warm_up(engine, req, &err) < 0)
        return cli_deny(cli, &err);
    if (vial_run(engine, req, watch, &result, &err) < 0)
        return cli_deny(cli, &err);
    pull_show_end(live->pulls);
    live_end(live);
    status = conclude(cli, &places, result, live, watch->cancel_fd);
    if (!cli_flag(cli, "warm")) /* whose vessels that wait must be closed */
        leave(live, status);
    vial_result_free(result);
    return status;
}

/* The process lives for this one run and then gives everything back: what is freed
 * meanwhile stays, and large rooms are fresh pages, of which only the used ones cost.
 * There is no other thread yet. */
static void set_up_memory(void)
{
#ifdef __GLIBC__                               /* musl's heap has nothing to set */
    (void)mallopt(M_MMAP_THRESHOLD, 16 << 10); /* NOLINT(concurrency-mt-unsafe) */
    (void)mallopt(M_TRIM_THRESHOLD, 16 << 20); /* NOLINT(concurrency-mt-unsafe) */
    (void)mallopt(M_TOP_PAD, 256 << 10);       /* NOLINT(concurrency-mt-unsafe) */
#endif
}

int watch_run(const struct cli *cli, const struct vial_request *req, int stdin_fd)
{
    auto_fd int signal_fd = signals_open();
    bool json = cli_flag(cli, "json") != NULL;
    struct pull_show pulls = pull_show_begin(cli);
    struct live live;
    struct vial_watch watch = {
        .cancel_fd = signal_fd,
        .stdin_fd = stdin_fd,
        .output = json ? NULL : live_write,
        .context = &live,
        .planned = live_planned,
        .live_only = !json,
        .pulling = show_pull,
        .local_images = cli_flag(cli, "no-pull") != NULL,
        .notice = json || cli_flag(cli, "quiet") ? NULL : say_notice,
        .correlation = getenv("VIAL_REQUEST_ID"), /* NOLINT(concurrency-mt-unsafe) */
    };
    struct vial_error err = { 0 };
    int status = STATUS_VIAL;

    if (signal_fd < 0) {
        (void)fail_sys_rc(&err, signal_fd, "watch for signals");
        return cli_deny(cli, &err);
    }
    set_up_memory();
    live_open(&live, cli_flag(cli, "raw") != NULL, signal_fd);
    live.pulls = &pulls;
    status = follow_run(cli, req, &watch, &live);
    live_close(&live);
    return status;
}
