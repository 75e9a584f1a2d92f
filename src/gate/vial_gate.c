/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "gate/confine.h"
#include "gate/gate.h"

#define CONFIG_MS    10000
#define EVENTS       64
#define OWNER_FRAMES 64 /* before connections have their turn */

static const struct relay_events events = { .opened = connection_opened,
                                            .crowded = connection_crowded,
                                            .held = connection_held,
                                            .closed = connection_closed,
                                            .refused = connection_refused };

uint64_t now_ns(void)
{
    struct timespec t;

    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

/* Exactly LEN bytes, while they come in time. */
static bool read_whole(uint8_t *to, size_t len)
{
    while (len) {
        struct pollfd ready = { .fd = GATE_OWNER_FD, .events = POLLIN };
        ssize_t n;

        if (poll(&ready, 1, CONFIG_MS) != 1)
            return false;
        n = read(GATE_OWNER_FD, to, len);
        if (n <= 0)
            return false;
        to += n;
        len -= (size_t)n;
    }
    return true;
}

static bool read_config(struct gate *g)
{
    uint8_t *buffer = malloc(WIRE_HEADER + GATE_FRAME_MAX);
    struct frame f;
    struct unpack u;
    bool good = false;

    if (buffer && read_whole(buffer, WIRE_HEADER) &&
        frame_read(buffer, WIRE_HEADER, GATE_FRAME_MAX, &f) >= 0 &&
        f.type == GATE_CONFIG && read_whole(buffer + WIRE_HEADER, f.len)) {
        u = (struct unpack){ .data = buffer + WIRE_HEADER, .len = f.len };
        good = gate_config_read(&u, &g->config) == 0;
    }
    free(buffer);
    return good;
}

static bool read_rules(char *const *texts, struct name_rule **out, size_t *count)
{
    size_t n = 0;

    while (texts[n])
        n++;
    *out = calloc(n + 1, sizeof **out);
    for (*count = 0; *out && *count < n; (*count)++)
        if (name_rule_parse_any(texts[*count], &(*out)[*count]))
            return false;
    return *out != NULL;
}

static bool is_within(const struct gate *g, const struct name_rule *rule)
{
    for (size_t i = 0; i < g->widest_count; i++)
        if (name_rule_covers(&g->widest[i], rule))
            return true;
    return false;
}

/* Whoever has our descriptor can narrow, and widen again, but never beyond what we were
 * configured with: a list that does lets nothing out at all. */
static void take_allow(struct gate *g, const struct frame *f)
{
    struct unpack u = { .data = f->payload, .len = f->len };
    char **texts = unpack_texts(&u, GATE_RULES_MAX);
    struct name_rule *rules = NULL;
    size_t count = 0;
    bool good = texts && unpack_finished(&u) && read_rules(texts, &rules, &count);

    for (size_t i = 0; i < count; i++)
        good = good && is_within(g, &rules[i]);
    for (size_t i = 0; texts && texts[i]; i++)
        free(texts[i]);
    free(texts);
    if (g->allow != g->widest)
        free(g->allow);
    g->allow = rules;
    g->allow_count = good ? count : 0;
    connection_narrow(g);
}

static bool read_ranges(struct gate *g)
{
    for (size_t i = 0; g->config.private_in[i]; i++) {
        if (g->range_count == RANGES_MAX ||
            !range_parse(g->config.private_in[i], &g->ranges[g->range_count]))
            return false;
        g->range_count++;
    }
    return true;
}

/* All that moving bytes and connecting out takes. Nothing opens a file, starts a
 * program, listens, or touches another process. socket has a rule of its own in
 * confine.h. */
static const int calls[] = {
    SYS_read,          SYS_write,           SYS_readv,       SYS_writev,
    SYS_recvfrom,      SYS_recvmsg,         SYS_sendto,      SYS_sendmsg,
    SYS_connect,       SYS_getsockopt,      SYS_setsockopt,  SYS_shutdown,
    SYS_close,         SYS_epoll_ctl,       SYS_epoll_pwait, SYS_getrandom,
    SYS_clock_gettime, SYS_exit_group,      SYS_exit,        SYS_mmap,
    SYS_munmap,        SYS_mremap,          SYS_brk,         SYS_madvise,
    SYS_rt_sigreturn,  SYS_restart_syscall, SYS_ppoll,       SYS_rt_sigprocmask,
    SYS_fcntl,         SYS_getsockname,
#ifdef SYS_epoll_wait
    SYS_epoll_wait,
#endif
#ifdef SYS_poll
    SYS_poll,
#endif
    SYS_accept4, /* the last: only where ports of the host lead here */
};

/* Each connection has its program's descriptor and one of its own, or two while it is
 * looked up. */
static int confine_self(const struct gate *g)
{
    return confine_to(&(struct confinement){
        .descriptors = 64 + 4 * (size_t)g->config.connections + g->config.listeners,
        .calls = calls,
        .count = sizeof calls / sizeof *calls - (g->config.listeners ? 0 : 1),
        .connects = true,
        .pairs = g->secret_count > 0 });
}

/* Before any descriptor of our own is opened: the number may be that one's. */
static bool close_others(const struct gate *g)
{
    int first = g->secret_count ? GATE_SECRETS_FD + 1 : GATE_SECRETS_FD;

    return syscall(SYS_close_range, first, ~0u, 0) == 0;
}

/* Before anybody narrows it, all that it was started with is allowed. */
static bool allow_all(struct gate *g)
{
    g->allow = g->widest;
    g->allow_count = g->widest_count;
    return true;
}

static bool start(struct gate *g)
{
    (void)prctl(PR_SET_NAME, "vial-gate");
    (void)signal(SIGPIPE, SIG_IGN);
    return read_config(g) &&
           read_rules(g->config.allow, &g->widest, &g->widest_count) &&
           read_rules(g->config.deny, &g->deny, &g->deny_count) &&
           read_rules(g->config.unchecked, &g->unchecked, &g->unchecked_count) &&
           read_rules(g->config.secrets, &g->secrets, &g->secret_count) &&
           allow_all(g) && close_others(g) && read_ranges(g) &&
           resolve_servers(g) == 0 && fcntl(GATE_LINK_FD, F_SETFL, O_NONBLOCK) == 0 &&
           relay_init(&g->relay, GATE_LINK_FD, true, g->config.connections, &events,
                      g) == 0 &&
           relay_watch(&g->relay, GATE_OWNER_FD, EPOLLIN, relay_tag(TAG_OWNER, 0)) ==
               0 &&
           secrets_watch(g) == 0 && confine_self(g) == 0;
}

/* A frame and the descriptor that may come with it, in one message. */
static ssize_t receive(void *buffer, size_t size, int *fd)
{
    _Alignas(struct cmsghdr) char room[CMSG_SPACE(sizeof(int))];
    struct iovec iov = { buffer, size };
    struct msghdr message = { .msg_iov = &iov,
                              .msg_iovlen = 1,
                              .msg_control = room,
                              .msg_controllen = sizeof room };
    ssize_t n = recvmsg(GATE_OWNER_FD, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    const struct cmsghdr *c = n > 0 ? CMSG_FIRSTHDR(&message) : NULL;

    if (c && c->cmsg_type == SCM_RIGHTS && c->cmsg_len == CMSG_LEN(sizeof(int)))
        memcpy(fd, CMSG_DATA(c), sizeof *fd);
    return n;
}

static void take_port(struct gate *g, const struct frame *f, int fd,
                      void (*take)(struct gate *g, int fd, uint16_t port))
{
    struct unpack u = { .data = f->payload, .len = f->len };
    uint32_t port = unpack_u32(&u);

    if (unpack_finished(&u) && port && port <= UINT16_MAX && fd >= 0)
        take(g, fd, (uint16_t)port);
    else if (fd >= 0)
        (void)close(fd);
}

static void take_share(struct gate *g, const struct frame *f, int fd)
{
    struct unpack u = { .data = f->payload, .len = f->len };
    uint32_t place = unpack_u32(&u);
    uint32_t taker = unpack_u32(&u);

    if (!unpack_finished(&u) || fd < 0)
        g->owner_gone = true;
    else
        limits_join(g, fd, place, taker);
}

static void obey(struct gate *g, const struct frame *f, int fd)
{
    if (f->type == GATE_PORT || f->type == GATE_LISTEN) {
        take_port(g, f, fd,
                  f->type == GATE_PORT ? connection_incoming : connection_listen);
        return;
    }
    if (f->type == GATE_SHARE)
        take_share(g, f, fd);
    if (fd >= 0)
        (void)close(fd);
    if (f->type == GATE_ASK)
        account_tell(g);
    else if (f->type == GATE_ALLOW)
        take_allow(g, f);
}

/* The owner sends each frame in one piece. False: there was none. */
static bool hear_frame(struct gate *g)
{
    uint8_t header[WIRE_HEADER];
    uint8_t *payload = NULL;
    struct frame f = { 0 };
    int fd = -1;
    ssize_t n = receive(header, sizeof header, &fd);

    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return false;
    g->owner_gone = n != WIRE_HEADER ||
                    frame_read(header, sizeof header, GATE_FRAME_MAX, &f) < 0 ||
                    !(payload = malloc(f.len + 1)) || !read_whole(payload, f.len);
    f.payload = payload;
    if (!g->owner_gone)
        obey(g, &f, fd);
    else if (fd >= 0)
        (void)close(fd);
    free(payload);
    return !g->owner_gone;
}

static void hear_owner(struct gate *g)
{
    for (int i = 0; i < OWNER_FRAMES && hear_frame(g); i++)
        ;
}

static void dispatch(struct gate *g, const struct epoll_event *e)
{
    uint32_t number = (uint32_t)e->data.u64;

    switch (e->data.u64 >> 32) {
    case TAG_OWNER:
        break;
    case TAG_SECRETS:
        secrets_hear(g);
        break;
    case TAG_LISTEN:
        connection_accept(g, number);
        break;
    case TAG_CONNECT:
        connection_event(g, number);
        break;
    case TAG_QUERY:
        resolve_event(g, number >> 1, number & 1);
        break;
    default:
        relay_event(&g->relay, e->data.u64, e->events);
    }
}

static int time_left_ms(const struct gate *g, bool more)
{
    uint64_t wake = connection_wake_ns(g);
    uint64_t now = wake == NEVER ? 0 : now_ns();

    if (more)
        return 0;
    if (wake == NEVER)
        return -1;
    return wake <= now ? 0 : (int)((wake - now) / 1000000 + 1);
}

static void serve(struct gate *g)
{
    struct epoll_event ready[EVENTS];
    bool more = true;

    while (!g->relay.broken && !g->owner_gone) {
        int n = epoll_wait(g->relay.epoll_fd, ready, EVENTS, time_left_ms(g, more));

        if (n < 0 && errno != EINTR)
            return;
        for (int i = 0; i < n; i++) /* it is told its limits before it is asked */
            if (ready[i].data.u64 >> 32 == TAG_OWNER)
                hear_owner(g);
        for (int i = 0; i < n && !g->owner_gone; i++)
            dispatch(g, &ready[i]);
        connection_turn(g);
        more = relay_turn(&g->relay);
        connection_free_over(g);
    }
}

/* When the guest is gone, or its owner is, so are we. */
int main(void)
{
    struct gate *g = calloc(1, sizeof *g);

    if (!g || !start(g))
        return 1;
    limits_start(g);
    serve(g);
    relay_done(&g->relay);
    connection_free_over(g);
    if (!g->owner_gone)
        account_tell(g);
    return 0;
}
