/* SPDX-License-Identifier: Apache-2.0 */
/*
 * vial-keeper. Started by the daemon with two descriptors and nothing else: the
 * socket it shares with the front, and the rules. This process only starts the
 * keeper, and another one should it die; the socket outlives both, so that the front
 * asks on as before.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/fail.h"
#include "base/io.h"
#include "base/path.h"
#include "base/sys.h"
#include "keeper/root/keeper.h"

#define RULES_MAX (8u << 20)
#define FAILED    125
/* One that lived no longer is not hurried after. */
#define SHORT_NS   INT64_C(1000000000)
#define PATIENCE_S 1

static void say(const struct vial_error *err)
{
    (void)fprintf(stderr, "vial-keeper: %s: %s%s%s\n", err->code, err->message,
                  err->cause[0] ? ": " : "", err->cause);
}

static int check_start(struct vial_error *err)
{
    int type = 0;
    socklen_t len = sizeof(type);

    if (getsockopt(KEEPER_FRONT_FD, SOL_SOCKET, SO_TYPE, &type, &len) == 0 &&
        type == SOCK_SEQPACKET && fcntl(KEEPER_RULES_FD, F_GETFD) >= 0)
        return 0;
    return fail(err, VIAL_E_USAGE,
                "vial-keeper is started by the daemon ('vial serve'), not by hand");
}

/* The daemon's end is ours, not a signal meant for all of its processes. A handler,
 * as what is ignored would be ignored by programs as well. */
static void on_signal(int number)
{
    (void)number;
}

static void settle(void)
{
    static const int all[] = { SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2 };
    const struct sigaction deaf = { .sa_handler = on_signal, .sa_flags = SA_RESTART };
    sigset_t none;

    (void)setsid();
    (void)umask(022);
    (void)sigemptyset(&none);
    /* NOLINTNEXTLINE(concurrency-mt-unsafe): there is one thread */
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
    for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++)
        (void)sigaction(all[i], &deaf, NULL);
    (void)signal(SIGCHLD, SIG_DFL);
    (void)signal(SIGPIPE, SIG_DFL);
}

static int read_rules(struct keeper *k, struct vial_error *err)
{
    struct blob bytes = { 0 };
    struct unpack u = { 0 };
    int rc = io_read_fd(KEEPER_RULES_FD, "rules", RULES_MAX, &bytes, err);

    if (rc < 0)
        return -1;
    u.data = (const uint8_t *)bytes.data;
    u.len = bytes.len;
    rc = rules_unpack(&u, &k->rules);
    blob_done(&bytes);
    return rc < 0 ? fail(err, VIAL_E_INTERNAL, "the rules are not understood") : 0;
}

static int open_guest(struct keeper *k, struct vial_error *err)
{
    auto_free char *path = path_join(k->rules.settings.share_dir, "vial-init");

    if (!path)
        return fail_memory(err);
    k->guest_fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    return k->guest_fd < 0 ? fail_sys(err, "open guest '%s'", path) : 0;
}

static int begin(struct keeper *k, struct vial_error *err)
{
    if (check_start(err) < 0)
        return -1;
    (void)sys_close_range(KEEPER_RULES_FD + 1, ~0u);
    settle();
    if (read_rules(k, err) < 0 || open_guest(k, err) < 0)
        return -1;
    (void)close(KEEPER_RULES_FD);
    if (chdir("/") < 0 || fcntl(KEEPER_FRONT_FD, F_SETFD, FD_CLOEXEC) < 0)
        return fail_sys(err, "settle");
    k->front_fd = KEEPER_FRONT_FD;
    return harden_keeper(err);
}

static _Noreturn void run_keeper(struct keeper *k, pid_t starter)
{
    struct vial_error err = { 0 };

    if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0 || getppid() != starter)
        _exit(FAILED);
    if (keeper_serve(k, &err) < 0) {
        say(&err);
        _exit(FAILED);
    }
    _exit(0);
}

/* True: it ended as the front did. */
static bool wait_for(pid_t pid)
{
    int status = 0;

    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
        return true;
    (void)fprintf(stderr, "vial-keeper: the keeper died (%s %d); starting another\n",
                  WIFSIGNALED(status) ? "signal" : "status",
                  WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
    return false;
}

int main(void)
{
    struct vial_error err = { 0 };
    struct keeper k = { .front_fd = -1, .guest_fd = -1, .signal_fd = -1 };
    const struct timespec pause = { .tv_sec = PATIENCE_S };
    pid_t self = getpid();

    if (begin(&k, &err) < 0) {
        say(&err);
        rules_done(&k.rules);
        return FAILED;
    }
    for (;;) {
        int64_t started = clock_now_ns();
        pid_t pid = fork();

        if (pid == 0)
            run_keeper(&k, self);
        if (pid > 0 && wait_for(pid))
            break;
        k.restarts++;
        if (clock_now_ns() - started < SHORT_NS)
            (void)nanosleep(&pause, NULL);
    }
    /* The front has no right to, where root started it. */
    rules_remove_sockets(&k.rules);
    rules_done(&k.rules);
    return 0;
}
