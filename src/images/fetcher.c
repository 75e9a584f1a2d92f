/* SPDX-License-Identifier: Apache-2.0 */
#include "images/fetcher.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/fail.h"
#include "base/json.h"

#define REPORT_FD 3
#define ABOVE     10 /* ours, out of its way */
#define LINE_MAX_ ((size_t)16 << 20)
#define MS_NS     INT64_C(1000000)
#define GRACE_MS  10000 /* for removing what it has made */
#define PIECE     (64u << 10)

extern char **environ;

struct fetching {
    const struct vial_pull *pull;
    pid_t pid;
    int report_fd;
    int64_t end_ns; /* 0: none */
    struct str line;
    json_t *result; /* what it said last */
    struct vial_error why;
    bool stopped;
};

static json_t *strings(const struct strv *v)
{
    json_t *list = json_array();

    for (size_t i = 0; v && i < v->count; i++)
        (void)json_array_append_new(list, json_string(v->items[i]));
    return list;
}

static char *job_text(const struct fetcher *f, const char *verb,
                      const struct vial_pull *pull)
{
    auto_json json_t *job = json_pack(
        "{s:s, s:s, s:s, s:s?, s:s?, s:s?, s:s?, s:O?, s:o, s:o, s:I, s:I, s:I, s:i}",
        "verb", verb, "store", f->store, "reference", pull->name ? pull->name : "",
        "registry", f->registry, "home", f->home, "path", f->ends.path, "base",
        f->ends.base, "config", f->ends.config, "mirrors", strings(f->mirrors), "plain",
        strings(f->plain), "max_bytes", (json_int_t)f->max_bytes, "max_files",
        (json_int_t)f->max_files, "retry_ms", (json_int_t)pull->retry_ms, "retries",
        pull->retries > 0 ? pull->retries : 0);

    return job ? json_dumps(job, JSON_COMPACT) : NULL;
}

static int add_files(posix_spawn_file_actions_t *files, const struct fetcher *f,
                     int report_fd)
{
    int rc = f->ends.in_fd < 0
                 ? posix_spawn_file_actions_addopen(files, STDIN_FILENO, "/dev/null",
                                                    O_RDONLY, 0)
                 : posix_spawn_file_actions_adddup2(files, f->ends.in_fd, STDIN_FILENO);

    if (rc == 0)
        rc = f->ends.out_fd < 0
                 ? posix_spawn_file_actions_addopen(files, STDOUT_FILENO, "/dev/null",
                                                    O_WRONLY, 0)
                 : posix_spawn_file_actions_adddup2(files, f->ends.out_fd,
                                                    STDOUT_FILENO);
    return rc ? rc : posix_spawn_file_actions_adddup2(files, report_fd, REPORT_FD);
}

static int spawn(const struct fetcher *f, const char *job, int report_fd, pid_t *pid)
{
    const char *const args[] = { "vial-image", job, NULL };
    posix_spawn_file_actions_t files;
    posix_spawnattr_t how;
    sigset_t none;
    int rc;

    (void)sigemptyset(&none);
    if (posix_spawn_file_actions_init(&files) != 0 || posix_spawnattr_init(&how) != 0)
        return ENOMEM;
    rc = add_files(&files, f, report_fd);
    rc = rc ? rc : posix_spawnattr_setsigmask(&how, &none);
    rc = rc ? rc : posix_spawnattr_setpgroup(&how, 0);
    rc = rc ? rc
            : posix_spawnattr_setflags(&how,
                                       POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETPGROUP);
    rc = rc ? rc
            : posix_spawn(pid, f->program, &files, &how, (char *const *)(uintptr_t)args,
                          environ);
    (void)posix_spawn_file_actions_destroy(&files);
    (void)posix_spawnattr_destroy(&how);
    return rc;
}

static int start(const struct fetcher *f, const char *verb, struct fetching *g,
                 struct vial_error *err)
{
    auto_free char *job = job_text(f, verb, g->pull);
    auto_fd int high = -1;
    int report[2];
    int rc;

    if (!job)
        return fail_memory(err);
    if (pipe2(report, O_CLOEXEC) < 0)
        return fail_sys(err, "make a pipe");
    high = fcntl(report[1], F_DUPFD_CLOEXEC, ABOVE);
    (void)close(report[1]);
    g->report_fd = report[0];
    rc = high < 0 ? errno : spawn(f, job, high, &g->pid);
    if (rc == 0)
        return 0;
    g->pid = 0;
    (void)fail_sys_rc(err, -rc, "start '%s'", f->program);
    return fail_remedy(err, "it belongs to vial, and is installed with it");
}

static const char *text_at(json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));

    return text ? text : "";
}

static void take_error(struct fetching *g, json_t *said)
{
    (void)snprintf(g->why.code, sizeof(g->why.code), "%s", text_at(said, "code"));
    (void)snprintf(g->why.message, sizeof(g->why.message), "%s",
                   text_at(said, "message"));
    (void)snprintf(g->why.cause, sizeof(g->why.cause), "%s", text_at(said, "cause"));
    (void)snprintf(g->why.remedy, sizeof(g->why.remedy), "%s", text_at(said, "remedy"));
}

static void stop(struct fetching *g, enum fail_code code, const char *why)
{
    if (g->stopped)
        return;
    g->stopped = true;
    g->end_ns = clock_now_ns() + GRACE_MS * MS_NS;
    (void)fail(&g->why, code, "%s", why);
    if (g->pid > 0) /* else it is not ours */
        (void)kill(g->pid, SIGTERM);
}

static void take_line(struct fetching *g)
{
    auto_json json_t *event = NULL;
    json_t *result;
    size_t len = g->line.len;

    g->line.len = 0;
    if (json_parse(g->line.data, len, "vial-image's report", &event, NULL) < 0)
        return;
    if (json_object_get(event, "error") && !g->stopped)
        take_error(g, json_object_get(event, "error"));
    result = json_object_get(event, "result");
    if (result) {
        json_decref(g->result);
        g->result = json_incref(result);
    }
    if (json_object_get(event, "status") && g->pull->progress &&
        g->pull->progress(
            g->pull->context, text_at(event, "layer"), text_at(event, "status"),
            (unsigned long long)json_integer_value(json_object_get(event, "current")),
            (unsigned long long)json_integer_value(json_object_get(event, "total"))) !=
            0)
        stop(g, VIAL_E_CANCELLED, "the caller cancelled the pull");
}

/* False: it has ended. */
static bool take_report(struct fetching *g)
{
    char piece[PIECE];
    ssize_t n = read(g->report_fd, piece, sizeof(piece));

    for (ssize_t i = 0; i < n; i++) {
        if (piece[i] == '\n')
            take_line(g);
        else if (g->line.len < LINE_MAX_)
            str_putc(&g->line, piece[i]);
    }
    return n > 0 || (n < 0 && errno == EINTR);
}

static int left_ms(const struct fetching *g)
{
    int64_t left = g->end_ns ? (g->end_ns - clock_now_ns()) / MS_NS : INT_MAX;

    return left < 0 ? 0 : left > INT_MAX ? INT_MAX : (int)left;
}

static void too_late(struct fetching *g)
{
    if (g->stopped) {
        if (g->pid > 0)
            (void)kill(-g->pid, SIGKILL);
        g->end_ns = 0;
        return;
    }
    stop(g, VIAL_E_PULL_TIMEOUT, "");
    (void)fail(&g->why, VIAL_E_PULL_TIMEOUT,
               "pull image '%s': it takes longer than %lld ms", g->pull->name,
               g->pull->timeout_ms);
    (void)fail_remedy(&g->why,
                      "give it longer ('--pull-timeout 15m', or VIAL_PULL_TIMEOUT), "
                      "or use an image that is here: 'vial image list'");
}

static void follow(struct fetching *g)
{
    for (;;) {
        struct pollfd fds[] = {
            { .fd = g->report_fd, .events = POLLIN },
            { .fd = g->stopped ? -1 : g->pull->cancel_fd, .events = POLLIN },
        };
        int n = poll(fds, 2, left_ms(g));

        if (n == 0)
            too_late(g);
        if (n > 0 && fds[1].revents)
            stop(g, VIAL_E_CANCELLED, "the caller cancelled the pull");
        if (n > 0 && fds[0].revents && !take_report(g))
            return;
    }
}

/* Its last word is a result, or why there is none. Takes what it told so far. */
static int conclude(struct fetching *g, bool well, json_t **out, struct vial_error *err)
{
    auto_fd_(&g->report_fd);
    str_done(&g->line);
    if (well && !g->stopped && g->result) {
        *out = g->result;
        return 0;
    }
    json_decref(g->result);
    if (!g->why.code[0])
        (void)fail(&g->why, VIAL_E_INTERNAL, "vial-image ended without a word");
    if (err)
        *err = g->why;
    return -1;
}

int fetcher_hear(int report_fd, const struct vial_pull *told, json_t **out,
                 struct vial_error *err)
{
    struct fetching g = { .pull = told, .report_fd = report_fd };

    follow(&g);
    return conclude(&g, true, out, err);
}

int fetcher_run(const struct fetcher *f, const char *verb, const struct vial_pull *pull,
                json_t **out, struct vial_error *err)
{
    struct fetching g = { .pull = pull, .report_fd = -1 };
    int status = 0;

    if (pull->timeout_ms > 0)
        g.end_ns = clock_now_ns() + pull->timeout_ms * MS_NS;
    if (start(f, verb, &g, err) < 0) {
        auto_fd_(&g.report_fd);
        return -1;
    }
    follow(&g);
    (void)waitpid(g.pid, &status, 0);
    return conclude(&g, WIFEXITED(status) && WEXITSTATUS(status) == 0, out, err);
}
