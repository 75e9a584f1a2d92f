/* SPDX-License-Identifier: Apache-2.0 */
#include "keeper/root/keeper.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/fail.h"
#include "driver/native/native.h"
#include "driver/native/shared.h"
#include "keeper/talk/talk.h"

/* Questions that are answered, so that a front gone mad does not fork us away. */
#define RATE_PER_S INT64_C(2000)
#define BURST      INT64_C(2000)
#define TOKEN      1000           /* thousandths */
#define END_MS     INT64_C(10000) /* for wardens to end by themselves */

/* Places of wardens: vessels' come first, then those of whom volumes are asked for. Who
 * makes and removes volumes without an end takes no vessel's. */
static uint32_t place_count(const struct keeper *k)
{
    return k->rules.vessels + TALK_VOLUME_PLACES;
}

static void give_place(struct keeper *k, uint32_t place)
{
    k->wardens[place] = 0;
    if (place < k->rules.vessels)
        k->vessels--;
    else
        k->volume_wardens--;
}

static bool take_place(struct keeper *k, bool of_volumes, uint32_t *out)
{
    uint32_t place = of_volumes ? k->rules.vessels : 0;
    uint32_t end = of_volumes ? place_count(k) : k->rules.vessels;

    while (place < end && k->wardens[place])
        place++;
    *out = place;
    return place < end;
}

/* Each warden that ended gives its place back. */
static void reap(struct keeper *k)
{
    struct signalfd_siginfo info;
    int status = 0;
    pid_t pid;

    while (read(k->signal_fd, &info, sizeof(info)) > 0)
        ;
    while ((pid = waitpid(-1, &status, WNOHANG | __WALL)) > 0) {
        if (k->shared)
            native_shared_ended(k->shared, pid, WIFEXITED(status));
        for (uint32_t i = 0; i < place_count(k); i++)
            if (k->wardens[i] == pid)
                give_place(k, i);
        zygotes_drop(k, pid);
    }
}

static void answer_busy(int leash_fd, const char *why)
{
    struct vial_error err = { 0 };
    struct pack p = { 0 };

    (void)fail(&err, VIAL_E_BUSY, "%s", why);
    (void)fail_remedy(&err, "wait for others to end, and ask again");
    talk_write_error(&p, &err);
    (void)talk_send(leash_fd, &p, NULL, 0);
    pack_done(&p);
}

static void answer_ping(const struct keeper *k, int leash_fd)
{
    struct pack p = { 0 };

    pack_u32(&p, TALK_GOOD);
    pack_u32(&p, (uint32_t)getpid());
    pack_u32(&p, k->vessels);
    pack_u32(&p, k->restarts);
    (void)talk_send(leash_fd, &p, NULL, 0);
    pack_done(&p);
}

static bool may_fork(struct keeper *k)
{
    int64_t now = clock_now_ns();
    int64_t more = (now - k->filled_ns) / 1000 * RATE_PER_S / 1000;

    if (more > 0) {
        k->tokens = k->tokens + more > BURST * TOKEN ? BURST * TOKEN : k->tokens + more;
        k->filled_ns = now;
    }
    if (k->tokens < TOKEN)
        return false;
    k->tokens -= TOKEN;
    return true;
}

static _Noreturn void become_warden(struct warden *w, pid_t keeper)
{
    const struct keeper *k = w->keeper;
    sigset_t none;

    (void)sigemptyset(&none);
    /* NOLINTNEXTLINE(concurrency-mt-unsafe): a forked process has one thread */
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0 || getppid() != keeper)
        _exit(1);
    (void)prctl(PR_SET_NAME, "vial-warden");
    (void)close(k->front_fd);
    (void)close(k->signal_fd);
    warden_run(w);
}

/* A place for a zygote that its warden lends; false: there is no more room for one. */
static bool prepare_zygote(struct keeper *k, struct warden *w,
                           struct lent_zygote **lent)
{
    *lent = NULL;
    if (w->verb != TALK_ZYGOTE)
        return true;
    *lent = zygotes_add(k, &w->report_fd);
    if (*lent)
        w->number = (*lent)->number;
    return *lent;
}

static pid_t fork_warden(struct keeper *k, struct warden *w)
{
    struct lent_zygote *lent;
    pid_t self = getpid();
    pid_t pid = -1;

    if (!prepare_zygote(k, w, &lent))
        return -1;
    pid = fork();
    if (pid == 0)
        become_warden(w, self);
    auto_fd_(&w->report_fd);
    if (lent && pid > 0)
        lent->warden = pid;
    else if (lent) {
        lent->warden = -1;
        zygotes_drop(k, -1);
    }
    return pid;
}

static bool is_of_volumes(uint32_t verb)
{
    return verb == TALK_VOLUMES || verb == TALK_VOLUME || verb == TALK_VOLUME_MAKE ||
           verb == TALK_VOLUME_REMOVE;
}

static void start_warden(struct keeper *k, int leash_fd, uint32_t verb,
                         const struct unpack *request)
{
    struct warden w = { .keeper = k,
                        .leash_fd = leash_fd,
                        .verb = verb,
                        .request = *request,
                        .report_fd = -1 };
    bool of_volumes = is_of_volumes(verb);
    uint32_t place;
    pid_t pid;

    if (!take_place(k, of_volumes, &place)) {
        answer_busy(leash_fd, of_volumes
                                  ? "the keeper is asked for too many volumes at once"
                                  : "the keeper has as many vessels open as it may");
        return;
    }
    if (!may_fork(k)) {
        answer_busy(leash_fd, "the keeper is asked for too much at once");
        return;
    }
    if (k->shared && verb == TALK_OPEN) /* wardens have what was seen before the fork */
        host_drop(native_shared_host(k->shared, NULL));
    pid = fork_warden(k, &w);
    if (pid < 0) {
        answer_busy(leash_fd, "the keeper cannot start another process");
        return;
    }
    k->wardens[place] = pid;
    if (of_volumes)
        k->volume_wardens++;
    else
        k->vessels++;
}

/* The one thing that may come as a leash. */
static bool is_leash(int fd)
{
    int type = 0;
    int domain = 0;
    socklen_t len = sizeof(type);

    if (getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &len) < 0)
        return false;
    len = sizeof(domain);
    return getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &len) == 0 &&
           type == SOCK_SEQPACKET && domain == AF_UNIX;
}

static bool is_for_warden(uint32_t verb)
{
    static const uint32_t all[] = { TALK_PROBE,       TALK_OPEN,         TALK_ZYGOTE,
                                    TALK_SWEEP,       TALK_IMAGES,       TALK_VESSELS,
                                    TALK_PRUNE,       TALK_PULL,         TALK_FORGET,
                                    TALK_SAVED,       TALK_VOLUMES,      TALK_VOLUME,
                                    TALK_VOLUME_MAKE, TALK_VOLUME_REMOVE };

    for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++)
        if (all[i] == verb)
            return true;
    return false;
}

/* False: the front is gone. What makes no sense is dropped, and with it the only
 * way to answer. */
static bool hear(struct keeper *k, uint8_t *buf)
{
    auto_talk_fds struct talk_fds fds = { .count = 0 };
    ssize_t n = talk_receive(k->front_fd, buf, TALK_MAX, &fds);
    struct unpack u = { .data = buf, .len = n > 0 ? (size_t)n : 0 };
    uint32_t verb;

    if (n == -EMSGSIZE || n == -EAGAIN)
        return true;
    if (n <= 0)
        return false;
    verb = unpack_u32(&u);
    if (fds.count != 1 || !is_leash(fds.fd[0]))
        return true;
    if (verb == TALK_PING)
        answer_ping(k, fds.fd[0]);
    else if (is_for_warden(verb))
        start_warden(k, fds.fd[0], verb, &u);
    return true;
}

/* The front's end has closed every leash. Whoever has not ended by then is ended. */
static void end_wardens(struct keeper *k)
{
    struct pollfd ended = { .fd = k->signal_fd, .events = POLLIN };
    int64_t until = clock_now_ns() + END_MS * INT64_C(1000000);

    reap(k);
    while (k->vessels + k->volume_wardens > 0 && clock_now_ns() < until) {
        (void)poll(&ended, 1, 100);
        reap(k);
    }
    /* The janitor has work if one must be killed, and else none. */
    if (k->shared && k->vessels == 0)
        keeper_driver->native_shared_close(k->shared);
    for (uint32_t i = 0; i < place_count(k); i++)
        if (k->wardens[i] && kill(k->wardens[i], SIGKILL) == 0)
            while (waitpid(k->wardens[i], NULL, __WALL) < 0 && errno == EINTR)
                ;
}

static int prepare(struct keeper *k, struct vial_error *err)
{
    sigset_t child;

    k->wardens = calloc(place_count(k), sizeof(*k->wardens));
    if (!k->wardens)
        return fail_memory(err);
    (void)sigemptyset(&child);
    (void)sigaddset(&child, SIGCHLD);
    /* NOLINTNEXTLINE(concurrency-mt-unsafe): there is one thread */
    (void)sigprocmask(SIG_BLOCK, &child, NULL);
    k->signal_fd = signalfd(-1, &child, SFD_CLOEXEC | SFD_NONBLOCK);
    if (k->signal_fd < 0)
        return fail_sys(err, "listen for signals");
    k->tokens = BURST * TOKEN;
    k->filled_ns = clock_now_ns();
    zygotes_init(k);
    if (keeper_driver->native_shared_open)
        k->shared = keeper_driver->native_shared_open(k->guest_fd);
    return 0;
}

int keeper_serve(struct keeper *k, struct vial_error *err)
{
    auto_free uint8_t *buf = malloc(TALK_MAX);
    bool going = true;

    if (!buf)
        return fail_memory(err);
    if (prepare(k, err) < 0)
        return -1;
    while (going) {
        struct pollfd ready[] = { { .fd = k->front_fd, .events = POLLIN },
                                  { .fd = k->signal_fd, .events = POLLIN } };

        if (poll(ready, 2, -1) < 0 && errno != EINTR)
            return fail_sys(err, "wait for the front");
        if (ready[1].revents)
            reap(k);
        /* First: a zygote is lent before the front can ask for it. */
        zygotes_hear(k);
        if (ready[0].revents)
            going = hear(k, buf);
    }
    end_wardens(k);
    return 0;
}
