/* SPDX-License-Identifier: Apache-2.0 */
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "base/fail.h"
#include "base/text.h"
#include "e2b/builds.h"

#define PIECE   ((size_t)16 << 10)
#define PRINTED ((size_t)4 << 10) /* bytes that are kept where nobody reads them */
#define FEED_MS 60000

/* What a file has goes to the program, as fast as it takes it. One that does not want
 * all of it says by its end why; one that neither reads nor ends is ended: false. */
static bool feed(struct vial_exec *exec, const struct build_program *p)
{
    int64_t patience_ms = p->patience_ms ? p->patience_ms : FEED_MS;
    struct vial_error ignored = { 0 };
    char buf[PIECE];
    size_t taken = 1;
    off_t at = 0;
    ssize_t got;

    while (taken > 0 && (got = pread(p->input, buf, sizeof(buf), at)) > 0) {
        if (vial_exec_write(exec, buf, (size_t)got, patience_ms, &taken, &ignored) < 0)
            return true;
        at += (off_t)taken;
    }
    if (taken == 0)
        (void)!vial_exec_signal(exec, SIGKILL, true, &ignored);
    else
        (void)!vial_exec_close_stdin(exec, &ignored);
    return taken > 0;
}

/* Lines that are whole; the rest stays. */
static void say(struct build *b, struct str *held, bool all)
{
    size_t len = held->len;

    while (!all && len > 0 && held->data[len - 1] != '\n')
        len--;
    if (len == 0 && held->len < PRINTED)
        return;
    len = len ? len : held->len;
    build_say(b, "info", held->data, len);
    memmove(held->data, held->data + len, held->len - len);
    held->len -= len;
}

static void take(const struct build_program *p, struct str *held, const char *data,
                 size_t len)
{
    if (p->log) {
        str_add(held, data, len);
        if (!held->failed)
            say(p->log, held, false);
    } else if (p->printed && p->printed->len < PRINTED) {
        size_t room = PRINTED - p->printed->len;

        str_add(p->printed, data, len < room ? len : room);
    }
}

/* All that it prints, until it and those that have its output have ended. */
static void listen_to(struct vial_exec *exec, const struct build_program *p)
{
    const uint64_t from[2] = { 0, UINT64_MAX };
    auto_str struct str held = { 0 };
    struct vial_error ignored = { 0 };
    struct vial_chunk chunk = { 0 };
    char buf[PIECE];

    vial_exec_follow(exec, from);
    while (!chunk.end && vial_exec_read(exec, 1, chunk.offset + chunk.len, buf,
                                        sizeof(buf), -1, &chunk, &ignored) == 0)
        take(p, &held, buf, chunk.len);
    vial_exec_unfollow(exec);
    if (p->log && held.len > 0)
        say(p->log, &held, true);
}

static int judge(const struct vial_exec_status *s, struct str *why)
{
    if (s->verdict == VIAL_OK)
        return 0;
    if (s->verdict == VIAL_NONZERO)
        str_printf(why, "exit status %d", s->exit_code);
    else if (s->verdict == VIAL_SIGNAL)
        str_printf(why, "a signal ended it: %d", s->signal);
    else if (s->error.code[0])
        str_printf(why, "%s%s%s", s->error.message, s->error.cause[0] ? ": " : "",
                   s->error.cause);
    else
        str_printf(why, "%s", vial_verdict_name(s->verdict));
    return -1;
}

int build_program(struct box *box, const struct build_program *p, struct str *why)
{
    const struct vial_exec_options o = { .argv = p->argv,
                                         .env = p->env,
                                         .cwd = p->cwd,
                                         .stdin_live = p->input >= 0,
                                         .as_root = p->root };
    struct vial_exec_status status = { 0 };
    struct vial_exec *exec = NULL;
    struct vial_error err = { 0 };
    bool reads = true;
    int rc;

    if (vial_session_exec(box_session(box), &o, &exec, &err) < 0) {
        str_puts(why, err.message);
        return -1;
    }
    if (p->input >= 0)
        reads = feed(exec, p);
    listen_to(exec, p);
    vial_exec_wait(exec, -1, &status);
    if (!reads)
        str_puts(why, "it does not read what is copied: ");
    rc = judge(&status, why);
    vial_exec_free(exec);
    return rc;
}
