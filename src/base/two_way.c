/* SPDX-License-Identifier: Apache-2.0 */
#include "base/two_way.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/clock.h"

#define PIECE     (64u << 10)
#define LINGER_MS 60000
#define TELL_NS   INT64_C(1000000000)

/* One way: what was read of its sender, and is not written yet. */
struct way {
    char *bytes;
    size_t at, len;
    bool ended; /* its sender has no more */
    bool over;  /* and its receiver was told */
};

struct passing {
    const struct two_way *w;
    struct way ways[2]; /* from ends[0], from ends[1] */
    bool broken;
    int64_t told_ns;
};

static void receive(struct passing *p, int i)
{
    struct way *way = &p->ways[i];
    ssize_t n = recv(p->w->ends[i], way->bytes, PIECE, MSG_DONTWAIT);

    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    way->ended = n == 0;
    p->broken = p->broken || n < 0;
    way->at = 0;
    way->len = n > 0 ? (size_t)n : 0;
}

static void deliver(struct passing *p, int i)
{
    struct way *way = &p->ways[i];
    int64_t now = clock_now_ns();
    ssize_t n;

    n = send(p->w->ends[1 - i], way->bytes + way->at, way->len,
             MSG_DONTWAIT | MSG_NOSIGNAL);
    if (n < 0 && errno != EAGAIN && errno != EINTR)
        p->broken = true;
    if (n <= 0)
        return;
    way->at += (size_t)n;
    way->len -= (size_t)n;
    if (p->w->used && now - p->told_ns > TELL_NS) {
        p->told_ns = now;
        p->w->used(p->w->context);
    }
}

static void end_if_over(struct passing *p, int i)
{
    struct way *way = &p->ways[i];

    if (!way->ended || way->len || way->over)
        return;
    way->over = true;
    (void)shutdown(p->w->ends[1 - i], SHUT_WR);
}

/* An end of which nothing is wanted is not looked at: one that has hung up would be
 * told again and again. */
static struct pollfd wanted(const struct passing *p, int i)
{
    const struct way *from = &p->ways[i];
    const struct way *to = &p->ways[1 - i];
    short events = 0;

    if (!from->ended && !from->len)
        events |= POLLIN;
    if (to->len)
        events |= POLLOUT;
    return (struct pollfd){ .fd = events ? p->w->ends[i] : -1, .events = events };
}

static void pass(struct passing *p)
{
    while (!p->broken && !(p->ways[0].over && p->ways[1].over)) {
        struct pollfd fds[3] = { wanted(p, 0),
                                 wanted(p, 1),
                                 { .fd = p->w->stop_fd, .events = POLLIN } };
        bool half = p->ways[0].over || p->ways[1].over;
        int n = poll(fds, 3, half ? LINGER_MS : -1);

        if ((n < 0 && errno != EINTR) || n == 0 || fds[2].revents)
            return;
        for (int i = 0; n > 0 && i < 2; i++) {
            if (fds[i].revents && !p->ways[i].ended && !p->ways[i].len)
                receive(p, i);
            if (p->ways[i].len && !p->broken)
                deliver(p, i);
            end_if_over(p, i);
        }
    }
}

/* There is never more of it than a piece: it came with a head. */
static bool begin(struct way *way, const void *first, size_t len)
{
    way->bytes = malloc(PIECE);
    if (!way->bytes || len > PIECE)
        return false;
    if (len)
        memcpy(way->bytes, first, len);
    way->len = len;
    return true;
}

void two_way_run(const struct two_way *w)
{
    struct passing p = { .w = w, .told_ns = clock_now_ns() };

    if (begin(&p.ways[0], w->first, w->first_len) &&
        begin(&p.ways[1], w->back, w->back_len))
        pass(&p);
    free(p.ways[0].bytes);
    free(p.ways[1].bytes);
}
