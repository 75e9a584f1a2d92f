/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "gate/confine.h"
#include "secrets/secrets.h"
#include "wire/frame.h"

#define OWNER_FD 3
#define GATE_FD  4

struct program {
    struct held held;
    struct exchange *exchanges[SECRETS_CONNECTIONS];
    size_t count;
    bool gate_gone;
};

uint64_t now_ns(void)
{
    struct timespec t;

    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

static bool read_whole(void *to, size_t len)
{
    char *at = to;

    while (len) {
        ssize_t n = read(OWNER_FD, at, len);

        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return false;
        at += n;
        len -= (size_t)n;
    }
    return true;
}

static bool is_value(const uint8_t *data, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if (data[i] < ' ' || data[i] > '~')
            return false;
    return len >= VALUE_MIN && len <= VALUE_MAX;
}

static bool take_secrets(struct program *p, struct unpack *u)
{
    char **lines = unpack_texts(u, SECRET_LINES_MAX); /* kept: secrets point into it */
    size_t count = 0, at = 0;

    while (lines && lines[count])
        count++;
    while (at < count && p->held.count < SECRET_MOST) {
        struct held_secret *h = &p->held.all[p->held.count];
        size_t len = 0;
        const uint8_t *value = NULL;

        if (secret_read(lines, count, &at, &h->secret) || !h->secret.placeholder)
            return false;
        value = unpack_bytes(u, &len);
        if (u->bad || !is_value(value, len) ||
            !pattern_make(&h->pattern, (const char *)value, len, h->secret.placeholder))
            return false;
        h->value = h->pattern.value;
        p->held.count++;
    }
    return unpack_finished(u) && p->held.count && at == count;
}

static bool read_config(struct program *p)
{
    uint8_t header[WIRE_HEADER];
    uint8_t *buffer = NULL;
    struct frame f = { 0 };
    bool good = false;

    if (!read_whole(header, sizeof header) ||
        frame_read(header, sizeof header, GATE_FRAME_MAX, &f) < 0 ||
        f.type != SECRETS_CONFIG)
        return false;
    buffer = malloc(f.len + 1);
    if (buffer && read_whole(buffer, f.len))
        good = take_secrets(p, &(struct unpack){ .data = buffer, .len = f.len });
    if (buffer)
        gnutls_memset(buffer, 0, f.len);
    free(buffer);
    return good;
}

/* The authority's certificate, or what is wrong. */
static bool tell_owner(const char *pem, const char *wrong)
{
    struct pack p = { 0 };
    uint8_t header[WIRE_HEADER];
    bool good = false;

    pack_text(&p, pem);
    pack_text(&p, wrong);
    frame_write_header(
        header, &(struct frame){ .type = SECRETS_READY, .len = (uint32_t)p.len });
    good = !p.bad && write(OWNER_FD, header, sizeof header) == sizeof header &&
           write(OWNER_FD, p.data, p.len) == (ssize_t)p.len;
    pack_done(&p);
    return good;
}

static bool start(struct program *p)
{
    auto_str struct str pem = { 0 }, wrong = { 0 };
    const struct confinement to = { .descriptors = 64 + 2 * SECRETS_CONNECTIONS,
                                    .calls = confine_tls_calls,
                                    .count = confine_tls_call_count };

    (void)syscall(SYS_close_range, GATE_FD + 1, ~0u, 0);
    (void)prctl(PR_SET_DUMPABLE, 0);
    (void)setrlimit(RLIMIT_CORE, &(struct rlimit){ 0, 0 });
    (void)prctl(PR_SET_NAME, "vial-secrets");
    (void)signal(SIGPIPE, SIG_IGN);
    if (!read_config(p))
        str_puts(&wrong, "a value is not 8 to 4096 printable characters");
    else if (authority_believe(&p->held, &wrong) == 0)
        p->held.authority = authority_new(&pem);
    if (!p->held.authority || wrong.len || confine_to(&to) < 0) {
        (void)tell_owner("", wrong.len ? wrong.data : "it cannot be confined");
        return false;
    }
    if (!tell_owner(pem.data, ""))
        return false;
    (void)close(OWNER_FD);
    return true;
}

/* A connection, and the two descriptors that come with it. */
static bool receive(struct program *p, struct secrets_hand *hand, int fds[2])
{
    _Alignas(struct cmsghdr) char room[CMSG_SPACE(2 * sizeof(int))];
    struct iovec iov = { hand, sizeof *hand };
    struct msghdr m = { .msg_iov = &iov,
                        .msg_iovlen = 1,
                        .msg_control = room,
                        .msg_controllen = sizeof room };
    ssize_t n = recvmsg(GATE_FD, &m, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    const struct cmsghdr *c = n > 0 ? CMSG_FIRSTHDR(&m) : NULL;

    p->gate_gone = n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR);
    if (!c || c->cmsg_type != SCM_RIGHTS || c->cmsg_len != CMSG_LEN(2 * sizeof(int)))
        return false;
    memcpy(fds, CMSG_DATA(c), 2 * sizeof(int));
    return n == sizeof *hand;
}

static void say_verdict(uint32_t id, enum gate_verdict verdict)
{
    const struct secrets_word word = { id, verdict };

    if (verdict != GATE_OK)
        (void)send(GATE_FD, &word, sizeof word, MSG_DONTWAIT | MSG_NOSIGNAL);
}

static void take_connection(struct program *p)
{
    struct secrets_hand hand = { 0 };
    int fds[2] = { -1, -1 };
    struct exchange *e = NULL;

    if (receive(p, &hand, fds) && p->count < SECRETS_CONNECTIONS)
        e = exchange_new(&p->held, &hand, fds[0], fds[1]);
    if (e) {
        p->exchanges[p->count++] = e;
        return;
    }
    if (fds[0] < 0)
        return;
    say_verdict(hand.id, GATE_LIMIT);
    (void)close(fds[0]);
    (void)close(fds[1]);
}

static bool turn_all(struct program *p)
{
    bool more = false;
    size_t kept = 0;

    for (size_t i = 0; i < p->count; i++) {
        struct exchange *e = p->exchanges[i];
        bool goes_on = exchange_turn(e, &more);
        uint32_t id = 0;
        enum gate_verdict verdict = exchange_verdict(e, &id);

        say_verdict(id, verdict); /* before the gate sees its end */
        if (goes_on)
            p->exchanges[kept++] = e;
        else
            exchange_free(e);
    }
    p->count = kept;
    return more;
}

static int time_left_ms(const struct program *p, bool more)
{
    uint64_t wake = UINT64_MAX, now = now_ns();

    for (size_t i = 0; i < p->count; i++) {
        uint64_t at = exchange_deadline_ns(p->exchanges[i]);

        wake = at < wake ? at : wake;
    }
    if (more)
        return 0;
    if (wake == UINT64_MAX)
        return -1;
    return wake <= now ? 0 : (int)((wake - now) / 1000000 + 1);
}

static void serve(struct program *p)
{
    struct pollfd waits[1 + 2 * SECRETS_CONNECTIONS];
    bool more = false;

    while (!p->gate_gone) {
        nfds_t n = 0;

        waits[n++] = (struct pollfd){ .fd = GATE_FD, .events = POLLIN };
        for (size_t i = 0; i < p->count; i++) {
            int fds[2];
            short events[2];

            exchange_waits(p->exchanges[i], fds, events);
            waits[n++] = (struct pollfd){ .fd = fds[0], .events = events[0] };
            waits[n++] = (struct pollfd){ .fd = fds[1], .events = events[1] };
        }
        if (poll(waits, n, time_left_ms(p, more)) < 0 && errno != EINTR)
            return;
        if (waits[0].revents & POLLIN)
            take_connection(p);
        else if (waits[0].revents)
            p->gate_gone = true;
        more = turn_all(p);
    }
}

/* When the gate is gone, so are we. */
int main(void)
{
    struct program *p = calloc(1, sizeof *p);

    if (!p || !start(p))
        return 1;
    serve(p);
    _exit(0); /* nothing is to be done any more, and little is allowed */
}
