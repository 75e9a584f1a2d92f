/* SPDX-License-Identifier: Apache-2.0 */

/* The fake guest: a child that answers the host as its arguments say. It does
 * one thing at a time, so credit is awaited where it is needed. */

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/io.h"
#include "base/str.h"
#include "base/sys.h"
#include "driver/fake/fake.h"
#include "wire/frame.h"

#define BLOCK     (32u << 10)
#define STREAM_FD 3

struct guest {
    int fd;
    uint8_t buf[WIRE_MAX_TO_GUEST + WIRE_HEADER];
    size_t len, used; /* of buf; USED bytes are the frame in hand */
    uint32_t channel; /* of the exec or transfer in hand */
    uint32_t credit;  /* on its stream 1 */
    struct exit_message exit;
    bool started;
};

static void say(struct guest *g, enum wire_type type, int stream, const void *data,
                size_t len)
{
    const struct frame f = { .channel = type == WIRE_HELLO ? 0 : g->channel,
                             .type = (uint8_t)type,
                             .stream = (uint8_t)stream,
                             .len = (uint32_t)len };
    uint8_t header[WIRE_HEADER];

    frame_write_header(header, &f);
    if (io_write_all(g->fd, header, sizeof header) < 0 ||
        io_write_all(g->fd, data, len) < 0)
        _exit(1);
}

static void say_packed(struct guest *g, enum wire_type type, struct pack *p)
{
    say(g, type, 0, p->data, p->len);
    pack_done(p);
}

static void say_number(struct guest *g, enum wire_type type, uint32_t number)
{
    struct pack p = { 0 };

    pack_u32(&p, number);
    say_packed(g, type, &p);
}

static void say_done(struct guest *g, int error)
{
    struct pack p = { 0 };

    pack_u32(&p, (uint32_t)error);
    pack_text(&p, "");
    say_packed(g, WIRE_DONE, &p);
}

/* Waits for the next frame. */
static struct frame hear(struct guest *g)
{
    struct frame f;
    long size;

    memmove(g->buf, g->buf + g->used, g->len - g->used);
    g->len -= g->used;
    while ((size = frame_read(g->buf, g->len, WIRE_MAX_TO_GUEST, &f)) == 0) {
        ssize_t n = read(g->fd, g->buf + g->len, sizeof g->buf - g->len);

        if (n <= 0)
            _exit(0);
        g->len += (size_t)n;
    }
    if (size < 0)
        _exit(1);
    g->used = (size_t)size;
    return f;
}

static void start_program(struct guest *g)
{
    if (!g->started)
        say_number(g, WIRE_STARTED, 42);
    g->started = true;
}

static void print(struct guest *g, int stream, const char *text)
{
    start_program(g);
    say(g, WIRE_DATA, stream, text, strlen(text));
    if (stream == 1)
        g->credit -= (uint32_t)strlen(text);
}

/* False when the host wants no more. */
static bool await_credit(struct guest *g, uint32_t wanted)
{
    while (g->credit < wanted) {
        struct frame f = hear(g);
        struct unpack u = { .data = f.payload, .len = f.len };

        if (f.type == WIRE_CLOSE)
            return false;
        if (f.type == WIRE_CREDIT_ && f.stream == 1)
            g->credit += unpack_u32(&u);
    }
    return true;
}

static void flood(struct guest *g, unsigned long kib)
{
    char block[BLOCK];

    memset(block, 'x', sizeof block);
    while (kib > 0 && await_credit(g, BLOCK)) {
        size_t n = kib * 1024 < BLOCK ? kib * 1024 : BLOCK;

        say(g, WIRE_DATA, 1, block, n);
        g->credit -= (uint32_t)n;
        kib -= n / 1024;
    }
}

/* The stream ends, and yet there is more. */
static void undead(struct guest *g)
{
    start_program(g);
    say(g, WIRE_EOF, 1, NULL, 0);
    say(g, WIRE_DATA, 1, "x", 1);
}

/* Stdin comes back in one piece at its end; grants keep it coming. */
static void echo(struct guest *g)
{
    struct str all = { 0 };
    struct frame f;

    start_program(g);
    while ((f = hear(g)).type != WIRE_EOF) {
        if (f.type != WIRE_DATA)
            continue;
        str_add(&all, f.payload, f.len);
        say_number(g, WIRE_CREDIT_, f.len);
    }
    for (size_t at = 0; at < all.len;) {
        size_t n = all.len - at < BLOCK ? all.len - at : BLOCK;

        (void)await_credit(g, BLOCK);
        say(g, WIRE_DATA, 1, all.data + at, n);
        g->credit -= (uint32_t)n;
        at += n;
    }
    str_done(&all);
}

static void end(struct guest *g, enum exit_kind kind, const char *value)
{
    struct pack p = { 0 };

    g->exit.kind = kind;
    g->exit.value = (uint32_t)strtoul(value, NULL, 10);
    exit_write(&p, &g->exit);
    say_packed(g, WIRE_EXIT, &p);
}

static void fail_exec(struct guest *g, const char *text)
{
    struct pack p = { 0 };
    char *rest;

    pack_u32(&p, (uint32_t)strtoul(text, &rest, 10));
    pack_u32(&p, (uint32_t)strtoul(*rest ? rest + 1 : rest, NULL, 10));
    say_packed(g, WIRE_FAILED, &p);
}

/* Answers nobody, though it listens: a full pipe must not be what hangs. */
_Noreturn static void hang(struct guest *g)
{
    start_program(g);
    for (;;)
        (void)hear(g);
}

static void obey_word(struct guest *g, const char *word)
{
    if (str_eq(word, "undead"))
        undead(g);
    else if (str_eq(word, "echo"))
        echo(g);
    else if (str_eq(word, "early"))
        end(g, EXIT_CODE, "0");
    else if (str_eq(word, "full"))
        g->exit.disk_full = 1;
    else if (str_eq(word, "late"))
        g->exit.timed_out = 1;
    else if (str_eq(word, "hang"))
        hang(g);
    else if (str_eq(word, "die"))
        _exit(3);
}

static void obey(struct guest *g, const char *word)
{
    const char *colon = strchr(word, ':');
    const char *value = colon ? colon + 1 : "";

    if (str_starts(word, "out:")) {
        print(g, 1, value);
    } else if (str_starts(word, "err:")) {
        print(g, 2, value);
    } else if (str_starts(word, "flood:")) {
        start_program(g);
        flood(g, strtoul(value, NULL, 10));
    } else if (str_starts(word, "exit:")) {
        start_program(g);
        end(g, EXIT_CODE, value);
    } else if (str_starts(word, "signal:")) {
        start_program(g);
        end(g, EXIT_SIGNAL, value);
    } else if (str_starts(word, "failed:")) {
        fail_exec(g, value);
    } else if (str_starts(word, "raw:")) {
        (void)io_write_all(g->fd, value, strlen(value));
    } else {
        obey_word(g, word);
    }
}

static void on_exec(struct guest *g, const struct frame *f)
{
    struct unpack u = { .data = f->payload, .len = f->len };
    struct exec_message m = { 0 };

    if (exec_read(&u, &m) < 0)
        _exit(1);
    g->started = false;
    g->exit = (struct exit_message){ .user_us = 5000, .max_rss_bytes = 4096 };
    for (size_t i = 1; m.argv[i]; i++)
        obey(g, m.argv[i]);
    exec_done(&m);
}

static void on_get(struct guest *g, const struct frame *f)
{
    struct unpack u = { .data = f->payload, .len = f->len };
    struct get_message m = { 0 };
    struct str content = { 0 };

    if (get_read(&u, &m) < 0)
        _exit(1);
    if (str_eq(m.path, "stuck"))
        hang(g);
    str_printf(&content, "content of %s", m.path);
    if (str_eq(m.path, "missing"))
        say_done(g, ENOENT);
    else if (str_eq(m.path, "link"))
        say_done(g, ELOOP);
    else if (str_eq(m.path, "busy"))
        say_done(g, EIO);
    else if (str_eq(m.path, "endless")) {
        flood(g, 1ul << 30); /* until the host closes the channel */
        say_done(g, 0);
    } else {
        say(g, WIRE_DATA, 1, content.data, content.len);
        say(g, WIRE_EOF, 1, NULL, 0);
        say_done(g, 0);
    }
    str_done(&content);
    free(m.path);
}

static void on_put(struct guest *g, const struct frame *f)
{
    struct unpack u = { .data = f->payload, .len = f->len };
    struct put_message m = { 0 };
    bool refused;

    if (put_read(&u, &m) < 0)
        _exit(1);
    refused = str_eq(m.path, "refused");
    free(m.path);
    if (refused) {
        say_done(g, ENOSPC);
        return;
    }
    for (;;) {
        struct frame next = hear(g);

        if (next.type == WIRE_EOF)
            break;
        if (next.type == WIRE_DATA)
            say_number(g, WIRE_CREDIT_, next.len);
    }
    say_done(g, 0);
}

_Noreturn void fake_guest(int fd)
{
    struct guest *g = calloc(1, sizeof *g);

    if (!g)
        _exit(1);
    /* It was not executed, so that it holds what the caller has open. */
    if (dup2(fd, STREAM_FD) < 0 || sys_close_range(STREAM_FD + 1, ~0u) < 0)
        _exit(1);
    g->fd = STREAM_FD;
    say_number(g, WIRE_HELLO, WIRE_VERSION);
    for (;;) {
        struct frame f = hear(g);

        g->channel = f.channel;
        g->credit = WIRE_CREDIT;
        if (f.type == WIRE_EXEC)
            on_exec(g, &f);
        else if (f.type == WIRE_GET)
            on_get(g, &f);
        else if (f.type == WIRE_PUT)
            on_put(g, &f);
    }
}
