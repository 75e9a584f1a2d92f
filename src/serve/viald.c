/* SPDX-License-Identifier: Apache-2.0 */

/*
 * viald: settings are read, sockets bound, privileges given up; then it serves until
 * it is told to stop. SIGTERM and SIGINT: no new run is taken, those under way may
 * go on for the time that `drain` gives, then everything is ended; `notice` and
 * `drain_sessions` have it go on for a while before that. SIGHUP, or with `watch` a
 * file that has changed: settings, tokens and certificates are read again.
 */

#include <malloc.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/fail.h"
#include "base/json.h"
#include "keeper/front/start_keeper.h"
#include "model/result.h"
#include "serve/agent.h"
#include "serve/flags.h"
#include "serve/front.h"
#include "serve/privilege.h"
#include "serve/route.h"

#define STATUS_FAILED 125
#define TICK_MS       1000
#define TURN_MS       50 /* how often a drain looks what is left */

static int open_signals(struct vial_error *err)
{
    sigset_t set;
    int fd;

    (void)sigemptyset(&set);
    (void)sigaddset(&set, SIGTERM);
    (void)sigaddset(&set, SIGINT);
    (void)sigaddset(&set, SIGHUP);
    (void)pthread_sigmask(SIG_BLOCK, &set, NULL);
    (void)signal(SIGPIPE, SIG_IGN);
    fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    return fd < 0 ? fail_sys(err, "watch for signals") : fd;
}

/* As many descriptors as we are allowed, and few heaps: memory that one thread gave
 * back is of use to the next. */
static void prepare(void)
{
    struct rlimit files;

    if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
        files.rlim_cur = files.rlim_max;
        (void)setrlimit(RLIMIT_NOFILE, &files);
    }
#ifdef __GLIBC__                              /* musl's heap has nothing to set */
    (void)mallopt(M_ARENA_MAX, 2);            /* NOLINT(concurrency-mt-unsafe) */
    (void)mallopt(M_TRIM_THRESHOLD, 1 << 20); /* NOLINT(concurrency-mt-unsafe) */
#endif
}

/* Tells the one who started us, if they asked for it (sd_notify's protocol). */
static void notify(const char *text)
{
    const char *path = getenv("NOTIFY_SOCKET"); /* NOLINT(concurrency-mt-unsafe) */
    struct sockaddr_un to = { .sun_family = AF_UNIX };
    auto_fd int fd = -1;
    size_t len = path ? strlen(path) : 0;

    if (len == 0 || len >= sizeof(to.sun_path))
        return;
    fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    memcpy(to.sun_path, path, len);
    if (path[0] == '@')
        to.sun_path[0] = '\0';
    if (fd >= 0)
        (void)sendto(fd, text, strlen(text), MSG_NOSIGNAL, (struct sockaddr *)&to,
                     (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len));
}

static bool is_idle(struct serve *s, int64_t idle_ms)
{
    bool idle;

    (void)pthread_mutex_lock(&s->lock);
    idle = s->calls == 0 &&
           clock_ms_between(s->last_call_ns, clock_now_ns()) > (double)idle_ms;
    (void)pthread_mutex_unlock(&s->lock);
    return idle && registry_reports(s->registry, NULL, true, NULL) == 0;
}

static void reload(struct serve *s, struct front *f)
{
    struct vial_error err = { 0 };

    file_watch_begin(&s->watch, &s->now->settings->serve);
    if (serve_reload(s, &err) < 0 || front_reopen(f, &err) < 0)
        log_line(&s->log, "error", "reload",
                 json_pack("{s:o}", "error", error_json(&err)));
    else
        log_line(&s->log, "info", "reload", NULL);
}

/* The next signal, or 0 after a while; -1 when LEASH (or -1) hung up. */
static int next_signal(int fd, int leash, int wait_ms)
{
    struct pollfd ready[] = { { .fd = fd, .events = POLLIN }, { .fd = leash } };
    struct signalfd_siginfo info;

    if (poll(ready, 2, wait_ms) <= 0)
        return 0;
    if (ready[1].revents & (POLLHUP | POLLERR))
        return -1;
    return read(fd, &info, sizeof(info)) == sizeof(info) ? (int)info.ssi_signo : 0;
}

/* How long nobody has to look at anything; -1: until a signal comes. */
static int wait_of(const struct serve *s, bool ticks)
{
    int64_t watch_ms = s->now->settings->serve.watch;

    if (watch_ms > 0 && (!ticks || watch_ms < TICK_MS))
        return (int)watch_ms;
    return ticks ? TICK_MS : -1;
}

/* 0 when it was told to stop, -1 when it cannot go on. */
static int serve_until_told(struct serve *s, struct front *f, int signals,
                            int64_t idle_exit_ms)
{
    int leash = s->sources.kept ? keeper_leash() : -1;

    for (;;) {
        const struct serve_settings *c = &s->now->settings->serve;
        bool ticks = !front_settle(f) || idle_exit_ms;
        int signal = next_signal(signals, leash, wait_of(s, ticks));

        if (signal < 0)
            log_line(&s->log, "error", "keeper gone", NULL);
        if (signal == SIGHUP ||
            (signal == 0 && c->watch && file_watch_changed(&s->watch, c)))
            reload(s, f);
        else if (signal)
            return signal < 0 ? -1 : 0;
        else if (idle_exit_ms && is_idle(s, idle_exit_ms))
            return 0;
    }
}

static bool has_sessions(struct serve *s, const struct front *f)
{
    (void)f;
    return registry_reports(s->registry, NULL, true, NULL) > 0;
}

static bool has_calls(struct serve *s, const struct front *f)
{
    (void)s;
    return front_busy(f) > 0;
}

/* Waits for as long as there is something TO_END, or always if NULL, up to MS. False: a
 * further signal came, and nobody shall wait any more. */
static bool wait_while(bool (*to_end)(struct serve *, const struct front *),
                       struct serve *s, const struct front *f, int signals, int64_t ms)
{
    int64_t until_ns = clock_now_ns() + ms * 1000000;

    while (clock_now_ns() < until_ns && (!to_end || to_end(s, f))) {
        int signal = next_signal(signals, -1, TURN_MS);

        if (signal && signal != SIGHUP)
            return false;
    }
    return true;
}

/* First /readyz tells that we go, while everything is taken as ever; then nothing new
 * is, while sessions go on; then doors are shut, and what runs may come to its end. */
static void drain(struct serve *s, struct front *f, int signals)
{
    const struct serve_settings *c = &s->now->settings->serve;
    bool patient;

    notify("STOPPING=1");
    atomic_store(&s->ends_ns,
                 clock_now_ns() + (c->notice + c->drain_sessions) * 1000000);
    s->draining = true;
    log_line(&s->log, "info", "drain", NULL);
    patient = wait_while(NULL, s, f, signals, c->notice);
    if (patient && c->drain_sessions) {
        gate_end_runs(&s->gate);
        patient = wait_while(has_sessions, s, f, signals, c->drain_sessions);
    }
    gate_shut(&s->gate);
    front_drain(f);
    if (patient)
        (void)wait_while(has_calls, s, f, signals, c->drain);
    history_cancel_all(&s->history);
}

/* Whoever wrote 'listen' would wait at a door that is not there. */
static void say_passed_over(const struct serve *s)
{
    auto_str struct str addresses = { 0 };
    const struct strv *listen = &s->now->settings->serve.listen;

    for (size_t i = 0; i < listen->count; i++)
        str_printf(&addresses, "%s%s", i ? " " : "", listen->items[i]);
    log_line(&s->log, "warn", "listen",
             json_pack("{s:s, s:s?, s:s}", "note",
                       "'serve.listen' is passed over: systemd has bound the sockets",
                       "addresses", addresses.data, "remedy",
                       "systemctl edit vial.socket: [Socket] ListenStream=… for each; "
                       "then systemctl restart vial.socket vial.service"));
}

static void say_ready(const struct serve *s, const struct front *f)
{
    if (f->inherited && s->now->settings->serve.listen.count > 0)
        say_passed_over(s);
    for (size_t i = 0; i < f->count; i++)
        log_line(&s->log, "info", "listen",
                 json_pack("{s:s}", "address", f->listeners[i].shown));
    log_line(&s->log, "info", "ready",
             json_pack("{s:i, s:s, s:b, s:i}", "pid", (int)getpid(), "version",
                       VIAL_VERSION, "kept", s->sources.kept, "uid", (int)geteuid()));
    notify("READY=1");
}

/* Each step has the rights it needs, and the last one none. */
static int run(struct flags *flags, struct vial_error *err)
{
    auto_fd int signals = open_signals(err);
    struct front front = { 0 };
    struct serve serve = { 0 };
    struct agent agent = { .fd = -1, .stop_fd = -1 };
    int rc = signals < 0 ? -1 : serve_load(&serve, &flags->sources, err);

    if (rc == 0)
        rc = front_bind(&front, &serve.now->settings->serve, err);
    if (rc == 0)
        rc = agent_bind(&agent, &serve.now->settings->serve, err);
    if (rc == 0)
        rc = callbacks_start(&serve.callbacks, &serve.now->settings->serve.callbacks,
                             err);
    if (rc == 0)
        rc = privilege_give_up(&serve, &front, err);
    if (rc == 0)
        rc = serve_open(&serve, err);
    if (rc == 0)
        rc = front_open(&front, &serve, err);
    if (rc == 0)
        rc = agent_open(&agent, &serve, err);
    if (rc == 0) {
        say_ready(&serve, &front);
        rc = serve_until_told(&serve, &front, signals, flags->idle_exit_ms);
        drain(&serve, &front, signals);
        if (rc < 0)
            (void)fail(err, VIAL_E_KEEPER,
                       "the keeper is gone, and with it all vessels");
    }
    agent_close(&agent);
    front_close(&front);
    if (signals >= 0)
        serve_done(&serve);
    if (serve.sources.kept)
        keeper_stop();
    return rc;
}

static int print_openapi(struct vial_error *err)
{
    auto_json json_t *document = openapi_json();

    if (!document)
        return fail_memory(err);
    if (json_dumpf(document, stdout, JSON_INDENT(2)) < 0 || puts("") < 0 ||
        fflush(stdout) != 0)
        return fail_sys(err, "write the document");
    return 0;
}

int main(int argc, char **argv)
{
    struct vial_error err = { 0 };
    struct flags flags;
    int rc;

    prepare();
    rc = flags_read(&flags, argc, argv, &err);
    if (rc == 0)
        rc = flags.openapi ? print_openapi(&err) : run(&flags, &err);
    flags_done(&flags);
    if (rc == 0)
        return 0;
    (void)fprintf(stderr, "vial serve: %s%s%s [%s]%s%s\n", err.message,
                  err.cause[0] ? ": " : "", err.cause, err.code,
                  err.remedy[0] ? "; " : "", err.remedy);
    return STATUS_FAILED;
}
