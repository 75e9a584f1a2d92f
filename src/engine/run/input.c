/* SPDX-License-Identifier: Apache-2.0 */

/* The program's stdin: the request's bytes, or the caller's descriptor. Either
 * is sent only within credit, so that a program which does not read costs no
 * memory. */

#include <errno.h>
#include <unistd.h>

#include "base/fail.h"
#include "engine/run/run.h"

bool input_is_live(const struct run *r)
{
    return r->watch->stdin_fd >= 0;
}

void input_end(struct run *r)
{
    r->stdin_ended = true;
    loop_set(&r->talk.loop, r->stdin_slot, -1, 0);
}

static void feed_data(struct run *r)
{
    const struct blob *data = &r->plan->stdin_data;
    size_t left = data->len - r->stdin_sent;
    size_t room = link_writable(r->talk.link, r->exec_channel);
    size_t n = left < room ? left : room;

    if (n > 0)
        link_send(r->talk.link, r->exec_channel, data->data + r->stdin_sent, n);
    r->stdin_sent += n;
    if (r->stdin_sent == data->len) {
        link_send_eof(r->talk.link, r->exec_channel);
        input_end(r);
    }
}

void input_feed(struct run *r)
{
    if (r->stdin_ended || run_is_compiling(r))
        return;
    if (!input_is_live(r))
        feed_data(r);
    else if (link_writable(r->talk.link, r->exec_channel) > 0)
        loop_set(&r->talk.loop, r->stdin_slot, r->watch->stdin_fd, POLLIN);
}

/* A program that took half its input for all of it would end well, with a wrong answer.
 */
static void give_up(struct run *r)
{
    struct vial_error err;

    (void)fail_sys(&err, "read the program's standard input");
    (void)fail_as(&err, VIAL_E_FILE);
    (void)fail_remedy(&err, "give it a file or a pipe, or '</dev/null'");
    run_fail(r, RUN_FAILED, &err);
}

void input_read(struct run *r)
{
    size_t room = link_writable(r->talk.link, r->exec_channel);
    ssize_t n;

    if (room == 0) { /* not even watched for its end until there is room */
        loop_set(&r->talk.loop, r->stdin_slot, -1, 0);
        return;
    }
    n = read(r->watch->stdin_fd, r->talk.buffer,
             room < r->talk.buffer_size ? room : r->talk.buffer_size);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n > 0) {
        link_send(r->talk.link, r->exec_channel, r->talk.buffer, (size_t)n);
        conversation_grow(&r->talk, (size_t)n);
        return;
    }
    /* nohup(1) leaves a descriptor that can only be written: there is no input. */
    if (n < 0 && errno != EBADF) {
        give_up(r);
        return;
    }
    link_send_eof(r->talk.link, r->exec_channel);
    input_end(r);
}
