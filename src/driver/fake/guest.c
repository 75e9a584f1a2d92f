/* SPDX-License-Identifier: Apache-2.0 */

/* The fake guest: a child that answers the host as its arguments say. It does
 * one thing at a time, so credit is awaited where it is needed.
 *
 * It is forked from a process with threads, and was not executed: a lock that one of
 * those held stays locked in it for ever. So it never allocates; a sanitizer's malloc
 * has such locks, and nobody who resets them in a child. */

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/io.h"
#include "base/str.h"
#include "base/sys.h"
#include "driver/fake/fake.h"
#include "wire/frame.h"
#include "wire/message.h"

#define BLOCK      (32u << 10)
#define STREAM_FD  3
#define PACKED_MAX 256
#define ECHO_MAX   (16u << 20)
#define GROWN_KIB  (65ul << 10)

struct guest {
    int fd;
    uint8_t buf[WIRE_MAX_TO_GUEST + WIRE_HEADER];
    size_t len, used;                /* of buf; USED bytes are the frame in hand */
    uint8_t kept[WIRE_MAX_TO_GUEST]; /* a payload, while further frames are heard */
    uint8_t echoed[ECHO_MAX];
    uint32_t channel; /* of the exec or transfer in hand */
    uint32_t credit;  /* on its stream 1 */
    struct exit_message exit;
    bool started;
    uint64_t listed; /* how often */
    char made[64];   /* a file's name, or "" */
    bool grown, put_once;
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

/* Ours, and none of the heap's. */
#define small_pack()                                                                   \
    {                                                                                  \
        .data = (uint8_t[PACKED_MAX]){ 0 }, .cap = PACKED_MAX, .lent = true            \
    }

static void say_packed(struct guest *g, enum wire_type type, const struct pack *p)
{
    if (!p->lent)
        _exit(1);
    say(g, type, 0, p->data, p->len);
}

static void say_number(struct guest *g, enum wire_type type, uint32_t number)
{
    struct pack p = small_pack();

    pack_u32(&p, number);
    say_packed(g, type, &p);
}

static void say_done(struct guest *g, int error)
{
    struct pack p = small_pack();

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

/* The payload stays what it is while other frames come. */
static struct unpack keep(struct guest *g, const struct frame *f)
{
    memcpy(g->kept, f->payload, f->len);
    return (struct unpack){ .data = g->kept, .len = f->len };
}

/* The next text of what is kept, ended by a NUL: it takes the place of its length. */
static char *next_text(struct guest *g, struct unpack *u)
{
    size_t len = 0;
    const uint8_t *bytes = unpack_bytes(u, &len);
    char *text = NULL;

    if (u->bad)
        _exit(1);
    text = (char *)g->kept + (bytes - g->kept) - 1;
    memmove(text, bytes, len);
    text[len] = '\0';
    return text;
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
    struct frame f;
    size_t len = 0;

    start_program(g);
    while ((f = hear(g)).type != WIRE_EOF) {
        if (f.type != WIRE_DATA)
            continue;
        if (f.len > sizeof g->echoed - len)
            _exit(1);
        memcpy(g->echoed + len, f.payload, f.len);
        len += f.len;
        say_number(g, WIRE_CREDIT_, f.len);
    }
    for (size_t at = 0; at < len;) {
        size_t n = len - at < BLOCK ? len - at : BLOCK;

        (void)await_credit(g, BLOCK);
        say(g, WIRE_DATA, 1, g->echoed + at, n);
        g->credit -= (uint32_t)n;
        at += n;
    }
}

static void end(struct guest *g, enum exit_kind kind, const char *value)
{
    struct pack p = small_pack();

    g->exit.kind = kind;
    g->exit.value = (uint32_t)strtoul(value, NULL, 10);
    exit_write(&p, &g->exit);
    say_packed(g, WIRE_EXIT, &p);
}

/* The step that TEXT begins with, by its name before a colon. */
static uint32_t step_of(const char *text)
{
    size_t len = strcspn(text, ":");
    uint32_t step = STEP_FORK;

    while (step < STEP_EXEC && (strlen(exec_step_name(step)) != len ||
                                strncmp(exec_step_name(step), text, len) != 0))
        step++;
    return step;
}

static void fail_exec(struct guest *g, const char *text)
{
    struct pack p = small_pack();
    const char *colon = strchr(text, ':');

    pack_u32(&p, step_of(text));
    pack_u32(&p, (uint32_t)strtoul(colon ? colon + 1 : "", NULL, 10));
    say_packed(g, WIRE_FAILED, &p);
}

/* Answers nobody, though it listens: a full pipe must not be what hangs. */
_Noreturn static void hang(struct guest *g)
{
    start_program(g);
    for (;;)
        (void)hear(g);
}

/* Nobody dies of a signal here. */
static void trap(struct guest *g, const char *value)
{
    start_program(g);
    while (hear(g).type != WIRE_SIGNAL)
        ;
    end(g, EXIT_CODE, value);
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
    } else if (str_starts(word, "trap:")) {
        trap(g, value);
    } else if (str_starts(word, "make:")) {
        (void)snprintf(g->made, sizeof g->made, "%s", value);
    } else if (str_starts(word, "failed:")) {
        fail_exec(g, value);
    } else if (str_starts(word, "raw:")) {
        (void)io_write_all(g->fd, value, strlen(value));
    } else {
        obey_word(g, word);
    }
}

/* Of the message only argv counts, its first part. */
static void on_exec(struct guest *g, const struct frame *f)
{
    struct unpack u = keep(g, f);
    uint32_t count = unpack_u32(&u);

    g->started = false;
    g->exit = (struct exit_message){ .user_us = 5000, .max_rss_bytes = 4096 };
    for (uint32_t i = 0; i < count; i++) {
        const char *word = next_text(g, &u);

        if (i > 0)
            obey(g, word);
    }
}

static void say_file(struct guest *g, const char *name)
{
    char content[300];
    int len = snprintf(content, sizeof content, "content of %s", name);

    if (len < 0 || (size_t)len >= sizeof content)
        _exit(1);
    say(g, WIRE_DATA, 1, content, (size_t)len);
    say(g, WIRE_EOF, 1, NULL, 0);
    say_done(g, 0);
}

static void on_get(struct guest *g, const struct frame *f)
{
    struct unpack u = keep(g, f);
    const char *path = next_text(g, &u);

    if (str_eq(path, "stuck"))
        hang(g);
    if (str_eq(path, "missing"))
        say_done(g, ENOENT);
    else if (str_eq(path, "link"))
        say_done(g, ELOOP);
    else if (str_eq(path, "busy"))
        say_done(g, EIO);
    else if (str_eq(path, "endless") || str_eq(path, "liar/endless.png")) {
        flood(g, 1ul << 30); /* until the host closes the channel */
        say_done(g, 0);
    } else if (str_eq(path, "growing") && g->grown) {
        flood(g, GROWN_KIB);
        say(g, WIRE_EOF, 1, NULL, 0);
        say_done(g, 0);
    } else {
        g->grown = g->grown || str_eq(path, "growing");
        say_file(g, path);
    }
}

static void say_entries(struct guest *g, const struct list_entry *files, size_t count)
{
    struct pack p = small_pack();

    for (size_t i = 0; i < count; i++)
        list_entry_write(&p, &files[i]);
    if (!p.lent)
        _exit(1);
    if (count > 0)
        say(g, WIRE_DATA, 1, p.data, p.len);
    say(g, WIRE_EOF, 1, NULL, 0);
    say_done(g, 0);
}

/* Of "liar": two files, one of which has more than it says. They differ each time. */
static void on_list(struct guest *g, const struct frame *f)
{
    struct unpack u = keep(g, f);
    char endless[] = "endless.png", other[] = "other";
    struct list_entry files[] = {
        { .name = endless, .type = 'f', .size = 1 },
        { .name = other, .type = 'f', .size = strlen("content of liar/other") },
    };
    const struct list_entry made = { .name = g->made, .type = 'f', .size = 1 };
    const char *path = next_text(g, &u);

    files[0].mtime_ns = files[1].mtime_ns = ++g->listed;
    if (str_eq(path, "liar"))
        say_entries(g, files, 2);
    else if (!*path)
        say_entries(g, &made, g->made[0] ? 1 : 0);
    else
        say_done(g, ENOENT);
}

/* Begun; then, asked for or not, a change of attributes and a new file. */
static void on_watch(struct guest *g)
{
    static const struct {
        char kind;
        const char *path;
    } told[] = { { 's', "" }, { 'a', "old" }, { 'c', "new" } };
    struct pack p = small_pack();

    for (size_t i = 0; i < sizeof told / sizeof *told; i++) {
        pack_u32(&p, (uint32_t)told[i].kind);
        pack_text(&p, told[i].path);
        pack_text(&p, "");
    }
    if (!p.lent)
        _exit(1);
    say(g, WIRE_DATA, 1, p.data, p.len);
}

static void on_put(struct guest *g, const struct frame *f)
{
    struct unpack u = keep(g, f);
    const char *path = next_text(g, &u);
    bool again = str_eq(path, "once") && g->put_once;

    if (str_eq(path, "refused") || again) {
        say_done(g, again ? EEXIST : ENOSPC);
        return;
    }
    g->put_once = g->put_once || str_eq(path, "once");
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
    struct guest *g = mmap(NULL, sizeof *g, PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    if (g == MAP_FAILED)
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
        else if (f.type == WIRE_LIST)
            on_list(g, &f);
        else if (f.type == WIRE_WATCH)
            on_watch(g);
        else if (f.type == WIRE_STOP)
            _exit(0);
    }
}
