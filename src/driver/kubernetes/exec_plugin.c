/* SPDX-License-Identifier: Apache-2.0 */
#include "driver/kubernetes/exec_plugin.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/fail.h"

#define PLUGIN_MS 60000 /* some ask a person */
#define PAUSE_MS  10

/* Its environment is ours, what the file adds, and what it is told of the request. */
static int make_env(const struct cluster *c, struct strv *out)
{
    for (char **at = environ; at && *at; at++)
        if (!str_starts(*at, "KUBERNETES_EXEC_INFO="))
            strv_push(out, *at);
    for (size_t i = 0; i < c->exec_env.count; i++) {
        /* Later ones count: getenv finds the first. */
        size_t len = strcspn(c->exec_env.items[i], "=") + 1;

        for (size_t k = 0; k < out->count; k++)
            if (strncmp(out->items[k], c->exec_env.items[i], len) == 0)
                out->items[k][0] = '_';
        strv_push(out, c->exec_env.items[i]);
    }
    strv_printf(
        out,
        "KUBERNETES_EXEC_INFO={\"apiVersion\":\"%s\",\"kind\":\"ExecCredential\","
        "\"spec\":{\"interactive\":false}}",
        c->exec_version);
    return strv_ok(out) ? 0 : -1;
}

static int spawn(const struct cluster *c, int out_fd, pid_t *pid,
                 struct vial_error *err)
{
    auto_strv struct strv env = { 0 };
    posix_spawn_file_actions_t files;
    posix_spawnattr_t how;
    sigset_t none;
    int rc;

    (void)sigemptyset(&none);
    if (make_env(c, &env) < 0 || posix_spawn_file_actions_init(&files) != 0)
        return fail_memory(err);
    if (posix_spawnattr_init(&how) != 0) {
        (void)posix_spawn_file_actions_destroy(&files);
        return fail_memory(err);
    }
    rc = posix_spawn_file_actions_addopen(&files, 0, "/dev/null", O_RDONLY, 0);
    rc = rc ? rc : posix_spawn_file_actions_adddup2(&files, out_fd, 1);
    rc = rc ? rc : posix_spawnattr_setsigmask(&how, &none);
    rc = rc ? rc
            : posix_spawnattr_setflags(&how,
                                       POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETPGROUP);
    rc = rc ? rc
            : posix_spawnp(pid, c->exec.items[0], &files, &how, c->exec.items,
                           env.items);
    (void)posix_spawn_file_actions_destroy(&files);
    (void)posix_spawnattr_destroy(&how);
    if (rc == 0)
        return 0;
    (void)fail_sys_rc(err, -rc, "start the kubeconfig's exec plugin '%s'",
                      c->exec.items[0]);
    (void)fail_as(err, VIAL_E_CLUSTER_CONFIG);
    return fail_remedy(err, "install it, or use other credentials");
}

/* Until it has said all, or too much, or nothing for too long. */
static int read_answer(int fd, struct str *out, int64_t end_ns)
{
    for (;;) {
        char data[4096];
        struct pollfd p = { .fd = fd, .events = POLLIN };
        int64_t ms = (end_ns - clock_now_ns()) / 1000000;
        ssize_t n;

        if (ms <= 0 || out->len > CLUSTER_SECRET_MAX)
            return -1;
        if (poll(&p, 1, (int)ms) <= 0)
            continue;
        n = read(fd, data, sizeof(data));
        if (n == 0)
            return 0;
        if (n > 0)
            str_add(out, data, (size_t)n);
        else if (errno != EINTR)
            return -1;
    }
}

/* It may have said all, and go on; and what it has started goes with it. */
static int reap(pid_t pid, bool whole, int64_t end_ns)
{
    int status = 0;
    pid_t ended = 0;

    while (whole && (ended = waitpid(pid, &status, WNOHANG)) == 0 &&
           clock_now_ns() < end_ns)
        (void)poll(NULL, 0, PAUSE_MS);
    if (ended == 0)
        (void)kill(-pid, SIGKILL);
    while (ended == 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR)
        continue;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

int exec_plugin_ask(struct cluster *c, struct vial_error *err)
{
    const int64_t end_ns = clock_now_ns() + (int64_t)PLUGIN_MS * 1000000;
    auto_str struct str answer = { 0 };
    int ends[2];
    pid_t pid = 0;
    bool whole;
    int status;

    if (pipe2(ends, O_CLOEXEC) < 0)
        return fail_sys(err, "make a pipe");
    auto_fd int ours = ends[0];
    auto_fd int theirs = ends[1];
    if (spawn(c, theirs, &pid, err) < 0)
        return -1;
    (void)close(fd_take(&theirs));
    whole = read_answer(ours, &answer, end_ns) == 0;
    status = reap(pid, whole, end_ns);
    if (whole && status == 0 && str_ok(&answer))
        return cluster_take_credential(c, answer.data ? answer.data : "", answer.len,
                                       err);
    (void)fail(err, VIAL_E_CLUSTER_CONFIG,
               "the kubeconfig's exec plugin '%s' gave no credential (status %d)",
               c->exec.items[0], status);
    return fail_remedy(err,
                       "run 'kubectl get pods' once, and log in if it asks you to");
}
