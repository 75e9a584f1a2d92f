/* SPDX-License-Identifier: Apache-2.0 */
#include "batch/lines.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fail.h"

#define PIECE ((size_t)64 << 10)

/* Room for another piece behind what is there. */
static int make_room(struct lines *l, struct vial_error *err)
{
    size_t held = l->len - l->at;
    char *grown;

    if (l->at) {
        memmove(l->data, l->data + l->at, held);
        l->at = 0;
        l->len = held;
    }
    if (l->cap - held >= PIECE)
        return 0;
    grown = realloc(l->data, 2 * l->cap + PIECE);
    if (!grown)
        return fail_memory(err);
    l->data = grown;
    l->cap = 2 * l->cap + PIECE;
    return 0;
}

/* 1: there is more; 0: there is not. */
static int read_more(struct lines *l, struct vial_error *err)
{
    struct pollfd fds[] = { { .fd = l->fd, .events = POLLIN },
                            { .fd = l->cancel_fd, .events = POLLIN } };
    ssize_t got;

    if (make_room(l, err) < 0)
        return -1;
    while (poll(fds, 2, -1) < 0)
        if (errno != EINTR)
            return fail_sys(err, "wait for a line");
    if (fds[1].revents)
        return 0;
    got = read(l->fd, l->data + l->len, l->cap - l->len);
    if (got < 0)
        return errno == EINTR || errno == EAGAIN ? 1 : fail_sys(err, "read the batch");
    if (l->hash && got > 0)
        sha256_add(l->hash, l->data + l->len, (size_t)got);
    l->len += (size_t)got;
    l->ended = got == 0;
    return got > 0;
}

static int give(struct lines *l, size_t len, size_t taken, const char **text,
                size_t *out)
{
    *text = l->data + l->at;
    *out = len;
    l->at += taken;
    l->number++;
    return 1;
}

/* What is left of a line that was too long. */
static int skip_rest(struct lines *l, struct vial_error *err)
{
    int more = 1;

    while (l->skips && more > 0) {
        const char *start = l->data + l->at;
        const char *end = memchr(start, '\n', l->len - l->at);

        l->at = end ? (size_t)(end - l->data) + 1 : l->len;
        l->skips = !end;
        if (!end)
            more = l->ended ? 0 : read_more(l, err);
    }
    return more;
}

int lines_next(struct lines *l, const char **text, size_t *len, struct vial_error *err)
{
    size_t looked = 0;
    int more = skip_rest(l, err);

    while (more > 0) {
        size_t held = l->len - l->at;
        const char *start = held ? l->data + l->at : NULL;
        const char *end =
            held > looked ? memchr(start + looked, '\n', held - looked) : NULL;

        if (end)
            return give(l, (size_t)(end - start), (size_t)(end - start) + 1, text, len);
        if (held > LINES_MOST) {
            l->skips = true;
            return give(l, held, held, text, len);
        }
        looked = held;
        more = l->ended ? 0 : read_more(l, err);
    }
    if (more == 0 && l->ended && l->len > l->at)
        return give(l, l->len - l->at, l->len - l->at, text, len);
    return more;
}

void lines_done(struct lines *l)
{
    free(l->data);
}
