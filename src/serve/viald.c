/* SPDX-License-Identifier: Apache-2.0 */

/*
 * viald: settings are read, sockets bound, privileges given up; then it serves until
 * it is told to stop. SIGTERM and SIGINT: no new run is taken, those under way may
 * go on for the time that `drain` gives, then everything is ended. SIGHUP: settings,
 * tokens and certificates are read again.
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
#include "serve/flags.h"
#include "serve/front.h"
#include "serve/privilege.h"

#define STATUS_FAILED 125
#define TICK_MS       1000

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
    (void)mallopt(M_ARENA_MAX, 2);            /* NOLINT(concurrency-mt-unsafe) */
    (void)mallopt(M_TRIM_THRESHOLD, 1 << 20); /* NOLINT(concurrency-mt-unsafe) */
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

/* 0 when it was told to stop, -1 when it cannot go on. */
static int serve_until_told(struct serve *s, struct front *f, int signals,
                            int64_t idle_exit_ms)
{
    int leash = s->sources.kept ? keeper_leash() : -1;

    for (;;) {
        int signal = next_signal(signals, leash, idle_exit_ms ? TICK_MS : -1);

        if (signal < 0)
            log_line(&s->log, "error", "keeper gone", NULL);
        if (signal == SIGHUP)
            reload(s, f);
        else if (signal)
            return signal < 0 ? -1 : 0;
        else if (idle_exit_ms && is_idle(s, idle_exit_ms))
            return 0;
    }
}

/* A second signal ends the wait. */
static void drain(struct serve *s, struct front *f, int signals)
{
    int64_t until_ns = clock_now_ns() + s->now->settings->serve.drain * 1000000;

    notify("STOPPING=1");
    log_line(&s->log, "info", "drain", NULL);
    s->draining = true;
    gate_shut(&s->gate);
    front_drain(f);
    while (front_busy(f) > 0 && clock_now_ns() < until_ns) {
        int signal = next_signal(signals, -1, 50);

        if (signal && signal != SIGHUP)
            break;
    }
    history_cancel_all(&s->history);
}

static void say_ready(const struct serve *s, const struct front *f)
{
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
    int rc = signals < 0 ? -1 : serve_load(&serve, &flags->sources, err);

    if (rc == 0)
        rc = front_bind(&front, &serve.now->settings->serve, err);
    if (rc == 0)
        rc = privilege_give_up(&serve, &front, err);
    if (rc == 0)
        rc = serve_open(&serve, err);
    if (rc == 0)
        rc = front_open(&front, &serve, err);
    if (rc == 0) {
        say_ready(&serve, &front);
        rc = serve_until_told(&serve, &front, signals, flags->idle_exit_ms);
        drain(&serve, &front, signals);
        if (rc < 0)
            (void)fail(err, VIAL_E_KEEPER,
                       "the keeper is gone, and with it all vessels");
    }
    front_close(&front);
    if (signals >= 0)
        serve_done(&serve);
    if (serve.sources.kept)
        keeper_stop();
    return rc;
}

int main(int argc, char **argv)
{
    struct vial_error err = { 0 };
    struct flags flags;
    int rc;

    prepare();
    rc = flags_read(&flags, argc, argv, &err);
    if (rc == 0)
        rc = run(&flags, &err);
    flags_done(&flags);
    if (rc == 0)
        return 0;
    (void)fprintf(stderr, "vial serve: %s%s%s [%s]%s%s\n", err.message,
                  err.cause[0] ? ": " : "", err.cause, err.code,
                  err.remedy[0] ? "; " : "", err.remedy);
    return STATUS_FAILED;
}
