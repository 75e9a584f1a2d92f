/* SPDX-License-Identifier: Apache-2.0 */
#include "keeper/front/start_keeper.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/fail.h"
#include "base/path.h"
#include "base/str.h"
#include "base/sys.h"
#include "driver/shared_dir.h"
#include "keeper/client/client.h"
#include "keeper/talk/rules.h"
#include "keeper/talk/talk.h"

#define USUAL_VESSELS 1100
#define STOP_MS       15000
#define HIGH_FD       64 /* where descriptors wait while they change places */

/* The keepers, each with the number of its socket. */
static const struct keeper_row {
    const char *program;
    int fd;
} keepers[] = {
#define KEEPER(name, program) { program, KEPT_FD_##name },
#include "model/drivers.def"
};
#define KEEPERS (sizeof(keepers) / sizeof(*keepers))

/* One keeper: its program, and what it is given. */
struct start {
    char *program;
    char **env;
    int front_fd, rules_fd;
};

/* Of our variables a keeper gets those that say where the container engine is, or what
 * its zygotes do without. */
static void pick_env(char **out, size_t size, bool docker)
{
    static const char *const of_docker[] = { "DOCKER_", "VIAL_TEST_",
                                             "XDG_RUNTIME_DIR=", NULL };
    static const char *const of_native[] = { "VIAL_ZYGOTE_WITHOUT=", NULL };
    size_t count = 0;

    for (char **at = environ; *at && count + 1 < size; at++)
        for (const char *const *name = docker ? of_docker : of_native; *name; name++)
            if (str_starts(*at, *name))
                out[count++] = *at;
    out[count] = NULL;
}

/* Between fork and exec: system calls only. */
static _Noreturn void become_keeper(const struct start *s)
{
    char *const argv[] = { s->program, NULL };
    int front = fcntl(s->front_fd, F_DUPFD, HIGH_FD);
    int rules = fcntl(s->rules_fd, F_DUPFD, HIGH_FD);
    int null = open("/dev/null", O_RDWR);

    if (front < 0 || rules < 0 || null < 0 || dup2(null, 0) < 0 || dup2(null, 1) < 0 ||
        dup2(front, KEEPER_FRONT_FD) < 0 || dup2(rules, KEEPER_RULES_FD) < 0)
        _exit(126);
    (void)sys_close_range(KEEPER_RULES_FD + 1, ~0u);
    (void)execve(s->program, argv, s->env);
    _exit(127);
}

/* The first answer tells that it lives; without one, its end tells why. */
static int check_alive(int fd, pid_t pid, const char *program, struct vial_error *err)
{
    struct kept_health health;
    int status = 0;

    if (kept_ping(fd, &health, err) == 0)
        return 0;
    /* One that is on its way out keeps its own status: it has let go of the socket, and
     * may yet have to become a zombie. */
    (void)kill(pid, SIGKILL);
    if (waitpid(pid, &status, 0) != pid || !WIFEXITED(status))
        return fail_in(err, "start '%s'", program);
    (void)fail(err, VIAL_E_KEEPER, "start '%s': status %d", program,
               WEXITSTATUS(status));
    return WEXITSTATUS(status) == 127
               ? fail_remedy(err,
                             "install it beside vial's data, or see what "
                             "'ls -l %s' says",
                             program)
               : -1;
}

static int start_one(struct start *s, int number, struct vial_error *err)
{
    int ends[2];
    pid_t pid;

    if (fcntl(number, F_GETFD) >= 0)
        return fail(err, VIAL_E_INTERNAL, "descriptor %d is taken", number);
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0)
        return fail_sys(err, "make a socket pair");
    auto_fd int mine = ends[0];
    auto_fd int theirs = ends[1];
    s->front_fd = theirs;
    pid = fork();
    if (pid == 0)
        become_keeper(s);
    if (pid < 0)
        return fail_sys(err, "start '%s'", s->program);
    (void)close(fd_take(&theirs)); /* or its end would go unseen */
    if (dup3(mine, number, O_CLOEXEC) < 0)
        return fail_sys(err, "hold the keeper's socket");
    if (check_alive(number, pid, s->program, err) == 0)
        return 0;
    (void)close(number);
    return -1;
}

static int write_rules(const struct keeper_options *o, const char *const *sockets,
                       struct vial_error *err)
{
    struct pack p = { 0 };
    int fd = -ENOMEM;

    rules_pack(&p, o->settings, o->vessels ? o->vessels : USUAL_VESSELS, o->imports,
               sockets);
    if (!p.bad)
        fd = sys_memfd_sealed("rules", p.data, p.len);
    pack_done(&p);
    return fd < 0 ? fail_sys_rc(err, fd, "write the keeper's rules") : fd;
}

static int start_named(const struct keeper_options *o, const struct keeper_row *row,
                       struct vial_error *err)
{
    bool first = row == keepers; /* whatever is to be done once, it does */
    const char *given = first ? o->program : NULL;
    char *env[64];
    auto_fd int rules_fd = write_rules(o, first ? o->sockets : NULL, err);
    auto_free char *program =
        given ? strdup(given) : path_join(o->settings->share_dir, row->program);
    struct start s = { .program = program, .env = env, .rules_fd = rules_fd };

    if (rules_fd < 0)
        return -1;
    if (!program)
        return fail_memory(err);
    pick_env(env, sizeof(env) / sizeof(*env), row->fd == KEPT_FD_docker);
    return start_one(&s, row->fd, err);
}

int keeper_start(const struct keeper_options *options, struct vial_error *err)
{
    size_t count = options->first_only ? 1 : KEEPERS;

    if (shared_dirs_make(&options->settings->places, err) < 0)
        return -1;
    for (size_t i = 0; i < count; i++)
        if (start_named(options, &keepers[i], err) < 0)
            return -1;
    return 0;
}

/* A keeper that is told that we are gone ends its vessels, then itself, and last its
 * starter goes: that closes the other end. */
static void stop_one(int fd)
{
    struct pollfd ended = { .fd = fd };
    int rc;

    if (shutdown(fd, SHUT_WR) < 0)
        return;
    do
        rc = poll(&ended, 1, STOP_MS);
    while (rc < 0 && errno == EINTR);
}

void keeper_stop(void)
{
    for (size_t i = 0; i < KEEPERS; i++)
        stop_one(keepers[i].fd);
}

int keeper_leash(void)
{
    return keepers[0].fd;
}

int keeper_health(struct keeper_health *out, struct vial_error *err)
{
    struct kept_health health;

    if (kept_ping(keepers[0].fd, &health, err) < 0)
        return -1;
    *out = (struct keeper_health){ .pid = health.pid,
                                   .vessels = health.vessels,
                                   .restarts = health.restarts };
    return 0;
}
